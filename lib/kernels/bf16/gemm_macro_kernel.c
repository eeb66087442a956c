/* The GEMM macro kernel: products of packed panels with tiles of x; see
 * gemm_macro_kernel.h. */
#include "lib/kernels/bf16/gemm_macro_kernel.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"

#define ROWS NABLA_TILE_ROWS

/* The scratch: 64 bytes of AMX configuration, the panel (or two, which
 * alternate), an accumulator tile for each tile of x and half of the panel. */
#define PANEL_AT 64u

static uint64_t totals_at(const nabla_macro_kernel *self) {
  return PANEL_AT + (self->is_ahead ? 2 : 1) * self->panel;
}

#define TOTALS_BYTES ((uint64_t)NABLA_MACRO_HALVES * NABLA_TILE_BYTES)

uint64_t nabla_macro_kernel_scratch(const nabla_macro_kernel *self) {
  return totals_at(self) + self->waiting / ROWS * TOTALS_BYTES;
}

static nabla_ssa part(nabla_emitter *e, uint64_t byte) {
  return k_address(e, e->scratch, k_i64(e, byte));
}

nabla_ssa nabla_emit_macro_steps(nabla_emitter *e,
                                 const nabla_macro_kernel *self,
                                 nabla_ssa count) {
  return k_divide(e, k_add_constant(e, count, self->step - 1), self->step);
}

/* ---- from sums to y -------------------------------------------------------
 */

static void clear_totals(nabla_emitter *e, const nabla_macro_block *b) {
  k_clear(e, nabla_floats_at(part(e, totals_at(b->self))),
          k_multiply(e, b->tiles, TOTALS_BYTES / 4));
}

/* Transposes the accumulator tile at address `tile`, which then has rows of
 * y. */
static void transpose_sums(nabla_emitter *e, const nabla_macro_kernel *self,
                           nabla_ssa tile) {
  nabla_array_ref sums = nabla_floats_at(tile);
  nabla_ssa v[ROWS];
  for (unsigned i = 0; i < ROWS; i++)
    v[i] =
        k_read_lanes(e, sums, k_i64(e, (uint64_t)i * NABLA_LANES), NABLA_LANES);
  k_transpose(e, "f32", v);
  const unsigned rows = ROWS / self->folds;
  for (unsigned i = rows; i < ROWS; i++)
    v[i - rows] = k_binary(e, NABLA_VECTOR, "addf", v[i - rows], v[i]);
  for (unsigned i = 0; i < rows; i++)
    k_write_lanes(e, sums, k_i64(e, (uint64_t)i * NABLA_LANES), v[i]);
}

static void write_block(nabla_emitter *e, const nabla_macro_block *b) {
  nabla_loop tiles, halves, rows;
  nabla_ssa zero = k_i64(e, 0);
  k_loop_begin(e, &tiles, zero, b->rows, ROWS, 0, NULL);
  k_loop_begin(e, &halves, zero, b->columns, ROWS, 0, NULL);
  /* both count in 16: 2 KiB for 16 rows of x, 1 KiB for 16 columns */
  nabla_ssa at =
      k_add(e, k_multiply(e, tiles.induction, TOTALS_BYTES / ROWS),
            k_multiply(e, halves.induction, NABLA_TILE_BYTES / ROWS));
  nabla_ssa tile = k_address(e, part(e, totals_at(b->self)), at);
  transpose_sums(e, b->self, tile);
  nabla_ssa width = nabla_emit_left(e, b->columns, halves.induction, ROWS);
  k_loop_begin(e, &rows, zero,
               nabla_emit_left(e, b->rows, tiles.induction, ROWS), 1, 0, NULL);
  nabla_ssa row = k_add(e, k_add(e, b->row, tiles.induction), rows.induction);
  b->self->finish(
      e,
      k_address(e, tile, k_multiply(e, rows.induction, NABLA_TILE_ROW_BYTES)),
      row, k_add(e, b->column, halves.induction), width);
  k_loop_end(e, &rows, NULL);
  k_loop_end(e, &halves, NULL);
  k_loop_end(e, &tiles, NULL);
}

