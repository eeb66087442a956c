/* Means of the absolute values of blocks for AVX2: the bits of quant/stages.c,
 * whose sixteen partial sums are four vectors. */
#include "quant/x86/avx2.h"

INLINE __m256d magnitudes_of(__m256d x) {
  return _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
}

/* Adds values i to i + 15. */
INLINE void add_sixteen(__m256d sums[4], const uint8_t *in, nabla_dtype dtype,
                        size_t i) {
  for (size_t j = 0; j < 4; j += 2) {
    const __m256 x = load_eight(in, dtype, i + 4 * j);
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    sums[j] = _mm256_add_pd(sums[j], magnitudes_of(low));
    sums[j + 1] = _mm256_add_pd(sums[j + 1], magnitudes_of(high));
  }
}

/* The tree over lanes that are 8, 4, 2, 1 apart. */
INLINE double sum_of(const __m256d sums[4]) {
  const __m256d four = _mm256_add_pd(_mm256_add_pd(sums[0], sums[2]),
                                     _mm256_add_pd(sums[1], sums[3]));
  const __m128d two =
      _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

INLINE float mean_of_block(const uint8_t *in, nabla_dtype dtype, size_t count) {
  __m256d sums[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(),
                     _mm256_setzero_pd(), _mm256_setzero_pd()};
  size_t i = 0;
  for (; i + 16 <= count; i += 16) add_sixteen(sums, in, dtype, i);
  if (i < count) { /* adding 0.0 changes nothing */
    uint8_t rest[16 * sizeof(float)] = {0};
    memcpy(rest, in + i * width_of(dtype), (count - i) * width_of(dtype));
    add_sixteen(sums, rest, dtype, 0);
  }
  return (float)(sum_of(sums) / (double)count);
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

void nabla_any_mean_avx2(const void *in, nabla_dtype dtype, size_t count,
                         size_t block, float *out) {
  if (dtype == NABLA_DTYPE_F32)
    mean_all(in, NABLA_DTYPE_F32, count, block, out);
  else if (dtype == NABLA_DTYPE_F16)
    mean_all(in, NABLA_DTYPE_F16, count, block, out);
  else
    mean_all(in, NABLA_DTYPE_BF16, count, block, out);
}
