/* Packing of x; see pack_a.h. */
#include "lib/kernels/f32/pack_a.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/tile_util.h"

nabla_ssa nabla_emit_packed_a(nabla_emitter *e, nabla_row_tiles tiles,
                              nabla_ssa row, nabla_ssa k, nabla_ssa count) {
  nabla_ssa rows = nabla_emit_round_up(e, e->m, tiles.rows);
  nabla_ssa before = k_product(e, k, rows);
  nabla_ssa at = k_add(e, before, k_product(e, row, count));
  return k_address(e, e->workspace, k_multiply(e, at, 4));
}

/* Elements [k, k + 16) of the rows at x, to `out` + k * rows. */
static void pack_lanes(nabla_emitter *e, nabla_row_tiles tiles,
                       const nabla_ssa *x, nabla_ssa k, nabla_ssa to,
                       nabla_ssa out) {
  nabla_ssa v[NABLA_LANES];
  nabla_dtype type = e->spec->x_type;
  for (unsigned r = 0; r < tiles.rows; r++)
    v[r] = k_read_lanes(e, (nabla_array_ref){x[r], type}, k, NABLA_LANES);
  k_interleave_rows(e, "f32", tiles.rows, v);
  to = k_multiply(e, to, tiles.rows);
  for (unsigned r = 0; r < tiles.rows; r++)
    k_write_lanes(e, nabla_floats_at(out),
                  k_add_constant(e, to, (uint64_t)r * NABLA_LANES), v[r]);
}

static void pack_one(nabla_emitter *e, nabla_row_tiles tiles,
                     const nabla_ssa *x, nabla_ssa k, nabla_ssa to,
                     nabla_ssa out) {
  nabla_dtype type = e->spec->x_type;
  to = k_multiply(e, to, tiles.rows);
  for (unsigned r = 0; r < tiles.rows; r++)
    k_write(e, nabla_floats_at(out), k_add_constant(e, to, r),
            k_read(e, (nabla_array_ref){x[r], type}, k));
}

/* `count` elements from k on of the rows at x. */
static void pack_range(nabla_emitter *e, nabla_row_tiles tiles,
                       const nabla_ssa *x, nabla_ssa k, nabla_ssa count,
                       nabla_ssa out) {
  nabla_loop loop;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa whole = k_divide(e, count, NABLA_LANES);
  whole = k_multiply(e, whole, NABLA_LANES);
  k_loop_begin(e, &loop, zero, whole, NABLA_LANES, 0, NULL);
  pack_lanes(e, tiles, x, k_add(e, k, loop.induction), loop.induction, out);
  k_loop_end(e, &loop, NULL);
  k_loop_begin(e, &loop, whole, count, 1, 0, NULL);
  pack_one(e, tiles, x, k_add(e, k, loop.induction), loop.induction, out);
  k_loop_end(e, &loop, NULL);
}

void nabla_emit_pack_a(nabla_emitter *e, nabla_row_tiles tiles) {
  nabla_ssa x[NABLA_LANES];
  nabla_loop rows, ranges;
  k_loop_begin(e, &rows, e->begin, e->end, tiles.rows, 0, NULL);
  nabla_emit_tile_rows(e, rows.induction, tiles.rows, x);
  k_loop_begin(e, &ranges, k_i64(e, 0), e->k, tiles.panel, 0, NULL);
  nabla_ssa count = nabla_emit_left(e, e->k, ranges.induction, tiles.panel);
  nabla_ssa out =
      nabla_emit_packed_a(e, tiles, rows.induction, ranges.induction, count);
  pack_range(e, tiles, x, ranges.induction, count, out);
  k_loop_end(e, &ranges, NULL);
  k_loop_end(e, &rows, NULL);
}
