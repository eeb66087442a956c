/* Boxes of tensors in lowerings: written into another tensor, read at indices
 * that are computed. */
#ifndef NABLA_TRANSFORMS_LOWER_REGION_H
#define NABLA_TRANSFORMS_LOWER_REGION_H

#include "transforms/lower/lowering.h"

/* "arith.OPERATION a, b : index". */
nabla_ssa nabla_emit_index_op(nabla_template *t, const char *operation,
                              nabla_ssa a, nabla_ssa b);
/* -(-a / b) for b > 0 and any a. */
nabla_ssa nabla_emit_index_ceildiv(nabla_template *t, nabla_ssa a, int64_t b);

/* Fails at run time unless a <= b (index, signed). */
void nabla_template_require_at_most(nabla_template *t, nabla_ssa a,
                                    nabla_ssa b);

/* The element of `tensor` at an index for each dimension. */
nabla_ssa nabla_emit_extract(nabla_template *t, const nabla_ssa_tensor *tensor,
                             const nabla_ssa *at);

/* Operand `index`, an index or an integer scalar, as an index. */
nabla_ssa nabla_template_place(nabla_template *t, intptr_t index);

/* A place moved to where `count` indices of a dimension of `size` fit behind
 * it: clamp(0, place, size - count). */
nabla_ssa nabla_emit_clamp(nabla_template *t, nabla_ssa place, nabla_ssa size,
                           nabla_ssa count);

/* All elements of `value`, a tensor of rank 0, in the shape of `shape`. */
nabla_ssa_tensor nabla_ssa_tensor_spread(nabla_template *t,
                                         const nabla_ssa_tensor *value,
                                         nabla_ssa_tensor *shape);

/* A box: for each dimension its first index, how many, and how far apart. */
typedef struct nabla_region {
  nabla_ssa first[NABLA_MAX_RANK], count[NABLA_MAX_RANK];
  int64_t step[NABLA_MAX_RANK];
} nabla_region;

/* `to` with a box of it replaced by elements of `from`: dimension i of `from`
 * is read at from_first[i] (NULL: 0) plus the box's index in dimension map[i]
 * (NULL: i). */
nabla_ssa_tensor nabla_region_write(nabla_template *t,
                                    const nabla_ssa_tensor *to,
                                    const nabla_region *box,
                                    const nabla_ssa_tensor *from,
                                    const intptr_t *map,
                                    const nabla_ssa *from_first);

/* Whether an array is copied by a kernel (move/box.h) rather than by loops: it
 * is not known to be small, and has elements that the kernel copies. */
bool nabla_region_is_large(const nabla_ssa_tensor *tensor);

/* The part of `in` that begins at first[dim], of the sizes of `shape`, every
 * step[dim]-th index: a view. No static size is 0. */
nabla_ssa nabla_region_view(nabla_template *t, const nabla_ssa_tensor *in,
                            const nabla_ssa *first, const int64_t *step,
                            nabla_ssa_tensor *shape);

/* nabla_region_write of all of `from`, which is copied where it is large. */
nabla_ssa_tensor nabla_region_insert(nabla_template *t,
                                     const nabla_ssa_tensor *to,
                                     const nabla_region *box,
                                     nabla_ssa_tensor *from,
                                     const intptr_t *map);

/* `in` with `low` + `high` more indices in each dimension, and `interior`
 * between neighbours, which are `value` (rank 0). Negative ones take away. The
 * sizes of `shape`, the result's, are computed, and required to be what it
 * says. */
typedef struct nabla_padding {
  int64_t low[NABLA_MAX_RANK], high[NABLA_MAX_RANK], interior[NABLA_MAX_RANK];
} nabla_padding;
nabla_ssa_tensor nabla_ssa_tensor_pad(nabla_template *t, nabla_ssa_tensor *in,
                                      const nabla_ssa_tensor *value,
                                      const nabla_padding *padding,
                                      nabla_ssa_tensor *shape);

#endif
