/* Functions that make operations which move elements, sum them over several
 * dimensions or contract any dimensions, for passes that write derivatives.
 * Conventions are those of build.h. */
#ifndef NABLA_TRANSFORMS_IR_BUILD_MOVES_H
#define NABLA_TRANSFORMS_IR_BUILD_MOVES_H

#include "transforms/ir/build.h"

/* nabla.materialize of an implicit array; a tensor as it is. */
MlirValue nabla_build_dense(const nabla_builder *b, MlirValue x);
/* tensor.cast to a type of other known sizes; x if it has that type. */
MlirValue nabla_build_cast(const nabla_builder *b, MlirValue x, MlirType type);
/* An array of zeros in the shape of `array`. */
MlirValue nabla_build_zeros(const nabla_builder *b, MlirValue array,
                            MlirType element);
/* An array of rank 0. */
MlirValue nabla_build_scalar(const nabla_builder *b, double value,
                             MlirType element);

/* nabla.reduce over `count` dimensions; x if there are none. */
MlirValue nabla_build_reduce_all(const nabla_builder *b, int64_t kind,
                                 MlirValue x, intptr_t count,
                                 const int64_t *dims);
/* nabla.transpose; x if nothing moves. */
MlirValue nabla_build_transpose(const nabla_builder *b, MlirValue x,
                                const int64_t *permutation);
MlirValue nabla_build_cumsum(const nabla_builder *b, MlirValue x, int64_t dim);

/* nabla.pad with zeros; `interior` may be NULL. */
MlirValue nabla_build_pad(const nabla_builder *b, MlirValue x,
                          const int64_t *low, const int64_t *high,
                          const int64_t *interior);
/* nabla.slice with strides, which may be NULL. */
MlirValue nabla_build_slice_strided(const nabla_builder *b, MlirValue x,
                                    const int64_t *starts,
                                    const int64_t *limits,
                                    const int64_t *strides);
/* nabla.dynamic_slice of a box of shape `shape`, and
 * nabla.dynamic_update_slice; one start for each dimension. */
MlirValue nabla_build_box(const nabla_builder *b, MlirValue x,
                          const MlirValue *starts,
                          const nabla_built_shape *shape);
MlirValue nabla_build_box_update(const nabla_builder *b, MlirValue x,
                                 MlirValue update, const MlirValue *starts);
MlirValue nabla_build_join(const nabla_builder *b, intptr_t count,
                           const MlirValue *parts, int64_t dim);

/* Dimensions of nabla.dot_general. */
typedef struct nabla_built_dot {
  intptr_t batches, contracted;
  int64_t batching[2][NABLA_MAX_RANK], contracting[2][NABLA_MAX_RANK];
} nabla_built_dot;
MlirValue nabla_build_dot_of(const nabla_builder *b, MlirValue lhs,
                             MlirValue rhs, const nabla_built_dot *dims);

#endif
