/* Folds of nabla-simplify for operations that move elements. Each returns
 * whether it replaced the op. */
#ifndef NABLA_TRANSFORMS_SIMPLIFY_SIMPLIFY_VIEWS_H
#define NABLA_TRANSFORMS_SIMPLIFY_SIMPLIFY_VIEWS_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* A view of a view of ... an implicit array: one that the chain already has, or
 * one reshape of one of them. A type says which elements it names, so that
 * equal types of one chain are equal arrays. */
bool nabla_fold_view_chain(MlirOperation op);

bool nabla_fold_slice(MlirOperation op);
bool nabla_fold_broadcasts(MlirOperation op);
bool nabla_fold_split(MlirOperation op);
bool nabla_fold_concatenate(MlirOperation op);
bool nabla_fold_flip(MlirOperation op);
bool nabla_fold_pad(MlirOperation op);

/* Whether every dimension of an array is known. */
bool nabla_array_is_static(MlirType type);

#endif
