/* GEMV for M = 1 and storage that is consecutive along n, as in the gradient of
 * a GEMV: y[n] = sum over k of x[k] * w[n][k]. The storage is read once, in
 * order, a few of its cache lines at a time, and products are added to
 * accumulators of many columns in the scratch, in the order of
 * transposed_line.h, and permuted when they are written.
 *
 * The scratch: accumulators of COLUMNS columns, which begin at zero after each
 * PANEL elements of k, and their totals. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/f32/transposed_line.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"

#define COLUMNS 4096u
#define PANEL   256u
#define DEPTH   4u /* elements of k at a time */

/* Columns of a dense weight that a thread has at least: whole pages of f32 are
 * read in order. */
#define DENSE_GRAIN 256u

/* Of a dense weight a line is one vector, whatever its bytes. */
static int applies(const nabla_fused_spec *spec) {
  return !nabla_spec_is_row(spec) && nabla_spec_last_m(spec) == 1 && spec->n &&
         spec->k && spec->numerics == NABLA_NUMERICS_F32 &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE &&
         ((nabla_spec_is_dense(spec) && (spec->w_type == spec->w_stored ||
                                         spec->w_type == NABLA_DTYPE_F32)) ||
          (spec->w.format.encoding && spec->w.format.encoding->bits > 1 &&
           spec->w_type == NABLA_DTYPE_F32)) &&
         NABLA_HAS(spec->features, AVX512F) &&
         nabla_transposed_has_lines(spec) &&
         !nabla_format_is_llm_int8(&spec->w.format);
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return 2 * (uint64_t)COLUMNS * 4;
}

static nabla_array_ref sums_of(const nabla_emitter *e) {
  return (nabla_array_ref){e->scratch, NABLA_DTYPE_F32};
}

/* One line of codes and what its values are multiplied by. */
typedef struct code_line {
  nabla_ssa dwords, factor, zeros;
} code_line;

/* The same of a dense weight: its values, f32, and x. */
static code_line load_values(nabla_emitter *e, nabla_ssa flat, nabla_ssa x) {
  nabla_array_ref array = {e->codes, e->spec->w_stored};
  code_line result = {.dwords = k_read_lanes(e, array, flat, NABLA_LANES),
                      .factor = x};
  nabla_ssa next =
      k_add_constant(e, flat, DEPTH * nabla_transposed_stride(e->spec));
  k_prefetch(e, e->codes, nabla_emit_code_byte(e, next));
  return result;
}

static code_line load_line(nabla_emitter *e, nabla_ssa flat, nabla_ssa x) {
  if (nabla_spec_is_dense(e->spec)) return load_values(e, flat, x);
  nabla_transposed_line line = nabla_emit_transposed_line(e, flat, DEPTH);
  return (code_line){
      .dwords = line.dwords,
      .factor = k_binary(e, NABLA_VECTOR, "mulf", x, line.scales),
      .zeros = line.zeros};
}

/* Adds `depth` vectors of a dense weight to the sums of their columns. */
static void add_values(nabla_emitter *e, const code_line *lines, unsigned depth,
                       nabla_ssa column) {
  nabla_ssa sum = k_read_lanes(e, sums_of(e), column, NABLA_LANES);
  for (unsigned d = 0; d < depth; d++)
    sum = k_fma(e, NABLA_VECTOR, lines[d].dwords, lines[d].factor, sum);
  k_write_lanes(e, sums_of(e), column, sum);
}

/* Adds `depth` lines at the same columns to their sums. */
static void add_lines(nabla_emitter *e, const code_line *lines, unsigned depth,
                      nabla_ssa column) {
  if (nabla_spec_is_dense(e->spec)) {
    add_values(e, lines, depth, column);
    return;
  }
  unsigned bits = e->spec->w.format.encoding->bits;
  for (unsigned i = 0; i < 32 / bits; i++) {
    nabla_ssa at = k_add_constant(e, column, (uint64_t)i * NABLA_LANES);
    nabla_ssa sum = k_read_lanes(e, sums_of(e), at, NABLA_LANES);
    for (unsigned d = 0; d < depth; d++) {
      nabla_ssa by = k_i32(e, NABLA_VECTOR, bits * i);
      nabla_ssa code = k_op(e, "arith.shrui %%v%u, %%v%u : vector<16xi32>",
                            lines[d].dwords, by);
      nabla_ssa value = nabla_emit_code_value(e, code);
      if (lines[d].zeros)
        value = k_binary(e, NABLA_VECTOR, "subf", value, lines[d].zeros);
      sum = k_fma(e, NABLA_VECTOR, value, lines[d].factor, sum);
    }
    k_write_lanes(e, sums_of(e), at, sum);
  }
}

