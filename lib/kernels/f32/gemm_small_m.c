/* y[m][n] = sum over k of x[m][k] * w[n][k] for some rows of x, lanes along k:
 * strips of GROUP rows of w are decoded once into the scratch and multiplied
 * with tiles of x, whose vectors are operands in memory. So nothing is
 * transposed, and nothing is decoded again. Sums of a strip begin at zero and
 * are added to totals in the scratch, a vector for each element of y, whose
 * lanes are summed at the end.
 *
 * The scratch: a strip, and totals of ROWS x COLUMNS vectors. */
#include "lib/kernels/builder/transpose.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/f32/pack_a_small_m.h"
#include "lib/kernels/f32/pack_b_small_m.h"
#include "lib/kernels/tile_util.h"

#define GROUP   6u  /* rows of w that are decoded together */
#define COLUMNS 48u /* rows of w that share a look at x */
#define ROWS    32u /* of x, at most */
#define GRAIN   16u

/* Elements of the totals between rows of x: a line more than the columns have,
 * so that rows are not a multiple of 4096 bytes apart. */
#define TOTALS_ROW ((COLUMNS + 1) * NABLA_LANES)

/* What is multiplied at once: rows of x and of w. */
typedef struct tile_shape {
  unsigned rows, columns;
} tile_shape;

/* AVX-512 has 32 registers, AVX2 16 of half the size. */
static tile_shape shape_of(const nabla_fused_spec *spec) {
  if (!NABLA_HAS(spec->features, AVX512F)) return (tile_shape){2, 3};
  return nabla_spec_last_m(spec) <= 4 ? (tile_shape){4, 6} : (tile_shape){8, 3};
}

/* Rows of x whose totals wait. */
static uint64_t rows_of(const nabla_fused_spec *spec) {
  uint64_t height = shape_of(spec).rows, last = nabla_spec_last_m(spec);
  return (last + height - 1) / height * height;
}

static uint64_t totals_at(void) { return (uint64_t)GROUP * NABLA_STRIP * 4; }

static uint64_t scratch(const nabla_fused_spec *spec) {
  return totals_at() + rows_of(spec) * TOTALS_ROW * 4;
}

static nabla_array_ref totals_of(nabla_emitter *emitter) {
  return nabla_floats_at(nabla_emit_address(
      emitter, emitter->scratch, nabla_emit_i64(emitter, totals_at())));
}

static void prepare(nabla_emitter *emitter) {
  nabla_emit_strip_x(emitter, shape_of(emitter->spec).rows);
}

/* ---- products ---------------------------------------------------------------
 */

/* Columns that are computed together, and where in k. */
typedef struct block {
  nabla_ssa column, columns;
  nabla_ssa k, count;
} block;

/* A tile of x and rows of the strip. */
typedef struct tile {
  nabla_ssa x;       /* address of its elements at the strip's k */
  nabla_ssa w;       /* address in the strip */
  nabla_ssa total;   /* number of the first total's first lane */
  nabla_ssa vectors; /* to multiply */
} tile;

static void add_to_totals(nabla_emitter *emitter, const tile *t, tile_shape s,
                          const nabla_ssa *sums) {
  nabla_array_ref totals = totals_of(emitter);
  for (unsigned i = 0; i < s.rows * s.columns; i++) {
    uint64_t place = (uint64_t)(i / s.columns) * TOTALS_ROW +
                     (uint64_t)(i % s.columns) * NABLA_LANES;
    nabla_ssa at = nabla_emit_add_constant(emitter, t->total, place);
    nabla_ssa total = nabla_emit_read_lanes(emitter, totals, at, NABLA_LANES);
    nabla_emit_write_lanes(
        emitter, totals, at,
        nabla_emit_binary(emitter, NABLA_VECTOR, "addf", total, sums[i]));
  }
}

/* `s.rows` are those that the tile's first `s.rows` have; a tile of the
 * workspace may have more. */
static void multiply(nabla_emitter *emitter, const tile *t, tile_shape s) {
  unsigned height = shape_of(emitter->spec).rows, sums = s.rows * s.columns;
  nabla_ssa none[NABLA_LOOP_MAX], next[NABLA_LOOP_MAX], w[GROUP];
  nabla_ssa zero = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  nabla_loop loop;
  for (unsigned i = 0; i < sums; i++) none[i] = zero;
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), t->vectors, 1,
                   sums, none);
  nabla_ssa at = nabla_emit_multiply(emitter, loop.induction, NABLA_LANES);
  nabla_ssa x_at = nabla_emit_multiply(emitter, at, height);
  for (unsigned c = 0; c < s.columns; c++)
    w[c] = nabla_emit_read_lanes(
        emitter, nabla_floats_at(t->w),
        nabla_emit_add_constant(emitter, at, (uint64_t)c * NABLA_STRIP),
        NABLA_LANES);
  for (unsigned r = 0; r < s.rows; r++) {
    nabla_ssa x = nabla_emit_read_lanes(
        emitter, nabla_floats_at(t->x),
        nabla_emit_add_constant(emitter, x_at, (uint64_t)r * NABLA_LANES),
        NABLA_LANES);
    for (unsigned c = 0; c < s.columns; c++) {
      unsigned i = r * s.columns + c;
      next[i] = nabla_emit_fma(emitter, NABLA_VECTOR, x, w[c], loop.carried[i]);
    }
  }
  nabla_loop_end(emitter, &loop, next);
  add_to_totals(emitter, t, s, loop.results);
}

