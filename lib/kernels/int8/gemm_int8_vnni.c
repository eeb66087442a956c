/* y = x . w in integers for many rows of x: 32 columns of w and up to 1024
 * elements of k are made bytes with rows of w in lanes, in the scratch; tiles
 * of 8 rows of x are multiplied with them. Sums of up to 256 rows wait in the
 * scratch, so that a panel is decoded once for all of them. */
#include "lib/kernels/int8/gemm_int8_vnni.h"

#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"

#define UNROLL 4u /* dwords */

static int applies(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of(spec, &self) && self.vnni &&
         !(spec->ggml && spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED);
}

static void prepare(nabla_emitter *emitter) {
  nabla_int8 self;
  if (nabla_int8_of(emitter->spec, &self))
    nabla_emit_int8_tiles(emitter, &self, NABLA_PANEL_ROWS);
}

/* Adds the products of UNROLL dwords of a block: `w` and `x` are addresses of
 * the first. The sums are i32 in f32's clothes, as loops carry these. */
static void dot_dwords(nabla_emitter *emitter, const nabla_int8 *self,
                       nabla_ssa w, nabla_ssa x, nabla_ssa *sums) {
  nabla_ssa dots[NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS],
      codes[NABLA_PANEL_GROUPS];
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    dots[i] = nabla_emit_bitcast(emitter, "vector<16xf32>", "vector<16xi32>",
                                 sums[i]);
  for (unsigned d = 0; d < UNROLL; d++) {
    for (unsigned g = 0; g < NABLA_PANEL_GROUPS; g++)
      codes[g] = nabla_emit_load(
          emitter, "vector<64xi8>", w,
          nabla_emit_i64(emitter,
                         g * NABLA_PANEL_GROUP + (uint64_t)d * NABLA_BYTES),
          64);
    for (unsigned r = 0; r < NABLA_PANEL_ROWS; r++) {
      nabla_ssa four = nabla_emit_int8_spread(
          emitter, "i32", x,
          nabla_emit_i64(emitter, (uint64_t)4 * (d * NABLA_PANEL_ROWS + r)));
      four =
          nabla_emit_bitcast(emitter, "vector<16xi32>", "vector<64xi8>", four);
      for (unsigned g = 0; g < NABLA_PANEL_GROUPS; g++)
        dots[r * NABLA_PANEL_GROUPS + g] = nabla_emit_int8_dot(
            emitter, self, dots[r * NABLA_PANEL_GROUPS + g], codes[g], four);
    }
  }
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    sums[i] = nabla_emit_bitcast(emitter, "vector<16xi32>", "vector<16xf32>",
                                 dots[i]);
}

/* The integer sums of a block: `w` and `tile` are addresses. */
static void dot_block(nabla_emitter *emitter, const nabla_int8 *self,
                      nabla_ssa w, nabla_ssa tile, nabla_ssa *dots) {
  nabla_loop loop;
  uint64_t dwords = self->block / 4;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa end = nabla_emit_i64(emitter, dwords);
  nabla_ssa none = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    dots[i] = none;
  for (unsigned r = 0; !self->has_zero && r < NABLA_PANEL_ROWS; r++) {
    nabla_ssa start = nabla_emit_int8_spread(
        emitter, "f32", tile,
        nabla_emit_i64(emitter, NABLA_PANEL_ROWS * (self->block + 4) + 4 * r));
    for (unsigned g = 0; g < NABLA_PANEL_GROUPS; g++)
      dots[r * NABLA_PANEL_GROUPS + g] = start;
  }
  nabla_loop_begin(emitter, &loop, zero, end, UNROLL,
                   NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS, dots);
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    dots[i] = loop.carried[i];
  dot_dwords(emitter, self,
             nabla_emit_address(
                 emitter, w,
                 nabla_emit_multiply(emitter, loop.induction, NABLA_BYTES)),
             nabla_emit_address(emitter, tile,
                                nabla_emit_multiply(emitter, loop.induction,
                                                    4 * NABLA_PANEL_ROWS)),
             dots);
  nabla_loop_end(emitter, &loop, dots);
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    dots[i] = nabla_emit_bitcast(emitter, "vector<16xf32>", "vector<16xi32>",
                                 loop.results[i]);
}

