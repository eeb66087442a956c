/* GEMV for M up to 2 and rows of w that are not whole cache lines of codes, of
 * 4 bits: the lines that lie inside a row, as in gemv_codeline, and windows of
 * 16 elements before and behind them. `pack_a` writes 8 planes of x: plane p
 * has the elements p, p + 8, p + 16, ... A vector of a line's codes, one of
 * each dword, is multiplied with consecutive elements of one plane, wherever in
 * a line the row begins. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/epilogue.h"
#include "lib/kernels/f32/code_line.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"

#define GRAIN    16u
#define ROWS_MAX 2u
#define PLANES   8u   /* codes of a dword */
#define LINE     128u /* codes of a cache line */
#define SUMS     2u   /* independent accumulators in a line */
#define EDGES    4u   /* the same of windows */
#define K_LEAST  256u /* shorter rows have windows alone */

static int applies(const nabla_fused_spec *spec) {
  const nabla_format *format = &spec->w.format;
  if (!format->encoding || format->encoding->bits != 4) return 0;
  return nabla_spec_is_row(spec) && nabla_spec_last_m(spec) <= ROWS_MAX &&
         spec->numerics == NABLA_NUMERICS_F32 &&
         (spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE ||
          nabla_spec_last_m(spec) == 1) &&
         NABLA_HAS(spec->features, AVX512F) &&
         format->granularity == NABLA_PER_BLOCK &&
         spec->w_type == NABLA_DTYPE_F32 && nabla_code_line_has_scales(spec) &&
         (spec->any_size || spec->k >= K_LEAST);
}

/* ---- planes of x ------------------------------------------------------------
 */

/* Floats of a plane. */
static nabla_ssa plane_size(nabla_emitter *e) {
  nabla_ssa lines = k_divide(e, k_add_constant(e, e->k, LINE - 1), LINE);
  return k_multiply(e, lines, LINE / PLANES);
}

/* The number of the element `k` of row `row` of x in the workspace. */
static nabla_ssa place_of(nabla_emitter *e, nabla_ssa row, nabla_ssa plane,
                          nabla_ssa k) {
  nabla_ssa first = k_add(e, k_multiply(e, row, PLANES), plane);
  return k_add(e, k_product(e, first, plane_size(e)), k_divide(e, k, PLANES));
}

static nabla_ssa remainder_of(nabla_emitter *e, nabla_ssa value,
                              uint64_t size) {
  return k_op(e, "arith.remui %%v%u, %%v%u : i64", value, k_i64(e, size));
}

static void pack_a(nabla_emitter *e) {
  nabla_array_ref x = {e->x, e->spec->x_type};
  nabla_array_ref out = nabla_floats_at(e->workspace);
  nabla_ssa v[PLANES], zero = k_i64(e, 0);
  nabla_ssa whole = k_multiply(e, k_divide(e, e->k, LINE), LINE);
  nabla_loop rows, lines, rest;
  k_loop_begin(e, &rows, e->begin, e->end, 1, 0, NULL);
  nabla_ssa row = k_product(e, rows.induction, e->k);
  k_loop_begin(e, &lines, zero, whole, LINE, 0, NULL);
  for (unsigned i = 0; i < PLANES; i++) {
    nabla_ssa at =
        k_add_constant(e, lines.induction, (uint64_t)i * NABLA_LANES);
    v[i] = k_read_lanes(e, x, k_add(e, row, at), NABLA_LANES);
  }
  k_deinterleave(e, PLANES, v);
  for (unsigned i = 0; i < PLANES; i++)
    k_write_lanes(e, out,
                  place_of(e, rows.induction, k_i64(e, i), lines.induction),
                  v[i]);
  k_loop_end(e, &lines, NULL);
  k_loop_begin(e, &rest, whole, e->k, 1, 0, NULL);
  nabla_ssa plane = remainder_of(e, rest.induction, PLANES);
  k_write(e, out, place_of(e, rows.induction, plane, rest.induction),
          k_read(e, x, k_add(e, row, rest.induction)));
  k_loop_end(e, &rest, NULL);
  k_loop_end(e, &rows, NULL);
}

/* ---- a row of w -------------------------------------------------------------
 */

/* A row of w, and the rows of x. */
typedef struct product_row {
  unsigned count;
  nabla_ssa x[ROWS_MAX];    /* numbers of the rows of x */
  nabla_ssa start;          /* flat, of the row of w */
  nabla_ssa head, end;      /* elements of k: where lines begin and end */
  nabla_ssa sums[ROWS_MAX]; /* of lines */
} product_row;