static nabla_strip strip_of(nabla_emitter *emitter, const block *b,
                            unsigned rows, nabla_ssa column, nabla_ssa k) {
  nabla_ssa one = nabla_emit_i64(emitter, 1);
  return (nabla_strip){
      .first = nabla_emit_add(emitter, b->column, column),
      .rows = nabla_emit_i64(emitter, rows),
      .last = nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", emitter->end,
                         one),
      .k = k,
      .count = b->count,
      .out = emitter->scratch};
}

/* Asks for `count` rows of the next group's strip: those that are GROUP rows
 * below `row`, or as far from the top of the next k. */
static void prefetch_rows(nabla_emitter *emitter, const block *b, nabla_ssa row,
                          unsigned count) {
  nabla_ssa below = nabla_emit_add_constant(emitter, row, GROUP);
  nabla_ssa inside = nabla_emit(emitter, "arith.cmpi ult, %%v%u, %%v%u : i64",
                                below, b->columns);
  nabla_ssa top =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", below, b->columns);
  nabla_ssa next = nabla_emit_add_constant(emitter, b->k, NABLA_STRIP);
  nabla_strip strip = strip_of(emitter, b, count,
                               nabla_emit_choice(emitter, inside, below, top),
                               nabla_emit_choice(emitter, inside, b->k, next));
  nabla_emit_prefetch_strip(emitter, &strip);
}

/* The strip's rows times the rows of x from `row` on. */
static void multiply_rows(nabla_emitter *emitter, const block *b, nabla_ssa row,
                          nabla_ssa group, tile_shape s) {
  nabla_loop columns;
  unsigned height = shape_of(emitter->spec).rows;
  nabla_ssa x = nabla_emit_divide(emitter, row, height);
  x = nabla_emit_product(emitter, x, nabla_emit_strip_row(emitter, height));
  x = nabla_emit_add(emitter, x, nabla_emit_multiply(emitter, b->k, height));
  nabla_ssa vectors = nabla_emit_divide(
      emitter, nabla_emit_round_up(emitter, b->count, NABLA_LANES),
      NABLA_LANES);
  nabla_ssa first = nabla_emit_multiply(emitter, row, TOTALS_ROW);
  nabla_loop_begin(emitter, &columns, nabla_emit_i64(emitter, 0),
                   nabla_emit_i64(emitter, GROUP), s.columns, 0, NULL);
  nabla_ssa column = nabla_emit_add(emitter, group, columns.induction);
  prefetch_rows(emitter, b, column, s.columns);
  column = nabla_emit_multiply(emitter, column, NABLA_LANES);
  nabla_ssa w =
      nabla_emit_multiply(emitter, columns.induction, NABLA_STRIP * 4);
  tile t = {.x = nabla_emit_address(emitter, emitter->workspace,
                                    nabla_emit_multiply(emitter, x, 4)),
            .w = nabla_emit_address(emitter, emitter->scratch, w),
            .total = nabla_emit_add(emitter, first, column),
            .vectors = vectors};
  multiply(emitter, &t, s);
  nabla_loop_end(emitter, &columns, NULL);
}

/* Where no more are left, half as many rows of x, and more of w. */
static void multiply_left(nabla_emitter *emitter, const block *b, nabla_ssa row,
                          nabla_ssa group, tile_shape s) {
  tile_shape half = {s.rows / 2, s.columns * 2 < GROUP ? s.columns * 2 : GROUP};
  if (s.rows < 4) {
    multiply_rows(emitter, b, row, group, s);
    return;
  }
  nabla_ssa left = nabla_emit_rows_left(emitter, row, s.rows);
  nabla_ssa few = nabla_emit(emitter, "arith.cmpi ule, %%v%u, %%v%u : i64",
                             left, nabla_emit_i64(emitter, half.rows));
  nabla_emit_line(emitter, "scf.if %%v%u {", few);
  multiply_left(emitter, b, row, group, half);
  nabla_emit_line(emitter, "} else {");
  multiply_rows(emitter, b, row, group, s);
  nabla_emit_line(emitter, "}");
}

/* Adds the products at b->k to the totals. */
static void multiply_strips(nabla_emitter *emitter, const block *b) {
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop groups, rows;
  nabla_loop_begin(emitter, &groups, zero, b->columns, GROUP, 0, NULL);
  nabla_strip strip = strip_of(emitter, b, GROUP, groups.induction, b->k);
  nabla_emit_strip(emitter, &strip);
  nabla_loop_begin(emitter, &rows, zero, emitter->m,
                   shape_of(emitter->spec).rows, 0, NULL);
  multiply_left(emitter, b, rows.induction, groups.induction,
                shape_of(emitter->spec));
  nabla_loop_end(emitter, &rows, NULL);
  nabla_loop_end(emitter, &groups, NULL);
}

