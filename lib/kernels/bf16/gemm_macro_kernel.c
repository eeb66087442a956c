/* Products of decoded panels with tiles of x; see gemm_macro_kernel.h. */
#include "lib/kernels/bf16/gemm_macro_kernel.h"

#include "lib/kernels/builder/transpose.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"

#define ROWS NABLA_TILE_ROWS

/* The scratch: 64 bytes that AMX is set up with, the panel, or two that take
 * turns, a tile of sums for each tile of x and half of the panel. */
#define PANEL_AT 64u

static uint64_t totals_at(const nabla_tiled *self) {
  return PANEL_AT + (self->is_ahead ? 2 : 1) * self->panel;
}

#define TOTALS_BYTES ((uint64_t)NABLA_TILED_HALVES * NABLA_TILE_BYTES)

uint64_t nabla_tiled_scratch(const nabla_tiled *self) {
  return totals_at(self) + self->waiting / ROWS * TOTALS_BYTES;
}

static nabla_ssa part(nabla_emitter *emitter, uint64_t byte) {
  return nabla_emit_address(emitter, emitter->scratch,
                            nabla_emit_i64(emitter, byte));
}

nabla_ssa nabla_emit_tiled_steps(nabla_emitter *emitter,
                                 const nabla_tiled *self, nabla_ssa count) {
  return nabla_emit_divide(
      emitter, nabla_emit_add_constant(emitter, count, self->step - 1),
      self->step);
}

/* ---- from sums to y -------------------------------------------------------
 */

static void clear_totals(nabla_emitter *emitter, const nabla_tiled_block *b) {
  nabla_emit_clear(emitter, nabla_floats_at(part(emitter, totals_at(b->self))),
                   nabla_emit_multiply(emitter, b->tiles, TOTALS_BYTES / 4));
}

/* Turns the tile of sums at address `tile`, which then has rows of y. */
static void turn(nabla_emitter *emitter, const nabla_tiled *self,
                 nabla_ssa tile) {
  nabla_array_ref sums = nabla_floats_at(tile);
  nabla_ssa v[ROWS];
  for (unsigned i = 0; i < ROWS; i++)
    v[i] = nabla_emit_read_lanes(
        emitter, sums, nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES),
        NABLA_LANES);
  nabla_emit_transpose(emitter, "f32", v);
  const unsigned rows = ROWS / self->folds;
  for (unsigned i = rows; i < ROWS; i++)
    v[i - rows] =
        nabla_emit_binary(emitter, NABLA_VECTOR, "addf", v[i - rows], v[i]);
  for (unsigned i = 0; i < rows; i++)
    nabla_emit_write_lanes(emitter, sums,
                           nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES),
                           v[i]);
}

static void write_block(nabla_emitter *emitter, const nabla_tiled_block *b) {
  nabla_loop tiles, halves, rows;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &tiles, zero, b->rows, ROWS, 0, NULL);
  nabla_loop_begin(emitter, &halves, zero, b->columns, ROWS, 0, NULL);
  /* both count in 16: 2 KiB for 16 rows of x, 1 KiB for 16 columns */
  nabla_ssa at = nabla_emit_add(
      emitter,
      nabla_emit_multiply(emitter, tiles.induction, TOTALS_BYTES / ROWS),
      nabla_emit_multiply(emitter, halves.induction, NABLA_TILE_BYTES / ROWS));
  nabla_ssa tile =
      nabla_emit_address(emitter, part(emitter, totals_at(b->self)), at);
  turn(emitter, b->self, tile);
  nabla_ssa width =
      nabla_emit_left(emitter, b->columns, halves.induction, ROWS);
  nabla_loop_begin(emitter, &rows, zero,
                   nabla_emit_left(emitter, b->rows, tiles.induction, ROWS), 1,
                   0, NULL);
  nabla_ssa row =
      nabla_emit_add(emitter, nabla_emit_add(emitter, b->row, tiles.induction),
                     rows.induction);
  b->self->finish(
      emitter,
      nabla_emit_address(
          emitter, tile,
          nabla_emit_multiply(emitter, rows.induction, NABLA_TILE_ROW_BYTES)),
      row, nabla_emit_add(emitter, b->column, halves.induction), width);
  nabla_loop_end(emitter, &rows, NULL);
  nabla_loop_end(emitter, &halves, NULL);
  nabla_loop_end(emitter, &tiles, NULL);
}

/* ---- all of it ------------------------------------------------------------
 */

