/* GEMM in int8 by VNNI: 32 columns of w and up to 1024 elements of k are packed
 * to bytes in the scratch, rows of w in lanes; the micro-kernel multiplies them
 * with tiles of 8 rows of x. Totals of up to 256 rows are in the scratch, so
 * that a panel is packed once for all of them. */
#include "lib/kernels/int8/gemm_int8_vnni.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"

#define UNROLL 4u /* dwords */

static int applies(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of(spec, &self) && self.vnni &&
         !(spec->w.ggml && spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED);
}

static void pack_a(nabla_emitter *e) {
  nabla_int8 self;
  if (nabla_int8_of(e->spec, &self))
    nabla_emit_int8_pack_a(e, &self, NABLA_PANEL_ROWS);
}

/* Adds the products of UNROLL dwords of a block: `w` and `x` are addresses of
 * the first. The accumulators are i32, bitcast to f32 because loop-carried
 * values have that type. */
static void dot_dwords(nabla_emitter *e, const nabla_int8 *self, nabla_ssa w,
                       nabla_ssa x, nabla_ssa *sums) {
  nabla_ssa dots[NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS],
      codes[NABLA_PANEL_GROUPS];
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    dots[i] = k_bitcast(e, "vector<16xf32>", "vector<16xi32>", sums[i]);
  for (unsigned d = 0; d < UNROLL; d++) {
    for (unsigned g = 0; g < NABLA_PANEL_GROUPS; g++)
      codes[g] = k_load(
          e, "vector<64xi8>", w,
          k_i64(e, g * NABLA_PANEL_GROUP + (uint64_t)d * NABLA_BYTES), 64);
    for (unsigned r = 0; r < NABLA_PANEL_ROWS; r++) {
      nabla_ssa four = nabla_emit_int8_spread(
          e, "i32", x, k_i64(e, (uint64_t)4 * (d * NABLA_PANEL_ROWS + r)));
      four = k_bitcast(e, "vector<16xi32>", "vector<64xi8>", four);
      for (unsigned g = 0; g < NABLA_PANEL_GROUPS; g++)
        dots[r * NABLA_PANEL_GROUPS + g] = nabla_emit_int8_dot(
            e, self, dots[r * NABLA_PANEL_GROUPS + g], codes[g], four);
    }
  }
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    sums[i] = k_bitcast(e, "vector<16xi32>", "vector<16xf32>", dots[i]);
}

/* The integer sums of a block: `w` and `tile` are addresses. */
static void dot_block(nabla_emitter *e, const nabla_int8 *self, nabla_ssa w,
                      nabla_ssa tile, nabla_ssa *dots) {
  nabla_loop loop;
  uint64_t dwords = self->block / 4;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa end = k_i64(e, dwords);
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    dots[i] = none;
  for (unsigned r = 0; !self->has_zero && r < NABLA_PANEL_ROWS; r++) {
    nabla_ssa start = nabla_emit_int8_spread(
        e, "f32", tile, k_i64(e, NABLA_PANEL_ROWS * (self->block + 4) + 4 * r));
    for (unsigned g = 0; g < NABLA_PANEL_GROUPS; g++)
      dots[r * NABLA_PANEL_GROUPS + g] = start;
  }
  k_loop_begin(e, &loop, zero, end, UNROLL,
               NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS, dots);
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    dots[i] = loop.carried[i];
  dot_dwords(
      e, self, k_address(e, w, k_multiply(e, loop.induction, NABLA_BYTES)),
      k_address(e, tile, k_multiply(e, loop.induction, 4 * NABLA_PANEL_ROWS)),
      dots);
  k_loop_end(e, &loop, dots);
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    dots[i] = k_bitcast(e, "vector<16xf32>", "vector<16xi32>", loop.results[i]);
}

/* Adds to the total at `sums` + `byte`. Volatile: LLVM would else carry the
 * totals of a tile in registers, of which there are too few, and spill them. */
