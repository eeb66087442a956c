/* See gather_rows.h. Runs are decoded 64 elements at a time, then 16; the last
 * window overlaps the one before. */
#include "lib/kernels/gather_rows.h"

#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"

#define STEP  64u   /* elements, whose codes are asked for in the next run */
#define GRAIN 8192u /* elements for each call at least */

/* A run: where it begins in the storage and in the result. */
typedef struct run {
  nabla_ssa from, to; /* elements */
  nabla_ssa next;     /* where the one behind begins */
} run;

/* Are all elements of a step under one scale? */
static int steps_share_scales(const nabla_fused_spec *spec) {
  return spec->format.encoding && spec->format.block % STEP == 0 &&
         spec->stride_n % STEP == 0;
}

/* Elements k .. k + NABLA_LANES, k being a multiple of `aligned`. */
static void copy(nabla_emitter *emitter, const run *r, nabla_ssa k,
                 uint64_t aligned, nabla_ssa scale) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_window window = {
      .flat = nabla_emit_add(emitter, r->from, k),
      .width = NABLA_LANES,
      .aligned = nabla_common_divisor(spec->stride_n, aligned),
      .scale = scale};
  nabla_array_ref y = {emitter->y, spec->y_type};
  nabla_emit_write_lanes(emitter, y, nabla_emit_add(emitter, r->to, k),
                         nabla_emit_decode(emitter, &window));
}

static void copy_steps(nabla_emitter *emitter, const run *r, uint64_t end) {
  nabla_loop loop;
  nabla_ssa scale = 0;
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0),
                   nabla_emit_i64(emitter, end), STEP, 0, NULL);
  nabla_emit_prefetch(
      emitter, emitter->codes,
      nabla_emit_code_byte(emitter,
                           nabla_emit_add(emitter, r->next, loop.induction)));
  if (steps_share_scales(emitter->spec))
    scale = nabla_emit_scale(emitter,
                             nabla_emit_add(emitter, r->from, loop.induction));
  for (unsigned i = 0; i < STEP; i += NABLA_LANES)
    copy(emitter, r, nabla_emit_add_constant(emitter, loop.induction, i),
         NABLA_LANES, scale);
  nabla_loop_end(emitter, &loop, NULL);
}

static void copy_run(nabla_emitter *emitter, const run *r) {
  uint64_t k = emitter->spec->k, steps = k / STEP * STEP;
  if (steps) copy_steps(emitter, r, steps);
  if (steps + NABLA_LANES <= k) {
    nabla_loop loop;
    nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, steps),
                     nabla_emit_i64(emitter, k / NABLA_LANES * NABLA_LANES),
                     NABLA_LANES, 0, NULL);
    copy(emitter, r, loop.induction, NABLA_LANES, 0);
    nabla_loop_end(emitter, &loop, NULL);
  }
  if (k % NABLA_LANES)
    copy(emitter, r, nabla_emit_i64(emitter, k - NABLA_LANES), k - NABLA_LANES,
         0);
}

static nabla_ssa begin_of(nabla_emitter *emitter, nabla_ssa i) {
  return nabla_emit_load(emitter, "i64", emitter->x,
                         nabla_emit_multiply(emitter, i, 8), 8);
}

static void emit_runs(nabla_emitter *emitter) {
  nabla_loop runs;
  nabla_ssa last = nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64",
                              emitter->end, nabla_emit_i64(emitter, 1));
  nabla_loop_begin(emitter, &runs, emitter->begin, emitter->end, 1, 0, NULL);
  nabla_ssa next = nabla_emit_add_constant(emitter, runs.induction, 1);
  run r = {.from = begin_of(emitter, runs.induction),
           .to = nabla_emit_product(emitter, runs.induction, emitter->k),
           .next = begin_of(emitter, nabla_emit_minimum(emitter, next, last))};
  copy_run(emitter, &r);
  nabla_loop_end(emitter, &runs, NULL);
}

const char *nabla_runs_objection(const nabla_fused_spec *spec) {
  if (spec->k < NABLA_RUNS_SHORTEST) return "runs are too short";
  return nabla_fused_objection(spec);
}

uint64_t nabla_runs_grain(const nabla_fused_spec *spec) {
  return spec->k < GRAIN ? (GRAIN + spec->k - 1) / spec->k : 1;
}

void nabla_runs_emit(const nabla_fused_spec *spec, const char *name,
                     nabla_text *text) {
  nabla_emit_function(spec, name, "", 0, emit_runs, text);
}
