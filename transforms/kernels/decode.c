/* Decoding elements of packed storage; see decode.h. */
#include "transforms/kernels/decode.h"

#include "quant/codec.h"
#include "quant/int8.h"

/* 16 codes of 4 bits are this many bytes. */
#define CODE_BYTES (NABLA_LANES / 2)

nabla_dtype nabla_spec_scale_dtype(const nabla_fused_spec *spec) {
  return nabla_scale_info_of(spec->format.scale)->dtype;
}

uint64_t nabla_common_divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

int nabla_lines_share_scales(const nabla_fused_spec *spec, uint64_t lines,
                             uint64_t stride, uint64_t count) {
  uint64_t block = spec->format.block, first = spec->offset % block;
  if (lines > 1 && stride % block) return 0;
  return count <= block && first <= block - count;
}

/* The scale at `index` of the scales. */
static nabla_ssa scale_at(nabla_emitter *emitter, nabla_ssa index) {
  nabla_array_ref scales = {emitter->scales,
                            nabla_spec_scale_dtype(emitter->spec)};
  return nabla_emit_read(emitter, scales, index);
}

nabla_ssa nabla_emit_scale(nabla_emitter *emitter, nabla_ssa flat) {
  nabla_ssa index =
      nabla_emit_divide(emitter, flat, emitter->spec->format.block);
  return scale_at(emitter, index);
}

/* AVX-512 looks up 16 values in one instruction, by the low 4 bits. */
static nabla_ssa lookup_avx512(nabla_emitter *emitter, const float *table,
                               nabla_ssa indices) {
  nabla_ssa values = nabla_emit_f32_lanes(emitter, table);
  return nabla_emit(emitter,
                    "llvm.call_intrinsic \"llvm.x86.avx512.permvar.sf.512\""
                    "(%%v%u, %%v%u) : (vector<16xf32>, vector<16xi32>) -> "
                    "vector<16xf32>",
                    values, indices);
}

static nabla_ssa half_of(nabla_emitter *emitter, const char *type,
                         nabla_ssa vector, int high) {
  return nabla_emit(
      emitter,
      "vector.shuffle %%v%u, %%v%u [%s] : vector<16x%s>, "
      "vector<16x%s>",
      vector, vector,
      high ? "8, 9, 10, 11, 12, 13, 14, 15" : "0, 1, 2, 3, 4, 5, 6, 7", type,
      type);
}

static nabla_ssa bit_set(nabla_emitter *emitter, nabla_ssa indices,
                         uint32_t bit) {
  nabla_ssa mask = nabla_emit_i32(emitter, NABLA_VECTOR, bit);
  nabla_ssa only = nabla_emit(
      emitter, "arith.andi %%v%u, %%v%u : vector<16xi32>", indices, mask);
  nabla_ssa zero = nabla_emit_i32(emitter, NABLA_VECTOR, 0);
  return nabla_emit(emitter, "arith.cmpi ne, %%v%u, %%v%u : vector<16xi32>",
                    only, zero);
}

static nabla_ssa pick(nabla_emitter *emitter, nabla_ssa mask, nabla_ssa yes,
                      nabla_ssa no) {
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xf32>",
                    mask, yes, no);
}

/* AVX2 looks up 8 values by 3 bits: both halves of the table, then a choice by
 * the fourth bit. */
static nabla_ssa lookup_avx2(nabla_emitter *emitter, const float *table,
                             nabla_ssa indices) {
  nabla_ssa values = nabla_emit_f32_lanes(emitter, table), found[2];
  nabla_ssa index[2] = {half_of(emitter, "i32", indices, 0),
                        half_of(emitter, "i32", indices, 1)};
  for (int part = 0; part < 2; part++) {
    nabla_ssa half = half_of(emitter, "f32", values, part), low_high[2];
    for (int i = 0; i < 2; i++)
      low_high[i] = nabla_emit(emitter,
                               "llvm.call_intrinsic \"llvm.x86.avx2.permps\""
                               "(%%v%u, %%v%u) : (vector<8xf32>, "
                               "vector<8xi32>) -> vector<8xf32>",
                               half, index[i]);
    found[part] = nabla_emit(emitter,
                             "vector.shuffle %%v%u, %%v%u [0, 1, 2, 3, 4, 5, "
                             "6, 7, 8, 9, 10, 11, 12, 13, 14, 15] : "
                             "vector<8xf32>, vector<8xf32>",
                             low_high[0], low_high[1]);
  }
  return pick(emitter, bit_set(emitter, indices, 8), found[1], found[0]);
}