static void replace_sum(nabla_emitter *e, nabla_ssa sums, uint64_t byte,
                        nabla_ssa dot, const nabla_int8_factors *by) {
  nabla_ssa at = nabla_emit_int8_after(e, sums, byte);
  nabla_ssa total =
      k_op(e,
           "llvm.load volatile %%v%u {alignment = 64 : i64} : !llvm.ptr -> "
           "vector<16xf32>",
           at);
  total = nabla_emit_int8_add(e, total, dot, by);
  k_line(e,
         "llvm.store volatile %%v%u, %%v%u {alignment = 64 : i64} : "
         "vector<16xf32>, !llvm.ptr",
         total, at);
}

/* Adds a block's products to the sums at address `sums`. */
static void add_block(nabla_emitter *e, const nabla_int8_panel *p, nabla_ssa k,
                      nabla_ssa tile, const nabla_ssa *dots, nabla_ssa sums) {
  const nabla_int8 *self = p->self;
  nabla_ssa span =
      p->areas.spans == 1 ? k_i64(e, 0) : k_divide(e, k, self->span);
  nabla_ssa base = k_address(e, e->scratch, k_multiply(e, span, NABLA_BYTES));
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++) {
    unsigned r = i / NABLA_PANEL_GROUPS, g = i % NABLA_PANEL_GROUPS;
    uint64_t group = g * p->areas.spans * NABLA_BYTES;
    uint64_t scale = NABLA_PANEL_ROWS * self->block + 4 * r;
    nabla_int8_factors by = {.has_min = self->has_min};
    by.w = k_load(e, "vector<16xf32>", base, k_i64(e, p->areas.scales + group),
                  64);
    by.x = nabla_emit_int8_spread(e, "f32", tile, k_i64(e, scale));
    if (self->has_zero) {
      by.negative = k_load(e, "vector<16xf32>", base,
                           k_i64(e, p->areas.zeros + group), 64);
      by.sum = nabla_emit_int8_spread(
          e, "f32", tile, k_i64(e, scale + (uint64_t)4 * NABLA_PANEL_ROWS));
    }
    replace_sum(e, sums, (uint64_t)i * NABLA_BYTES, dots[i], &by);
  }
}

/* The totals of row `row` of x, relative to the first row that has totals. */
static nabla_ssa sums_at(nabla_emitter *e, const nabla_int8_panel *p,
                         nabla_ssa row) {
  nabla_ssa at = k_op(e, "arith.subi %%v%u, %%v%u : i64", row, p->row);
  nabla_ssa base = nabla_emit_int8_after(e, e->scratch, p->areas.sums);
  return k_address(e, base, k_multiply(e, at, NABLA_PANEL_COLUMNS * 4));
}

/* Multiplies a packed panel with all rows that have totals. */
static void multiply(nabla_emitter *e, const nabla_int8_panel *p) {
  const nabla_int8 *self = p->self;
  uint64_t bytes = nabla_int8_tile_bytes(self, NABLA_PANEL_ROWS);
  nabla_ssa row_bytes =
      nabla_emit_int8_row_bytes(e, self->block, bytes / NABLA_PANEL_ROWS);
  nabla_loop tiles, blocks;
  nabla_ssa zero = k_i64(e, 0), dots[NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS];
  k_loop_begin(e, &tiles, p->row, p->row_end, NABLA_PANEL_ROWS, 0, NULL);
  nabla_ssa x =
      k_address(e, e->workspace, k_product(e, tiles.induction, row_bytes));
  nabla_ssa sums = sums_at(e, p, tiles.induction);
  k_loop_begin(e, &blocks, zero, p->count, self->block, 0, NULL);
  nabla_ssa at = k_add(e, p->k, blocks.induction);
  at = k_divide(e, at, self->block);
  nabla_ssa tile = k_address(e, x, k_multiply(e, at, bytes));
  nabla_ssa w =
      k_address(e, e->scratch, k_multiply(e, blocks.induction, NABLA_LANES));
  dot_block(e, self, w, tile, dots);
  add_block(e, p, blocks.induction, tile, dots, sums);
  k_loop_end(e, &blocks, NULL);
  k_loop_end(e, &tiles, NULL);
}