/* `count` tiles of x from tile `tile` of the block on. */
static nabla_tiled_square square_of(nabla_emitter *emitter,
                                    const nabla_tiled_block *b, nabla_ssa tile,
                                    unsigned count) {
  const nabla_tiled *self = b->self;
  nabla_tiled_square s = {.count = count};
  s.is_first = nabla_emit(emitter, "arith.cmpi eq, %%v%u, %%v%u : i64", tile,
                          nabla_emit_i64(emitter, 0));
  nabla_ssa all = nabla_emit_tiled_steps(emitter, self, emitter->k);
  nabla_ssa first = nabla_emit_divide(emitter, b->row, ROWS);
  nabla_ssa step = nabla_emit_divide(emitter, b->k, self->step);
  s.sums = nabla_emit_address(emitter, part(emitter, totals_at(b->self)),
                              nabla_emit_multiply(emitter, tile, TOTALS_BYTES));
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at = nabla_emit_add(emitter, first, tile);
    at = nabla_emit_add_constant(emitter, at, i);
    at = nabla_emit_add(emitter, nabla_emit_product(emitter, at, all), step);
    s.x[i] =
        nabla_emit_address(emitter, emitter->workspace,
                           nabla_emit_multiply(emitter, at, self->step_bytes));
  }
  return s;
}

static void multiply_square(nabla_emitter *emitter, const nabla_tiled_block *b,
                            nabla_ssa tile, unsigned count) {
  nabla_tiled_square s = square_of(emitter, b, tile, count);
  b->self->multiply(emitter, b, &s);
}

static void multiply_panel(nabla_emitter *emitter, const nabla_tiled_block *b) {
  unsigned at_once = b->self->at_once;
  nabla_loop tiles;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa whole = nabla_emit_divide(emitter, b->tiles, at_once);
  whole = nabla_emit_multiply(emitter, whole, at_once);
  nabla_loop_begin(emitter, &tiles, zero, whole, at_once, 0, NULL);
  multiply_square(emitter, b, tiles.induction, at_once);
  nabla_loop_end(emitter, &tiles, NULL);
  if (at_once == 1) return;
  nabla_loop_begin(emitter, &tiles, whole, b->tiles, 1, 0, NULL);
  multiply_square(emitter, b, tiles.induction, 1);
  nabla_loop_end(emitter, &tiles, NULL);
}

/* The panel after that at b->k: the same rows, or the next ones. */
static void set_next(nabla_emitter *emitter, nabla_tiled_block *b) {
  nabla_ssa k = nabla_emit_add_constant(emitter, b->k, b->self->depth);
  nabla_ssa more =
      nabla_emit(emitter, "arith.cmpi ult, %%v%u, %%v%u : i64", k, emitter->k);
  nabla_ssa rows =
      nabla_emit_add_constant(emitter, b->column, NABLA_TILED_ROWS);
  b->next_k = nabla_emit_choice(emitter, more, k, nabla_emit_i64(emitter, 0));
  b->next = nabla_emit_choice(emitter, more, b->column, rows);
}

static int is_whole_panels(const nabla_fused_spec *spec,
                           const nabla_tiled *self) {
  return (spec->any_size ? spec->any_size : spec->k) % self->depth == 0;
}

static void set_panel(nabla_emitter *emitter, nabla_tiled_block *b,
                      nabla_ssa k) {
  const nabla_tiled *self = b->self;
  b->k = k;
  b->count = is_whole_panels(emitter->spec, self)
                 ? nabla_emit_i64(emitter, self->depth)
                 : nabla_emit_left(emitter, emitter->k, b->k, self->depth);
  b->steps = nabla_emit_tiled_steps(emitter, self, b->count);
  b->panel = part(emitter, PANEL_AT);
  set_next(emitter, b);
}

/* ---- panels that are decoded ahead, or sums that stay ---------------------
 */

/* The panel at b->k, one of `count` that have been decoded since the first row,
 * and the one that comes after it. */
static void take_turns(nabla_emitter *emitter, nabla_tiled_block *b,
                       nabla_ssa count) {
  nabla_ssa odd = nabla_emit(emitter, "arith.andi %%v%u, %%v%u : i64", count,
                             nabla_emit_i64(emitter, 1));
  nabla_ssa even = nabla_emit(emitter, "arith.xori %%v%u, %%v%u : i64", odd,
                              nabla_emit_i64(emitter, 1));
  nabla_ssa first = part(emitter, PANEL_AT);
  b->panel = nabla_emit_address(
      emitter, first, nabla_emit_multiply(emitter, odd, b->self->panel));
  b->other = nabla_emit_address(
      emitter, first, nabla_emit_multiply(emitter, even, b->self->panel));
}

