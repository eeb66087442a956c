/* y = x . w for many rows of x: panels of w are decoded once into the scratch,
 * rows of w in lanes, and multiplied with tiles of some rows of x, each element
 * of which is spread over a vector. Sums of a panel begin at zero and are added
 * to totals in the scratch. x that is not f32 is widened by `prepare`.
 *
 * The scratch: a panel, totals of ROWS x COLUMNS, and what nabla_emit_panel
 * needs. */
#include "transforms/kernels/decode.h"
#include "transforms/kernels/epilogue.h"
#include "transforms/kernels/panel.h"
#include "transforms/kernels/shapes.h"

#define PANEL   256u /* elements of k */
#define COLUMNS 64u  /* rows of w that share a look at x */
#define ROWS    256u /* rows of x that a decoded panel is used for */
#define GRAIN   32u

/* What one multiplication computes: `rows` of x times `vectors` of columns. */
typedef struct tile_shape {
  unsigned rows, vectors;
} tile_shape;

/* AVX-512 has 32 registers, AVX2 16 of half the size. */
static tile_shape shape_of(const nabla_fused_spec *spec) {
  return NABLA_HAS(spec->features, AVX512F) ? (tile_shape){8, 2}
                                            : (tile_shape){4, 1};
}

static unsigned width_of(const nabla_fused_spec *spec) {
  return shape_of(spec).vectors * NABLA_LANES;
}

static uint64_t totals_at(const nabla_fused_spec *spec) {
  return (uint64_t)PANEL * width_of(spec) * 4;
}

static uint64_t work_at(const nabla_fused_spec *spec) {
  return totals_at(spec) + (uint64_t)ROWS * COLUMNS * 4;
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  return work_at(spec) + NABLA_PANEL_SCRATCH;
}

static nabla_ssa part(nabla_emitter *emitter, uint64_t bytes) {
  return nabla_emit_address(emitter, emitter->scratch,
                            nabla_emit_i64(emitter, bytes));
}

/* ---- x as f32 ---------------------------------------------------------------
 */

static int is_widened(const nabla_fused_spec *spec) {
  return spec->x_type != NABLA_DTYPE_F32;
}

static void prepare(nabla_emitter *emitter) {
  nabla_array_ref x = {emitter->x, emitter->spec->x_type};
  nabla_array_ref out = nabla_floats_at(emitter->workspace);
  nabla_loop loop;
  nabla_ssa begin = nabla_emit_product(emitter, emitter->begin, emitter->k);
  nabla_ssa end = nabla_emit_product(emitter, emitter->end, emitter->k);
  nabla_ssa count =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", end, begin);
  count = nabla_emit_divide(emitter, count, NABLA_LANES);
  nabla_ssa whole = nabla_emit_multiply(emitter, count, NABLA_LANES);
  whole = nabla_emit_add(emitter, begin, whole);
  nabla_loop_begin(emitter, &loop, begin, whole, NABLA_LANES, 0, NULL);
  nabla_emit_write_lanes(
      emitter, out, loop.induction,
      nabla_emit_read_lanes(emitter, x, loop.induction, NABLA_LANES));
  nabla_loop_end(emitter, &loop, NULL);
  nabla_loop_begin(emitter, &loop, whole, end, 1, 0, NULL);
  nabla_emit_write(emitter, out, loop.induction,
                   nabla_emit_read(emitter, x, loop.induction));
  nabla_loop_end(emitter, &loop, NULL);
}

/* Addresses of elements k of the rows from `first` on; of the last row beyond
 * it. */
static void rows_of_x(nabla_emitter *emitter, nabla_ssa first, nabla_ssa k,
                      nabla_ssa *out) {
  nabla_ssa base = is_widened(emitter->spec) ? emitter->workspace : emitter->x;
  nabla_ssa one = nabla_emit_i64(emitter, 1);
  nabla_ssa last =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", emitter->m, one);
  for (unsigned r = 0; r < shape_of(emitter->spec).rows; r++) {
    nabla_ssa row = nabla_emit_minimum(
        emitter, nabla_emit_add_constant(emitter, first, r), last);
    row = nabla_emit_add(emitter, nabla_emit_product(emitter, row, emitter->k),
                         k);
    out[r] =
        nabla_emit_address(emitter, base, nabla_emit_multiply(emitter, row, 4));
  }
}

/* ---- tiles ----------------------------------------------------------------
 */

/* What is multiplied: `count` elements of k. */
typedef struct tile {
  nabla_ssa x[NABLA_LOOP_MAX]; /* addresses of its rows */
  nabla_ssa w;                 /* address in the panel */
  nabla_ssa total;             /* number of the first total */
  nabla_ssa count;
} tile;

