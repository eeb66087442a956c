/* Decoding panels; see panel.h. Two ways: where codes of 16 rows lie in whole
 * dwords under one scale each, dwords are transposed and then decoded, rows in
 * lanes; else 16 consecutive elements of a row are decoded and then
 * transposed. */
#include "transforms/kernels/panel.h"

#include "quant/codec.h"
#include "transforms/kernels/decode.h"
#include "transforms/kernels/transpose.h"
#include "transforms/kernels/value.h"

/* Scales of 16 rows, then zero points, for up to 16 blocks. */
#define SCALES_AT NABLA_LANES * NABLA_LANES * 4
#define ZEROS_AT  (2 * SCALES_AT)

/* Ahead of a row's codes in a panel, those for the next panel. */
#define AHEAD_BYTES 128u

static nabla_array_ref floats_at(nabla_ssa base) {
  return (nabla_array_ref){base, NABLA_DTYPE_F32};
}

static nabla_ssa offset_address(nabla_emitter *emitter, nabla_ssa base,
                                uint64_t bytes) {
  return bytes
             ? nabla_emit_address(emitter, base, nabla_emit_i64(emitter, bytes))
             : base;
}

/* Codes of a row in 16 dwords. */
static unsigned step_of(const nabla_fused_spec *spec) {
  return 16 * 32 / spec->format.encoding->bits;
}

/* What row starts and the panel's k are multiples of. */
static uint64_t alignment(const nabla_fused_spec *spec, unsigned aligned) {
  if (spec->any_size) return nabla_common_divisor(spec->any_size, aligned);
  uint64_t rows =
      nabla_common_divisor(spec->offset, nabla_spec_row_stride(spec));
  return nabla_common_divisor(rows, aligned);
}

/* Dwords can be transposed: rows start at whole steps, blocks are whole steps
 * or whole dwords of a step, and the panels' ends are whole steps. */
static int by_dwords(const nabla_fused_spec *spec, unsigned aligned) {
  const nabla_format *format = &spec->format;
  if (!format->encoding) return 0;
  uint64_t step = step_of(spec), block = format->block;
  uint64_t k = spec->any_size ? spec->any_size : spec->k;
  if (k % step || alignment(spec, aligned) % step) return 0;
  if (block >= step) return block % step == 0;
  return step % block == 0 && step / block <= NABLA_LANES;
}

/* The flat index of row `first` + `lane`, or of the last row, at k. */
static nabla_ssa row_flat(nabla_emitter *emitter, const nabla_panel *panel,
                          nabla_ssa row, nabla_ssa k) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_ssa one = nabla_emit_i64(emitter, 1);
  nabla_ssa last =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", emitter->n, one);
  row = nabla_emit_minimum(emitter, nabla_emit_add(emitter, panel->first, row),
                           last);
  nabla_ssa flat =
      spec->any_size
          ? nabla_emit_product(emitter, row, emitter->k)
          : nabla_emit_add_constant(
                emitter,
                nabla_emit_multiply(emitter, row, nabla_spec_row_stride(spec)),
                spec->offset);
  return nabla_emit_add(emitter, flat, k);
}

/* ---- rows first: 16 elements of each row, then transposed -----------------
 */

