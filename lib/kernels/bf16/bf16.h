/* Products of bf16 pairs with sums in f32, for many rows of x. Both operands
 * are tiles of 64 bytes times 16:
 *   of w  16 rows, each with 32 elements of k: weights decoded to f32, scale
 *         included, and rounded half to even
 *   of x  16 pairs of elements of k, each of 16 rows, packed by `prepare`
 * so that w is not transposed. A tile of sums has rows of w and columns of x.
 *
 * For NABLA_NUMERICS_F32 both are sums of parts: the first is the value as
 * bf16, the second what that left, and so on; three parts are the f32 itself.
 * Those of x are rounded, and of tables but for those made ahead; those of
 * other weights are cut off (split_bf16.h). Each part has tiles of its own.
 * Where runs of 32 or more elements of k lie under one scale, w is codes
 * without it, many of which are bf16 as they are, and the sum of a run is
 * multiplied with the scale. (Codes of q6_k are multiplied with the factor of
 * their 16 and are two parts.) With up to 8 rows of x a tile holds two parts of
 * each, and a product is that of both: 2 do for 3, 4 for 6.
 *
 * The elements of k in a tile of w are 32 neighbours, of which those that make
 * a pair are next to each other; in f32 they are 16 apart, so that the upper
 * halves of two vectors are put together by a shift and a mask. Or, where 64
 * codes of 4 or 2 bits are a line, elements are those at half of the places
 * that 16-bit words have: the words of a line, shifted, are the indices of
 * two tiles in a table of bf16 (of 4 bits by 0 and 4, and by 8 and 12).
 *
 * Panels are packed as a whole, or between products of the one before
 * (pack_b_bf16_ahead.h).
 *
 * Functions are defined in gemm_bf16_amx.c, pack_a_bf16.c, pack_b_bf16.c,
 * pack_b_bf16_codeline.c and scales_bf16.c. */
#ifndef NABLA_KERNELS_BF16_BF16_H
#define NABLA_KERNELS_BF16_BF16_H

#include "lib/kernels/bf16/gemm_macro_kernel.h"

#define NABLA_BF16_STEP 32u /* elements of k in a tile */
#define NABLA_BF16_LINE 64u /* in a line of codes of 4 or 2 bits */

#define NABLA_BF16_PARTS 3u /* of an f32, at most */

#define NABLA_BF16_DEPTH_MOST 256u /* elements of k in a panel */

/* Values that are split are at most 2^30, and weights at least 2^-60, if they
 * are not zero (gemm_f32_bf16x3_amx.c). */
#define NABLA_BF16_LIMIT_BITS 0x4e800000u
#define NABLA_BF16_TINY_BITS  0x21800000u

/* Powers of two: what scales may be, if not zero, and values of a table, for
 * weights that can be split. */
#define NABLA_BF16_SCALE_LEAST (-52)
#define NABLA_BF16_SCALE_MOST  26
#define NABLA_BF16_VALUE_LEAST (-8)
#define NABLA_BF16_VALUE_MOST  4

/* The parts of w and of x that are multiplied, and the sizes that follow. */
typedef struct nabla_bf16 {
  unsigned w_parts, x_parts;
  /* Parts of x in a tile: 2 where there are no more than 8 rows, the second one
   * behind these. A product is that of both, sums are folded in the end. */
  unsigned folds;
  unsigned x_tiles;    /* for all parts */
  uint64_t depth;      /* elements of k in a panel */
  uint64_t half, part; /* bytes of one half of it, of one part */
  /* Elements of k under a scale that their sum is multiplied with; 0: weights
   * are decoded with theirs. */
  uint64_t run;
  /* Whether each weight of a run has a minimum added (GGUF blocks): it is
   * multiplied with sums of x. */
  int has_minima;
  uint64_t scales; /* of a row of a panel: of each run, and its minimum */
  int adds_runs;   /* to totals, rather than to sums of a panel */
  int is_ahead;    /* panels are decoded while those before are multiplied */
  /* Accumulators stay in tiles from panel to panel, if M is at most what is
   * multiplied at once and scales are in the weights. */
  int stays;
} nabla_bf16;
nabla_bf16 nabla_bf16_of(const nabla_fused_spec *spec);

/* The number of products of parts that are significant in f32. */
unsigned nabla_bf16_products(const nabla_bf16 *self);

/* Whether w can be packed to bf16 by rows, with the instructions of the target,
 * for `numerics`. With the prepacked layout too: prepacking gains nothing, w is
 * read in place. */
int nabla_bf16_applies(const nabla_fused_spec *spec, nabla_numerics numerics);

