/* Shared by the variants of a fused kernel: tiles of rows of x, sums that wait,
 * rows of y. */
#ifndef NABLA_KERNELS_TILE_UTIL_H
#define NABLA_KERNELS_TILE_UTIL_H

#include "lib/kernels/variants.h"

/* Sums that wait in the scratch, at most, and their bytes. */
#define NABLA_SUMS_MAX   16u
#define NABLA_SUMS_BYTES ((uint64_t)NABLA_SUMS_MAX * NABLA_LANES * 4)

/* Bytes of codes that are asked for ahead of use. */
#define NABLA_PREFETCH_BYTES 2048u

/* Rows of x that are multiplied by a decoded weight at once, when M > 1. */
unsigned nabla_row_tile(const nabla_fused_spec *spec);

/* M == 1 ? `one` : `many`, which both write code of the kernel; only one of
 * them where the spec tells which. */
void nabla_emit_by_rows(nabla_emitter *e, void (*one)(nabla_emitter *e),
                        void (*many)(nabla_emitter *e));

/* row * N + column: where y has an element. */
nabla_ssa nabla_emit_y_index(nabla_emitter *e, nabla_ssa row, nabla_ssa column);

/* The flat index offset + line * stride. */
nabla_ssa nabla_emit_flat(nabla_emitter *e, nabla_ssa line, uint64_t stride);

/* The same of element 0 of row `row`, with N and K of any size too. */
nabla_ssa nabla_emit_row_start(nabla_emitter *e, nabla_ssa row);

/* The largest number that divides `most` and where rows of w start. */
uint64_t nabla_row_alignment(const nabla_fused_spec *spec, uint64_t most);

/* Addresses of rows first, first + 1, ... of x; of its last row beyond it. */
void nabla_emit_tile_rows(nabla_emitter *e, nabla_ssa first, unsigned count,
                          nabla_ssa *out);

/* Sums wait in the scratch, one vector for each, so that what follows is in a
 * loop and in the code once. */
void nabla_emit_keep_sums(nabla_emitter *e, unsigned count,
                          const nabla_ssa *sums);
nabla_ssa nabla_emit_kept_sum(nabla_emitter *e, nabla_ssa index);

/* `value` rounded up to a multiple of `to`. */
nabla_ssa nabla_emit_round_up(nabla_emitter *e, nabla_ssa value, uint64_t to);

/* The least of `count` and what is left of [at, end). */
nabla_ssa nabla_emit_left(nabla_emitter *e, nabla_ssa end, nabla_ssa at,
                          uint64_t count);

/* How many of the `count` rows from `first` on there are. */
nabla_ssa nabla_emit_rows_left(nabla_emitter *e, nabla_ssa first,
                               unsigned count);

/* Finishes and stores the element of y in row `row` and column `column`, of
 * which each lane of `sums` is a part. */
void nabla_emit_finish_sum(nabla_emitter *e, nabla_ssa sums, nabla_ssa row,
                           nabla_ssa column);

/* Finishes and stores `count` sums (f32 at address `sums`) for row `row` of y
 * and columns from `column` on. */
void nabla_emit_finish_row(nabla_emitter *e, nabla_ssa sums, nabla_ssa row,
                           nabla_ssa column, nabla_ssa count);

#endif
