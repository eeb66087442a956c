/* Weights of whole GGUF blocks; see ggml_vectors.h. Codes of 4 bits are looked
 * up in a table that was multiplied with the factor (and added to the minimum)
 * of their part; all other products of codes and factors are exact as well, so
 * that weights equal those of nabla_ggml_decode. */
#include "lib/kernels/dequant/ggml_vectors.h"

#include "lib/kernels/builder/k.h"

/* 16 elements are a lane each; 32 the unit of what has upper bits. */
#define PIECE     (2 * NABLA_LANES)
#define PARTS_MAX (NABLA_GGML_ELEMENTS_MAX / NABLA_LANES)

static const nabla_ggml_layout *layout_of(const nabla_emitter *e) {
  return e->spec->w.ggml->layout;
}

static nabla_ssa splat(nabla_emitter *e, nabla_ssa value) {
  return k_broadcast(e, "f32", value);
}

static nabla_ssa at_byte(nabla_emitter *e, nabla_ssa base, uint32_t more) {
  return k_add_constant(e, base, more);
}

/* Whether the target has the instructions that the format needs. A fifth bit in
 * a row of bits is a mask. */
static int is_for_cpu(const nabla_fused_spec *spec) {
  const nabla_ggml_layout *l = spec->w.ggml->layout;
  if (NABLA_HAS(spec->features, AVX512F)) return 1;
  return NABLA_HAS(spec->features, AVX2) && !(l->bits && l->part == 1);
}

int nabla_block_weights_apply(const nabla_fused_spec *spec) {
  uint64_t elements = spec->w.ggml->elements;
  if (!is_for_cpu(spec) || spec->w_type != NABLA_DTYPE_F32) return 0;
  if (spec->any_size) return spec->any_size % elements == 0;
  return spec->k % elements == 0 && spec->offset % elements == 0 &&
         nabla_spec_row_stride(spec) % elements == 0;
}

static nabla_ssa load_bytes(nabla_emitter *e, nabla_ssa base, uint32_t at) {
  return k_load(e, "vector<16xi8>", e->codes, at_byte(e, base, at), 1);
}

/* ---- factors ---- */

/* All factors and minima of PACKED6: lane j is factor j, lane 8 + j minimum j,
 * as f32. */
static nabla_ssa packed6_lanes(nabla_emitter *e, nabla_ssa base) {
  uint32_t at = layout_of(e)->sub_at;
  nabla_ssa f = nabla_emit_ggml_word(e, base, at);
  nabla_ssa m = nabla_emit_ggml_word(e, base, at + 4);
  nabla_ssa both = nabla_emit_ggml_word(e, base, at + 8), words[4];
  words[0] = nabla_emit_ggml_first_four(e, f);
  words[1] = nabla_emit_ggml_last_four(e, both, f);
  words[2] = nabla_emit_ggml_first_four(e, m);
  both = k_i32_with(e, NABLA_SCALAR, "shrui", both, 4);
  words[3] = nabla_emit_ggml_last_four(e, both, m);
  nabla_ssa all = k_op(e,
                       "vector.from_elements %%v%u, %%v%u, %%v%u, %%v%u "
                       ": vector<4xi32>",
                       words[0], words[1], words[2], words[3]);
  all = k_op(e,
             "vector.bitcast %%v%u : vector<4xi32> to "
             "vector<16xi8>",
             all);
  return nabla_emit_ggml_bytes(e, "extui", all);
}

/* Lane `lane` of a vector, broadcast. */
static nabla_ssa spread(nabla_emitter *e, nabla_ssa vector, unsigned lane) {
  nabla_ssa one = k_op(e, "vector.extract %%v%u[%u] : f32 from vector<16xf32>",
                       vector, lane);
  return splat(e, one);
}

static nabla_ssa half_lanes(nabla_emitter *e, nabla_ssa base, uint32_t at) {
  return nabla_emit_ggml_half_lanes(e, at_byte(e, base, at));
}

/* The factor of the block in all lanes; with PACKED6 the minimum, negated, in
 * the upper ones. */
static nabla_ssa block_factor(nabla_emitter *e, nabla_ssa base) {
  const nabla_ggml_layout *l = layout_of(e);
  nabla_ssa all =
      l->is_e8m0 ? splat(e, nabla_emit_ggml_e8m0(e, at_byte(e, base, l->d)))
                 : half_lanes(e, base, l->d);
  if (l->sub != NABLA_GGML_SUB_PACKED6) return all;
  nabla_ssa min = half_lanes(e, base, (uint32_t)l->min);
  min = k_op(e, "arith.negf %%v%u : vector<16xf32>", min);
  return k_op(e,
              "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
              "vector<16xf32>",
              k_mask(e, 0, 8), all, min);
}

