/* bf16 pairs by AMX: two tiles of w and two of x make four tiles of sums, which
 * stay in registers for a panel, or for many. */
#include "lib/kernels/bf16/pack_b_bf16_ahead.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"

/* Rows of the next panel that a step asks for. */
static unsigned rows_of(const nabla_bf16 *self) {
  return NABLA_TILED_ROWS * NABLA_BF16_STEP / (unsigned)self->depth;
}

/* What the next step multiplies with, which lies behind this one's in the
 * second cache or beyond: tiles that are loaded from there keep products
 * waiting. Where two parts share a tile nothing is gained. */
static void prefetch_x(nabla_emitter *emitter, nabla_bf16_step *t) {
  const unsigned lines = t->self.x_tiles * NABLA_TILE_ROWS;
  const unsigned until = nabla_bf16_rows_behind(t, lines * t->s->count);
  if (t->self.folds > 1) return;
  nabla_ssa next =
      nabla_emit_add_constant(emitter, t->x_at, t->b->self->step_bytes);
  for (; t->lines < until; t->lines++) /* the last tile of parts comes first */
    nabla_emit_prefetch(
        emitter, t->s->x[t->lines / lines],
        nabla_emit_add_constant(
            emitter, next,
            (uint64_t)(lines - 1 - t->lines % lines) * NABLA_TILE_ROW_BYTES));
}

/* The next share of the next panel, while tiles are multiplied: a row of it
 * lies in lines far from those of the next, which no CPU foresees. All at once
 * would keep tiles of x waiting, as there are few buffers for lines on the way.
 */
static void prefetch(nabla_emitter *emitter, nabla_bf16_step *t) {
  prefetch_x(emitter, t);
  const unsigned rows = rows_of(&t->self);
  const unsigned until = nabla_bf16_rows_behind(t, rows);
  if (t->rows == until) return;
  nabla_ssa next = nabla_emit_add(
      emitter, t->b->next, nabla_emit_multiply(emitter, t->number, rows));
  nabla_emit_line(emitter, "scf.if %%v%u {", t->s->is_first);
  for (; t->rows < until; t->rows++)
    nabla_emit_bf16_prefetch(
        emitter, nabla_emit_add_constant(emitter, next, t->rows), t->b->next_k);
  nabla_emit_line(emitter, "}");
}

nabla_ssa nabla_emit_bf16_room(nabla_emitter *emitter,
                               const nabla_tiled_block *b, uint64_t byte) {
  return nabla_emit_address(
      emitter, emitter->scratch,
      nabla_emit_i64(emitter, nabla_tiled_scratch(b->self) + byte));
}

/* Sums that began at zero and go to others: in f32 chains of additions have to
 * be short. */
typedef struct addition {
  nabla_ssa from, to; /* addresses */
  unsigned sets;      /* of sums in `from`, which are added to each other */
  nabla_ssa scales;   /* of the first row, or 0 */
  nabla_ssa minima;   /* the same */
  nabla_ssa x[NABLA_TILED_AT_ONCE]; /* sums of x, with minima */
} addition;

/* LLM.int8 multiplies twice (FORMAT.md I4): with both in one number, a weight
 * that is picked by a single x would not be what it decodes to. */
static nabla_ssa scaled_sum(nabla_emitter *emitter, nabla_ssa to,
                            nabla_ssa from, nabla_ssa scale) {
  if (nabla_format_is_llm_int8(&emitter->spec->format)) {
    from = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", from, scale);
    scale = nabla_emit_f32(emitter, NABLA_VECTOR, (double)NABLA_INT8_STEP);
  }
  return nabla_emit_fma(emitter, NABLA_VECTOR, from, scale, to);
}

