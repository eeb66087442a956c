/* Products of two dense operands of bf16, in pairs of elements of k, with sums
 * in f32. Both operands are tiles of 16 rows of 64 bytes:
 *   of x  16 rows, each with 32 elements of k, packed by `prepare`
 *   of w  16 pairs of elements of k, each of 16 columns, packed to a panel of
 *         32 columns, which is multiplied with all rows of x that have totals
 * so that a tile of sums has rows and columns of y: neither sums nor, where w
 * is consecutive along n, weights are transposed. Elements are copied as they
 * are. Either operand may be consecutive along k or along its other dimension,
 * and sizes of w need not be known.
 *
 * Functions are defined in pack_dense_bf16.c too. */
#ifndef NABLA_KERNELS_BF16_DENSE_BF16_H
#define NABLA_KERNELS_BF16_DENSE_BF16_H

#include "lib/kernels/builder/amx.h"
#include "lib/kernels/variants.h"

#define NABLA_DENSE_STEP    32u  /* elements of k in a tile */
#define NABLA_DENSE_DEPTH   256u /* in a panel: 16 KiB of the first cache */
#define NABLA_DENSE_COLUMNS 32u  /* of a panel, the grain */
#define NABLA_DENSE_TILES   2u   /* of x that are multiplied at once, at most */

/* Bytes of a tile of x along k of a panel, and between rows of totals. */
#define NABLA_DENSE_HALF \
  ((uint64_t)NABLA_DENSE_DEPTH / NABLA_DENSE_STEP * NABLA_TILE_BYTES)
#define NABLA_DENSE_PANEL \
  (NABLA_DENSE_COLUMNS / NABLA_TILE_ROWS * NABLA_DENSE_HALF)
#define NABLA_DENSE_TOTALS_ROW ((uint64_t)NABLA_DENSE_COLUMNS * sizeof(float))

/* One or two tiles of x and a panel: addresses of the first totals, of the
 * panel, whose halves are NABLA_DENSE_HALF apart, and of the first tile of
 * each. */
typedef struct nabla_dense_block {
  nabla_ssa totals, panel, x[NABLA_DENSE_TILES];
  unsigned count;
  nabla_ssa steps;    /* of k in the panel */
  nabla_ssa is_first; /* i1: it is the first panel of k, totals are not set */
} nabla_dense_block;

/* Adds the products of a block to its totals, or sets these. */
typedef void nabla_dense_multiply(nabla_emitter *e,
                                  const nabla_dense_block *block);

/* The code of `run`; the first 64 bytes of the scratch are free. */
void nabla_emit_dense_bf16(nabla_emitter *e, nabla_dense_multiply *multiply);

int nabla_dense_bf16_applies(const nabla_fused_spec *spec);

/* Cost in ps for an element of w, of which a product with a row of x takes
 * `row`. */
double nabla_dense_bf16_cost(const nabla_fused_spec *spec, uint64_t m,
                             double row);
void nabla_dense_bf16_describe(const nabla_fused_spec *spec, nabla_kernel *out);
uint64_t nabla_dense_bf16_accumulation_depth(const nabla_fused_spec *spec);
uint64_t nabla_dense_bf16_scratch(const nabla_fused_spec *spec);

/* The code of `prepare`: for each 16 rows of x the tiles along k. */
#define NABLA_DENSE_PACK_A_SCRATCH ((uint64_t)NABLA_TILE_BYTES)
void nabla_emit_dense_pack_a(nabla_emitter *e);

/* Packs `columns` columns from `column` on, at most `most`, and `count`
 * elements from k on, to panels from `out` on; `scratch` is a tile. */
typedef struct nabla_dense_panel {
  nabla_ssa column, columns, k, count, out, scratch;
  uint64_t most;
} nabla_dense_panel;
void nabla_emit_dense_pack_b(nabla_emitter *e, const nabla_dense_panel *panel);

/* Tiles along `count` elements of k. */
nabla_ssa nabla_emit_dense_steps(nabla_emitter *e, nabla_ssa count);

/* Members that the variants of this kind share. */
#define NABLA_DENSE_BF16_VARIANT                                        \
  .takes_strided_x = 1, .takes_columns_of_x = 1, .dedicated_max_m = 31, \
  .takes_open = NABLA_OPEN_N | NABLA_OPEN_K | NABLA_OPEN_STRIDE,        \
  .pack_a = nabla_emit_dense_pack_a,                                    \
  .pack_a_scratch = NABLA_DENSE_PACK_A_SCRATCH,                         \
  .describe = nabla_dense_bf16_describe,                                \
  .accumulation_depth = nabla_dense_bf16_accumulation_depth,            \
  .scratch = nabla_dense_bf16_scratch

#endif