/* Decodes elements [k, k + width) of 16 rows from `row` on and stores them. */
static void square(nabla_emitter *emitter, const nabla_panel *panel,
                   nabla_ssa row, nabla_ssa at, unsigned width) {
  nabla_array_ref scratch = floats_at(panel->scratch);
  nabla_array_ref out = floats_at(panel->out);
  nabla_loop rows;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa lanes = nabla_emit_i64(emitter, NABLA_LANES);
  nabla_loop_begin(emitter, &rows, zero, lanes, 1, 0, NULL);
  nabla_ssa k = nabla_emit_add(emitter, panel->k, at);
  nabla_window window = {
      .flat = row_flat(emitter, panel,
                       nabla_emit_add(emitter, row, rows.induction), k),
      .width = width,
      .aligned =
          alignment(emitter->spec, panel->aligned < NABLA_LANES ? panel->aligned
                                                                : NABLA_LANES)};
  nabla_emit_write_lanes(
      emitter, scratch,
      nabla_emit_multiply(emitter, rows.induction, NABLA_LANES),
      nabla_emit_decode(emitter, &window));
  nabla_loop_end(emitter, &rows, NULL);
  nabla_ssa values[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    values[i] = nabla_emit_read_lanes(
        emitter, scratch, nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES),
        NABLA_LANES);
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

/* ---- dwords first: transposed, then decoded -------------------------------
 */

/* Blocks of a row in one step. */
static unsigned groups_of(const nabla_fused_spec *spec) {
  uint64_t step = step_of(spec), block = spec->format.block;
  return block >= step ? 1 : (unsigned)(step / block);
}

/* The scales, and zero points, of 16 rows at `flats` for each block of a step,
 * to the scratch. */
static void load_scales(nabla_emitter *emitter, const nabla_panel *panel,
                        const nabla_ssa flats[NABLA_LANES]) {
  const nabla_format *format = &emitter->spec->format;
  nabla_array_ref out = floats_at(panel->scratch);
  for (unsigned g = 0; g < groups_of(emitter->spec); g++) {
    nabla_ssa scales[NABLA_LANES], zeros[NABLA_LANES];
    for (unsigned i = 0; i < NABLA_LANES; i++) {
      nabla_ssa index = nabla_emit_divide(emitter, flats[i], format->block);
      index = nabla_emit_add_constant(emitter, index, g);
      scales[i] = nabla_emit_scale_at(emitter, index);
      zeros[i] = nabla_emit_zero_value(emitter, index);
    }
    nabla_ssa all = nabla_emit_from_elements(emitter, "f32", scales);
    uint64_t at = SCALES_AT / 4 + (uint64_t)g * NABLA_LANES;
    nabla_emit_write_lanes(emitter, out, nabla_emit_i64(emitter, at), all);
    if (!format->zero_point) continue;
    all = nabla_emit_from_elements(emitter, "f32", zeros);
    at = ZEROS_AT / 4 + (uint64_t)g * NABLA_LANES;
    nabla_emit_write_lanes(emitter, out, nabla_emit_i64(emitter, at), all);
  }
}

/* Where, of the codes in a dword, the one for element `i` lies, from the
 * bottom. */
static unsigned place_of(const nabla_encoding *encoding, unsigned i) {
  unsigned per_byte = 8 / encoding->bits;
  return encoding->high_first ? i ^ (per_byte - 1) : i;
}

/* Transposes a step's dwords of 16 rows into the scratch. */
static void turn(nabla_emitter *emitter, const nabla_panel *panel,
                 const nabla_ssa flats[NABLA_LANES]) {
  const nabla_encoding *encoding = emitter->spec->format.encoding;
  nabla_ssa words[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_ssa byte = nabla_emit_divide(emitter, flats[i], 8 / encoding->bits);
    words[i] =
        nabla_emit_load(emitter, "vector<16xi32>", emitter->codes, byte, 1);
    nabla_emit_prefetch(emitter, emitter->codes,
                        nabla_emit_add_constant(emitter, byte, AHEAD_BYTES));
  }
  nabla_emit_transpose(emitter, "i32", words);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_emit_line(
        emitter,
        "llvm.store %%v%u, %%v%u {alignment = 64 : i64} : vector<16xi32>, "
        "!llvm.ptr",
        words[i], offset_address(emitter, panel->scratch, (uint64_t)i * 64));
}

/* Decodes the 16 transposed dwords to the panel, from element `to` on. */
static void decode_words(nabla_emitter *emitter, const nabla_panel *panel,
                         nabla_ssa to) {
  const nabla_fused_spec *spec = emitter->spec;
  const nabla_format *format = &spec->format;
  unsigned per_word = 32 / format->encoding->bits, groups = groups_of(spec);
  nabla_array_ref scratch = floats_at(panel->scratch);
  nabla_loop words;
  nabla_ssa zero = nabla_emit_i64(emitter, 0), zeros = 0;
  nabla_loop_begin(emitter, &words, zero, nabla_emit_i64(emitter, NABLA_LANES),
                   1, 0, NULL);
  nabla_ssa word =
      nabla_emit_load(emitter, "vector<16xi32>", panel->scratch,
                      nabla_emit_multiply(emitter, words.induction, 64), 64);
  nabla_ssa group =
      nabla_emit_divide(emitter, words.induction, NABLA_LANES / groups);
  group = nabla_emit_multiply(emitter, group, NABLA_LANES);
  nabla_ssa scales = nabla_emit_read_lanes(
      emitter, scratch, nabla_emit_add_constant(emitter, group, SCALES_AT / 4),
      NABLA_LANES);
  if (format->zero_point)
    zeros = nabla_emit_read_lanes(
        emitter, scratch, nabla_emit_add_constant(emitter, group, ZEROS_AT / 4),
        NABLA_LANES);
  nabla_ssa row = nabla_emit_multiply(emitter, words.induction,
                                      (uint64_t)per_word * panel->width);
  row = nabla_emit_add(emitter, to, row);
  for (unsigned i = 0; i < per_word; i++) {
    nabla_ssa by =
        nabla_emit_i32(emitter, NABLA_VECTOR,
                       format->encoding->bits * place_of(format->encoding, i));
    nabla_ssa code = nabla_emit(
        emitter, "arith.shrui %%v%u, %%v%u : vector<16xi32>", word, by);
    nabla_ssa value = nabla_emit_code_value(emitter, code);
    nabla_emit_write_lanes(
        emitter, floats_at(panel->out),
        nabla_emit_add_constant(emitter, row, (uint64_t)i * panel->width),
        nabla_emit_scaled(emitter, value, zeros, scales));
  }
  nabla_loop_end(emitter, &words, NULL);
}

static void dwords_first(nabla_emitter *emitter, const nabla_panel *panel,
                         nabla_ssa row) {
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_i64(emitter, 0), flats[NABLA_LANES];
  nabla_loop_begin(emitter, &loop, zero, panel->count, step_of(emitter->spec),
                   0, NULL);
  nabla_ssa k = nabla_emit_add(emitter, panel->k, loop.induction);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    flats[i] =
        row_flat(emitter, panel, nabla_emit_add_constant(emitter, row, i), k);
  turn(emitter, panel, flats);
  load_scales(emitter, panel, flats);
  nabla_ssa to = nabla_emit_multiply(emitter, loop.induction, panel->width);
  decode_words(emitter, panel, nabla_emit_add(emitter, to, row));
  nabla_loop_end(emitter, &loop, NULL);
}

void nabla_emit_panel(nabla_emitter *emitter, const nabla_panel *panel) {
  int dwords = by_dwords(emitter->spec, panel->aligned);
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &loop, zero, nabla_emit_i64(emitter, panel->width),
                   NABLA_LANES, 0, NULL);
  if (dwords)
    dwords_first(emitter, panel, loop.induction);
  else
    rows_first(emitter, panel, loop.induction);
  nabla_loop_end(emitter, &loop, NULL);
}
