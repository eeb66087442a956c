/* Decoding panels; see pack_b.h. A weight that is consecutive along n needs its
 * elements decoded only. One that is consecutive along k, two ways: where codes
 * of 16 rows lie in whole dwords under one scale each, dwords are transposed
 * and then decoded (pack_b_words.h); else 16 consecutive elements of a row are
 * decoded and then transposed. A prepacked one has rows in lanes already
 * (prepack.h). */
#include "lib/kernels/f32/pack_b.h"

#include "lib/kernels/builder/transpose.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/dequant/ggml_vectors.h"
#include "lib/kernels/f32/pack_b_small_m.h"
#include "lib/kernels/f32/pack_b_words.h"
#include "lib/kernels/f32/prepack.h"
#include "lib/kernels/tile_util.h"

nabla_ssa nabla_panel_flat(nabla_emitter *emitter, const nabla_panel *panel,
                           nabla_ssa row, nabla_ssa k) {
  nabla_ssa one = nabla_emit_i64(emitter, 1);
  nabla_ssa last =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", emitter->n, one);
  row = nabla_emit_minimum(emitter, nabla_emit_add(emitter, panel->first, row),
                           last);
  return nabla_emit_add(emitter, nabla_emit_row_start(emitter, row), k);
}

/* ---- the next panel --------------------------------------------------------
 */

/* Bytes of `count` consecutive elements. */
static uint64_t bytes_of(const nabla_fused_spec *spec, uint64_t count) {
  if (spec->ggml) {
    uint64_t size = spec->ggml->elements;
    return (count + size - 1) / size * spec->ggml->bytes;
  }
  uint64_t bits = spec->format.encoding ? spec->format.encoding->bits
                                        : nabla_dtype_bits(spec->dense);
  return (count * bits + 7) / 8;
}

/* Lines of what is consecutive in a panel: a power of two at least as large. */
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

uint64_t nabla_panel_lines(const nabla_fused_spec *spec, unsigned width,
                           unsigned elements) {
  if (nabla_packed_applies(spec))
    return width / NABLA_LANES * packed_lines(spec, elements);
  unsigned pieces = nabla_spec_is_row(spec) ? width : elements;
  return pieces * piece_lines(spec, width, elements);
}

static void packed_ahead(nabla_emitter *emitter, const nabla_panel *panel,
                         unsigned elements, nabla_ssa line) {
  uint64_t lines = packed_lines(emitter->spec, elements);
  nabla_ssa piece = nabla_emit_divide(emitter, line, lines);
  nabla_ssa by = nabla_emit_i64(emitter, lines);
  nabla_ssa rest =
      nabla_emit(emitter, "arith.remui %%v%u, %%v%u : i64", line, by);
  nabla_ssa row = nabla_emit_multiply(emitter, piece, NABLA_LANES);
  row = nabla_emit_add(emitter, panel->first, row);
  nabla_emit_prefetch(emitter, nabla_emit_packed_at(emitter, row, panel->k),
                      nabla_emit_multiply(emitter, rest, 64));
}

void nabla_emit_panel_ahead(nabla_emitter *emitter, const nabla_panel *panel,
                            unsigned elements, nabla_ssa line) {
  const nabla_fused_spec *spec = emitter->spec;
  if (nabla_packed_applies(spec)) {
    packed_ahead(emitter, panel, elements, line);
    return;
  }
  uint64_t lines = piece_lines(spec, panel->width, elements);
  nabla_ssa piece = nabla_emit_divide(emitter, line, lines), flat;
  nabla_ssa by = nabla_emit_i64(emitter, lines);
  nabla_ssa rest =
      nabla_emit(emitter, "arith.remui %%v%u, %%v%u : i64", line, by);
  if (nabla_spec_is_row(spec)) {
    flat = nabla_panel_flat(emitter, panel, piece, panel->k);
  } else {
    flat = nabla_emit_add(emitter, panel->k, piece);
    flat = nabla_emit_flat(emitter, flat, spec->k > 1 ? spec->stride_k : 0);
    flat = nabla_emit_add(emitter, flat, panel->first);
  }
  nabla_emit_prefetch(
      emitter, emitter->codes,
      nabla_emit_add(emitter, nabla_emit_code_byte(emitter, flat),
                     nabla_emit_multiply(emitter, rest, 64)));
}

