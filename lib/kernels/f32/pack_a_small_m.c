/* Packing of x for small M; see pack_a_small_m.h. */
#include "lib/kernels/f32/pack_a_small_m.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/f32/pack_b_small_m.h"
#include "lib/kernels/tile_util.h"

nabla_ssa nabla_emit_pack_a_small_m_size(nabla_emitter *e, unsigned height) {
  return k_multiply(e, nabla_emit_round_up(e, e->k, NABLA_LANES), height);
}

static nabla_ssa in_order(nabla_emitter *e, nabla_ssa values) {
  unsigned order[NABLA_LANES];
  nabla_text *text = e->text;
  nabla_small_m_order(e->spec, order);
  nabla_ssa result = ++e->last;
  nabla_text_add(text, "  %%v%u = vector.shuffle %%v%u, %%v%u [", result,
                 values, values);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_text_add(text, "%s%u", i ? ", " : "", order[i]);
  nabla_text_add(text, "] : vector<16xf32>, vector<16xf32>\n");
  return result;
}

/* Copies `width` elements at k of the row of x that begins at `from`. */
static void copy_lanes(nabla_emitter *e, nabla_ssa from, nabla_ssa to,
                       nabla_ssa k, unsigned width, unsigned height) {
  nabla_array_ref x = {e->x, e->spec->x_type};
  nabla_ssa values = k_read_lanes(e, x, k_add(e, from, k), width);
  nabla_ssa at = k_multiply(e, k, height);
  k_write_lanes(e, nabla_floats_at(e->workspace), k_add(e, to, at),
                in_order(e, values));
}

/* The same of a row whose elements are M apart (NABLA_X_COLUMNS), one by
 * one. */
static void gather_lanes(nabla_emitter *e, nabla_ssa row, nabla_ssa to,
                         nabla_ssa k, unsigned width, unsigned height) {
  nabla_array_ref x = {e->x, e->spec->x_type};
  nabla_array_ref out = nabla_floats_at(e->workspace);
  unsigned order[NABLA_LANES];
  nabla_small_m_order(e->spec, order);
  to = k_add(e, to, k_multiply(e, k, height));
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_ssa value = 0;
    if (order[i] < width) {
      nabla_ssa at = k_product(e, k_add_constant(e, k, order[i]), e->m);
      value = k_read(e, x, k_add(e, at, row));
    }
    if (!value) value = k_f32(e, NABLA_SCALAR, 0);
    k_write(e, out, k_add_constant(e, to, i), value);
  }
}

/* `from`: the row, or where it begins. */
static void copy_row(nabla_emitter *e, nabla_ssa from, nabla_ssa to,
                     unsigned height) {
  void (*copy)(nabla_emitter *, nabla_ssa, nabla_ssa, nabla_ssa, unsigned,
               unsigned) = nabla_spec_x_layout(e->spec) == NABLA_X_COLUMNS
                               ? gather_lanes
                               : copy_lanes;
  const nabla_fused_spec *spec = e->spec;
  unsigned rest = spec->any_size ? 0 : (unsigned)(spec->k % NABLA_LANES);
  nabla_loop loop;
  nabla_ssa whole = k_divide(e, e->k, NABLA_LANES);
  whole = k_multiply(e, whole, NABLA_LANES);
  k_loop_begin(e, &loop, k_i64(e, 0), whole, NABLA_LANES, 0, NULL);
  copy(e, from, to, loop.induction, NABLA_LANES, height);
  k_loop_end(e, &loop, NULL);
  if (rest) copy(e, from, to, whole, rest, height);
}

void nabla_emit_pack_a_small_m(nabla_emitter *e, unsigned height) {
  nabla_loop rows;
  nabla_ssa one = k_i64(e, 1);
  nabla_ssa last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->m, one);
  nabla_ssa is_last =
      k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", e->end, e->m);
  nabla_ssa end =
      k_choice(e, is_last, nabla_emit_round_up(e, e->end, height), e->end);
  k_loop_begin(e, &rows, e->begin, end, 1, 0, NULL);
  nabla_ssa from = k_minimum(e, rows.induction, last);
  if (nabla_spec_x_layout(e->spec) != NABLA_X_COLUMNS)
    from = k_product(e, from, e->x_stride);
  nabla_ssa tile = k_divide(e, rows.induction, height);
  nabla_ssa inside = k_op(e, "arith.subi %%v%u, %%v%u : i64", rows.induction,
                          k_multiply(e, tile, height));
  nabla_ssa to = k_product(e, tile, nabla_emit_pack_a_small_m_size(e, height));
  to = k_add(e, to, k_multiply(e, inside, NABLA_LANES));
  copy_row(e, from, to, height);
  k_loop_end(e, &rows, NULL);
}
