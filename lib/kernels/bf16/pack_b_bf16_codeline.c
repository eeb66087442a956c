/* Packing of cache lines of 64 codes to bf16; see bf16.h. */
#include "lib/kernels/bf16/pack_b_bf16_ahead.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"

#define WORDS "vector<32xi16>"

/* Half a line has a scale, a power of two. */
static int has_halves(const nabla_fused_spec *spec) {
  return spec->w.format.scale == NABLA_SCALE_E8M0 &&
         spec->w.format.block == NABLA_BF16_LINE / 2;
}

/* Every line has one scale, or two. */
static int each_line_has_a_scale(const nabla_fused_spec *spec) {
  if (has_halves(spec))
    return nabla_row_alignment(spec, NABLA_BF16_LINE / 2) ==
           NABLA_BF16_LINE / 2;
  if (spec->any_size && spec->w.format.granularity != NABLA_PER_BLOCK) return 1;
  return spec->w.format.block % NABLA_BF16_LINE == 0 &&
         nabla_row_alignment(spec, NABLA_BF16_LINE) == NABLA_BF16_LINE;
}

int nabla_bf16_by_lines(const nabla_fused_spec *spec) {
  const nabla_encoding *encoding = spec->w.format.encoding;
  uint64_t k = spec->any_size ? spec->any_size : spec->k;
  return !spec->w.ggml && encoding &&
         (encoding->bits == 4 ||
          (encoding->bits == 2 && !encoding->high_first)) &&
         k % NABLA_BF16_LINE == 0 && nabla_row_alignment(spec, 4) == 4 &&
         each_line_has_a_scale(spec);
}

unsigned nabla_bf16_word_codes(const nabla_fused_spec *spec) {
  return 16 / spec->w.format.encoding->bits;
}

/* The 16 values under the scale and zero point of the element at `flat`, as
 * they are split. */
static nabla_ssa table_at(nabla_emitter *e, nabla_ssa flat) {
  uint32_t codes[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) codes[i] = i;
  nabla_ssa zero = 0;
  nabla_ssa values = nabla_emit_code_value(e, k_i32_lanes(e, codes));
  if (e->spec->w.format.zero_point)
    zero = k_broadcast(e, "f32",
                       nabla_emit_zero_value(e, nabla_emit_block(e, flat)));
  if (nabla_bf16_of(e->spec).run)
    return zero ? k_binary(e, NABLA_VECTOR, "subf", values, zero) : values;
  nabla_ssa scale = k_broadcast(e, "f32", nabla_emit_scale(e, flat));
  values = nabla_emit_scaled(e, values, zero, scale);
  return nabla_bf16_has_extremes(e->spec) && !nabla_bf16_of(e->spec).is_ahead
             ? nabla_emit_bf16_limit(e, values, NABLA_BF16_TINY_BITS,
                                     NABLA_BF16_LIMIT_BITS)
             : values;
}

static unsigned pick_again(unsigned lane, unsigned context) {
  return lane % context;
}

static nabla_ssa word_constants(nabla_emitter *e,
                                const unsigned values[NABLA_BF16_STEP]) {
  nabla_text line = {0};
  nabla_text_add(&line, "arith.constant dense<[");
  for (unsigned i = 0; i < NABLA_BF16_STEP; i++)
    nabla_text_add(&line, "%s%u", i ? ", " : "", values[i]);
  nabla_text_add(&line, "]> : " WORDS);
  return k_taken(e, &line);
}

/* What `bits` says of the bit at which the words of a line have their codes for
 * tile `tile` of it: at one place in as many lanes as a line has words, at the
 * next one in the next. */
static nabla_ssa line_shifts(nabla_emitter *e, unsigned tile,
                             unsigned (*bits)(unsigned bit)) {
  const nabla_encoding *encoding = e->spec->w.format.encoding;
  const unsigned places = nabla_bf16_word_codes(e->spec);
  const unsigned swapped = encoding->high_first ? 1 : 0;
  unsigned shifts[NABLA_BF16_STEP];
  for (unsigned i = 0; i < NABLA_BF16_STEP; i++) {
    const unsigned place =
        (NABLA_BF16_STEP * tile + i) * places / NABLA_BF16_LINE;
    shifts[i] = bits(encoding->bits * (place ^ swapped));
  }
  return word_constants(e, shifts);
}

/* Shifts that leave a code, and a code twice, at the lowest bit. */
static unsigned down(unsigned bit) { return bit; }
static unsigned down_but_one(unsigned bit) { return bit ? bit - 1 : 0; }
static unsigned up(unsigned bit) { return bit ? 0 : 1; }

/* The lowest 5 bits of an index are its number of a word. */
static nabla_ssa look_up(nabla_emitter *e, nabla_ssa table, nabla_ssa index) {
  return k_op(
      e,
      "llvm.call_intrinsic \"llvm.x86.avx512.permvar.hi.512\"(%%v%u, %%v%u) "
      ": (" WORDS ", " WORDS ") -> " WORDS,
      table, index);
}