static void multiply(nabla_emitter *emitter, const tile *t) {
  tile_shape s = shape_of(emitter->spec);
  unsigned sums = s.rows * s.vectors;
  nabla_ssa none[NABLA_LOOP_MAX], next[NABLA_LOOP_MAX], w[4];
  nabla_array_ref panel = nabla_floats_at(t->w);
  nabla_array_ref totals =
      nabla_floats_at(part(emitter, totals_at(emitter->spec)));
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  for (unsigned i = 0; i < sums; i++) none[i] = zero;
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), t->count, 1,
                   sums, none);
  nabla_ssa at =
      nabla_emit_multiply(emitter, loop.induction, s.vectors * NABLA_LANES);
  for (unsigned v = 0; v < s.vectors; v++)
    w[v] = nabla_emit_read_lanes(
        emitter, panel,
        nabla_emit_add_constant(emitter, at, (uint64_t)v * NABLA_LANES),
        NABLA_LANES);
  for (unsigned r = 0; r < s.rows; r++) {
    nabla_ssa one =
        nabla_emit_read(emitter, nabla_floats_at(t->x[r]), loop.induction);
    one = nabla_emit_broadcast(emitter, "f32", one);
    for (unsigned v = 0; v < s.vectors; v++) {
      unsigned i = r * s.vectors + v;
      next[i] =
          nabla_emit_fma(emitter, NABLA_VECTOR, one, w[v], loop.carried[i]);
    }
  }
  nabla_loop_end(emitter, &loop, next);
  for (unsigned i = 0; i < sums; i++) {
    nabla_ssa index = nabla_emit_add_constant(
        emitter, t->total,
        (uint64_t)(i / s.vectors) * COLUMNS + i % s.vectors * NABLA_LANES);
    nabla_ssa total =
        nabla_emit_read_lanes(emitter, totals, index, NABLA_LANES);
    total = nabla_emit_binary(emitter, NABLA_VECTOR, "addf", total,
                              loop.results[i]);
    nabla_emit_write_lanes(emitter, totals, index, total);
  }
}

/* Rows of x and columns that are computed together. */
typedef struct block {
  nabla_ssa row, rows, column, columns;
} block;

/* Decodes the panel at k of the columns from `column` of the block on. */
static void decode_panel(nabla_emitter *emitter, const block *b,
                         nabla_ssa column, nabla_ssa k, nabla_ssa count) {
  nabla_panel panel = {.first = nabla_emit_add(emitter, b->column, column),
                       .width = width_of(emitter->spec),
                       .k = k,
                       .count = count,
                       .aligned = PANEL,
                       .out = emitter->scratch,
                       .scratch = part(emitter, work_at(emitter->spec))};
  nabla_emit_panel(emitter, &panel);
}

/* Adds the products of the panels at k to the totals: each is used as soon as
 * it is decoded, while the first cache holds it. */
static void multiply_panels(nabla_emitter *emitter, const block *b, nabla_ssa k,
                            nabla_ssa count) {
  unsigned rows = shape_of(emitter->spec).rows, width = width_of(emitter->spec);
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop parts, tiles;
  nabla_loop_begin(emitter, &parts, zero, b->columns, width, 0, NULL);
  decode_panel(emitter, b, parts.induction, k, count);
  nabla_loop_begin(emitter, &tiles, zero, b->rows, rows, 0, NULL);
  nabla_ssa total = nabla_emit_multiply(emitter, tiles.induction, COLUMNS);
  tile t = {.w = emitter->scratch,
            .total = nabla_emit_add(emitter, total, parts.induction),
            .count = count};
  rows_of_x(emitter, nabla_emit_add(emitter, b->row, tiles.induction), k, t.x);
  multiply(emitter, &t);
  nabla_loop_end(emitter, &tiles, NULL);
  nabla_loop_end(emitter, &parts, NULL);
}

static void clear_totals(nabla_emitter *emitter, const block *b) {
  nabla_array_ref totals =
      nabla_floats_at(part(emitter, totals_at(emitter->spec)));
  unsigned height = shape_of(emitter->spec).rows;
  nabla_ssa rows = nabla_emit_add_constant(emitter, b->rows, height - 1);
  rows = nabla_emit_divide(emitter, rows, height);
  rows = nabla_emit_multiply(emitter, rows, height);
  nabla_ssa end = nabla_emit_multiply(emitter, rows, COLUMNS);
  nabla_loop loop;
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), end, NABLA_LANES,
                   0, NULL);
  nabla_emit_write_lanes(emitter, totals, loop.induction,
                         nabla_emit_f32(emitter, NABLA_VECTOR, 0));
  nabla_loop_end(emitter, &loop, NULL);
}

/* ---- from totals to y -----------------------------------------------------
 */

