/* Folds of nabla-simplify for the ops of NablaMath.td. */
#ifndef NABLA_TRANSFORMS_SIMPLIFY_SIMPLIFY_MATH_H
#define NABLA_TRANSFORMS_SIMPLIFY_SIMPLIFY_MATH_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Each returns whether it replaced `op`. */
typedef bool nabla_fold(MlirOperation op);
/* f(f(x)) = x for neg and not; f(f(x)) = f(x) for abs and rounding ops. */
nabla_fold nabla_fold_inverse, nabla_fold_idempotent;
/* A conversion to the operand's own type; a select of two equal values;
 * maximum, minimum, and, or of a value with itself. */
nabla_fold nabla_fold_convert, nabla_fold_select, nabla_fold_same;

#endif