/* Elements k .. k + depth of all columns [first, first + count). */
static void add_rows(nabla_emitter *e, nabla_ssa first, nabla_ssa count,
                     nabla_ssa k, unsigned depth) {
  const nabla_fused_spec *spec = e->spec;
  nabla_array_ref array = {e->x, spec->x_type};
  nabla_ssa x[DEPTH], flat[DEPTH];
  code_line lines[DEPTH];
  nabla_loop loop;
  for (unsigned d = 0; d < depth; d++) {
    nabla_ssa at = k_add_constant(e, k, d);
    x[d] = k_broadcast(e, "f32", k_read(e, array, at));
    flat[d] =
        k_add(e, nabla_emit_flat(e, at, nabla_transposed_stride(spec)), first);
  }
  k_loop_begin(e, &loop, k_i64(e, 0), count, nabla_transposed_elements(spec), 0,
               NULL);
  for (unsigned d = 0; d < depth; d++)
    lines[d] = load_line(e, k_add(e, flat[d], loop.induction), x[d]);
  add_lines(e, lines, depth, loop.induction);
  k_loop_end(e, &loop, NULL);
}

/* Adds the accumulators to the totals (`is_first`: clears the totals), and
 * clears the accumulators. */
static void add_to_totals(nabla_emitter *e, nabla_ssa count, int is_first) {
  nabla_array_ref sums = sums_of(e);
  nabla_loop loop;
  k_loop_begin(e, &loop, k_i64(e, 0), count, NABLA_LANES, 0, NULL);
  nabla_ssa zero = k_f32(e, NABLA_VECTOR, 0), total = zero;
  nabla_ssa at = k_add_constant(e, loop.induction, COLUMNS);
  if (!is_first)
    total = k_binary(e, NABLA_VECTOR, "addf",
                     k_read_lanes(e, sums, loop.induction, NABLA_LANES),
                     k_read_lanes(e, sums, at, NABLA_LANES));
  k_write_lanes(e, sums, at, total);
  k_write_lanes(e, sums, loop.induction, zero);
  k_loop_end(e, &loop, NULL);
}

/* Writes the totals; those of a dense weight are in order. */
static void finish(nabla_emitter *e, nabla_ssa first, nabla_ssa count) {
  nabla_ssa totals = k_address(e, e->scratch, k_i64(e, (uint64_t)COLUMNS * 4));
  if (nabla_spec_is_dense(e->spec))
    nabla_emit_finish_row(e, totals, k_i64(e, 0), first, count);
  else
    nabla_emit_transposed_finish(e, totals, k_i64(e, 0), first, count);
}

/* A panel: DEPTH elements of k at a time, then one. */
static void add_panel(nabla_emitter *e, nabla_ssa first, nabla_ssa count,
                      nabla_ssa k) {
  nabla_loop steps;
  nabla_ssa size = nabla_emit_left(e, e->k, k, PANEL);
  nabla_ssa whole = k_multiply(e, k_divide(e, size, DEPTH), DEPTH);
  whole = k_add(e, k, whole);
  k_loop_begin(e, &steps, k, whole, DEPTH, 0, NULL);
  add_rows(e, first, count, steps.induction, DEPTH);
  k_loop_end(e, &steps, NULL);
  if (e->spec->k % DEPTH == 0) return;
  nabla_ssa end = k_add(e, k, size);
  k_loop_begin(e, &steps, whole, end, 1, 0, NULL);
  add_rows(e, first, count, steps.induction, 1);
  k_loop_end(e, &steps, NULL);
}

static void run(nabla_emitter *e) {
  nabla_loop columns, panels;
  k_loop_begin(e, &columns, e->begin, e->end, COLUMNS, 0, NULL);
  nabla_ssa first = columns.induction;
  nabla_ssa count = nabla_emit_left(e, e->end, first, COLUMNS);
  add_to_totals(e, count, 1);
  k_loop_begin(e, &panels, k_i64(e, 0), e->k, PANEL, 0, NULL);
  add_panel(e, first, count, panels.induction);
  add_to_totals(e, count, 0);
  k_loop_end(e, &panels, NULL);
  finish(e, first, count);
  k_loop_end(e, &columns, NULL);
}

/* A line of 128 codes takes some 5 ns; a vector of a dense weight one. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  if (nabla_spec_is_dense(spec)) return 1000.0 / NABLA_LANES * (double)m;
  return 5000.0 / nabla_transposed_elements(spec) * (double)m;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  out->grain =
      nabla_spec_is_dense(spec) ? DENSE_GRAIN : nabla_transposed_elements(spec);
}

static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  uint64_t panel = PANEL;
  return (spec->k < panel ? spec->k : panel) + (spec->k + panel - 1) / panel;
}

const nabla_kernel_variant nabla_variant_gemv_transposed = {
    .name = "gemv_transposed",
    .applies = applies,
    .cost = cost,
    .run = run,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