/* Whether tiles are packed from whole cache lines of codes. */
int nabla_bf16_by_lines(const nabla_fused_spec *spec);

/* `count` codes from `flat` on, to two tiles for each line from the address
 * `out` on. */
void nabla_emit_bf16_lines(nabla_emitter *e, nabla_ssa flat, nabla_ssa count,
                           nabla_ssa out);

/* Codes in a word of 16 bits. */
unsigned nabla_bf16_word_codes(const nabla_fused_spec *spec);

/* Whether tiles are packed from whole GGUF blocks, or halves of such. */
int nabla_bf16_by_units(const nabla_fused_spec *spec);

/* Whether the elements of a pair are 16 apart. */
int nabla_bf16_is_apart(const nabla_fused_spec *spec);

/* vector<32xi16> of 32 f32 as `count` parts, each rounded to bf16. */
void nabla_emit_bf16_split(nabla_emitter *e, nabla_ssa low, nabla_ssa high,
                           unsigned count, nabla_ssa *out);

/* Checks f32 before they are split or multiplied with: values whose bits are
 * more than `most`, or less than `least` and not zero, become NaN, which is
 * detected in sums (gemm_f32_bf16x3_amx.c). */
nabla_ssa nabla_emit_bf16_limit(nabla_emitter *e, nabla_ssa value,
                                uint32_t least, uint32_t most);

/* The code of `prepare`: for each 16 rows the tiles along k. */
#define NABLA_BF16_PACK_A_SCRATCH \
  ((uint64_t)NABLA_BF16_PARTS * NABLA_TILE_BYTES + NABLA_TILE_ROW_BYTES)
void nabla_emit_bf16_pack_a(nabla_emitter *e);

/* Prefetches the codes of row `row` of the panel at k. */
void nabla_emit_bf16_prefetch(nabla_emitter *e, nabla_ssa row, nabla_ssa k);

/* Packs a panel: tiles along k of 16 rows, then of the other 16. */
void nabla_emit_bf16_pack_b(nabla_emitter *e, const nabla_macro_block *block);

/* A macro kernel without `multiply`. */
nabla_macro_kernel nabla_bf16_macro_kernel(const nabla_fused_spec *spec);

/* The address of the scales of a panel, f32: for each row those of its runs,
 * each followed by its minimum if there are such. */
nabla_ssa nabla_emit_bf16_scales(nabla_emitter *e,
                                 const nabla_macro_block *block);

/* Writes the scales of row `row` of the panel, which begins at `flat`; the
 * second function replaces scales of all rows that are out of range by NaN. */
void nabla_emit_bf16_write_scales(nabla_emitter *e,
                                  const nabla_macro_block *block, nabla_ssa row,
                                  nabla_ssa flat);
void nabla_emit_bf16_limit_scales(nabla_emitter *e,
                                  const nabla_macro_block *block);

/* The code of `run` by AMX: all parts of w are multiplied with the parts of x
 * that are significant in f32. In f32, NABLA_BF16_MORE_BYTES behind the scratch
 * of `macro` hold sums of a run, of a panel, and scales. */
#define NABLA_BF16_FRESH_BYTES \
  ((uint64_t)NABLA_MACRO_TILES * NABLA_MACRO_HALVES * NABLA_TILE_BYTES)
#define NABLA_BF16_SCALES_BYTES                                   \
  (2 * sizeof(float) * NABLA_MACRO_ROWS * NABLA_BF16_DEPTH_MOST / \
   NABLA_BF16_STEP)
#define NABLA_BF16_MORE_BYTES \
  (2 * NABLA_BF16_FRESH_BYTES + NABLA_BF16_SCALES_BYTES)
void nabla_emit_bf16_amx(nabla_emitter *e, const nabla_macro_kernel *macro);

/* Cost, tiles, depth and scratch of a variant; packing costs `decode` ps for an
 * element of w, a row of x `row`. */
double nabla_bf16_cost(const nabla_fused_spec *spec, uint64_t m, double decode,
                       double row);
double nabla_bf16_decode_cost(const nabla_fused_spec *spec);
void nabla_bf16_describe(const nabla_fused_spec *spec, nabla_kernel *out);
uint64_t nabla_bf16_accumulation_depth(const nabla_fused_spec *spec);
uint64_t nabla_bf16_scratch(const nabla_fused_spec *spec);

/* Members that all variants of this kind share. */
#define NABLA_BF16_VARIANT                             \
  .takes_blocks = 1, .pack_a = nabla_emit_bf16_pack_a, \
  .pack_a_scratch = NABLA_BF16_PACK_A_SCRATCH, .describe = nabla_bf16_describe

#endif