/* The value of row `row`, or 0 where there are none, in all lanes. */
static nabla_ssa of_row(nabla_emitter *emitter, nabla_ssa values,
                        nabla_ssa row) {
  if (!values) return 0;
  row = nabla_emit_multiply(emitter, row, nabla_bf16_of(emitter->spec).scales);
  return nabla_emit_broadcast(
      emitter, "f32", nabla_emit_read(emitter, nabla_floats_at(values), row));
}

static nabla_ssa fresh_sum(nabla_emitter *emitter, const addition *a,
                           const nabla_tiled_square *s, nabla_ssa at) {
  nabla_array_ref from = nabla_floats_at(a->from);
  nabla_ssa sum = nabla_emit_read_lanes(emitter, from, at, NABLA_LANES);
  if (a->sets == s->count) return sum;
  at = nabla_emit_add_constant(emitter, at,
                               (uint64_t)NABLA_TILED_ROWS * NABLA_LANES);
  return nabla_emit_binary(
      emitter, NABLA_VECTOR, "addf", sum,
      nabla_emit_read_lanes(emitter, from, at, NABLA_LANES));
}

static void add_sums(nabla_emitter *emitter, const nabla_tiled_square *s,
                     const addition *a) {
  nabla_array_ref to = nabla_floats_at(a->to);
  nabla_loop rows;
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0),
                   nabla_emit_i64(emitter, NABLA_TILED_ROWS), 1, 0, NULL);
  nabla_ssa scale = of_row(emitter, a->scales, rows.induction);
  nabla_ssa minimum = of_row(emitter, a->minima, rows.induction);
  nabla_ssa row = nabla_emit_multiply(emitter, rows.induction, NABLA_LANES);
  for (uint64_t i = 0; i < s->count && i < NABLA_TILED_AT_ONCE; i++) {
    nabla_ssa at = nabla_emit_add_constant(emitter, row,
                                           i * NABLA_TILED_ROWS * NABLA_LANES);
    nabla_ssa sum = fresh_sum(emitter, a, s, at);
    nabla_ssa total = nabla_emit_read_lanes(emitter, to, at, NABLA_LANES);
    total = scale
                ? scaled_sum(emitter, total, sum, scale)
                : nabla_emit_binary(emitter, NABLA_VECTOR, "addf", total, sum);
    if (minimum)
      total = nabla_emit_fma(emitter, NABLA_VECTOR, a->x[i], minimum, total);
    nabla_emit_write_lanes(emitter, to, at, total);
  }
  nabla_loop_end(emitter, &rows, NULL);
}

void nabla_emit_bf16_add_sums(nabla_emitter *emitter,
                              const nabla_tiled_square *s, nabla_ssa room) {
  add_sums(
      emitter, s,
      &(addition){
          .from = room, .to = s->sums, .sets = nabla_bf16_sets(emitter, s)});
}

static void multiply_steps(nabla_emitter *emitter, const nabla_tiled_block *b,
                           const nabla_tiled_square *s, nabla_ssa from,
                           nabla_ssa to) {
  nabla_loop steps;
  nabla_loop_begin(emitter, &steps, from, to, 1, 0, NULL);
  nabla_emit_bf16_step(emitter, b, s, steps.induction, prefetch, NULL);
  nabla_loop_end(emitter, &steps, NULL);
}

/* Steps [from, to), or `from` alone where `to` is 0, as sums of their own, at
 * the address `room`. */
static void multiply_fresh(nabla_emitter *emitter, const nabla_tiled_block *b,
                           const nabla_tiled_square *s, nabla_ssa from,
                           nabla_ssa to, nabla_ssa room) {
  const unsigned sets = nabla_bf16_sets(emitter, s);
  nabla_emit_bf16_zero(emitter, sets);
  if (to)
    multiply_steps(emitter, b, s, from, to);
  else
    nabla_emit_bf16_step(emitter, b, s, from, prefetch, NULL);
  nabla_emit_bf16_store_sums(emitter, sets, room);
}