nabla_block_factors nabla_emit_block_factors(nabla_emitter *e, nabla_ssa base) {
  const nabla_ggml *format = e->spec->w.ggml;
  const nabla_ggml_layout *l = format->layout;
  nabla_block_factors result = {.base = base, .size = format->elements};
  nabla_ssa by = block_factor(e, base);
  if (l->sub == NABLA_GGML_SUB_NONE) {
    result.factor = by;
    if (l->min >= 0) result.min = half_lanes(e, base, (uint32_t)l->min);
    return result;
  }
  int packed6 = l->sub == NABLA_GGML_SUB_PACKED6;
  nabla_ssa lanes = packed6 ? packed6_lanes(e, base)
                            : nabla_emit_ggml_bytes(
                                  e, "extsi", load_bytes(e, base, l->sub_at));
  result.lanes = k_binary(e, NABLA_VECTOR, "mulf", lanes, by);
  result.size = packed6 ? NABLA_GGML_PACKED6_PART : NABLA_GGML_BYTES_PART;
  return result;
}

/* The factor of the elements of part `j` of a block, and the added term (0:
 * none), as vectors. */
typedef struct part {
  nabla_ssa factor, min;
  nabla_ssa table; /* of codes of 4 bits, with both; 0: none */
} part;

/* Whether weights are looked up by their codes. With AVX2 a lookup is three
 * instructions for half as many weights, so that integer codes are converted
 * instead. */
static int has_table(const nabla_fused_spec *spec) {
  const nabla_ggml_layout *l = spec->w.ggml->layout;
  if (!l->run || (l->bits && l->part != 1)) return 0;
  return NABLA_HAS(spec->features, AVX512F) || l->table;
}

/* All parts of a block at once: one by one, just before they are used, they
 * cost a GEMV .15 of its time. */
static void parts_of(nabla_emitter *e, const nabla_block_factors *f,
                     part out[PARTS_MAX]) {
  const nabla_ggml_layout *l = layout_of(e);
  uint32_t count = e->spec->w.ggml->elements / f->size;
  int packed6 = l->sub == NABLA_GGML_SUB_PACKED6;
  for (uint32_t j = 0; j < count; j++)
    out[j] = (part){.factor = f->lanes ? spread(e, f->lanes, j) : f->factor,
                    .min = packed6 ? spread(e, f->lanes, 8 + j) : f->min};
  if (!has_table(e->spec)) return;
  nabla_ssa table = nabla_emit_ggml_table(e);
  for (uint32_t j = 0; j < count; j++)
    out[j].table =
        out[j].min ? k_fma(e, NABLA_VECTOR, table, out[j].factor, out[j].min)
                   : k_binary(e, NABLA_VECTOR, "mulf", table, out[j].factor);
}

/* ---- weights ---- */

int nabla_block_weights_transpose(const nabla_fused_spec *spec) {
  const nabla_ggml_layout *l = spec->w.ggml->layout;
  return nabla_block_weights_apply(spec) && has_table(spec) && !l->bits;
}

/* Codes of 4 bits from `element` on, transposed: four copies of 16 bytes, each
 * shifted by a different number of bytes, so that nothing is widened. */
static nabla_ssa transposed_codes(nabla_emitter *e, nabla_ssa base,
                                  uint32_t element) {
  const nabla_ggml_layout *l = layout_of(e);
  uint32_t shifts[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++)
    shifts[i] = i / 4 * 8 + nabla_ggml_code_shift(l, element);
  nabla_ssa words =
      k_load(e, "vector<4xi32>", e->codes,
             at_byte(e, base, nabla_ggml_code_byte(l, element)), 1);
  words = k_op(e,
               "vector.shuffle %%v%u, %%v%u [0, 1, 2, 3, 0, 1, 2, 3, 0, "
               "1, 2, 3, 0, 1, 2, 3] : vector<4xi32>, vector<4xi32>",
               words, words);
  return k_i32_binary(e, NABLA_VECTOR, "shrui", words, k_i32_lanes(e, shifts));
}

static nabla_ssa codes_in_order(nabla_emitter *e, nabla_ssa base,
                                uint32_t element) {
  const nabla_ggml_layout *l = layout_of(e);
  nabla_ssa codes =
      k_op(e, "arith.extui %%v%u : vector<16xi8> to vector<16xi32>",
           load_bytes(e, base, nabla_ggml_code_byte(l, element)));
  return k_i32_with(e, NABLA_VECTOR, "shrui", codes,
                    nabla_ggml_code_shift(l, element));
}

/* Weights with codes of 4 bits from `element` on. The lookup takes the lowest
 * 4 bits of each lane. */
