/* Transposing squares of 32-bit values in vectors. */
#ifndef NABLA_KERNELS_BUILDER_TRANSPOSE_H
#define NABLA_KERNELS_BUILDER_TRANSPOSE_H

#include "lib/kernels/builder/emit.h"

/* Deals the elements of `count` vectors of 16 f32, a power of two up to 16,
 * like cards: vector i gets elements i, i + count, i + 2 * count, ... of what
 * they are in a row. It is a loop: shuffles of shuffles of shuffles take LLVM
 * longer than the rest of such a function. */
void nabla_emit_deinterleave(nabla_emitter *e, unsigned count, nabla_ssa *v);

/* rows[i] lane j becomes rows[j] lane i; 16 vectors of 16 `element`s, "f32" or
 * "i32": 64 shuffles of two vectors, or a loop of 16 in what runs once. */
void nabla_emit_transpose(nabla_emitter *e, const char *element,
                          nabla_ssa rows[NABLA_LANES]);

/* A vector of 16 `element`s for each of `rows` rows, a power of two up to 16,
 * to as many in which element k of all rows are neighbours: in order [k][row].
 */
void nabla_emit_interleave_rows(nabla_emitter *e, const char *element,
                                unsigned rows, nabla_ssa *v);

/* Lane i is the sum of the lanes of the i-th of 16 vectors that follow each
 * other from element `at` on, each as a tree: 4 additions long. */
nabla_ssa nabla_emit_lane_sums(nabla_emitter *e, nabla_array_ref rows,
                               nabla_ssa at);

#endif
