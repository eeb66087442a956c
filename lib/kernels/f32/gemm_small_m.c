/* GEMM for small M, lanes along k: y[m][n] = sum over k of x[m][k] * w[n][k].
 * Panels of GROUP rows of w are dequantized once into the scratch and
 * multiplied with tiles of x, whose vectors are memory operands; nothing is
 * transposed. Accumulators of a panel begin at zero and are added to totals in
 * the scratch, a vector for each element of y, whose lanes are summed at the
 * end.
 *
 * The scratch: a panel, and totals of ROWS x COLUMNS vectors. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/f32/pack_a_small_m.h"
#include "lib/kernels/f32/pack_b_small_m.h"
#include "lib/kernels/tile_util.h"

#define GROUP   6u  /* rows of w in a panel */
#define COLUMNS 48u /* weight rows processed per pass over x */
#define ROWS    32u /* of x, at most */
#define GRAIN   16u

/* Elements of the totals between rows of x: a line more than the columns have,
 * so that rows are not a multiple of 4096 bytes apart. */
#define TOTALS_ROW ((COLUMNS + 1) * NABLA_LANES)

/* The tile of the micro-kernel: rows of x (MR) and of w (NR). */
typedef struct tile_shape {
  unsigned rows, columns;
} tile_shape;

/* AVX-512 has 32 registers, AVX2 16 of half the size. */
static tile_shape shape_of(const nabla_fused_spec *spec) {
  if (!NABLA_HAS(spec->features, AVX512F)) return (tile_shape){2, 3};
  return nabla_spec_last_m(spec) <= 4 ? (tile_shape){4, 6} : (tile_shape){8, 3};
}

/* Rows of x whose totals are in the scratch. */
static uint64_t rows_of(const nabla_fused_spec *spec) {
  uint64_t height = shape_of(spec).rows, last = nabla_spec_last_m(spec);
  return (last + height - 1) / height * height;
}

static uint64_t totals_at(void) {
  return (uint64_t)GROUP * NABLA_SMALL_M_DEPTH * 4;
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  return totals_at() + rows_of(spec) * TOTALS_ROW * 4;
}

static nabla_array_ref totals_of(nabla_emitter *e) {
  return nabla_floats_at(k_address(e, e->scratch, k_i64(e, totals_at())));
}

static void pack_a(nabla_emitter *e) {
  nabla_emit_pack_a_small_m(e, shape_of(e->spec).rows);
}

/* ---- products ---------------------------------------------------------------
 */

/* Columns that are computed together, and the current range of k. */
typedef struct block {
  nabla_ssa column, columns;
  nabla_ssa k, count;
} block;

/* A tile of x and rows of the panel. */
typedef struct tile {
  nabla_ssa x;       /* address of its elements at the panel's k */
  nabla_ssa w;       /* address in the panel */
  nabla_ssa total;   /* number of the first total's first lane */
  nabla_ssa vectors; /* to multiply */
} tile;

static void add_to_totals(nabla_emitter *e, const tile *t, tile_shape s,
                          const nabla_ssa *sums) {
  nabla_array_ref totals = totals_of(e);
  for (unsigned i = 0; i < s.rows * s.columns; i++) {
    uint64_t place = (uint64_t)(i / s.columns) * TOTALS_ROW +
                     (uint64_t)(i % s.columns) * NABLA_LANES;
    nabla_ssa at = k_add_constant(e, t->total, place);
    nabla_ssa total = k_read_lanes(e, totals, at, NABLA_LANES);
    k_write_lanes(e, totals, at,
                  k_binary(e, NABLA_VECTOR, "addf", total, sums[i]));
  }
}

/* `s.rows` are those that the tile's first `s.rows` have; a tile of the
 * workspace may have more. */
static void multiply(nabla_emitter *e, const tile *t, tile_shape s) {
  unsigned height = shape_of(e->spec).rows, sums = s.rows * s.columns;
  nabla_ssa none[NABLA_LOOP_MAX], next[NABLA_LOOP_MAX], w[GROUP];
  nabla_ssa zero = k_f32(e, NABLA_VECTOR, 0);
  nabla_loop loop;
  for (unsigned i = 0; i < sums; i++) none[i] = zero;
  k_loop_begin(e, &loop, k_i64(e, 0), t->vectors, 1, sums, none);
  nabla_ssa at = k_multiply(e, loop.induction, NABLA_LANES);
  nabla_ssa x_at = k_multiply(e, at, height);
  for (unsigned c = 0; c < s.columns; c++)
    w[c] = k_read_lanes(
        e, nabla_floats_at(t->w),
        k_add_constant(e, at, (uint64_t)c * NABLA_SMALL_M_DEPTH), NABLA_LANES);
  for (unsigned r = 0; r < s.rows; r++) {
    nabla_ssa x = k_read_lanes(
        e, nabla_floats_at(t->x),
        k_add_constant(e, x_at, (uint64_t)r * NABLA_LANES), NABLA_LANES);
    for (unsigned c = 0; c < s.columns; c++) {
      unsigned i = r * s.columns + c;
      next[i] = k_fma(e, NABLA_VECTOR, x, w[c], loop.carried[i]);
    }
  }
  k_loop_end(e, &loop, next);
  add_to_totals(e, t, s, loop.results);
}