/* ---- rows first: 16 elements of each row, then transposed -----------------
 */

/* Elements [k, k + width) of row `row` of the panel. */
static nabla_ssa row_lanes(nabla_emitter *emitter, const nabla_panel *panel,
                           nabla_ssa row, nabla_ssa at, unsigned width) {
  nabla_ssa k = nabla_emit_add(emitter, panel->k, at);
  unsigned lanes = panel->aligned < NABLA_LANES ? panel->aligned : NABLA_LANES;
  nabla_window window = {.flat = nabla_panel_flat(emitter, panel, row, k),
                         .width = width,
                         .aligned = nabla_row_alignment(emitter->spec, lanes)};
  return nabla_emit_decode(emitter, &window);
}

/* The same of 16 rows from `row` on. What takes some instructions to decode is
 * in a loop, so that it is in the code once. */
static void square_rows(nabla_emitter *emitter, const nabla_panel *panel,
                        nabla_ssa row, nabla_ssa at, unsigned width,
                        nabla_ssa *out) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_loop rows;
  if (!spec->format.encoding && !spec->ggml) {
    for (unsigned i = 0; i < NABLA_LANES; i++)
      out[i] = row_lanes(emitter, panel,
                         nabla_emit_add_constant(emitter, row, i), at, width);
    return;
  }
  nabla_array_ref scratch = nabla_floats_at(panel->scratch);
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0),
                   nabla_emit_i64(emitter, NABLA_LANES), 1, 0, NULL);
  nabla_emit_write_lanes(
      emitter, scratch,
      nabla_emit_multiply(emitter, rows.induction, NABLA_LANES),
      row_lanes(emitter, panel, nabla_emit_add(emitter, row, rows.induction),
                at, width));
  nabla_loop_end(emitter, &rows, NULL);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    out[i] = nabla_emit_read_lanes(
        emitter, scratch, nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES),
        NABLA_LANES);
}

/* Decodes elements [k, k + width) of 16 rows from `row` on and stores them. */
static void square(nabla_emitter *emitter, const nabla_panel *panel,
                   nabla_ssa row, nabla_ssa at, unsigned width) {
  nabla_array_ref out = nabla_floats_at(panel->out);
  nabla_ssa values[NABLA_LANES];
  square_rows(emitter, panel, row, at, width, values);
  nabla_emit_transpose(emitter, "f32", values);
  nabla_ssa to = nabla_emit_multiply(emitter, at, panel->width);
  to = nabla_emit_add(emitter, to, row);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_emit_write_lanes(
        emitter, out,
        nabla_emit_add_constant(emitter, to, (uint64_t)i * panel->width),
        values[i]);
}

static void rows_first(nabla_emitter *emitter, const nabla_panel *panel,
                       nabla_ssa row) {
  const nabla_fused_spec *spec = emitter->spec;
  unsigned rest = spec->any_size ? 0 : (unsigned)(spec->k % NABLA_LANES);
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa whole = nabla_emit_divide(emitter, panel->count, NABLA_LANES);
  whole = nabla_emit_multiply(emitter, whole, NABLA_LANES);
  nabla_loop_begin(emitter, &loop, zero, whole, NABLA_LANES, 0, NULL);
  square(emitter, panel, row, loop.induction, NABLA_LANES);
  nabla_loop_end(emitter, &loop, NULL);
  if (!rest) return;
  nabla_ssa some = nabla_emit(emitter, "arith.cmpi ult, %%v%u, %%v%u : i64",
                              whole, panel->count);
  nabla_emit_line(emitter, "scf.if %%v%u {", some);
  square(emitter, panel, row, whole, rest);
  nabla_emit_line(emitter, "}");
}

/* ---- blocks of GGUF files: whole ones of a row, then transposed ------------
 */

static int by_blocks(const nabla_fused_spec *spec) {
  return spec->ggml && nabla_spec_is_row(spec) &&
         nabla_block_weights_apply(spec);
}

