/* GEMM for many rows of x, with FMA instructions. A panel is a range of k of
 * some rows of w, dequantized to f32 into the scratch, with rows of w in vector
 * lanes. The micro-kernel multiplies a panel with tiles of some rows of x,
 * which `pack_a` has rearranged; it broadcasts each element of x. Its sums
 * start at zero for each panel and are then added to totals in the scratch. All
 * columns that have totals there finish one range of k before the next begins,
 * so that x stays in the second-level cache.
 *
 * The scratch: a panel, totals of ROWS x columns, and the scratch of
 * nabla_emit_pack_b. */

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/f32/pack_a.h"
#include "lib/kernels/f32/pack_b.h"
#include "lib/kernels/f32/prepack.h"
#include "lib/kernels/tile_util.h"

#define PANEL      256u /* elements of k */
#define ROWS       256u /* rows of x multiplied with a panel */
#define WIDE_FROM  768u
#define AHEAD_MOST 2u /* cache lines prefetched per innermost iteration */
#define WIDEST     3u /* vectors of a panel */
#define UNROLL     2u /* elements of k per innermost iteration */

/* The tile of the micro-kernel: `rows` of x (MR) times `vectors` of columns
 * (NR). */
typedef struct tile_shape {
  unsigned rows, vectors;
} tile_shape;

/* AVX-512 has 32 registers, AVX2 has 16 of half the size. Tiles three vectors
 * wide need fewer loads for each product than two, but waste more lanes where N
 * is small. */
static tile_shape shape_of(const nabla_fused_spec *spec) {
  if (!NABLA_HAS(spec->features, AVX512F)) return (tile_shape){4, 1};
  int is_small = spec->n < WIDE_FROM && spec->n % (3 * NABLA_LANES) != 0;
  return (tile_shape){8, is_small && !spec->any_size ? 2 : 3};
}

static unsigned width_of(const nabla_fused_spec *spec) {
  return shape_of(spec).vectors * NABLA_LANES;
}

static nabla_row_tiles row_tiles(const nabla_fused_spec *spec) {
  return (nabla_row_tiles){shape_of(spec).rows, PANEL};
}

static void pack_a(nabla_emitter *e) {
  nabla_emit_pack_a(e, row_tiles(e->spec));
}

/* Columns of y computed in one pass over x: as many whole panels of weight rows
 * as there are totals for in the scratch. */
static unsigned columns_of(const nabla_fused_spec *spec) {
  unsigned most = nabla_pack_b_scratch(spec) > NABLA_PACK_B_SCRATCH ? 160 : 192;
  return most / width_of(spec) * width_of(spec);
}

static uint64_t totals_at(const nabla_fused_spec *spec) {
  return (uint64_t)PANEL * width_of(spec) * 4;
}

static uint64_t work_at(const nabla_fused_spec *spec) {
  return totals_at(spec) + (uint64_t)ROWS * columns_of(spec) * 4;
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  return work_at(spec) + nabla_pack_b_scratch(spec);
}

static nabla_ssa part(nabla_emitter *e, uint64_t bytes) {
  return k_address(e, e->scratch, k_i64(e, bytes));
}

/* ---- tiles ----------------------------------------------------------------
 */

/* Operands of the micro-kernel, for `count` elements of k. Elements k and k + 1
 * of the same columns are `step` elements apart. */
typedef struct tile {
  nabla_ssa x;         /* address of the packed rows of x      */
  nabla_ssa w[WIDEST]; /* addresses of NABLA_LANES columns each */
  unsigned step;
  nabla_ssa total; /* index of the first total */
  nabla_ssa count;
  const nabla_panel *next; /* the panel after this one, or NULL     */
  nabla_ssa line;          /* its first line to prefetch */
} tile;

/* Cache lines of the next panel that each iteration prefetches: enough to fetch
 * the whole panel while the tiles of spec->m_min rows are multiplied, but at
 * most AHEAD_MOST. */
static uint64_t lines_ahead(const nabla_fused_spec *spec) {
  unsigned rows = shape_of(spec).rows;
  uint64_t tiles = (spec->m_min + rows - 1) / rows;
  uint64_t turns = (tiles ? tiles : 1) * (PANEL / UNROLL);
  uint64_t lines = nabla_panel_cachelines(spec, width_of(spec), PANEL);
  uint64_t each = (lines + turns - 1) / turns;
  return each < AHEAD_MOST ? each : AHEAD_MOST;
}

