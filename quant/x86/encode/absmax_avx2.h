/* Largest magnitudes for AVX2. */
#ifndef NABLA_QUANT_X86_ENCODE_ABSMAX_AVX2_H
#define NABLA_QUANT_X86_ENCODE_ABSMAX_AVX2_H

#include "quant/x86/avx2.h"

/* What is compared as integers of dwords, or of words as they are, 16 bits
 * being in the same order as what they widen to: magnitudes, or (is_signed)
 * magnitudes above signs. */
INLINE __m256i keys_of(__m256i x, nabla_dtype dtype, int is_signed) {
  if (!is_signed)
    return _mm256_and_si256(x, dtype == NABLA_DTYPE_F32
                                   ? _mm256_set1_epi32((int)NABLA_F32_MAGNITUDE)
                                   : _mm256_set1_epi16(0x7fff));
  if (dtype == NABLA_DTYPE_F32)
    return _mm256_or_si256(_mm256_slli_epi32(x, 1), _mm256_srli_epi32(x, 31));
  return _mm256_or_si256(_mm256_slli_epi16(x, 1), _mm256_srli_epi16(x, 15));
}

INLINE __m256i larger(__m256i a, __m256i b, nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 ? _mm256_max_epu32(a, b)
                                  : _mm256_max_epu16(a, b);
}

/* The largest of words as dwords: of each pair. */
INLINE __m256i dwords_of(__m256i most, nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_F32) return most;
  const __m256i low = _mm256_and_si256(most, _mm256_set1_epi32(0xffff));
  return _mm256_max_epu16(low, _mm256_srli_epi32(most, 16));
}

/* The value as f32, of a dword with its key. */
INLINE __m256 widened(__m256i key, nabla_dtype dtype, int is_signed) {
  __m256i word = key;
  if (is_signed && dtype == NABLA_DTYPE_F32)
    word =
        _mm256_or_si256(_mm256_srli_epi32(key, 1), _mm256_slli_epi32(key, 31));
  else if (is_signed) /* a sign above 15 bits */
    word = _mm256_or_si256(_mm256_srli_epi32(key, 1),
                           _mm256_and_si256(_mm256_slli_epi32(key, 15),
                                            _mm256_set1_epi32(0x8000)));
  if (dtype == NABLA_DTYPE_F32) return _mm256_castsi256_ps(word);
  if (dtype == NABLA_DTYPE_BF16)
    return _mm256_castsi256_ps(_mm256_slli_epi32(word, 16));
  return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(word),
                                          _mm256_extracti128_si256(word, 1)));
}

/* Largest dwords of eight vectors, one each. */
INLINE __m256i max_of_lanes(const __m256i x[8]) {
  __m256i pairs[4], fours[2];
  for (int i = 0; i < 4; i++)
    pairs[i] = _mm256_max_epu32(_mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]),
                                _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]));
  for (int i = 0; i < 2; i++)
    fours[i] =
        _mm256_max_epu32(_mm256_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]),
                         _mm256_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
  return _mm256_max_epu32(_mm256_permute2x128_si256(fours[0], fours[1], 0x20),
                          _mm256_permute2x128_si256(fours[0], fours[1], 0x31));
}

/* The largest dword in every lane. */
INLINE __m256i max_of_vector(__m256i x) {
  const __m256i eight[8] = {x, x, x, x, x, x, x, x};
  return max_of_lanes(eight);
}

#include "quant/x86/encode/absmax.h"

#endif
