/* Weights of whole blocks of GGUF files; see ggml_vectors.h. Codes of 4 bits
 * are looked up in a table that was multiplied with the factor (and added to
 * the minimum) of their part; all other products of codes and factors are exact
 * as well, so that weights are what nabla_ggml_decode gives. */
#include "lib/kernels/dequant/ggml_vectors.h"

/* 16 elements are a lane each; 32 the unit of what has upper bits. */
#define PIECE     (2 * NABLA_LANES)
#define PARTS_MAX (NABLA_GGML_ELEMENTS_MAX / NABLA_LANES)

static const nabla_ggml_layout *layout_of(const nabla_emitter *emitter) {
  return emitter->spec->ggml->layout;
}

static nabla_ssa splat(nabla_emitter *emitter, nabla_ssa value) {
  return nabla_emit_broadcast(emitter, "f32", value);
}

static nabla_ssa at_byte(nabla_emitter *emitter, nabla_ssa base,
                         uint32_t more) {
  return nabla_emit_add_constant(emitter, base, more);
}

/* Are there instructions for what the format needs? A fifth bit in a row of
 * bits is a mask. */
static int is_for_cpu(const nabla_fused_spec *spec) {
  const nabla_ggml_layout *l = spec->ggml->layout;
  if (NABLA_HAS(spec->features, AVX512F)) return 1;
  return NABLA_HAS(spec->features, AVX2) && !(l->bits && l->part == 1);
}

int nabla_block_weights_apply(const nabla_fused_spec *spec) {
  uint64_t elements = spec->ggml->elements;
  if (!is_for_cpu(spec) || spec->w_type != NABLA_DTYPE_F32) return 0;
  if (spec->any_size) return spec->any_size % elements == 0;
  return spec->k % elements == 0 && spec->offset % elements == 0 &&
         nabla_spec_row_stride(spec) % elements == 0;
}

static nabla_ssa load_bytes(nabla_emitter *emitter, nabla_ssa base,
                            uint32_t at) {
  return nabla_emit_load(emitter, "vector<16xi8>", emitter->codes,
                         at_byte(emitter, base, at), 1);
}

/* ---- factors ---- */

/* All factors and minima of PACKED6: lane j is factor j, lane 8 + j minimum j,
 * as f32. */
static nabla_ssa packed6_lanes(nabla_emitter *emitter, nabla_ssa base) {
  uint32_t at = layout_of(emitter)->sub_at;
  nabla_ssa f = nabla_emit_ggml_word(emitter, base, at);
  nabla_ssa m = nabla_emit_ggml_word(emitter, base, at + 4);
  nabla_ssa both = nabla_emit_ggml_word(emitter, base, at + 8), words[4];
  words[0] = nabla_emit_ggml_first_four(emitter, f);
  words[1] = nabla_emit_ggml_last_four(emitter, both, f);
  words[2] = nabla_emit_ggml_first_four(emitter, m);
  both = nabla_emit_i32_with(emitter, NABLA_SCALAR, "shrui", both, 4);
  words[3] = nabla_emit_ggml_last_four(emitter, both, m);
  nabla_ssa all = nabla_emit(emitter,
                             "vector.from_elements %%v%u, %%v%u, %%v%u, %%v%u "
                             ": vector<4xi32>",
                             words[0], words[1], words[2], words[3]);
  all = nabla_emit(emitter,
                   "vector.bitcast %%v%u : vector<4xi32> to "
                   "vector<16xi8>",
                   all);
  return nabla_emit_ggml_bytes(emitter, "extui", all);
}

/* Lane `lane` of a vector in all lanes. */
static nabla_ssa spread(nabla_emitter *emitter, nabla_ssa vector,
                        unsigned lane) {
  nabla_ssa one =
      nabla_emit(emitter, "vector.extract %%v%u[%u] : f32 from vector<16xf32>",
                 vector, lane);
  return splat(emitter, one);
}

