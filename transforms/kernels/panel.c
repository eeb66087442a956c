/* Decoding panels; see panel.h. A weight that is consecutive along n needs its
 * elements decoded only. One that is consecutive along k, two ways: where codes
 * of 16 rows lie in whole dwords under one scale each, dwords are transposed
 * and then decoded, rows in lanes; else 16 consecutive elements of a row are
 * decoded and then transposed. */
#include "transforms/kernels/panel.h"

#include "quant/codec.h"
#include "transforms/kernels/decode.h"
#include "transforms/kernels/shapes.h"
#include "transforms/kernels/transpose.h"
#include "transforms/kernels/value.h"

/* Scales of 16 rows, then zero points, for up to 16 blocks. */
#define SCALES_AT NABLA_LANES * NABLA_LANES * 4
#define ZEROS_AT  (2 * SCALES_AT)

/* Elements after those in use whose codes are asked for, those of the next
 * panel of 256, and whose scales: a line of memory has those of many. */
#define CODES_AHEAD  256u
#define SCALES_AHEAD 512u

/* Codes of a row in 16 dwords. */
static unsigned step_of(const nabla_fused_spec *spec) {
  return 16 * 32 / spec->format.encoding->bits;
}

/* Each row has one scale, or all have, whatever their length. */
static int has_row_scales(const nabla_fused_spec *spec) {
  return spec->any_size && spec->format.granularity != NABLA_PER_BLOCK;
}

/* Dwords can be transposed: rows start at whole steps, blocks are whole steps
 * or whole dwords of a step, and the panels' ends are whole steps. */
static int by_dwords(const nabla_fused_spec *spec, unsigned aligned) {
  const nabla_format *format = &spec->format;
  if (!format->encoding) return 0;
  uint64_t step = step_of(spec), block = format->block;
  uint64_t k = spec->any_size ? spec->any_size : spec->k;
  if (k % step || nabla_row_alignment(spec, aligned) % step) return 0;
  if (has_row_scales(spec)) return 1;
  if (block >= step) return block % step == 0;
  return step % block == 0 && step / block <= NABLA_LANES;
}

/* The flat index of row `first` + `lane`, or of the last row, at k. */
static nabla_ssa row_flat(nabla_emitter *emitter, const nabla_panel *panel,
                          nabla_ssa row, nabla_ssa k) {
  nabla_ssa one = nabla_emit_i64(emitter, 1);
  nabla_ssa last =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", emitter->n, one);
  row = nabla_emit_minimum(emitter, nabla_emit_add(emitter, panel->first, row),
                           last);
  return nabla_emit_add(emitter, nabla_emit_row_start(emitter, row), k);
}

/* ---- rows first: 16 elements of each row, then transposed -----------------
 */

