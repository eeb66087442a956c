/* GEMV for M up to 4 and rows of w that are whole cache lines: y[m][n] = sum
 * over k of x[m][k] * w[n][k]. Of codes of up to 4 bits, 64 bytes are 16 dwords
 * of 32 / bits codes. A shift moves one code of every dword to the low bits,
 * the index of the table lookup; `pack_a` permutes x to match: vector i of a
 * line of x holds the elements at position i of all dwords. 8-bit codes are
 * widened 16 at a time, in order. A line has one scale for each lane; products
 * are summed before they are scaled. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/epilogue.h"
#include "lib/kernels/f32/code_line.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"

#define GRAIN      16u
#define ROWS_MAX   4u
#define SUMS_MAX   4u
#define SIDE_MAX   4u
#define TOTALS_MAX (2 * ROWS_MAX) /* of rows of w and x together */

/* Rows begin at whole lines. */
static int has_lines(const nabla_fused_spec *spec) {
  uint64_t elements = nabla_code_line_elements(spec);
  if (spec->any_size) return spec->any_size % elements == 0;
  return spec->k > 0 && spec->k % elements == 0 &&
         spec->offset % elements == 0 &&
         nabla_spec_row_stride(spec) % elements == 0;
}

/* With the prepacked layout this variant serves one row of x only, for which
 * prepacking gains little or nothing. */
static int applies(const nabla_fused_spec *spec) {
  return nabla_spec_is_row(spec) && nabla_spec_last_m(spec) <= ROWS_MAX &&
         spec->numerics == NABLA_NUMERICS_F32 &&
         (spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE ||
          nabla_spec_last_m(spec) == 1) &&
         spec->w.format.encoding && NABLA_HAS(spec->features, AVX512F) &&
         spec->w.format.encoding->bits > 1 && spec->w_type == NABLA_DTYPE_F32 &&
         has_lines(spec) && nabla_code_line_has_scales(spec);
}

/* Writes rows of x to the workspace in the order of the codes. */
static void pack_a(nabla_emitter *e) {
  nabla_array_ref x = {e->x, e->spec->x_type};
  nabla_array_ref out = {e->workspace, NABLA_DTYPE_F32};
  nabla_ssa begin = k_product(e, e->begin, e->k);
  nabla_ssa end = k_product(e, e->end, e->k);
  const nabla_encoding *encoding = e->spec->w.format.encoding;
  unsigned vectors = nabla_code_line_vectors(e->spec);
  unsigned flip = encoding->high_first ? 8 / encoding->bits - 1 : 0;
  nabla_ssa v[NABLA_LANES];
  nabla_loop loop;
  k_loop_begin(e, &loop, begin, end, nabla_code_line_elements(e->spec), 0,
               NULL);
  for (unsigned i = 0; i < vectors; i++) {
    nabla_ssa at = k_add_constant(e, loop.induction, (uint64_t)i * NABLA_LANES);
    v[i] = k_read_lanes(e, x, at, NABLA_LANES);
  }
  if (!nabla_code_line_is_wide(e->spec)) k_deinterleave(e, vectors, v);
  for (unsigned i = 0; i < vectors; i++) {
    nabla_ssa at = k_add_constant(e, loop.induction, (uint64_t)i * NABLA_LANES);
    k_write_lanes(e, out, at,
                  v[nabla_code_line_is_wide(e->spec) ? i : i ^ flip]);
  }
  k_loop_end(e, &loop, NULL);
}

/* Independent accumulators in a line. With few lines a chain of 8 products
 * would exceed the bound K / 64 + 8, and for one row of x there is no other
 * independent work during the latency of a product. */
static unsigned sums_of(const nabla_fused_spec *spec) {
  unsigned vectors = nabla_code_line_vectors(spec);
  if (vectors < 8) return 1;
  if (vectors > 8) return 4;
  return spec->any_size ||
                 spec->k < 3 * (uint64_t)nabla_code_line_elements(spec) ||
                 nabla_spec_last_m(spec) == 1
             ? 2
             : 1;
}

/* The sums of a row of w with a row of x, times the scales, added to `total`.
 */
static nabla_ssa add_scaled(nabla_emitter *e, const nabla_code_line *at,
                            nabla_ssa *sum, nabla_ssa total) {
  for (unsigned apart = sums_of(e->spec) / 2; apart; apart /= 2)
    for (unsigned i = 0; i < apart; i++)
      sum[i] = k_binary(e, NABLA_VECTOR, "addf", sum[i], sum[i + apart]);
  nabla_ssa all = sum[0], scale = at->scales;
  if (nabla_format_is_llm_int8(&e->spec->w.format)) {
    /* in this order: FORMAT.md (I4) */
    all = k_binary(e, NABLA_VECTOR, "mulf", all, scale);
    scale = k_f32(e, NABLA_VECTOR, (double)NABLA_INT8_STEP);
  }
  return k_fma(e, NABLA_VECTOR, all, scale, total);
}

