/* nabla-simplify's folds of NablaMath.td's ops. */
#ifndef NABLA_TRANSFORMS_SIMPLIFY_SIMPLIFY_MATH_H
#define NABLA_TRANSFORMS_SIMPLIFY_SIMPLIFY_MATH_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Each returns whether it replaced `op`. */
typedef bool nabla_fold(MlirOperation op);
/* f(f(x)) = x of neg and not; f(f(x)) = f(x) of abs and what rounds. */
nabla_fold nabla_fold_inverse, nabla_fold_idempotent;
/* A conversion to the type that it has; one of two equal choices; the larger,
 * or both bits, of one with itself. */
nabla_fold nabla_fold_convert, nabla_fold_select, nabla_fold_same;

#endif
