/* y = x . w in integers by AMX for many rows of x; see gemm_int8_amx.h. */
#include "lib/kernels/int8/gemm_int8_amx.h"

#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"

#define ROWS    NABLA_TILE_ROWS
#define WAITING 256u

static nabla_ssa times(nabla_emitter *emitter, nabla_ssa base, nabla_ssa count,
                       uint64_t bytes) {
  return nabla_emit_address(emitter, base,
                            nabla_emit_multiply(emitter, count, bytes));
}

/* The next panel, a share in each step. */
static void prefetch(nabla_emitter *emitter, const nabla_int8 *self,
                     const nabla_tiled_block *b, const nabla_tiled_square *s,
                     nabla_ssa step) {
  unsigned rows = NABLA_TILED_ROWS * (unsigned)self->block / NABLA_INT8_DEPTH;
  nabla_ssa first = nabla_emit_add(emitter, b->next,
                                   nabla_emit_multiply(emitter, step, rows));
  nabla_emit_line(emitter, "scf.if %%v%u {", s->is_first);
  for (unsigned i = 0; i < rows; i++)
    nabla_emit_int8_amx_prefetch(
        emitter, self, nabla_emit_add_constant(emitter, first, i), b->next_k);
  nabla_emit_line(emitter, "}");
}

/* Sums of integers of all steps, to memory. They are read long after, when all
 * of them are there: what a tile has stored reaches a load late. */
static void dot_steps(nabla_emitter *emitter, const nabla_int8 *self,
                      const nabla_tiled_block *b, const nabla_tiled_square *s) {
  nabla_int8_areas areas = nabla_int8_areas_of(self);
  nabla_loop steps;
  nabla_ssa none = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &steps, none, b->steps, 1, 0, NULL);
  nabla_ssa at =
      nabla_emit_multiply(emitter, steps.induction, NABLA_TILE_BYTES);
  nabla_emit_tile_load(emitter, NABLA_X_TILE,
                       times(emitter, s->x[0], steps.induction,
                             nabla_int8_tile_bytes(self, ROWS)),
                       none);
  for (unsigned h = 0; h < NABLA_TILED_HALVES; h++) {
    nabla_emit_tile_load(emitter, NABLA_W_TILE + h, b->panel,
                         nabla_emit_add_constant(emitter, at, h * areas.half));
    nabla_emit_tile_zero(emitter, h);
    nabla_emit_tile_dot(emitter, "tdpbssd", h, NABLA_W_TILE + h, NABLA_X_TILE);
    nabla_emit_tile_store(
        emitter, h, b->panel,
        nabla_emit_add_constant(emitter, at, areas.sums + h * areas.half));
  }
  prefetch(emitter, self, b, s, steps.induction);
  nabla_loop_end(emitter, &steps, NULL);
}

/* What belongs to one block of 16 rows of w and x: addresses. */
typedef struct step {
  nabla_ssa dots;          /* sums of integers                  */
  nabla_ssa x;             /* of 16 rows: scales, sums          */
  nabla_ssa scales, zeros; /* of the rows of w                  */
} step;

/* Adds the sums of a block to `totals`, a vector for each row of w. */
static void add_step(nabla_emitter *emitter, const nabla_int8 *self,
                     const step *s, nabla_ssa *totals) {
  nabla_int8_factors by = {.w = 0};
  by.x = nabla_emit_load(emitter, "vector<16xf32>", s->x,
                         nabla_emit_i64(emitter, 0), 64);
  if (self->has_zero)
    by.sum = nabla_emit_load(emitter, "vector<16xf32>", s->x,
                             nabla_emit_i64(emitter, NABLA_BYTES), 64);
  for (unsigned r = 0; r < ROWS; r++) {
    nabla_ssa lane = nabla_emit_i64(emitter, (uint64_t)4 * r);
    nabla_ssa row = nabla_emit_i64(emitter, (uint64_t)r * NABLA_BYTES);
    by.w = nabla_emit_int8_spread(emitter, "f32", s->scales, lane);
    if (self->has_zero)
      by.negative = nabla_emit_int8_spread(emitter, "f32", s->zeros, lane);
    totals[r] = nabla_emit_int8_add(
        emitter, totals[r],
        nabla_emit_load(emitter, "vector<16xi32>", s->dots, row, 64), &by);
  }
}

static step step_at(nabla_emitter *emitter, const nabla_int8 *self,
                    const nabla_tiled_block *b, const nabla_tiled_square *s,
                    nabla_ssa at) {
  nabla_int8_areas areas = nabla_int8_areas_of(self);
  nabla_ssa span = nabla_emit_i64(emitter, 0);
  if (areas.spans > 1)
    span = nabla_emit_divide(
        emitter, nabla_emit_multiply(emitter, at, self->block), self->span);
  nabla_ssa factors =
      times(emitter, b->panel, span, (uint64_t)NABLA_TILED_ROWS * 4);
  nabla_ssa x = times(emitter, s->x[0], at, nabla_int8_tile_bytes(self, ROWS));
  return (step){
      .dots = times(emitter,
                    nabla_emit_address(emitter, b->panel,
                                       nabla_emit_i64(emitter, areas.sums)),
                    at, NABLA_TILE_BYTES),
      .x = nabla_emit_address(emitter, x,
                              nabla_emit_i64(emitter, ROWS * self->block)),
      .scales = nabla_emit_address(emitter, factors,
                                   nabla_emit_i64(emitter, areas.scales)),
      .zeros = nabla_emit_address(emitter, factors,
                                  nabla_emit_i64(emitter, areas.zeros))};
}