/* Adds the products of the lines of `side` rows of w, scaled, to the totals of
 * `count` rows of x each. `k`: of each of these, where the line begins in the
 * workspace. */
static void multiply_lines(nabla_emitter *e, const nabla_code_line *at,
                           unsigned side, unsigned count, const nabla_ssa *k,
                           nabla_ssa *totals) {
  const nabla_fused_spec *spec = e->spec;
  nabla_array_ref x = {e->workspace, NABLA_DTYPE_F32};
  nabla_ssa sum[TOTALS_MAX][SUMS_MAX] = {{0}}, dwords[SIDE_MAX] = {0};
  for (unsigned s = 0; s < side && !nabla_code_line_is_wide(spec); s++)
    dwords[s] = k_load(e, "vector<16xi32>", e->codes, at[s].codes, 1);
  for (unsigned i = 0; i < nabla_code_line_vectors(spec); i++)
    for (unsigned s = 0; s < side; s++) {
      nabla_ssa w = nabla_emit_code_line_weights(e, &at[s], dwords[s], i);
      for (unsigned r = 0; r < count; r++) {
        nabla_ssa from = k_add_constant(e, k[r], (uint64_t)i * NABLA_LANES);
        nabla_ssa values = k_read_lanes(e, x, from, NABLA_LANES);
        nabla_ssa *to = &sum[s * count + r][i % sums_of(spec)];
        *to = *to ? k_fma(e, NABLA_VECTOR, w, values, *to)
                  : k_binary(e, NABLA_VECTOR, "mulf", w, values);
      }
    }
  for (unsigned i = 0; i < side * count; i++)
    totals[i] = add_scaled(e, &at[i / count], sum[i], totals[i]);
}

/* Where the rows of x are in the workspace; those beyond the last are the last
 * again. */
static void rows_of_x(nabla_emitter *e, unsigned count, nabla_ssa *out) {
  nabla_ssa one = k_i64(e, 1);
  nabla_ssa last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->m, one);
  for (unsigned r = 0; r < count; r++)
    out[r] = k_product(e, k_minimum(e, k_i64(e, r), last), e->k);
}

/* Whether sums are stored as they are, and the epilogue is applied to vectors
 * of them when the range is done: silu of one number takes as long as of 16. */
static int finishes_late(const nabla_fused_spec *spec) {
  if (spec->y_type != NABLA_DTYPE_F32) return 0;
  for (uint32_t i = 0; i < spec->step_count; i++)
    if (spec->steps[i] == NABLA_STEP_SILU) return 1;
  return 0;
}

static void finish(nabla_emitter *e, nabla_ssa total, nabla_ssa row,
                   nabla_ssa column) {
  nabla_array_ref y = {e->y, e->spec->y_type};
  nabla_ssa value = k_sum(e, total);
  if (!finishes_late(e->spec))
    value = nabla_emit_epilogue(e, NABLA_SCALAR, value, row, column, 1);
  k_write(e, y, nabla_emit_y_index(e, row, column), value);
}

/* The epilogue of the columns of the range, which hold sums. */
static void finish_range(nabla_emitter *e) {
  nabla_ssa columns =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", e->end, e->begin);
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), e->m, 1, 0, NULL);
  nabla_ssa at = nabla_emit_y_index(e, rows.induction, e->begin);
  nabla_ssa sums =
      k_address(e, e->y, k_multiply(e, at, (uint64_t)sizeof(float)));
  nabla_emit_finish_row(e, sums, rows.induction, e->begin, columns);
  k_loop_end(e, &rows, NULL);
}

/* Writes the totals of one column, of which row 0 is there. */
static void finish_column(nabla_emitter *e, unsigned count,
                          const nabla_ssa *totals, nabla_ssa column) {
  for (unsigned r = 0; r < count; r++) {
    nabla_ssa row = k_i64(e, r);
    if (r) {
      nabla_ssa inside =
          k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", row, e->m);
      k_line(e, "scf.if %%v%u {", inside);
    }
    finish(e, totals[r], row, column);
    if (r) k_line(e, "}");
  }
}

/* Rows of w that are multiplied side by side, from as many parts of the range:
 * two streams that are pages apart have more memory bandwidth than one, and
 * each load of x serves both; more where x does not stay in the first cache. */
static unsigned side_of(const nabla_fused_spec *spec, unsigned count) {
  const uint64_t most = nabla_cpu_family_of(spec->features)->near_x;
  const uint64_t bytes = count * spec->k * sizeof(float);
  if (most && !spec->any_size && bytes > most) return count > 1 ? 2 : SIDE_MAX;
  return count > 1 ? 1 : 2;
}

