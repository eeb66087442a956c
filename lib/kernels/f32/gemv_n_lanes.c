/* GEMV with lanes along n, for storage that is consecutive along n: y[m][n] =
 * sum over k of x[m][k] * w[n][k]; each element of x is broadcast. The tail of
 * n is a last window that overlaps the one before and stores its last lanes
 * only. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/epilogue.h"
#include "lib/kernels/tile_util.h"

/* Windows side by side for one row of x: with 4-bit codes a cache line. */
#define SINGLE_WINDOWS 8u
#define PREFETCH_ROWS  16u
#define GRAIN          (SINGLE_WINDOWS * NABLA_LANES)

/* Elements of k that an accumulator sums before it is added to the total. */
#define PANEL 256u

/* Columns that are summed together, and rows of x. */
typedef struct block {
  unsigned windows, rows;
  unsigned width;   /* of the last window; of all if there are more */
  uint64_t aligned; /* `first` is a multiple of it */
  nabla_ssa first;  /* column */
  nabla_ssa row;    /* of y */
  nabla_ssa done;   /* lanes before it are another window's; 0: none are */
  nabla_ssa x[NABLA_LOOP_MAX]; /* addresses of rows of x */
} block;

/* Windows side by side for one row of x, where there are fewer columns. */
static unsigned single_windows(const nabla_fused_spec *spec) {
  const uint64_t all = spec->n / NABLA_LANES;
  if (all >= SINGLE_WINDOWS) return SINGLE_WINDOWS;
  return all ? (unsigned)all : 1;
}

static uint64_t stride_between(const nabla_fused_spec *spec) {
  return spec->k != 1 ? spec->stride_k : 0;
}

static unsigned window_tile(const nabla_fused_spec *spec) {
  return NABLA_HAS(spec->features, AVX512F) ? 2 : 1;
}

/* Prefetches the codes and scales of the same columns some rows further on:
 * rows are far apart, and hardware does not prefetch them. */
static void prefetch(nabla_emitter *e, nabla_ssa flat, uint64_t stride) {
  const nabla_format *format = &e->spec->w.format;
  nabla_ssa ahead = k_add_constant(e, flat, PREFETCH_ROWS * stride);
  k_prefetch(e, e->codes, nabla_emit_code_byte(e, ahead));
  if (!format->encoding) return;
  nabla_ssa scale = k_divide(e, ahead, format->block);
  k_prefetch(e, e->scales,
             k_multiply(e, scale, nabla_scale_info_of(format->scale)->bytes));
}

/* Adds the products of row k of the storage to the sums. */
static void multiply(nabla_emitter *e, const block *b, nabla_ssa k,
                     nabla_ssa *sums) {
  const nabla_fused_spec *spec = e->spec;
  uint64_t stride = stride_between(spec);
  nabla_ssa x[NABLA_LOOP_MAX], scale = 0;
  nabla_ssa line = nabla_emit_flat(e, k, stride);
  nabla_window window = {
      .width = b->width,
      .aligned = nabla_common_divisor(
          b->aligned, nabla_common_divisor(spec->offset, stride))};
  if (nabla_lines_share_scales(spec, spec->k, stride, spec->n))
    scale = nabla_emit_scale(e, line);
  window.scale = scale;
  for (unsigned j = 0; j < b->rows; j++) {
    nabla_array_ref array = {b->x[j], spec->x_type};
    x[j] = k_broadcast(e, "f32", k_read(e, array, k));
  }
  nabla_ssa flat = k_add(e, line, b->first);
  prefetch(e, flat, stride);
  for (unsigned i = 0; i < b->windows; i++) {
    window.flat = k_add_constant(e, flat, (uint64_t)i * NABLA_LANES);
    nabla_ssa w = nabla_emit_dequantize(e, &window);
    for (unsigned j = 0; j < b->rows; j++) {
      nabla_ssa *sum = &sums[i * b->rows + j];
      *sum = k_fma(e, NABLA_VECTOR, x[j], w, *sum);
    }
  }
}