uint64_t nabla_panel_scratch(const nabla_fused_spec *spec) {
  return by_blocks(spec) ? (uint64_t)NABLA_LANES * NABLA_STRIP * 4
                         : NABLA_PANEL_SCRATCH;
}

/* The 16 rows from `row` on, by strips, whose vectors have an order of their
 * own. */
static void blocks_first(nabla_emitter *emitter, const nabla_panel *panel,
                         nabla_ssa row) {
  unsigned order[NABLA_LANES];
  nabla_ssa values[NABLA_LANES], one = nabla_emit_i64(emitter, 1);
  nabla_strip strip = {.first = nabla_emit_add(emitter, panel->first, row),
                       .rows = nabla_emit_i64(emitter, NABLA_LANES),
                       .k = panel->k,
                       .count = panel->count,
                       .out = panel->scratch};
  nabla_array_ref from = nabla_floats_at(panel->scratch);
  nabla_loop loop;
  strip.last =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", emitter->n, one);
  nabla_emit_strip(emitter, &strip);
  nabla_strip_order(emitter->spec, order);
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), panel->count,
                   NABLA_LANES, 0, NULL);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    values[i] = nabla_emit_read_lanes(
        emitter, from,
        nabla_emit_add_constant(emitter, loop.induction,
                                (uint64_t)i * NABLA_STRIP),
        NABLA_LANES);
  nabla_emit_transpose(emitter, "f32", values);
  nabla_ssa to = nabla_emit_multiply(emitter, loop.induction, panel->width);
  to = nabla_emit_add(emitter, to, row);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_emit_write_lanes(
        emitter, nabla_floats_at(panel->out),
        nabla_emit_add_constant(emitter, to, (uint64_t)order[i] * panel->width),
        values[i]);
  nabla_loop_end(emitter, &loop, NULL);
}

/* ---- consecutive along n: rows in lanes already ----------------------------
 */

/* 16 columns from `row` on, or the last 16. */
static void columns_first(nabla_emitter *emitter, const nabla_panel *panel,
                          nabla_ssa row) {
  const nabla_fused_spec *spec = emitter->spec;
  uint64_t stride = spec->k > 1 ? spec->stride_k : 0;
  nabla_loop loop;
  nabla_ssa column =
      nabla_emit_minimum(emitter, nabla_emit_add(emitter, panel->first, row),
                         nabla_emit_i64(emitter, spec->n - NABLA_LANES));
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), panel->count, 1,
                   0, NULL);
  nabla_ssa k = nabla_emit_add(emitter, panel->k, loop.induction);
  nabla_ssa flat = nabla_emit_multiply(emitter, k, stride);
  flat = nabla_emit_add_constant(emitter, flat, spec->offset);
  nabla_window window = {
      .flat = nabla_emit_add(emitter, flat, column),
      .width = NABLA_LANES,
      .aligned = nabla_common_divisor(
          NABLA_LANES, nabla_common_divisor(spec->offset, stride))};
  nabla_ssa to = nabla_emit_multiply(emitter, loop.induction, panel->width);
  nabla_emit_write_lanes(emitter, nabla_floats_at(panel->out),
                         nabla_emit_add(emitter, to, row),
                         nabla_emit_decode(emitter, &window));
  nabla_loop_end(emitter, &loop, NULL);
}

void nabla_emit_panel(nabla_emitter *emitter, const nabla_panel *panel) {
  int rows = nabla_spec_is_row(emitter->spec);
  int dwords = rows && nabla_panel_by_words(emitter->spec, panel->aligned);
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &loop, zero, nabla_emit_i64(emitter, panel->width),
                   NABLA_LANES, 0, NULL);
  if (nabla_packed_applies(emitter->spec))
    nabla_emit_packed_panel(emitter, panel, loop.induction);
  else if (!rows)
    columns_first(emitter, panel, loop.induction);
  else if (dwords)
    nabla_emit_panel_words(emitter, panel, loop.induction);
  else if (by_blocks(emitter->spec))
    blocks_first(emitter, panel, loop.induction);
  else
    rows_first(emitter, panel, loop.induction);
  nabla_loop_end(emitter, &loop, NULL);
}