/* Decodes elements [k, k + width) of 16 rows from `row` on and stores them. */
static void square(nabla_emitter *emitter, const nabla_panel *panel,
                   nabla_ssa row, nabla_ssa at, unsigned width) {
  nabla_array_ref scratch = nabla_floats_at(panel->scratch);
  nabla_array_ref out = nabla_floats_at(panel->out);
  nabla_loop rows;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa lanes = nabla_emit_i64(emitter, NABLA_LANES);
  nabla_loop_begin(emitter, &rows, zero, lanes, 1, 0, NULL);
  nabla_ssa k = nabla_emit_add(emitter, panel->k, at);
  nabla_window window = {
      .flat = row_flat(emitter, panel,
                       nabla_emit_add(emitter, row, rows.induction), k),
      .width = width,
      .aligned = nabla_row_alignment(emitter->spec, panel->aligned < NABLA_LANES
                                                        ? panel->aligned
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
  return has_row_scales(spec) || block >= step ? 1 : (unsigned)(step / block);
}

/* The scales, and zero points, of the blocks of a step at `flat`, for lane
 * `row`, to the scratch. */
static void load_scales(nabla_emitter *emitter, const nabla_panel *panel,
                        nabla_ssa flat, nabla_ssa row) {
  nabla_array_ref out = nabla_floats_at(panel->scratch);
  nabla_ssa first = nabla_emit_block(emitter, flat);
  for (unsigned g = 0; g < groups_of(emitter->spec); g++) {
    nabla_ssa index = nabla_emit_add_constant(emitter, first, g);
    uint64_t at = (uint64_t)g * NABLA_LANES;
    nabla_emit_write(emitter, out,
                     nabla_emit_add_constant(emitter, row, SCALES_AT / 4 + at),
                     nabla_emit_scale_at(emitter, index));
    nabla_ssa zero = nabla_emit_zero_value(emitter, index);
    if (zero)
      nabla_emit_write(emitter, out,
                       nabla_emit_add_constant(emitter, row, ZEROS_AT / 4 + at),
                       zero);
  }
}

static void store_words(nabla_emitter *emitter, const nabla_panel *panel,
                        nabla_ssa row, nabla_ssa words) {
  nabla_ssa address = nabla_emit_address(emitter, panel->scratch,
                                         nabla_emit_multiply(emitter, row, 64));
  nabla_emit_line(
      emitter,
      "llvm.store %%v%u, %%v%u {alignment = 64 : i64} : vector<16xi32>, "
      "!llvm.ptr",
      words, address);
}

/* A step of 16 rows to the scratch, one by one: that is little code, and the
 * copies stay in the first cache. */
static void collect(nabla_emitter *emitter, const nabla_panel *panel,
                    nabla_ssa first, nabla_ssa k) {
  const nabla_encoding *encoding = emitter->spec->format.encoding;
  nabla_loop rows;
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0),
                   nabla_emit_i64(emitter, NABLA_LANES), 1, 0, NULL);
  nabla_ssa row = nabla_emit_add(emitter, first, rows.induction);
  nabla_ssa flat = row_flat(emitter, panel, row, k);
  nabla_ssa byte = nabla_emit_divide(emitter, flat, 8 / encoding->bits);
  nabla_emit_prefetch(emitter, emitter->codes,
                      nabla_emit_add_constant(
                          emitter, byte, CODES_AHEAD / (8 / encoding->bits)));
  if (emitter->spec->format.granularity == NABLA_PER_BLOCK)
    nabla_emit_prefetch_scale(
        emitter, nabla_emit_add_constant(emitter, flat, SCALES_AHEAD));
  store_words(
      emitter, panel, rows.induction,
      nabla_emit_load(emitter, "vector<16xi32>", emitter->codes, byte, 1));
  load_scales(emitter, panel, flat, rows.induction);
  nabla_loop_end(emitter, &rows, NULL);
}

/* Where, of the codes in a dword, the one for element `i` lies, from the
 * bottom. */
static unsigned place_of(const nabla_encoding *encoding, unsigned i) {
  unsigned per_byte = 8 / encoding->bits;
  return encoding->high_first ? i ^ (per_byte - 1) : i;
}

/* Transposes the dwords in the scratch. */
static void turn(nabla_emitter *emitter, const nabla_panel *panel) {
  nabla_ssa words[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    words[i] = nabla_emit_load(emitter, "vector<16xi32>", panel->scratch,
                               nabla_emit_i64(emitter, (uint64_t)i * 64), 64);
  nabla_emit_transpose(emitter, "i32", words);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    store_words(emitter, panel, nabla_emit_i64(emitter, i), words[i]);
}

/* Decodes the 16 transposed dwords to the panel, from element `to` on. */
static void decode_words(nabla_emitter *emitter, const nabla_panel *panel,
                         nabla_ssa to) {
  const nabla_fused_spec *spec = emitter->spec;
  const nabla_format *format = &spec->format;
  unsigned per_word = 32 / format->encoding->bits, groups = groups_of(spec);
  nabla_array_ref scratch = nabla_floats_at(panel->scratch);
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
        emitter, nabla_floats_at(panel->out),
        nabla_emit_add_constant(emitter, row, (uint64_t)i * panel->width),
        nabla_emit_scaled(emitter, value, zeros, scales));
  }
  nabla_loop_end(emitter, &words, NULL);
}

static void dwords_first(nabla_emitter *emitter, const nabla_panel *panel,
                         nabla_ssa row) {
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &loop, zero, panel->count, step_of(emitter->spec),
                   0, NULL);
  collect(emitter, panel, row,
          nabla_emit_add(emitter, panel->k, loop.induction));
  turn(emitter, panel);
  nabla_ssa to = nabla_emit_multiply(emitter, loop.induction, panel->width);
  decode_words(emitter, panel, nabla_emit_add(emitter, to, row));
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
  int dwords = rows && by_dwords(emitter->spec, panel->aligned);
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &loop, zero, nabla_emit_i64(emitter, panel->width),
                   NABLA_LANES, 0, NULL);
  if (!rows)
    columns_first(emitter, panel, loop.induction);
  else if (dwords)
    dwords_first(emitter, panel, loop.induction);
  else
    rows_first(emitter, panel, loop.induction);
  nabla_loop_end(emitter, &loop, NULL);
}
