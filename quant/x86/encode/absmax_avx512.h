/* Largest magnitudes for AVX-512. */
#ifndef NABLA_QUANT_X86_ENCODE_ABSMAX_AVX512_H
#define NABLA_QUANT_X86_ENCODE_ABSMAX_AVX512_H

#include "quant/x86/avx512.h"

/* What is compared as integers of dwords, or of words as they are, 16 bits
 * being in the same order as what they widen to: magnitudes, or (is_signed)
 * magnitudes above signs. */
INLINE __m512i keys_of(__m512i x, nabla_dtype dtype, int is_signed) {
  if (!is_signed)
    return _mm512_and_si512(x, dtype == NABLA_DTYPE_F32
                                   ? _mm512_set1_epi32((int)NABLA_F32_MAGNITUDE)
                                   : _mm512_set1_epi16(0x7fff));
  if (dtype == NABLA_DTYPE_F32) return _mm512_rol_epi32(x, 1);
  return _mm512_or_si512(_mm512_slli_epi16(x, 1), _mm512_srli_epi16(x, 15));
}

INLINE __m512i larger(__m512i a, __m512i b, nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 ? _mm512_max_epu32(a, b)
                                  : _mm512_max_epu16(a, b);
}

/* The largest of words as dwords: of each pair. */
INLINE __m512i dwords_of(__m512i most, nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_F32) return most;
  const __m512i low = _mm512_and_si512(most, _mm512_set1_epi32(0xffff));
  return _mm512_max_epu16(low, _mm512_srli_epi32(most, 16));
}

/* The value as f32, of a dword with its key. */
INLINE __m512 widened(__m512i key, nabla_dtype dtype, int is_signed) {
  __m512i word = key;
  if (is_signed && dtype == NABLA_DTYPE_F32)
    word = _mm512_ror_epi32(key, 1);
  else if (is_signed) /* a sign above 15 bits */
    word = _mm512_or_si512(_mm512_srli_epi32(key, 1),
                           _mm512_and_si512(_mm512_slli_epi32(key, 15),
                                            _mm512_set1_epi32(0x8000)));
  if (dtype == NABLA_DTYPE_F32) return _mm512_castsi512_ps(word);
  if (dtype == NABLA_DTYPE_BF16)
    return _mm512_castsi512_ps(_mm512_slli_epi32(word, 16));
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(word));
}

/* Largest dwords of sixteen vectors, one each, in order. */
INLINE __m512i max_of_lanes(const __m512i x[16]) {
  __m512i pairs[8], fours[4], eights[2];
  for (int i = 0; i < 8; i++)
    pairs[i] = _mm512_max_epu32(_mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]),
                                _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]));
  for (int i = 0; i < 4; i++)
    fours[i] =
        _mm512_max_epu32(_mm512_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]),
                         _mm512_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
  for (int i = 0; i < 2; i++)
    eights[i] = _mm512_max_epu32(
        _mm512_shuffle_i32x4(fours[2 * i], fours[2 * i + 1], 0x88),
        _mm512_shuffle_i32x4(fours[2 * i], fours[2 * i + 1], 0xdd));
  return _mm512_max_epu32(_mm512_shuffle_i32x4(eights[0], eights[1], 0x88),
                          _mm512_shuffle_i32x4(eights[0], eights[1], 0xdd));
}

/* The largest dword in every lane. */
INLINE __m512i max_of_vector(__m512i x) {
  return _mm512_set1_epi32((int)_mm512_reduce_max_epu32(x));
}

#include "quant/x86/encode/absmax.h"

#endif