/* All steps of a half of the panel to its tile of sums. */
static void add_half(nabla_emitter *emitter, const nabla_int8 *self,
                     const nabla_tiled_block *b, const nabla_tiled_square *s,
                     nabla_ssa half) {
  nabla_ssa totals[ROWS];
  nabla_array_ref sums =
      nabla_floats_at(times(emitter, s->sums, half, NABLA_TILE_BYTES));
  nabla_loop steps;
  for (unsigned r = 0; r < ROWS; r++)
    totals[r] = nabla_emit_read_lanes(
        emitter, sums, nabla_emit_i64(emitter, (uint64_t)r * NABLA_LANES),
        NABLA_LANES);
  nabla_loop_begin(emitter, &steps, nabla_emit_i64(emitter, 0), b->steps, 1,
                   ROWS, totals);
  for (unsigned r = 0; r < ROWS; r++) totals[r] = steps.carried[r];
  step one = step_at(emitter, self, b, s, steps.induction);
  one.dots = times(emitter, one.dots, half, nabla_int8_areas_of(self).half);
  one.scales = times(emitter, one.scales, half, 4 * ROWS);
  one.zeros = times(emitter, one.zeros, half, 4 * ROWS);
  add_step(emitter, self, &one, totals);
  nabla_loop_end(emitter, &steps, totals);
  for (unsigned r = 0; r < ROWS; r++)
    nabla_emit_write_lanes(emitter, sums,
                           nabla_emit_i64(emitter, (uint64_t)r * NABLA_LANES),
                           steps.results[r]);
}

static void multiply(nabla_emitter *emitter, const nabla_tiled_block *b,
                     const nabla_tiled_square *s) {
  nabla_int8 self;
  nabla_loop halves;
  if (!nabla_int8_of_amx(emitter->spec, &self)) return;
  dot_steps(emitter, &self, b, s);
  nabla_loop_begin(emitter, &halves, nabla_emit_i64(emitter, 0),
                   nabla_emit_i64(emitter, NABLA_TILED_HALVES), 1, 0, NULL);
  add_half(emitter, &self, b, s, halves.induction);
  nabla_loop_end(emitter, &halves, NULL);
}

static nabla_tiled tiled_of(const nabla_int8 *self) {
  return (nabla_tiled){.step = self->block,
                       .step_bytes = nabla_int8_tile_bytes(self, ROWS),
                       .depth = NABLA_INT8_DEPTH,
                       .folds = 1,
                       .panel = nabla_int8_areas_of(self).size,
                       .waiting = WAITING,
                       .at_once = 1,
                       .decode = nabla_emit_int8_amx_decode,
                       .multiply = multiply,
                       .finish = nabla_emit_finish_row};
}

static void run(nabla_emitter *emitter) {
  nabla_int8 self;
  if (!nabla_int8_of_amx(emitter->spec, &self)) return;
  nabla_tiled tiled = tiled_of(&self);
  nabla_emit_tiles_begin(emitter, emitter->scratch, (unsigned)self.block);
  nabla_emit_tiled(emitter, &tiled);
  nabla_emit_tiles_end(emitter);
}

static void prepare(nabla_emitter *emitter) {
  nabla_int8 self;
  if (nabla_int8_of_amx(emitter->spec, &self))
    nabla_emit_int8_tiles(emitter, &self, ROWS);
}

static int applies(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return spec->m_min > 1 && nabla_int8_of_amx(spec, &self);
}

static uint64_t chain(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of_amx(spec, &self) ? spec->k / self.block + 4 : 0;
}

static double cost(const nabla_fused_spec *spec, uint64_t m) {
  nabla_int8 self;
  if (!nabla_int8_of_amx(spec, &self)) return 0;
  nabla_tiled tiled = tiled_of(&self);
  return nabla_tiled_cost(&tiled, m, 25,
                          1.0 * NABLA_BYTES / (double)self.block);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  nabla_int8 self;
  out->grain = NABLA_TILED_ROWS;
  if (!nabla_int8_of_amx(spec, &self)) return;
  out->workspace = (nabla_kernel_tiles){
      ROWS, (uint32_t)self.block, (uint32_t)nabla_int8_tile_bytes(&self, ROWS)};
  if (spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED)
    out->packed = (nabla_kernel_tiles){
        NABLA_TILED_ROWS, (uint32_t)spec->k,
        (uint32_t)(NABLA_TILED_HALVES *
                   nabla_int8_packed_of(spec, &self).size)};
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  nabla_int8 self;
  if (!nabla_int8_of_amx(spec, &self)) return 0;
  nabla_tiled tiled = tiled_of(&self);
  return nabla_tiled_scratch(&tiled);
}

const nabla_body nabla_body_int8_amx = {.name = "int8_amx",
                                        .instruction = "tdpbssd",
                                        .applies = applies,
                                        .cost = cost,
                                        .run = run,
                                        .prepare = prepare,
                                        .prepack = nabla_emit_int8_amx_prepack,
                                        .describe = describe,
                                        .chain = chain,
                                        .scratch = scratch};
