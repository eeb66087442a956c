/* GEMM for a few rows of x and storage that is consecutive along n, as in the
 * gradient of a GEMM with a few rows: y[m][n] = sum over k of x[m][k] *
 * w[n][k]. As in gemv_transposed.c lines of codes are read in order and
 * products are added to accumulators in the scratch. DEPTH elements of k of
 * SHIFTS vectors of columns are decoded to registers and multiplied with all
 * rows of x, so that decoding is paid once, and an accumulator is loaded and
 * stored once for DEPTH products.
 *
 * `pack_a` makes x f32 with the elements of a panel of each row side by side.
 * The scratch: accumulators of a block of rows and columns, which begin at zero
 * for each PANEL elements of k, and their totals. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/f32/pack_a.h"
#include "lib/kernels/f32/transposed_line.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"

#define PANEL  256u
#define DEPTH  4u  /* elements of k at a time */
#define SHIFTS 4u  /* vectors of columns at a time */
#define ROWS   16u /* of x, with accumulators at a time */

/* Accumulators: half of the first-level cache of 32 KiB. */
#define ACCUMULATORS 4096u

/* Columns of a block are whole lines of any encoding: one of 2 bits has 256. */
#define MOST_ELEMENTS 256u

static unsigned rows_of(const nabla_fused_spec *spec) {
  uint64_t last = nabla_spec_last_m(spec);
  return last < ROWS ? (unsigned)last : ROWS;
}

static nabla_row_tiles row_tiles(void) { return (nabla_row_tiles){1, PANEL}; }

static void pack_a(nabla_emitter *e) { nabla_emit_pack_a(e, row_tiles()); }

static int applies(const nabla_fused_spec *spec) {
  return !nabla_spec_is_row(spec) && spec->m_min > 1 && spec->n && spec->k &&
         spec->numerics == NABLA_NUMERICS_F32 &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE &&
         spec->w.format.encoding && spec->w.format.encoding->bits > 1 &&
         NABLA_HAS(spec->features, AVX512F) &&
         nabla_transposed_has_lines(spec) &&
         !nabla_format_is_llm_int8(&spec->w.format);
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return 2 * (uint64_t)ACCUMULATORS * 4;
}

/* A block of y with accumulators: `rows` rows from `row`, `columns` columns
 * from `column`; and the panel of `count` elements from k that is multiplied.
 * Accumulators of two rows are `stride` apart: as many as there is room for,
 * since longer pieces of lines are read faster. */
typedef struct block {
  nabla_ssa row, rows, column, columns, stride;
  nabla_ssa k, count;
} block;

static nabla_ssa stride_of(nabla_emitter *e) {
  nabla_ssa rows = k_minimum(e, e->m, k_i64(e, rows_of(e->spec)));
  nabla_ssa lines = k_op(e, "arith.divui %%v%u, %%v%u : i64",
                         k_i64(e, ACCUMULATORS / MOST_ELEMENTS), rows);
  return k_multiply(e, lines, MOST_ELEMENTS);
}

static nabla_array_ref sums_of(const nabla_emitter *e) {
  return nabla_floats_at(e->scratch);
}

/* Decoded columns: of each of `depth` elements of k SHIFTS vectors. */
typedef struct values {
  nabla_ssa v[DEPTH][SHIFTS];
  unsigned depth, shifts;
} values;

/* Adds the products of element `k` of the panel and those behind to the sums
 * from `column` of the block on, for each row of the block. */
static void multiply(nabla_emitter *e, const block *b, const values *w,
                     nabla_ssa k, nabla_ssa column) {
  const nabla_ssa x =
      nabla_emit_packed_a(e, row_tiles(), b->row, b->k, b->count);
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), b->rows, 1, 0, NULL);
  nabla_ssa from = k_add(e, k_product(e, rows.induction, b->count), k);
  nabla_ssa to = k_product(e, rows.induction, b->stride);
  to = k_add(e, to, column);
  nabla_ssa sums[SHIFTS];
  for (unsigned s = 0; s < w->shifts; s++)
    sums[s] = k_read_lanes(e, sums_of(e),
                           k_add_constant(e, to, (uint64_t)s * NABLA_LANES),
                           NABLA_LANES);
  for (unsigned d = 0; d < w->depth; d++) {
    nabla_ssa one = k_read(e, nabla_floats_at(x), k_add_constant(e, from, d));
    one = k_broadcast(e, "f32", one);
    for (unsigned s = 0; s < w->shifts; s++)
      sums[s] = k_fma(e, NABLA_VECTOR, w->v[d][s], one, sums[s]);
  }
  for (unsigned s = 0; s < w->shifts; s++)
    k_write_lanes(e, sums_of(e),
                  k_add_constant(e, to, (uint64_t)s * NABLA_LANES), sums[s]);
  k_loop_end(e, &rows, NULL);
}

/* `depth` elements from element `k` of the panel on of the line at `column`. */
static void multiply_line(nabla_emitter *e, const block *b, nabla_ssa k,
                          unsigned depth, nabla_ssa column) {
  const unsigned bits = e->spec->w.format.encoding->bits, all = 32 / bits;
  nabla_transposed_line lines[DEPTH];
  nabla_ssa first = k_add(e, b->column, column);
  for (unsigned d = 0; d < depth; d++) {
    nabla_ssa at = k_add(e, b->k, k_add_constant(e, k, d));
    at = nabla_emit_flat(e, at, nabla_transposed_stride(e->spec));
    lines[d] = nabla_emit_transposed_line(e, k_add(e, at, first), DEPTH);
  }
  for (unsigned i = 0; i < all; i += SHIFTS) {
    values w = {.depth = depth, .shifts = all - i < SHIFTS ? all - i : SHIFTS};
    for (unsigned d = 0; d < depth; d++)
      for (unsigned s = 0; s < w.shifts; s++) {
        nabla_ssa by = k_i32(e, NABLA_VECTOR, bits * (i + s));
        nabla_ssa code = k_op(e, "arith.shrui %%v%u, %%v%u : vector<16xi32>",
                              lines[d].dwords, by);
        w.v[d][s] = nabla_emit_scaled(e, nabla_emit_code_value(e, code),
                                      lines[d].zeros, lines[d].scales);
      }
    multiply(e, b, &w, k, k_add_constant(e, column, (uint64_t)i * NABLA_LANES));
  }
}