/* Adds to the sum at `sums` + `byte`. Volatile: LLVM would else carry the sums
 * of a tile in registers, of which there are too few, and spill those. */
static void replace_sum(nabla_emitter *emitter, nabla_ssa sums, uint64_t byte,
                        nabla_ssa dot, const nabla_int8_factors *by) {
  nabla_ssa at = nabla_emit_int8_after(emitter, sums, byte);
  nabla_ssa total = nabla_emit(
      emitter,
      "llvm.load volatile %%v%u {alignment = 64 : i64} : !llvm.ptr -> "
      "vector<16xf32>",
      at);
  total = nabla_emit_int8_add(emitter, total, dot, by);
  nabla_emit_line(emitter,
                  "llvm.store volatile %%v%u, %%v%u {alignment = 64 : i64} : "
                  "vector<16xf32>, !llvm.ptr",
                  total, at);
}

/* Adds a block's products to the sums at address `sums`. */
static void add_block(nabla_emitter *emitter, const nabla_int8_panel *p,
                      nabla_ssa k, nabla_ssa tile, const nabla_ssa *dots,
                      nabla_ssa sums) {
  const nabla_int8 *self = p->self;
  nabla_ssa span = p->room.spans == 1
                       ? nabla_emit_i64(emitter, 0)
                       : nabla_emit_divide(emitter, k, self->span);
  nabla_ssa base =
      nabla_emit_address(emitter, emitter->scratch,
                         nabla_emit_multiply(emitter, span, NABLA_BYTES));
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++) {
    unsigned r = i / NABLA_PANEL_GROUPS, g = i % NABLA_PANEL_GROUPS;
    uint64_t group = g * p->room.spans * NABLA_BYTES;
    uint64_t scale = NABLA_PANEL_ROWS * self->block + 4 * r;
    nabla_int8_factors by = {.has_min = self->has_min};
    by.w = nabla_emit_load(emitter, "vector<16xf32>", base,
                           nabla_emit_i64(emitter, p->room.scales + group), 64);
    by.x = nabla_emit_int8_spread(emitter, "f32", tile,
                                  nabla_emit_i64(emitter, scale));
    if (self->has_zero) {
      by.negative =
          nabla_emit_load(emitter, "vector<16xf32>", base,
                          nabla_emit_i64(emitter, p->room.zeros + group), 64);
      by.sum = nabla_emit_int8_spread(
          emitter, "f32", tile,
          nabla_emit_i64(emitter, scale + (uint64_t)4 * NABLA_PANEL_ROWS));
    }
    replace_sum(emitter, sums, (uint64_t)i * NABLA_BYTES, dots[i], &by);
  }
}

/* The sums of row `row` of x, relative to the first that waits. */
static nabla_ssa sums_at(nabla_emitter *emitter, const nabla_int8_panel *p,
                         nabla_ssa row) {
  nabla_ssa at =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", row, p->row);
  nabla_ssa base =
      nabla_emit_int8_after(emitter, emitter->scratch, p->room.sums);
  return nabla_emit_address(
      emitter, base, nabla_emit_multiply(emitter, at, NABLA_PANEL_COLUMNS * 4));
}

/* Multiplies a decoded panel with all rows whose sums wait. */
static void multiply(nabla_emitter *emitter, const nabla_int8_panel *p) {
  const nabla_int8 *self = p->self;
  uint64_t bytes = nabla_int8_tile_bytes(self, NABLA_PANEL_ROWS);
  nabla_ssa row_bytes =
      nabla_emit_int8_row_bytes(emitter, self->block, bytes / NABLA_PANEL_ROWS);
  nabla_loop tiles, blocks;
  nabla_ssa zero = nabla_emit_i64(emitter, 0),
            dots[NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS];
  nabla_loop_begin(emitter, &tiles, p->row, p->row_end, NABLA_PANEL_ROWS, 0,
                   NULL);
  nabla_ssa x = nabla_emit_address(
      emitter, emitter->workspace,
      nabla_emit_product(emitter, tiles.induction, row_bytes));
  nabla_ssa sums = sums_at(emitter, p, tiles.induction);
  nabla_loop_begin(emitter, &blocks, zero, p->count, self->block, 0, NULL);
  nabla_ssa at = nabla_emit_add(emitter, p->k, blocks.induction);
  at = nabla_emit_divide(emitter, at, self->block);
  nabla_ssa tile =
      nabla_emit_address(emitter, x, nabla_emit_multiply(emitter, at, bytes));
  nabla_ssa w = nabla_emit_address(
      emitter, emitter->scratch,
      nabla_emit_multiply(emitter, blocks.induction, NABLA_LANES));
  dot_block(emitter, self, w, tile, dots);
  add_block(emitter, p, blocks.induction, tile, dots, sums);
  nabla_loop_end(emitter, &blocks, NULL);
  nabla_loop_end(emitter, &tiles, NULL);
}

