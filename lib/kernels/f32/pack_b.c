/* Packing of weight panels; see pack_b.h. A weight that is consecutive along n
 * is only dequantized. For one that is consecutive along k there are two ways:
 * where each dword of codes has one scale, dwords of 16 rows are transposed and
 * then dequantized (pack_b_dwords.h); else 16 consecutive elements of a row are
 * dequantized and then transposed. A prepacked weight has rows in lanes already
 * (prepack.h). */
#include "lib/kernels/f32/pack_b.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/dequant/ggml_vectors.h"
#include "lib/kernels/f32/pack_b_dwords.h"
#include "lib/kernels/f32/pack_b_small_m.h"
#include "lib/kernels/f32/prepack.h"
#include "lib/kernels/tile_util.h"

nabla_ssa nabla_panel_flat(nabla_emitter *e, const nabla_panel *panel,
                           nabla_ssa row, nabla_ssa k) {
  nabla_ssa one = k_i64(e, 1);
  nabla_ssa last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->n, one);
  row = k_minimum(e, k_add(e, panel->first, row), last);
  return k_add(e, nabla_emit_row_start(e, row), k);
}

/* ---- the next panel --------------------------------------------------------
 */

/* Bytes of `count` consecutive elements. */
static uint64_t bytes_of(const nabla_fused_spec *spec, uint64_t count) {
  if (spec->w.ggml) {
    uint64_t size = spec->w.ggml->elements;
    return (count + size - 1) / size * spec->w.ggml->bytes;
  }
  uint64_t bits = spec->w.format.encoding ? spec->w.format.encoding->bits
                                          : nabla_dtype_bits(spec->w_stored);
  return (count * bits + 7) / 8;
}

/* Cache lines of a consecutive part of a panel, rounded up to a power of
 * two. */
static uint64_t piece_lines(const nabla_fused_spec *spec, unsigned width,
                            unsigned elements) {
  unsigned count = nabla_spec_is_row(spec) ? elements : width;
  uint64_t lines = (bytes_of(spec, count) + 63) / 64, power = 1;
  while (power < lines) power *= 2;
  return power;
}

/* Of a prepacked weight 16 rows are consecutive. */
static uint64_t packed_lines(const nabla_fused_spec *spec, unsigned elements) {
  return (nabla_packed_bytes(spec, elements) + 63) / 64;
}

uint64_t nabla_panel_cachelines(const nabla_fused_spec *spec, unsigned width,
                                unsigned elements) {
  if (nabla_packed_applies(spec))
    return width / NABLA_LANES * packed_lines(spec, elements);
  unsigned pieces = nabla_spec_is_row(spec) ? width : elements;
  return pieces * piece_lines(spec, width, elements);
}

static void packed_ahead(nabla_emitter *e, const nabla_panel *panel,
                         unsigned elements, nabla_ssa line) {
  uint64_t lines = packed_lines(e->spec, elements);
  nabla_ssa piece = k_divide(e, line, lines);
  nabla_ssa by = k_i64(e, lines);
  nabla_ssa rest = k_op(e, "arith.remui %%v%u, %%v%u : i64", line, by);
  nabla_ssa row = k_multiply(e, piece, NABLA_LANES);
  row = k_add(e, panel->first, row);
  k_prefetch(e, nabla_emit_packed_at(e, row, panel->k),
             k_multiply(e, rest, 64));
}

void nabla_emit_pack_b_prefetch(nabla_emitter *e, const nabla_panel *panel,
                                unsigned elements, nabla_ssa line) {
  const nabla_fused_spec *spec = e->spec;
  if (nabla_packed_applies(spec)) {
    packed_ahead(e, panel, elements, line);
    return;
  }
  uint64_t lines = piece_lines(spec, panel->width, elements);
  nabla_ssa piece = k_divide(e, line, lines), flat;
  nabla_ssa by = k_i64(e, lines);
  nabla_ssa rest = k_op(e, "arith.remui %%v%u, %%v%u : i64", line, by);
  if (nabla_spec_is_row(spec)) {
    flat = nabla_panel_flat(e, panel, piece, panel->k);
  } else {
    flat = k_add(e, panel->k, piece);
    flat = nabla_emit_column_start(e, flat);
    flat = k_add(e, flat, panel->first);
  }
  k_prefetch(e, e->codes,
             k_add(e, nabla_emit_code_byte(e, flat), k_multiply(e, rest, 64)));
}

