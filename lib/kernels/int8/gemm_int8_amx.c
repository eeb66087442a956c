/* GEMM in int8 by AMX; see gemm_int8_amx.h. */
#include "lib/kernels/int8/gemm_int8_amx.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"

#define ROWS    NABLA_TILE_ROWS
#define WAITING 256u

static nabla_ssa times(nabla_emitter *e, nabla_ssa base, nabla_ssa count,
                       uint64_t bytes) {
  return k_address(e, base, k_multiply(e, count, bytes));
}

/* Prefetches the next panel, a share in each step. */
static void prefetch(nabla_emitter *e, const nabla_int8 *self,
                     const nabla_macro_block *b, const nabla_macro_tile *s,
                     nabla_ssa step) {
  unsigned rows = NABLA_MACRO_ROWS * (unsigned)self->block / NABLA_INT8_DEPTH;
  nabla_ssa first = k_add(e, b->next, k_multiply(e, step, rows));
  k_line(e, "scf.if %%v%u {", s->is_first);
  for (unsigned i = 0; i < rows; i++)
    nabla_emit_int8_amx_prefetch(e, self, k_add_constant(e, first, i),
                                 b->next_k);
  k_line(e, "}");
}

/* Stores the integer sums of all steps. They are read after the last store, as
 * forwarding from a tile store to a load is slow. */
static void dot_steps(nabla_emitter *e, const nabla_int8 *self,
                      const nabla_macro_block *b, const nabla_macro_tile *s) {
  nabla_int8_areas areas = nabla_int8_areas_of(self);
  nabla_loop steps;
  nabla_ssa none = k_i64(e, 0);
  k_loop_begin(e, &steps, none, b->steps, 1, 0, NULL);
  nabla_ssa at = k_multiply(e, steps.induction, NABLA_TILE_BYTES);
  k_tile_load(
      e, NABLA_X_TILE,
      times(e, s->x[0], steps.induction, nabla_int8_tile_bytes(self, ROWS)),
      none);
  for (unsigned h = 0; h < NABLA_MACRO_HALVES; h++) {
    k_tile_load(e, NABLA_W_TILE + h, b->panel,
                k_add_constant(e, at, h * areas.half));
    k_tile_zero(e, h);
    k_tile_dot(e, "tdpbssd", h, NABLA_W_TILE + h, NABLA_X_TILE);
    k_tile_store(e, h, b->panel,
                 k_add_constant(e, at, areas.sums + h * areas.half));
  }
  prefetch(e, self, b, s, steps.induction);
  k_loop_end(e, &steps, NULL);
}

/* Addresses of one block of 16 rows of w and x. */
typedef struct step {
  nabla_ssa dots;          /* sums of integers                  */
  nabla_ssa x;             /* of 16 rows: scales, sums          */
  nabla_ssa scales, zeros; /* of the rows of w                  */
} step;

/* Adds the sums of a block to `totals`, a vector for each row of w. */
static void add_step(nabla_emitter *e, const nabla_int8 *self, const step *s,
                     nabla_ssa *totals) {
  nabla_int8_factors by = {.w = 0};
  by.x = k_load(e, "vector<16xf32>", s->x, k_i64(e, 0), 64);
  if (self->has_zero)
    by.sum = k_load(e, "vector<16xf32>", s->x, k_i64(e, NABLA_BYTES), 64);
  for (unsigned r = 0; r < ROWS; r++) {
    nabla_ssa lane = k_i64(e, (uint64_t)4 * r);
    nabla_ssa row = k_i64(e, (uint64_t)r * NABLA_BYTES);
    by.w = nabla_emit_int8_spread(e, "f32", s->scales, lane);
    if (self->has_zero)
      by.negative = nabla_emit_int8_spread(e, "f32", s->zeros, lane);
    totals[r] = nabla_emit_int8_add(
        e, totals[r], k_load(e, "vector<16xi32>", s->dots, row, 64), &by);
  }
}

static step step_at(nabla_emitter *e, const nabla_int8 *self,
                    const nabla_macro_block *b, const nabla_macro_tile *s,
                    nabla_ssa at) {
  nabla_int8_areas areas = nabla_int8_areas_of(self);
  nabla_ssa span = k_i64(e, 0);
  if (areas.spans > 1)
    span = k_divide(e, k_multiply(e, at, self->block), self->span);
  nabla_ssa factors = times(e, b->panel, span, (uint64_t)NABLA_MACRO_ROWS * 4);
  nabla_ssa x = times(e, s->x[0], at, nabla_int8_tile_bytes(self, ROWS));
  return (step){.dots = times(e, k_address(e, b->panel, k_i64(e, areas.sums)),
                              at, NABLA_TILE_BYTES),
                .x = k_address(e, x, k_i64(e, ROWS * self->block)),
                .scales = k_address(e, factors, k_i64(e, areas.scales)),
                .zeros = k_address(e, factors, k_i64(e, areas.zeros))};
}

