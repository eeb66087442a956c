/* What the AVX2 kernels share. "Magnitude" is the bits of |x|: compared as
 * integers, NaN is the largest (quant/kernel.h). Values are read twice, for
 * the absmax and for the codes: 64 of them fill half of the registers. */
#ifndef NABLA_QUANT_X86_AVX2_H
#define NABLA_QUANT_X86_AVX2_H

#include <immintrin.h>

#include "quant/kernel.h"

#define INLINE static inline __attribute__((always_inline))

/* As in avx512.h: asks for the 64 values that lie 4 KiB ahead. */
INLINE void prefetch(const float *in) {
  uintptr_t ahead = (uintptr_t)in + 4096;
  for (uintptr_t line = 0; line < 256; line += 64)
    _mm_prefetch((const char *)(ahead + line), _MM_HINT_T0);
}

INLINE __m256i magnitudes(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x),
                          _mm256_set1_epi32((int)NABLA_F32_MAGNITUDE));
}

/* The larger magnitudes of 16 values. */
INLINE __m256i max_of_16(const float *in) {
  return _mm256_max_epu32(magnitudes(_mm256_loadu_ps(in)),
                          magnitudes(_mm256_loadu_ps(in + 8)));
}

INLINE uint32_t max_of_all(__m256i x) {
  __m128i m =
      _mm_max_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
  return (uint32_t)_mm_cvtsi128_si32(m);
}

INLINE uint32_t max_of_64(const float *in) {
  return max_of_all(_mm256_max_epu32(
      _mm256_max_epu32(max_of_16(in), max_of_16(in + 16)),
      _mm256_max_epu32(max_of_16(in + 32), max_of_16(in + 48))));
}

/* The largest magnitude of each block among 64 values, block 16 or 32, as one
 * dword per 16 values: the four vectors are reduced together. */
INLINE __m128i max_of_blocks(const float *in, size_t block) {
  __m256i a = max_of_16(in), b = max_of_16(in + 16);
  __m256i c = max_of_16(in + 32), d = max_of_16(in + 48);
  if (block == 32) {
    a = b = _mm256_max_epu32(a, b);
    c = d = _mm256_max_epu32(c, d);
  }
  __m256i ab = _mm256_max_epu32(_mm256_unpacklo_epi32(a, b),
                                _mm256_unpackhi_epi32(a, b));
  __m256i cd = _mm256_max_epu32(_mm256_unpacklo_epi32(c, d),
                                _mm256_unpackhi_epi32(c, d));
  __m256i all = _mm256_max_epu32(_mm256_unpacklo_epi64(ab, cd),
                                 _mm256_unpackhi_epi64(ab, cd));
  return _mm_max_epu32(_mm256_castsi256_si128(all),
                       _mm256_extracti128_si256(all, 1));
}

/* Stores what max_of_blocks laid out: four scales, or the first and third. */
INLINE void store_scales(float *scales, __m128 each, size_t block) {
  if (block == 16)
    _mm_storeu_ps(scales, each);
  else
    _mm_storel_pi((__m64 *)scales, _mm_shuffle_ps(each, each, 0x08));
}

/* One factor per 16 of 64 values. */
typedef struct factors {
  __m256 v[4];
} factors;

INLINE factors spread(__m128 each) {
  __m256 all = _mm256_set_m128(each, each);
  return (factors){{_mm256_permute_ps(all, 0x00), _mm256_permute_ps(all, 0x55),
                    _mm256_permute_ps(all, 0xaa),
                    _mm256_permute_ps(all, 0xff)}};
}

INLINE factors same(float x) {
  __m256 all = _mm256_set1_ps(x);
  return (factors){{all, all, all, all}};
}

/* Says whether the magnitude is from `low` to below the largest finite, which
 * is left to the scalar code: int8 blocks treat it apart. */
INLINE int is_easy(uint32_t magnitude, uint32_t low) {
  return magnitude - low < NABLA_F32_INFINITY - 1 - low;
}

/* The same for all four magnitudes; they are below 2^31, so that signed
 * compares serve. */
INLINE int all_easy(__m128i magnitude, uint32_t low) {
  __m128i under = _mm_cmpgt_epi32(_mm_set1_epi32((int)low), magnitude);
  __m128i over =
      _mm_cmpgt_epi32(magnitude, _mm_set1_epi32((int)NABLA_F32_INFINITY - 2));
  __m128i hard = _mm_or_si128(under, over);
  return _mm_testz_si128(hard, hard);
}

/* The first `count` (1 to 8) lanes. */
INLINE __m256i first(size_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The largest magnitude of any number of values. */
INLINE uint32_t max_of_span(const float *in, size_t count) {
  __m256i m[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(),
                  _mm256_setzero_si256(), _mm256_setzero_si256()};
  size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    prefetch(in + i);
    for (int j = 0; j < 4; j++)
      m[j] = _mm256_max_epu32(m[j], max_of_16(in + i + 16 * j));
  }
  for (; i + 8 <= count; i += 8)
    m[0] = _mm256_max_epu32(m[0], magnitudes(_mm256_loadu_ps(in + i)));
  if (i < count) {
    __m256 x = _mm256_maskload_ps(in + i, first(count - i));
    m[1] = _mm256_max_epu32(m[1], magnitudes(x));
  }
  return max_of_all(_mm256_max_epu32(_mm256_max_epu32(m[0], m[1]),
                                     _mm256_max_epu32(m[2], m[3])));
}

/* Streaming takes halves: malloc aligns to no more than 16 bytes. */
INLINE void store_vector(float *out, __m256 x, int stream) {
  if (!stream) {
    _mm256_storeu_ps(out, x);
    return;
  }
  _mm_stream_ps(out, _mm256_castps256_ps128(x));
  _mm_stream_ps(out + 4, _mm256_extractf128_ps(x, 1));
}

/* The dwords of four vectors, each within -128 to 127, as bytes in order. */
INLINE __m256i pack_bytes(const __m256i x[4]) {
  __m256i words0 = _mm256_packs_epi32(x[0], x[1]);
  __m256i words1 = _mm256_packs_epi32(x[2], x[3]);
  __m256i bytes = _mm256_packs_epi16(words0, words1);
  return _mm256_permutevar8x32_epi32(bytes,
                                     _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

#endif
