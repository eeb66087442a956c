/* bf16 pairs by vdpbf16ps: columns of x in lanes, a pair of w for all of them.
 */
#include "lib/kernels/bf16/bf16.h"
#include "lib/kernels/int8/int8.h"

#define DOT_ROWS 8u /* rows of w whose sums are in registers */
#define UNROLL   4u /* pairs */

static nabla_ssa pairs_type(nabla_emitter *emitter, nabla_ssa words) {
  return nabla_emit_bitcast(emitter, "vector<16xi32>", "vector<32xbf16>",
                            words);
}

/* UNROLL pairs from pair `pair` on of a tile of rows of w at `w` and of each
 * tile of x at `x`. */
static void dot_pairs(nabla_emitter *emitter, const nabla_tiled_square *s,
                      nabla_ssa w, const nabla_ssa *x, nabla_ssa pair,
                      nabla_ssa *sums) {
  nabla_ssa dword = nabla_emit_multiply(emitter, pair, 4),
            columns[NABLA_TILED_AT_ONCE];
  nabla_ssa row = nabla_emit_multiply(emitter, pair, NABLA_TILE_ROW_BYTES);
  for (unsigned p = 0; p < UNROLL; p++) {
    for (unsigned i = 0; i < s->count; i++)
      columns[i] = pairs_type(
          emitter,
          nabla_emit_load(emitter, "vector<16xi32>", x[i],
                          nabla_emit_add_constant(
                              emitter, row, (uint64_t)p * NABLA_TILE_ROW_BYTES),
                          64));
    for (unsigned r = 0; r < DOT_ROWS; r++) {
      nabla_ssa at = nabla_emit_add_constant(
          emitter, dword, (uint64_t)r * NABLA_TILE_ROW_BYTES + (uint64_t)p * 4);
      nabla_ssa one =
          pairs_type(emitter, nabla_emit_int8_spread(emitter, "i32", w, at));
      for (unsigned i = 0; i < s->count; i++) {
        nabla_ssa *sum = &sums[r * s->count + i];
        *sum = nabla_emit(
            emitter,
            "llvm.call_intrinsic \"llvm.x86.avx512bf16.dpbf16ps.512\"(%%v%u, "
            "%%v%u, %%v%u) : (vector<16xf32>, vector<32xbf16>, "
            "vector<32xbf16>) -> vector<16xf32>",
            *sum, one, columns[i]);
      }
    }
  }
}

/* DOT_ROWS rows of w, whose panel is at `panel` and whose sums are at `sums`.
 */
static void dot_rows(nabla_emitter *emitter, const nabla_tiled_block *b,
                     const nabla_tiled_square *s, nabla_ssa panel,
                     nabla_ssa sums) {
  unsigned count = DOT_ROWS * s->count;
  nabla_ssa values[DOT_ROWS * NABLA_TILED_AT_ONCE], x[NABLA_TILED_AT_ONCE];
  nabla_array_ref totals = nabla_floats_at(sums);
  nabla_loop steps, pairs;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  for (unsigned i = 0; i < count; i++) {
    uint64_t tile =
        (uint64_t)(i % s->count) * NABLA_TILED_HALVES * NABLA_TILE_BYTES;
    values[i] = nabla_emit_read_lanes(
        emitter, totals,
        nabla_emit_i64(emitter,
                       tile / 4 + (uint64_t)(i / s->count) * NABLA_TILE_ROWS),
        NABLA_LANES);
  }
  nabla_loop_begin(emitter, &steps, zero, b->steps, 1, count, values);
  nabla_ssa at =
      nabla_emit_multiply(emitter, steps.induction, NABLA_TILE_BYTES);
  nabla_ssa w = nabla_emit_address(emitter, panel, at);
  for (unsigned i = 0; i < s->count && i < NABLA_TILED_AT_ONCE; i++)
    x[i] = nabla_emit_address(emitter, s->x[i], at);
  nabla_loop_begin(emitter, &pairs, zero,
                   nabla_emit_i64(emitter, NABLA_TILE_ROWS), UNROLL, count,
                   steps.carried);
  for (unsigned i = 0; i < count; i++) values[i] = pairs.carried[i];
  dot_pairs(emitter, s, w, x, pairs.induction, values);
  nabla_loop_end(emitter, &pairs, values);
  nabla_loop_end(emitter, &steps, pairs.results);
  for (unsigned i = 0; i < count; i++) {
    uint64_t tile =
        (uint64_t)(i % s->count) * NABLA_TILED_HALVES * NABLA_TILE_BYTES;
    nabla_emit_write_lanes(
        emitter, totals,
        nabla_emit_i64(emitter,
                       tile / 4 + (uint64_t)(i / s->count) * NABLA_TILE_ROWS),
        steps.results[i]);
  }
}

static void multiply(nabla_emitter *emitter, const nabla_tiled_block *b,
                     const nabla_tiled_square *s) {
  nabla_loop parts;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &parts, zero,
                   nabla_emit_i64(emitter, NABLA_TILED_ROWS), DOT_ROWS, 0,
                   NULL);
  nabla_ssa half = nabla_emit_divide(emitter, parts.induction, NABLA_TILE_ROWS);
  nabla_ssa row =
      nabla_emit_multiply(emitter, parts.induction, NABLA_TILE_ROW_BYTES);
  nabla_ssa skip = nabla_emit_multiply(
      emitter, half, nabla_bf16_of(emitter->spec).half - NABLA_TILE_BYTES);
  dot_rows(
      emitter, b, s,
      nabla_emit_address(emitter, b->panel, nabla_emit_add(emitter, row, skip)),
      nabla_emit_address(emitter, s->sums, row));
  nabla_loop_end(emitter, &parts, NULL);
}

static void run(nabla_emitter *emitter) {
  nabla_tiled tiled = nabla_bf16_tiled(emitter->spec);
  tiled.multiply = multiply;
  nabla_emit_tiled(emitter, &tiled);
}

static int applies(const nabla_fused_spec *spec) {
  return nabla_bf16_applies(spec, NABLA_NUMERICS_BF16);
}

/* Twice as fast as f32 on AMD's CPUs, half as fast on Intel's, of which those
 * that have bf16 have AVX512-FP16 too, and AMD's have not. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  return nabla_bf16_cost(spec, m, nabla_bf16_decode_cost(spec),
                         NABLA_HAS(spec->features, AVX512FP16) ? 22 : 5);
}

const nabla_body nabla_body_bf16_dots = {.name = "bf16_dots",
                                         .instruction = "vdpbf16ps",
                                         NABLA_BF16_BODY,
                                         .applies = applies,
                                         .cost = cost,
                                         .run = run,
                                         .chain = nabla_bf16_chain,
                                         .scratch = nabla_bf16_scratch};
