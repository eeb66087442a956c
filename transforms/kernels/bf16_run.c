/* y = x . w in bf16 pairs for many rows of x: panels of 32 rows of w and up to
 * 512 elements of k are decoded to the scratch, where they stay in the first
 * cache, and multiplied with all rows of x whose sums wait: tiles of 32 x 32.
 * How tiles are multiplied: bf16_amx.c, bf16_dots.c. */
#include "transforms/kernels/bf16.h"
#include "transforms/kernels/int8.h"
#include "transforms/kernels/shapes.h"
#include "transforms/kernels/transpose.h"

#define ROWS    NABLA_TILE_ROWS
#define WAITING 128u /* rows of x whose sums wait */

/* The scratch: what AMX is set up with, the panel, a tile of sums for each tile
 * of x and half of the panel. */
#define PANEL_AT  64u
#define TOTALS_AT (PANEL_AT + NABLA_BF16_HALVES * NABLA_BF16_HALF)
#define TOTALS ((uint64_t)WAITING / ROWS * NABLA_BF16_HALVES * NABLA_TILE_BYTES)

static nabla_ssa part(nabla_emitter *emitter, uint64_t byte) {
  return nabla_emit_address(emitter, emitter->scratch,
                            nabla_emit_i64(emitter, byte));
}

nabla_ssa nabla_emit_bf16_panel_at(nabla_emitter *emitter) {
  return part(emitter, PANEL_AT);
}

/* ---- from sums to y -------------------------------------------------------
 */

static void clear_totals(nabla_emitter *emitter, const nabla_bf16_block *b) {
  nabla_array_ref totals = nabla_floats_at(part(emitter, TOTALS_AT));
  nabla_loop loop;
  nabla_loop_begin(
      emitter, &loop, nabla_emit_i64(emitter, 0),
      nabla_emit_multiply(emitter, b->tiles,
                          NABLA_BF16_HALVES * NABLA_TILE_BYTES / 4),
      NABLA_LANES, 0, NULL);
  nabla_emit_write_lanes(emitter, totals, loop.induction,
                         nabla_emit_f32(emitter, NABLA_VECTOR, 0));
  nabla_loop_end(emitter, &loop, NULL);
}

/* Turns the tile of sums at address `tile`, which then has rows of y. */
static void turn(nabla_emitter *emitter, nabla_ssa tile) {
  nabla_array_ref sums = nabla_floats_at(tile);
  nabla_ssa v[ROWS];
  for (unsigned i = 0; i < ROWS; i++)
    v[i] = nabla_emit_read_lanes(
        emitter, sums, nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES),
        NABLA_LANES);
  nabla_emit_transpose(emitter, "f32", v);
  for (unsigned i = 0; i < ROWS; i++)
    nabla_emit_write_lanes(emitter, sums,
                           nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES),
                           v[i]);
}

static void write_block(nabla_emitter *emitter, const nabla_bf16_block *b) {
  nabla_loop tiles, halves, rows;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &tiles, zero, b->rows, ROWS, 0, NULL);
  nabla_loop_begin(emitter, &halves, zero, b->columns, ROWS, 0, NULL);
  /* both count in 16: 2 KiB for 16 rows of x, 1 KiB for 16 columns */
  nabla_ssa at = nabla_emit_add(
      emitter,
      nabla_emit_multiply(emitter, tiles.induction,
                          NABLA_BF16_HALVES * NABLA_TILE_BYTES / ROWS),
      nabla_emit_multiply(emitter, halves.induction, NABLA_TILE_BYTES / ROWS));
  nabla_ssa tile = nabla_emit_address(emitter, part(emitter, TOTALS_AT), at);
  turn(emitter, tile);
  nabla_ssa width =
      nabla_emit_left(emitter, b->columns, halves.induction, ROWS);
  nabla_loop_begin(emitter, &rows, zero,
                   nabla_emit_left(emitter, b->rows, tiles.induction, ROWS), 1,
                   0, NULL);
  nabla_ssa row =
      nabla_emit_add(emitter, nabla_emit_add(emitter, b->row, tiles.induction),
                     rows.induction);
  nabla_emit_int8_finish(
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

/* Multiplies `count` tiles of x from tile `tile` of the block on. */
static void multiply_square(nabla_emitter *emitter, const nabla_bf16_block *b,
                            nabla_ssa tile, unsigned count,
                            nabla_bf16_multiplier *multiply) {
  nabla_bf16_square s = {.count = count};
  s.is_first = nabla_emit(emitter, "arith.cmpi eq, %%v%u, %%v%u : i64", tile,
                          nabla_emit_i64(emitter, 0));
  nabla_ssa all = nabla_emit_bf16_steps(emitter);
  nabla_ssa first = nabla_emit_divide(emitter, b->row, ROWS);
  nabla_ssa step = nabla_emit_divide(emitter, b->k, NABLA_BF16_STEP);
  s.sums = nabla_emit_address(
      emitter, part(emitter, TOTALS_AT),
      nabla_emit_multiply(emitter, tile, NABLA_BF16_HALVES * NABLA_TILE_BYTES));
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at = nabla_emit_add(emitter, first, tile);
    at = nabla_emit_add_constant(emitter, at, i);
    at = nabla_emit_add(emitter, nabla_emit_product(emitter, at, all), step);
    s.x[i] =
        nabla_emit_address(emitter, emitter->workspace,
                           nabla_emit_multiply(emitter, at, NABLA_TILE_BYTES));
  }
  multiply(emitter, b, &s);
}

