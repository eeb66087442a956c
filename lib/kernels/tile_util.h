/* Code that the variants of a fused kernel share: tiles of rows of x,
 * accumulators kept in the scratch, rows of y. */
#ifndef NABLA_KERNELS_TILE_UTIL_H
#define NABLA_KERNELS_TILE_UTIL_H

#include "lib/kernels/variants.h"

/* Accumulators kept in the scratch, at most, and their bytes. */
#define NABLA_SUMS_MAX   16u
#define NABLA_SUMS_BYTES ((uint64_t)NABLA_SUMS_MAX * NABLA_LANES * 4)

/* Rows of x (MR) that one dequantized vector of the weight is multiplied with,
 * when M > 1. */
unsigned nabla_row_tile(const nabla_fused_spec *spec);

/* Writes `if (M == 1) one else many`; only one of them where the spec fixes
 * M. */
void nabla_emit_by_rows(nabla_emitter *e, void (*one)(nabla_emitter *e),
                        void (*many)(nabla_emitter *e));

/* row * N + column: the index of an element of y. */
nabla_ssa nabla_emit_y_index(nabla_emitter *e, nabla_ssa row, nabla_ssa column);

/* The flat index offset + line * stride. */
nabla_ssa nabla_emit_flat(nabla_emitter *e, nabla_ssa line, uint64_t stride);

/* The flat index of element 0 of row `row`, for any and open sizes too. */
nabla_ssa nabla_emit_row_start(nabla_emitter *e, nabla_ssa row);

/* The same of element `k` of column 0, where w is consecutive along n. */
nabla_ssa nabla_emit_column_start(nabla_emitter *e, nabla_ssa k);

/* The largest divisor of `most` that also divides the start of every row of
 * w. */
uint64_t nabla_row_alignment(const nabla_fused_spec *spec, uint64_t most);

/* Addresses of rows first, first + 1, ... of x, whose elements are consecutive;
 * rows beyond the last are the last row. */
void nabla_emit_tile_rows(nabla_emitter *e, nabla_ssa first, unsigned count,
                          nabla_ssa *out);

/* Stores accumulators to the scratch, one vector each, so that the epilogue is
 * one loop in the code. */
void nabla_emit_keep_sums(nabla_emitter *e, unsigned count,
                          const nabla_ssa *sums);
nabla_ssa nabla_emit_kept_sum(nabla_emitter *e, nabla_ssa index);

/* `value` rounded up to a multiple of `to`. */
nabla_ssa nabla_emit_round_up(nabla_emitter *e, nabla_ssa value, uint64_t to);

/* The columns of each of `parts` parts of the range, the last of which may have
 * fewer; none where the range ends before it begins. */
nabla_ssa nabla_emit_part(nabla_emitter *e, unsigned parts);

/* min(count, end - at). */
nabla_ssa nabla_emit_left(nabla_emitter *e, nabla_ssa end, nabla_ssa at,
                          uint64_t count);

/* How many of the `count` rows from `first` on exist. */
nabla_ssa nabla_emit_rows_left(nabla_emitter *e, nabla_ssa first,
                               unsigned count);

/* Sums the lanes of `sums`, applies the epilogue and stores the element of y in
 * row `row` and column `column`. */
void nabla_emit_finish_sum(nabla_emitter *e, nabla_ssa sums, nabla_ssa row,
                           nabla_ssa column);

/* Applies the epilogue to `count` sums (f32 at address `sums`) and stores them
 * in row `row` of y, columns from `column` on. */
void nabla_emit_finish_row(nabla_emitter *e, nabla_ssa sums, nabla_ssa row,
                           nabla_ssa column, nabla_ssa count);

#endif
