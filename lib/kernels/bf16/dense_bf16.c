/* Loops of products of two dense operands of bf16; see dense_bf16.h.
 *
 * The scratch: 64 bytes of AMX configuration, a tile for packing, the panel,
 * and totals of the rows of x that are multiplied with it, 32 columns each. */
#include "lib/kernels/bf16/dense_bf16.h"

#include "lib/kernels/bf16/bf16.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/tile_util.h"

#define ROWS NABLA_TILE_ROWS

#define TILE_AT   64u
#define PANEL_AT  (TILE_AT + NABLA_TILE_BYTES)
#define TOTALS_AT (PANEL_AT + 2 * NABLA_DENSE_HALF)

/* Rows of x that share a packed panel: as many as the second cache holds beside
 * it, but enough to be worth the packing, and totals are on the stack. */
#define X_BYTES    (768u * 1024)
#define ROWS_LEAST 128u
#define ROWS_MOST  512u

static uint64_t rows_of(const nabla_fused_spec *spec) {
  const uint64_t unit = (uint64_t)NABLA_DENSE_TILES * ROWS;
  uint64_t rows = spec->k ? X_BYTES / (2 * spec->k) : ROWS_LEAST;
  if (rows < ROWS_LEAST) rows = ROWS_LEAST;
  if (rows > ROWS_MOST) rows = ROWS_MOST;
  if (rows > nabla_spec_last_m(spec)) rows = nabla_spec_last_m(spec);
  return (rows + unit - 1) / unit * unit;
}

static nabla_ssa part(nabla_emitter *e, uint64_t byte) {
  return k_address(e, e->scratch, k_i64(e, byte));
}

/* A block of y: rows of x with totals, and the columns of a panel. */
typedef struct block {
  nabla_dense_multiply *multiply;
  nabla_ssa row, rows, tiles;
  nabla_ssa column, columns;
} block;

/* ---- products --------------------------------------------------------------
 */

/* `count` tiles of x from tile `tile` of the block on. */
static void multiply_tiles(nabla_emitter *e, const block *b,
                           const nabla_dense_panel *panel, nabla_ssa tile,
                           unsigned count) {
  nabla_dense_block d = {.panel = panel->out, .count = count};
  nabla_ssa all = nabla_emit_dense_steps(e, e->k);
  nabla_ssa first = k_add(e, k_divide(e, b->row, ROWS), tile);
  nabla_ssa step = k_divide(e, panel->k, NABLA_DENSE_STEP);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at = k_product(e, k_add_constant(e, first, i), all);
    d.x[i] = k_address(e, e->workspace,
                       k_multiply(e, k_add(e, at, step), NABLA_TILE_BYTES));
  }
  d.totals = k_address(e, part(e, TOTALS_AT),
                       k_multiply(e, tile, ROWS * NABLA_DENSE_TOTALS_ROW));
  d.steps = nabla_emit_dense_steps(e, panel->count);
  d.is_first =
      k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", panel->k, k_i64(e, 0));
  b->multiply(e, &d);
}

static void multiply_panel(nabla_emitter *e, const block *b,
                           const nabla_dense_panel *panel) {
  const unsigned at_once =
      nabla_spec_last_m(e->spec) <= ROWS ? 1 : NABLA_DENSE_TILES;
  nabla_loop tiles;
  nabla_ssa whole = k_multiply(e, k_divide(e, b->tiles, at_once), at_once);
  k_loop_begin(e, &tiles, k_i64(e, 0), whole, at_once, 0, NULL);
  multiply_tiles(e, b, panel, tiles.induction, at_once);
  k_loop_end(e, &tiles, NULL);
  if (at_once == 1) return;
  k_loop_begin(e, &tiles, whole, b->tiles, 1, 0, NULL);
  multiply_tiles(e, b, panel, tiles.induction, 1);
  k_loop_end(e, &tiles, NULL);
}

/* ---- from totals to y ------------------------------------------------------
 */

/* Sums of products of bf16 are never subnormal, so that the instruction, which
 * flushes such values, rounds them like k_narrow. */
static int rounds_at_once(const nabla_fused_spec *spec) {
  return spec->y_type == NABLA_DTYPE_BF16 && !spec->step_count;
}

/* All columns of a row: 64 bytes of bf16. */
static void round_row(nabla_emitter *e, nabla_ssa totals, nabla_ssa row,
                      nabla_ssa column) {
  nabla_array_ref from = nabla_floats_at(totals);
  nabla_ssa words;
  nabla_emit_bf16_split(
      e, k_read_lanes(e, from, k_i64(e, 0), NABLA_LANES),
      k_read_lanes(e, from, k_i64(e, NABLA_LANES), NABLA_LANES), 1, &words);
  k_store(e, "vector<32xi16>", words, e->y,
          k_multiply(e, nabla_emit_y_index(e, row, column), 2), 2);
}