static void multiply_panel(nabla_emitter *emitter, const nabla_bf16_block *b,
                           nabla_bf16_multiplier *multiply) {
  nabla_loop tiles;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa whole = nabla_emit_divide(emitter, b->tiles, NABLA_BF16_AT_ONCE);
  whole = nabla_emit_multiply(emitter, whole, NABLA_BF16_AT_ONCE);
  nabla_loop_begin(emitter, &tiles, zero, whole, NABLA_BF16_AT_ONCE, 0, NULL);
  multiply_square(emitter, b, tiles.induction, NABLA_BF16_AT_ONCE, multiply);
  nabla_loop_end(emitter, &tiles, NULL);
  nabla_loop_begin(emitter, &tiles, whole, b->tiles, 1, 0, NULL);
  multiply_square(emitter, b, tiles.induction, 1, multiply);
  nabla_loop_end(emitter, &tiles, NULL);
}

/* The panel after that at b->k: the same rows, or the next ones. */
static void set_next(nabla_emitter *emitter, nabla_bf16_block *b) {
  nabla_ssa k = nabla_emit_add_constant(emitter, b->k, NABLA_BF16_DEPTH);
  nabla_ssa more =
      nabla_emit(emitter, "arith.cmpi ult, %%v%u, %%v%u : i64", k, emitter->k);
  nabla_ssa rows = nabla_emit_add_constant(emitter, b->column, NABLA_BF16_ROWS);
  b->next_k = nabla_emit(emitter, "arith.select %%v%u, %%v%u, %%v%u : i64",
                         more, k, nabla_emit_i64(emitter, 0));
  b->next = nabla_emit(emitter, "arith.select %%v%u, %%v%u, %%v%u : i64", more,
                       b->column, rows);
}

static void sum_columns(nabla_emitter *emitter, nabla_bf16_block *b,
                        nabla_bf16_multiplier *multiply) {
  nabla_loop panels;
  clear_totals(emitter, b);
  nabla_loop_begin(emitter, &panels, nabla_emit_i64(emitter, 0), emitter->k,
                   NABLA_BF16_DEPTH, 0, NULL);
  nabla_bf16_panel panel = {
      .row = b->column,
      .k = panels.induction,
      .count = nabla_emit_left(emitter, emitter->k, panels.induction,
                               NABLA_BF16_DEPTH),
      .out = nabla_emit_bf16_panel_at(emitter)};
  b->k = panel.k;
  set_next(emitter, b);
  b->steps = nabla_emit_divide(
      emitter,
      nabla_emit_add_constant(emitter, panel.count, NABLA_BF16_STEP - 1),
      NABLA_BF16_STEP);
  nabla_emit_bf16_panel(emitter, &panel);
  multiply_panel(emitter, b, multiply);
  nabla_loop_end(emitter, &panels, NULL);
  write_block(emitter, b);
}

void nabla_emit_bf16_run(nabla_emitter *emitter,
                         nabla_bf16_multiplier *multiply) {
  nabla_bf16_block b;
  nabla_loop rows, columns;
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0), emitter->m,
                   WAITING, 0, NULL);
  b.row = rows.induction;
  b.rows = nabla_emit_left(emitter, emitter->m, b.row, WAITING);
  b.tiles = nabla_emit_divide(
      emitter, nabla_emit_add_constant(emitter, b.rows, ROWS - 1), ROWS);
  nabla_loop_begin(emitter, &columns, emitter->begin, emitter->end,
                   NABLA_BF16_ROWS, 0, NULL);
  b.column = columns.induction;
  b.columns = nabla_emit_left(emitter, emitter->end, b.column, NABLA_BF16_ROWS);
  sum_columns(emitter, &b, multiply);
  nabla_loop_end(emitter, &columns, NULL);
  nabla_loop_end(emitter, &rows, NULL);
}

/* Decoding, once for WAITING rows, and products of whole tiles. */
double nabla_bf16_cost(const nabla_fused_spec *spec, uint64_t m, double row) {
  double tiles = (double)((m + ROWS - 1) / ROWS);
  double blocks = (double)((m + WAITING - 1) / WAITING);
  return blocks * (nabla_bf16_by_lines(spec) ? 25 : 60) + tiles * ROWS * row;
}

void nabla_bf16_describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  (void)spec;
  out->grain = NABLA_BF16_ROWS;
  out->workspace =
      (nabla_kernel_tiles){ROWS, NABLA_BF16_STEP, NABLA_TILE_BYTES};
}

/* Of a tile 16 pairs in turn, then that of the next. */
uint64_t nabla_bf16_chain(const nabla_fused_spec *spec) {
  return spec->k + NABLA_BF16_STEP;
}

uint64_t nabla_bf16_scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return TOTALS_AT + TOTALS;
}
