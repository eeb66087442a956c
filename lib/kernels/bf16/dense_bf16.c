/* Loops of products of two dense operands of bf16; see dense_bf16.h.
 *
 * The scratch: 64 bytes of AMX configuration, a tile for packing, the panels of
 * a group, and for each panel of a group the totals of 32 columns of all rows
 * of x. */
#include "lib/kernels/bf16/dense_bf16.h"

#include "lib/kernels/bf16/bf16.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/tile_util.h"

#define ROWS NABLA_TILE_ROWS

#define TILE_AT  64u
#define PANEL_AT (TILE_AT + NABLA_TILE_BYTES)

/* Rows of x that share a packed panel, and columns of which there are totals at
 * once. Where K is small the second cache holds many whole rows, which meet one
 * panel after the other. Else it holds a range of k of fewer rows, which meets
 * all panels of a group, and the totals of these. */
#define WHOLE_K       1024u
#define WHOLE_ROWS    512u
#define GROUP_ROWS    256u
#define GROUP_COLUMNS 160u

static int has_groups(const nabla_fused_spec *spec) {
  return spec->open & NABLA_OPEN_K || spec->k > WHOLE_K ||
         nabla_spec_last_m(spec) <= GROUP_ROWS;
}

static uint64_t rows_of(const nabla_fused_spec *spec) {
  const uint64_t unit = (uint64_t)NABLA_DENSE_TILES * ROWS;
  uint64_t rows = has_groups(spec) ? GROUP_ROWS : WHOLE_ROWS;
  if (rows > nabla_spec_last_m(spec)) rows = nabla_spec_last_m(spec);
  return (rows + unit - 1) / unit * unit;
}

static uint64_t columns_of(const nabla_fused_spec *spec) {
  return has_groups(spec) ? GROUP_COLUMNS : NABLA_DENSE_COLUMNS;
}

static uint64_t totals_at(const nabla_fused_spec *spec) {
  return PANEL_AT + columns_of(spec) / NABLA_DENSE_COLUMNS * NABLA_DENSE_PANEL;
}

static nabla_ssa part(nabla_emitter *e, uint64_t byte) {
  return k_address(e, e->scratch, k_i64(e, byte));
}

/* A block of y: rows of x with totals, and the columns of a panel. */
typedef struct block {
  nabla_dense_multiply *multiply;
  nabla_ssa row, rows, tiles;
  nabla_ssa column, columns;
  nabla_ssa totals;  /* address of those of the panel's columns */
  nabla_ssa is_last; /* i1: no panel of k follows */
} block;

/* ---- from totals to y ------------------------------------------------------
 */

/* vdpbf16ps and tdpbf16ps give no subnormal sums, so that the instruction that
 * rounds, which flushes such values, agrees with k_narrow. */
static int rounds_at_once(const nabla_fused_spec *spec) {
  return spec->y_type == NABLA_DTYPE_BF16 && !spec->step_count;
}

/* All columns of a row: 64 bytes of bf16. */
static void round_row(nabla_emitter *e, nabla_ssa totals, nabla_ssa row,
                      nabla_ssa column) {
  nabla_array_ref from = nabla_floats_at(totals);
  nabla_ssa words;
  nabla_ssa low = k_read_lanes(e, from, k_i64(e, 0), NABLA_LANES);
  nabla_ssa high = k_read_lanes(e, from, k_i64(e, NABLA_LANES), NABLA_LANES);
  nabla_emit_bf16_split(e, low, high, 1, &words);
  k_store(e, "vector<32xi16>", words, e->y,
          k_multiply(e, nabla_emit_y_index(e, row, column), 2), 2);
}

/* Rows [from, to) of the block. */
static void write_rows(nabla_emitter *e, const block *b, nabla_ssa from,
                       nabla_ssa to, int is_whole) {
  nabla_loop rows;
  k_loop_begin(e, &rows, from, to, 1, 0, NULL);
  nabla_ssa totals = k_address(
      e, b->totals, k_multiply(e, rows.induction, NABLA_DENSE_TOTALS_ROW));
  nabla_ssa row = k_add(e, b->row, rows.induction);
  if (is_whole)
    round_row(e, totals, row, b->column);
  else
    nabla_emit_finish_row(e, totals, row, b->column, b->columns);
  k_loop_end(e, &rows, NULL);
}

static void write_tiles(nabla_emitter *e, const block *b, nabla_ssa from,
                        nabla_ssa to) {
  if (!rounds_at_once(e->spec)) {
    write_rows(e, b, from, to, 0);
    return;
  }
  k_line(e, "scf.if %%v%u {",
         k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", b->columns,
              k_i64(e, NABLA_DENSE_COLUMNS)));
  write_rows(e, b, from, to, 1);
  k_line(e, "} else {");
  write_rows(e, b, from, to, 0);
  k_line(e, "}");
}

/* Asks for the lines of y while the last products are computed: a row of y is a
 * line or two, far from the next, which hardware does not foresee. */
static void ask_for_rows(nabla_emitter *e, const block *b, nabla_ssa from,
                         nabla_ssa to) {
  const uint64_t size = nabla_dtype_bits(e->spec->y_type) / 8;
  nabla_loop rows;
  k_loop_begin(e, &rows, from, to, 1, 0, NULL);
  nabla_ssa first = k_address(
      e, e->y,
      k_multiply(
          e, nabla_emit_y_index(e, k_add(e, b->row, rows.induction), b->column),
          size));
  for (uint64_t i = 0; i < NABLA_DENSE_COLUMNS * size; i += 64)
    k_prefetch_write(e, k_address(e, first, k_i64(e, i)));
  k_loop_end(e, &rows, NULL);
}