static nabla_ssa half_lanes(nabla_emitter *emitter, nabla_ssa base,
                            uint32_t at) {
  return nabla_emit_ggml_half_lanes(emitter, at_byte(emitter, base, at));
}

/* The factor of the block in all lanes; with PACKED6 the minimum, negated, in
 * the upper ones. */
static nabla_ssa block_factor(nabla_emitter *emitter, nabla_ssa base) {
  const nabla_ggml_layout *l = layout_of(emitter);
  nabla_ssa all =
      l->is_e8m0 ? splat(emitter, nabla_emit_ggml_e8m0(
                                      emitter, at_byte(emitter, base, l->d)))
                 : half_lanes(emitter, base, l->d);
  if (l->sub != NABLA_GGML_SUB_PACKED6) return all;
  nabla_ssa min = half_lanes(emitter, base, (uint32_t)l->min);
  min = nabla_emit(emitter, "arith.negf %%v%u : vector<16xf32>", min);
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xf32>",
                    nabla_emit_mask(emitter, 0, 8), all, min);
}

nabla_block_factors nabla_emit_block_factors(nabla_emitter *emitter,
                                             nabla_ssa base) {
  const nabla_ggml *format = emitter->spec->ggml;
  const nabla_ggml_layout *l = format->layout;
  nabla_block_factors result = {.base = base, .size = format->elements};
  nabla_ssa by = block_factor(emitter, base);
  if (l->sub == NABLA_GGML_SUB_NONE) {
    result.factor = by;
    if (l->min >= 0) result.min = half_lanes(emitter, base, (uint32_t)l->min);
    return result;
  }
  int packed6 = l->sub == NABLA_GGML_SUB_PACKED6;
  nabla_ssa lanes =
      packed6 ? packed6_lanes(emitter, base)
              : nabla_emit_ggml_bytes(emitter, "extsi",
                                      load_bytes(emitter, base, l->sub_at));
  result.lanes = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", lanes, by);
  result.size = packed6 ? NABLA_GGML_PACKED6_PART : NABLA_GGML_BYTES_PART;
  return result;
}

/* What elements of part `j` of a block are multiplied with, and what is added
 * (0: nothing), as vectors. */
typedef struct part {
  nabla_ssa factor, min;
  nabla_ssa table; /* of codes of 4 bits, with both; 0: none */
} part;

/* Are weights looked up by their codes? With AVX2 a lookup is three
 * instructions for half as many, so that codes that are numbers are converted.
 */
static int has_table(const nabla_fused_spec *spec) {
  const nabla_ggml_layout *l = spec->ggml->layout;
  if (!l->run || (l->bits && l->part != 1)) return 0;
  return NABLA_HAS(spec->features, AVX512F) || l->table;
}

/* All parts of a block at once: one by one, just before they are used, they
 * cost a GEMV .15 of its time. */
static void parts_of(nabla_emitter *emitter, const nabla_block_factors *f,
                     part out[PARTS_MAX]) {
  const nabla_ggml_layout *l = layout_of(emitter);
  uint32_t count = emitter->spec->ggml->elements / f->size;
  int packed6 = l->sub == NABLA_GGML_SUB_PACKED6;
  for (uint32_t j = 0; j < count; j++)
    out[j] =
        (part){.factor = f->lanes ? spread(emitter, f->lanes, j) : f->factor,
               .min = packed6 ? spread(emitter, f->lanes, 8 + j) : f->min};
  if (!has_table(emitter->spec)) return;
  nabla_ssa table = nabla_emit_ggml_table(emitter);
  for (uint32_t j = 0; j < count; j++)
    out[j].table = out[j].min ? nabla_emit_fma(emitter, NABLA_VECTOR, table,
                                               out[j].factor, out[j].min)
                              : nabla_emit_binary(emitter, NABLA_VECTOR, "mulf",
                                                  table, out[j].factor);
}

/* ---- weights ---- */