/* The sums of a block, in panels that begin at zero. */
static void sum_panels(nabla_emitter *e, const block *b, nabla_ssa *sums) {
  unsigned count = b->windows * b->rows;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa end = e->k;
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  nabla_loop panels, steps;
  for (unsigned i = 0; i < count; i++) sums[i] = none;
  k_loop_begin(e, &panels, zero, end, PANEL, count, sums);
  nabla_ssa stop = k_add_constant(e, panels.induction, PANEL);
  stop = k_minimum(e, stop, end);
  k_loop_begin(e, &steps, panels.induction, stop, 1, count, sums);
  for (unsigned i = 0; i < count; i++) sums[i] = steps.carried[i];
  multiply(e, b, steps.induction, sums);
  k_loop_end(e, &steps, sums);
  for (unsigned i = 0; i < count; i++)
    sums[i] =
        k_binary(e, NABLA_VECTOR, "addf", panels.carried[i], steps.results[i]);
  k_loop_end(e, &panels, sums);
  for (unsigned i = 0; i < count; i++) sums[i] = panels.results[i];
}

/* Stores some lanes, one by one. `kept` is where the value was kept, which can
 * be overwritten. */
static void write_some(nabla_emitter *e, const block *b, nabla_ssa value,
                       nabla_ssa kept, nabla_ssa first) {
  nabla_array_ref y = {e->y, e->spec->y_type};
  nabla_array_ref scratch = {e->scratch, NABLA_DTYPE_F32};
  nabla_ssa at = k_multiply(e, kept, NABLA_LANES);
  nabla_loop lanes;
  k_write_lanes(e, scratch, at, value);
  nabla_ssa begin = b->done ? b->done : k_i64(e, 0);
  k_loop_begin(e, &lanes, begin, k_i64(e, b->width), 1, 0, NULL);
  nabla_ssa one = k_read(e, scratch, k_add(e, at, lanes.induction));
  k_write(e, y, k_add(e, first, lanes.induction), one);
  k_loop_end(e, &lanes, NULL);
}

/* From the sum that was kept as number `kept` to y. */
static void finish(nabla_emitter *e, const block *b, nabla_ssa kept,
                   nabla_ssa row, nabla_ssa column) {
  nabla_array_ref y = {e->y, e->spec->y_type};
  nabla_ssa value = nabla_emit_kept_sum(e, kept);
  value = nabla_emit_epilogue(e, NABLA_VECTOR, value, row, column, b->width);
  nabla_ssa first = nabla_emit_y_index(e, row, column);
  if (b->done || b->width < NABLA_LANES)
    write_some(e, b, value, kept, first);
  else
    k_write_lanes(e, y, first, value);
}

/* Sums are kept window by window, rows inside. */
static void emit_block(nabla_emitter *e, const block *b) {
  nabla_ssa sums[NABLA_LOOP_MAX], zero = k_i64(e, 0);
  nabla_loop rows, windows;
  sum_panels(e, b, sums);
  nabla_emit_keep_sums(e, b->windows * b->rows, sums);
  nabla_ssa left = nabla_emit_rows_left(e, b->row, b->rows);
  nabla_ssa count = k_i64(e, b->windows);
  k_loop_begin(e, &rows, zero, left, 1, 0, NULL);
  k_loop_begin(e, &windows, zero, count, 1, 0, NULL);
  nabla_ssa row = k_add(e, b->row, rows.induction);
  nabla_ssa at = k_multiply(e, windows.induction, b->rows);
  nabla_ssa kept = k_add(e, at, rows.induction);
  nabla_ssa column = k_multiply(e, windows.induction, NABLA_LANES);
  finish(e, b, kept, row, k_add(e, b->first, column));
  k_loop_end(e, &windows, NULL);
  k_loop_end(e, &rows, NULL);
}