/* ---- from totals to y -------------------------------------------------------
 */

static void clear_totals(nabla_emitter *emitter) {
  nabla_ssa rows =
      nabla_emit_round_up(emitter, emitter->m, shape_of(emitter->spec).rows);
  nabla_emit_clear(emitter, totals_of(emitter),
                   nabla_emit_multiply(emitter, rows, TOTALS_ROW));
}

/* Sums the lanes of a row's totals; the sums are at its beginning then, over
 * totals that are summed. */
static void sum_lanes(nabla_emitter *emitter, const block *b, nabla_ssa row) {
  nabla_array_ref totals = totals_of(emitter);
  nabla_ssa from = nabla_emit_multiply(emitter, row, TOTALS_ROW);
  nabla_loop columns;
  nabla_loop_begin(emitter, &columns, nabla_emit_i64(emitter, 0), b->columns,
                   NABLA_LANES, 0, NULL);
  nabla_ssa at = nabla_emit_multiply(emitter, columns.induction, NABLA_LANES);
  at = nabla_emit_add(emitter, from, at);
  nabla_emit_write_lanes(emitter, totals,
                         nabla_emit_add(emitter, from, columns.induction),
                         nabla_emit_lane_sums(emitter, totals, at));
  nabla_loop_end(emitter, &columns, NULL);
}

static void write_block(nabla_emitter *emitter, const block *b) {
  nabla_loop rows;
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0), emitter->m, 1, 0,
                   NULL);
  const nabla_ssa row = rows.induction;
  sum_lanes(emitter, b, row);
  nabla_ssa at = nabla_emit_multiply(emitter, row, (uint64_t)TOTALS_ROW * 4);
  nabla_emit_finish_row(
      emitter, nabla_emit_address(emitter, totals_of(emitter).base, at), row,
      b->column, b->columns);
  nabla_loop_end(emitter, &rows, NULL);
}

/* ---- all of it --------------------------------------------------------------
 */

static void run(nabla_emitter *emitter) {
  nabla_loop columns, strips;
  block b;
  nabla_loop_begin(emitter, &columns, emitter->begin, emitter->end, COLUMNS, 0,
                   NULL);
  b.column = columns.induction;
  b.columns = nabla_emit_left(emitter, emitter->end, b.column, COLUMNS);
  clear_totals(emitter);
  nabla_loop_begin(emitter, &strips, nabla_emit_i64(emitter, 0), emitter->k,
                   NABLA_STRIP, 0, NULL);
  b.k = strips.induction;
  b.count = nabla_emit_left(emitter, emitter->k, b.k, NABLA_STRIP);
  multiply_strips(emitter, &b);
  nabla_loop_end(emitter, &strips, NULL);
  write_block(emitter, &b);
  nabla_loop_end(emitter, &columns, NULL);
}

static int applies(const nabla_fused_spec *spec) {
  return (NABLA_HAS(spec->features, AVX512F) ||
          NABLA_HAS(spec->features, AVX2)) &&
         nabla_strip_applies(spec) && spec->m_min > 1 &&
         nabla_spec_last_m(spec) <= ROWS &&
         spec->numerics == NABLA_NUMERICS_F32 &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
}

/* Decoding and what it waits for take some 30 ps for an element, twice that in
 * blocks, four times for floats of 8 bits; 4 rows of x take 60. With AVX2, 130
 * or 150, and 62 for 2 rows. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  double blocks = spec->ggml ? 2 : 1;
  if (!NABLA_HAS(spec->features, AVX512F))
    return 110 + 20 * blocks + 31.0 * (double)((m + 1) / 2 * 2);
  if (nabla_spec_is_float8(spec->format.encoding)) blocks = 4;
  return 30 * blocks + 15.0 * (double)((m + 3) / 4 * 4);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  unsigned height = shape_of(spec).rows;
  out->grain = GRAIN;
  out->workspace =
      (nabla_kernel_tiles){height, NABLA_LANES, height * NABLA_LANES * 4};
}

/* A strip, the strips, the lanes. */
static uint64_t chain(const nabla_fused_spec *spec) {
  uint64_t k = spec->k < NABLA_STRIP ? spec->k : NABLA_STRIP;
  return (k + NABLA_LANES - 1) / NABLA_LANES +
         (spec->k + NABLA_STRIP - 1) / NABLA_STRIP + 4;
}

const nabla_body nabla_body_strips = {.name = "strips",
                                      .takes_blocks = 1,
                                      .applies = applies,
                                      .cost = cost,
                                      .run = run,
                                      .prepare = prepare,
                                      .describe = describe,
                                      .chain = chain,
                                      .scratch = scratch};