static nabla_ssa table_values(nabla_emitter *e, nabla_ssa base,
                              uint32_t element, const part *p, int transposed) {
  const nabla_ggml_layout *l = layout_of(e);
  nabla_ssa codes = transposed && nabla_block_weights_transpose(e->spec)
                        ? transposed_codes(e, base, element)
                        : codes_in_order(e, base, element);
  nabla_ssa value = nabla_emit_table_lookup_in(e, p->table, codes);
  if (!l->bits) return value;
  /* a fifth bit in a row of bits: 16 times the factor more */
  nabla_ssa more =
      k_binary(e, NABLA_VECTOR, "mulf", p->factor, k_f32(e, NABLA_VECTOR, 16));
  more = k_binary(e, NABLA_VECTOR, "addf", value, more);
  nabla_ssa bits =
      k_load(e, "i16", e->codes,
             at_byte(e, base, nabla_ggml_high_byte(l, element)), 1);
  bits = k_op(e, "llvm.bitcast %%v%u : i16 to vector<16xi1>", bits);
  return k_op(e,
              "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
              "vector<16xf32>",
              bits, more, value);
}

static nabla_ssa i8_with(nabla_emitter *e, const char *operation, nabla_ssa a,
                         uint32_t value) {
  nabla_ssa b = k_op(e, "arith.constant dense<%u> : vector<32xi8>", value);
  return k_op(e, "arith.%s %%v%u, %%v%u : vector<32xi8>", operation, a, b);
}

/* 32 codes from `element` on, a byte each; their lower bits count from byte
 * `low_base`, their upper ones, if there are any, from `high_base`. */
static nabla_ssa piece_codes(nabla_emitter *e, nabla_ssa low_base,
                             nabla_ssa high_base, uint32_t element) {
  const nabla_ggml_layout *l = layout_of(e);
  nabla_ssa low =
      k_load(e, "vector<32xi8>", e->codes,
             at_byte(e, low_base, nabla_ggml_code_byte(l, element)), 1);
  low = nabla_ggml_code_shift(l, element) ? i8_with(e, "shrui", low, 4)
                                          : i8_with(e, "andi", low, 15);
  if (!l->bits) return low;
  uint32_t shift = nabla_ggml_high_shift(l, element);
  nabla_ssa high =
      k_load(e, "vector<32xi8>", e->codes,
             at_byte(e, high_base, nabla_ggml_high_byte(l, element)), 1);
  high = shift > 4 ? i8_with(e, "shrui", high, shift - 4)
                   : i8_with(e, "shli", high, 4 - shift);
  high = i8_with(e, "andi", high, ((1u << l->bits) - 1) << 4);
  return k_op(e, "arith.ori %%v%u, %%v%u : vector<32xi8>", low, high);
}

/* Half `half` of 32 codes, as f32, extended by "extui" or "extsi". */
static nabla_ssa half_piece(nabla_emitter *e, nabla_ssa codes,
                            const char *extend, unsigned half) {
  nabla_ssa lanes =
      k_op(e,
           "vector.extract_strided_slice %%v%u {offsets = [%u], sizes = [16], "
           "strides = [1]} : vector<32xi8> to vector<16xi8>",
           codes, half * NABLA_LANES);
  return nabla_emit_ggml_bytes(e, extend, lanes);
}

/* factor * (code - bias), or factor * code + min. */
static nabla_ssa converted(nabla_emitter *e, nabla_ssa code, const part *p) {
  int32_t bias = layout_of(e)->bias;
  nabla_ssa add = p->min;
  if (!add)
    add = k_binary(e, NABLA_VECTOR, "mulf", p->factor,
                   k_f32(e, NABLA_VECTOR, -bias));
  return k_fma(e, NABLA_VECTOR, code, p->factor, add);
}

nabla_ssa nabla_emit_block_bytes(nabla_emitter *e, nabla_ssa base,
                                 uint32_t element) {
  return nabla_emit_ggml_bytes(
      e, "extsi",
      load_bytes(e, base, nabla_ggml_code_byte(layout_of(e), element)));
}

/* 16 codes of 4 bits from `element` on, as f32. */
static nabla_ssa few_codes(nabla_emitter *e, nabla_ssa base, uint32_t element) {
  nabla_ssa codes = codes_in_order(e, base, element);
  if (!nabla_ggml_code_shift(layout_of(e), element))
    codes = k_i32_with(e, NABLA_VECTOR, "andi", codes, 15);
  return k_op(e, "arith.sitofp %%v%u : vector<16xi32> to vector<16xf32>",
              codes);
}

