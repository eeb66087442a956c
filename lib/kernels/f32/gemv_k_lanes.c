/* GEMV with lanes along k, for storage that is consecutive along k: y[m][n] =
 * sum over k of x[m][k] * w[n][k]. The tail of k is a last window that overlaps
 * the one before, with the lanes that are done already set to zero. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"

#define SINGLE_SUMS 4u
#define SINGLE_STEP (NABLA_LANES * SINGLE_SUMS)

#define PANEL 1024u /* elements of k that are summed before the total grows */
#define GRAIN 16u   /* columns of y: whole cache lines of f32 */

/* Rows of x (MR) that a dequantized vector is multiplied with, and their
 * accumulators. */
typedef struct tile {
  unsigned count;
  nabla_ssa rows[NABLA_LOOP_MAX]; /* addresses in x */
  nabla_ssa sums[NABLA_LOOP_MAX];
} tile;

/* The row of w that a tile is multiplied with. */
typedef struct line {
  nabla_ssa flat;   /* index of its first element in the whole weight */
  nabla_ssa scale;  /* the scale of all its elements; 0: one per block */
  uint64_t aligned; /* a divisor of `flat` */
} line;

/* Begins a row of a weight whose sizes are arguments of the kernel. Such a
 * weight has a scale for each block, one for each row, or one in all. */
static line begin_open_line(nabla_emitter *e, nabla_ssa n) {
  const nabla_fused_spec *spec = e->spec;
  line result = {.flat = k_product(e, n, e->k), .aligned = spec->any_size};
  if (spec->w.format.encoding && spec->w.format.granularity != NABLA_PER_BLOCK)
    result.scale = nabla_emit_scale(e, result.flat);
  return result;
}

static line begin_line(nabla_emitter *e, nabla_ssa n) {
  const nabla_fused_spec *spec = e->spec;
  if (spec->any_size) return begin_open_line(e, n);
  uint64_t stride = nabla_spec_row_stride(spec);
  line result = {.flat = nabla_emit_flat(e, n, stride),
                 .aligned = nabla_common_divisor(spec->offset, stride)};
  if (spec->k && nabla_lines_share_scales(spec, spec->n, stride, spec->k))
    result.scale = nabla_emit_scale(e, result.flat);
  return result;
}

static nabla_ssa zeros(nabla_emitter *e, nabla_ssa *out, unsigned count) {
  nabla_ssa zero = k_f32(e, NABLA_VECTOR, 0);
  for (unsigned i = 0; i < count; i++) out[i] = zero;
  return zero;
}

/* Elements k .. k + width of w, decoded; k is a multiple of `aligned`. */
static nabla_ssa weights(nabla_emitter *e, const line *at, nabla_ssa k,
                         uint64_t aligned, unsigned width) {
  nabla_window window = {.flat = k_add(e, at->flat, k),
                         .width = width,
                         .aligned = nabla_common_divisor(at->aligned, aligned),
                         .scale = at->scale};
  return nabla_emit_dequantize(e, &window);
}

static nabla_ssa read_x(nabla_emitter *e, nabla_ssa row, nabla_ssa k,
                        unsigned width) {
  nabla_array_ref x = {row, e->spec->x_type};
  return k_read_lanes(e, x, k, width);
}

/* Adds the products at k .. k + NABLA_LANES to the sums of all rows. */
static void multiply(nabla_emitter *e, const line *at, nabla_ssa k, tile *t) {
  nabla_ssa w = weights(e, at, k, NABLA_LANES, NABLA_LANES);
  for (unsigned i = 0; i < t->count; i++) {
    nabla_ssa x = read_x(e, t->rows[i], k, NABLA_LANES);
    t->sums[i] = k_fma(e, NABLA_VECTOR, x, w, t->sums[i]);
  }
}

/* K rounded down to a multiple of `unit`. */
static nabla_ssa whole_units(nabla_emitter *e, uint64_t unit) {
  const nabla_fused_spec *spec = e->spec;
  if (!spec->any_size) return k_i64(e, spec->k / unit * unit);
  if (spec->any_size % unit == 0) return e->k;
  return k_multiply(e, k_divide(e, e->k, unit), unit);
}

