/* GEMM in bf16 by vdpbf16ps: rows of x in lanes, a broadcast pair of w. */
#include "lib/kernels/bf16/bf16.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/int8/int8.h"

#define DOT_ROWS 8u /* rows of w whose sums are in registers */
#define UNROLL   4u /* pairs */

static nabla_ssa pairs_type(nabla_emitter *e, nabla_ssa words) {
  return k_bitcast(e, "vector<16xi32>", "vector<32xbf16>", words);
}

/* UNROLL pairs from pair `pair` on of a tile of rows of w at `w` and of each
 * tile of x at `x`. */
static void dot_pairs(nabla_emitter *e, const nabla_macro_tile *s, nabla_ssa w,
                      const nabla_ssa *x, nabla_ssa pair, nabla_ssa *sums) {
  nabla_ssa dword = k_multiply(e, pair, 4), columns[NABLA_MACRO_TILES];
  nabla_ssa row = k_multiply(e, pair, NABLA_TILE_ROW_BYTES);
  for (unsigned p = 0; p < UNROLL; p++) {
    for (unsigned i = 0; i < s->count; i++)
      columns[i] = pairs_type(
          e, k_load(e, "vector<16xi32>", x[i],
                    k_add_constant(e, row, (uint64_t)p * NABLA_TILE_ROW_BYTES),
                    64));
    for (unsigned r = 0; r < DOT_ROWS; r++) {
      nabla_ssa at = k_add_constant(
          e, dword, (uint64_t)r * NABLA_TILE_ROW_BYTES + (uint64_t)p * 4);
      nabla_ssa one = pairs_type(e, nabla_emit_int8_spread(e, "i32", w, at));
      for (unsigned i = 0; i < s->count; i++) {
        nabla_ssa *sum = &sums[r * s->count + i];
        *sum = k_op(
            e,
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
static void dot_rows(nabla_emitter *e, const nabla_macro_block *b,
                     const nabla_macro_tile *s, nabla_ssa panel,
                     nabla_ssa sums) {
  unsigned count = DOT_ROWS * s->count;
  nabla_ssa values[DOT_ROWS * NABLA_MACRO_TILES], x[NABLA_MACRO_TILES];
  nabla_array_ref totals = nabla_floats_at(sums);
  nabla_loop steps, pairs;
  nabla_ssa zero = k_i64(e, 0);
  for (unsigned i = 0; i < count; i++) {
    uint64_t tile =
        (uint64_t)(i % s->count) * NABLA_MACRO_HALVES * NABLA_TILE_BYTES;
    values[i] = k_read_lanes(
        e, totals,
        k_i64(e, tile / 4 + (uint64_t)(i / s->count) * NABLA_TILE_ROWS),
        NABLA_LANES);
  }
  k_loop_begin(e, &steps, zero, b->steps, 1, count, values);
  nabla_ssa at = k_multiply(e, steps.induction, NABLA_TILE_BYTES);
  nabla_ssa w = k_address(e, panel, at);
  for (unsigned i = 0; i < s->count && i < NABLA_MACRO_TILES; i++)
    x[i] = k_address(e, s->x[i], at);
  k_loop_begin(e, &pairs, zero, k_i64(e, NABLA_TILE_ROWS), UNROLL, count,
               steps.carried);
  for (unsigned i = 0; i < count; i++) values[i] = pairs.carried[i];
  dot_pairs(e, s, w, x, pairs.induction, values);
  k_loop_end(e, &pairs, values);
  k_loop_end(e, &steps, pairs.results);
  for (unsigned i = 0; i < count; i++) {
    uint64_t tile =
        (uint64_t)(i % s->count) * NABLA_MACRO_HALVES * NABLA_TILE_BYTES;
    k_write_lanes(
        e, totals,
        k_i64(e, tile / 4 + (uint64_t)(i / s->count) * NABLA_TILE_ROWS),
        steps.results[i]);
  }
}

static void multiply(nabla_emitter *e, const nabla_macro_block *b,
                     const nabla_macro_tile *s) {
  nabla_loop parts;
  nabla_ssa zero = k_i64(e, 0);
  k_loop_begin(e, &parts, zero, k_i64(e, NABLA_MACRO_ROWS), DOT_ROWS, 0, NULL);
  nabla_ssa half = k_divide(e, parts.induction, NABLA_TILE_ROWS);
  nabla_ssa row = k_multiply(e, parts.induction, NABLA_TILE_ROW_BYTES);
  nabla_ssa skip =
      k_multiply(e, half, nabla_bf16_of(e->spec).half - NABLA_TILE_BYTES);
  dot_rows(e, b, s, k_address(e, b->panel, k_add(e, row, skip)),
           k_address(e, s->sums, row));
  k_loop_end(e, &parts, NULL);
}

static void run(nabla_emitter *e) {
  nabla_macro_kernel macro = nabla_bf16_macro_kernel(e->spec);
  macro.multiply = multiply;
  nabla_emit_macro_kernel(e, &macro);
}

static int applies(const nabla_fused_spec *spec) {
  return nabla_bf16_applies(spec, NABLA_NUMERICS_BF16);
}

/* Twice as fast as f32 on AMD's CPUs, half as fast on Intel's. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  const nabla_cpu_family *family = nabla_cpu_family_of(spec->features);
  return nabla_bf16_cost(spec, m,
                         nabla_bf16_decode_cost(spec) + family->pack_bf16,
                         family->dot_bf16);
}

const nabla_kernel_variant nabla_variant_gemm_bf16_avx512 = {
    .name = "gemm_bf16_avx512",
    .instruction = "vdpbf16ps",
    NABLA_BF16_VARIANT,
    .applies = applies,
    .cost = cost,
    .run = run,
    .accumulation_depth = nabla_bf16_accumulation_depth,
    .scratch = nabla_bf16_scratch};