void nabla_emit_tiled_panel(nabla_emitter *emitter, nabla_tiled_block *b,
                            nabla_tiled_square *s, nabla_ssa k) {
  const nabla_tiled *self = b->self;
  set_panel(emitter, b, k);
  if (!self->is_ahead) {
    *s = square_of(emitter, b, nabla_emit_i64(emitter, 0), s->count);
    return;
  }
  nabla_ssa blocks =
      nabla_emit_divide(emitter,
                        nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64",
                                   b->column, emitter->begin),
                        NABLA_TILED_ROWS);
  take_turns(
      emitter, b,
      nabla_emit_add(emitter,
                     nabla_emit_product(
                         emitter, blocks,
                         nabla_emit_divide(emitter, emitter->k, self->depth)),
                     nabla_emit_divide(emitter, k, self->depth)));
  *s = square_of(emitter, b, nabla_emit_i64(emitter, 0), s->count);
}

/* Begins with the first panel of all, if there is one. */
static void decode_first(nabla_emitter *emitter, nabla_tiled_block *b) {
  nabla_emit_line(emitter, "scf.if %%v%u {",
                  nabla_emit(emitter, "arith.cmpi ult, %%v%u, %%v%u : i64",
                             emitter->begin, emitter->end));
  b->column = emitter->begin;
  b->panel = part(emitter, PANEL_AT);
  b->self->decode(emitter, b);
  nabla_emit_line(emitter, "}");
}

static void multiply_all(nabla_emitter *emitter, nabla_tiled_block *b) {
  const nabla_tiled *self = b->self;
  nabla_tiled_square s = {.count = 1};
  if (self->at_once > 1) {
    nabla_emit_line(emitter, "scf.if %%v%u {",
                    nabla_emit(emitter, "arith.cmpi ugt, %%v%u, %%v%u : i64",
                               b->tiles, nabla_emit_i64(emitter, 1)));
    s.count = self->at_once;
    self->multiply_all(emitter, b, &s);
    nabla_emit_line(emitter, "} else {");
    s.count = 1;
  }
  self->multiply_all(emitter, b, &s);
  if (self->at_once > 1) nabla_emit_line(emitter, "}");
}

static void sum_columns(nabla_emitter *emitter, nabla_tiled_block *b) {
  const nabla_tiled *self = b->self;
  nabla_loop panels;
  clear_totals(emitter, b);
  if (self->is_ahead || self->stays) {
    multiply_all(emitter, b);
    write_block(emitter, b);
    return;
  }
  nabla_loop_begin(emitter, &panels, nabla_emit_i64(emitter, 0), emitter->k,
                   self->depth, 0, NULL);
  set_panel(emitter, b, panels.induction);
  self->decode(emitter, b);
  multiply_panel(emitter, b);
  nabla_loop_end(emitter, &panels, NULL);
  write_block(emitter, b);
}

void nabla_emit_tiled(nabla_emitter *emitter, const nabla_tiled *self) {
  nabla_tiled_block b = {.self = self};
  nabla_loop rows, columns;
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0), emitter->m,
                   self->waiting, 0, NULL);
  b.row = rows.induction;
  b.rows = nabla_emit_left(emitter, emitter->m, b.row, self->waiting);
  b.tiles = nabla_emit_divide(
      emitter, nabla_emit_add_constant(emitter, b.rows, ROWS - 1), ROWS);
  if (self->is_ahead) {
    b.k = nabla_emit_i64(emitter, 0);
    b.count = nabla_emit_i64(emitter, self->depth);
    b.steps = nabla_emit_i64(emitter, self->depth / self->step);
    decode_first(emitter, &b);
  }
  nabla_loop_begin(emitter, &columns, emitter->begin, emitter->end,
                   NABLA_TILED_ROWS, 0, NULL);
  b.column = columns.induction;
  b.columns =
      nabla_emit_left(emitter, emitter->end, b.column, NABLA_TILED_ROWS);
  sum_columns(emitter, &b);
  nabla_loop_end(emitter, &columns, NULL);
  nabla_loop_end(emitter, &rows, NULL);
}

/* Decoding, once for the rows that wait, and products of whole tiles. */
double nabla_tiled_cost(const nabla_tiled *self, uint64_t m, double decode,
                        double row) {
  double tiles = (double)((m + ROWS - 1) / ROWS);
  double blocks = (double)((m + self->waiting - 1) / self->waiting);
  return blocks * decode + tiles * ROWS * row;
}