/* ---- products --------------------------------------------------------------
 */

/* `count` tiles of x from tile `tile` of the block on. */
static nabla_dense_block tiles_of(nabla_emitter *e, const block *b,
                                  const nabla_dense_panel *panel,
                                  nabla_ssa tile, unsigned count) {
  nabla_dense_block d = {.panel = panel->out, .count = count};
  nabla_ssa all = nabla_emit_dense_steps(e, e->k);
  nabla_ssa first = k_add(e, k_divide(e, b->row, ROWS), tile);
  nabla_ssa step = k_divide(e, panel->k, NABLA_DENSE_STEP);
  for (unsigned i = 0; i < count && i < NABLA_DENSE_TILES; i++) {
    nabla_ssa at = k_product(e, k_add_constant(e, first, i), all);
    d.x[i] = k_address(e, e->workspace,
                       k_multiply(e, k_add(e, at, step), NABLA_TILE_BYTES));
  }
  d.totals = k_address(e, b->totals,
                       k_multiply(e, tile, ROWS * NABLA_DENSE_TOTALS_ROW));
  d.steps = nabla_emit_dense_steps(e, panel->count);
  d.is_first =
      k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", panel->k, k_i64(e, 0));
  return d;
}

static void multiply_tiles(nabla_emitter *e, const block *b,
                           const nabla_dense_panel *panel, nabla_ssa tile,
                           unsigned count) {
  const nabla_dense_block d = tiles_of(e, b, panel, tile, count);
  nabla_ssa from = k_multiply(e, tile, ROWS);
  nabla_ssa to =
      k_minimum(e, k_add_constant(e, from, (uint64_t)count * ROWS), b->rows);
  k_line(e, "scf.if %%v%u {", b->is_last);
  ask_for_rows(e, b, from, to);
  k_line(e, "}");
  b->multiply(e, &d);
  k_line(e, "scf.if %%v%u {", b->is_last);
  write_tiles(e, b, from, to);
  k_line(e, "}");
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

/* ---- all of it -------------------------------------------------------------
 */

/* Columns [first, end), a group, of the rows of `of`. */
static void sum_group(nabla_emitter *e, const block *of, nabla_ssa first,
                      nabla_ssa end) {
  block b = *of;
  nabla_loop ranges, columns;
  nabla_ssa depth = e->k;
  if (e->spec->open & NABLA_OPEN_K) /* sums of no products are stored, too */
    depth = k_op(e, "arith.maxui %%v%u, %%v%u : i64", depth, k_i64(e, 1));
  k_loop_begin(e, &ranges, k_i64(e, 0), depth, NABLA_DENSE_DEPTH, 0, NULL);
  nabla_dense_panel panel = {
      .column = first,
      .columns = k_op(e, "arith.subi %%v%u, %%v%u : i64", end, first),
      .k = ranges.induction,
      .count = nabla_emit_left(e, e->k, ranges.induction, NABLA_DENSE_DEPTH),
      .out = part(e, PANEL_AT),
      .scratch = part(e, TILE_AT),
      .most = columns_of(e->spec)};
  b.is_last = k_op(e, "arith.cmpi uge, %%v%u, %%v%u : i64",
                   k_add_constant(e, panel.k, NABLA_DENSE_DEPTH), e->k);
  nabla_emit_dense_pack_b(e, &panel);
  k_loop_begin(e, &columns, first, end, NABLA_DENSE_COLUMNS, 0, NULL);
  b.column = columns.induction;
  b.columns = nabla_emit_left(e, end, b.column, NABLA_DENSE_COLUMNS);
  nabla_ssa before = k_op(e, "arith.subi %%v%u, %%v%u : i64", b.column, first);
  panel.out =
      k_address(e, part(e, PANEL_AT),
                k_multiply(e, before, NABLA_DENSE_PANEL / NABLA_DENSE_COLUMNS));
  b.totals = k_address(e, part(e, totals_at(e->spec)),
                       k_multiply(e, before, rows_of(e->spec) * sizeof(float)));
  multiply_panel(e, &b, &panel);
  k_loop_end(e, &columns, NULL);
  k_loop_end(e, &ranges, NULL);
}

void nabla_emit_dense_bf16(nabla_emitter *e, nabla_dense_multiply *multiply) {
  const uint64_t most = rows_of(e->spec), group = columns_of(e->spec);
  block b = {.multiply = multiply};
  nabla_loop rows, groups;
  k_loop_begin(e, &rows, k_i64(e, 0), e->m, most, 0, NULL);
  b.row = rows.induction;
  b.rows = nabla_emit_left(e, e->m, b.row, most);
  b.tiles = k_divide(e, k_add_constant(e, b.rows, ROWS - 1), ROWS);
  k_loop_begin(e, &groups, e->begin, e->end, group, 0, NULL);
  sum_group(e, &b, groups.induction,
            k_minimum(e, k_add_constant(e, groups.induction, group), e->end));
  k_loop_end(e, &groups, NULL);
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
  return totals_at(spec) + rows_of(spec) * columns_of(spec) * sizeof(float);
}