/* ---- all of it ------------------------------------------------------------
 */

/* `count` tiles of x from tile `tile` of the block on. */
static nabla_macro_tile square_of(nabla_emitter *e, const nabla_macro_block *b,
                                  nabla_ssa tile, unsigned count) {
  const nabla_macro_kernel *self = b->self;
  nabla_macro_tile s = {.count = count};
  s.is_first = k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", tile, k_i64(e, 0));
  nabla_ssa all = nabla_emit_macro_steps(e, self, e->k);
  nabla_ssa first = k_divide(e, b->row, ROWS);
  nabla_ssa step = k_divide(e, b->k, self->step);
  s.sums = k_address(e, part(e, totals_at(b->self)),
                     k_multiply(e, tile, TOTALS_BYTES));
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at = k_add(e, first, tile);
    at = k_add_constant(e, at, i);
    at = k_add(e, k_product(e, at, all), step);
    s.x[i] = k_address(e, e->workspace, k_multiply(e, at, self->step_bytes));
  }
  return s;
}

static void multiply_square(nabla_emitter *e, const nabla_macro_block *b,
                            nabla_ssa tile, unsigned count) {
  nabla_macro_tile s = square_of(e, b, tile, count);
  b->self->multiply(e, b, &s);
}

static void multiply_panel(nabla_emitter *e, const nabla_macro_block *b) {
  unsigned at_once = b->self->at_once;
  nabla_loop tiles;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa whole = k_divide(e, b->tiles, at_once);
  whole = k_multiply(e, whole, at_once);
  k_loop_begin(e, &tiles, zero, whole, at_once, 0, NULL);
  multiply_square(e, b, tiles.induction, at_once);
  k_loop_end(e, &tiles, NULL);
  if (at_once == 1) return;
  k_loop_begin(e, &tiles, whole, b->tiles, 1, 0, NULL);
  multiply_square(e, b, tiles.induction, 1);
  k_loop_end(e, &tiles, NULL);
}

/* The panel after that at b->k: the same rows, or the next ones. */
static void set_next(nabla_emitter *e, nabla_macro_block *b) {
  nabla_ssa k = k_add_constant(e, b->k, b->self->depth);
  nabla_ssa more = k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", k, e->k);
  nabla_ssa rows = k_add_constant(e, b->column, NABLA_MACRO_ROWS);
  b->next_k = k_choice(e, more, k, k_i64(e, 0));
  b->next = k_choice(e, more, b->column, rows);
}

static int is_whole_panels(const nabla_fused_spec *spec,
                           const nabla_macro_kernel *self) {
  return (spec->any_size ? spec->any_size : spec->k) % self->depth == 0;
}

static void set_panel(nabla_emitter *e, nabla_macro_block *b, nabla_ssa k) {
  const nabla_macro_kernel *self = b->self;
  b->k = k;
  b->count = is_whole_panels(e->spec, self)
                 ? k_i64(e, self->depth)
                 : nabla_emit_left(e, e->k, b->k, self->depth);
  b->steps = nabla_emit_macro_steps(e, self, b->count);
  b->panel = part(e, PANEL_AT);
  set_next(e, b);
}

/* ---- panels that are decoded ahead, or sums that stay ---------------------
 */

/* Sets the addresses of the panel at b->k, the `count`-th since the first row,
 * and of the next one. */
static void alternate_panels(nabla_emitter *e, nabla_macro_block *b,
                             nabla_ssa count) {
  nabla_ssa odd = k_op(e, "arith.andi %%v%u, %%v%u : i64", count, k_i64(e, 1));
  nabla_ssa even = k_op(e, "arith.xori %%v%u, %%v%u : i64", odd, k_i64(e, 1));
  nabla_ssa first = part(e, PANEL_AT);
  b->panel = k_address(e, first, k_multiply(e, odd, b->self->panel));
  b->other = k_address(e, first, k_multiply(e, even, b->self->panel));
}

