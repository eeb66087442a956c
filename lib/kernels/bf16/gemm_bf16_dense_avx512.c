/* GEMM of two dense operands of bf16 by vdpbf16ps: columns of w in lanes, a
 * broadcast pair of x. */
#include "lib/kernels/bf16/dense_bf16.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/int8/int8.h"

#define HALVES   (NABLA_DENSE_COLUMNS / NABLA_LANES)
#define DOT_ROWS 8u /* of x whose sums are in registers */
#define SUMS     (DOT_ROWS * HALVES)
#define UNROLL   4u /* pairs */

static nabla_ssa pairs_type(nabla_emitter *e, nabla_ssa dwords) {
  return k_bitcast(e, "vector<16xi32>", "vector<32xbf16>", dwords);
}

/* UNROLL pairs from pair `pair` on of rows of x at `x` and of the halves of a
 * step of the panel at `w`. */
static void dot_pairs(nabla_emitter *e, nabla_ssa x, nabla_ssa w,
                      nabla_ssa pair, nabla_ssa *sums) {
  nabla_ssa dword = k_multiply(e, pair, 4), columns[HALVES];
  nabla_ssa row = k_multiply(e, pair, NABLA_TILE_ROW_BYTES);
  for (unsigned p = 0; p < UNROLL; p++) {
    for (unsigned h = 0; h < HALVES; h++)
      columns[h] = pairs_type(
          e, k_load(e, "vector<16xi32>", w,
                    k_add_constant(e, row,
                                   h * NABLA_DENSE_HALF +
                                       (uint64_t)p * NABLA_TILE_ROW_BYTES),
                    64));
    for (unsigned r = 0; r < DOT_ROWS; r++) {
      nabla_ssa at = k_add_constant(
          e, dword, (uint64_t)r * NABLA_TILE_ROW_BYTES + (uint64_t)p * 4);
      nabla_ssa one = pairs_type(e, nabla_emit_int8_spread(e, "i32", x, at));
      for (unsigned h = 0; h < HALVES; h++) {
        nabla_ssa *sum = &sums[r * HALVES + h];
        *sum = k_op(
            e,
            "llvm.call_intrinsic \"llvm.x86.avx512bf16.dpbf16ps.512\"(%%v%u, "
            "%%v%u, %%v%u) : (vector<16xf32>, vector<32xbf16>, "
            "vector<32xbf16>) -> vector<16xf32>",
            *sum, one, columns[h]);
      }
    }
  }
}

/* Whether sums begin and end with a panel: totals are not read. */
static int is_one_panel(const nabla_fused_spec *spec) {
  return !(spec->open & NABLA_OPEN_K) && spec->k <= NABLA_DENSE_DEPTH;
}

/* DOT_ROWS rows of a tile of x at `x`, whose totals are at `totals`. */
static void dot_rows(nabla_emitter *e, const nabla_dense_block *b, nabla_ssa x,
                     nabla_ssa totals) {
  nabla_array_ref to = nabla_floats_at(totals);
  nabla_loop steps, pairs;
  nabla_ssa zero = k_i64(e, 0), values[SUMS];
  for (unsigned i = 0; i < SUMS; i++)
    values[i] = is_one_panel(e->spec)
                    ? k_f32(e, NABLA_VECTOR, 0)
                    : k_read_lanes(e, to, k_i64(e, (uint64_t)i * NABLA_LANES),
                                   NABLA_LANES);
  k_loop_begin(e, &steps, zero, b->steps, 1, SUMS, values);
  nabla_ssa at = k_multiply(e, steps.induction, NABLA_TILE_BYTES);
  nabla_ssa x_at = k_address(e, x, at), w_at = k_address(e, b->panel, at);
  k_loop_begin(e, &pairs, zero, k_i64(e, NABLA_TILE_ROWS), UNROLL, SUMS,
               steps.carried);
  for (unsigned i = 0; i < SUMS; i++) values[i] = pairs.carried[i];
  dot_pairs(e, x_at, w_at, pairs.induction, values);
  k_loop_end(e, &pairs, values);
  k_loop_end(e, &steps, pairs.results);
  for (unsigned i = 0; i < SUMS; i++)
    k_write_lanes(e, to, k_i64(e, (uint64_t)i * NABLA_LANES), steps.results[i]);
}

static void clear_totals(nabla_emitter *e, const nabla_dense_block *b) {
  k_line(e, "scf.if %%v%u {", b->is_first);
  k_clear(e, nabla_floats_at(b->totals),
          k_i64(e, (uint64_t)b->count * NABLA_TILE_ROWS * NABLA_DENSE_COLUMNS));
  k_line(e, "}");
}

static void multiply(nabla_emitter *e, const nabla_dense_block *b) {
  nabla_loop parts;
  if (!is_one_panel(e->spec)) clear_totals(e, b);
  for (unsigned i = 0; i < b->count && i < NABLA_DENSE_TILES; i++) {
    nabla_ssa totals = k_address(
        e, b->totals,
        k_i64(e, (uint64_t)i * NABLA_TILE_ROWS * NABLA_DENSE_TOTALS_ROW));
    k_loop_begin(e, &parts, k_i64(e, 0), k_i64(e, NABLA_TILE_ROWS), DOT_ROWS, 0,
                 NULL);
    dot_rows(e, b,
             k_address(e, b->x[i],
                       k_multiply(e, parts.induction, NABLA_TILE_ROW_BYTES)),
             k_address(e, totals,
                       k_multiply(e, parts.induction, NABLA_DENSE_TOTALS_ROW)));
    k_loop_end(e, &parts, NULL);
  }
}

static void run(nabla_emitter *e) { nabla_emit_dense_bf16(e, multiply); }

/* Twice as fast as f32 on AMD's CPUs, half as fast on Intel's. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  return nabla_dense_bf16_cost(spec, m,
                               nabla_cpu_family_of(spec->features)->dot_bf16);
}

const nabla_kernel_variant nabla_variant_gemm_bf16_dense_avx512 = {
    .name = "gemm_bf16_dense_avx512",
    .instruction = "vdpbf16ps",
    NABLA_DENSE_BF16_VARIANT,
    .applies = nabla_dense_bf16_applies,
    .cost = cost,
    .run = run};