/* The element that the row of w for `column`, or the last of the range, begins
 * with. */
static nabla_ssa row_at(nabla_emitter *e, nabla_ssa column) {
  const nabla_fused_spec *spec = e->spec;
  nabla_ssa last =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", e->end, k_i64(e, 1));
  column = k_minimum(e, column, last);
  return spec->any_size
             ? k_product(e, column, e->k)
             : nabla_emit_flat(e, column, nabla_spec_row_stride(spec));
}

/* The sums of `side` rows of w, which begin at `w`, with `count` rows of x. */
static void sum_lines(nabla_emitter *e, unsigned side, const nabla_ssa *w,
                      unsigned count, nabla_loop *lines) {
  nabla_ssa x[ROWS_MAX], k[ROWS_MAX], totals[TOTALS_MAX];
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  rows_of_x(e, count, x);
  for (unsigned i = 0; i < side * count; i++) totals[i] = none;
  k_loop_begin(e, lines, k_i64(e, 0), e->k, nabla_code_line_elements(e->spec),
               side * count, totals);
  for (unsigned r = 0; r < count; r++) k[r] = k_add(e, x[r], lines->induction);
  for (unsigned i = 0; i < side * count; i++) totals[i] = lines->carried[i];
  /* of one row of x its vectors stay in registers from row to row of w */
  const unsigned together = count > 1 ? side : 1;
  for (unsigned s = 0; s < side; s += together) {
    nabla_code_line at[SIDE_MAX];
    for (unsigned i = 0; i < together; i++)
      at[i] = nabla_emit_code_line(e, k_add(e, w[s + i], lines->induction));
    multiply_lines(e, at, together, count, k, totals + s * count);
  }
  k_loop_end(e, lines, totals);
}

static void emit_rows(nabla_emitter *e, unsigned count) {
  unsigned side = side_of(e->spec, count);
  nabla_loop columns, lines;
  nabla_ssa column[SIDE_MAX], w[SIDE_MAX];
  nabla_ssa part = nabla_emit_part(e, side);
  k_loop_begin(e, &columns, e->begin, k_add(e, e->begin, part), 1, 0, NULL);
  for (unsigned s = 0; s < side; s++) {
    column[s] = s ? k_add(e, column[s - 1], part) : columns.induction;
    w[s] = row_at(e, column[s]);
  }
  sum_lines(e, side, w, count, &lines);
  for (unsigned s = 0; s < side; s++) {
    if (s) {
      nabla_ssa inside =
          k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", column[s], e->end);
      k_line(e, "scf.if %%v%u {", inside);
    }
    finish_column(e, count, lines.results + s * count, column[s]);
    if (s) k_line(e, "}");
  }
  k_loop_end(e, &columns, NULL);
}

/* M = 2 has code of its own: with the code for four rows it would cost more
 * than twice M = 1. */
static void emit_sums(nabla_emitter *e) {
  unsigned count = (unsigned)nabla_spec_last_m(e->spec);
  if (count <= 2 || e->spec->m_min > 2) {
    emit_rows(e, count);
    return;
  }
  nabla_ssa two =
      k_op(e, "arith.cmpi ule, %%v%u, %%v%u : i64", e->m, k_i64(e, 2));
  k_line(e, "scf.if %%v%u {", two);
  emit_rows(e, 2);
  k_line(e, "} else {");
  emit_rows(e, count);
  k_line(e, "}");
}

static void emit_lines(nabla_emitter *e) {
  emit_sums(e);
  if (finishes_late(e->spec)) finish_range(e);
}

static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  unsigned sums = sums_of(spec);
  uint64_t products = nabla_code_line_vectors(spec) / sums - 1 + sums / 2;
  return products + spec->k / nabla_code_line_elements(spec) + 4;
}

/* A line takes some 4 ns, and .5 for each row of x. Accumulators of more than
 * two rows leave few registers; 8-bit floats are still slower in other
 * kernels. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  const nabla_cpu_family *family = nabla_cpu_family_of(spec->features);
  int is_crowded = m > 2 && !nabla_spec_is_float8(spec->w.format.encoding);
  return (4000 + 500.0 * (double)m) / nabla_code_line_elements(spec) +
         (is_crowded ? family->crowded : 0);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  unsigned elements = nabla_code_line_elements(spec);
  out->grain = GRAIN;
  out->workspace = (nabla_kernel_tiles){1, elements, elements * 4};
}

const nabla_kernel_variant nabla_variant_gemv_codeline = {
    .name = "gemv_codeline",
    .dedicated_max_m = 1,
    .applies = applies,
    .cost = cost,
    .run = emit_lines,
    .pack_a = pack_a,
    .describe = describe,
    .accumulation_depth = accumulation_depth};
