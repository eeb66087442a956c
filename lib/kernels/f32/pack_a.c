/* See pack_a.h. */
#include "lib/kernels/f32/pack_a.h"

#include "lib/kernels/builder/transpose.h"
#include "lib/kernels/tile_util.h"

nabla_ssa nabla_emit_packed_rows(nabla_emitter *emitter, nabla_row_tiles tiles,
                                 nabla_ssa row, nabla_ssa k, nabla_ssa count) {
  nabla_ssa rows = nabla_emit_round_up(emitter, emitter->m, tiles.rows);
  nabla_ssa before = nabla_emit_product(emitter, k, rows);
  nabla_ssa at =
      nabla_emit_add(emitter, before, nabla_emit_product(emitter, row, count));
  return nabla_emit_address(emitter, emitter->workspace,
                            nabla_emit_multiply(emitter, at, 4));
}

/* Elements [k, k + 16) of the rows at x, to `out` + k * rows. */
static void pack_lanes(nabla_emitter *emitter, nabla_row_tiles tiles,
                       const nabla_ssa *x, nabla_ssa k, nabla_ssa to,
                       nabla_ssa out) {
  nabla_ssa v[NABLA_LANES];
  nabla_dtype type = emitter->spec->x_type;
  for (unsigned r = 0; r < tiles.rows; r++)
    v[r] = nabla_emit_read_lanes(emitter, (nabla_array_ref){x[r], type}, k,
                                 NABLA_LANES);
  nabla_emit_mix_rows(emitter, "f32", tiles.rows, v);
  to = nabla_emit_multiply(emitter, to, tiles.rows);
  for (unsigned r = 0; r < tiles.rows; r++)
    nabla_emit_write_lanes(
        emitter, nabla_floats_at(out),
        nabla_emit_add_constant(emitter, to, (uint64_t)r * NABLA_LANES), v[r]);
}

static void pack_one(nabla_emitter *emitter, nabla_row_tiles tiles,
                     const nabla_ssa *x, nabla_ssa k, nabla_ssa to,
                     nabla_ssa out) {
  nabla_dtype type = emitter->spec->x_type;
  to = nabla_emit_multiply(emitter, to, tiles.rows);
  for (unsigned r = 0; r < tiles.rows; r++)
    nabla_emit_write(
        emitter, nabla_floats_at(out), nabla_emit_add_constant(emitter, to, r),
        nabla_emit_read(emitter, (nabla_array_ref){x[r], type}, k));
}

/* `count` elements from k on of the rows at x. */
static void pack_range(nabla_emitter *emitter, nabla_row_tiles tiles,
                       const nabla_ssa *x, nabla_ssa k, nabla_ssa count,
                       nabla_ssa out) {
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa whole = nabla_emit_divide(emitter, count, NABLA_LANES);
  whole = nabla_emit_multiply(emitter, whole, NABLA_LANES);
  nabla_loop_begin(emitter, &loop, zero, whole, NABLA_LANES, 0, NULL);
  pack_lanes(emitter, tiles, x, nabla_emit_add(emitter, k, loop.induction),
             loop.induction, out);
  nabla_loop_end(emitter, &loop, NULL);
  nabla_loop_begin(emitter, &loop, whole, count, 1, 0, NULL);
  pack_one(emitter, tiles, x, nabla_emit_add(emitter, k, loop.induction),
           loop.induction, out);
  nabla_loop_end(emitter, &loop, NULL);
}

void nabla_emit_pack_rows(nabla_emitter *emitter, nabla_row_tiles tiles) {
  nabla_ssa x[NABLA_LANES];
  nabla_loop rows, ranges;
  nabla_loop_begin(emitter, &rows, emitter->begin, emitter->end, tiles.rows, 0,
                   NULL);
  nabla_emit_tile_rows(emitter, rows.induction, tiles.rows, x);
  nabla_loop_begin(emitter, &ranges, nabla_emit_i64(emitter, 0), emitter->k,
                   tiles.panel, 0, NULL);
  nabla_ssa count =
      nabla_emit_left(emitter, emitter->k, ranges.induction, tiles.panel);
  nabla_ssa out = nabla_emit_packed_rows(emitter, tiles, rows.induction,
                                         ranges.induction, count);
  pack_range(emitter, tiles, x, ranges.induction, count, out);
  nabla_loop_end(emitter, &ranges, NULL);
  nabla_loop_end(emitter, &rows, NULL);
}
