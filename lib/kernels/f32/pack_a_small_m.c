/* x as strips need it; see pack_a_small_m.h. */
#include "lib/kernels/f32/pack_a_small_m.h"

#include "lib/kernels/f32/pack_b_small_m.h"
#include "lib/kernels/tile_util.h"

nabla_ssa nabla_emit_strip_row(nabla_emitter *emitter, unsigned height) {
  return nabla_emit_multiply(
      emitter, nabla_emit_round_up(emitter, emitter->k, NABLA_LANES), height);
}

static nabla_ssa in_order(nabla_emitter *emitter, nabla_ssa values) {
  unsigned order[NABLA_LANES];
  nabla_text *text = emitter->text;
  nabla_strip_order(emitter->spec, order);
  nabla_ssa result = ++emitter->last;
  nabla_text_add(text, "  %%v%u = vector.shuffle %%v%u, %%v%u [", result,
                 values, values);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_text_add(text, "%s%u", i ? ", " : "", order[i]);
  nabla_text_add(text, "] : vector<16xf32>, vector<16xf32>\n");
  return result;
}

/* Copies `width` elements at k of the row of x that begins at `from`. */
static void copy_lanes(nabla_emitter *emitter, nabla_ssa from, nabla_ssa to,
                       nabla_ssa k, unsigned width, unsigned height) {
  nabla_array_ref x = {emitter->x, emitter->spec->x_type};
  nabla_ssa values = nabla_emit_read_lanes(
      emitter, x, nabla_emit_add(emitter, from, k), width);
  nabla_ssa at = nabla_emit_multiply(emitter, k, height);
  nabla_emit_write_lanes(emitter, nabla_floats_at(emitter->workspace),
                         nabla_emit_add(emitter, to, at),
                         in_order(emitter, values));
}

static void copy_row(nabla_emitter *emitter, nabla_ssa from, nabla_ssa to,
                     unsigned height) {
  const nabla_fused_spec *spec = emitter->spec;
  unsigned rest = spec->any_size ? 0 : (unsigned)(spec->k % NABLA_LANES);
  nabla_loop loop;
  nabla_ssa whole = nabla_emit_divide(emitter, emitter->k, NABLA_LANES);
  whole = nabla_emit_multiply(emitter, whole, NABLA_LANES);
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), whole,
                   NABLA_LANES, 0, NULL);
  copy_lanes(emitter, from, to, loop.induction, NABLA_LANES, height);
  nabla_loop_end(emitter, &loop, NULL);
  if (rest) copy_lanes(emitter, from, to, whole, rest, height);
}

void nabla_emit_strip_x(nabla_emitter *emitter, unsigned height) {
  nabla_loop rows;
  nabla_ssa one = nabla_emit_i64(emitter, 1);
  nabla_ssa last =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", emitter->m, one);
  nabla_ssa is_last = nabla_emit(emitter, "arith.cmpi eq, %%v%u, %%v%u : i64",
                                 emitter->end, emitter->m);
  nabla_ssa end = nabla_emit_choice(
      emitter, is_last, nabla_emit_round_up(emitter, emitter->end, height),
      emitter->end);
  nabla_loop_begin(emitter, &rows, emitter->begin, end, 1, 0, NULL);
  nabla_ssa from = nabla_emit_minimum(emitter, rows.induction, last);
  from = nabla_emit_product(emitter, from, emitter->k);
  nabla_ssa tile = nabla_emit_divide(emitter, rows.induction, height);
  nabla_ssa inside =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", rows.induction,
                 nabla_emit_multiply(emitter, tile, height));
  nabla_ssa to =
      nabla_emit_product(emitter, tile, nabla_emit_strip_row(emitter, height));
  to = nabla_emit_add(emitter, to,
                      nabla_emit_multiply(emitter, inside, NABLA_LANES));
  copy_row(emitter, from, to, height);
  nabla_loop_end(emitter, &rows, NULL);
}