/* Clears the totals of those rows, in whole tiles. */
static void clear(nabla_emitter *e, const nabla_int8_panel *p) {
  nabla_loop rows;
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  k_loop_begin(e, &rows, p->row, p->row_end, NABLA_PANEL_ROWS, 0, NULL);
  nabla_array_ref to = {sums_at(e, p, rows.induction), NABLA_DTYPE_F32};
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    k_write_lanes(e, to, k_i64(e, (uint64_t)i * NABLA_LANES), none);
  k_loop_end(e, &rows, NULL);
}

static void sum_columns(nabla_emitter *e, nabla_int8_panel *p) {
  nabla_loop panels, rows;
  nabla_ssa zero = k_i64(e, 0);
  clear(e, p);
  k_loop_begin(e, &panels, zero, e->k, NABLA_PANEL_DEPTH, 0, NULL);
  p->k = panels.induction;
  p->count = nabla_emit_left(e, e->k, p->k, NABLA_PANEL_DEPTH);
  nabla_emit_int8_pack_b(e, p);
  multiply(e, p);
  k_loop_end(e, &panels, NULL);
  k_loop_begin(e, &rows, p->row, p->row_end, 1, 0, NULL);
  nabla_emit_finish_row(e, sums_at(e, p, rows.induction), rows.induction, p->n,
                        p->width);
  k_loop_end(e, &rows, NULL);
}

static void run(nabla_emitter *e) {
  nabla_int8 self;
  if (!nabla_int8_of(e->spec, &self)) return;
  nabla_int8_panel p = {.self = &self,
                        .areas = nabla_int8_vnni_areas_of(&self),
                        .layout = nabla_int8_packed_of(e->spec, &self)};
  nabla_loop rows, columns;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa begin = e->begin, end = e->end;
  k_loop_begin(e, &rows, zero, e->m, NABLA_PANEL_WAITING, 0, NULL);
  p.row = rows.induction;
  p.row_end = k_minimum(e, k_add_constant(e, p.row, NABLA_PANEL_WAITING), e->m);
  k_loop_begin(e, &columns, begin, end, NABLA_PANEL_COLUMNS, 0, NULL);
  p.n = columns.induction;
  p.width = nabla_emit_left(e, end, p.n, NABLA_PANEL_COLUMNS);
  sum_columns(e, &p);
  k_loop_end(e, &columns, NULL);
  k_loop_end(e, &rows, NULL);
}

/* Some 4 ps for each row and 30 for packing, once for NABLA_PANEL_WAITING
 * rows. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  int in_place = spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
  double tiles = (double)((m + NABLA_PANEL_ROWS - 1) / NABLA_PANEL_ROWS);
  double blocks = (double)((m + NABLA_PANEL_WAITING - 1) / NABLA_PANEL_WAITING);
  return tiles * 4 * NABLA_PANEL_ROWS + blocks * (in_place ? 30 : 15);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  nabla_int8 self;
  out->grain = NABLA_PANEL_COLUMNS;
  if (!nabla_int8_of(spec, &self)) return;
  out->workspace = (nabla_kernel_tiles){
      NABLA_PANEL_ROWS, (uint32_t)self.block,
      (uint32_t)nabla_int8_tile_bytes(&self, NABLA_PANEL_ROWS)};
  if (spec->layout != NABLA_WEIGHT_LAYOUT_PREPACKED) return;
  nabla_int8_describe_packed(spec, &self, out);
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of(spec, &self) ? nabla_int8_vnni_areas_of(&self).size : 0;
}

const nabla_kernel_variant nabla_variant_gemm_int8_vnni = {
    .name = "gemm_int8_vnni",
    .takes_blocks = 1,
    .instruction = "vpdpbusd",
    .applies = applies,
    .cost = cost,
    .run = run,
    .pack_a = pack_a,
    .prepack = nabla_emit_int8_prepack,
    .describe = describe,
    .accumulation_depth = nabla_int8_accumulation_depth,
    .scratch = scratch};