/* Any target: a tree of choices by one bit each. Slow, but no memory and no
 * instruction that could be missing. */
static nabla_ssa lookup_portable(nabla_emitter *emitter, const float *table,
                                 nabla_ssa indices) {
  nabla_ssa values[NABLA_TABLE_VALUES];
  for (unsigned i = 0; i < NABLA_TABLE_VALUES; i++)
    values[i] = nabla_emit_f32(emitter, NABLA_VECTOR, (double)table[i]);
  unsigned count = NABLA_TABLE_VALUES;
  for (uint32_t bit = 1; count > 1; bit *= 2, count /= 2) {
    nabla_ssa set = bit_set(emitter, indices, bit);
    for (unsigned i = 0; i < count / 2; i++)
      values[i] = pick(emitter, set, values[2 * i + 1], values[2 * i]);
  }
  return values[0];
}

nabla_ssa nabla_emit_lookup(nabla_emitter *emitter, nabla_ssa indices) {
  nabla_features features = emitter->spec->features;
  float table[NABLA_TABLE_VALUES];
  nabla_encoding_table(emitter->spec->format.encoding, table);
  if (NABLA_HAS(features, AVX512F))
    return lookup_avx512(emitter, table, indices);
  if (NABLA_HAS(features, AVX2)) return lookup_avx2(emitter, table, indices);
  return lookup_portable(emitter, table, indices);
}

/* One byte of the codes as i32, zero- or sign-extended. */
static nabla_ssa code_byte(nabla_emitter *emitter, nabla_ssa byte,
                           const char *extend) {
  nabla_ssa raw = nabla_emit_load(emitter, "i8", emitter->codes, byte, 1);
  return nabla_emit(emitter, "arith.%s %%v%u : i8 to i32", extend, raw);
}

/* Brings code i of the 8 in a dword to the bottom of lanes i and 8 + i. Of a
 * dword as it lies in memory code i ^ 1 is the i-th nibble from the bottom; of
 * one with its bytes swapped, code i is the i-th from the top. */
static nabla_ssa shift_lanes(nabla_emitter *emitter, nabla_ssa words,
                             int swapped) {
  uint32_t shifts[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++)
    shifts[i] = swapped ? 28 - i % 8 * 4 : (i % 8 ^ 1) * 4;
  nabla_ssa by = nabla_emit_i32_lanes(emitter, shifts);
  return nabla_emit(emitter, "arith.shrui %%v%u, %%v%u : vector<16xi32>", words,
                    by);
}

/* Lanes 0-7 hold `low`, lanes 8-15 `high`. */
static nabla_ssa join_words(nabla_emitter *emitter, nabla_ssa low,
                            nabla_ssa high) {
  nabla_ssa all_low = nabla_emit_broadcast(emitter, "i32", low);
  nabla_ssa all_high = nabla_emit_broadcast(emitter, "i32", high);
  nabla_ssa mask = nabla_emit_mask(emitter, 8, 16);
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xi32>",
                    mask, all_high, all_low);
}

/* 16 codes of 4 bits from an even position: two dwords, little-endian, in
 * which the high nibble of a byte is the first. */
static nabla_ssa even_codes(nabla_emitter *emitter, nabla_ssa flat) {
  nabla_ssa byte = nabla_emit_divide(emitter, flat, 2);
  nabla_ssa next = nabla_emit_add_constant(emitter, byte, 4);
  nabla_ssa low = nabla_emit_load(emitter, "i32", emitter->codes, byte, 1);
  nabla_ssa high = nabla_emit_load(emitter, "i32", emitter->codes, next, 1);
  return shift_lanes(emitter, join_words(emitter, low, high), 0);
}

static nabla_ssa swapped_word(nabla_emitter *emitter, nabla_ssa byte) {
  nabla_ssa word = nabla_emit_load(emitter, "i64", emitter->codes, byte, 1);
  return nabla_emit(emitter, "llvm.intr.bswap(%%v%u) : (i64) -> i64", word);
}