/* Prefetches lines of the next panel in the iteration that begins with element
 * k. */
static void ask_ahead(nabla_emitter *e, const tile *t, nabla_ssa k) {
  const nabla_fused_spec *spec = e->spec;
  uint64_t each = lines_ahead(spec);
  uint64_t last = nabla_panel_cachelines(spec, width_of(spec), PANEL) - 1;
  nabla_ssa line = k_divide(e, k, UNROLL);
  line = k_multiply(e, line, each);
  line = k_add(e, t->line, line);
  for (uint64_t i = 0; i < each; i++)
    nabla_emit_pack_b_prefetch(
        e, t->next, PANEL,
        k_minimum(e, k_add_constant(e, line, i), k_i64(e, last)));
}

/* Adds the products of element `k` of the panel to `sums`. */
static void multiply_one(nabla_emitter *e, const tile *t, nabla_ssa k,
                         nabla_ssa *sums) {
  tile_shape s = shape_of(e->spec);
  nabla_ssa w[WIDEST];
  nabla_array_ref x = nabla_floats_at(t->x);
  nabla_ssa at = k_multiply(e, k, t->step);
  nabla_ssa first = k_multiply(e, k, s.rows);
  for (unsigned v = 0; v < s.vectors; v++)
    w[v] = k_read_lanes(e, nabla_floats_at(t->w[v]), at, NABLA_LANES);
  for (unsigned r = 0; r < s.rows; r++) {
    nabla_ssa one = k_read(e, x, k_add_constant(e, first, r));
    one = k_broadcast(e, "f32", one);
    for (unsigned v = 0; v < s.vectors; v++) {
      nabla_ssa *sum = &sums[r * s.vectors + v];
      *sum = k_fma(e, NABLA_VECTOR, one, w[v], *sum);
    }
  }
}

/* Does the same for elements [from, to), `step` in each iteration. */
static void multiply_range(nabla_emitter *e, const tile *t, nabla_ssa from,
                           nabla_ssa to, unsigned step, nabla_ssa *sums) {
  tile_shape s = shape_of(e->spec);
  unsigned count = s.rows * s.vectors;
  nabla_ssa next[NABLA_LOOP_MAX];
  nabla_loop loop;
  k_loop_begin(e, &loop, from, to, step, count, sums);
  for (unsigned i = 0; i < count; i++) next[i] = loop.carried[i];
  if (t->next && step == UNROLL) ask_ahead(e, t, loop.induction);
  for (unsigned i = 0; i < step; i++)
    multiply_one(e, t, k_add_constant(e, loop.induction, i), next);
  k_loop_end(e, &loop, next);
  for (unsigned i = 0; i < count; i++) sums[i] = loop.results[i];
}

static void multiply(nabla_emitter *e, const tile *t) {
  const nabla_fused_spec *spec = e->spec;
  tile_shape s = shape_of(spec);
  unsigned count = s.rows * s.vectors;
  nabla_ssa sums[NABLA_LOOP_MAX];
  nabla_array_ref totals = nabla_floats_at(part(e, totals_at(spec)));
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  for (unsigned i = 0; i < count; i++) sums[i] = none;
  nabla_ssa whole = k_divide(e, t->count, UNROLL);
  whole = k_multiply(e, whole, UNROLL);
  multiply_range(e, t, k_i64(e, 0), whole, UNROLL, sums);
  if (spec->open & NABLA_OPEN_K ||
      (spec->any_size ? spec->any_size : spec->k) % UNROLL)
    multiply_range(e, t, whole, t->count, 1, sums);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa index =
        k_add_constant(e, t->total,
                       (uint64_t)(i / s.vectors) * columns_of(spec) +
                           i % s.vectors * NABLA_LANES);
    nabla_ssa total = k_read_lanes(e, totals, index, NABLA_LANES);
    total = k_binary(e, NABLA_VECTOR, "addf", total, sums[i]);
    k_write_lanes(e, totals, index, total);
  }
}

/* The block of y that has totals: `rows` rows from `row`, `columns` columns
 * from `column`. */
