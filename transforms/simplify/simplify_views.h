/* Folds of nabla-simplify for operations that move elements. Each returns
 * whether it replaced the op. */
#ifndef NABLA_TRANSFORMS_SIMPLIFY_SIMPLIFY_VIEWS_H
#define NABLA_TRANSFORMS_SIMPLIFY_SIMPLIFY_VIEWS_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Replaces a view of a view of ... an implicit array by an equal value of the
 * chain, or by one reshape of such a value. Values of one chain with equal
 * types are equal arrays, since the type determines the elements. */
bool nabla_fold_view_chain(MlirOperation op);

bool nabla_fold_slice(MlirOperation op);
bool nabla_fold_broadcasts(MlirOperation op);
bool nabla_fold_split(MlirOperation op);
bool nabla_fold_concatenate(MlirOperation op);
bool nabla_fold_flip(MlirOperation op);
bool nabla_fold_pad(MlirOperation op);

/* Returns whether every dimension of an array is known. */
bool nabla_array_is_static(MlirType type);

#endif
