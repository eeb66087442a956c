/* bf16 pairs by AMX: two tiles of w and two of x make four tiles of sums, which
 * stay in registers for a panel. */
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

/* The step's share of the next panel, while tiles are multiplied: a row of it
 * lies in lines far from those of the next, which no CPU foresees. */
static void prefetch(nabla_emitter *emitter, const nabla_tiled_block *b,
                     const nabla_tiled_square *s, nabla_ssa step) {
  unsigned rows = NABLA_TILED_ROWS * NABLA_BF16_STEP /
                  (unsigned)nabla_bf16_of(emitter->spec).depth;
  nabla_ssa first = nabla_emit_add(emitter, b->next,
                                   nabla_emit_multiply(emitter, step, rows));
  nabla_emit_line(emitter, "scf.if %%v%u {", s->is_first);
  for (unsigned i = 0; i < rows; i++)
    nabla_emit_bf16_prefetch(
        emitter, nabla_emit_add_constant(emitter, first, i), b->next_k);
  nabla_emit_line(emitter, "}");
}

/* A step under way: which parts are in tiles, and where those of the step are.
 */
typedef struct step {
  const nabla_tiled_block *b;
  const nabla_tiled_square *s;
  nabla_bf16 self;
  nabla_ssa w_at, x_at;
  unsigned w_part;
} step;

static void load_w(nabla_emitter *emitter, step *t, unsigned part) {
  t->w_part = part;
  for (unsigned h = 0; h < NABLA_TILED_HALVES; h++)
    nabla_emit_tile_load(
        emitter, NABLA_W_TILE + h, t->b->panel,
        nabla_emit_add_constant(emitter, t->w_at,
                                part * t->self.part + h * t->self.half));
}

static void load_x(nabla_emitter *emitter, const step *t, unsigned part) {
  for (unsigned i = 0; i < t->s->count && i < NABLA_TILED_AT_ONCE; i++)
    nabla_emit_tile_load(
        emitter, NABLA_X_TILE + i, t->s->x[i],
        nabla_emit_add_constant(emitter, t->x_at,
                                (uint64_t)part * NABLA_TILE_BYTES));
}

static void dot(nabla_emitter *emitter, const step *t) {
  for (unsigned i = 0; i < t->s->count; i++)
    for (unsigned h = 0; h < NABLA_TILED_HALVES; h++)
      nabla_emit_tile_dot(emitter, "tdpbf16ps", sum_tile(i, h),
                          NABLA_W_TILE + h, NABLA_X_TILE + i);
}

/* The products of a step, those of the last part of x first, and of parts whose
 * product is 2^-16 of the whole or more. The part of w that is loaded serves
 * first. */
static void multiply_step(nabla_emitter *emitter, step *t) {
  t->w_part = NABLA_BF16_PARTS;
  for (unsigned x = t->self.x_parts; x-- > 0;) {
    unsigned parts = NABLA_BF16_PARTS - x;
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

/* The sums of a panel that began at zero, to the others: in f32 chains of
 * additions have to be short. */
static void add_sums(nabla_emitter *emitter, const nabla_tiled_square *s,
                     nabla_ssa sums) {
  nabla_array_ref from = nabla_floats_at(sums), to = nabla_floats_at(s->sums);
  nabla_loop loop;
  nabla_loop_begin(
      emitter, &loop, nabla_emit_i64(emitter, 0),
      nabla_emit_i64(emitter, (uint64_t)s->count * NABLA_TILED_HALVES *
                                  NABLA_TILE_BYTES / 4),
      NABLA_LANES, 0, NULL);
  nabla_ssa sum = nabla_emit_binary(
      emitter, NABLA_VECTOR, "addf",
      nabla_emit_read_lanes(emitter, to, loop.induction, NABLA_LANES),
      nabla_emit_read_lanes(emitter, from, loop.induction, NABLA_LANES));
  nabla_emit_write_lanes(emitter, to, loop.induction, sum);
  nabla_loop_end(emitter, &loop, NULL);
}

/* In bf16 sums go on from panel to panel. */
static void begin_sums(nabla_emitter *emitter, const nabla_tiled_square *s) {
  if (emitter->spec->numerics != NABLA_NUMERICS_F32) {
    move_sums(emitter, s->count, s->sums, nabla_emit_tile_load);
    return;
  }
  for (unsigned i = 0; i < s->count * NABLA_TILED_HALVES; i++)
    nabla_emit_tile_zero(emitter, i);
}

static void end_sums(nabla_emitter *emitter, const nabla_tiled_block *b,
                     const nabla_tiled_square *s) {
  if (emitter->spec->numerics != NABLA_NUMERICS_F32) {
    move_sums(emitter, s->count, s->sums, nabla_emit_tile_store);
    return;
  }
  nabla_ssa room =
      nabla_emit_address(emitter, emitter->scratch,
                         nabla_emit_i64(emitter, nabla_tiled_scratch(b->self)));
  move_sums(emitter, s->count, room, nabla_emit_tile_store);
  add_sums(emitter, s, room);
}

static void multiply(nabla_emitter *emitter, const nabla_tiled_block *b,
                     const nabla_tiled_square *s) {
  nabla_loop steps;
  begin_sums(emitter, s);
  nabla_loop_begin(emitter, &steps, nabla_emit_i64(emitter, 0), b->steps, 1, 0,
                   NULL);
  step t = {.b = b, .s = s, .self = nabla_bf16_of(emitter->spec)};
  t.w_at = nabla_emit_multiply(emitter, steps.induction, NABLA_TILE_BYTES);
  t.x_at = nabla_emit_multiply(emitter, steps.induction, b->self->step_bytes);
  multiply_step(emitter, &t);
  prefetch(emitter, b, s, steps.induction);
  nabla_loop_end(emitter, &steps, NULL);
  end_sums(emitter, b, s);
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