/* Lines begin at the first multiple of LINE in the row, if it is long. */
static void find_lines(nabla_emitter *e, product_row *r) {
  nabla_ssa up = k_add_constant(e, r->start, LINE - 1);
  nabla_ssa first = k_multiply(e, k_divide(e, up, LINE), LINE);
  nabla_ssa last = k_divide(e, k_add(e, r->start, e->k), LINE);
  last = k_multiply(e, last, LINE);
  r->head = k_op(e, "arith.subi %%v%u, %%v%u : i64", first, r->start);
  r->end = k_op(e, "arith.subi %%v%u, %%v%u : i64", last, r->start);
  if (!e->spec->any_size) return;
  nabla_ssa is_long =
      k_op(e, "arith.cmpi uge, %%v%u, %%v%u : i64", e->k, k_i64(e, K_LEAST));
  r->head = k_choice(e, is_long, r->head, k_i64(e, 0));
  r->end = k_choice(e, is_long, r->end, k_i64(e, 0));
}

/* Addresses of x for code i of the dwords of the first line. */
static void find_planes(nabla_emitter *e, const product_row *r,
                        nabla_ssa out[ROWS_MAX][PLANES]) {
  unsigned flip = e->spec->w.format.encoding->high_first ? 1 : 0;
  for (unsigned i = 0; i < PLANES; i++) {
    nabla_ssa k = k_add_constant(e, r->head, i ^ flip);
    nabla_ssa plane = remainder_of(e, k, PLANES);
    for (unsigned j = 0; j < r->count; j++)
      out[j][i] = k_address(e, e->workspace,
                            k_multiply(e, place_of(e, r->x[j], plane, k), 4));
  }
}

/* The products of all lines of the row, to r->sums. */
static void sum_lines(nabla_emitter *e, product_row *r) {
  nabla_ssa x[ROWS_MAX][PLANES], totals[ROWS_MAX];
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  nabla_loop lines;
  find_planes(e, r, x);
  for (unsigned j = 0; j < r->count; j++) totals[j] = none;
  k_loop_begin(e, &lines, r->head, r->end, LINE, r->count, totals);
  nabla_code_line at =
      nabla_emit_code_line(e, k_add(e, r->start, lines.induction));
  nabla_ssa done =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", lines.induction, r->head);
  nabla_ssa byte = k_multiply(e, k_divide(e, done, PLANES), 4);
  nabla_ssa dwords = k_load(e, "vector<16xi32>", e->codes, at.codes, 1);
  nabla_ssa sum[ROWS_MAX][SUMS] = {{0}};
  for (unsigned i = 0; i < PLANES; i++) {
    nabla_ssa w = nabla_emit_code_line_weights(e, &at, dwords, i);
    for (unsigned j = 0; j < r->count; j++) {
      nabla_ssa values = k_load(e, "vector<16xf32>", x[j][i], byte, 4);
      nabla_ssa *to = &sum[j][i % SUMS];
      *to = *to ? k_fma(e, NABLA_VECTOR, w, values, *to)
                : k_binary(e, NABLA_VECTOR, "mulf", w, values);
    }
  }
  for (unsigned j = 0; j < r->count; j++)
    totals[j] = k_fma(e, NABLA_VECTOR,
                      k_binary(e, NABLA_VECTOR, "addf", sum[j][0], sum[j][1]),
                      at.scales, lines.carried[j]);
  k_loop_end(e, &lines, totals);
  for (unsigned j = 0; j < r->count; j++) r->sums[j] = lines.results[j];
}

/* `value` with +0 outside lanes [first, end). */
static nabla_ssa keep_lanes(nabla_emitter *e, nabla_ssa value, nabla_ssa first,
                            nabla_ssa end) {
  static const char *const conditions[] = {"uge", "ult"};
  const nabla_ssa limits[] = {first, end};
  uint32_t numbers[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) numbers[i] = i;
  for (unsigned i = 0; i < 2; i++) {
    nabla_ssa limit = k_op(e, "arith.trunci %%v%u : i64 to i32", limits[i]);
    nabla_ssa inside =
        k_op(e, "arith.cmpi %s, %%v%u, %%v%u : vector<16xi32>", conditions[i],
             k_i32_lanes(e, numbers), k_broadcast(e, "i32", limit));
    value = k_op(e,
                 "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                 "vector<16xf32>",
                 inside, value, k_f32(e, NABLA_VECTOR, 0));
  }
  return value;
}

/* Adds the window from element `k` on, of which lanes [first, end) count, to
 * the first of EDGES accumulators of each row of x; `out` has them in turn. */
static void add_window(nabla_emitter *e, const product_row *r, nabla_ssa k,
                       const nabla_ssa lanes[2], const nabla_ssa *in,
                       nabla_ssa *out) {
  const nabla_fused_spec *spec = e->spec;
  nabla_array_ref x = {e->x, spec->x_type};
  uint64_t aligned = nabla_row_alignment(spec, NABLA_LANES);
  if (!spec->any_size) aligned = nabla_common_divisor(aligned, spec->k);
  nabla_window window = {
      .flat = k_add(e, r->start, k), .width = NABLA_LANES, .aligned = aligned};
  nabla_ssa w =
      keep_lanes(e, nabla_emit_dequantize(e, &window), lanes[0], lanes[1]);
  for (unsigned j = 0; j < r->count; j++) {
    nabla_ssa at = k_add(e, k_product(e, r->x[j], e->k), k);
    nabla_ssa values =
        keep_lanes(e, k_read_lanes(e, x, at, NABLA_LANES), lanes[0], lanes[1]);
    const nabla_ssa *from = &in[j * EDGES];
    nabla_ssa *to = &out[j * EDGES];
    for (unsigned i = 0; i + 1 < EDGES; i++) to[i] = from[i + 1];
    to[EDGES - 1] = k_fma(e, NABLA_VECTOR, w, values, from[0]);
  }
}