int nabla_block_weights_turn(const nabla_fused_spec *spec) {
  const nabla_ggml_layout *l = spec->ggml->layout;
  return nabla_block_weights_apply(spec) && has_table(spec) && !l->bits;
}

/* Codes of 4 bits from `element` on, turned: four copies of 16 bytes, each
 * shifted by bytes of its own, so that nothing is widened. */
static nabla_ssa turned_codes(nabla_emitter *emitter, nabla_ssa base,
                              uint32_t element) {
  const nabla_ggml_layout *l = layout_of(emitter);
  uint32_t shifts[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++)
    shifts[i] = i / 4 * 8 + nabla_ggml_code_shift(l, element);
  nabla_ssa words =
      nabla_emit_load(emitter, "vector<4xi32>", emitter->codes,
                      at_byte(emitter, base, nabla_ggml_code_byte(l, element)), 1);
  words = nabla_emit(emitter,
                     "vector.shuffle %%v%u, %%v%u [0, 1, 2, 3, 0, 1, 2, 3, 0, "
                     "1, 2, 3, 0, 1, 2, 3] : vector<4xi32>, vector<4xi32>",
                     words, words);
  return nabla_emit_i32_binary(emitter, NABLA_VECTOR, "shrui", words,
                               nabla_emit_i32_lanes(emitter, shifts));
}

static nabla_ssa codes_in_order(nabla_emitter *emitter, nabla_ssa base,
                                uint32_t element) {
  const nabla_ggml_layout *l = layout_of(emitter);
  nabla_ssa codes =
      nabla_emit(emitter, "arith.extui %%v%u : vector<16xi8> to vector<16xi32>",
                 load_bytes(emitter, base, nabla_ggml_code_byte(l, element)));
  return nabla_emit_i32_with(emitter, NABLA_VECTOR, "shrui", codes,
                             nabla_ggml_code_shift(l, element));
}

/* Weights with codes of 4 bits from `element` on. The lookup takes the lowest
 * 4 bits of each lane. */
static nabla_ssa looked_up(nabla_emitter *emitter, nabla_ssa base, uint32_t element,
                           const part *p, int turned) {
  const nabla_ggml_layout *l = layout_of(emitter);
  nabla_ssa codes = turned && nabla_block_weights_turn(emitter->spec)
                        ? turned_codes(emitter, base, element)
                        : codes_in_order(emitter, base, element);
  nabla_ssa value = nabla_emit_lookup_in(emitter, p->table, codes);
  if (!l->bits) return value;
  /* a fifth bit in a row of bits: 16 times the factor more */
  nabla_ssa more = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", p->factor,
                                     nabla_emit_f32(emitter, NABLA_VECTOR, 16));
  more = nabla_emit_binary(emitter, NABLA_VECTOR, "addf", value, more);
  nabla_ssa bits =
      nabla_emit_load(emitter, "i16", emitter->codes,
                      at_byte(emitter, base, nabla_ggml_high_byte(l, element)), 1);
  bits = nabla_emit(emitter, "llvm.bitcast %%v%u : i16 to vector<16xi1>", bits);
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xf32>",
                    bits, more, value);
}

static nabla_ssa i8_with(nabla_emitter *emitter, const char *operation,
                         nabla_ssa a, uint32_t value) {
  nabla_ssa b =
      nabla_emit(emitter, "arith.constant dense<%u> : vector<32xi8>", value);
  return nabla_emit(emitter, "arith.%s %%v%u, %%v%u : vector<32xi8>", operation,
                    a, b);
}

/* 32 codes from `element` on, a byte each; their lower bits count from byte
 * `low_base`, their upper ones, if there are any, from `high_base`. */
