/* GEMV for M up to 4 with a dense weight whose rows are consecutive along k:
 * y[m][n] = sum over k of x[m][k] * w[n][k]. Four rows of w are multiplied side
 * by side, from four parts of the range of columns: several streams have more
 * memory bandwidth than one, and each load of x serves all of them. Two tensors
 * of bf16 are multiplied as pairs by vdpbf16ps, where numerics allow it and the
 * target has it. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"

#define GRAIN 16u
#define ROWS  4u /* of x */
#define SIDE  4u /* rows of w */

/* Accumulators, of which each of ROWS x SIDE sums has as many as there are
 * registers for. */
#define SUMS_MAX 16u

/* Elements of k that an accumulator sums before it is added to a total, with
 * more than one row of x. */
#define PANEL 2048u

typedef struct gemv {
  unsigned rows;  /* of x */
  unsigned sums;  /* accumulators of an element of y */
  unsigned width; /* elements of a vector of w: NABLA_LANES or pairs */
  nabla_ssa x[ROWS], w[SIDE]; /* addresses of rows */
  nabla_ssa column[SIDE];
} gemv;

static int by_pairs(const nabla_fused_spec *spec) {
  return spec->numerics == NABLA_NUMERICS_BF16 &&
         spec->x_type == NABLA_DTYPE_BF16 &&
         spec->w_stored == NABLA_DTYPE_BF16 &&
         NABLA_HAS(spec->features, AVX512BF16);
}

/* The code for `rows` rows of x: 1, 2 or ROWS. */
static gemv gemv_of(const nabla_fused_spec *spec, unsigned rows) {
  return (gemv){.rows = rows,
                .sums = SUMS_MAX / SIDE / rows,
                .width = by_pairs(spec) ? 2 * NABLA_LANES : NABLA_LANES};
}

/* ---- products ---------------------------------------------------------------
 */

/* Elements from `k` on: f32, or pairs of bf16. */
static nabla_ssa read_vector(nabla_emitter *e, const gemv *g, nabla_ssa row,
                             nabla_dtype dtype, nabla_ssa k) {
  if (g->width == NABLA_LANES)
    return k_read_lanes(e, (nabla_array_ref){row, dtype}, k, NABLA_LANES);
  return k_load(e, "vector<32xbf16>", row, k_multiply(e, k, 2), 2);
}

static nabla_ssa multiply_vector(nabla_emitter *e, const gemv *g, nabla_ssa x,
                                 nabla_ssa w, nabla_ssa sum) {
  if (g->width == NABLA_LANES) return k_fma(e, NABLA_VECTOR, x, w, sum);
  return k_op(e,
              "llvm.call_intrinsic \"llvm.x86.avx512bf16.dpbf16ps.512\"(%%v%u, "
              "%%v%u, %%v%u) : (vector<16xf32>, vector<32xbf16>, "
              "vector<32xbf16>) -> vector<16xf32>",
              sum, x, w);
}

/* Prefetches the lines of w that follow the step at `k`. */
static void prefetch(nabla_emitter *e, const gemv *g, unsigned side,
                     nabla_ssa k) {
  const nabla_cpu_family *family = k_family(e);
  const unsigned size = nabla_dtype_bits(e->spec->w_stored) / 8;
  if (family->dense && g->rows == 1) return;
  nabla_ssa byte =
      k_add_constant(e, k_multiply(e, k, size),
                     family->dense ? family->dense : family->stream);
  for (unsigned i = 0; i < g->sums * g->width * size; i += 64) {
    nabla_ssa at = k_add_constant(e, byte, i);
    if (family->dense)
      k_prefetch_far(e, k_address(e, g->w[side], at));
    else
      k_prefetch(e, g->w[side], at);
  }
}

/* Adds the products of g->sums vectors from `k` on to the accumulators: those
 * of a sum follow each other. */
static void multiply_step(nabla_emitter *e, const gemv *g, nabla_ssa k,
                          nabla_ssa *sums) {
  for (unsigned s = 0; s < SIDE; s++) prefetch(e, g, s, k);
  for (unsigned i = 0; i < g->sums; i++) {
    nabla_ssa at = k_add_constant(e, k, (uint64_t)i * g->width), x[ROWS];
    for (unsigned r = 0; r < g->rows; r++)
      x[r] = read_vector(e, g, g->x[r], e->spec->x_type, at);
    for (unsigned s = 0; s < SIDE; s++) {
      nabla_ssa w = read_vector(e, g, g->w[s], e->spec->w_stored, at);
      for (unsigned r = 0; r < g->rows; r++) {
        nabla_ssa *sum = &sums[(s * g->rows + r) * g->sums + i];
        *sum = multiply_vector(e, g, x[r], w, *sum);
      }
    }
  }
}