typedef struct block {
  nabla_ssa row, rows, column, columns;
} block;

/* Decodes the panel that begins at k and at `column`, counted in the block. */
static void decode_panel(nabla_emitter *e, const block *b, nabla_ssa column,
                         nabla_ssa k, nabla_ssa count) {
  nabla_panel panel = {.first = k_add(e, b->column, column),
                       .width = width_of(e->spec),
                       .k = k,
                       .count = count,
                       .aligned = PANEL,
                       .out = e->scratch,
                       .scratch = part(e, work_at(e->spec))};
  nabla_emit_pack_b(e, &panel);
}

/* Finds the addresses of a panel's columns: in the prepacked weight if that is
 * multiplied in place, else in the scratch. */
static void find_panel(nabla_emitter *e, const block *b, nabla_ssa column,
                       nabla_ssa k, tile *out) {
  const nabla_fused_spec *spec = e->spec;
  int in_place = nabla_packed_is_panel(spec);
  out->step = in_place ? NABLA_LANES : width_of(spec);
  column = k_add(e, b->column, column);
  for (unsigned v = 0; v < shape_of(spec).vectors; v++) {
    uint64_t lanes = (uint64_t)v * NABLA_LANES;
    out->w[v] =
        in_place ? nabla_emit_packed_at(e, k_add_constant(e, column, lanes), k)
                 : part(e, lanes * 4);
  }
}

/* The panel that is multiplied after the one at `column` and k. */
static nabla_panel panel_after(nabla_emitter *e, const block *b,
                               nabla_ssa column, nabla_ssa k) {
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa next = k_add_constant(e, column, width_of(e->spec));
  nabla_ssa k_next = k_add_constant(e, k, PANEL);
  nabla_ssa is_last =
      k_op(e, "arith.cmpi uge, %%v%u, %%v%u : i64", next, b->columns);
  nabla_ssa ends = k_op(e, "arith.cmpi uge, %%v%u, %%v%u : i64", k_next, e->k);
  /* after the last panel: the next range of k, or the next block */
  nabla_ssa start = k_choice(e, ends, b->columns, zero);
  k_next = k_choice(e, ends, zero, k_next);
  next = k_choice(e, is_last, start, next);
  return (nabla_panel){.first = k_add(e, b->column, next),
                       .width = width_of(e->spec),
                       .k = k_choice(e, is_last, k_next, k)};
}

/* Adds the products of all panels at k to the totals. Each panel is multiplied
 * right after it is decoded, while the first-level cache holds it. */
static void multiply_panels(nabla_emitter *e, const block *b, nabla_ssa k,
                            nabla_ssa count) {
  unsigned rows = shape_of(e->spec).rows, width = width_of(e->spec);
  nabla_ssa zero = k_i64(e, 0);
  nabla_loop parts, tiles;
  k_loop_begin(e, &parts, zero, b->columns, width, 0, NULL);
  if (!nabla_packed_is_panel(e->spec))
    decode_panel(e, b, parts.induction, k, count);
  tile t = {.count = count};
  find_panel(e, b, parts.induction, k, &t);
  nabla_panel next = panel_after(e, b, parts.induction, k);
  k_loop_begin(e, &tiles, zero, b->rows, rows, 0, NULL);
  nabla_ssa total = k_multiply(e, tiles.induction, columns_of(e->spec));
  nabla_ssa row = k_add(e, b->row, tiles.induction);
  nabla_ssa line = k_multiply(e, k_divide(e, tiles.induction, rows),
                              PANEL / UNROLL * lines_ahead(e->spec));
  t.x = nabla_emit_packed_a(e, row_tiles(e->spec), row, k, count);
  t.total = k_add(e, total, parts.induction);
  t.line = line;
  nabla_ssa lines = k_i64(e, nabla_panel_cachelines(e->spec, width, PANEL));
  nabla_ssa asks = k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", line, lines);
  k_line(e, "scf.if %%v%u {", asks);
  t.next = &next;
  multiply(e, &t);
  k_line(e, "} else {");
  t.next = NULL;
  multiply(e, &t);
  k_line(e, "}");
  k_loop_end(e, &tiles, NULL);
  k_loop_end(e, &parts, NULL);
}

