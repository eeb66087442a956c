/* bf16 pairs by AMX: two tiles of w and two of x make four tiles of sums, which
 * stay in registers for a panel. */
#include "quant/codec.h"
#include "quant/int8.h"
#include "transforms/kernels/bf16.h"

/* Tiles of sums, of each tile of x and half of the panel. */
static unsigned sum_tile(unsigned i, unsigned half) {
  return i * NABLA_TILED_HALVES + half;
}

typedef void move(nabla_emitter *emitter, unsigned tile, nabla_ssa base,
                  nabla_ssa byte);

static void move_sums(nabla_emitter *emitter, unsigned count, nabla_ssa base,
                      move *how) {
  for (unsigned i = 0; i < count * NABLA_TILED_HALVES; i++)
    how(emitter, i, base,
        nabla_emit_i64(emitter, (uint64_t)i * NABLA_TILE_BYTES));
}

/* A step under way: which parts are in tiles, and where those of the step are.
 */
typedef struct step {
  const nabla_tiled_block *b;
  const nabla_tiled_square *s;
  nabla_bf16 self;
  nabla_ssa w_at, x_at;
  unsigned w_part;
  unsigned set;         /* of sums, that comes next */
  nabla_ssa next;       /* row of the next panel, of which the step asks for */
  unsigned asked, dots; /* so many, and products, are behind */
} step;

/* Rows of the next panel that a step asks for. */
static unsigned rows_of(const nabla_bf16 *self) {
  return NABLA_TILED_ROWS * NABLA_BF16_STEP / (unsigned)self->depth;
}

/* The next share of the next panel, while tiles are multiplied: a row of it
 * lies in lines far from those of the next, which no CPU foresees. All at once
 * would keep tiles of x waiting, as there are few buffers for lines on the way.
 */
static void prefetch(nabla_emitter *emitter, step *t) {
  const unsigned until =
      rows_of(&t->self) * ++t->dots / nabla_bf16_products(&t->self);
  if (t->asked == until) return;
  nabla_emit_line(emitter, "scf.if %%v%u {", t->s->is_first);
  for (; t->asked < until; t->asked++)
    nabla_emit_bf16_prefetch(
        emitter, nabla_emit_add_constant(emitter, t->next, t->asked),
        t->b->next_k);
  nabla_emit_line(emitter, "}");
}

static void load_w(nabla_emitter *emitter, step *t, unsigned part) {
  t->w_part = part;
  for (unsigned h = 0; h < NABLA_TILED_HALVES; h++)
    nabla_emit_tile_load(
        emitter, NABLA_W_TILE + h, t->b->panel,
        nabla_emit_add_constant(emitter, t->w_at,
                                part * t->self.part + h * t->self.half));
}

static void load_x(nabla_emitter *emitter, const step *t, unsigned tile) {
  for (unsigned i = 0; i < t->s->count && i < NABLA_TILED_AT_ONCE; i++)
    nabla_emit_tile_load(
        emitter, NABLA_X_TILE + i, t->s->x[i],
        nabla_emit_add_constant(emitter, t->x_at,
                                (uint64_t)tile * NABLA_TILE_BYTES));
}

/* With one tile of x there are sums to spare: the products of a step, if there
 * are several, go to either half of them in turn, as two would wait for each
 * other. */
static int has_two_sets(const nabla_emitter *emitter,
                        const nabla_tiled_square *s) {
  const nabla_bf16 self = nabla_bf16_of(emitter->spec);
  return s->count == 1 && nabla_bf16_products(&self) > 1;
}

static unsigned sets_of(const nabla_emitter *emitter,
                        const nabla_tiled_square *s) {
  return has_two_sets(emitter, s) ? 2 : s->count;
}

static void dot(nabla_emitter *emitter, step *t) {
  for (unsigned i = 0; i < t->s->count; i++)
    for (unsigned h = 0; h < NABLA_TILED_HALVES; h++)
      nabla_emit_tile_dot(emitter, "tdpbf16ps", sum_tile(i + t->set, h),
                          NABLA_W_TILE + h, NABLA_X_TILE + i);
  if (has_two_sets(emitter, t->s)) t->set ^= 1;
  prefetch(emitter, t);
}