static nabla_small_m_panel panel_of(nabla_emitter *e, const block *b,
                                    unsigned rows, nabla_ssa column,
                                    nabla_ssa k) {
  nabla_ssa one = k_i64(e, 1);
  return (nabla_small_m_panel){
      .first = k_add(e, b->column, column),
      .rows = k_i64(e, rows),
      .last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->end, one),
      .k = k,
      .count = b->count,
      .out = e->scratch};
}

/* Prefetches `count` rows of the next panel: those GROUP rows below `row`, or
 * the same rows from the top at the next k. */
static void prefetch_rows(nabla_emitter *e, const block *b, nabla_ssa row,
                          unsigned count) {
  nabla_ssa below = k_add_constant(e, row, GROUP);
  nabla_ssa inside =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", below, b->columns);
  nabla_ssa top = k_op(e, "arith.subi %%v%u, %%v%u : i64", below, b->columns);
  nabla_ssa next = k_add_constant(e, b->k, NABLA_SMALL_M_DEPTH);
  nabla_small_m_panel panel =
      panel_of(e, b, count, k_choice(e, inside, below, top),
               k_choice(e, inside, b->k, next));
  nabla_emit_pack_b_small_m_prefetch(e, &panel);
}

/* The panel's rows times the rows of x from `row` on. */
static void multiply_rows(nabla_emitter *e, const block *b, nabla_ssa row,
                          nabla_ssa group, tile_shape s) {
  nabla_loop columns;
  unsigned height = shape_of(e->spec).rows;
  nabla_ssa x = k_divide(e, row, height);
  x = k_product(e, x, nabla_emit_pack_a_small_m_size(e, height));
  x = k_add(e, x, k_multiply(e, b->k, height));
  nabla_ssa vectors =
      k_divide(e, nabla_emit_round_up(e, b->count, NABLA_LANES), NABLA_LANES);
  nabla_ssa first = k_multiply(e, row, TOTALS_ROW);
  k_loop_begin(e, &columns, k_i64(e, 0), k_i64(e, GROUP), s.columns, 0, NULL);
  nabla_ssa column = k_add(e, group, columns.induction);
  prefetch_rows(e, b, column, s.columns);
  column = k_multiply(e, column, NABLA_LANES);
  nabla_ssa w = k_multiply(e, columns.induction, NABLA_SMALL_M_DEPTH * 4);
  tile t = {.x = k_address(e, e->workspace, k_multiply(e, x, 4)),
            .w = k_address(e, e->scratch, w),
            .total = k_add(e, first, column),
            .vectors = vectors};
  multiply(e, &t, s);
  k_loop_end(e, &columns, NULL);
}

/* More than half of a tile's rows: those of the family's tile in between, if it
 * has one, or all. */
static void multiply_most(nabla_emitter *e, const block *b, nabla_ssa row,
                          nabla_ssa group, tile_shape s) {
  const unsigned most = k_family(e)->tail_rows;
  if (most <= s.rows / 2 || most >= s.rows) {
    multiply_rows(e, b, row, group, s);
    return;
  }
  nabla_ssa left = nabla_emit_rows_left(e, row, s.rows);
  nabla_ssa few =
      k_op(e, "arith.cmpi ule, %%v%u, %%v%u : i64", left, k_i64(e, most));
  k_line(e, "scf.if %%v%u {", few);
  multiply_rows(e, b, row, group, (tile_shape){most, s.columns});
  k_line(e, "} else {");
  multiply_rows(e, b, row, group, s);
  k_line(e, "}");
}

/* The tail of M: half as many rows of x, and more of w. */
static void multiply_left(nabla_emitter *e, const block *b, nabla_ssa row,
                          nabla_ssa group, tile_shape s) {
  tile_shape half = {s.rows / 2, s.columns * 2 < GROUP ? s.columns * 2 : GROUP};
  if (s.rows < 4) {
    multiply_rows(e, b, row, group, s);
    return;
  }
  nabla_ssa left = nabla_emit_rows_left(e, row, s.rows);
  nabla_ssa few =
      k_op(e, "arith.cmpi ule, %%v%u, %%v%u : i64", left, k_i64(e, half.rows));
  k_line(e, "scf.if %%v%u {", few);
  multiply_left(e, b, row, group, half);
  k_line(e, "} else {");
  multiply_most(e, b, row, group, s);
  k_line(e, "}");
}