static void clear_totals(nabla_emitter *e, const block *b) {
  nabla_array_ref totals = nabla_floats_at(part(e, totals_at(e->spec)));
  unsigned height = shape_of(e->spec).rows;
  nabla_ssa rows = nabla_emit_round_up(e, b->rows, height);
  k_clear(e, totals, k_multiply(e, rows, columns_of(e->spec)));
}

/* ---- from totals to y -----------------------------------------------------
 */

static void write_block(nabla_emitter *e, const block *b) {
  const nabla_fused_spec *spec = e->spec;
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), b->rows, 1, 0, NULL);
  nabla_ssa at = k_multiply(e, rows.induction, (uint64_t)columns_of(spec) * 4);
  nabla_emit_finish_row(e, k_address(e, part(e, totals_at(spec)), at),
                        k_add(e, b->row, rows.induction), b->column,
                        b->columns);
  k_loop_end(e, &rows, NULL);
}

/* ---- the kernel -----------------------------------------------------------
 */

static void run(nabla_emitter *e) {
  nabla_loop columns, rows, panels;
  nabla_ssa zero = k_i64(e, 0);
  block b;
  k_loop_begin(e, &columns, e->begin, e->end, columns_of(e->spec), 0, NULL);
  b.column = columns.induction;
  b.columns = nabla_emit_left(e, e->end, b.column, columns_of(e->spec));
  k_loop_begin(e, &rows, zero, e->m, ROWS, 0, NULL);
  b.row = rows.induction;
  b.rows = nabla_emit_left(e, e->m, b.row, ROWS);
  clear_totals(e, &b);
  k_loop_begin(e, &panels, zero, e->k, PANEL, 0, NULL);
  nabla_ssa count = nabla_emit_left(e, e->k, panels.induction, PANEL);
  multiply_panels(e, &b, panels.induction, count);
  k_loop_end(e, &panels, NULL);
  write_block(e, &b);
  k_loop_end(e, &rows, NULL);
  k_loop_end(e, &columns, NULL);
}

static int applies(const nabla_fused_spec *spec) {
  int is_row = nabla_spec_is_row(spec);
  if (spec->open)
    return spec->numerics == NABLA_NUMERICS_F32 &&
           spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
  return (is_row || (spec->n && (spec->n % NABLA_LANES == 0 ||
                                 nabla_spec_is_dense(spec)))) &&
         (spec->m_min > 1 || nabla_packed_applies(spec)) &&
         spec->numerics == NABLA_NUMERICS_F32 &&
         (spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE ||
          nabla_packed_applies(spec));
}

/* Estimated picoseconds for one element of w: decoding it takes about 90 (codes
 * of 8 bits 130, GGUF blocks 150, as they are transposed afterwards, prepacked
 * 50), a product with one row of x 12; without AVX-512 all take 2.4 times. For
 * one row panels are not worth it. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  unsigned height = shape_of(spec).rows;
  int is_wide = spec->w.format.encoding && spec->w.format.encoding->bits == 8;
  double decode = spec->w.ggml ? 150 : is_wide ? 130 : 90;
  if (nabla_packed_applies(spec)) decode = 50;
  if (spec->open && m <= 1) decode += 300;
  double slower = NABLA_HAS(spec->features, AVX512F) ? 1 : 2.4;
  return slower *
         (decode + 12.0 * (double)((m + height - 1) / height * height));
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  out->grain = width_of(spec);
  out->workspace = nabla_row_tiles_size(row_tiles(spec));
  if (!nabla_packed_applies(spec)) return;
  out->packed = nabla_packed_tiles(spec);
  out->form = NABLA_PACKED_VALUES;
}

static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  uint64_t panel = PANEL;
  return (spec->k < panel ? spec->k : panel) + (spec->k + panel - 1) / panel;
}

const nabla_kernel_variant nabla_variant_gemm_fma = {
    .name = "gemm_fma",
    .takes_blocks = 1,
    .takes_strided_x = 1,
    .takes_open = NABLA_OPEN_N | NABLA_OPEN_K | NABLA_OPEN_STRIDE,
    .takes_columns_of_x = 1,
    .applies = applies,
    .cost = cost,
    .run = run,
    .pack_a = pack_a,
    .prepack = nabla_emit_prepack,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
