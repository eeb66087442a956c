/* Nested encodings as the encodings that they are made of. */
#ifndef NABLA_TRANSFORMS_IR_EXPAND_NESTED_H
#define NABLA_TRANSFORMS_IR_EXPAND_NESTED_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Replaces, inside `root`, what makes an implicit array of nested ones: a
 * quantize into packed scales or into a lora becomes a quantize of the codes,
 * and one of the scales (the base); a materialize of some levels becomes one of
 * what is inside. False after an error was reported. */
bool nabla_nested_expand(MlirOperation root);

#endif