void nabla_emit_macro_panel(nabla_emitter *e, nabla_macro_block *b,
                            nabla_macro_tile *s, nabla_ssa k) {
  const nabla_macro_kernel *self = b->self;
  set_panel(e, b, k);
  if (!self->is_ahead) {
    *s = square_of(e, b, k_i64(e, 0), s->count);
    return;
  }
  nabla_ssa blocks =
      k_divide(e, k_op(e, "arith.subi %%v%u, %%v%u : i64", b->column, e->begin),
               NABLA_MACRO_ROWS);
  alternate_panels(
      e, b,
      k_add(e, k_product(e, blocks, k_divide(e, e->k, self->depth)),
            k_divide(e, k, self->depth)));
  *s = square_of(e, b, k_i64(e, 0), s->count);
}

/* Packs the first panel of all, if there is one. */
static void decode_first(nabla_emitter *e, nabla_macro_block *b) {
  k_line(e, "scf.if %%v%u {",
         k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", e->begin, e->end));
  b->column = e->begin;
  b->panel = part(e, PANEL_AT);
  b->self->pack_b(e, b);
  k_line(e, "}");
}

static void multiply_all(nabla_emitter *e, nabla_macro_block *b) {
  const nabla_macro_kernel *self = b->self;
  nabla_macro_tile s = {.count = 1};
  if (self->at_once > 1) {
    k_line(
        e, "scf.if %%v%u {",
        k_op(e, "arith.cmpi ugt, %%v%u, %%v%u : i64", b->tiles, k_i64(e, 1)));
    s.count = self->at_once;
    self->multiply_all(e, b, &s);
    k_line(e, "} else {");
    s.count = 1;
  }
  self->multiply_all(e, b, &s);
  if (self->at_once > 1) k_line(e, "}");
}

static void sum_columns(nabla_emitter *e, nabla_macro_block *b) {
  const nabla_macro_kernel *self = b->self;
  nabla_loop panels;
  clear_totals(e, b);
  if (self->is_ahead || self->stays) {
    multiply_all(e, b);
    write_block(e, b);
    return;
  }
  k_loop_begin(e, &panels, k_i64(e, 0), e->k, self->depth, 0, NULL);
  set_panel(e, b, panels.induction);
  self->pack_b(e, b);
  multiply_panel(e, b);
  k_loop_end(e, &panels, NULL);
  write_block(e, b);
}

void nabla_emit_macro_kernel(nabla_emitter *e, const nabla_macro_kernel *self) {
  nabla_macro_block b = {.self = self};
  nabla_loop rows, columns;
  k_loop_begin(e, &rows, k_i64(e, 0), e->m, self->waiting, 0, NULL);
  b.row = rows.induction;
  b.rows = nabla_emit_left(e, e->m, b.row, self->waiting);
  b.tiles = k_divide(e, k_add_constant(e, b.rows, ROWS - 1), ROWS);
  if (self->is_ahead) {
    b.k = k_i64(e, 0);
    b.count = k_i64(e, self->depth);
    b.steps = k_i64(e, self->depth / self->step);
    decode_first(e, &b);
  }
  k_loop_begin(e, &columns, e->begin, e->end, NABLA_MACRO_ROWS, 0, NULL);
  b.column = columns.induction;
  b.columns = nabla_emit_left(e, e->end, b.column, NABLA_MACRO_ROWS);
  sum_columns(e, &b);
  k_loop_end(e, &columns, NULL);
  k_loop_end(e, &rows, NULL);
}

/* Packing, once for all rows whose totals are in the scratch, and products of
 * whole tiles. */
double nabla_macro_kernel_cost(const nabla_macro_kernel *self, uint64_t m,
                               double decode, double row) {
  double tiles = (double)((m + ROWS - 1) / ROWS);
  double blocks = (double)((m + self->waiting - 1) / self->waiting);
  return blocks * decode + tiles * ROWS * row;
}
