/* GEMM in bf16 by AMX: two tiles of w and two of x make four accumulator tiles,
 * which stay in registers for a panel, or for several. */
#include "lib/kernels/bf16/pack_b_bf16_ahead.h"
#include "lib/kernels/builder/k.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"

/* Rows of the next panel that a step prefetches. */
static unsigned rows_of(const nabla_bf16 *self) {
  return NABLA_MACRO_ROWS * NABLA_BF16_STEP / (unsigned)self->depth;
}

/* Prefetches the operands of the next step, which are in the second-level cache
 * or memory: tile loads from there would stall products. Not where two parts
 * share a tile, as nothing is gained. */
static void prefetch_x(nabla_emitter *e, nabla_bf16_step *t) {
  const unsigned lines = t->self.x_tiles * NABLA_TILE_ROWS;
  const unsigned until = nabla_bf16_rows_behind(t, lines * t->s->count);
  if (t->self.folds > 1) return;
  nabla_ssa next = k_add_constant(e, t->x_at, t->b->self->step_bytes);
  for (; t->lines < until; t->lines++) /* the last tile of parts comes first */
    k_prefetch(e, t->s->x[t->lines / lines],
               k_add_constant(e, next,
                              (uint64_t)(lines - 1 - t->lines % lines) *
                                  NABLA_TILE_ROW_BYTES));
}

/* Prefetches a share of the next panel while tiles are multiplied: its rows are
 * far apart, and hardware does not prefetch them. All at once would delay loads
 * of x, as there are few line fill buffers. */
static void prefetch(nabla_emitter *e, nabla_bf16_step *t) {
  prefetch_x(e, t);
  const unsigned rows = rows_of(&t->self);
  const unsigned until = nabla_bf16_rows_behind(t, rows);
  if (t->rows == until) return;
  nabla_ssa next = k_add(e, t->b->next, k_multiply(e, t->number, rows));
  k_line(e, "scf.if %%v%u {", t->s->is_first);
  for (; t->rows < until; t->rows++)
    nabla_emit_bf16_prefetch(e, k_add_constant(e, next, t->rows), t->b->next_k);
  k_line(e, "}");
}

nabla_ssa nabla_emit_bf16_scratch(nabla_emitter *e, const nabla_macro_block *b,
                                  uint64_t byte) {
  return k_address(e, e->scratch,
                   k_i64(e, nabla_macro_kernel_scratch(b->self) + byte));
}

/* Accumulators that began at zero and are added to totals: in f32 accumulation
 * chains have to be short. */
typedef struct addition {
  nabla_ssa from, to; /* addresses */
  unsigned sets;      /* of sums in `from`, which are added to each other */
  nabla_ssa scales;   /* of the first row, or 0 */
  nabla_ssa minima;   /* the same */
  nabla_ssa x[NABLA_MACRO_TILES]; /* sums of x, with minima */
} addition;

/* LLM.int8 multiplies twice (FORMAT.md I4): with both in one number, a weight
 * that is picked by a single x would not be what it decodes to. */
static nabla_ssa scaled_sum(nabla_emitter *e, nabla_ssa to, nabla_ssa from,
                            nabla_ssa scale) {
  if (nabla_format_is_llm_int8(&e->spec->w.format)) {
    from = k_binary(e, NABLA_VECTOR, "mulf", from, scale);
    scale = k_f32(e, NABLA_VECTOR, (double)NABLA_INT8_STEP);
  }
  return k_fma(e, NABLA_VECTOR, from, scale, to);
}

/* The value of row `row`, or 0 where there are none, in all lanes. */
static nabla_ssa of_row(nabla_emitter *e, nabla_ssa values, nabla_ssa row) {
  if (!values) return 0;
  row = k_multiply(e, row, nabla_bf16_of(e->spec).scales);
  return k_broadcast(e, "f32", k_read(e, nabla_floats_at(values), row));
}

static nabla_ssa fresh_sum(nabla_emitter *e, const addition *a,
                           const nabla_macro_tile *s, nabla_ssa at) {
  nabla_array_ref from = nabla_floats_at(a->from);
  nabla_ssa sum = k_read_lanes(e, from, at, NABLA_LANES);
  if (a->sets == s->count) return sum;
  at = k_add_constant(e, at, (uint64_t)NABLA_MACRO_ROWS * NABLA_LANES);
  return k_binary(e, NABLA_VECTOR, "addf", sum,
                  k_read_lanes(e, from, at, NABLA_LANES));
}

