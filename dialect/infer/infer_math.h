/* Inference and verifiers of what NablaMath.td has: one function for each name
 * in the columns INFER and VERIFY of ops.def. */
#ifndef NABLA_DIALECT_INFER_INFER_MATH_H
#define NABLA_DIALECT_INFER_INFER_MATH_H

#include "dialect/verify/checks.h"

typedef MlirLogicalResult nabla_math_inference(const nablaInference *in,
                                               MlirType types[],
                                               intptr_t *count);
/* infer_math.c */
nabla_math_inference infer_predicate, infer_compare, infer_select, infer_arg,
    infer_across, infer_along;

typedef MlirLogicalResult nabla_math_verifier(MlirOperation op);
/* verify_create.c */
nabla_math_verifier verify_convert, verify_full, verify_iota, verify_tri,
    verify_random;

#endif
