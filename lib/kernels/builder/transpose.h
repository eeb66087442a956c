/* Transposing and interleaving vectors of 32-bit values. */
#ifndef NABLA_KERNELS_BUILDER_TRANSPOSE_H
#define NABLA_KERNELS_BUILDER_TRANSPOSE_H

#include "lib/kernels/builder/emit.h"

/* De-interleaves `count` vectors of 16 f32, a power of two up to 16, with
 * stride `count`: vector i gets elements i, i + count, i + 2 * count, ... of
 * their concatenation. The code is a loop: unrolled, chains of shuffles take
 * LLVM longer than the rest of such a function. */
void nabla_emit_deinterleave(nabla_emitter *e, unsigned count, nabla_ssa *v);

/* Transposes 16 vectors of 16 `element`s, "f32" or "i32": rows[i] lane j
 * becomes rows[j] lane i. 64 shuffles of two vectors, or a loop of 16 in
 * functions that run once. */
void nabla_emit_transpose(nabla_emitter *e, const char *element,
                          nabla_ssa rows[NABLA_LANES]);

/* Interleaves vectors of 16 `element`s of `rows` rows, a power of two up to 16:
 * the elements are in order [k][row] afterwards. */
void nabla_emit_interleave_rows(nabla_emitter *e, const char *element,
                                unsigned rows, nabla_ssa *v);

/* Horizontal sums of 16 consecutive vectors from element `at` on: lane i is the
 * sum of vector i, as a tree of depth 4. */
nabla_ssa nabla_emit_lane_sums(nabla_emitter *e, nabla_array_ref rows,
                               nabla_ssa at);

#endif