/* Elements of k behind the last step: `width` from `k` on, of which the first
 * `done` were there before, or those in the lanes of `mask`, if it is not 0. */
typedef struct rest {
  nabla_ssa k, mask;
  unsigned width, done;
} rest;

/* 16 bits, or 32, of the lanes of `mask`, and zeros. */
static nabla_ssa read_masked(nabla_emitter *e, nabla_array_ref array,
                             const rest *at) {
  const int is_f32 = array.dtype == NABLA_DTYPE_F32;
  const char *type = is_f32 ? "vector<16xf32>" : "vector<16xi16>";
  const unsigned size = is_f32 ? 4 : 2;
  nabla_ssa from = k_address(e, array.base, k_multiply(e, at->k, size));
  nabla_ssa none = k_op(e, "llvm.mlir.zero : %s", type);
  nabla_ssa value = k_op(e,
                         "llvm.intr.masked.load %%v%u, %%v%u, %%v%u "
                         "{alignment = %u : i32} : (!llvm.ptr, vector<16xi1>, "
                         "%s) -> %s",
                         from, at->mask, none, size, type, type);
  return is_f32 ? value : k_widen(e, NABLA_VECTOR, array.dtype, value);
}

static nabla_ssa read_rest(nabla_emitter *e, nabla_ssa row, nabla_dtype dtype,
                           const rest *at) {
  nabla_array_ref array = {row, dtype};
  if (at->mask) return read_masked(e, array, at);
  nabla_ssa value = k_read_lanes(e, array, at->k, at->width);
  return at->done ? nabla_emit_drop_lanes(e, value, at->done) : value;
}

/* Adds the products of these to the accumulators, one for each sum. */
static void multiply_rest(nabla_emitter *e, const gemv *g, const rest *at,
                          nabla_ssa *sums) {
  nabla_ssa x[ROWS];
  for (unsigned r = 0; r < g->rows; r++)
    x[r] = read_rest(e, g->x[r], e->spec->x_type, at);
  for (unsigned s = 0; s < SIDE; s++) {
    nabla_ssa w = read_rest(e, g->w[s], e->spec->w_stored, at);
    for (unsigned r = 0; r < g->rows; r++) {
      nabla_ssa *sum = &sums[s * g->rows + r];
      *sum = k_fma(e, NABLA_VECTOR, x[r], w, *sum);
    }
  }
}

/* ---- sums -------------------------------------------------------------------
 */

static void clear(nabla_emitter *e, unsigned count, nabla_ssa *out) {
  for (unsigned i = 0; i < count; i++) out[i] = k_f32(e, NABLA_VECTOR, 0);
}

/* K rounded down to a multiple of `unit`. */
static nabla_ssa whole_units(nabla_emitter *e, uint64_t unit) {
  return k_multiply(e, k_divide(e, e->k, unit), unit);
}

/* Adds the products of [from, to), whole steps, to `totals`, one for each
 * sum. */
static void add_steps(nabla_emitter *e, const gemv *g, nabla_ssa from,
                      nabla_ssa to, nabla_ssa *totals) {
  const unsigned step = g->sums * g->width;
  const unsigned count = SIDE * g->rows;
  nabla_ssa sums[SUMS_MAX];
  nabla_loop loop;
  clear(e, count * g->sums, sums);
  k_loop_begin(e, &loop, from, to, step, count * g->sums, sums);
  for (unsigned i = 0; i < loop.count; i++) sums[i] = loop.carried[i];
  multiply_step(e, g, loop.induction, sums);
  k_loop_end(e, &loop, sums);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa *own = &loop.results[i * g->sums];
    for (unsigned apart = g->sums / 2; apart; apart /= 2)
      for (unsigned a = 0; a < apart; a++)
        own[a] = k_binary(e, NABLA_VECTOR, "addf", own[a], own[a + apart]);
    totals[i] = k_binary(e, NABLA_VECTOR, "addf", totals[i], own[0]);
  }
}