/* Columns from `begin` on that do not fill a block: window by window, the last
 * one moved back so that it ends with the last column. */
static void emit_rest(nabla_emitter *e, block b, nabla_ssa begin,
                      nabla_ssa end) {
  uint64_t n = e->spec->n;
  nabla_loop loop;
  b.windows = 1;
  k_loop_begin(e, &loop, begin, end, NABLA_LANES, 0, NULL);
  b.first = loop.induction;
  b.width = n < NABLA_LANES ? (unsigned)n : NABLA_LANES;
  b.aligned = n < NABLA_LANES ? 0 : NABLA_LANES; /* one window, at 0 */
  if (n > NABLA_LANES && n % NABLA_LANES) {
    uint64_t last = n - NABLA_LANES;
    b.aligned = nabla_common_divisor(b.aligned, last);
    b.first = k_minimum(e, loop.induction, k_i64(e, last));
    b.done = k_op(e, "arith.subi %%v%u, %%v%u : i64", loop.induction, b.first);
  }
  emit_block(e, &b);
  k_loop_end(e, &loop, NULL);
}

/* All columns from begin to end for the rows of `b`. */
static void emit_columns(nabla_emitter *e, block b) {
  uint64_t step = (uint64_t)b.windows * NABLA_LANES;
  nabla_ssa begin = e->begin, end = e->end;
  if (e->spec->n >= step) {
    nabla_loop loop;
    nabla_ssa count = k_op(e, "arith.subi %%v%u, %%v%u : i64", end, begin);
    count = k_multiply(e, k_divide(e, count, step), step);
    nabla_ssa whole = k_add(e, begin, count);
    k_loop_begin(e, &loop, begin, whole, step, 0, NULL);
    b.first = loop.induction;
    b.aligned = NABLA_LANES;
    b.width = NABLA_LANES;
    emit_block(e, &b);
    k_loop_end(e, &loop, NULL);
    begin = whole;
  }
  if (e->spec->n % step) emit_rest(e, b, begin, end);
}

static void emit_single(nabla_emitter *e) {
  nabla_ssa zero = k_i64(e, 0);
  block b = {
      .windows = single_windows(e->spec), .rows = 1, .row = zero, .x = {e->x}};
  emit_columns(e, b);
}

static void emit_tiles(nabla_emitter *e) {
  const nabla_fused_spec *spec = e->spec;
  block b = {.windows = window_tile(spec), .rows = nabla_row_tile(spec)};
  nabla_loop rows;
  nabla_ssa zero = k_i64(e, 0);
  k_loop_begin(e, &rows, zero, e->m, b.rows, 0, NULL);
  b.row = rows.induction;
  nabla_emit_tile_rows(e, rows.induction, b.rows, b.x);
  emit_columns(e, b);
  k_loop_end(e, &rows, NULL);
}

static int applies(const nabla_fused_spec *spec) {
  return !nabla_spec_is_row(spec) && spec->numerics == NABLA_NUMERICS_F32 &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
}

static double cost(const nabla_fused_spec *spec, uint64_t m) {
  unsigned height = nabla_row_tile(spec);
  double slower = NABLA_HAS(spec->features, AVX512F) ? 1 : 2;
  return slower *
         (300.0 * (double)((m + height - 1) / height) + 30.0 * (double)m);
}

static void emit_all(nabla_emitter *e) {
  nabla_emit_by_rows(e, emit_single, emit_tiles);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  (void)spec;
  out->grain = GRAIN;
}

static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  uint64_t panel = PANEL;
  return (spec->k < panel ? spec->k : panel) + (spec->k + panel - 1) / panel;
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return NABLA_SUMS_BYTES;
}

const nabla_kernel_variant nabla_variant_gemv_n_lanes = {
    .name = "gemv_n_lanes",
    .takes_blocks = 1,
    .takes_strided_x = 1,
    .takes_open = NABLA_OPEN_K,
    .applies = applies,
    .cost = cost,
    .run = emit_all,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
