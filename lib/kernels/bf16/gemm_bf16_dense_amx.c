/* GEMM of two dense operands of bf16 by AMX: two tiles of x and two of w make
 * four accumulator tiles, whose rows are those of y. */
#include "lib/kernels/bf16/dense_bf16.h"
#include "lib/kernels/builder/k.h"

#define HALVES (NABLA_DENSE_COLUMNS / NABLA_TILE_ROWS)

typedef void move(nabla_emitter *e, unsigned tile, nabla_ssa base,
                  nabla_ssa byte, uint64_t apart);

static void move_sums(nabla_emitter *e, const nabla_dense_block *b, move *how) {
  for (unsigned i = 0; i < b->count * HALVES; i++)
    how(e, i, b->totals,
        k_i64(e, (uint64_t)(i / HALVES) * NABLA_TILE_ROWS *
                         NABLA_DENSE_TOTALS_ROW +
                     (uint64_t)(i % HALVES) * NABLA_TILE_ROW_BYTES),
        NABLA_DENSE_TOTALS_ROW);
}

static void begin_sums(nabla_emitter *e, const nabla_dense_block *b) {
  k_line(e, "scf.if %%v%u {", b->is_first);
  for (unsigned i = 0; i < b->count * HALVES; i++) k_tile_zero(e, i);
  k_line(e, "} else {");
  move_sums(e, b, k_tile_load_apart);
  k_line(e, "}");
}

static void multiply(nabla_emitter *e, const nabla_dense_block *b) {
  nabla_loop steps;
  begin_sums(e, b);
  k_loop_begin(e, &steps, k_i64(e, 0), b->steps, 1, 0, NULL);
  nabla_ssa at = k_multiply(e, steps.induction, NABLA_TILE_BYTES);
  for (unsigned i = 0; i < b->count && i < NABLA_DENSE_TILES; i++)
    k_tile_load(e, NABLA_X_TILE + i, b->x[i], at);
  for (unsigned h = 0; h < HALVES; h++) {
    k_tile_load(e, NABLA_W_TILE + h, b->panel,
                k_add_constant(e, at, h * NABLA_DENSE_HALF));
    for (unsigned i = 0; i < b->count; i++)
      k_tile_dot(e, "tdpbf16ps", i * HALVES + h, NABLA_X_TILE + i,
                 NABLA_W_TILE + h);
  }
  k_loop_end(e, &steps, NULL);
  move_sums(e, b, k_tile_store_apart);
}

static void run(nabla_emitter *e) {
  k_tiles_begin(e, e->scratch, NABLA_TILE_ROW_BYTES);
  nabla_emit_dense_bf16(e, multiply);
  k_tiles_end(e);
}

static int applies(const nabla_fused_spec *spec) {
  return NABLA_HAS(spec->features, AMX_BF16) && nabla_dense_bf16_applies(spec);
}

static double cost(const nabla_fused_spec *spec, uint64_t m) {
  return nabla_dense_bf16_cost(spec, m, .8);
}

const nabla_kernel_variant nabla_variant_gemm_bf16_dense_amx = {
    .name = "gemm_bf16_dense_amx",
    .instruction = "tdpbf16ps",
    NABLA_DENSE_BF16_VARIANT,
    .applies = applies,
    .cost = cost,
    .run = run};
