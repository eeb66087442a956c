/* Few rows of x with each row of w in place; see gemv_int8_common.h. */
#include "lib/kernels/int8/gemv_int8_common.h"

#include "lib/kernels/tile_util.h"

/* Rows of x that meet a row of w at once. */
static unsigned row_tile(const nabla_fused_spec *spec) {
  return nabla_spec_last_m(spec) == 1 ? 1 : NABLA_INT8_ROWS_MOST;
}

void nabla_emit_int8_prepare_rows(nabla_emitter *emitter, nabla_ssa bytes,
                                  void (*write)(nabla_emitter *emitter,
                                                const void *context,
                                                nabla_ssa row, nabla_ssa to),
                                  const void *context) {
  nabla_loop rows;
  nabla_ssa begin = emitter->begin, end = emitter->end, x;
  nabla_loop_begin(emitter, &rows, begin, end, 1, 0, NULL);
  nabla_emit_tile_rows(emitter, rows.induction, 1, &x);
  write(emitter, context, x,
        nabla_emit_address(emitter, emitter->workspace,
                           nabla_emit_product(emitter, rows.induction, bytes)));
  nabla_loop_end(emitter, &rows, NULL);
}

/* The rows of x of a tile, or the last row, in the workspace. */
static void find_rows(nabla_emitter *emitter, nabla_ssa bytes, nabla_ssa first,
                      nabla_int8_row *out) {
  nabla_ssa one = nabla_emit_i64(emitter, 1);
  nabla_ssa last =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", emitter->m, one);
  for (unsigned i = 0; i < out->count; i++) {
    nabla_ssa at = nabla_emit_add_constant(emitter, first, i);
    at = nabla_emit_minimum(emitter, at, last);
    out->x[i] = nabla_emit_address(emitter, emitter->workspace,
                                   nabla_emit_product(emitter, at, bytes));
  }
}

void nabla_emit_int8_columns(nabla_emitter *emitter, nabla_ssa bytes,
                             void (*sum)(nabla_emitter *emitter,
                                         const void *context,
                                         const nabla_int8_row *row,
                                         nabla_ssa *totals),
                             const void *context) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_int8_row r = {.count = row_tile(spec)};
  nabla_loop rows, columns, each;
  nabla_ssa zero = nabla_emit_i64(emitter, 0), totals[NABLA_INT8_ROWS_MOST];
  nabla_ssa begin = emitter->begin, end = emitter->end;
  nabla_loop_begin(emitter, &rows, zero, emitter->m, r.count, 0, NULL);
  find_rows(emitter, bytes, rows.induction, &r);
  nabla_loop_begin(emitter, &columns, begin, end, 1, 0, NULL);
  r.flat = nabla_emit_row_start(emitter, columns.induction);
  sum(emitter, context, &r, totals);
  if (r.count == 1) {
    nabla_emit_finish_sum(emitter, totals[0], rows.induction,
                          columns.induction);
  } else {
    nabla_emit_keep_sums(emitter, r.count, totals);
    nabla_ssa left = nabla_emit_rows_left(emitter, rows.induction, r.count);
    nabla_loop_begin(emitter, &each, zero, left, 1, 0, NULL);
    nabla_emit_finish_sum(
        emitter, nabla_emit_kept_sum(emitter, each.induction),
        nabla_emit_add(emitter, rows.induction, each.induction),
        columns.induction);
    nabla_loop_end(emitter, &each, NULL);
  }
  nabla_loop_end(emitter, &columns, NULL);
  nabla_loop_end(emitter, &rows, NULL);
}

/* Memory is what a single row waits for, which codes of 2 bits take half of; 4
 * rows cost twice the work. */
double nabla_int8_rows_cost(const nabla_fused_spec *spec, uint64_t m) {
  const nabla_encoding *encoding = spec->format.encoding;
  unsigned height = row_tile(spec);
  double tiles = (double)((m + height - 1) / height);
  double each = height == 1 ? 20 : 40;
  if (encoding && encoding->bits == 2) each /= 2;
  return tiles * each * (NABLA_HAS(spec->features, AVX512VNNI) ? 1 : 3);
}