/* Sums of x of step `number`, which lie behind its tiles. */
static nabla_ssa x_sums(nabla_emitter *emitter, const nabla_tiled_block *b,
                        nabla_ssa x, nabla_ssa number) {
  nabla_ssa at = nabla_emit_multiply(emitter, number, b->self->step_bytes);
  at = nabla_emit_add_constant(emitter, at,
                               b->self->step_bytes - NABLA_TILE_ROW_BYTES);
  return nabla_emit_read_lanes(
      emitter, nabla_floats_at(nabla_emit_address(emitter, x, at)),
      nabla_emit_i64(emitter, 0), NABLA_LANES);
}

/* The runs of a panel, each sum multiplied with its scales. Runs with minima
 * are a step long. */
static void multiply_runs(nabla_emitter *emitter, const nabla_tiled_block *b,
                          const nabla_tiled_square *s, nabla_ssa room,
                          nabla_ssa sums) {
  const nabla_bf16 self = nabla_bf16_of(emitter->spec);
  const uint64_t steps = self.run / NABLA_BF16_STEP;
  nabla_loop runs;
  nabla_loop_begin(emitter, &runs, nabla_emit_i64(emitter, 0), b->steps, steps,
                   0, NULL);
  nabla_ssa end = 0;
  if (steps > 1)
    end = nabla_emit_minimum(
        emitter, nabla_emit_add_constant(emitter, runs.induction, steps),
        b->steps);
  multiply_fresh(emitter, b, s, runs.induction, end, room);
  nabla_ssa at = nabla_emit_multiply(
      emitter, nabla_emit_divide(emitter, runs.induction, steps),
      self.has_minima ? 8 : 4);
  addition a = {.from = room,
                .to = sums,
                .sets = nabla_bf16_sets(emitter, s),
                .scales = nabla_emit_address(
                    emitter, nabla_emit_bf16_scales(emitter, b), at)};
  if (self.has_minima) {
    a.minima =
        nabla_emit_address(emitter, a.scales, nabla_emit_i64(emitter, 4));
    for (unsigned i = 0; i < s->count && i < NABLA_TILED_AT_ONCE; i++)
      a.x[i] = x_sums(emitter, b, s->x[i], runs.induction);
  }
  add_sums(emitter, s, &a);
  nabla_loop_end(emitter, &runs, NULL);
}

/* In bf16 sums go on from panel to panel. */
static void multiply(nabla_emitter *emitter, const nabla_tiled_block *b,
                     const nabla_tiled_square *s) {
  const nabla_bf16 self = nabla_bf16_of(emitter->spec);
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  if (emitter->spec->numerics != NABLA_NUMERICS_F32) {
    nabla_emit_bf16_load_sums(emitter, s->count, s->sums);
    multiply_steps(emitter, b, s, zero, b->steps);
    nabla_emit_bf16_store_sums(emitter, s->count, s->sums);
    return;
  }
  nabla_ssa room = nabla_emit_bf16_room(emitter, b, 0);
  if (self.run && self.adds_runs) {
    multiply_runs(emitter, b, s, room, s->sums);
  } else if (self.run) {
    nabla_ssa panel = nabla_emit_bf16_room(emitter, b, NABLA_BF16_FRESH_BYTES);
    nabla_emit_clear(
        emitter, nabla_floats_at(panel),
        nabla_emit_i64(emitter,
                       (uint64_t)s->count * NABLA_TILED_ROWS * NABLA_LANES));
    multiply_runs(emitter, b, s, room, panel);
    add_sums(emitter, s,
             &(addition){.from = panel, .to = s->sums, .sets = s->count});
  } else {
    multiply_fresh(emitter, b, s, zero, b->steps, room);
    nabla_emit_bf16_add_sums(emitter, s, room);
  }
}