/* Is there a table for each line, which stays f32, as its upper halves are
 * parts?
 */
static int has_f32_tables(const nabla_fused_spec *spec) {
  return nabla_bf16_of(spec).is_ahead && !has_halves(spec);
}

/* The table of the line at `flat` as parts: of two halves 16 words each, of one
 * line, or of many that share it, the same 16 words twice, or 16 f32. */
static void split_table(nabla_emitter *e, nabla_ssa flat, nabla_ssa *out) {
  const nabla_fused_spec *spec = e->spec;
  const unsigned parts = nabla_bf16_of(spec).w_parts;
  nabla_ssa table = table_at(e, flat), other = table;
  if (has_halves(spec))
    other = table_at(e, k_add_constant(e, flat, NABLA_BF16_LINE / 2));
  if (!has_f32_tables(spec)) {
    nabla_emit_bf16_split(e, table, other, parts, out);
    return;
  }
  for (unsigned i = 0; i < parts; i++) {
    if (i) table = nabla_emit_bf16_less_upper(e, table);
    out[i] = k_bitcast(e, nabla_type_f32[NABLA_VECTOR], WORDS, table);
  }
}

/* Of codes in the low bits of words, the numbers of words in the table of their
 * half of the line. */
static nabla_ssa indices_in_halves(nabla_emitter *e, nabla_ssa codes) {
  unsigned first[NABLA_BF16_STEP];
  for (unsigned i = 0; i < NABLA_BF16_STEP; i++)
    first[i] = i % NABLA_LANES < NABLA_LANES / 2 ? 0 : NABLA_LANES;
  codes = k_op(e, "arith.andi %%v%u, %%v%u : " WORDS, codes,
               k_op(e, "arith.constant dense<15> : " WORDS));
  return k_op(e, "arith.ori %%v%u, %%v%u : " WORDS, codes,
              word_constants(e, first));
}

/* The words of a line as numbers of words in such tables, for tile `tile`.
 * Where 16 words are there twice, bits above the lowest 4 mean nothing; the
 * upper half of an f32 is word 1 of 2. */
static nabla_ssa line_indices(nabla_emitter *e, nabla_ssa codes,
                              unsigned tile) {
  const int is_f32 = has_f32_tables(e->spec);
  if (is_f32 && !tile)
    codes = k_op(e, "arith.shli %%v%u, %%v%u : " WORDS, codes,
                 line_shifts(e, tile, up));
  nabla_ssa index = k_op(e, "arith.shrui %%v%u, %%v%u : " WORDS, codes,
                         line_shifts(e, tile, is_f32 ? down_but_one : down));
  if (has_halves(e->spec)) return indices_in_halves(e, index);
  if (!is_f32) return index;
  return k_op(e, "arith.ori %%v%u, %%v%u : " WORDS, index,
              k_op(e, "arith.constant dense<1> : " WORDS));
}

/* A line of elements from `flat` on to two tiles from the address `out` on. */
static void decode_line(nabla_emitter *e, nabla_ssa flat, nabla_ssa out) {
  nabla_ssa tables[NABLA_BF16_PARTS];
  nabla_bf16 self = nabla_bf16_of(e->spec);
  split_table(e, flat, tables);
  const unsigned words = NABLA_BF16_LINE / nabla_bf16_word_codes(e->spec);
  nabla_ssa codes =
      k_load(e, words == NABLA_LANES ? "vector<16xi16>" : "vector<8xi16>",
             e->codes, nabla_emit_code_byte(e, flat), 1);
  codes = k_shuffle(e, "i16", words, codes, codes, NABLA_BF16_STEP, pick_again,
                    words);
  for (unsigned tile = 0; tile < NABLA_BF16_LINE / NABLA_BF16_STEP; tile++) {
    nabla_ssa index = line_indices(e, codes, tile);
    for (unsigned part = 0; part < self.w_parts; part++)
      k_store(e, WORDS, look_up(e, tables[part], index), out,
              k_i64(e, tile * (uint64_t)NABLA_TILE_BYTES + part * self.part),
              64);
  }
}

void nabla_emit_bf16_lines(nabla_emitter *e, nabla_ssa flat, nabla_ssa count,
                           nabla_ssa out) {
  nabla_loop lines;
  k_loop_begin(e, &lines, k_i64(e, 0), count, NABLA_BF16_LINE, 0, NULL);
  nabla_ssa to =
      k_multiply(e, lines.induction, NABLA_TILE_BYTES / NABLA_BF16_STEP);
  decode_line(e, k_add(e, flat, lines.induction), k_address(e, out, to));
  k_loop_end(e, &lines, NULL);
}
