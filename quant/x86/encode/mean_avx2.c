/* Means of the absolute values of blocks for AVX2: the bits of
 * quant/codec/stages.c, whose sixteen partial sums are four vectors. */
#include "quant/codec/scalar.h"
#include "quant/x86/avx2.h"

/* Adds 16 values: four from memory widen faster than half a register. */
INLINE void add_sixteen(__m256d sums[4], const float *in) {
  const __m256d minus = _mm256_set1_pd(-0.0);
  for (int j = 0; j < 4; j++) {
    const __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(in + 4 * j));
    sums[j] = _mm256_add_pd(sums[j], _mm256_andnot_pd(minus, x));
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

INLINE float mean_of_block(const float *in, size_t count) {
  __m256d sums[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(),
                     _mm256_setzero_pd(), _mm256_setzero_pd()};
  size_t i = 0;
  for (; i + 16 <= count; i += 16) add_sixteen(sums, in + i);
  if (i < count) { /* adding 0.0 changes nothing */
    float rest[16] = {0};
    memcpy(rest, in + i, (count - i) * sizeof *in);
    add_sixteen(sums, rest);
  }
  return (float)(sum_of(sums) / (double)count);
}

/* Values of 16 bits as f32. */
static void widen(const uint8_t *in, nabla_dtype dtype, size_t count,
                  float *out) {
  size_t i = 0;
  for (; i + 8 <= count && dtype == NABLA_DTYPE_F16; i += 8)
    _mm256_storeu_ps(out + i, load_eight(in, NABLA_DTYPE_F16, i));
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(out + i, load_eight(in, NABLA_DTYPE_BF16, i));
  for (; i < count; i++) out[i] = nabla_load_value(in, dtype, i);
}

void nabla_any_mean_avx2(const void *in, nabla_dtype dtype, size_t count,
                         size_t block, float *out) {
  float wide[NABLA_BLOCK_MAX];
  const int is_wide = dtype == NABLA_DTYPE_F32;
  if (!is_wide && block > NABLA_BLOCK_MAX) {
    nabla_any_mean_scalar(in, dtype, count, block, out);
    return;
  }
  /* Of 16 bits a chunk at a time is made f32. */
  const size_t piece = is_wide               ? count
                       : block > NABLA_CHUNK ? block
                                             : NABLA_CHUNK;
  for (size_t at = 0; at < count; at += piece) {
    const size_t size = count - at < piece ? count - at : piece;
    const uint8_t *from = (const uint8_t *)in + at * width_of(dtype);
    const float *values = is_wide ? (const float *)(const void *)from : wide;
    if (!is_wide) widen(from, dtype, size, wide);
    for (size_t i = 0; i < size; i += block) {
      const size_t some = size - i < block ? size - i : block;
      *out++ = some == 64 ? mean_of_block(values + i, 64)
                          : mean_of_block(values + i, some);
    }
  }
}