/* Panels of a run one after the other, with sums in tiles. */
static void multiply_staying(nabla_emitter *emitter, nabla_tiled_block *b,
                             const nabla_tiled_square *square) {
  nabla_tiled_square s = *square;
  const unsigned sets = nabla_bf16_sets(emitter, &s);
  nabla_ssa room = nabla_emit_bf16_room(emitter, b, 0);
  nabla_loop runs, panels;
  nabla_emit_tiled_panel(emitter, b, &s, nabla_emit_i64(emitter, 0));
  nabla_loop_begin(emitter, &runs, nabla_emit_i64(emitter, 0), emitter->k,
                   NABLA_BF16_SUM_DEPTH, 0, NULL);
  nabla_ssa end = nabla_emit_minimum(
      emitter,
      nabla_emit_add_constant(emitter, runs.induction, NABLA_BF16_SUM_DEPTH),
      emitter->k);
  nabla_emit_bf16_zero(emitter, sets);
  nabla_loop_begin(emitter, &panels, runs.induction, end, b->self->depth, 0,
                   NULL);
  nabla_tiled_square here = s;
  nabla_emit_tiled_panel(emitter, b, &here, panels.induction);
  b->self->decode(emitter, b);
  multiply_steps(emitter, b, &here, nabla_emit_i64(emitter, 0), b->steps);
  nabla_loop_end(emitter, &panels, NULL);
  nabla_emit_bf16_store_sums(emitter, sets, room);
  nabla_emit_bf16_add_sums(emitter, &s, room);
  nabla_loop_end(emitter, &runs, NULL);
}

/* Sums stay where there are no more rows than a panel is multiplied with at
 * once; more share what is decoded. */
static void multiply_rows(nabla_emitter *emitter, const nabla_tiled *tiled) {
  const nabla_fused_spec *spec = emitter->spec;
  if (!nabla_bf16_of(spec).stays) {
    nabla_emit_tiled(emitter, tiled);
    return;
  }
  nabla_tiled few = *tiled;
  few.stays = 1;
  few.waiting = few.at_once * NABLA_TILE_ROWS;
  few.multiply_all = multiply_staying;
  const int has_more = nabla_spec_last_m(spec) > few.waiting;
  if (has_more)
    nabla_emit_line(
        emitter, "scf.if %%v%u {",
        nabla_emit(emitter, "arith.cmpi ule, %%v%u, %%v%u : i64", emitter->m,
                   nabla_emit_i64(emitter, few.waiting)));
  nabla_emit_tiled(emitter, &few);
  if (!has_more) return;
  nabla_emit_line(emitter, "} else {");
  nabla_emit_tiled(emitter, tiled);
  nabla_emit_line(emitter, "}");
}

void nabla_emit_bf16_amx(nabla_emitter *emitter, const nabla_tiled *tiled) {
  nabla_tiled self = *tiled;
  self.multiply = multiply;
  self.multiply_all = nabla_emit_bf16_ahead;
  nabla_emit_tiles_begin(emitter, emitter->scratch, NABLA_TILE_ROW_BYTES);
  multiply_rows(emitter, &self);
  nabla_emit_tiles_end(emitter);
}

static void run(nabla_emitter *emitter) {
  nabla_tiled tiled = nabla_bf16_tiled(emitter->spec);
  nabla_emit_bf16_amx(emitter, &tiled);
}

static int applies(const nabla_fused_spec *spec) {
  return NABLA_HAS(spec->features, AMX_BF16) &&
         nabla_bf16_applies(spec, NABLA_NUMERICS_BF16);
}

static double cost(const nabla_fused_spec *spec, uint64_t m) {
  return nabla_bf16_cost(spec, m, nabla_bf16_decode_cost(spec), .8);
}

const nabla_body nabla_body_bf16_amx = {.name = "bf16_amx",
                                        .instruction = "tdpbf16ps",
                                        NABLA_BF16_BODY,
                                        .applies = applies,
                                        .cost = cost,
                                        .run = run,
                                        .chain = nabla_bf16_chain,
                                        .scratch = nabla_bf16_scratch};
