/* Lines of 64 codes as bf16; see bf16.h. */
#include "transforms/kernels/bf16_ahead.h"
#include "transforms/kernels/decode.h"
#include "transforms/kernels/int8.h"
#include "transforms/kernels/shapes.h"
#include "transforms/kernels/value.h"

#define WORDS "vector<32xi16>"

/* Half a line has a scale, a power of two. */
static int has_halves(const nabla_fused_spec *spec) {
  return spec->format.scale == NABLA_SCALE_E8M0 &&
         spec->format.block == NABLA_BF16_LINE / 2;
}

/* Every line has one scale, or two. */
static int each_line_has_a_scale(const nabla_fused_spec *spec) {
  if (has_halves(spec))
    return nabla_row_alignment(spec, NABLA_BF16_LINE / 2) ==
           NABLA_BF16_LINE / 2;
  if (spec->any_size && spec->format.granularity != NABLA_PER_BLOCK) return 1;
  return spec->format.block % NABLA_BF16_LINE == 0 &&
         nabla_row_alignment(spec, NABLA_BF16_LINE) == NABLA_BF16_LINE;
}

int nabla_bf16_by_lines(const nabla_fused_spec *spec) {
  const nabla_encoding *encoding = spec->format.encoding;
  uint64_t k = spec->any_size ? spec->any_size : spec->k;
  return !spec->ggml && encoding &&
         (encoding->bits == 4 ||
          (encoding->bits == 2 && !encoding->high_first)) &&
         k % NABLA_BF16_LINE == 0 && nabla_row_alignment(spec, 4) == 4 &&
         each_line_has_a_scale(spec);
}

unsigned nabla_bf16_word_codes(const nabla_fused_spec *spec) {
  return 16 / spec->format.encoding->bits;
}

/* The 16 values under the scale and zero point of the element at `flat`, as
 * they are split. */
static nabla_ssa table_at(nabla_emitter *emitter, nabla_ssa flat) {
  uint32_t codes[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) codes[i] = i;
  nabla_ssa zero = 0;
  nabla_ssa values =
      nabla_emit_code_value(emitter, nabla_emit_i32_lanes(emitter, codes));
  if (emitter->spec->format.zero_point)
    zero = nabla_emit_broadcast(
        emitter, "f32",
        nabla_emit_zero_value(emitter, nabla_emit_block(emitter, flat)));
  if (nabla_bf16_of(emitter->spec).run)
    return zero ? nabla_emit_binary(emitter, NABLA_VECTOR, "subf", values, zero)
                : values;
  nabla_ssa scale =
      nabla_emit_broadcast(emitter, "f32", nabla_emit_scale(emitter, flat));
  values = nabla_emit_scaled(emitter, values, zero, scale);
  return nabla_bf16_has_extremes(emitter->spec) &&
                 !nabla_bf16_of(emitter->spec).is_ahead
             ? nabla_emit_bf16_limit(emitter, values, NABLA_BF16_TINY_BITS,
                                     NABLA_BF16_LIMIT_BITS)
             : values;
}

static unsigned pick_again(unsigned lane, unsigned context) {
  return lane % context;
}

/* What `of` says of each word of two tiles' lanes. */
static nabla_ssa line_words(nabla_emitter *emitter,
                            unsigned (*of)(unsigned lane)) {
  nabla_text line = {0};
  nabla_text_add(&line, "arith.constant dense<[");
  for (unsigned i = 0; i < NABLA_BF16_STEP; i++)
    nabla_text_add(&line, "%s%u", i ? ", " : "", of(i));
  nabla_text_add(&line, "]> : " WORDS);
  return nabla_emit_taken(emitter, &line);
}

/* What `bits` says of the bit at which the words of a line have their codes for
 * tile `tile` of it: at one place in as many lanes as a line has words, at the
 * next one in the next. */
static nabla_ssa line_shifts(nabla_emitter *emitter, unsigned tile,
                             unsigned (*bits)(unsigned bit)) {
  const nabla_encoding *encoding = emitter->spec->format.encoding;
  const unsigned places = nabla_bf16_word_codes(emitter->spec);
  const unsigned turned = encoding->high_first ? 1 : 0;
  nabla_text line = {0};
  nabla_text_add(&line, "arith.constant dense<[");
  for (unsigned i = 0; i < NABLA_BF16_STEP; i++) {
    const unsigned place =
        (NABLA_BF16_STEP * tile + i) * places / NABLA_BF16_LINE;
    nabla_text_add(&line, "%s%u", i ? ", " : "",
                   bits(encoding->bits * (place ^ turned)));
  }
  nabla_text_add(&line, "]> : " WORDS);
  return nabla_emit_taken(emitter, &line);
}

/* Shifts that leave a code, and a code twice, at the lowest bit. */
static unsigned down(unsigned bit) { return bit; }
static unsigned down_but_one(unsigned bit) { return bit ? bit - 1 : 0; }
static unsigned up(unsigned bit) { return bit ? 0 : 1; }

/* The table has the same 16 words twice: bits above the lowest 4 of an index
 * mean nothing. */
