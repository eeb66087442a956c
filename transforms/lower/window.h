/* Windows along the dimensions of a tensor, for convolutions and pools. The
 * tensor is padded first, so that every window lies inside. */
#ifndef NABLA_TRANSFORMS_LOWER_WINDOW_H
#define NABLA_TRANSFORMS_LOWER_WINDOW_H

#include "transforms/lower/region.h"

typedef struct nabla_windows {
  nabla_padding padding;
  int64_t stride[NABLA_MAX_RANK], dilation[NABLA_MAX_RANK];
} nabla_windows;

/* Reads a list attribute of the op, or sets `initial` for each of `count`. */
void nabla_windows_list(nabla_template *t, const char *key, intptr_t count,
                        int64_t initial, int64_t *out);

/* Returns the padded tensor; `fill` has the work type. */
nabla_ssa_tensor nabla_windows_pad(nabla_template *t, nabla_ssa_tensor *in,
                                   const nabla_windows *w, const char *fill);

/* Returns the number of windows of `size` along an unknown dimension of
 * `padded`: 0 if a window is larger than the dimension. */
nabla_ssa nabla_windows_count(nabla_template *t, nabla_ssa_tensor *padded,
                              intptr_t dim, nabla_ssa size, int64_t stride,
                              int64_t dilation);

/* Makes loops over a result of `rank` dimensions, with `reductions` more inside
 * all but the last one. Neighbouring results are thus computed together, each
 * in the order of its reductions. Sets the loop of each dimension of the
 * result. */
void nabla_windows_loops(intptr_t rank, intptr_t reductions, nabla_generic *g,
                         intptr_t loop_of[NABLA_MAX_RANK]);

/* In a body: returns window * stride + inside * dilation, where both are loops.
 */
nabla_ssa nabla_windows_place(nabla_template *t, intptr_t window,
                              int64_t stride, intptr_t inside,
                              int64_t dilation);

#endif
