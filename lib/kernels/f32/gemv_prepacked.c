/* GEMV for few rows of x and a prepacked weight (prepack.h): each element of x
 * is broadcast and multiplied with 16 rows of w in lanes, which are read as one
 * stream. No horizontal sums are needed. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/f32/prepack.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"

#define ROWS_MOST 4u
#define SUMS_MOST 4u   /* independent accumulators, for the latency of fma */
#define PANEL     256u /* elements of k of dense weights that begin at zero */

/* Rows of x, and sums of each. */
typedef struct few {
  unsigned rows, sums;
  nabla_ssa x[ROWS_MOST]; /* addresses */
} few;

static unsigned sums_of(unsigned rows) { return rows == 1 ? SUMS_MOST : 2; }

static int applies(const nabla_fused_spec *spec) {
  return nabla_packed_applies(spec) && spec->numerics == NABLA_NUMERICS_F32 &&
         nabla_spec_last_m(spec) <= ROWS_MOST;
}

/* Values may be added before they are scaled: their products have the same
 * bound. Not where zero points cancel, or values are rounded. */
static int scales_sums(const nabla_fused_spec *spec) {
  return spec->w.format.encoding && !spec->w.format.zero_point &&
         !nabla_format_is_llm_int8(&spec->w.format) &&
         spec->w_type == NABLA_DTYPE_F32;
}

/* Adds the products with element k of all rows to independent accumulator
 * `i`. */
static void add_products(nabla_emitter *e, const few *f, nabla_ssa k,
                         nabla_ssa w, unsigned i, nabla_ssa *sums) {
  for (unsigned r = 0; r < f->rows; r++) {
    nabla_array_ref row = {f->x[r], e->spec->x_type};
    nabla_ssa one = k_broadcast(e, "f32", k_read(e, row, k));
    nabla_ssa *sum = &sums[r * f->sums + i % f->sums];
    *sum = k_fma(e, NABLA_VECTOR, one, w, *sum);
  }
}

static void set_all(nabla_ssa *to, const nabla_ssa *from, unsigned count) {
  for (unsigned i = 0; i < count; i++) to[i] = from[i];
}

/* ---- encoded: records of a step ------------------------------------------
 */

/* A group of one record: the elements from k on that share scales. */
typedef struct group {
  const few *f;
  nabla_dwords from;
  nabla_ssa k, scales, zeros;
  unsigned number;
} group;

/* The products of all dwords of the group, added to sums. */
static void add_words(nabla_emitter *e, const group *g, nabla_ssa *sums) {
  const nabla_fused_spec *spec = e->spec;
  unsigned count = g->f->rows * g->f->sums;
  unsigned per_word = 32 / spec->w.format.encoding->bits;
  unsigned dwords = NABLA_LANES / nabla_dwords_groups(spec);
  nabla_loop loop;
  k_loop_begin(e, &loop, k_i64(e, 0), k_i64(e, dwords), 1, count, sums);
  nabla_ssa number =
      k_add_constant(e, loop.induction, (uint64_t)g->number * dwords);
  nabla_ssa byte = k_multiply(e, number, NABLA_BYTES);
  nabla_ssa dword = k_load(e, "vector<16xi32>", g->from.dwords, byte, 64);
  k_prefetch(e, g->from.dwords, k_add_constant(e, byte, k_family(e)->stream));
  nabla_ssa k = k_add(e, g->k, k_multiply(e, loop.induction, per_word));
  nabla_ssa next[NABLA_LOOP_MAX];
  set_all(next, loop.carried, count);
  for (unsigned i = 0; i < per_word; i++) {
    nabla_ssa w = nabla_emit_dword_value(e, dword, i);
    if (!scales_sums(spec)) w = nabla_emit_scaled(e, w, g->zeros, g->scales);
    add_products(e, g->f, k_add_constant(e, k, i), w, i, next);
  }
  k_loop_end(e, &loop, next);
  set_all(sums, loop.results, count);
}

static void clear(nabla_emitter *e, nabla_ssa *sums, unsigned count) {
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  for (unsigned i = 0; i < count; i++) sums[i] = none;
}