/* The same for the K % NABLA_LANES elements at the end. */
static void multiply_rest(nabla_emitter *e, const line *at, tile *t) {
  uint64_t k = e->spec->any_size ? 0 : e->spec->k;
  unsigned rest = (unsigned)(k % NABLA_LANES);
  if (!rest) return;
  int overlaps = k >= NABLA_LANES;
  uint64_t first = overlaps ? k - NABLA_LANES : 0;
  unsigned width = overlaps ? NABLA_LANES : rest;
  nabla_ssa from = k_i64(e, first);
  nabla_ssa w = weights(e, at, from, first, width);
  if (overlaps) w = nabla_emit_drop_lanes(e, w, NABLA_LANES - rest);
  for (unsigned i = 0; i < t->count; i++) {
    nabla_ssa x = read_x(e, t->rows[i], from, width);
    if (overlaps) x = nabla_emit_drop_lanes(e, x, NABLA_LANES - rest);
    t->sums[i] = k_fma(e, NABLA_VECTOR, x, w, t->sums[i]);
  }
}

/* Prefetches the codes that follow those at `k`: of a dense weight all cache
 * lines of a step. */
static void prefetch(nabla_emitter *e, const line *at, nabla_ssa k) {
  nabla_ssa byte = nabla_emit_code_byte(e, k_add(e, at->flat, k));
  const nabla_fused_spec *spec = e->spec;
  const int is_f32 =
      spec->w.kind == NABLA_STORAGE_DENSE && spec->w_stored == NABLA_DTYPE_F32;
  byte = k_add_constant(e, byte,
                        is_f32 ? k_family(e)->stream : k_family(e)->lanes);
  const uint64_t lines =
      nabla_spec_is_dense(spec)
          ? SINGLE_STEP * nabla_dtype_bits(spec->w_stored) / 512
          : 1;
  for (uint64_t i = 0; i < lines; i++)
    k_prefetch(e, e->codes, k_add_constant(e, byte, i * 64));
}

/* The sum for one row of x: SINGLE_SUMS independent accumulators, so that no
 * accumulation chain is longer than K / 64 + 8. */
static nabla_ssa sum_single(nabla_emitter *e, const line *at) {
  nabla_ssa zero = k_i64(e, 0), sums[SINGLE_SUMS];
  const nabla_fused_spec *spec = e->spec;
  int has_steps = spec->any_size || spec->k >= SINGLE_STEP;
  int has_vectors = spec->any_size ? spec->any_size % SINGLE_STEP != 0
                                   : spec->k % SINGLE_STEP >= NABLA_LANES;
  nabla_ssa steps = whole_units(e, SINGLE_STEP);
  tile t = {.count = 1, .rows = {e->x}};
  nabla_ssa none = zeros(e, sums, SINGLE_SUMS);
  if (has_steps) {
    nabla_loop loop;
    k_loop_begin(e, &loop, zero, steps, SINGLE_STEP, SINGLE_SUMS, sums);
    prefetch(e, at, loop.induction);
    for (unsigned i = 0; i < SINGLE_SUMS; i++) {
      nabla_ssa k =
          k_add_constant(e, loop.induction, (uint64_t)i * NABLA_LANES);
      t.sums[0] = loop.carried[i];
      multiply(e, at, k, &t);
      sums[i] = t.sums[0];
    }
    k_loop_end(e, &loop, sums);
    for (unsigned i = 0; i < SINGLE_SUMS; i++) sums[i] = loop.results[i];
  }
  for (unsigned i = 0; i < 2; i++) /* a tree of two levels */
    sums[i] = k_binary(e, NABLA_VECTOR, "addf", sums[i], sums[i + 2]);
  t.sums[0] = none;
  if (has_vectors) {
    nabla_loop loop;
    nabla_ssa to = whole_units(e, NABLA_LANES);
    k_loop_begin(e, &loop, steps, to, NABLA_LANES, 1, t.sums);
    t.sums[0] = loop.carried[0];
    multiply(e, at, loop.induction, &t);
    k_loop_end(e, &loop, t.sums);
    t.sums[0] = loop.results[0];
  }
  multiply_rest(e, at, &t);
  sums[0] = k_binary(e, NABLA_VECTOR, "addf", sums[0], sums[1]);
  return k_binary(e, NABLA_VECTOR, "addf", sums[0], t.sums[0]);
}

