/* bf16 pairs by AMX: two tiles of w and two of x make four tiles of sums, which
 * stay in registers for a panel. */
#include "transforms/kernels/bf16.h"

/* Numbers of tiles. */
static unsigned sum_tile(unsigned i, unsigned half) {
  return i * NABLA_TILED_HALVES + half;
}

static void each_sum(nabla_emitter *emitter, const nabla_tiled_square *s,
                     void (*move)(nabla_emitter *, unsigned, nabla_ssa,
                                  nabla_ssa)) {
  for (unsigned i = 0; i < s->count * NABLA_TILED_HALVES; i++)
    move(emitter, sum_tile(i / NABLA_TILED_HALVES, i % NABLA_TILED_HALVES),
         s->sums, nabla_emit_i64(emitter, (uint64_t)i * NABLA_TILE_BYTES));
}

/* The step's share of the next panel, while tiles are multiplied: a row of it
 * lies in lines far from those of the next, which no CPU foresees. */
static void prefetch(nabla_emitter *emitter, const nabla_tiled_block *b,
                     const nabla_tiled_square *s, nabla_ssa step) {
  unsigned rows = NABLA_TILED_ROWS * NABLA_BF16_STEP / NABLA_BF16_DEPTH;
  nabla_ssa first = nabla_emit_add(emitter, b->next,
                                   nabla_emit_multiply(emitter, step, rows));
  nabla_emit_line(emitter, "scf.if %%v%u {", s->is_first);
  for (unsigned i = 0; i < rows; i++)
    nabla_emit_bf16_prefetch(
        emitter, nabla_emit_add_constant(emitter, first, i), b->next_k);
  nabla_emit_line(emitter, "}");
}

static void multiply(nabla_emitter *emitter, const nabla_tiled_block *b,
                     const nabla_tiled_square *s) {
  nabla_loop steps;
  nabla_ssa panel = b->panel;
  each_sum(emitter, s, nabla_emit_tile_load);
  nabla_loop_begin(emitter, &steps, nabla_emit_i64(emitter, 0), b->steps, 1, 0,
                   NULL);
  nabla_ssa at =
      nabla_emit_multiply(emitter, steps.induction, NABLA_TILE_BYTES);
  for (unsigned h = 0; h < NABLA_TILED_HALVES; h++)
    nabla_emit_tile_load(
        emitter, NABLA_W_TILE + h, panel,
        nabla_emit_add_constant(emitter, at, h * NABLA_BF16_HALF));
  for (unsigned i = 0; i < s->count; i++) {
    nabla_emit_tile_load(emitter, NABLA_X_TILE + i, s->x[i], at);
    for (unsigned h = 0; h < NABLA_TILED_HALVES; h++)
      nabla_emit_tile_dot(emitter, "tdpbf16ps", sum_tile(i, h),
                          NABLA_W_TILE + h, NABLA_X_TILE + i);
  }
  prefetch(emitter, b, s, steps.induction);
  nabla_loop_end(emitter, &steps, NULL);
  each_sum(emitter, s, nabla_emit_tile_store);
}

static const nabla_tiled tiled = {NABLA_BF16_TILED, .multiply = multiply};

static void run(nabla_emitter *emitter) {
  nabla_emit_tiles_begin(emitter, emitter->scratch, NABLA_TILE_ROW_BYTES);
  nabla_emit_tiled(emitter, &tiled);
  nabla_emit_tiles_end(emitter);
}

static int applies(const nabla_fused_spec *spec) {
  return NABLA_HAS(spec->features, AMX_BF16) && nabla_bf16_applies(spec);
}

static double cost(const nabla_fused_spec *spec, uint64_t m) {
  return nabla_bf16_cost(spec, m, .8);
}

const nabla_body nabla_body_bf16_amx = {.name = "bf16_amx",
                                        .instruction = "tdpbf16ps",
                                        .takes_blocks = 1,
                                        .applies = applies,
                                        .cost = cost,
                                        .run = run,
                                        .prepare = nabla_emit_bf16_x,
                                        .describe = nabla_bf16_describe,
                                        .chain = nabla_bf16_chain,
                                        .scratch = nabla_bf16_scratch};