/* The products of a step, those of the last tile of x first, and of parts whose
 * product is 2^-16 of the whole or more. The part of w that is loaded serves
 * first. */
static void multiply_step(nabla_emitter *emitter, step *t) {
  t->w_part = NABLA_BF16_PARTS;
  for (unsigned x = t->self.x_tiles; x-- > 0;) {
    unsigned parts = NABLA_BF16_PARTS - x * t->self.folds;
    if (parts > t->self.w_parts) parts = t->self.w_parts;
    unsigned loaded = t->w_part;
    load_x(emitter, t, x);
    if (loaded < parts) dot(emitter, t);
    for (unsigned w = 0; w < parts; w++) {
      if (w == loaded) continue;
      load_w(emitter, t, w);
      dot(emitter, t);
    }
  }
}

static nabla_ssa behind_scratch(nabla_emitter *emitter,
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

static void multiply_steps(nabla_emitter *emitter, const nabla_tiled_block *b,
                           const nabla_tiled_square *s, nabla_ssa from,
                           nabla_ssa to) {
  nabla_loop steps;
  nabla_loop_begin(emitter, &steps, from, to, 1, 0, NULL);
  step t = {.b = b, .s = s, .self = nabla_bf16_of(emitter->spec)};
  t.w_at = nabla_emit_multiply(emitter, steps.induction, NABLA_TILE_BYTES);
  t.x_at = nabla_emit_multiply(emitter, steps.induction, b->self->step_bytes);
  t.next = nabla_emit_add(
      emitter, b->next,
      nabla_emit_multiply(emitter, steps.induction, rows_of(&t.self)));
  multiply_step(emitter, &t);
  nabla_loop_end(emitter, &steps, NULL);
}

/* Steps [from, to) as sums of their own, at the address `room`. */
static void multiply_fresh(nabla_emitter *emitter, const nabla_tiled_block *b,
                           const nabla_tiled_square *s, nabla_ssa from,
                           nabla_ssa to, nabla_ssa room) {
  const unsigned sets = sets_of(emitter, s);
  for (unsigned i = 0; i < sets * NABLA_TILED_HALVES; i++)
    nabla_emit_tile_zero(emitter, i);
  multiply_steps(emitter, b, s, from, to);
  move_sums(emitter, sets, room, nabla_emit_tile_store);
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
  nabla_ssa end = nabla_emit_minimum(
      emitter, nabla_emit_add_constant(emitter, runs.induction, steps),
      b->steps);
  multiply_fresh(emitter, b, s, runs.induction, end, room);
  nabla_ssa at = nabla_emit_multiply(
      emitter, nabla_emit_divide(emitter, runs.induction, steps),
      self.has_minima ? 8 : 4);
  addition a = {.from = room,
                .to = sums,
                .sets = sets_of(emitter, s),
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
    move_sums(emitter, s->count, s->sums, nabla_emit_tile_load);
    multiply_steps(emitter, b, s, zero, b->steps);
    move_sums(emitter, s->count, s->sums, nabla_emit_tile_store);
    return;
  }
  nabla_ssa room = behind_scratch(emitter, b, 0);
  if (self.run && self.adds_runs) {
    multiply_runs(emitter, b, s, room, s->sums);
  } else if (self.run) {
    nabla_ssa panel = behind_scratch(emitter, b, NABLA_BF16_FRESH_BYTES);
    nabla_emit_clear(
        emitter, nabla_floats_at(panel),
        nabla_emit_i64(emitter,
                       (uint64_t)s->count * NABLA_TILED_ROWS * NABLA_LANES));
    multiply_runs(emitter, b, s, room, panel);
    add_sums(emitter, s,
             &(addition){.from = panel, .to = s->sums, .sets = s->count});
  } else {
    multiply_fresh(emitter, b, s, zero, b->steps, room);
    add_sums(
        emitter, s,
        &(addition){.from = room, .to = s->sums, .sets = sets_of(emitter, s)});
  }
}

void nabla_emit_bf16_amx(nabla_emitter *emitter, const nabla_tiled *tiled) {
  nabla_tiled self = *tiled;
  self.multiply = multiply;
  nabla_emit_tiles_begin(emitter, emitter->scratch, NABLA_TILE_ROW_BYTES);
  nabla_emit_tiled(emitter, &self);
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
