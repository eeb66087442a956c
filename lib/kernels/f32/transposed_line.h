/* Lines of a weight that is consecutive along n, which the kernels of
 * transposed products read. A line is 64 bytes of codes: 32 / bits columns in
 * each of 16 dwords, whose next code a shift moves to the low bits. Sums are
 * kept in that order, position in the dword first, and permuted when they are
 * written. */
#ifndef NABLA_KERNELS_F32_TRANSPOSED_LINE_H
#define NABLA_KERNELS_F32_TRANSPOSED_LINE_H

#include "lib/kernels/variants.h"

/* A line of codes, vector<16xi32>; what the values of each dword are multiplied
 * by, vector<16xf32>; their zero points as vector<16xf32>, or 0 where the
 * format has none. */
typedef struct nabla_transposed_line {
  nabla_ssa dwords, scales, zeros;
} nabla_transposed_line;

/* Columns of a line; of a dense weight, those of a vector. */
unsigned nabla_transposed_elements(const nabla_fused_spec *spec);

/* Elements from one k to the next. */
uint64_t nabla_transposed_stride(const nabla_fused_spec *spec);

/* Whether every k begins with a line, rows are whole lines, and scales change
 * at boundaries of lines or of dwords in them. */
int nabla_transposed_has_lines(const nabla_fused_spec *spec);

/* The line at `flat`. Prefetches the line of the same columns `ahead` elements
 * of k further on: the next addresses may be columns of another iteration, or
 * of another thread. */
nabla_transposed_line nabla_emit_transposed_line(nabla_emitter *e,
                                                 nabla_ssa flat,
                                                 unsigned ahead);

/* Applies the epilogue to the sums (f32 at address `sums`) of `count` columns
 * from column `first` on, whole lines, and writes them to row `row` of y. */
void nabla_emit_transposed_finish(nabla_emitter *e, nabla_ssa sums,
                                  nabla_ssa row, nabla_ssa first,
                                  nabla_ssa count);

#endif