/* ---- rows first: 16 elements of each row, then transposed -----------------
 */

/* Elements [k, k + width) of row `row` of the panel. */
static nabla_ssa row_lanes(nabla_emitter *e, const nabla_panel *panel,
                           nabla_ssa row, nabla_ssa at, unsigned width) {
  nabla_ssa k = k_add(e, panel->k, at);
  unsigned lanes = panel->aligned < NABLA_LANES ? panel->aligned : NABLA_LANES;
  nabla_window window = {.flat = nabla_panel_flat(e, panel, row, k),
                         .width = width,
                         .aligned = nabla_row_alignment(e->spec, lanes)};
  return nabla_emit_dequantize(e, &window);
}

/* The same of 16 rows from `row` on. Dequantization of several instructions is
 * in a loop, so that it is in the code once. */
static void square_rows(nabla_emitter *e, const nabla_panel *panel,
                        nabla_ssa row, nabla_ssa at, unsigned width,
                        nabla_ssa *out) {
  const nabla_fused_spec *spec = e->spec;
  nabla_loop rows;
  if (spec->w.kind == NABLA_STORAGE_DENSE) {
    for (unsigned i = 0; i < NABLA_LANES; i++)
      out[i] = row_lanes(e, panel, k_add_constant(e, row, i), at, width);
    return;
  }
  nabla_array_ref scratch = nabla_floats_at(panel->scratch);
  k_loop_begin(e, &rows, k_i64(e, 0), k_i64(e, NABLA_LANES), 1, 0, NULL);
  k_write_lanes(e, scratch, k_multiply(e, rows.induction, NABLA_LANES),
                row_lanes(e, panel, k_add(e, row, rows.induction), at, width));
  k_loop_end(e, &rows, NULL);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    out[i] = k_read_lanes(e, scratch, k_i64(e, (uint64_t)i * NABLA_LANES),
                          NABLA_LANES);
}

/* Decodes elements [k, k + width) of 16 rows from `row` on and stores them. */
static void square(nabla_emitter *e, const nabla_panel *panel, nabla_ssa row,
                   nabla_ssa at, unsigned width) {
  nabla_array_ref out = nabla_floats_at(panel->out);
  nabla_ssa values[NABLA_LANES];
  square_rows(e, panel, row, at, width, values);
  k_transpose(e, "f32", values);
  nabla_ssa to = k_multiply(e, at, panel->width);
  to = k_add(e, to, row);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    k_write_lanes(e, out, k_add_constant(e, to, (uint64_t)i * panel->width),
                  values[i]);
}

/* The elements of 16 rows from `row` on that are behind `whole`, one by one. */
static void single_rest(nabla_emitter *e, const nabla_panel *panel,
                        nabla_ssa row, nabla_ssa whole) {
  nabla_array_ref w = {e->codes, e->spec->w_stored};
  nabla_loop rows, loop;
  k_loop_begin(e, &rows, k_i64(e, 0), k_i64(e, NABLA_LANES), 1, 0, NULL);
  nabla_ssa lane = k_add(e, row, rows.induction);
  k_loop_begin(e, &loop, whole, panel->count, 1, 0, NULL);
  nabla_ssa k = k_add(e, panel->k, loop.induction);
  nabla_ssa to = k_multiply(e, loop.induction, panel->width);
  k_write(e, nabla_floats_at(panel->out), k_add(e, to, lane),
          k_read(e, w, nabla_panel_flat(e, panel, lane, k)));
  k_loop_end(e, &loop, NULL);
  k_loop_end(e, &rows, NULL);
}