/* Elements [from, to) of the panel, `depth` at a time, of all lines. */
static void multiply_range(nabla_emitter *e, const block *b, nabla_ssa from,
                           nabla_ssa to, unsigned depth) {
  nabla_loop steps, lines;
  k_loop_begin(e, &steps, from, to, depth, 0, NULL);
  k_loop_begin(e, &lines, k_i64(e, 0), b->columns,
               nabla_transposed_elements(e->spec), 0, NULL);
  multiply_line(e, b, steps.induction, depth, lines.induction);
  k_loop_end(e, &lines, NULL);
  k_loop_end(e, &steps, NULL);
}

/* Adds the sums of a block to its totals, and clears the sums. */
static void add_to_totals(nabla_emitter *e, const block *b) {
  nabla_loop rows, columns;
  nabla_array_ref sums = sums_of(e);
  k_loop_begin(e, &rows, k_i64(e, 0), b->rows, 1, 0, NULL);
  nabla_ssa row = k_product(e, rows.induction, b->stride);
  k_loop_begin(e, &columns, k_i64(e, 0), b->columns, NABLA_LANES, 0, NULL);
  nabla_ssa at = k_add(e, row, columns.induction);
  nabla_ssa to = k_add_constant(e, at, ACCUMULATORS);
  nabla_ssa total =
      k_binary(e, NABLA_VECTOR, "addf", k_read_lanes(e, sums, at, NABLA_LANES),
               k_read_lanes(e, sums, to, NABLA_LANES));
  k_write_lanes(e, sums, to, total);
  k_write_lanes(e, sums, at, k_f32(e, NABLA_VECTOR, 0));
  k_loop_end(e, &columns, NULL);
  k_loop_end(e, &rows, NULL);
}

static void multiply_panel(nabla_emitter *e, const block *b) {
  nabla_ssa whole = k_multiply(e, k_divide(e, b->count, DEPTH), DEPTH);
  multiply_range(e, b, k_i64(e, 0), whole, DEPTH);
  if (e->spec->k % DEPTH) multiply_range(e, b, whole, b->count, 1);
  add_to_totals(e, b);
}

static void write_block(nabla_emitter *e, const block *b) {
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), b->rows, 1, 0, NULL);
  nabla_ssa at = k_product(e, rows.induction, b->stride);
  at = k_multiply(e, k_add_constant(e, at, ACCUMULATORS), 4);
  nabla_emit_transposed_finish(e, k_address(e, e->scratch, at),
                               k_add(e, b->row, rows.induction), b->column,
                               b->columns);
  k_loop_end(e, &rows, NULL);
}

static void run(nabla_emitter *e) {
  nabla_loop columns, rows, panels;
  nabla_ssa zero = k_i64(e, 0);
  block b;
  b.stride = stride_of(e);
  nabla_ssa all = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->end, e->begin);
  nabla_ssa last = k_op(e, "arith.addi %%v%u, %%v%u : i64", all, b.stride);
  last = k_op(e, "arith.subi %%v%u, %%v%u : i64", last, k_i64(e, 1));
  nabla_ssa blocks = k_op(e, "arith.divui %%v%u, %%v%u : i64", last, b.stride);
  k_loop_begin(e, &columns, zero, blocks, 1, 0, NULL);
  nabla_ssa before = k_product(e, columns.induction, b.stride);
  b.column = k_add(e, e->begin, before);
  nabla_ssa left = k_op(e, "arith.subi %%v%u, %%v%u : i64", all, before);
  b.columns = k_minimum(e, left, b.stride);
  k_loop_begin(e, &rows, zero, e->m, rows_of(e->spec), 0, NULL);
  b.row = rows.induction;
  b.rows = nabla_emit_rows_left(e, b.row, rows_of(e->spec));
  k_clear(e, sums_of(e), k_i64(e, 2 * (uint64_t)ACCUMULATORS));
  k_loop_begin(e, &panels, zero, e->k, PANEL, 0, NULL);
  b.k = panels.induction;
  b.count = nabla_emit_left(e, e->k, b.k, PANEL);
  multiply_panel(e, &b);
  k_loop_end(e, &panels, NULL);
  write_block(e, &b);
  k_loop_end(e, &rows, NULL);
  k_loop_end(e, &columns, NULL);
}

/* Decoding takes some 25 ps for an element, a row of x 13. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  (void)spec;
  return 25 + 13.0 * (double)m;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  out->grain = nabla_transposed_elements(spec);
  out->workspace = nabla_row_tiles_size(row_tiles());
}

static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  uint64_t panel = PANEL;
  return (spec->k < panel ? spec->k : panel) + (spec->k + panel - 1) / panel;
}

const nabla_kernel_variant nabla_variant_gemm_transposed = {
    .name = "gemm_transposed",
    .takes_strided_x = 1,
    .takes_columns_of_x = 1,
    .applies = applies,
    .cost = cost,
    .run = run,
    .pack_a = pack_a,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
