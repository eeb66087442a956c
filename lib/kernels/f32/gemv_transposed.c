/* y[n] = sum over k of x[k] * w[n][k] for M = 1 and storage that is consecutive
 * along n, as the gradient of a GEMV has it: the storage is read once, in
 * order, a few of its lines at a time, and products are added to sums of many
 * columns in the scratch. A line is 64 bytes of codes, 32 / bits in each of 16
 * dwords; a shift brings one of each to the bottom. Sums are kept in that
 * order, place of the dword first, and written in theirs.
 *
 * The scratch: sums of COLUMNS columns, each of which begins at zero after
 * PANEL elements of k, and their totals. */
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/epilogue.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"

#define COLUMNS 4096u
#define PANEL   256u
#define DEPTH   4u /* elements of k at a time */

static unsigned elements_of(const nabla_fused_spec *spec) {
  return 512 / spec->format.encoding->bits;
}

static uint64_t stride_of(const nabla_fused_spec *spec) {
  return spec->k > 1 ? spec->stride_k : 0;
}

/* Lines lie whole under scales, or whole dwords of them. */
static int has_lines(const nabla_fused_spec *spec) {
  uint64_t elements = elements_of(spec), block = spec->format.block;
  if (spec->n % elements || spec->offset % elements ||
      stride_of(spec) % elements)
    return 0;
  if (spec->format.granularity != NABLA_PER_BLOCK || block >= elements)
    return block % elements == 0;
  return elements / block <= NABLA_LANES;
}

static int applies(const nabla_fused_spec *spec) {
  return !nabla_spec_is_row(spec) && nabla_spec_last_m(spec) == 1 && spec->n &&
         spec->k && spec->numerics == NABLA_NUMERICS_F32 &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE &&
         spec->format.encoding && spec->format.encoding->bits > 1 &&
         NABLA_HAS(spec->features, AVX512F) &&
         spec->w_type == NABLA_DTYPE_F32 && has_lines(spec) &&
         !nabla_format_is_llm_int8(&spec->format);
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return 2 * (uint64_t)COLUMNS * 4;
}

static nabla_array_ref sums_of(const nabla_emitter *emitter) {
  return (nabla_array_ref){emitter->scratch, NABLA_DTYPE_F32};
}

/* A value for each lane of the line at `flat`. */
static nabla_ssa lanes_of(nabla_emitter *emitter, nabla_ssa flat,
                          nabla_ssa (*at)(nabla_emitter *, nabla_ssa)) {
  uint64_t block = emitter->spec->format.block;
  uint64_t elements = elements_of(emitter->spec);
  unsigned count = block >= elements ? 1 : (unsigned)(elements / block);
  return nabla_emit_block_lanes(emitter, nabla_emit_block(emitter, flat), count,
                                at);
}

/* One line of codes and what its values are multiplied by. */
typedef struct code_line {
  nabla_ssa words, factor, zeros;
} code_line;