static void rows_first(nabla_emitter *e, const nabla_panel *panel,
                       nabla_ssa row) {
  const nabla_fused_spec *spec = e->spec;
  unsigned rest = spec->any_size ? 0 : (unsigned)(spec->k % NABLA_LANES);
  nabla_loop loop;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa whole = k_divide(e, panel->count, NABLA_LANES);
  whole = k_multiply(e, whole, NABLA_LANES);
  k_loop_begin(e, &loop, zero, whole, NABLA_LANES, 0, NULL);
  square(e, panel, row, loop.induction, NABLA_LANES);
  k_loop_end(e, &loop, NULL);
  if (spec->open & NABLA_OPEN_K) single_rest(e, panel, row, whole);
  if (!rest) return;
  nabla_ssa some =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", whole, panel->count);
  k_line(e, "scf.if %%v%u {", some);
  square(e, panel, row, whole, rest);
  k_line(e, "}");
}

/* ---- blocks of GGUF files: whole ones of a row, then transposed ------------
 */

static int by_blocks(const nabla_fused_spec *spec) {
  return spec->w.ggml && nabla_spec_is_row(spec) &&
         nabla_block_weights_apply(spec);
}

uint64_t nabla_pack_b_scratch(const nabla_fused_spec *spec) {
  return by_blocks(spec) ? (uint64_t)NABLA_LANES * NABLA_SMALL_M_DEPTH * 4
                         : NABLA_PACK_B_SCRATCH;
}

/* The 16 rows from `row` on, by nabla_emit_pack_b_small_m, whose vectors have
 * an order of their own. */
static void blocks_first(nabla_emitter *e, const nabla_panel *panel,
                         nabla_ssa row) {
  unsigned order[NABLA_LANES];
  nabla_ssa values[NABLA_LANES], one = k_i64(e, 1);
  nabla_small_m_panel part = {.first = k_add(e, panel->first, row),
                              .rows = k_i64(e, NABLA_LANES),
                              .k = panel->k,
                              .count = panel->count,
                              .out = panel->scratch};
  nabla_array_ref from = nabla_floats_at(panel->scratch);
  nabla_loop loop;
  part.last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->n, one);
  nabla_emit_pack_b_small_m(e, &part);
  nabla_small_m_order(e->spec, order);
  k_loop_begin(e, &loop, k_i64(e, 0), panel->count, NABLA_LANES, 0, NULL);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    values[i] = k_read_lanes(
        e, from,
        k_add_constant(e, loop.induction, (uint64_t)i * NABLA_SMALL_M_DEPTH),
        NABLA_LANES);
  k_transpose(e, "f32", values);
  nabla_ssa to = k_multiply(e, loop.induction, panel->width);
  to = k_add(e, to, row);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    k_write_lanes(e, nabla_floats_at(panel->out),
                  k_add_constant(e, to, (uint64_t)order[i] * panel->width),
                  values[i]);
  k_loop_end(e, &loop, NULL);
}

/* ---- consecutive along n: rows in lanes already ----------------------------
 */

/* `width` columns from `column` on, and zeros, as the lanes from `row` on. */
static void copy_columns(nabla_emitter *e, const nabla_panel *panel,
                         nabla_ssa row, nabla_ssa column, unsigned width) {
  const nabla_fused_spec *spec = e->spec;
  uint64_t stride = spec->k != 1 ? spec->stride_k : 0;
  if (spec->open & NABLA_OPEN_STRIDE) stride = 1;
  nabla_loop loop;
  k_loop_begin(e, &loop, k_i64(e, 0), panel->count, 1, 0, NULL);
  nabla_ssa k = k_add(e, panel->k, loop.induction);
  nabla_ssa flat = nabla_emit_column_start(e, k);
  nabla_window window = {
      .flat = k_add(e, flat, column),
      .width = width,
      .aligned = nabla_common_divisor(
          NABLA_LANES, nabla_common_divisor(spec->offset, stride))};
  nabla_ssa to = k_multiply(e, loop.induction, panel->width);
  k_write_lanes(e, nabla_floats_at(panel->out), k_add(e, to, row),
                nabla_emit_dequantize(e, &window));
  k_loop_end(e, &loop, NULL);
}