/* The products before the lines, by windows from the start of the row on, and
 * behind them, by windows from its end back. */
static void sum_edges(nabla_emitter *e, const product_row *r, nabla_ssa *sums) {
  nabla_ssa zero = k_i64(e, 0), width = k_i64(e, NABLA_LANES);
  nabla_ssa next[ROWS_MAX * EDGES];
  nabla_loop head, tail;
  const unsigned count = r->count * EDGES;
  k_loop_begin(e, &head, zero, r->head, NABLA_LANES, count, sums);
  const nabla_ssa left[] = {
      zero, k_op(e, "arith.subi %%v%u, %%v%u : i64", r->head, head.induction)};
  add_window(e, r, head.induction, left, head.carried, next);
  k_loop_end(e, &head, next);
  nabla_ssa behind = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->k, r->end);
  k_loop_begin(e, &tail, zero, behind, NABLA_LANES, count, head.results);
  nabla_ssa rest =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", behind, tail.induction);
  rest = k_minimum(e, rest, width);
  const nabla_ssa right[] = {
      k_op(e, "arith.subi %%v%u, %%v%u : i64", width, rest), width};
  nabla_ssa at = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->k,
                      k_add_constant(e, tail.induction, NABLA_LANES));
  add_window(e, r, at, right, tail.carried, next);
  k_loop_end(e, &tail, next);
  for (unsigned i = 0; i < count; i++) sums[i] = tail.results[i];
}

/* ---- all of it --------------------------------------------------------------
 */

static void emit_column(nabla_emitter *e, product_row *r, nabla_ssa column) {
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0), edges[ROWS_MAX * EDGES];
  r->start = nabla_emit_row_start(e, column);
  find_lines(e, r);
  sum_lines(e, r);
  for (unsigned i = 0; i < r->count * EDGES; i++) edges[i] = none;
  sum_edges(e, r, edges);
  for (unsigned j = 0; j < r->count; j++) {
    nabla_ssa *of = &edges[j * EDGES];
    for (unsigned apart = EDGES / 2; apart; apart /= 2)
      for (unsigned i = 0; i < apart; i++)
        of[i] = k_binary(e, NABLA_VECTOR, "addf", of[i], of[i + apart]);
    nabla_ssa sum = k_binary(e, NABLA_VECTOR, "addf", r->sums[j], of[0]);
    nabla_ssa row = k_i64(e, j);
    if (j)
      k_line(e, "scf.if %%v%u {",
             k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", row, e->m));
    nabla_emit_finish_sum(e, sum, row, column);
    if (j) k_line(e, "}");
  }
}

static void run(nabla_emitter *e) {
  product_row r = {.count = (unsigned)nabla_spec_last_m(e->spec)};
  nabla_ssa last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->m, k_i64(e, 1));
  nabla_loop columns;
  for (unsigned j = 0; j < r.count; j++)
    r.x[j] = k_minimum(e, k_i64(e, j), last);
  k_loop_begin(e, &columns, e->begin, e->end, 1, 0, NULL);
  emit_column(e, &r, columns.induction);
  k_loop_end(e, &columns, NULL);
}

/* Lines: the products of one, the lines. Windows: of each side up to 8, or all
 * of a short row, and the tree of their accumulators. Both are added, then the
 * lanes. */
static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  const uint64_t windows = spec->k < K_LEAST
                               ? (spec->k + NABLA_LANES - 1) / NABLA_LANES
                               : 2 * LINE / NABLA_LANES;
  const uint64_t edges = (windows + EDGES - 1) / EDGES + 2;
  const uint64_t lines = PLANES / SUMS + spec->k / LINE;
  return (lines > edges ? lines : edges) + 1 + 4;
}

/* As gemv_codeline, and 128 elements of a row by windows on average. Rows of
 * whole lines need none. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  const double windows = spec->any_size ? .05 : 128.0 / (double)spec->k;
  return (4000 + 500.0 * (double)m) / LINE + 5 + 330 * windows;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  (void)spec;
  out->grain = GRAIN;
  out->workspace = (nabla_kernel_tiles){1, LINE, LINE * 4};
}

const nabla_kernel_variant nabla_variant_gemv_unaligned = {
    .name = "gemv_unaligned",
    .dedicated_max_m = 1,
    .applies = applies,
    .cost = cost,
    .run = run,
    .pack_a = pack_a,
    .describe = describe,
    .accumulation_depth = accumulation_depth};
