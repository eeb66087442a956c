/* y = x . w for few rows of x, the weight prepacked (prepack.h): each element
 * of x, the same for all lanes, meets 16 rows of w, which are read as one
 * stream. Sums need no tree. */
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/f32/prepack.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"

#define ROWS_MOST 4u
#define SUMS_MOST 4u   /* side by side: a sum waits for the one before */
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
  return spec->format.encoding && !spec->format.zero_point &&
         !nabla_format_is_llm_int8(&spec->format) &&
         spec->w_type == NABLA_DTYPE_F32;
}

/* Adds the products with element k of all rows, as number `i` of those whose
 * sums are side by side. */
static void add_products(nabla_emitter *emitter, const few *f, nabla_ssa k,
                         nabla_ssa w, unsigned i, nabla_ssa *sums) {
  for (unsigned r = 0; r < f->rows; r++) {
    nabla_array_ref row = {f->x[r], emitter->spec->x_type};
    nabla_ssa one =
        nabla_emit_broadcast(emitter, "f32", nabla_emit_read(emitter, row, k));
    nabla_ssa *sum = &sums[r * f->sums + i % f->sums];
    *sum = nabla_emit_fma(emitter, NABLA_VECTOR, one, w, *sum);
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
  nabla_words from;
  nabla_ssa k, scales, zeros;
  unsigned number;
} group;

/* The products of all dwords of the group, added to sums. */
static void add_words(nabla_emitter *emitter, const group *g, nabla_ssa *sums) {
  const nabla_fused_spec *spec = emitter->spec;
  unsigned count = g->f->rows * g->f->sums;
  unsigned per_word = 32 / spec->format.encoding->bits;
  unsigned words = NABLA_LANES / nabla_words_groups(spec);
  nabla_loop loop;
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0),
                   nabla_emit_i64(emitter, words), 1, count, sums);
  nabla_ssa number = nabla_emit_add_constant(emitter, loop.induction,
                                             (uint64_t)g->number * words);
  nabla_ssa byte = nabla_emit_multiply(emitter, number, NABLA_BYTES);
  nabla_ssa word =
      nabla_emit_load(emitter, "vector<16xi32>", g->from.words, byte, 64);
  nabla_emit_prefetch(
      emitter, g->from.words,
      nabla_emit_add_constant(emitter, byte, NABLA_PREFETCH_BYTES));
  nabla_ssa k = nabla_emit_add(
      emitter, g->k, nabla_emit_multiply(emitter, loop.induction, per_word));
  nabla_ssa next[NABLA_LOOP_MAX];
  set_all(next, loop.carried, count);
  for (unsigned i = 0; i < per_word; i++) {
    nabla_ssa w = nabla_emit_word_value(emitter, word, i);
    if (!scales_sums(spec))
      w = nabla_emit_scaled(emitter, w, g->zeros, g->scales);
    add_products(emitter, g->f, nabla_emit_add_constant(emitter, k, i), w, i,
                 next);
  }
  nabla_loop_end(emitter, &loop, next);
  set_all(sums, loop.results, count);
}

static void clear(nabla_emitter *emitter, nabla_ssa *sums, unsigned count) {
  nabla_ssa none = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  for (unsigned i = 0; i < count; i++) sums[i] = none;
}

/* Adds sums that began at zero, times `scales` if there are such, to the total
 * of each row: a chain over all of k would be long. */
static void add_sums(nabla_emitter *emitter, const few *f,
                     const nabla_ssa *sums, nabla_ssa scales,
                     nabla_ssa *totals) {
  for (unsigned r = 0; r < f->rows; r++) {
    nabla_ssa sum = sums[r * f->sums];
    for (unsigned i = 1; i < f->sums; i++)
      sum = nabla_emit_binary(emitter, NABLA_VECTOR, "addf", sum,
                              sums[r * f->sums + i]);
    totals[r] =
        scales
            ? nabla_emit_fma(emitter, NABLA_VECTOR, sum, scales, totals[r])
            : nabla_emit_binary(emitter, NABLA_VECTOR, "addf", totals[r], sum);
  }
}