static void emit_single(nabla_emitter *e) {
  nabla_loop loop;
  nabla_ssa begin = e->begin, end = e->end;
  k_loop_begin(e, &loop, begin, end, 1, 0, NULL);
  line at = begin_line(e, loop.induction);
  nabla_ssa sums = sum_single(e, &at);
  nabla_emit_finish_sum(e, sums, k_i64(e, 0), loop.induction);
  k_loop_end(e, &loop, NULL);
}

/* The sums of a tile, in panels that begin at zero. */
static void sum_panels(nabla_emitter *e, const line *at, tile *t) {
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa end = whole_units(e, NABLA_LANES);
  nabla_loop panels, steps;
  nabla_ssa none[NABLA_LOOP_MAX];
  zeros(e, none, t->count);
  k_loop_begin(e, &panels, zero, end, PANEL, t->count, none);
  nabla_ssa stop = k_add_constant(e, panels.induction, PANEL);
  stop = k_minimum(e, stop, end);
  k_loop_begin(e, &steps, panels.induction, stop, NABLA_LANES, t->count, none);
  for (unsigned i = 0; i < t->count; i++) t->sums[i] = steps.carried[i];
  multiply(e, at, steps.induction, t);
  k_loop_end(e, &steps, t->sums);
  for (unsigned i = 0; i < t->count; i++)
    t->sums[i] =
        k_binary(e, NABLA_VECTOR, "addf", panels.carried[i], steps.results[i]);
  k_loop_end(e, &panels, t->sums);
  for (unsigned i = 0; i < t->count; i++) t->sums[i] = panels.results[i];
  multiply_rest(e, at, t);
}

static void emit_tiles(nabla_emitter *e) {
  tile t = {.count = nabla_row_tile(e->spec)};
  nabla_loop rows, loop, each;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa begin = e->begin, end = e->end;
  k_loop_begin(e, &rows, zero, e->m, t.count, 0, NULL);
  nabla_emit_tile_rows(e, rows.induction, t.count, t.rows);
  k_loop_begin(e, &loop, begin, end, 1, 0, NULL);
  line at = begin_line(e, loop.induction);
  sum_panels(e, &at, &t);
  nabla_emit_keep_sums(e, t.count, t.sums);
  nabla_ssa left = nabla_emit_rows_left(e, rows.induction, t.count);
  k_loop_begin(e, &each, zero, left, 1, 0, NULL);
  nabla_emit_finish_sum(e, nabla_emit_kept_sum(e, each.induction),
                        k_add(e, rows.induction, each.induction),
                        loop.induction);
  k_loop_end(e, &each, NULL);
  k_loop_end(e, &loop, NULL);
  k_loop_end(e, &rows, NULL);
}

static int applies(const nabla_fused_spec *spec) {
  return nabla_spec_is_row(spec) && spec->numerics == NABLA_NUMERICS_F32 &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
}

/* A vector of 16 weights is decoded in some 5 ns for a tile of rows. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  unsigned height = nabla_row_tile(spec);
  return 300.0 * (double)((m + height - 1) / height) + 30.0 * (double)m;
}

static void emit_rows(nabla_emitter *e) {
  nabla_emit_by_rows(e, emit_single, emit_tiles);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  (void)spec;
  out->grain = GRAIN;
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return NABLA_SUMS_BYTES;
}

/* The longest chain of additions. The lanes of a vector are added in a tree of
 * 4 levels. One row of x: a sum takes every fourth vector, the four sums are
 * added in 2 levels, then the vectors at the end. More rows: the vectors of a
 * panel, then the panels, then the end. A kernel for both has the longer
 * chain. */
static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  uint64_t vectors = spec->k / NABLA_LANES + (spec->k % NABLA_LANES != 0);
  uint64_t panel = PANEL / NABLA_LANES;
  uint64_t single = vectors / SINGLE_SUMS + 3;
  if (single < vectors % SINGLE_SUMS + 1) single = vectors % SINGLE_SUMS + 1;
  uint64_t tiles =
      (vectors < panel ? vectors : panel) + (vectors + panel - 1) / panel + 1;
  if (spec->m_min > 1) single = 0;
  if (spec->m_max == 1) tiles = 0;
  return (single > tiles ? single : tiles) + 4;
}

const nabla_kernel_variant nabla_variant_gemv_k_lanes = {
    .name = "gemv_k_lanes",
    .takes_blocks = 1,
    .takes_strided_x = 1,
    .applies = applies,
    .cost = cost,
    .run = emit_rows,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