static nabla_ssa piece_codes(nabla_emitter *emitter, nabla_ssa low_base,
                             nabla_ssa high_base, uint32_t element) {
  const nabla_ggml_layout *l = layout_of(emitter);
  nabla_ssa low = nabla_emit_load(
      emitter, "vector<32xi8>", emitter->codes,
      at_byte(emitter, low_base, nabla_ggml_code_byte(l, element)), 1);
  low = nabla_ggml_code_shift(l, element) ? i8_with(emitter, "shrui", low, 4)
                                    : i8_with(emitter, "andi", low, 15);
  if (!l->bits) return low;
  uint32_t shift = nabla_ggml_high_shift(l, element);
  nabla_ssa high = nabla_emit_load(
      emitter, "vector<32xi8>", emitter->codes,
      at_byte(emitter, high_base, nabla_ggml_high_byte(l, element)), 1);
  high = shift > 4 ? i8_with(emitter, "shrui", high, shift - 4)
                   : i8_with(emitter, "shli", high, 4 - shift);
  high = i8_with(emitter, "andi", high, ((1u << l->bits) - 1) << 4);
  return nabla_emit(emitter, "arith.ori %%v%u, %%v%u : vector<32xi8>", low,
                    high);
}

/* Half `half` of 32 codes, as f32, extended by "extui" or "extsi". */
static nabla_ssa half_piece(nabla_emitter *emitter, nabla_ssa codes,
                            const char *extend, unsigned half) {
  nabla_ssa lanes = nabla_emit(
      emitter,
      "vector.extract_strided_slice %%v%u {offsets = [%u], sizes = [16], "
      "strides = [1]} : vector<32xi8> to vector<16xi8>",
      codes, half * NABLA_LANES);
  return nabla_emit_ggml_bytes(emitter, extend, lanes);
}

/* factor * (code - bias), or factor * code + min. */
static nabla_ssa converted(nabla_emitter *emitter, nabla_ssa code,
                           const part *p) {
  int32_t bias = layout_of(emitter)->bias;
  nabla_ssa add = p->min;
  if (!add)
    add = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", p->factor,
                            nabla_emit_f32(emitter, NABLA_VECTOR, -bias));
  return nabla_emit_fma(emitter, NABLA_VECTOR, code, p->factor, add);
}

nabla_ssa nabla_emit_block_bytes(nabla_emitter *emitter, nabla_ssa base,
                                 uint32_t element) {
  return nabla_emit_ggml_bytes(
      emitter, "extsi",
      load_bytes(emitter, base, nabla_ggml_code_byte(layout_of(emitter), element)));
}

/* 16 codes of 4 bits from `element` on, as f32. */
static nabla_ssa few_codes(nabla_emitter *emitter, nabla_ssa base, uint32_t element) {
  nabla_ssa codes = codes_in_order(emitter, base, element);
  if (!nabla_ggml_code_shift(layout_of(emitter), element))
    codes = nabla_emit_i32_with(emitter, NABLA_VECTOR, "andi", codes, 15);
  return nabla_emit(
      emitter, "arith.sitofp %%v%u : vector<16xi32> to vector<16xf32>", codes);
}

void nabla_emit_block_weights(nabla_emitter *emitter, nabla_ssa base,
                              int turned, nabla_block_use *use, void *context) {
  const nabla_ggml *format = emitter->spec->ggml;
  nabla_block_factors factors = nabla_emit_block_factors(emitter, base);
  nabla_ssa codes = 0, weights;
  part parts[PARTS_MAX];
  parts_of(emitter, &factors, parts);
  for (uint32_t element = 0; element < format->elements; element += NABLA_LANES) {
    const part *p = &parts[element / factors.size];
    if (!format->layout->run) {
      weights = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf",
                                  nabla_emit_block_bytes(emitter, base, element),
                                  p->factor);
    } else if (p->table) {
      weights = looked_up(emitter, base, element, p, turned);
    } else if (format->layout->run % PIECE) {
      weights = converted(emitter, few_codes(emitter, base, element), p);
    } else {
      if (element % PIECE == 0) codes = piece_codes(emitter, base, base, element);
      weights = converted(
          emitter, half_piece(emitter, codes, "extui", element / NABLA_LANES % 2), p);
    }
    use(emitter, element, weights, context);
  }
}