static nabla_ssa i64_constant(nabla_emitter *emitter, const char *operation,
                              nabla_ssa a, uint64_t value) {
  nabla_ssa b = nabla_emit_i64(emitter, value);
  return nabla_emit(emitter, "arith.%s %%v%u, %%v%u : i64", operation, a, b);
}

/* 16 codes of 4 bits from any position. With the bytes swapped, codes are in
 * order from the top of a word; from an odd position the first half byte is
 * shifted out, and the last comes from a ninth byte. That byte is read as the
 * last of a word that ends there, so nothing is read beyond it; from an even
 * position both words are the same. */
static nabla_ssa any_codes(nabla_emitter *emitter, nabla_ssa flat) {
  nabla_ssa first = nabla_emit_divide(emitter, flat, 2);
  nabla_ssa last = nabla_emit_add_constant(emitter, flat, NABLA_LANES - 1);
  last = nabla_emit_divide(emitter, last, 2);
  last = i64_constant(emitter, "subi", last, CODE_BYTES - 1);
  nabla_ssa even = swapped_word(emitter, first);
  nabla_ssa tail = swapped_word(emitter, last);
  tail = i64_constant(emitter, "shrui", tail, 4);
  tail = i64_constant(emitter, "andi", tail, 15);
  nabla_ssa odd = i64_constant(emitter, "shli", even, 4);
  odd = nabla_emit(emitter, "arith.ori %%v%u, %%v%u : i64", odd, tail);
  nabla_ssa parity =
      nabla_emit(emitter, "arith.trunci %%v%u : i64 to i1", flat);
  nabla_ssa word = nabla_emit(emitter, "arith.select %%v%u, %%v%u, %%v%u : i64",
                              parity, odd, even);
  nabla_ssa low = i64_constant(emitter, "shrui", word, 32);
  low = nabla_emit(emitter, "arith.trunci %%v%u : i64 to i32", low);
  nabla_ssa high = nabla_emit(emitter, "arith.trunci %%v%u : i64 to i32", word);
  return shift_lanes(emitter, join_words(emitter, low, high), 1);
}

/* Codes of a narrow window, one by one; 0 beyond it. */
static nabla_ssa few_codes(nabla_emitter *emitter, const nabla_window *window) {
  int nibbles = emitter->spec->format.encoding->bits == 4;
  nabla_ssa values[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    if (i >= window->width) {
      values[i] = nabla_emit_i32(emitter, NABLA_SCALAR, 0);
      continue;
    }
    nabla_ssa at = nabla_emit_add_constant(emitter, window->flat, i);
    if (!nibbles) {
      values[i] = code_byte(emitter, at, "extsi");
      continue;
    }
    nabla_ssa half = nabla_emit_divide(emitter, at, 2);
    nabla_ssa byte = code_byte(emitter, half, "extui");
    nabla_ssa four = nabla_emit_i32(emitter, NABLA_SCALAR, 4);
    nabla_ssa high =
        nabla_emit(emitter, "arith.shrui %%v%u, %%v%u : i32", byte, four);
    nabla_ssa odd = nabla_emit(emitter, "arith.trunci %%v%u : i64 to i1", at);
    nabla_ssa code = nabla_emit(
        emitter, "arith.select %%v%u, %%v%u, %%v%u : i32", odd, byte, high);
    nabla_ssa low4 = nabla_emit_i32(emitter, NABLA_SCALAR, 15);
    values[i] =
        nabla_emit(emitter, "arith.andi %%v%u, %%v%u : i32", code, low4);
  }
  return nabla_emit_from_elements(emitter, "i32", values);
}