/* Several rows of x: panels, whose sums begin at zero. */
static void add_panels(nabla_emitter *e, const gemv *g, nabla_ssa to,
                       nabla_ssa *totals) {
  const unsigned count = SIDE * g->rows;
  nabla_loop panels;
  k_loop_begin(e, &panels, k_i64(e, 0), to, PANEL, count, totals);
  for (unsigned i = 0; i < count; i++) totals[i] = panels.carried[i];
  nabla_ssa end = k_minimum(e, k_add_constant(e, panels.induction, PANEL), to);
  add_steps(e, g, panels.induction, end, totals);
  k_loop_end(e, &panels, totals);
  for (unsigned i = 0; i < count; i++) totals[i] = panels.results[i];
}

/* The last elements: those of an open K in a mask, else a window that overlaps
 * what is done. */
static void add_last(nabla_emitter *e, const gemv *g, nabla_ssa *sums) {
  const uint64_t k = e->spec->any_size ? 0 : e->spec->k;
  const unsigned count = (unsigned)(k % NABLA_LANES);
  rest last = {.width = NABLA_LANES};
  if (e->spec->open & NABLA_OPEN_K) {
    last.k = whole_units(e, NABLA_LANES);
    nabla_ssa left = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->k, last.k);
    left = k_op(e, "arith.trunci %%v%u : i64 to i32", left);
    uint32_t lanes[NABLA_LANES];
    for (uint32_t i = 0; i < NABLA_LANES; i++) lanes[i] = i;
    last.mask = k_op(e, "arith.cmpi ult, %%v%u, %%v%u : vector<16xi32>",
                     k_i32_lanes(e, lanes), k_broadcast(e, "i32", left));
  } else if (!count) {
    return;
  } else if (k < NABLA_LANES) {
    last.k = k_i64(e, 0);
    last.width = count;
  } else {
    last.k = k_i64(e, k - NABLA_LANES);
    last.done = NABLA_LANES - count;
  }
  multiply_rest(e, g, &last, sums);
}

/* The elements behind the last whole step, `from`: sums of their own, added to
 * the totals. */
static void add_rest(nabla_emitter *e, const gemv *g, nabla_ssa from,
                     nabla_ssa *totals) {
  const nabla_fused_spec *spec = e->spec;
  const unsigned step = g->sums * g->width, count = SIDE * g->rows;
  const int is_open = (spec->open & NABLA_OPEN_K) != 0;
  nabla_ssa sums[SUMS_MAX];
  if (spec->any_size ? spec->any_size % step == 0
                     : !is_open && spec->k % step == 0)
    return;
  clear(e, count, sums);
  if (spec->any_size || is_open || spec->k % step >= NABLA_LANES) {
    nabla_loop loop;
    k_loop_begin(e, &loop, from, whole_units(e, NABLA_LANES), NABLA_LANES,
                 count, sums);
    for (unsigned i = 0; i < count; i++) sums[i] = loop.carried[i];
    const rest at = {.k = loop.induction, .width = NABLA_LANES};
    multiply_rest(e, g, &at, sums);
    k_loop_end(e, &loop, sums);
    for (unsigned i = 0; i < count; i++) sums[i] = loop.results[i];
  }
  add_last(e, g, sums);
  for (unsigned i = 0; i < count; i++)
    totals[i] = k_binary(e, NABLA_VECTOR, "addf", totals[i], sums[i]);
}

/* ---- columns ----------------------------------------------------------------
 */

/* The rows of w for a column of each part: those behind the end of the range
 * are its last one again. */
static void begin_columns(nabla_emitter *e, gemv *g, nabla_ssa first,
                          nabla_ssa part) {
  nabla_ssa last =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", e->end, k_i64(e, 1));
  const unsigned size = nabla_dtype_bits(e->spec->w_stored) / 8;
  for (unsigned s = 0; s < SIDE; s++) {
    g->column[s] = s ? k_add(e, g->column[s - 1], part) : first;
    nabla_ssa row = nabla_emit_row_start(e, k_minimum(e, g->column[s], last));
    g->w[s] = k_address(e, e->codes, k_multiply(e, row, size));
  }
}

static void finish_columns(nabla_emitter *e, const gemv *g,
                           const nabla_ssa *totals) {
  nabla_emit_keep_sums(e, SIDE * g->rows, totals);
  for (unsigned s = 0; s < SIDE; s++) {
    nabla_loop rows;
    nabla_ssa inside =
        k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", g->column[s], e->end);
    k_line(e, "scf.if %%v%u {", inside);
    nabla_ssa left =
        g->rows == 1 ? k_i64(e, 1) : k_minimum(e, e->m, k_i64(e, g->rows));
    k_loop_begin(e, &rows, k_i64(e, 0), left, 1, 0, NULL);
    nabla_ssa at = k_add_constant(e, rows.induction, (uint64_t)s * g->rows);
    nabla_emit_finish_sum(e, nabla_emit_kept_sum(e, at), rows.induction,
                          g->column[s]);
    k_loop_end(e, &rows, NULL);
    k_line(e, "}");
    k_leave(e);
  }
}