/* All steps of a half of the panel to its tile of sums. */
static void add_half(nabla_emitter *e, const nabla_int8 *self,
                     const nabla_macro_block *b, const nabla_macro_tile *s,
                     nabla_ssa half) {
  nabla_ssa totals[ROWS];
  nabla_array_ref sums =
      nabla_floats_at(times(e, s->sums, half, NABLA_TILE_BYTES));
  nabla_loop steps;
  for (unsigned r = 0; r < ROWS; r++)
    totals[r] =
        k_read_lanes(e, sums, k_i64(e, (uint64_t)r * NABLA_LANES), NABLA_LANES);
  k_loop_begin(e, &steps, k_i64(e, 0), b->steps, 1, ROWS, totals);
  for (unsigned r = 0; r < ROWS; r++) totals[r] = steps.carried[r];
  step one = step_at(e, self, b, s, steps.induction);
  one.dots = times(e, one.dots, half, nabla_int8_areas_of(self).half);
  one.scales = times(e, one.scales, half, 4 * ROWS);
  one.zeros = times(e, one.zeros, half, 4 * ROWS);
  add_step(e, self, &one, totals);
  k_loop_end(e, &steps, totals);
  for (unsigned r = 0; r < ROWS; r++)
    k_write_lanes(e, sums, k_i64(e, (uint64_t)r * NABLA_LANES),
                  steps.results[r]);
}

static void multiply(nabla_emitter *e, const nabla_macro_block *b,
                     const nabla_macro_tile *s) {
  nabla_int8 self;
  nabla_loop halves;
  if (!nabla_int8_of_amx(e->spec, &self)) return;
  dot_steps(e, &self, b, s);
  k_loop_begin(e, &halves, k_i64(e, 0), k_i64(e, NABLA_MACRO_HALVES), 1, 0,
               NULL);
  add_half(e, &self, b, s, halves.induction);
  k_loop_end(e, &halves, NULL);
}

static nabla_macro_kernel macro_kernel_of(const nabla_int8 *self) {
  return (nabla_macro_kernel){.step = self->block,
                              .step_bytes = nabla_int8_tile_bytes(self, ROWS),
                              .depth = NABLA_INT8_DEPTH,
                              .folds = 1,
                              .panel = nabla_int8_areas_of(self).size,
                              .waiting = WAITING,
                              .at_once = 1,
                              .pack_b = nabla_emit_int8_amx_pack_b,
                              .multiply = multiply,
                              .finish = nabla_emit_finish_row};
}

static void run(nabla_emitter *e) {
  nabla_int8 self;
  if (!nabla_int8_of_amx(e->spec, &self)) return;
  nabla_macro_kernel macro = macro_kernel_of(&self);
  k_tiles_begin(e, e->scratch, (unsigned)self.block);
  nabla_emit_macro_kernel(e, &macro);
  k_tiles_end(e);
}

static void pack_a(nabla_emitter *e) {
  nabla_int8 self;
  if (nabla_int8_of_amx(e->spec, &self)) nabla_emit_int8_pack_a(e, &self, ROWS);
}

static int applies(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return spec->m_min > 1 && nabla_int8_of_amx(spec, &self);
}

static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of_amx(spec, &self) ? spec->k / self.block + 4 : 0;
}

static double cost(const nabla_fused_spec *spec, uint64_t m) {
  nabla_int8 self;
  if (!nabla_int8_of_amx(spec, &self)) return 0;
  nabla_macro_kernel macro = macro_kernel_of(&self);
  return nabla_macro_kernel_cost(&macro, m, 25,
                                 1.0 * NABLA_BYTES / (double)self.block);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  nabla_int8 self;
  out->grain = NABLA_MACRO_ROWS;
  if (!nabla_int8_of_amx(spec, &self)) return;
  out->workspace = (nabla_kernel_tiles){
      ROWS, (uint32_t)self.block, (uint32_t)nabla_int8_tile_bytes(&self, ROWS)};
  if (spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED)
    out->packed = (nabla_kernel_tiles){
        NABLA_MACRO_ROWS, (uint32_t)spec->k,
        (uint32_t)(NABLA_MACRO_HALVES *
                   nabla_int8_packed_of(spec, &self).size)};
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  nabla_int8 self;
  if (!nabla_int8_of_amx(spec, &self)) return 0;
  nabla_macro_kernel macro = macro_kernel_of(&self);
  return nabla_macro_kernel_scratch(&macro);
}

const nabla_kernel_variant nabla_variant_gemm_int8_amx = {
    .name = "gemm_int8_amx",
    .instruction = "tdpbssd",
    .applies = applies,
    .cost = cost,
    .run = run,
    .pack_a = pack_a,
    .prepack = nabla_emit_int8_amx_prepack,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
