/* Kernels that gather rows, see gather_rows.h: a run is dequantized 64 elements
 * at a time, the rest 16 at a time; the last 16 overlap those before. */
#include "lib/kernels/gather_rows.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"

#define STEP  64u   /* elements whose codes are prefetched in the next run */
#define GRAIN 8192u /* fewest elements of a call */

/* A run: its first element in the storage and in the result. */
typedef struct run {
  nabla_ssa from, to; /* elements */
  nabla_ssa next;     /* first element of the next run, in the storage */
} run;

/* Whether all elements of a step share one scale. */
static int steps_share_scales(const nabla_fused_spec *spec) {
  return spec->w.format.encoding && spec->w.format.block % STEP == 0 &&
         spec->stride_n % STEP == 0;
}

/* Dequantizes NABLA_LANES elements from k on, a multiple of `aligned`. */
static void copy(nabla_emitter *e, const run *r, nabla_ssa k, uint64_t aligned,
                 nabla_ssa scale) {
  const nabla_fused_spec *spec = e->spec;
  nabla_window window = {
      .flat = k_add(e, r->from, k),
      .width = NABLA_LANES,
      .aligned = nabla_common_divisor(spec->stride_n, aligned),
      .scale = scale};
  nabla_array_ref y = {e->y, spec->y_type};
  k_write_lanes(e, y, k_add(e, r->to, k), nabla_emit_dequantize(e, &window));
}

static void copy_steps(nabla_emitter *e, const run *r, uint64_t end) {
  nabla_loop loop;
  nabla_ssa scale = 0;
  k_loop_begin(e, &loop, k_i64(e, 0), k_i64(e, end), STEP, 0, NULL);
  k_prefetch(e, e->codes,
             nabla_emit_code_byte(e, k_add(e, r->next, loop.induction)));
  if (steps_share_scales(e->spec))
    scale = nabla_emit_scale(e, k_add(e, r->from, loop.induction));
  for (unsigned i = 0; i < STEP; i += NABLA_LANES)
    copy(e, r, k_add_constant(e, loop.induction, i), NABLA_LANES, scale);
  k_loop_end(e, &loop, NULL);
}

static void copy_run(nabla_emitter *e, const run *r) {
  uint64_t k = e->spec->k, steps = k / STEP * STEP;
  if (steps) copy_steps(e, r, steps);
  if (steps + NABLA_LANES <= k) {
    nabla_loop loop;
    k_loop_begin(e, &loop, k_i64(e, steps),
                 k_i64(e, k / NABLA_LANES * NABLA_LANES), NABLA_LANES, 0, NULL);
    copy(e, r, loop.induction, NABLA_LANES, 0);
    k_loop_end(e, &loop, NULL);
  }
  if (k % NABLA_LANES)
    copy(e, r, k_i64(e, k - NABLA_LANES), k - NABLA_LANES, 0);
}

static nabla_ssa begin_of(nabla_emitter *e, nabla_ssa i) {
  return k_load(e, "i64", e->x, k_multiply(e, i, 8), 8);
}

static void emit_runs(nabla_emitter *e) {
  nabla_loop runs;
  nabla_ssa last =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", e->end, k_i64(e, 1));
  k_loop_begin(e, &runs, e->begin, e->end, 1, 0, NULL);
  nabla_ssa next = k_add_constant(e, runs.induction, 1);
  run r = {.from = begin_of(e, runs.induction),
           .to = k_product(e, runs.induction, e->k),
           .next = begin_of(e, k_minimum(e, next, last))};
  copy_run(e, &r);
  k_loop_end(e, &runs, NULL);
}

const char *nabla_gather_rows_objection(const nabla_fused_spec *spec) {
  if (spec->k < NABLA_GATHER_ROWS_SHORTEST) return "runs are too short";
  return nabla_fused_objection(spec);
}

uint64_t nabla_gather_rows_grain(const nabla_fused_spec *spec) {
  return spec->k < GRAIN ? (GRAIN + spec->k - 1) / spec->k : 1;
}

void nabla_gather_rows_emit(const nabla_fused_spec *spec, const char *name,
                            nabla_text *text) {
  nabla_emit_function(spec, name, "", 0, emit_runs, text);
}
