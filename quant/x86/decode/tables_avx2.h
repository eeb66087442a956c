/* Decoding by the 16 values of a 4-bit code, for AVX2. A block makes a table of
 * what its codes decode to. */
#ifndef NABLA_QUANT_X86_DECODE_TABLES_AVX2_H
#define NABLA_QUANT_X86_DECODE_TABLES_AVX2_H

#include "quant/x86/decode/decode_avx2.h"

/* The values of codes 0 to 7 and 8 to 15. */
typedef struct code_table {
  __m256 low, high;
} code_table;

INLINE code_table table_of(const float values[16], float scale, float zero) {
  const __m256 all = _mm256_set1_ps(scale), z = _mm256_set1_ps(zero);
  __m256 low = _mm256_loadu_ps(values), high = _mm256_loadu_ps(values + 8);
  return (code_table){_mm256_mul_ps(_mm256_sub_ps(low, z), all),
                      _mm256_mul_ps(_mm256_sub_ps(high, z), all)};
}

/* Decodes eight values: four bytes in every lane, shifted so that the lane's
 * nibble is lowest; its top bit, moved to the sign, chooses the half. */
INLINE __m256 decode_eight(const uint8_t *codes, code_table table,
                           int high_first) {
  const __m256i shifts = high_first
                             ? _mm256_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24)
                             : _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  const __m256i bytes = _mm256_set1_epi32((int)nabla_load_le32(codes));
  const __m256i nibbles = _mm256_srlv_epi32(bytes, shifts);
  const __m256 half = _mm256_castsi256_ps(_mm256_slli_epi32(nibbles, 28));
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.low, nibbles),
                          _mm256_permutevar8x32_ps(table.high, nibbles), half);
}

INLINE void decode_wide(unit_target at, unit_blocks blocks, size_t units,
                        const float *values, int high_first) {
  code_table t[2];
  for (int j = 0; j < 2; j++)
    t[j] = table_of(values, blocks.scale[j], blocks.zero[j]);
  for (size_t i = 0; i < units * UNIT; i += UNIT) {
    __m256 x[4];
    look_ahead(at, i, 4);
    for (size_t j = 0; j < 4; j++)
      x[j] = decode_eight(at.codes + i / 2 + 4 * j, t[j / 2], high_first);
    put_unit(at, i, x);
  }
}

/* The low bytes, or the high ones, of 16 values of 16 bits. */
typedef struct byte_tables {
  __m256i low, high;
} byte_tables;

/* Of two blocks, one in each half. */
INLINE byte_tables byte_tables_of(const float values[16], unit_blocks blocks,
                                  nabla_dtype dtype) {
  __m128i low[2], high[2];
  for (int j = 0; j < 2; j++) {
    const code_table t = table_of(values, blocks.scale[j], blocks.zero[j]);
    const __m256i apart = _mm256_shuffle_epi8(
        narrow(t.low, t.high, dtype),
        _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,
                         0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    const __m128i first = _mm256_castsi256_si128(apart);
    const __m128i second = _mm256_extracti128_si256(apart, 1);
    low[j] = _mm_unpacklo_epi64(first, second);
    high[j] = _mm_unpackhi_epi64(first, second);
  }
  return (byte_tables){_mm256_set_m128i(low[1], low[0]),
                       _mm256_set_m128i(high[1], high[0])};
}

/* 32 nibbles as bytes, in order. */
INLINE __m256i nibbles_of(const uint8_t *codes, int high_first) {
  const __m256i words = _mm256_cvtepu8_epi16(load_half(codes));
  const __m256i up = high_first ? _mm256_srli_epi16(words, 4) : words;
  const __m256i down =
      high_first ? _mm256_slli_epi16(words, 8) : _mm256_slli_epi16(words, 4);
  return _mm256_and_si256(_mm256_or_si256(up, down), _mm256_set1_epi8(15));
}

/* 32 values of 16 bits, of which bytes unpacked by halves: 0 and on, 16 and on;
 * then 8 and on, 24 and on. */
INLINE void put_lanes(unit_target at, size_t i, __m256i a, __m256i b) {
  uint8_t *out = at.out + 2 * i;
  put_bytes(out, _mm256_permute2x128_si256(a, b, 0x20), at.stream);
  put_bytes(out + 32, _mm256_permute2x128_si256(a, b, 0x31), at.stream);
}

/* To 16 bits: the two bytes of a value are looked up apart. */
INLINE void decode_narrow(unit_target at, unit_blocks blocks, size_t units,
                          const float *values, int high_first) {
  const byte_tables t = byte_tables_of(values, blocks, at.dtype);
  for (size_t i = 0; i < units * UNIT; i += UNIT) {
    look_ahead(at, i, 4);
    const __m256i nibbles = nibbles_of(at.codes + i / 2, high_first);
    const __m256i low = _mm256_shuffle_epi8(t.low, nibbles);
    const __m256i high = _mm256_shuffle_epi8(t.high, nibbles);
    const __m256i a = _mm256_unpacklo_epi8(low, high);
    const __m256i b = _mm256_unpackhi_epi8(low, high);
    put_lanes(at, i, a, b);
  }
}

INLINE void run_high_first(unit_target at, unit_blocks blocks, size_t units,
                           const void *values) {
  if (at.dtype == NABLA_DTYPE_F32)
    decode_wide(at, blocks, units, values, 1);
  else
    decode_narrow(at, blocks, units, values, 1);
}

INLINE void run_low_first(unit_target at, unit_blocks blocks, size_t units,
                          const void *values) {
  if (at.dtype == NABLA_DTYPE_F32)
    decode_wide(at, blocks, units, values, 0);
  else
    decode_narrow(at, blocks, units, values, 0);
}

#endif