static nabla_ssa look_up(nabla_emitter *emitter, nabla_ssa table,
                         nabla_ssa index) {
  return nabla_emit(
      emitter,
      "llvm.call_intrinsic \"llvm.x86.avx512.permvar.hi.512\"(%%v%u, %%v%u) "
      ": (" WORDS ", " WORDS ") -> " WORDS,
      table, index);
}

/* The table of the line at `flat` as parts. Those of a table that many lines
 * share are bf16, the same 16 words twice, and those of half a line 16 words
 * for each half. Else they are f32, of which the upper halves are the parts. */
static void split_table(nabla_emitter *emitter, nabla_ssa flat,
                        nabla_ssa *out) {
  const nabla_bf16 self = nabla_bf16_of(emitter->spec);
  nabla_ssa table = table_at(emitter, flat), other = table;
  if (has_halves(emitter->spec))
    other = table_at(
        emitter, nabla_emit_add_constant(emitter, flat, NABLA_BF16_LINE / 2));
  if (!self.is_ahead || has_halves(emitter->spec)) {
    nabla_emit_bf16_split(emitter, table, other, self.w_parts, out);
    return;
  }
  for (unsigned i = 0; i < self.w_parts; i++) {
    if (i) table = nabla_emit_bf16_less_upper(emitter, table);
    out[i] =
        nabla_emit_bitcast(emitter, nabla_type_f32[NABLA_VECTOR], WORDS, table);
  }
}

/* Words of a line that are its second half. */
static unsigned second_half(unsigned lane) {
  return lane % NABLA_LANES < NABLA_LANES / 2 ? 0 : NABLA_LANES;
}

/* The words of a line as indices in such tables, for tile `tile`: of 16 words
 * that are there twice, of those of the half, or of 16 f32, each two words, the
 * upper halves. */
static nabla_ssa line_indices(nabla_emitter *emitter, nabla_ssa codes,
                              unsigned tile) {
  const int is_half = has_halves(emitter->spec);
  const int is_f32 = nabla_bf16_of(emitter->spec).is_ahead && !is_half;
  if (is_f32 && !tile)
    codes = nabla_emit(emitter, "arith.shli %%v%u, %%v%u : " WORDS, codes,
                       line_shifts(emitter, tile, up));
  nabla_ssa index =
      nabla_emit(emitter, "arith.shrui %%v%u, %%v%u : " WORDS, codes,
                 line_shifts(emitter, tile, is_f32 ? down_but_one : down));
  if (is_f32)
    return nabla_emit(emitter, "arith.ori %%v%u, %%v%u : " WORDS, index,
                      nabla_emit(emitter, "arith.constant dense<1> : " WORDS));
  if (!is_half) return index;
  index = nabla_emit(emitter, "arith.andi %%v%u, %%v%u : " WORDS, index,
                     nabla_emit(emitter, "arith.constant dense<15> : " WORDS));
  return nabla_emit(emitter, "arith.ori %%v%u, %%v%u : " WORDS, index,
                    line_words(emitter, second_half));
}

/* A line of elements from `flat` on to two tiles from the address `out` on. */
static void decode_line(nabla_emitter *emitter, nabla_ssa flat, nabla_ssa out) {
  nabla_ssa tables[NABLA_BF16_PARTS];
  nabla_bf16 self = nabla_bf16_of(emitter->spec);
  split_table(emitter, flat, tables);
  const unsigned words = NABLA_BF16_LINE / nabla_bf16_word_codes(emitter->spec);
  nabla_ssa codes = nabla_emit_load(
      emitter, words == NABLA_LANES ? "vector<16xi16>" : "vector<8xi16>",
      emitter->codes, nabla_emit_code_byte(emitter, flat), 1);
  codes = nabla_emit_shuffle(emitter, "i16", words, codes, codes,
                             NABLA_BF16_STEP, pick_again, words);
  for (unsigned tile = 0; tile < NABLA_BF16_LINE / NABLA_BF16_STEP; tile++) {
    nabla_ssa index = line_indices(emitter, codes, tile);
    for (unsigned part = 0; part < self.w_parts; part++)
      nabla_emit_store(
          emitter, WORDS, look_up(emitter, tables[part], index), out,
          nabla_emit_i64(emitter,
                         tile * (uint64_t)NABLA_TILE_BYTES + part * self.part),
          64);
  }
}

void nabla_emit_bf16_lines(nabla_emitter *emitter, nabla_ssa flat,
                           nabla_ssa count, nabla_ssa out) {
  nabla_loop lines;
  nabla_loop_begin(emitter, &lines, nabla_emit_i64(emitter, 0), count,
                   NABLA_BF16_LINE, 0, NULL);
  nabla_ssa to = nabla_emit_multiply(emitter, lines.induction,
                                     NABLA_TILE_BYTES / NABLA_BF16_STEP);
  decode_line(emitter, nabla_emit_add(emitter, flat, lines.induction),
              nabla_emit_address(emitter, out, to));
  nabla_loop_end(emitter, &lines, NULL);
}