static void write_rows(nabla_emitter *e, const block *b, int is_whole) {
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), b->rows, 1, 0, NULL);
  nabla_ssa totals =
      k_address(e, part(e, TOTALS_AT),
                k_multiply(e, rows.induction, NABLA_DENSE_TOTALS_ROW));
  nabla_ssa row = k_add(e, b->row, rows.induction);
  if (is_whole)
    round_row(e, totals, row, b->column);
  else
    nabla_emit_finish_row(e, totals, row, b->column, b->columns);
  k_loop_end(e, &rows, NULL);
}

static void write_block(nabla_emitter *e, const block *b) {
  if (!rounds_at_once(e->spec)) {
    write_rows(e, b, 0);
    return;
  }
  k_line(e, "scf.if %%v%u {",
         k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", b->columns,
              k_i64(e, NABLA_DENSE_COLUMNS)));
  write_rows(e, b, 1);
  k_line(e, "} else {");
  write_rows(e, b, 0);
  k_line(e, "}");
}

/* ---- all of it -------------------------------------------------------------
 */

static void sum_columns(nabla_emitter *e, const block *b) {
  nabla_loop panels;
  k_loop_begin(e, &panels, k_i64(e, 0), e->k, NABLA_DENSE_DEPTH, 0, NULL);
  const nabla_dense_panel panel = {
      .column = b->column,
      .columns = b->columns,
      .k = panels.induction,
      .count = nabla_emit_left(e, e->k, panels.induction, NABLA_DENSE_DEPTH),
      .out = part(e, PANEL_AT),
      .scratch = part(e, TILE_AT)};
  nabla_emit_dense_pack_b(e, &panel);
  multiply_panel(e, b, &panel);
  k_loop_end(e, &panels, NULL);
  write_block(e, b);
}

void nabla_emit_dense_bf16(nabla_emitter *e, nabla_dense_multiply *multiply) {
  const uint64_t most = rows_of(e->spec);
  block b = {.multiply = multiply};
  nabla_loop rows, columns;
  k_loop_begin(e, &rows, k_i64(e, 0), e->m, most, 0, NULL);
  b.row = rows.induction;
  b.rows = nabla_emit_left(e, e->m, b.row, most);
  b.tiles = k_divide(e, k_add_constant(e, b.rows, ROWS - 1), ROWS);
  k_loop_begin(e, &columns, e->begin, e->end, NABLA_DENSE_COLUMNS, 0, NULL);
  b.column = columns.induction;
  b.columns = nabla_emit_left(e, e->end, b.column, NABLA_DENSE_COLUMNS);
  sum_columns(e, &b);
  k_loop_end(e, &columns, NULL);
  k_loop_end(e, &rows, NULL);
}

/* ---- what variants say of themselves ---------------------------------------
 */

int nabla_dense_bf16_applies(const nabla_fused_spec *spec) {
  return spec->numerics == NABLA_NUMERICS_BF16 && nabla_spec_is_dense(spec) &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE && !spec->any_size &&
         spec->x_type == NABLA_DTYPE_BF16 &&
         spec->w_stored == NABLA_DTYPE_BF16 &&
         spec->w_type != NABLA_DTYPE_F16 && spec->m_min > 1 &&
         (spec->k || spec->open & NABLA_OPEN_K) &&
         NABLA_HAS(spec->features, AVX512BF16) &&
         NABLA_HAS(spec->features, AVX512BW);
}

/* A panel is packed for each block of rows: pairs of two lines side by side are
 * put together, others are transposed. */
double nabla_dense_bf16_cost(const nabla_fused_spec *spec, uint64_t m,
                             double row) {
  const uint64_t most = rows_of(spec);
  const double blocks = (double)((m + most - 1) / most);
  const double tiles = (double)((m + ROWS - 1) / ROWS);
  return blocks * (nabla_spec_is_row(spec) ? 45 : 20) + tiles * ROWS * row;
}

void nabla_dense_bf16_describe(const nabla_fused_spec *spec,
                               nabla_kernel *out) {
  (void)spec;
  out->grain = NABLA_DENSE_COLUMNS;
  out->workspace =
      (nabla_kernel_tiles){ROWS, NABLA_DENSE_STEP, NABLA_TILE_BYTES};
}

/* The chain: 16 pairs of each tile along k. */
uint64_t nabla_dense_bf16_accumulation_depth(const nabla_fused_spec *spec) {
  return spec->k + NABLA_DENSE_STEP;
}

uint64_t nabla_dense_bf16_scratch(const nabla_fused_spec *spec) {
  return TOTALS_AT + rows_of(spec) * NABLA_DENSE_TOTALS_ROW;
}