/* Adds accumulators that began at zero, times `scales` if not 0, to the total
 * of each row: a chain over all of k would be long. */
static void add_sums(nabla_emitter *e, const few *f, const nabla_ssa *sums,
                     nabla_ssa scales, nabla_ssa *totals) {
  for (unsigned r = 0; r < f->rows; r++) {
    nabla_ssa sum = sums[r * f->sums];
    for (unsigned i = 1; i < f->sums; i++)
      sum = k_binary(e, NABLA_VECTOR, "addf", sum, sums[r * f->sums + i]);
    totals[r] = scales ? k_fma(e, NABLA_VECTOR, sum, scales, totals[r])
                       : k_binary(e, NABLA_VECTOR, "addf", totals[r], sum);
  }
}

static void add_record(nabla_emitter *e, const few *f, nabla_ssa column,
                       nabla_ssa k, nabla_ssa *totals) {
  const nabla_fused_spec *spec = e->spec;
  unsigned groups = nabla_dwords_groups(spec);
  group g = {.f = f};
  g.from = nabla_packed_dwords(e, nabla_emit_packed_at(e, column, k));
  for (g.number = 0; g.number < groups; g.number++) {
    nabla_ssa at = k_i64(e, (uint64_t)g.number * NABLA_LANES);
    uint64_t first = nabla_dwords_step(spec) / groups * g.number;
    g.k = k_add_constant(e, k, first);
    g.scales = k_read_lanes(e, nabla_floats_at(g.from.scales), at, NABLA_LANES);
    if (spec->w.format.zero_point)
      g.zeros = k_read_lanes(e, nabla_floats_at(g.from.zeros), at, NABLA_LANES);
    nabla_ssa sums[ROWS_MOST * SUMS_MOST];
    clear(e, sums, f->rows * f->sums);
    add_words(e, &g, sums);
    add_sums(e, f, sums, scales_sums(spec) ? g.scales : 0, totals);
  }
}

/* ---- dense ----------------------------------------------------------------
 */

/* Elements [from, to) of k, `step` per iteration: their sums are added to
 * `totals`. */
static void add_dense(nabla_emitter *e, const few *f, nabla_ssa column,
                      nabla_ssa from, nabla_ssa to, unsigned step,
                      nabla_ssa *totals) {
  const nabla_fused_spec *spec = e->spec;
  unsigned count = f->rows * f->sums;
  nabla_ssa zero = k_i64(e, 0), next[NABLA_LOOP_MAX];
  nabla_ssa sums[ROWS_MOST * SUMS_MOST];
  nabla_array_ref w = {nabla_emit_packed_at(e, column, zero), spec->w_stored};
  nabla_loop loop;
  clear(e, sums, count);
  k_loop_begin(e, &loop, from, to, step, count, sums);
  set_all(next, loop.carried, count);
  for (unsigned i = 0; i < step; i++) {
    nabla_ssa k = k_add_constant(e, loop.induction, i);
    nabla_ssa at = k_multiply(e, k, NABLA_LANES);
    nabla_ssa byte = k_multiply(e, at, nabla_dtype_bits(spec->w_stored) / 8);
    k_prefetch(e, w.base, k_add_constant(e, byte, k_family(e)->stream));
    nabla_ssa value = k_read_lanes(e, w, at, NABLA_LANES);
    value = k_round(e, NABLA_VECTOR, spec->w_type, value);
    add_products(e, f, k, value, i, next);
  }
  k_loop_end(e, &loop, next);
  add_sums(e, f, loop.results, 0, totals);
}

/* All of k: panels, then the tail. */
static void sum_dense(nabla_emitter *e, const few *f, nabla_ssa column,
                      nabla_ssa *totals) {
  const uint64_t k = e->spec->k;
  nabla_ssa whole = k_i64(e, k / SUMS_MOST * SUMS_MOST);
  nabla_loop panels;
  k_loop_begin(e, &panels, k_i64(e, 0), whole, PANEL, f->rows, totals);
  set_all(totals, panels.carried, f->rows);
  nabla_ssa end =
      k_minimum(e, k_add_constant(e, panels.induction, PANEL), whole);
  add_dense(e, f, column, panels.induction, end, SUMS_MOST, totals);
  k_loop_end(e, &panels, totals);
  set_all(totals, panels.results, f->rows);
  if (k % SUMS_MOST) add_dense(e, f, column, whole, k_i64(e, k), 1, totals);
}

