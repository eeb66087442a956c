/* Windows along the dimensions of a tensor, for convolutions and pools: the
 * tensor is padded, then every window lies inside. */
#ifndef NABLA_TRANSFORMS_LOWER_WINDOW_H
#define NABLA_TRANSFORMS_LOWER_WINDOW_H

#include "transforms/lower/region.h"

typedef struct nabla_windows {
  nabla_padding padding;
  int64_t stride[NABLA_MAX_RANK], dilation[NABLA_MAX_RANK];
} nabla_windows;

/* A list of the op, or `initial` for each of `count`. */
void nabla_windows_list(nabla_template *t, const char *key, intptr_t count,
                        int64_t initial, int64_t *out);

/* The padded tensor; `fill` is of the work type. */
nabla_ssa_tensor nabla_windows_pad(nabla_template *t, nabla_ssa_tensor *in,
                                   const nabla_windows *w, const char *fill);

/* How many windows of `size` there are along a dimension of `padded` that is
 * not known: none where they are larger than what is left. */
nabla_ssa nabla_windows_count(nabla_template *t, nabla_ssa_tensor *padded,
                              intptr_t dim, nabla_ssa size, int64_t stride,
                              int64_t dilation);

/* Loops over a result of `rank` dimensions and, inside of all but its last,
 * `reductions` others: neighbours are computed together, each in the order of
 * the reductions. Sets the loop of each dimension of the result. */
void nabla_windows_loops(intptr_t rank, intptr_t reductions, nabla_generic *g,
                         intptr_t loop_of[NABLA_MAX_RANK]);

/* In a body: window * stride + inside * dilation, both loops. */
nabla_ssa nabla_windows_place(nabla_template *t, intptr_t window,
                              int64_t stride, intptr_t inside,
                              int64_t dilation);

#endif