static void add_sums(nabla_emitter *e, const nabla_macro_tile *s,
                     const addition *a) {
  nabla_array_ref to = nabla_floats_at(a->to);
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), k_i64(e, NABLA_MACRO_ROWS), 1, 0, NULL);
  nabla_ssa scale = of_row(e, a->scales, rows.induction);
  nabla_ssa minimum = of_row(e, a->minima, rows.induction);
  nabla_ssa row = k_multiply(e, rows.induction, NABLA_LANES);
  for (uint64_t i = 0; i < s->count && i < NABLA_MACRO_TILES; i++) {
    nabla_ssa at = k_add_constant(e, row, i * NABLA_MACRO_ROWS * NABLA_LANES);
    nabla_ssa sum = fresh_sum(e, a, s, at);
    nabla_ssa total = k_read_lanes(e, to, at, NABLA_LANES);
    total = scale ? scaled_sum(e, total, sum, scale)
                  : k_binary(e, NABLA_VECTOR, "addf", total, sum);
    if (minimum) total = k_fma(e, NABLA_VECTOR, a->x[i], minimum, total);
    k_write_lanes(e, to, at, total);
  }
  k_loop_end(e, &rows, NULL);
}

void nabla_emit_bf16_add_sums(nabla_emitter *e, const nabla_macro_tile *s,
                              nabla_ssa scratch) {
  add_sums(e, s,
           &(addition){
               .from = scratch, .to = s->sums, .sets = nabla_bf16_sets(e, s)});
}

static void multiply_steps(nabla_emitter *e, const nabla_macro_block *b,
                           const nabla_macro_tile *s, nabla_ssa from,
                           nabla_ssa to) {
  nabla_loop steps;
  k_loop_begin(e, &steps, from, to, 1, 0, NULL);
  nabla_emit_bf16_step(e, b, s, steps.induction, prefetch, NULL);
  k_loop_end(e, &steps, NULL);
}

/* Steps [from, to), or `from` alone where `to` is 0, summed from zero to the
 * address `scratch`. */
static void multiply_fresh(nabla_emitter *e, const nabla_macro_block *b,
                           const nabla_macro_tile *s, nabla_ssa from,
                           nabla_ssa to, nabla_ssa scratch) {
  const unsigned sets = nabla_bf16_sets(e, s);
  nabla_emit_bf16_zero(e, sets);
  if (to)
    multiply_steps(e, b, s, from, to);
  else
    nabla_emit_bf16_step(e, b, s, from, prefetch, NULL);
  nabla_emit_bf16_store_sums(e, sets, scratch);
}

/* Sums of x of step `number`, which lie behind its tiles. */
static nabla_ssa x_sums(nabla_emitter *e, const nabla_macro_block *b,
                        nabla_ssa x, nabla_ssa number) {
  nabla_ssa at = k_multiply(e, number, b->self->step_bytes);
  at = k_add_constant(e, at, b->self->step_bytes - NABLA_TILE_ROW_BYTES);
  return k_read_lanes(e, nabla_floats_at(k_address(e, x, at)), k_i64(e, 0),
                      NABLA_LANES);
}

/* The runs of a panel, each sum multiplied with its scales. Runs with minima
 * are a step long. */
static void multiply_runs(nabla_emitter *e, const nabla_macro_block *b,
                          const nabla_macro_tile *s, nabla_ssa scratch,
                          nabla_ssa sums) {
  const nabla_bf16 self = nabla_bf16_of(e->spec);
  const uint64_t steps = self.run / NABLA_BF16_STEP;
  nabla_loop runs;
  k_loop_begin(e, &runs, k_i64(e, 0), b->steps, steps, 0, NULL);
  nabla_ssa end = 0;
  if (steps > 1)
    end = k_minimum(e, k_add_constant(e, runs.induction, steps), b->steps);
  multiply_fresh(e, b, s, runs.induction, end, scratch);
  nabla_ssa at = k_multiply(e, k_divide(e, runs.induction, steps),
                            self.has_minima ? 8 : 4);
  addition a = {.from = scratch,
                .to = sums,
                .sets = nabla_bf16_sets(e, s),
                .scales = k_address(e, nabla_emit_bf16_scales(e, b), at)};
  if (self.has_minima) {
    a.minima = k_address(e, a.scales, k_i64(e, 4));
    for (unsigned i = 0; i < s->count && i < NABLA_MACRO_TILES; i++)
      a.x[i] = x_sums(e, b, s->x[i], runs.induction);
  }
  add_sums(e, s, &a);
  k_loop_end(e, &runs, NULL);
}