static code_line load_line(nabla_emitter *emitter, nabla_ssa flat,
                           nabla_ssa x) {
  nabla_ssa byte = nabla_emit_code_byte(emitter, flat);
  nabla_ssa scales = lanes_of(emitter, flat, nabla_emit_scale_at);
  code_line result = {
      .words =
          nabla_emit_load(emitter, "vector<16xi32>", emitter->codes, byte, 1),
      .factor = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", x, scales)};
  if (emitter->spec->format.zero_point)
    result.zeros = lanes_of(emitter, flat, nabla_emit_zero_value);
  /* the same columns of the next elements of k: what follows in memory may be
   * of columns that are another turn's, or thread's */
  nabla_ssa next =
      nabla_emit_add_constant(emitter, flat, DEPTH * stride_of(emitter->spec));
  nabla_emit_prefetch(emitter, emitter->codes,
                      nabla_emit_code_byte(emitter, next));
  nabla_emit_prefetch_scale(emitter, next);
  return result;
}

/* Adds `depth` lines at the same columns to their sums. */
static void add_lines(nabla_emitter *emitter, const code_line *lines,
                      unsigned depth, nabla_ssa column) {
  unsigned bits = emitter->spec->format.encoding->bits;
  for (unsigned i = 0; i < 32 / bits; i++) {
    nabla_ssa at =
        nabla_emit_add_constant(emitter, column, (uint64_t)i * NABLA_LANES);
    nabla_ssa sum =
        nabla_emit_read_lanes(emitter, sums_of(emitter), at, NABLA_LANES);
    for (unsigned d = 0; d < depth; d++) {
      nabla_ssa by = nabla_emit_i32(emitter, NABLA_VECTOR, bits * i);
      nabla_ssa code =
          nabla_emit(emitter, "arith.shrui %%v%u, %%v%u : vector<16xi32>",
                     lines[d].words, by);
      nabla_ssa value = nabla_emit_code_value(emitter, code);
      if (lines[d].zeros)
        value = nabla_emit_binary(emitter, NABLA_VECTOR, "subf", value,
                                  lines[d].zeros);
      sum = nabla_emit_fma(emitter, NABLA_VECTOR, value, lines[d].factor, sum);
    }
    nabla_emit_write_lanes(emitter, sums_of(emitter), at, sum);
  }
}

/* Elements k .. k + depth of all columns [first, first + count). */
static void add_rows(nabla_emitter *emitter, nabla_ssa first, nabla_ssa count,
                     nabla_ssa k, unsigned depth) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_array_ref array = {emitter->x, spec->x_type};
  nabla_ssa x[DEPTH], flat[DEPTH];
  code_line lines[DEPTH];
  nabla_loop loop;
  for (unsigned d = 0; d < depth; d++) {
    nabla_ssa at = nabla_emit_add_constant(emitter, k, d);
    x[d] = nabla_emit_broadcast(emitter, "f32",
                                nabla_emit_read(emitter, array, at));
    flat[d] = nabla_emit_add(
        emitter, nabla_emit_flat(emitter, at, stride_of(spec)), first);
  }
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), count,
                   elements_of(spec), 0, NULL);
  for (unsigned d = 0; d < depth; d++)
    lines[d] = load_line(
        emitter, nabla_emit_add(emitter, flat[d], loop.induction), x[d]);
  add_lines(emitter, lines, depth, loop.induction);
  nabla_loop_end(emitter, &loop, NULL);
}

/* sums to totals, or zero to totals; and zero to sums */
static void turn_over(nabla_emitter *emitter, nabla_ssa count, int is_first) {
  nabla_array_ref sums = sums_of(emitter);
  nabla_loop loop;
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), count,
                   NABLA_LANES, 0, NULL);
  nabla_ssa zero = nabla_emit_f32(emitter, NABLA_VECTOR, 0), total = zero;
  nabla_ssa at = nabla_emit_add_constant(emitter, loop.induction, COLUMNS);
  if (!is_first)
    total = nabla_emit_binary(
        emitter, NABLA_VECTOR, "addf",
        nabla_emit_read_lanes(emitter, sums, loop.induction, NABLA_LANES),
        nabla_emit_read_lanes(emitter, sums, at, NABLA_LANES));
  nabla_emit_write_lanes(emitter, sums, at, total);
  nabla_emit_write_lanes(emitter, sums, loop.induction, zero);
  nabla_loop_end(emitter, &loop, NULL);
}

/* Writes the totals: that of column 16 * j + c, in a line whose dwords hold
 * 2^p codes, is at place (c mod 2^p) of dword (16 * j + c) >> p. */
