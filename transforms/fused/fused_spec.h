/* From the types of a nabla.fused_dot to the kernel that computes it. */
#ifndef NABLA_TRANSFORMS_FUSED_FUSED_SPEC_H
#define NABLA_TRANSFORMS_FUSED_FUSED_SPEC_H

#include <mlir-c/IR.h>
#include <stdbool.h>

#include "lib/kernels/fused_kernel.h"
#include "transforms/ir/target.h"

/* Fills `out` for y = x . w without an epilogue, and asks `target` whether it
 * computes that.
 * @param x          type of x: M x K, M may be known at run time only
 * @param w          a packed implicit type of rank 2, N x K
 * @param features   of the target; 0: of each of its machines
 * @return NULL, or why there is no kernel, as static text */
const char *nabla_fused_spec_of(const nabla_target *target, MlirType x,
                                MlirType w, nabla_features features,
                                nabla_fused_spec *out);

/* The storage of a packed implicit type, its encoding and w_type alone.
 * @return NULL, or why no kernel decodes it, as static text */
const char *nabla_fused_weight_of(MlirType w, nabla_features features,
                                  nabla_fused_spec *out);

/* The dtype of a float of at most 32 bits; false for any other element. */
bool nabla_fused_dtype(MlirType type, nabla_dtype *out);

/* Whether kernels read scales of this implicit type, and how. */
bool nabla_fused_nested_scales(MlirType scales, nabla_fused_spec *out);

/* Adds the epilogue of a fused_dot; false for a step it does not know. */
bool nabla_fused_spec_epilogue(MlirOperation fused, nabla_fused_spec *out);

/* A symbol name that encodes every field of `spec` but the features. */
void nabla_fused_name(const nabla_fused_spec *spec, nabla_text *out);

#endif