/* Sets the sums of the waiting rows to 0: those of whole tiles. */
static void clear(nabla_emitter *emitter, const nabla_int8_panel *p) {
  nabla_loop rows;
  nabla_ssa none = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  nabla_loop_begin(emitter, &rows, p->row, p->row_end, NABLA_PANEL_ROWS, 0,
                   NULL);
  nabla_array_ref to = {sums_at(emitter, p, rows.induction), NABLA_DTYPE_F32};
  for (unsigned i = 0; i < NABLA_PANEL_ROWS * NABLA_PANEL_GROUPS; i++)
    nabla_emit_write_lanes(
        emitter, to, nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES), none);
  nabla_loop_end(emitter, &rows, NULL);
}

static void sum_columns(nabla_emitter *emitter, nabla_int8_panel *p) {
  nabla_loop panels, rows;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  clear(emitter, p);
  nabla_loop_begin(emitter, &panels, zero, emitter->k, NABLA_PANEL_DEPTH, 0,
                   NULL);
  p->k = panels.induction;
  p->count = nabla_emit_left(emitter, emitter->k, p->k, NABLA_PANEL_DEPTH);
  nabla_emit_int8_panel(emitter, p);
  multiply(emitter, p);
  nabla_loop_end(emitter, &panels, NULL);
  nabla_loop_begin(emitter, &rows, p->row, p->row_end, 1, 0, NULL);
  nabla_emit_finish_row(emitter, sums_at(emitter, p, rows.induction),
                        rows.induction, p->n, p->width);
  nabla_loop_end(emitter, &rows, NULL);
}

static void run(nabla_emitter *emitter) {
  nabla_int8 self;
  if (!nabla_int8_of(emitter->spec, &self)) return;
  nabla_int8_panel p = {.self = &self,
                        .room = nabla_int8_room_of(&self),
                        .layout = nabla_int8_packed_of(emitter->spec, &self)};
  nabla_loop rows, columns;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa begin = emitter->begin, end = emitter->end;
  nabla_loop_begin(emitter, &rows, zero, emitter->m, NABLA_PANEL_WAITING, 0,
                   NULL);
  p.row = rows.induction;
  p.row_end = nabla_emit_minimum(
      emitter, nabla_emit_add_constant(emitter, p.row, NABLA_PANEL_WAITING),
      emitter->m);
  nabla_loop_begin(emitter, &columns, begin, end, NABLA_PANEL_COLUMNS, 0, NULL);
  p.n = columns.induction;
  p.width = nabla_emit_left(emitter, end, p.n, NABLA_PANEL_COLUMNS);
  sum_columns(emitter, &p);
  nabla_loop_end(emitter, &columns, NULL);
  nabla_loop_end(emitter, &rows, NULL);
}

/* Some 4 ps for each row and 30 for decoding, once for NABLA_PANEL_WAITING
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
  return nabla_int8_of(spec, &self) ? nabla_int8_room_of(&self).size : 0;
}

const nabla_body nabla_body_int8_panels = {.name = "int8_panels",
                                           .takes_blocks = 1,
                                           .instruction = "vpdpbusd",
                                           .applies = applies,
                                           .cost = cost,
                                           .run = run,
                                           .prepare = prepare,
                                           .prepack = nabla_emit_int8_prepack,
                                           .describe = describe,
                                           .chain = nabla_int8_chain,
                                           .scratch = scratch};
