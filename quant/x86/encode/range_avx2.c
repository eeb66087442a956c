/* Least and largest values of blocks for AVX2. The results have the same bits
 * as those of quant/codec/stages.c. */
#include <math.h>

#include "quant/x86/avx2.h"

typedef struct range {
  __m256 low, high, bad; /* `bad`: all ones where a value is NaN */
} range;

/* The comparisons keep the second operand, the range so far, if x is NaN or
 * both are zeros. The range begins as +0, so that it never becomes -0. */
INLINE range widen_range(range r, __m256 x) {
  return (range){_mm256_min_ps(x, r.low), _mm256_max_ps(x, r.high),
                 _mm256_or_ps(r.bad, _mm256_cmp_ps(x, x, _CMP_UNORD_Q))};
}

INLINE range join_ranges(range a, range b) {
  return (range){_mm256_min_ps(a.low, b.low), _mm256_max_ps(a.high, b.high),
                 _mm256_or_ps(a.bad, b.bad)};
}

INLINE float least_of(__m256 x) {
  __m128 m = _mm_min_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  m = _mm_min_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_min_ss(m, _mm_movehdup_ps(m)));
}

/* Loads `count` values, at most eight; 0.0 stands for missing ones. */
INLINE __m256 load_some(const uint8_t *in, nabla_dtype dtype, size_t count) {
  uint8_t copy[8 * sizeof(float)] = {0};
  memcpy(copy, in, count * width_of(dtype));
  return load_eight(copy, dtype, 0);
}

INLINE void range_of_block(const uint8_t *in, nabla_dtype dtype, size_t count,
                           float *low, float *high) {
  range a = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  range b = a;
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    a = widen_range(a, load_eight(in, dtype, i));
    b = widen_range(b, load_eight(in, dtype, i + 8));
  }
  for (; i < count; i += 8) {
    const size_t some = count - i < 8 ? count - i : 8;
    a = widen_range(a, load_some(in + i * width_of(dtype), dtype, some));
  }
  const range all = join_ranges(a, b);
  const __m256 minus = _mm256_set1_ps(-0.0f);
  const float least = least_of(all.low);
  const float most = -least_of(_mm256_xor_ps(all.high, minus));
  const int infinite = least < -0x1.fffffep+127f;
  *low = least;
  *high = _mm256_movemask_ps(all.bad) ? NAN : infinite ? INFINITY : most;
}

INLINE void range_all(const uint8_t *in, nabla_dtype dtype, size_t count,
                      size_t block, float *low, float *high) {
  for (size_t at = 0; at < count; at += block) {
    const uint8_t *from = in + at * width_of(dtype);
    const size_t size = count - at < block ? count - at : block;
    if (size == 64)
      range_of_block(from, dtype, 64, low++, high++);
    else
      range_of_block(from, dtype, size, low++, high++);
  }
}

void nabla_any_range_avx2(const void *in, nabla_dtype dtype, size_t count,
                          size_t block, float *low, float *high) {
  if (dtype == NABLA_DTYPE_F32)
    range_all(in, NABLA_DTYPE_F32, count, block, low, high);
  else if (dtype == NABLA_DTYPE_F16)
    range_all(in, NABLA_DTYPE_F16, count, block, low, high);
  else
    range_all(in, NABLA_DTYPE_BF16, count, block, low, high);
}