/* What the codes stand for, before the scale. */
static nabla_ssa unscaled(nabla_emitter *emitter, const nabla_window *window) {
  nabla_ssa codes;
  if (emitter->spec->format.encoding->bits == 4) {
    if (window->width < NABLA_LANES)
      codes = few_codes(emitter, window);
    else if (window->aligned % 2 == 0)
      codes = even_codes(emitter, window->flat);
    else
      codes = any_codes(emitter, window->flat);
    return nabla_emit_lookup(emitter, codes);
  }
  if (window->width < NABLA_LANES) {
    codes = few_codes(emitter, window);
  } else {
    codes = nabla_emit_load(emitter, "vector<16xi8>", emitter->codes,
                            window->flat, 1);
    codes = nabla_emit(
        emitter, "arith.extsi %%v%u : vector<16xi8> to vector<16xi32>", codes);
  }
  return nabla_emit(
      emitter, "arith.sitofp %%v%u : vector<16xi32> to vector<16xf32>", codes);
}

/* A window that may reach into a second block, but not a third: the scale of
 * each lane is that of the first element or that of the last. */
static nabla_ssa two_scales(nabla_emitter *emitter, nabla_ssa flat) {
  uint64_t block = emitter->spec->format.block;
  uint32_t lanes[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) lanes[i] = i;
  nabla_ssa first = nabla_emit_divide(emitter, flat, block);
  nabla_ssa end = nabla_emit_add_constant(emitter, flat, NABLA_LANES - 1);
  nabla_ssa last = nabla_emit_divide(emitter, end, block);
  nabla_ssa begin = nabla_emit_multiply(emitter, first, block);
  nabla_ssa left =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", flat, begin);
  nabla_ssa size = nabla_emit_i64(emitter, block);
  left = nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", size, left);
  left =
      nabla_emit_minimum(emitter, left, nabla_emit_i64(emitter, NABLA_LANES));
  left = nabla_emit(emitter, "arith.trunci %%v%u : i64 to i32", left);
  left = nabla_emit_broadcast(emitter, "i32", left);
  nabla_ssa lane = nabla_emit_i32_lanes(emitter, lanes);
  nabla_ssa later = nabla_emit(
      emitter, "arith.cmpi uge, %%v%u, %%v%u : vector<16xi32>", lane, left);
  nabla_ssa low =
      nabla_emit_broadcast(emitter, "f32", scale_at(emitter, first));
  nabla_ssa high =
      nabla_emit_broadcast(emitter, "f32", scale_at(emitter, last));
  return pick(emitter, later, high, low);
}

/* A scale for each lane, looked up one by one. */
static nabla_ssa scale_of_each(nabla_emitter *emitter,
                               const nabla_window *window) {
  nabla_ssa values[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    values[i] = i < window->width
                    ? nabla_emit_scale(emitter, nabla_emit_add_constant(
                                                    emitter, window->flat, i))
                    : nabla_emit_f32(emitter, NABLA_SCALAR, 0);
  return nabla_emit_from_elements(emitter, "f32", values);
}

static nabla_ssa scale_lanes(nabla_emitter *emitter,
                             const nabla_window *window) {
  uint64_t block = emitter->spec->format.block;
  int whole = window->width == NABLA_LANES;
  if (window->scale && whole)
    return nabla_emit_broadcast(emitter, "f32", window->scale);
  if (whole && block % NABLA_LANES == 0 && window->aligned % NABLA_LANES == 0)
    return nabla_emit_broadcast(emitter, "f32",
                                nabla_emit_scale(emitter, window->flat));
  if (whole && block >= NABLA_LANES) return two_scales(emitter, window->flat);
  return scale_of_each(emitter, window);
}

nabla_ssa nabla_emit_decode(nabla_emitter *emitter,
                            const nabla_window *window) {
  const nabla_format *format = &emitter->spec->format;
  nabla_ssa value = unscaled(emitter, window);
  value = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", value,
                            scale_lanes(emitter, window));
  if (nabla_format_is_llm_int8(format)) /* in this order: FORMAT.md (I4) */
    value = nabla_emit_binary(
        emitter, NABLA_VECTOR, "mulf", value,
        nabla_emit_f32(emitter, NABLA_VECTOR, (double)NABLA_INT8_STEP));
  return nabla_emit_round(emitter, NABLA_VECTOR, emitter->spec->w_type, value);
}

nabla_ssa nabla_emit_drop_lanes(nabla_emitter *emitter, nabla_ssa value,
                                unsigned first) {
  nabla_ssa zero = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  return pick(emitter, nabla_emit_mask(emitter, first, NABLA_LANES), value,
              zero);
}