static void finish(nabla_emitter *emitter, nabla_ssa first, nabla_ssa count) {
  const nabla_encoding *encoding = emitter->spec->format.encoding;
  unsigned per_word = 32 / encoding->bits, per_byte = 8 / encoding->bits;
  nabla_array_ref y = {emitter->y, emitter->spec->y_type};
  nabla_loop lines, words;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &lines, zero, count, elements_of(emitter->spec), 0,
                   NULL);
  nabla_loop_begin(emitter, &words, zero, nabla_emit_i64(emitter, NABLA_LANES),
                   1, 0, NULL);
  words.is_open = 1; /* as many turns as a vector has lanes */
  nabla_ssa from = nabla_emit_add(emitter, lines.induction, words.induction);
  nabla_ssa to = nabla_emit_multiply(emitter, words.induction, per_word);
  to = nabla_emit_add(emitter, nabla_emit_add(emitter, first, lines.induction),
                      to);
  for (unsigned i = 0; i < per_word; i++) {
    unsigned place = encoding->high_first ? i ^ (per_byte - 1) : i;
    nabla_ssa column = nabla_emit_add_constant(emitter, to, i);
    nabla_ssa value = nabla_emit_read(
        emitter, sums_of(emitter),
        nabla_emit_add_constant(emitter, from,
                                COLUMNS + (uint64_t)place * NABLA_LANES));
    value = nabla_emit_epilogue(emitter, NABLA_SCALAR, value, zero, column, 1);
    nabla_emit_write(emitter, y, column, value);
  }
  nabla_loop_end(emitter, &words, NULL);
  nabla_loop_end(emitter, &lines, NULL);
}

/* A panel: DEPTH elements of k at a time, then one. */
static void add_panel(nabla_emitter *emitter, nabla_ssa first, nabla_ssa count,
                      nabla_ssa k) {
  nabla_loop steps;
  nabla_ssa size = nabla_emit_left(emitter, emitter->k, k, PANEL);
  nabla_ssa whole = nabla_emit_multiply(
      emitter, nabla_emit_divide(emitter, size, DEPTH), DEPTH);
  whole = nabla_emit_add(emitter, k, whole);
  nabla_loop_begin(emitter, &steps, k, whole, DEPTH, 0, NULL);
  add_rows(emitter, first, count, steps.induction, DEPTH);
  nabla_loop_end(emitter, &steps, NULL);
  if (emitter->spec->k % DEPTH == 0) return;
  nabla_ssa end = nabla_emit_add(emitter, k, size);
  nabla_loop_begin(emitter, &steps, whole, end, 1, 0, NULL);
  add_rows(emitter, first, count, steps.induction, 1);
  nabla_loop_end(emitter, &steps, NULL);
}

static void run(nabla_emitter *emitter) {
  nabla_loop columns, panels;
  nabla_loop_begin(emitter, &columns, emitter->begin, emitter->end, COLUMNS, 0,
                   NULL);
  nabla_ssa first = columns.induction;
  nabla_ssa count = nabla_emit_left(emitter, emitter->end, first, COLUMNS);
  turn_over(emitter, count, 1);
  nabla_loop_begin(emitter, &panels, nabla_emit_i64(emitter, 0), emitter->k,
                   PANEL, 0, NULL);
  add_panel(emitter, first, count, panels.induction);
  turn_over(emitter, count, 0);
  nabla_loop_end(emitter, &panels, NULL);
  finish(emitter, first, count);
  nabla_loop_end(emitter, &columns, NULL);
}

/* A line of 128 codes takes some 5 ns. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  return 5000.0 / elements_of(spec) * (double)m;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  out->grain = elements_of(spec);
}

static uint64_t chain(const nabla_fused_spec *spec) {
  uint64_t panel = PANEL;
  return (spec->k < panel ? spec->k : panel) + (spec->k + panel - 1) / panel;
}

const nabla_body nabla_body_spread = {.name = "spread",
                                      .applies = applies,
                                      .cost = cost,
                                      .run = run,
                                      .describe = describe,
                                      .chain = chain,
                                      .scratch = scratch};