/* ---- all of it ------------------------------------------------------------
 */

/* The sums of 16 columns and all rows of x, to the scratch. */
static void sum_columns(nabla_emitter *e, const few *f, nabla_ssa column) {
  const nabla_fused_spec *spec = e->spec;
  nabla_ssa totals[ROWS_MOST];
  clear(e, totals, f->rows);
  if (spec->w.format.encoding) {
    nabla_loop steps;
    k_loop_begin(e, &steps, k_i64(e, 0), e->k, nabla_dwords_step(spec), f->rows,
                 totals);
    set_all(totals, steps.carried, f->rows);
    add_record(e, f, column, steps.induction, totals);
    k_loop_end(e, &steps, totals);
    set_all(totals, steps.results, f->rows);
  } else {
    sum_dense(e, f, column, totals);
  }
  nabla_emit_keep_sums(e, f->rows, totals);
}

static void run_rows(nabla_emitter *e, unsigned count) {
  nabla_loop groups, rows;
  few f = {.rows = count, .sums = sums_of(count)};
  nabla_ssa zero = k_i64(e, 0);
  nabla_emit_tile_rows(e, zero, count, f.x);
  k_loop_begin(e, &groups, e->begin, e->end, NABLA_LANES, 0, NULL);
  sum_columns(e, &f, groups.induction);
  nabla_ssa columns = nabla_emit_left(e, e->end, groups.induction, NABLA_LANES);
  k_loop_begin(e, &rows, zero, e->m, 1, 0, NULL);
  nabla_emit_finish_row(
      e, k_address(e, e->scratch, k_multiply(e, rows.induction, NABLA_BYTES)),
      rows.induction, groups.induction, columns);
  k_loop_end(e, &rows, NULL);
  k_loop_end(e, &groups, NULL);
}

/* Code for one row of x, for two, and for more. */
static void run(nabla_emitter *e) {
  const nabla_fused_spec *spec = e->spec;
  uint64_t first = spec->m_min ? spec->m_min : 1;
  uint64_t last = nabla_spec_last_m(spec);
  unsigned open = 0;
  for (unsigned rows = 1; rows <= ROWS_MOST; rows *= 2) {
    if (rows < first) continue;
    if (rows >= last) {
      run_rows(e, rows);
      break;
    }
    nabla_ssa limit = k_i64(e, rows);
    nabla_ssa fits = k_op(e, "arith.cmpi ule, %%v%u, %%v%u : i64", e->m, limit);
    k_line(e, "scf.if %%v%u {", fits);
    run_rows(e, rows);
    k_line(e, "} else {");
    open++;
  }
  while (open--) k_line(e, "}");
}

/* Of a group or panel every second element; those of all; the sums of a row. */
static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  uint64_t size = spec->w.format.encoding
                      ? nabla_dwords_step(spec) / nabla_dwords_groups(spec)
                      : PANEL;
  if (size > spec->k) size = spec->k;
  return size / 2 + spec->k / size + 2 * SUMS_MOST;
}

/* Bytes are widened one vector at a time. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  const nabla_encoding *encoding = spec->w.format.encoding;
  return (encoding && encoding->bits == 8 ? 90 : 45) + 5 * (double)m;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  out->grain = NABLA_LANES;
  out->packed = nabla_packed_tiles(spec);
  out->form = NABLA_PACKED_VALUES;
}

/* Bytes of accumulators, or the scratch of prepacking, whichever is more. */
static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return NABLA_PACK_B_SCRATCH;
}

const nabla_kernel_variant nabla_variant_gemv_prepacked = {
    .name = "gemv_prepacked",
    .dedicated_max_m = 1,
    .applies = applies,
    .cost = cost,
    .run = run,
    .prepack = nabla_emit_prepack,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