/* Adds the products at b->k to the totals. */
static void multiply_panels(nabla_emitter *e, const block *b) {
  nabla_ssa zero = k_i64(e, 0);
  nabla_loop groups, rows;
  k_loop_begin(e, &groups, zero, b->columns, GROUP, 0, NULL);
  nabla_small_m_panel panel = panel_of(e, b, GROUP, groups.induction, b->k);
  nabla_emit_pack_b_small_m(e, &panel);
  k_loop_begin(e, &rows, zero, e->m, shape_of(e->spec).rows, 0, NULL);
  multiply_left(e, b, rows.induction, groups.induction, shape_of(e->spec));
  k_loop_end(e, &rows, NULL);
  k_loop_end(e, &groups, NULL);
}

/* ---- from totals to y -------------------------------------------------------
 */

static void clear_totals(nabla_emitter *e) {
  nabla_ssa rows = nabla_emit_round_up(e, e->m, shape_of(e->spec).rows);
  k_clear(e, totals_of(e), k_multiply(e, rows, TOTALS_ROW));
}

/* Sums the lanes of a row's totals; the sums are at its beginning then, over
 * totals that are summed. */
static void sum_lanes(nabla_emitter *e, const block *b, nabla_ssa row) {
  nabla_array_ref totals = totals_of(e);
  nabla_ssa from = k_multiply(e, row, TOTALS_ROW);
  nabla_loop columns;
  k_loop_begin(e, &columns, k_i64(e, 0), b->columns, NABLA_LANES, 0, NULL);
  nabla_ssa at = k_multiply(e, columns.induction, NABLA_LANES);
  at = k_add(e, from, at);
  k_write_lanes(e, totals, k_add(e, from, columns.induction),
                k_lane_sums(e, totals, at));
  k_loop_end(e, &columns, NULL);
}

static void write_block(nabla_emitter *e, const block *b) {
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), e->m, 1, 0, NULL);
  const nabla_ssa row = rows.induction;
  sum_lanes(e, b, row);
  nabla_ssa at = k_multiply(e, row, (uint64_t)TOTALS_ROW * 4);
  nabla_emit_finish_row(e, k_address(e, totals_of(e).base, at), row, b->column,
                        b->columns);
  k_loop_end(e, &rows, NULL);
}

/* ---- all of it --------------------------------------------------------------
 */

static void run(nabla_emitter *e) {
  nabla_loop columns, panels;
  block b;
  k_loop_begin(e, &columns, e->begin, e->end, COLUMNS, 0, NULL);
  b.column = columns.induction;
  b.columns = nabla_emit_left(e, e->end, b.column, COLUMNS);
  clear_totals(e);
  k_loop_begin(e, &panels, k_i64(e, 0), e->k, NABLA_SMALL_M_DEPTH, 0, NULL);
  b.k = panels.induction;
  b.count = nabla_emit_left(e, e->k, b.k, NABLA_SMALL_M_DEPTH);
  multiply_panels(e, &b);
  k_loop_end(e, &panels, NULL);
  write_block(e, &b);
  k_loop_end(e, &columns, NULL);
}

static int applies(const nabla_fused_spec *spec) {
  return (NABLA_HAS(spec->features, AVX512F) ||
          NABLA_HAS(spec->features, AVX2)) &&
         nabla_small_m_applies(spec) && spec->m_min > 1 &&
         nabla_spec_last_m(spec) <= ROWS &&
         spec->numerics == NABLA_NUMERICS_F32 &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
}

/* Dequantization with its cache misses takes some 30 ps for an element, twice
 * that for GGUF blocks, four times for 8-bit floats; 4 rows of x take 60. With
 * AVX2, 130 or 150, and 62 for 2 rows. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  double blocks = spec->w.ggml ? 2 : 1;
  if (!NABLA_HAS(spec->features, AVX512F))
    return 110 + 20 * blocks + 31.0 * (double)((m + 1) / 2 * 2);
  if (nabla_spec_is_float8(spec->w.format.encoding)) blocks = 4;
  return 30 * blocks + 15.0 * (double)((m + 3) / 4 * 4);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  unsigned height = shape_of(spec).rows;
  out->grain = GRAIN;
  out->workspace =
      (nabla_kernel_tiles){height, NABLA_LANES, height * NABLA_LANES * 4};
}

/* The chain: elements of a panel, panels, lanes. */
static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  uint64_t k = spec->k < NABLA_SMALL_M_DEPTH ? spec->k : NABLA_SMALL_M_DEPTH;
  return (k + NABLA_LANES - 1) / NABLA_LANES +
         (spec->k + NABLA_SMALL_M_DEPTH - 1) / NABLA_SMALL_M_DEPTH + 4;
}

const nabla_kernel_variant nabla_variant_gemm_small_m = {
    .name = "gemm_small_m",
    .takes_blocks = 1,
    .takes_strided_x = 1,
    .takes_columns_of_x = 1,
    .applies = applies,
    .cost = cost,
    .run = run,
    .pack_a = pack_a,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