static void emit_rows(nabla_emitter *e, unsigned count) {
  gemv g = gemv_of(e->spec, count);
  nabla_ssa totals[SUMS_MAX];
  nabla_loop columns;
  nabla_emit_tile_rows(e, k_i64(e, 0), g.rows, g.x);
  nabla_ssa part = nabla_emit_part(e, SIDE);
  k_loop_begin(e, &columns, e->begin, k_add(e, e->begin, part), 1, 0, NULL);
  begin_columns(e, &g, columns.induction, part);
  nabla_ssa whole = whole_units(e, g.sums * g.width);
  clear(e, SIDE * g.rows, totals);
  if (g.rows == 1)
    add_steps(e, &g, k_i64(e, 0), whole, totals);
  else
    add_panels(e, &g, whole, totals);
  add_rest(e, &g, whole, totals);
  finish_columns(e, &g, totals);
  k_loop_end(e, &columns, NULL);
}

/* One and two rows of x have code of their own: that for four would take the
 * time of four. */
static void run(nabla_emitter *e) {
  const uint64_t last = nabla_spec_last_m(e->spec);
  if (last <= 2 || e->spec->m_min > 2) {
    emit_rows(e, last <= 2 ? (unsigned)last : ROWS);
    return;
  }
  nabla_ssa few =
      k_op(e, "arith.cmpi ule, %%v%u, %%v%u : i64", e->m, k_i64(e, 2));
  k_line(e, "scf.if %%v%u {", few);
  emit_rows(e, 2);
  k_line(e, "} else {");
  k_leave(e);
  emit_rows(e, ROWS);
  k_line(e, "}");
  k_leave(e);
}

/* ---- the variant ------------------------------------------------------------
 */

static int applies(const nabla_fused_spec *spec) {
  return nabla_spec_is_dense(spec) && nabla_spec_is_row(spec) &&
         nabla_spec_last_m(spec) <= ROWS &&
         (spec->k > 0 || spec->any_size || spec->open & NABLA_OPEN_K) &&
         (spec->w_type == spec->w_stored || spec->w_type == NABLA_DTYPE_F32) &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE &&
         NABLA_HAS(spec->features, AVX512F) &&
         (spec->numerics == NABLA_NUMERICS_F32 || by_pairs(spec));
}

/* Bound by memory: some 40 ps for an element of w, and little for a row of
 * x. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  (void)spec;
  return 40 + 4.0 * (double)m;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  (void)spec;
  out->grain = GRAIN;
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return NABLA_SUMS_BYTES;
}

/* The chain: the steps of a panel, the tree of their sums and the panels, or
 * what is left; both added, and the lanes. A sum with zero is exact. */
static uint64_t chain_of(const nabla_fused_spec *spec, unsigned rows) {
  const gemv g = gemv_of(spec, rows);
  const uint64_t step = g.sums * g.width;
  const uint64_t panel = rows == 1 || spec->k < PANEL ? spec->k : PANEL;
  const uint64_t panels = rows == 1 ? 0 : spec->k / PANEL;
  const uint64_t tree = g.sums / 2; /* levels of 4 and of 2 */
  const uint64_t left = spec->k % step;
  uint64_t steps = panel / step * (g.width / NABLA_LANES) + tree + panels;
  const uint64_t rests = (left + NABLA_LANES - 1) / NABLA_LANES;
  if (spec->k < step) return rests + 4;
  if (steps < rests) steps = rests;
  return steps + (rests != 0) + 4;
}

static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  if (nabla_spec_last_m(spec) == 1) return chain_of(spec, 1);
  const uint64_t two = chain_of(spec, 2), many = chain_of(spec, ROWS);
  return two > many ? two : many;
}

const nabla_kernel_variant nabla_variant_gemv_dense = {
    .name = "gemv_dense",
    .takes_strided_x = 1,
    .takes_open = NABLA_OPEN_N | NABLA_OPEN_K | NABLA_OPEN_STRIDE,
    .dedicated_max_m = 1,
    .applies = applies,
    .cost = cost,
    .run = run,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
