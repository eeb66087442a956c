/* See pack_b_words.h. */
#include "lib/kernels/f32/pack_b_words.h"

#include "lib/kernels/builder/transpose.h"
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"

/* Elements after those in use whose codes are asked for, those of the next
 * panel of 256, and whose scales: a line of memory has those of many. */
#define CODES_AHEAD  256u
#define SCALES_AHEAD 512u

unsigned nabla_words_step(const nabla_fused_spec *spec) {
  return 16 * 32 / spec->format.encoding->bits;
}

/* Each row has one scale, or all have, whatever their length. */
static int has_row_scales(const nabla_fused_spec *spec) {
  return spec->any_size && spec->format.granularity != NABLA_PER_BLOCK;
}

int nabla_panel_by_words(const nabla_fused_spec *spec, unsigned aligned) {
  const nabla_format *format = &spec->format;
  if (!format->encoding) return 0;
  uint64_t step = nabla_words_step(spec), block = format->block;
  uint64_t k = spec->any_size ? spec->any_size : spec->k;
  if (k % step || nabla_row_alignment(spec, aligned) % step) return 0;
  if (has_row_scales(spec)) return 1;
  if (block >= step) return block % step == 0;
  return step % block == 0 && step / block <= NABLA_LANES;
}

/* ---- dwords first: transposed, then decoded -------------------------------
 */

unsigned nabla_words_groups(const nabla_fused_spec *spec) {
  uint64_t step = nabla_words_step(spec), block = spec->format.block;
  return has_row_scales(spec) || block >= step ? 1 : (unsigned)(step / block);
}

/* The scales, and zero points, of the blocks of a step at `flat`, for lane
 * `row`, to the scratch. */
static void load_scales(nabla_emitter *emitter, const nabla_panel *panel,
                        nabla_ssa flat, nabla_ssa row) {
  nabla_array_ref out = nabla_floats_at(panel->scratch);
  nabla_ssa first = nabla_emit_block(emitter, flat);
  for (unsigned g = 0; g < nabla_words_groups(emitter->spec); g++) {
    nabla_ssa index = nabla_emit_add_constant(emitter, first, g);
    uint64_t at = (uint64_t)g * NABLA_LANES;
    nabla_emit_write(
        emitter, out,
        nabla_emit_add_constant(emitter, row, NABLA_WORDS_SCALES / 4 + at),
        nabla_emit_scale_at(emitter, index));
    nabla_ssa zero = nabla_emit_zero_value(emitter, index);
    if (zero)
      nabla_emit_write(
          emitter, out,
          nabla_emit_add_constant(emitter, row, NABLA_WORDS_ZEROS / 4 + at),
          zero);
  }
}

/* One by one: that is little code, and the copies stay in the first cache. */
void nabla_emit_words_collect(nabla_emitter *emitter, const nabla_panel *panel,
                              nabla_ssa first, nabla_ssa k) {
  const nabla_encoding *encoding = emitter->spec->format.encoding;
  nabla_loop rows;
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0),
                   nabla_emit_i64(emitter, NABLA_LANES), 1, 0, NULL);
  nabla_ssa row = nabla_emit_add(emitter, first, rows.induction);
  nabla_ssa flat = nabla_panel_flat(emitter, panel, row, k);
  nabla_ssa byte = nabla_emit_divide(emitter, flat, 8 / encoding->bits);
  nabla_emit_prefetch(emitter, emitter->codes,
                      nabla_emit_add_constant(
                          emitter, byte, CODES_AHEAD / (8 / encoding->bits)));
  if (emitter->spec->format.granularity == NABLA_PER_BLOCK)
    nabla_emit_prefetch_scale(
        emitter, nabla_emit_add_constant(emitter, flat, SCALES_AHEAD));
  nabla_emit_store(
      emitter, "vector<16xi32>",
      nabla_emit_load(emitter, "vector<16xi32>", emitter->codes, byte, 1),
      panel->scratch, nabla_emit_multiply(emitter, rows.induction, 64), 64);
  load_scales(emitter, panel, flat, rows.induction);
  nabla_loop_end(emitter, &rows, NULL);
}

/* Where, of the codes in a dword, the one for element `i` lies, from the
 * bottom. */