/* In bf16 accumulators are continued from panel to panel. */
static void multiply(nabla_emitter *e, const nabla_macro_block *b,
                     const nabla_macro_tile *s) {
  const nabla_bf16 self = nabla_bf16_of(e->spec);
  nabla_ssa zero = k_i64(e, 0);
  if (e->spec->numerics != NABLA_NUMERICS_F32) {
    nabla_emit_bf16_load_sums(e, s->count, s->sums);
    multiply_steps(e, b, s, zero, b->steps);
    nabla_emit_bf16_store_sums(e, s->count, s->sums);
    return;
  }
  nabla_ssa scratch = nabla_emit_bf16_scratch(e, b, 0);
  if (self.run && self.adds_runs) {
    multiply_runs(e, b, s, scratch, s->sums);
  } else if (self.run) {
    nabla_ssa panel = nabla_emit_bf16_scratch(e, b, NABLA_BF16_FRESH_BYTES);
    k_clear(e, nabla_floats_at(panel),
            k_i64(e, (uint64_t)s->count * NABLA_MACRO_ROWS * NABLA_LANES));
    multiply_runs(e, b, s, scratch, panel);
    add_sums(e, s, &(addition){.from = panel, .to = s->sums, .sets = s->count});
  } else {
    multiply_fresh(e, b, s, zero, b->steps, scratch);
    nabla_emit_bf16_add_sums(e, s, scratch);
  }
}

/* Panels of a run one after the other, with sums in tiles. */
static void multiply_staying(nabla_emitter *e, nabla_macro_block *b,
                             const nabla_macro_tile *square) {
  nabla_macro_tile s = *square;
  const unsigned sets = nabla_bf16_sets(e, &s);
  nabla_ssa scratch = nabla_emit_bf16_scratch(e, b, 0);
  nabla_loop runs, panels;
  nabla_emit_macro_panel(e, b, &s, k_i64(e, 0));
  k_loop_begin(e, &runs, k_i64(e, 0), e->k, NABLA_BF16_SUM_DEPTH, 0, NULL);
  nabla_ssa end = k_minimum(
      e, k_add_constant(e, runs.induction, NABLA_BF16_SUM_DEPTH), e->k);
  nabla_emit_bf16_zero(e, sets);
  k_loop_begin(e, &panels, runs.induction, end, b->self->depth, 0, NULL);
  nabla_macro_tile here = s;
  nabla_emit_macro_panel(e, b, &here, panels.induction);
  b->self->pack_b(e, b);
  multiply_steps(e, b, &here, k_i64(e, 0), b->steps);
  k_loop_end(e, &panels, NULL);
  nabla_emit_bf16_store_sums(e, sets, scratch);
  nabla_emit_bf16_add_sums(e, &s, scratch);
  k_loop_end(e, &runs, NULL);
}

/* Accumulators stay in tiles if M is at most what a panel is multiplied with at
 * once; more rows share a packed panel. */
static void multiply_rows(nabla_emitter *e, const nabla_macro_kernel *macro) {
  const nabla_fused_spec *spec = e->spec;
  if (!nabla_bf16_of(spec).stays) {
    nabla_emit_macro_kernel(e, macro);
    return;
  }
  nabla_macro_kernel few = *macro;
  few.stays = 1;
  few.waiting = few.at_once * NABLA_TILE_ROWS;
  few.multiply_all = multiply_staying;
  const int has_more = nabla_spec_last_m(spec) > few.waiting;
  if (has_more)
    k_line(e, "scf.if %%v%u {",
           k_op(e, "arith.cmpi ule, %%v%u, %%v%u : i64", e->m,
                k_i64(e, few.waiting)));
  nabla_emit_macro_kernel(e, &few);
  if (!has_more) return;
  k_line(e, "} else {");
  nabla_emit_macro_kernel(e, macro);
  k_line(e, "}");
}

void nabla_emit_bf16_amx(nabla_emitter *e, const nabla_macro_kernel *macro) {
  nabla_macro_kernel self = *macro;
  self.multiply = multiply;
  self.multiply_all = nabla_emit_bf16_ahead;
  k_tiles_begin(e, e->scratch, NABLA_TILE_ROW_BYTES);
  multiply_rows(e, &self);
  k_tiles_end(e);
}

static void run(nabla_emitter *e) {
  nabla_macro_kernel macro = nabla_bf16_macro_kernel(e->spec);
  nabla_emit_bf16_amx(e, &macro);
}

static int applies(const nabla_fused_spec *spec) {
  return NABLA_HAS(spec->features, AMX_BF16) &&
         nabla_bf16_applies(spec, NABLA_NUMERICS_BF16);
}

static double cost(const nabla_fused_spec *spec, uint64_t m) {
  return nabla_bf16_cost(spec, m, nabla_bf16_decode_cost(spec), .8);
}

const nabla_kernel_variant nabla_variant_gemm_bf16_amx = {
    .name = "gemm_bf16_amx",
    .instruction = "tdpbf16ps",
    NABLA_BF16_VARIANT,
    .applies = applies,
    .cost = cost,
    .run = run,
    .accumulation_depth = nabla_bf16_accumulation_depth,
    .scratch = nabla_bf16_scratch};