static void finish(nabla_emitter *emitter, const block *b, nabla_ssa row,
                   nabla_ssa column, nabla_shape shape) {
  nabla_array_ref totals =
      nabla_floats_at(part(emitter, totals_at(emitter->spec)));
  nabla_array_ref y = {emitter->y, emitter->spec->y_type};
  nabla_ssa at = nabla_emit_multiply(emitter, row, COLUMNS);
  at = nabla_emit_add(emitter, at, column);
  nabla_ssa value =
      shape == NABLA_SCALAR
          ? nabla_emit_read(emitter, totals, at)
          : nabla_emit_read_lanes(emitter, totals, at, NABLA_LANES);
  row = nabla_emit_add(emitter, b->row, row);
  column = nabla_emit_add(emitter, b->column, column);
  unsigned width = shape == NABLA_SCALAR ? 1 : NABLA_LANES;
  value = nabla_emit_epilogue(emitter, shape, value, row, column, width);
  nabla_ssa to = nabla_emit_product(emitter, row, emitter->n);
  to = nabla_emit_add(emitter, to, column);
  if (shape == NABLA_SCALAR)
    nabla_emit_write(emitter, y, to, value);
  else
    nabla_emit_write_lanes(emitter, y, to, value);
}

static void write_block(nabla_emitter *emitter, const block *b) {
  nabla_loop rows, columns;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa whole = nabla_emit_divide(emitter, b->columns, NABLA_LANES);
  whole = nabla_emit_multiply(emitter, whole, NABLA_LANES);
  nabla_loop_begin(emitter, &rows, zero, b->rows, 1, 0, NULL);
  nabla_loop_begin(emitter, &columns, zero, whole, NABLA_LANES, 0, NULL);
  finish(emitter, b, rows.induction, columns.induction, NABLA_VECTOR);
  nabla_loop_end(emitter, &columns, NULL);
  nabla_loop_begin(emitter, &columns, whole, b->columns, 1, 0, NULL);
  finish(emitter, b, rows.induction, columns.induction, NABLA_SCALAR);
  nabla_loop_end(emitter, &columns, NULL);
  nabla_loop_end(emitter, &rows, NULL);
}

/* ---- all of it ------------------------------------------------------------
 */

static void run(nabla_emitter *emitter) {
  nabla_loop columns, rows, panels;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  block b;
  nabla_loop_begin(emitter, &columns, emitter->begin, emitter->end, COLUMNS, 0,
                   NULL);
  b.column = columns.induction;
  b.columns = nabla_emit_left(emitter, emitter->end, b.column, COLUMNS);
  nabla_loop_begin(emitter, &rows, zero, emitter->m, ROWS, 0, NULL);
  b.row = rows.induction;
  b.rows = nabla_emit_left(emitter, emitter->m, b.row, ROWS);
  clear_totals(emitter, &b);
  nabla_loop_begin(emitter, &panels, zero, emitter->k, PANEL, 0, NULL);
  nabla_ssa count =
      nabla_emit_left(emitter, emitter->k, panels.induction, PANEL);
  multiply_panels(emitter, &b, panels.induction, count);
  nabla_loop_end(emitter, &panels, NULL);
  write_block(emitter, &b);
  nabla_loop_end(emitter, &rows, NULL);
  nabla_loop_end(emitter, &columns, NULL);
}

static int applies(const nabla_fused_spec *spec) {
  int is_row = nabla_spec_is_row(spec);
  return (is_row || (spec->n && spec->n % NABLA_LANES == 0)) &&
         (spec->m_min > 1 || spec->any_size) &&
         spec->numerics == NABLA_NUMERICS_F32 &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
}

/* Decoding takes some .15 ns for an element, .35 in blocks, which are turned
 * after it; a product .01, with AVX2 .02. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  unsigned height = shape_of(spec).rows;
  double decode = spec->ggml ? 350
                  : spec->format.encoding && spec->format.encoding->bits == 8
                      ? 225
                      : 150;
  double product = NABLA_HAS(spec->features, AVX512F) ? 10 : 20;
  return decode + product * (double)((m + height - 1) / height * height);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  out->grain = GRAIN;
  if (is_widened(spec)) out->workspace = (nabla_kernel_tiles){1, 16, 64};
}

static uint64_t chain(const nabla_fused_spec *spec) {
  uint64_t panel = PANEL;
  return (spec->k < panel ? spec->k : panel) + (spec->k + panel - 1) / panel;
}

const nabla_body nabla_body_tiles = {.name = "tiles",
                                     .takes_blocks = 1,
                                     .applies = applies,
                                     .cost = cost,
                                     .run = run,
                                     .prepare = prepare,
                                     .has_prepare = is_widened,
                                     .describe = describe,
                                     .chain = chain,
                                     .scratch = scratch};