/* Columns of an open N from `column` on, those that exist, one by one where
 * they are not 16. */
static void open_columns(nabla_emitter *e, const nabla_panel *panel,
                         nabla_ssa row, nabla_ssa column) {
  nabla_array_ref w = {e->codes, e->spec->w_stored};
  nabla_ssa after = k_add_constant(e, column, NABLA_LANES);
  nabla_ssa whole = k_op(e, "arith.cmpi ule, %%v%u, %%v%u : i64", after, e->n);
  nabla_loop loop, lanes;
  k_line(e, "scf.if %%v%u {", whole);
  copy_columns(e, panel, row, column, NABLA_LANES);
  k_line(e, "} else {");
  k_leave(e);
  k_loop_begin(e, &loop, k_i64(e, 0), panel->count, 1, 0, NULL);
  nabla_ssa flat =
      nabla_emit_column_start(e, k_add(e, panel->k, loop.induction));
  nabla_ssa to = k_add(e, k_multiply(e, loop.induction, panel->width), row);
  k_loop_begin(e, &lanes, column, e->n, 1, 0, NULL);
  nabla_ssa lane =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", lanes.induction, column);
  k_write(e, nabla_floats_at(panel->out), k_add(e, to, lane),
          k_read(e, w, k_add(e, flat, lanes.induction)));
  k_loop_end(e, &lanes, NULL);
  k_loop_end(e, &loop, NULL);
  k_line(e, "}");
  k_leave(e);
}

/* 16 columns from `row` on, or what there is of them. Lanes beyond the last
 * column are in no element of y. */
static void columns_first(nabla_emitter *e, const nabla_panel *panel,
                          nabla_ssa row) {
  uint64_t n = e->spec->n;
  unsigned rest = (unsigned)(n % NABLA_LANES);
  nabla_ssa column = k_add(e, panel->first, row);
  if (e->spec->open & NABLA_OPEN_N) {
    open_columns(e, panel, row, column);
    return;
  }
  if (!rest) {
    column = k_minimum(e, column, k_i64(e, n - NABLA_LANES));
    copy_columns(e, panel, row, column, NABLA_LANES);
    return;
  }
  nabla_ssa whole =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", column, k_i64(e, n - rest));
  k_line(e, "scf.if %%v%u {", whole);
  copy_columns(e, panel, row, column, NABLA_LANES);
  k_line(e, "} else {");
  copy_columns(e, panel, row, k_i64(e, n - rest), rest);
  k_line(e, "}");
}

void nabla_emit_pack_b(nabla_emitter *e, const nabla_panel *panel) {
  int rows = nabla_spec_is_row(e->spec);
  int dwords = rows && nabla_panel_by_dwords(e->spec, panel->aligned);
  nabla_loop loop;
  nabla_ssa zero = k_i64(e, 0);
  k_loop_begin(e, &loop, zero, k_i64(e, panel->width), NABLA_LANES, 0, NULL);
  if (nabla_packed_applies(e->spec))
    nabla_emit_packed_panel(e, panel, loop.induction);
  else if (!rows)
    columns_first(e, panel, loop.induction);
  else if (dwords)
    nabla_emit_pack_b_dwords(e, panel, loop.induction);
  else if (by_blocks(e->spec))
    blocks_first(e, panel, loop.induction);
  else
    rows_first(e, panel, loop.induction);
  k_loop_end(e, &loop, NULL);
}
