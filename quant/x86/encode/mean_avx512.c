/* Means of the absolute values of blocks for AVX-512: the bits of
 * quant/codec/stages.c, whose sixteen partial sums are two vectors. */
#include "quant/x86/avx512.h"

/* The tree over lanes that are 8, 4, 2, 1 apart. */
INLINE double sum_of(__m512d low, __m512d high) {
  const __m512d eight = _mm512_add_pd(low, high);
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight),
                                     _mm512_extractf64x4_pd(eight, 1));
  const __m128d two =
      _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* Sixteen values, or as many as there are and 0.0, which changes no sum. */
INLINE __m512 load_values(const uint8_t *in, nabla_dtype dtype, size_t i,
                          size_t count) {
  if (count - i >= 16) return load_sixteen(in, dtype, i);
  uint8_t copy[16 * sizeof(float)] = {0};
  const size_t width = width_of(dtype);
  memcpy(copy, in + i * width, (count - i) * width);
  return load_sixteen(copy, dtype, 0);
}

INLINE float mean_of_block(const uint8_t *in, nabla_dtype dtype, size_t count) {
  __m512d low = _mm512_setzero_pd(), high = low;
  for (size_t i = 0; i < count; i += 16) {
    const __m512 x = magnitude_of(load_values(in, dtype, i, count));
    low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
  }
  return (float)(sum_of(low, high) / (double)count);
}

INLINE void mean_all(const uint8_t *in, nabla_dtype dtype, size_t count,
                     size_t block, float *out) {
  for (size_t at = 0; at < count; at += block) {
    const uint8_t *from = in + at * width_of(dtype);
    const size_t size = count - at < block ? count - at : block;
    *out++ = size == 64 ? mean_of_block(from, dtype, 64)
                        : mean_of_block(from, dtype, size);
  }
}

void nabla_any_mean_avx512(const void *in, nabla_dtype dtype, size_t count,
                           size_t block, float *out) {
  if (dtype == NABLA_DTYPE_F32)
    mean_all(in, NABLA_DTYPE_F32, count, block, out);
  else if (dtype == NABLA_DTYPE_F16)
    mean_all(in, NABLA_DTYPE_F16, count, block, out);
  else
    mean_all(in, NABLA_DTYPE_BF16, count, block, out);
}