static unsigned place_of(const nabla_encoding *encoding, unsigned i) {
  unsigned per_byte = 8 / encoding->bits;
  return encoding->high_first ? i ^ (per_byte - 1) : i;
}

void nabla_emit_words_turn(nabla_emitter *emitter, nabla_ssa from,
                           nabla_ssa to) {
  nabla_ssa words[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    words[i] = nabla_emit_load(emitter, "vector<16xi32>", from,
                               nabla_emit_i64(emitter, (uint64_t)i * 64), 64);
  nabla_emit_transpose(emitter, "i32", words);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_emit_store(emitter, "vector<16xi32>", words[i], to,
                     nabla_emit_i64(emitter, (uint64_t)i * 64), 64);
}

nabla_ssa nabla_emit_word_value(nabla_emitter *emitter, nabla_ssa word,
                                unsigned i) {
  const nabla_encoding *encoding = emitter->spec->format.encoding;
  nabla_ssa by = nabla_emit_i32(emitter, NABLA_VECTOR,
                                encoding->bits * place_of(encoding, i));
  return nabla_emit_code_value(
      emitter, nabla_emit(emitter, "arith.shrui %%v%u, %%v%u : vector<16xi32>",
                          word, by));
}

void nabla_emit_words_decode(nabla_emitter *emitter, const nabla_words *from,
                             const nabla_panel *panel, nabla_ssa to) {
  const nabla_fused_spec *spec = emitter->spec;
  const nabla_format *format = &spec->format;
  unsigned per_word = 32 / format->encoding->bits;
  unsigned groups = nabla_words_groups(spec);
  nabla_loop words;
  nabla_ssa zero = nabla_emit_i64(emitter, 0), zeros = 0;
  nabla_loop_begin(emitter, &words, zero, nabla_emit_i64(emitter, NABLA_LANES),
                   1, 0, NULL);
  nabla_ssa word =
      nabla_emit_load(emitter, "vector<16xi32>", from->words,
                      nabla_emit_multiply(emitter, words.induction, 64), 64);
  nabla_ssa group =
      nabla_emit_divide(emitter, words.induction, NABLA_LANES / groups);
  group = nabla_emit_multiply(emitter, group, NABLA_LANES);
  nabla_ssa scales = nabla_emit_read_lanes(
      emitter, nabla_floats_at(from->scales), group, NABLA_LANES);
  if (format->zero_point)
    zeros = nabla_emit_read_lanes(emitter, nabla_floats_at(from->zeros), group,
                                  NABLA_LANES);
  nabla_ssa row = nabla_emit_multiply(emitter, words.induction,
                                      (uint64_t)per_word * panel->width);
  row = nabla_emit_add(emitter, to, row);
  for (unsigned i = 0; i < per_word; i++)
    nabla_emit_write_lanes(
        emitter, nabla_floats_at(panel->out),
        nabla_emit_add_constant(emitter, row, (uint64_t)i * panel->width),
        nabla_emit_scaled(emitter, nabla_emit_word_value(emitter, word, i),
                          zeros, scales));
  nabla_loop_end(emitter, &words, NULL);
}

nabla_words nabla_words_in_scratch(nabla_emitter *emitter, nabla_ssa scratch) {
  nabla_ssa scales = nabla_emit_i64(emitter, NABLA_WORDS_SCALES);
  nabla_ssa zeros = nabla_emit_i64(emitter, NABLA_WORDS_ZEROS);
  return (nabla_words){scratch, nabla_emit_address(emitter, scratch, scales),
                       nabla_emit_address(emitter, scratch, zeros)};
}

void nabla_emit_panel_words(nabla_emitter *emitter, const nabla_panel *panel,
                            nabla_ssa row) {
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_words from = nabla_words_in_scratch(emitter, panel->scratch);
  nabla_loop_begin(emitter, &loop, zero, panel->count,
                   nabla_words_step(emitter->spec), 0, NULL);
  nabla_emit_words_collect(emitter, panel, row,
                           nabla_emit_add(emitter, panel->k, loop.induction));
  nabla_emit_words_turn(emitter, panel->scratch, panel->scratch);
  nabla_ssa to = nabla_emit_multiply(emitter, loop.induction, panel->width);
  nabla_emit_words_decode(emitter, &from, panel,
                          nabla_emit_add(emitter, to, row));
  nabla_loop_end(emitter, &loop, NULL);
}
