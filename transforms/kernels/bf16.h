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

#include "transforms/kernels/tiled.h"

#define NABLA_BF16_STEP 32u  /* elements of k in a tile */
#define NABLA_BF16_LINE 128u /* in a line of codes of 4 bits */

/* Can w be decoded to bf16 in rows, with the instructions of the target? Where
 * a prepacked weight is asked for too: it gains nothing, w is read in place. */
int nabla_bf16_applies(const nabla_fused_spec *spec);

/* Are tiles made from whole lines of codes? */
int nabla_bf16_by_lines(const nabla_fused_spec *spec);

/* vector<32xi16> of 32 f32 rounded to bf16. */
nabla_ssa nabla_emit_bf16_round(nabla_emitter *emitter, nabla_ssa low,
                                nabla_ssa high);

/* The inside of prepare: for each 16 rows the tiles along k. */
void nabla_emit_bf16_x(nabla_emitter *emitter);

/* Asks for what row `row` of the panel at k is decoded from. */
void nabla_emit_bf16_prefetch(nabla_emitter *emitter, nabla_ssa row,
                              nabla_ssa k);

/* Decodes a panel: tiles along k of 16 rows, then of the others. */
void nabla_emit_bf16_panel(nabla_emitter *emitter,
                           const nabla_tiled_block *block);

/* Bytes of one half of it. */
#define NABLA_BF16_DEPTH 256u
#define NABLA_BF16_HALF \
  ((uint64_t)NABLA_BF16_DEPTH / NABLA_BF16_STEP * NABLA_TILE_BYTES)

/* A kernel but for how tiles are multiplied. */
#define NABLA_BF16_TILED                                                    \
  .step = NABLA_BF16_STEP, .step_bytes = NABLA_TILE_BYTES,                  \
  .depth = NABLA_BF16_DEPTH, .panel = NABLA_TILED_HALVES * NABLA_BF16_HALF, \
  .waiting = 128, .at_once = NABLA_TILED_AT_ONCE,                           \
  .decode = nabla_emit_bf16_panel

/* What bodies say of themselves; a row of x costs `row` ps. */
double nabla_bf16_cost(const nabla_fused_spec *spec, uint64_t m, double row);
void nabla_bf16_describe(const nabla_fused_spec *spec, nabla_kernel *out);
uint64_t nabla_bf16_chain(const nabla_fused_spec *spec);
uint64_t nabla_bf16_scratch(const nabla_fused_spec *spec);

#endif