static void add_record(nabla_emitter *emitter, const few *f, nabla_ssa column,
                       nabla_ssa k, nabla_ssa *totals) {
  const nabla_fused_spec *spec = emitter->spec;
  unsigned groups = nabla_words_groups(spec);
  group g = {.f = f};
  g.from =
      nabla_packed_words(emitter, nabla_emit_packed_at(emitter, column, k));
  for (g.number = 0; g.number < groups; g.number++) {
    nabla_ssa at = nabla_emit_i64(emitter, (uint64_t)g.number * NABLA_LANES);
    uint64_t first = nabla_words_step(spec) / groups * g.number;
    g.k = nabla_emit_add_constant(emitter, k, first);
    g.scales = nabla_emit_read_lanes(emitter, nabla_floats_at(g.from.scales),
                                     at, NABLA_LANES);
    if (spec->format.zero_point)
      g.zeros = nabla_emit_read_lanes(emitter, nabla_floats_at(g.from.zeros),
                                      at, NABLA_LANES);
    nabla_ssa sums[ROWS_MOST * SUMS_MOST];
    clear(emitter, sums, f->rows * f->sums);
    add_words(emitter, &g, sums);
    add_sums(emitter, f, sums, scales_sums(spec) ? g.scales : 0, totals);
  }
}

/* ---- dense ----------------------------------------------------------------
 */

/* Elements [from, to) of k, `step` in a turn: their sums are added to
 * `totals`. */
static void add_dense(nabla_emitter *emitter, const few *f, nabla_ssa column,
                      nabla_ssa from, nabla_ssa to, unsigned step,
                      nabla_ssa *totals) {
  const nabla_fused_spec *spec = emitter->spec;
  unsigned count = f->rows * f->sums;
  nabla_ssa zero = nabla_emit_i64(emitter, 0), next[NABLA_LOOP_MAX];
  nabla_ssa sums[ROWS_MOST * SUMS_MOST];
  nabla_array_ref w = {nabla_emit_packed_at(emitter, column, zero),
                       spec->dense};
  nabla_loop loop;
  clear(emitter, sums, count);
  nabla_loop_begin(emitter, &loop, from, to, step, count, sums);
  set_all(next, loop.carried, count);
  for (unsigned i = 0; i < step; i++) {
    nabla_ssa k = nabla_emit_add_constant(emitter, loop.induction, i);
    nabla_ssa at = nabla_emit_multiply(emitter, k, NABLA_LANES);
    nabla_ssa byte =
        nabla_emit_multiply(emitter, at, nabla_dtype_bits(spec->dense) / 8);
    nabla_emit_prefetch(
        emitter, w.base,
        nabla_emit_add_constant(emitter, byte, NABLA_PREFETCH_BYTES));
    nabla_ssa value = nabla_emit_read_lanes(emitter, w, at, NABLA_LANES);
    value = nabla_emit_round(emitter, NABLA_VECTOR, spec->w_type, value);
    add_products(emitter, f, k, value, i, next);
  }
  nabla_loop_end(emitter, &loop, next);
  add_sums(emitter, f, loop.results, 0, totals);
}

/* All of k: panels, and what is no multiple of a turn. */
static void sum_dense(nabla_emitter *emitter, const few *f, nabla_ssa column,
                      nabla_ssa *totals) {
  const uint64_t k = emitter->spec->k;
  nabla_ssa whole = nabla_emit_i64(emitter, k / SUMS_MOST * SUMS_MOST);
  nabla_loop panels;
  nabla_loop_begin(emitter, &panels, nabla_emit_i64(emitter, 0), whole, PANEL,
                   f->rows, totals);
  set_all(totals, panels.carried, f->rows);
  nabla_ssa end = nabla_emit_minimum(
      emitter, nabla_emit_add_constant(emitter, panels.induction, PANEL),
      whole);
  add_dense(emitter, f, column, panels.induction, end, SUMS_MOST, totals);
  nabla_loop_end(emitter, &panels, totals);
  set_all(totals, panels.results, f->rows);
  if (k % SUMS_MOST)
    add_dense(emitter, f, column, whole, nabla_emit_i64(emitter, k), 1, totals);
}

