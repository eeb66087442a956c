/* Products of bf16 pairs with sums in f32, for NABLA_NUMERICS_BF16 and many
 * rows of x. Both operands are tiles of 64 bytes times 16:
 *   of w  16 rows, each with 32 elements of k: weights decoded to f32, scale
 *         included, and rounded half to even
 *   of x  16 pairs of elements of k, each of 16 rows, which prepare makes
 * so that w needs no turning. A tile of sums has rows of w and columns of x.
 *
 * The elements of k in a tile of w are 32 neighbours; or, where 128 codes of 4
 * bits are a cache line, those at one place of each 4: a line shifted by 0, 4,
 * 8, 12 is the indices of four tiles in a table of bf16, in words. */
#ifndef NABLA_TRANSFORMS_KERNELS_BF16_H
#define NABLA_TRANSFORMS_KERNELS_BF16_H

#include "transforms/kernels/amx.h"
#include "transforms/kernels/bodies.h"

#define NABLA_BF16_STEP 32u  /* elements of k in a tile */
#define NABLA_BF16_LINE 128u /* in a line of codes of 4 bits */

/* Panels: rows of w that are decoded for elements of k. */
#define NABLA_BF16_ROWS  32u
#define NABLA_BF16_DEPTH 256u
#define NABLA_BF16_HALF \
  ((uint64_t)NABLA_BF16_DEPTH / NABLA_BF16_STEP * NABLA_TILE_BYTES)

/* Can w be decoded to bf16 in rows, with the instructions of the target? */
int nabla_bf16_applies(const nabla_fused_spec *spec);

/* Are tiles made from whole lines of codes? */
int nabla_bf16_by_lines(const nabla_fused_spec *spec);

/* The tiles along k: K / 32, rounded up. */
nabla_ssa nabla_emit_bf16_steps(nabla_emitter *emitter);

/* vector<32xi16> of 32 f32 rounded to bf16. */
nabla_ssa nabla_emit_bf16_round(nabla_emitter *emitter, nabla_ssa low,
                                nabla_ssa high);

/* The inside of prepare: for each 16 rows the tiles along k. */
void nabla_emit_bf16_x(nabla_emitter *emitter);

/* Which part of the weight, and where it goes. */
typedef struct nabla_bf16_panel {
  nabla_ssa row; /* the first of NABLA_BF16_ROWS; the last of w again beyond */
  nabla_ssa k;   /* a multiple of NABLA_BF16_DEPTH                           */
  nabla_ssa count; /* elements of k */
  nabla_ssa out;   /* address: tiles along k of 16 rows, NABLA_BF16_HALF bytes,
                      then of the others                                       */
} nabla_bf16_panel;

void nabla_emit_bf16_panel(nabla_emitter *emitter,
                           const nabla_bf16_panel *panel);

/* Asks for what row `row` of the panel at k is decoded from. */
void nabla_emit_bf16_prefetch(nabla_emitter *emitter, nabla_ssa row,
                              nabla_ssa k);

/* ---- products ---- */

#define NABLA_BF16_HALVES  (NABLA_BF16_ROWS / NABLA_TILE_ROWS)
#define NABLA_BF16_AT_ONCE 2u /* tiles of x */

/* Rows of x and of w, and elements of k, that are multiplied. */
typedef struct nabla_bf16_block {
  nabla_ssa row, rows;       /* of x: the first, and how many sums wait     */
  nabla_ssa tiles;           /* of x                                        */
  nabla_ssa column, columns; /* rows of w                             */
  nabla_ssa next, next_k;    /* row of w, and element of k, of the next panel */
  nabla_ssa k, steps;        /* the first element, and the tiles from there */
} nabla_bf16_block;

/* What is multiplied at once: addresses of the tiles of sums (those of a tile
 * of x follow each other), of the first tile of each tile of x, and how many
 * of these. */
typedef struct nabla_bf16_square {
  nabla_ssa sums, x[NABLA_BF16_AT_ONCE];
  unsigned count;
  nabla_ssa is_first; /* of the panel, i1 */
} nabla_bf16_square;

/* Adds the products of a square of tiles and of b->steps tiles along k. */
typedef void nabla_bf16_multiplier(nabla_emitter *emitter,
                                   const nabla_bf16_block *b,
                                   const nabla_bf16_square *s);

/* Where the panel is in the scratch, whose first 64 bytes are free. */
nabla_ssa nabla_emit_bf16_panel_at(nabla_emitter *emitter);

/* The inside of run. */
void nabla_emit_bf16_run(nabla_emitter *emitter,
                         nabla_bf16_multiplier *multiply);

/* What a body says of itself; a row of x costs `row` ps for an element. */
double nabla_bf16_cost(const nabla_fused_spec *spec, uint64_t m, double row);
void nabla_bf16_describe(const nabla_fused_spec *spec, nabla_kernel *out);
uint64_t nabla_bf16_chain(const nabla_fused_spec *spec);
uint64_t nabla_bf16_scratch(const nabla_fused_spec *spec);

#endif