/* ---- codes ---- */

/* Bytes that half a block has of lower bits, of upper bits, and of factors. */
#define LOW_BYTES    (NABLA_BLOCK_HALF / 2)
#define HIGH_BYTES   (NABLA_BLOCK_HALF / 4)
#define FACTOR_BYTES (NABLA_BLOCK_HALF / NABLA_GGML_BYTES_PART)

static int has_halves(const nabla_fused_spec *spec) {
  const nabla_ggml_layout *l = spec->ggml->layout;
  return l->sub == NABLA_GGML_SUB_BYTES && !l->table && l->bits == 2 &&
         spec->ggml->elements == 2 * NABLA_BLOCK_HALF && l->run == LOW_BYTES &&
         l->part == HIGH_BYTES;
}

uint32_t nabla_block_codes_unit(const nabla_fused_spec *spec) {
  const nabla_ggml_layout *l = spec->ggml->layout;
  if (!nabla_block_weights_apply(spec)) return 0;
  if (has_halves(spec)) return NABLA_BLOCK_HALF;
  const int has_pieces = !l->table && !l->bias && l->run && !(l->run % PIECE) &&
                         (!l->bits || !(l->part % PIECE));
  return l->sub == NABLA_GGML_SUB_PACKED6 && has_pieces ? spec->ggml->elements
                                                        : 0;
}

static nabla_ssa half_from(nabla_emitter *emitter, nabla_ssa base,
                           nabla_ssa half, uint32_t bytes) {
  return nabla_emit_add(emitter, base,
                        nabla_emit_multiply(emitter, half, bytes));
}

/* The factors of a half, in lanes. */
static nabla_ssa half_factors(nabla_emitter *emitter, nabla_ssa base) {
  nabla_ssa bytes =
      nabla_emit_load(emitter, "vector<8xi8>", emitter->codes,
                      at_byte(emitter, base, layout_of(emitter)->sub_at), 1);
  bytes = nabla_emit(emitter,
                     "vector.shuffle %%v%u, %%v%u [0, 1, 2, 3, 4, 5, 6, 7, 0, "
                     "1, 2, 3, 4, 5, 6, 7] : vector<8xi8>, vector<8xi8>",
                     bytes, bytes);
  return nabla_emit_ggml_bytes(emitter, "extsi", bytes);
}

static void half_codes(nabla_emitter *emitter, nabla_ssa base, nabla_ssa half,
                       nabla_block_use *use, void *context) {
  const uint32_t bias = (uint32_t)layout_of(emitter)->bias;
  nabla_ssa codes = 0;
  nabla_ssa low = half_from(emitter, base, half, LOW_BYTES);
  nabla_ssa high = half_from(emitter, base, half, HIGH_BYTES);
  nabla_ssa factors =
      half_factors(emitter, half_from(emitter, base, half, FACTOR_BYTES));
  for (uint32_t element = 0; element < NABLA_BLOCK_HALF; element += NABLA_LANES) {
    if (element % PIECE == 0)
      codes =
          i8_with(emitter, "subi", piece_codes(emitter, low, high, element), bias);
    nabla_ssa value = half_piece(emitter, codes, "extsi", element / NABLA_LANES % 2);
    use(emitter, element,
        nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", value,
                          spread(emitter, factors, element / NABLA_LANES)),
        context);
  }
}

void nabla_emit_block_codes(nabla_emitter *emitter, nabla_ssa base,
                            nabla_ssa half, nabla_block_use *use,
                            void *context) {
  nabla_ssa codes = 0;
  if (has_halves(emitter->spec)) {
    half_codes(emitter, base, half, use, context);
    return;
  }
  for (uint32_t element = 0; element < emitter->spec->ggml->elements; element += NABLA_LANES) {
    if (element % PIECE == 0) codes = piece_codes(emitter, base, base, element);
    use(emitter, element, half_piece(emitter, codes, "extui", element / NABLA_LANES % 2),
        context);
  }
}