/* ---- all of it ------------------------------------------------------------
 */

/* The sums of 16 columns and all rows of x, to the scratch. */
static void sum_columns(nabla_emitter *emitter, const few *f,
                        nabla_ssa column) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_ssa totals[ROWS_MOST];
  clear(emitter, totals, f->rows);
  if (spec->format.encoding) {
    nabla_loop steps;
    nabla_loop_begin(emitter, &steps, nabla_emit_i64(emitter, 0), emitter->k,
                     nabla_words_step(spec), f->rows, totals);
    set_all(totals, steps.carried, f->rows);
    add_record(emitter, f, column, steps.induction, totals);
    nabla_loop_end(emitter, &steps, totals);
    set_all(totals, steps.results, f->rows);
  } else {
    sum_dense(emitter, f, column, totals);
  }
  nabla_emit_keep_sums(emitter, f->rows, totals);
}

static void run_rows(nabla_emitter *emitter, unsigned count) {
  nabla_loop groups, rows;
  few f = {.rows = count, .sums = sums_of(count)};
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_emit_tile_rows(emitter, zero, count, f.x);
  nabla_loop_begin(emitter, &groups, emitter->begin, emitter->end, NABLA_LANES,
                   0, NULL);
  sum_columns(emitter, &f, groups.induction);
  nabla_ssa columns =
      nabla_emit_left(emitter, emitter->end, groups.induction, NABLA_LANES);
  nabla_loop_begin(emitter, &rows, zero, emitter->m, 1, 0, NULL);
  nabla_emit_finish_row(
      emitter,
      nabla_emit_address(
          emitter, emitter->scratch,
          nabla_emit_multiply(emitter, rows.induction, NABLA_BYTES)),
      rows.induction, groups.induction, columns);
  nabla_loop_end(emitter, &rows, NULL);
  nabla_loop_end(emitter, &groups, NULL);
}

/* Code for one row of x, for two, and for more. */
static void run(nabla_emitter *emitter) {
  const nabla_fused_spec *spec = emitter->spec;
  uint64_t first = spec->m_min ? spec->m_min : 1;
  uint64_t last = nabla_spec_last_m(spec);
  unsigned open = 0;
  for (unsigned rows = 1; rows <= ROWS_MOST; rows *= 2) {
    if (rows < first) continue;
    if (rows >= last) {
      run_rows(emitter, rows);
      break;
    }
    nabla_ssa limit = nabla_emit_i64(emitter, rows);
    nabla_ssa fits = nabla_emit(emitter, "arith.cmpi ule, %%v%u, %%v%u : i64",
                                emitter->m, limit);
    nabla_emit_line(emitter, "scf.if %%v%u {", fits);
    run_rows(emitter, rows);
    nabla_emit_line(emitter, "} else {");
    open++;
  }
  while (open--) nabla_emit_line(emitter, "}");
}

/* Of a group or panel every second element; those of all; the sums of a row. */
static uint64_t chain(const nabla_fused_spec *spec) {
  uint64_t size = spec->format.encoding
                      ? nabla_words_step(spec) / nabla_words_groups(spec)
                      : PANEL;
  if (size > spec->k) size = spec->k;
  return size / 2 + spec->k / size + 2 * SUMS_MOST;
}

/* Bytes are widened one vector at a time. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  const nabla_encoding *encoding = spec->format.encoding;
  return (encoding && encoding->bits == 8 ? 90 : 45) + 5 * (double)m;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  out->grain = NABLA_LANES;
  out->packed = nabla_packed_tiles(spec);
  out->form = NABLA_PACKED_VALUES;
}

/* The sums, or what packing needs. */
static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return NABLA_PANEL_SCRATCH;
}

const nabla_body nabla_body_packed = {.name = "packed",
                                      .few_rows = 1,
                                      .applies = applies,
                                      .cost = cost,
                                      .run = run,
                                      .prepack = nabla_emit_prepack,
                                      .describe = describe,
                                      .chain = chain,
                                      .scratch = scratch};
