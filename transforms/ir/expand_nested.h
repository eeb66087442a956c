/* Expansion of operations on nested encodings. */
#ifndef NABLA_TRANSFORMS_IR_EXPAND_NESTED_H
#define NABLA_TRANSFORMS_IR_EXPAND_NESTED_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Expands, inside `root`, the operations that make an implicit array of a
 * nested encoding: a quantize to packed scales or to a lora becomes a quantize
 * of the codes and one of the scales (the base); a materialize of some levels
 * becomes one of the inner component. Returns false after an error was
 * reported. */
bool nabla_nested_expand(MlirOperation root);

#endif
