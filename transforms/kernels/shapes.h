/* The bodies of a fused kernel, by how the weight lies in storage, and their
 * tiles: row.c, line.c and column.c. */
#ifndef NABLA_TRANSFORMS_KERNELS_SHAPES_H
#define NABLA_TRANSFORMS_KERNELS_SHAPES_H

#include "transforms/kernels/emit.h"

/* Elements of k that one accumulator sums before it is added to the total. */
#define NABLA_ROW_PANEL    1024u
#define NABLA_COLUMN_PANEL 256u

/* Sums that wait in the scratch, at most. */
#define NABLA_SUMS_MAX 16u

/* Bytes of codes that are asked for ahead of use. */
#define NABLA_PREFETCH_BYTES 2048u

/* 64 bytes of 4-bit codes, and the largest K of which a rearranged copy of x
 * is kept on the stack: 64 KiB of f32. */
#define NABLA_LINE_ELEMENTS 128u
#define NABLA_LINE_K_MAX    16384u

/* Storage is consecutive along k: one sum of products for each n. */
void nabla_emit_rows(nabla_emitter *emitter);
uint64_t nabla_rows_chain(const nabla_fused_spec *spec);

/* The same for M = 1 and 4-bit codes in whole cache lines, with room for K f32
 * in the scratch. */
int nabla_lines_apply(const nabla_fused_spec *spec);
void nabla_emit_lines(nabla_emitter *emitter);
uint64_t nabla_lines_chain(const nabla_fused_spec *spec);

/* Storage is consecutive along n: NABLA_LANES columns at a time. */
void nabla_emit_columns(nabla_emitter *emitter);
uint64_t nabla_columns_chain(const nabla_fused_spec *spec);
uint64_t nabla_columns_grain(void);

/* Rows of x that are multiplied by a decoded weight at once, when M > 1. */
unsigned nabla_row_tile(const nabla_fused_spec *spec);

/* M == 1 ? `one` : `many`, which both write lines of the body; only one of them
 * where the spec tells which. */
void nabla_emit_by_rows(nabla_emitter *emitter,
                        void (*one)(nabla_emitter *emitter),
                        void (*many)(nabla_emitter *emitter));

/* row * N + column: where y has an element. */
nabla_ssa nabla_emit_y_index(nabla_emitter *emitter, nabla_ssa row,
                             nabla_ssa column);

/* The flat index offset + line * stride. */
nabla_ssa nabla_emit_flat(nabla_emitter *emitter, nabla_ssa line,
                          uint64_t stride);

/* Addresses of rows first, first + 1, ... of x; of its last row beyond it. */
void nabla_emit_tile_rows(nabla_emitter *emitter, nabla_ssa first,
                          unsigned count, nabla_ssa *out);

/* Sums wait in the scratch, one vector for each, so that what follows is in a
 * loop and in the code once. */
void nabla_emit_keep_sums(nabla_emitter *emitter, unsigned count,
                          const nabla_ssa *sums);
nabla_ssa nabla_emit_kept_sum(nabla_emitter *emitter, nabla_ssa index);

/* How many of the `count` rows from `first` on there are. */
nabla_ssa nabla_emit_rows_left(nabla_emitter *emitter, nabla_ssa first,
                               unsigned count);

#endif
