/* Decoding by the 16 values of a 4-bit code, for AVX-512. A block makes a table
 * of what its codes decode to. */
#ifndef NABLA_QUANT_X86_TABLES_AVX512_H
#define NABLA_QUANT_X86_TABLES_AVX512_H

#include "quant/x86/decode_avx512.h"

/* A table for each `apart` quarters of a unit. */
INLINE void tables_of(const float values[16], const unit_blocks *blocks,
                      size_t apart, __m512 tables[4]) {
  const __m512 all = _mm512_loadu_ps(values);
  for (size_t j = 0; j < 4; j += apart) {
    const __m512 at = _mm512_sub_ps(all, _mm512_set1_ps(blocks->zero[j]));
    tables[j] = _mm512_mul_ps(at, _mm512_set1_ps(blocks->scale[j]));
    for (size_t k = 1; k < apart; k++) tables[j + k] = tables[j];
  }
}

/* To f32. Two permutes: dword (lane / 8) of each 8 bytes, then, shifted so that
 * the lane's nibble is lowest, the value. */
INLINE void decode_wide(unit_target at, const unit_blocks *blocks, size_t apart,
                        size_t units, const float *values, int high_first) {
  const __m512i shifts = high_first
                             ? _mm512_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24, 4,
                                                 0, 12, 8, 20, 16, 28, 24)
                             : _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0,
                                                 4, 8, 12, 16, 20, 24, 28);
  const __m512i place =
      _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  __m512 tables[4];
  tables_of(values, blocks, apart, tables);
  for (size_t i = 0; i < units * UNIT; i += UNIT) {
    const __m512i bytes = _mm512_castsi256_si512(load_half(at.codes + i / 2));
    __m512 x[4];
    for (int j = 0; j < 4; j++) {
      const __m512i pick = _mm512_add_epi32(place, _mm512_set1_epi32(2 * j));
      const __m512i nibbles =
          _mm512_srlv_epi32(_mm512_permutexvar_epi32(pick, bytes), shifts);
      x[j] = _mm512_permutexvar_ps(nibbles, tables[j]);
    }
    put_thirty_two(at, i, x[0], x[1]);
    put_thirty_two(at, i + 32, x[2], x[3]);
  }
}

/* 16 values as words of the dtype, at `place` 0 or 1 of a vector's halves. */
INLINE __m256i words_of(__m512 table, nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_F16)
    return _mm512_cvtps_ph(table,
                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return _mm512_castsi512_si256(
      high_words(round_bf16(table), _mm512_setzero_si512()));
}

/* To 16 bits: 32 words have two tables, of which the fifth bit of an index
 * chooses one. */
INLINE void decode_narrow(unit_target at, const unit_blocks *blocks,
                          size_t apart, size_t units, const float *values,
                          int high_first) {
  __m512 tables[4];
  __m512i words[2];
  tables_of(values, blocks, apart, tables);
  for (int j = 0; j < 2; j++)
    words[j] = _mm512_inserti64x4(
        _mm512_castsi256_si512(words_of(tables[2 * j], at.dtype)),
        words_of(tables[2 * j + 1], at.dtype), 1);
  const __m512i second =
      _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(16), 1);
  const __m512i low4 = _mm512_set1_epi16(15);
  for (size_t i = 0; i < units * UNIT; i += UNIT)
    for (size_t j = 0; j < 2; j++) {
      const __m128i codes = _mm_loadu_si128(
          (const __m128i *)(const void *)(at.codes + i / 2 + 16 * j));
      /* a byte in each dword: its two nibbles go to its two words */
      const __m512i bytes = _mm512_cvtepu8_epi32(codes);
      const __m512i first = high_first ? _mm512_srli_epi32(bytes, 4) : bytes;
      const __m512i other = high_first ? _mm512_slli_epi32(bytes, 16)
                                       : _mm512_slli_epi32(bytes, 12);
      __m512i index = _mm512_and_si512(_mm512_or_si512(first, other), low4);
      index = _mm512_or_si512(index, second);
      _mm512_storeu_si512(at.out + 2 * (i + 32 * j),
                          _mm512_permutexvar_epi16(index, words[j]));
    }
}

INLINE void run_high_first(unit_target at, const unit_blocks *blocks,
                           size_t apart, size_t units, const void *values) {
  if (at.dtype == NABLA_DTYPE_F32)
    decode_wide(at, blocks, apart, units, values, 1);
  else
    decode_narrow(at, blocks, apart, units, values, 1);
}

INLINE void run_low_first(unit_target at, const unit_blocks *blocks,
                          size_t apart, size_t units, const void *values) {
  if (at.dtype == NABLA_DTYPE_F32)
    decode_wide(at, blocks, apart, units, values, 0);
  else
    decode_narrow(at, blocks, apart, units, values, 0);
}

/* The whole stage. */
INLINE void decode_tables(const nabla_blocks *blocks, const uint8_t *codes,
                          size_t count, size_t block, nabla_dtype dtype,
                          void *out, int stream, const float values[16],
                          int high_first, nabla_kernel_decode *self) {
  decode_all(blocks, codes, count, block, dtype, out, stream, 4,
             high_first ? run_high_first : run_low_first, values, self);
}

#endif
