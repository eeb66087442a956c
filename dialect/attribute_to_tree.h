/* Attributes of MLIR as trees of nabla/attribute_tree.h. */
#ifndef NABLA_DIALECT_ATTRIBUTE_TO_TREE_H
#define NABLA_DIALECT_ATTRIBUTE_TO_TREE_H

#include <mlir-c/IR.h>

#include "lib/base/attribute_tree.h"

/* Makes a tree of bools, integers of at most 64 bits, floats, strings, arrays
 * and dictionaries; also of dense arrays (array<i64: 1, 2>).
 * @return NULL, or what cannot be made one: static text */
const char *nabla_attribute_to_tree(MlirAttribute attribute, nabla_arena *arena,
                                    nabla_attribute_tree *out);

#endif
