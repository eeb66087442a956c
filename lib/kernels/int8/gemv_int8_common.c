/* Shared loops of the int8 GEMVs; see gemv_int8_common.h. */
#include "lib/kernels/int8/gemv_int8_common.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/tile_util.h"

/* Rows of x (MR) that a row of w is multiplied with at once. */
static unsigned row_tile(const nabla_fused_spec *spec) {
  return nabla_spec_last_m(spec) == 1 ? 1 : NABLA_INT8_ROWS_MOST;
}

void nabla_emit_int8_pack_a_rows(nabla_emitter *e, nabla_ssa bytes,
                                 void (*write)(nabla_emitter *e,
                                               const void *context,
                                               nabla_ssa row, nabla_ssa to),
                                 const void *context) {
  nabla_loop rows;
  nabla_ssa begin = e->begin, end = e->end, x;
  k_loop_begin(e, &rows, begin, end, 1, 0, NULL);
  nabla_emit_tile_rows(e, rows.induction, 1, &x);
  write(e, context, x,
        k_address(e, e->workspace, k_product(e, rows.induction, bytes)));
  k_loop_end(e, &rows, NULL);
}

/* The rows of x of a tile, or the last row, in the workspace. */
static void find_rows(nabla_emitter *e, nabla_ssa bytes, nabla_ssa first,
                      nabla_int8_row *out) {
  nabla_ssa one = k_i64(e, 1);
  nabla_ssa last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->m, one);
  for (unsigned i = 0; i < out->count; i++) {
    nabla_ssa at = k_add_constant(e, first, i);
    at = k_minimum(e, at, last);
    out->x[i] = k_address(e, e->workspace, k_product(e, at, bytes));
  }
}

/* Writes the sums of a row of w with several rows of x. */
static void finish_rows(nabla_emitter *e, const nabla_int8_row *r,
                        const nabla_ssa *totals, nabla_ssa row,
                        nabla_ssa column) {
  nabla_loop each;
  nabla_emit_keep_sums(e, r->count, totals);
  nabla_ssa left = nabla_emit_rows_left(e, row, r->count);
  k_loop_begin(e, &each, k_i64(e, 0), left, 1, 0, NULL);
  nabla_emit_finish_sum(e, nabla_emit_kept_sum(e, each.induction),
                        k_add(e, row, each.induction), column);
  k_loop_end(e, &each, NULL);
}

/* Writes the sums of the rows of w with one row of x. Rows beyond the end of
 * the share are its last row again, and are not written. */
static void finish_sides(nabla_emitter *e, const nabla_int8_row *r,
                         const nabla_ssa *totals, nabla_ssa row,
                         const nabla_ssa *columns) {
  nabla_emit_finish_sum(e, totals[0], row, columns[0]);
  for (unsigned s = 1; s < r->sides; s++) {
    nabla_ssa inside =
        k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", columns[s], e->end);
    k_line(e, "scf.if %%v%u {", inside);
    nabla_emit_finish_sum(e, totals[s], row, columns[s]);
    k_line(e, "}");
  }
}

void nabla_emit_int8_columns(nabla_emitter *e, nabla_ssa bytes, unsigned sides,
                             void (*sum)(nabla_emitter *e, const void *context,
                                         const nabla_int8_row *row,
                                         nabla_ssa *totals),
                             const void *context) {
  const nabla_fused_spec *spec = e->spec;
  nabla_int8_row r = {.count = row_tile(spec)};
  nabla_loop rows, columns;
  nabla_ssa zero = k_i64(e, 0), totals[NABLA_INT8_ROWS_MOST];
  nabla_ssa begin = e->begin, column[NABLA_INT8_SIDES_MOST];
  r.sides = r.count == 1 ? sides : 1;
  nabla_ssa part = nabla_emit_part(e, r.sides);
  k_loop_begin(e, &rows, zero, e->m, r.count, 0, NULL);
  find_rows(e, bytes, rows.induction, &r);
  nabla_ssa last =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", e->end, k_i64(e, 1));
  k_loop_begin(e, &columns, begin, k_add(e, begin, part), 1, 0, NULL);
  for (unsigned s = 0; s < r.sides; s++) {
    column[s] = s ? k_add(e, column[s - 1], part) : columns.induction;
    r.flat[s] =
        nabla_emit_row_start(e, s ? k_minimum(e, column[s], last) : column[s]);
  }
  sum(e, context, &r, totals);
  if (r.count == 1)
    finish_sides(e, &r, totals, rows.induction, column);
  else
    finish_rows(e, &r, totals, rows.induction, column[0]);
  k_loop_end(e, &columns, NULL);
  k_loop_end(e, &rows, NULL);
}

/* One row is bound by memory, of which codes of 2 bits take half; 4 rows cost
 * twice the work. */
double nabla_int8_rows_cost(const nabla_fused_spec *spec, uint64_t m) {
  const nabla_encoding *encoding = spec->w.format.encoding;
  unsigned height = row_tile(spec);
  double tiles = (double)((m + height - 1) / height);
  double each = height == 1 ? 20 : 40;
  if (encoding && encoding->bits == 2) each /= 2;
  return tiles * each * (NABLA_HAS(spec->features, AVX512VNNI) ? 1 : 3);
}