void nabla_emit_block_weights(nabla_emitter *e, nabla_ssa base, int transposed,
                              nabla_block_use *use, void *context) {
  const nabla_ggml *format = e->spec->w.ggml;
  nabla_block_factors factors = nabla_emit_block_factors(e, base);
  nabla_ssa codes = 0, weights;
  part parts[PARTS_MAX];
  parts_of(e, &factors, parts);
  for (uint32_t element = 0; element < format->elements;
       element += NABLA_LANES) {
    const part *p = &parts[element / factors.size];
    if (!format->layout->run) {
      weights = k_binary(e, NABLA_VECTOR, "mulf",
                         nabla_emit_block_bytes(e, base, element), p->factor);
    } else if (p->table) {
      weights = table_values(e, base, element, p, transposed);
    } else if (format->layout->run % PIECE) {
      weights = converted(e, few_codes(e, base, element), p);
    } else {
      if (element % PIECE == 0) codes = piece_codes(e, base, base, element);
      weights = converted(
          e, half_piece(e, codes, "extui", element / NABLA_LANES % 2), p);
    }
    use(e, element, weights, context);
  }
}

/* ---- codes ---- */

/* Bytes that half a block has of lower bits, of upper bits, and of factors. */
#define LOW_BYTES    (NABLA_BLOCK_HALF / 2)
#define HIGH_BYTES   (NABLA_BLOCK_HALF / 4)
#define FACTOR_BYTES (NABLA_BLOCK_HALF / NABLA_GGML_BYTES_PART)

static int has_halves(const nabla_fused_spec *spec) {
  const nabla_ggml_layout *l = spec->w.ggml->layout;
  return l->sub == NABLA_GGML_SUB_BYTES && !l->table && l->bits == 2 &&
         spec->w.ggml->elements == 2 * NABLA_BLOCK_HALF &&
         l->run == LOW_BYTES && l->part == HIGH_BYTES;
}

uint32_t nabla_block_codes_unit(const nabla_fused_spec *spec) {
  const nabla_ggml_layout *l = spec->w.ggml->layout;
  if (!nabla_block_weights_apply(spec)) return 0;
  if (has_halves(spec)) return NABLA_BLOCK_HALF;
  const int has_pieces = !l->table && !l->bias && l->run && !(l->run % PIECE) &&
                         (!l->bits || !(l->part % PIECE));
  return l->sub == NABLA_GGML_SUB_PACKED6 && has_pieces ? spec->w.ggml->elements
                                                        : 0;
}

static nabla_ssa half_from(nabla_emitter *e, nabla_ssa base, nabla_ssa half,
                           uint32_t bytes) {
  return k_add(e, base, k_multiply(e, half, bytes));
}

/* The factors of a half, in lanes. */
static nabla_ssa half_factors(nabla_emitter *e, nabla_ssa base) {
  nabla_ssa bytes = k_load(e, "vector<8xi8>", e->codes,
                           at_byte(e, base, layout_of(e)->sub_at), 1);
  bytes = k_op(e,
               "vector.shuffle %%v%u, %%v%u [0, 1, 2, 3, 4, 5, 6, 7, 0, "
               "1, 2, 3, 4, 5, 6, 7] : vector<8xi8>, vector<8xi8>",
               bytes, bytes);
  return nabla_emit_ggml_bytes(e, "extsi", bytes);
}

static void half_codes(nabla_emitter *e, nabla_ssa base, nabla_ssa half,
                       nabla_block_use *use, void *context) {
  const uint32_t bias = (uint32_t)layout_of(e)->bias;
  nabla_ssa codes = 0;
  nabla_ssa low = half_from(e, base, half, LOW_BYTES);
  nabla_ssa high = half_from(e, base, half, HIGH_BYTES);
  nabla_ssa factors = half_factors(e, half_from(e, base, half, FACTOR_BYTES));
  for (uint32_t element = 0; element < NABLA_BLOCK_HALF;
       element += NABLA_LANES) {
    if (element % PIECE == 0)
      codes = i8_with(e, "subi", piece_codes(e, low, high, element), bias);
    nabla_ssa value = half_piece(e, codes, "extsi", element / NABLA_LANES % 2);
    use(e, element,
        k_binary(e, NABLA_VECTOR, "mulf", value,
                 spread(e, factors, element / NABLA_LANES)),
        context);
  }
}

void nabla_emit_block_codes(nabla_emitter *e, nabla_ssa base, nabla_ssa half,
                            nabla_block_use *use, void *context) {
  nabla_ssa codes = 0;
  if (has_halves(e->spec)) {
    half_codes(e, base, half, use, context);
    return;
  }
  for (uint32_t element = 0; element < e->spec->w.ggml->elements;
       element += NABLA_LANES) {
    if (element % PIECE == 0) codes = piece_codes(e, base, base, element);
    use(e, element, half_piece(e, codes, "extui", element / NABLA_LANES % 2),
        context);
  }
}
