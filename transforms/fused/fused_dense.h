/* A nabla.fused_dot with a dense weight: its dimensions, and the kernel spec of
 * one product of its batch. */
#ifndef NABLA_TRANSFORMS_FUSED_FUSED_DENSE_H
#define NABLA_TRANSFORMS_FUSED_FUSED_DENSE_H

#include "dialect/encoding/encoding.h"
#include "transforms/fused/fused_spec.h"

/* Which dimension of x and of w is what. The result has the batches, then the
 * free dimensions of x and of w. */
typedef struct nabla_fused_dims {
  intptr_t batches;
  int64_t x_batch[NABLA_MAX_RANK], w_batch[NABLA_MAX_RANK];
  int64_t x_free, x_contracted, w_free, w_contracted;
} nabla_fused_dims;

/* The dimensions of a nabla.fused_dot, also of one with a packed weight. */
nabla_fused_dims nabla_fused_dims_of(MlirOperation fused);

/* Fills `out` for one product of the batch, without an epilogue, and asks
 * `target` whether it computes that.
 * @return NULL, or why there is no kernel, as static text */
const char *nabla_fused_dense_spec(const nabla_target *target, MlirType x,
                                   MlirType w, const nabla_fused_dims *dims,
                                   nabla_features features,
                                   nabla_fused_spec *out);

/* The numerics of a product of tensors, which no option changes: f32; of two
 * tensors of bf16 the instructions for bf16, which round no operand. */
nabla_numerics nabla_fused_dense_numerics(const nabla_fused_spec *spec);

/* The same as nabla_fused_spec_of for an operation, whatever its weight is. */
const char *nabla_fused_spec_of_op(const nabla_target *target,
                                   MlirOperation fused, nabla_features features,
                                   nabla_fused_spec *out);

#endif
