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

/* ---- x whose columns are consecutive (NABLA_X_COLUMNS) ---------------------
 */

static nabla_ssa column_at(nabla_emitter *e, nabla_ssa row, nabla_ssa k) {
  return k_add(e, k_product(e, k, e->m), row);
}

static unsigned pick_joined(unsigned lane, unsigned rows) {
  return lane < rows ? lane : NABLA_LANES + lane - rows;
}

/* Elements [k, k + 16 / rows) of the `rows` rows from `row` on: what is read
 * side by side stays so. */
static void join_columns(nabla_emitter *e, unsigned rows, nabla_ssa row,
                         nabla_ssa k, nabla_ssa to, nabla_ssa out) {
  nabla_array_ref x = {e->x, e->spec->x_type};
  unsigned count = NABLA_LANES / rows;
  nabla_ssa all = 0;
  for (unsigned i = count; i-- > 0;) {
    nabla_ssa at = column_at(e, row, k_add_constant(e, k, i));
    nabla_ssa one = k_read_lanes(e, x, at, rows);
    all = all ? k_shuffle(e, "f32", NABLA_LANES, one, all, NABLA_LANES,
                          pick_joined, rows)
              : one;
  }
  k_write_lanes(e, nabla_floats_at(out), k_multiply(e, to, rows), all);
}

/* Element k of the rows from `row` on, the last one again for those beyond. */
static void copy_column(nabla_emitter *e, unsigned rows, nabla_ssa row,
                        nabla_ssa k, nabla_ssa to, nabla_ssa out) {
  nabla_array_ref x = {e->x, e->spec->x_type};
  nabla_ssa last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->m, k_i64(e, 1));
  to = k_multiply(e, to, rows);
  for (unsigned r = 0; r < rows; r++) {
    nabla_ssa from = k_minimum(e, k_add_constant(e, row, r), last);
    k_write(e, nabla_floats_at(out), k_add_constant(e, to, r),
            k_read(e, x, column_at(e, from, k)));
  }
}

/* `count` elements from k on of the rows of a tile. */
static void pack_columns(nabla_emitter *e, nabla_row_tiles tiles, nabla_ssa row,
                         nabla_ssa k, nabla_ssa count, nabla_ssa out) {
  nabla_loop loop;
  unsigned step = NABLA_LANES / tiles.rows;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa whole = k_multiply(e, k_divide(e, count, step), step);
  nabla_ssa is_whole = k_op(e, "arith.cmpi ule, %%v%u, %%v%u : i64",
                            k_add_constant(e, row, tiles.rows), e->m);
  whole = k_choice(e, is_whole, whole, zero);
  k_loop_begin(e, &loop, zero, whole, step, 0, NULL);
  join_columns(e, tiles.rows, row, k_add(e, k, loop.induction), loop.induction,
               out);
  k_loop_end(e, &loop, NULL);
  k_loop_begin(e, &loop, whole, count, 1, 0, NULL);
  copy_column(e, tiles.rows, row, k_add(e, k, loop.induction), loop.induction,
              out);
  k_loop_end(e, &loop, NULL);
}

void nabla_emit_pack_a(nabla_emitter *e, nabla_row_tiles tiles) {
  nabla_ssa x[NABLA_LANES];
  nabla_loop rows, ranges;
  int by_columns = nabla_spec_x_layout(e->spec) == NABLA_X_COLUMNS;
  k_loop_begin(e, &rows, e->begin, e->end, tiles.rows, 0, NULL);
  if (!by_columns) nabla_emit_tile_rows(e, rows.induction, tiles.rows, x);
  k_loop_begin(e, &ranges, k_i64(e, 0), e->k, tiles.panel, 0, NULL);
  nabla_ssa count = nabla_emit_left(e, e->k, ranges.induction, tiles.panel);
  nabla_ssa out =
      nabla_emit_packed_a(e, tiles, rows.induction, ranges.induction, count);
  if (by_columns)
    pack_columns(e, tiles, rows.induction, ranges.induction, count, out);
  else
    pack_range(e, tiles, x, ranges.induction, count, out);
  k_loop_end(e, &ranges, NULL);
  k_loop_end(e, &rows, NULL);
}
