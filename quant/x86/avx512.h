/* What the AVX-512 kernels share. "Magnitude" is the bits of |x|: compared as
 * integers, NaN is the largest (quant/kernel.h). */
#ifndef NABLA_QUANT_X86_AVX512_H
#define NABLA_QUANT_X86_AVX512_H

#include <immintrin.h>

#include "quant/kernel.h"

#define INLINE static inline __attribute__((always_inline))

/* 64 values, the unit of work of every kernel. */
typedef struct values {
  __m512 v[4];
} values;

INLINE values load_values(const float *in) {
  return (values){{_mm512_loadu_ps(in), _mm512_loadu_ps(in + 16),
                   _mm512_loadu_ps(in + 32), _mm512_loadu_ps(in + 48)}};
}

/* Asks for the 64 values that lie 4 KiB ahead: the hardware prefetcher stops
 * at page ends, and this is the largest single gain from memory. The address
 * may be past the end; a prefetch never faults. */
INLINE void prefetch(const float *in) {
  uintptr_t ahead = (uintptr_t)in + 4096;
  for (uintptr_t line = 0; line < 256; line += 64)
    _mm_prefetch((const char *)(ahead + line), _MM_HINT_T0);
}

INLINE __m512i magnitudes(__m512 x) {
  return _mm512_and_si512(_mm512_castps_si512(x),
                          _mm512_set1_epi32((int)NABLA_F32_MAGNITUDE));
}

INLINE __m512i max4(__m512i a, __m512i b, __m512i c, __m512i d) {
  return _mm512_max_epu32(_mm512_max_epu32(a, b), _mm512_max_epu32(c, d));
}

INLINE __m512i max_of_values(values x) {
  return max4(magnitudes(x.v[0]), magnitudes(x.v[1]), magnitudes(x.v[2]),
              magnitudes(x.v[3]));
}

/* Brings the maximum of the four 128-bit lanes into one. */
INLINE __m128i max_of_lanes(__m512i x) {
  __m256i half = _mm256_max_epu32(_mm512_castsi512_si256(x),
                                  _mm512_extracti64x4_epi64(x, 1));
  return _mm_max_epu32(_mm256_castsi256_si128(half),
                       _mm256_extracti128_si256(half, 1));
}

INLINE uint32_t max_of_all(__m512i x) {
  __m128i m = max_of_lanes(x);
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
  return (uint32_t)_mm_cvtsi128_si32(m);
}

/* The largest magnitude of each block among 64 values, block 16 or 32, as one
 * dword per 16 values: the four vectors are reduced together. */
INLINE __m128i max_of_blocks(values x, size_t block) {
  __m512i a = magnitudes(x.v[0]), b = magnitudes(x.v[1]);
  __m512i c = magnitudes(x.v[2]), d = magnitudes(x.v[3]);
  if (block == 32) {
    a = b = _mm512_max_epu32(a, b);
    c = d = _mm512_max_epu32(c, d);
  }
  __m512i ab = _mm512_max_epu32(_mm512_unpacklo_epi32(a, b),
                                _mm512_unpackhi_epi32(a, b));
  __m512i cd = _mm512_max_epu32(_mm512_unpacklo_epi32(c, d),
                                _mm512_unpackhi_epi32(c, d));
  return max_of_lanes(_mm512_max_epu32(_mm512_unpacklo_epi64(ab, cd),
                                       _mm512_unpackhi_epi64(ab, cd)));
}

/* Stores what max_of_blocks laid out: four scales, or the first and third. */
INLINE void store_scales(float *scales, __m128 each, size_t block) {
  if (block == 16)
    _mm_storeu_ps(scales, each);
  else
    _mm_storel_pi((__m64 *)scales, _mm_shuffle_ps(each, each, 0x08));
}

/* Spreads one dword per 16 values over four vectors. */
INLINE values spread(__m128 each) {
  __m512 all = _mm512_broadcast_f32x4(each);
  return (values){{_mm512_permute_ps(all, 0x00), _mm512_permute_ps(all, 0x55),
                   _mm512_permute_ps(all, 0xaa), _mm512_permute_ps(all, 0xff)}};
}

INLINE values same(float x) {
  __m512 all = _mm512_set1_ps(x);
  return (values){{all, all, all, all}};
}

/* Says whether all four magnitudes are from `low` to below the largest finite,
 * which is left to the scalar code: int8 blocks treat it apart. */
INLINE int all_easy(__m128i magnitude, uint32_t low) {
  __m128i above = _mm_sub_epi32(magnitude, _mm_set1_epi32((int)low));
  __m128i range = _mm_set1_epi32((int)(NABLA_F32_INFINITY - 1 - low));
  return _mm_cmplt_epu32_mask(above, range) == 0xf;
}

INLINE int is_easy(uint32_t magnitude, uint32_t low) {
  return magnitude - low < NABLA_F32_INFINITY - 1 - low;
}

/* The first `count` (1 to 16) lanes. */
INLINE __mmask16 first(size_t count) {
  return (__mmask16)_bzhi_u32(0xffff, (uint32_t)count);
}

/* The largest magnitude of any number of values. */
INLINE uint32_t max_of_span(const float *in, size_t count) {
  __m512i m[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(),
                  _mm512_setzero_si512(), _mm512_setzero_si512()};
  size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    prefetch(in + i);
    values x = load_values(in + i);
    for (int j = 0; j < 4; j++)
      m[j] = _mm512_max_epu32(m[j], magnitudes(x.v[j]));
  }
  for (; i < count; i += 16) {
    __mmask16 some = count - i < 16 ? first(count - i) : 0xffff;
    __m512 x = _mm512_maskz_loadu_ps(some, in + i);
    m[0] = _mm512_max_epu32(m[0], magnitudes(x));
  }
  return max_of_all(max4(m[0], m[1], m[2], m[3]));
}

/* Streaming takes quarters: malloc aligns to no more than 16 bytes. */
INLINE void store_vector(float *out, __m512 x, int stream) {
  if (!stream) {
    _mm512_storeu_ps(out, x);
    return;
  }
  _mm_stream_ps(out, _mm512_castps512_ps128(x));
  _mm_stream_ps(out + 4, _mm512_extractf32x4_ps(x, 1));
  _mm_stream_ps(out + 8, _mm512_extractf32x4_ps(x, 2));
  _mm_stream_ps(out + 12, _mm512_extractf32x4_ps(x, 3));
}

/* For _mm512_permutex2var_epi8: the low byte of each dword of two vectors. */
static const uint8_t low_bytes[64] __attribute__((aligned(64))) = {
    0,  4,  8,  12, 16, 20, 24, 28, 32, 36,  40,  44,  48,  52,  56,  60,
    64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108, 112, 116, 120, 124};

/* The low bytes of 64 dwords, in order. */
INLINE __m512i pack_bytes(const __m512i x[4], __m512i picks) {
  __m512i low = _mm512_permutex2var_epi8(x[0], picks, x[1]);
  __m512i high = _mm512_permutex2var_epi8(x[2], picks, x[3]);
  return _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
}

#endif
