/* Inside quant/: the round stage, for every instruction set: the compiler makes
 * vectors of these loops where its flags let it, and only single IEEE
 * operations happen to each block, so that the bits are the same. */
#ifndef NABLA_QUANT_CODEC_ROUND_H
#define NABLA_QUANT_CODEC_ROUND_H

#include <math.h>
#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "lib/base/floats.h"
#include "quant/codec/kernel.h"

static inline int nabla_is_finite_bits(float x) {
  return (nabla_bits_of_f32(x) & NABLA_F32_MAGNITUDE) < NABLA_F32_INFINITY;
}

/* E8M0 (E5). The exponent field of a float is floor(log2) + 127 already, but
 * for subnormals, whose scale is the smallest anyway since emax is at least 2.
 * What is not finite gets the largest. */
static inline int nabla_round_e8m0(const nabla_rounding *r) {
  /* Apart from each other, which vectors need to be told. */
  const float *restrict wanted = r->wanted;
  float *restrict scales = r->scales, *restrict factors = r->factors;
  uint8_t *restrict stored = r->stored;
  const size_t count = r->count;
  const int below = r->from_peaks ? r->recipe->emax : 0;
  int bad = 0;
  for (size_t i = 0; i < count; i++) {
    const uint32_t bits = nabla_bits_of_f32(wanted[i]);
    int e = (int)(bits >> 23 & 0xff) - below;
    e = e < 0 ? 0 : e > 254 ? 254 : e;
    bad |= !nabla_is_finite_bits(wanted[i]);
    stored[i] = (uint8_t)e;
    /* 2^(e - 127) and 2^(127 - e): both may be the subnormal 2^-127. */
    const uint32_t up = (uint32_t)e << 23, down = (uint32_t)(254 - e) << 23;
    scales[i] = nabla_f32_of_bits(up ? up : NABLA_F32_NORMAL / 2);
    factors[i] = nabla_f32_of_bits(down ? down : NABLA_F32_NORMAL / 2);
  }
  return bad ? NABLA_ROUND_BAD : 0;
}

/* absmax / limit, but for FLT_MAX where the recipe has another. A quotient of
 * zero is +0, whatever the sign of a peak. */
static inline void nabla_scales_of_peaks(const nabla_rounding *r) {
  const float limit = r->recipe->limit, most = r->recipe->scale_max;
  for (size_t i = 0; i < r->count; i++) {
    const float peak = r->wanted[i], scale = peak / limit + 0.0f;
    const int is_largest =
        most != 0.0f && nabla_bits_of_f32(peak) == NABLA_F32_INFINITY - 1;
    r->scales[i] = is_largest ? most : scale;
  }
}

/* Eight scales by F16C, as many as there are.
 * @return the number done */
static inline size_t nabla_narrow_eights(float *scales, size_t count,
                                         uint8_t *stored) {
  size_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_loadu_ps(scales + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)(stored + 2 * i), halves);
    _mm256_storeu_ps(scales + i, _mm256_cvtph_ps(halves));
  }
#else
  (void)scales, (void)count, (void)stored;
#endif
  return i;
}

static inline void nabla_narrow_scales(const nabla_rounding *r) {
  uint8_t *restrict stored = r->stored;
  float *restrict scales = r->scales;
  const size_t count = r->count;
  if (r->type == NABLA_SCALE_F16) {
    for (size_t i = nabla_narrow_eights(scales, count, stored); i < count;
         i++) {
      const uint16_t half = nabla_f32_to_f16(scales[i]);
      memcpy(stored + 2 * i, &half, sizeof half);
      scales[i] = nabla_f16_to_f32(half);
    }
  } else if (r->type == NABLA_SCALE_BF16) {
    for (size_t i = 0; i < count; i++) {
      const uint16_t half = nabla_f32_to_bf16(scales[i]);
      memcpy(stored + 2 * i, &half, sizeof half);
      scales[i] = nabla_bf16_to_f32(half);
    }
  } else {
    memcpy(stored, scales, count * sizeof(float));
  }
}

/* Factors from divisors: times/divisor, 0 for 0, NaN for what must divide. */
static inline int nabla_factors_of(const nabla_rounding *r,
                                   const float *divisors, float times,
                                   float divide_at) {
  int divide = 0, bad = 0;
  for (size_t i = 0; i < r->count; i++) {
    const float divisor = divisors[i], factor = times / divisor;
    const int is_zero = divisor == 0.0f;
    const int divides =
        (fabsf(divisor) < divide_at) | (fabsf(factor) > 0x1.fffffep+127f);
    bad |= !nabla_is_finite_bits(r->scales[i]);
    bad |= !nabla_is_finite_bits(r->wanted[i]);
    divide |= divides & !is_zero;
    r->factors[i] = is_zero ? 0.0f : divides ? NAN : factor;
  }
  return (divide ? NABLA_ROUND_DIVIDE : 0) | (bad ? NABLA_ROUND_BAD : 0);
}

static inline int nabla_rounding_apply(const nabla_rounding *r) {
  const int is_f32 =
      r->type == NABLA_SCALE_F32 || r->type == NABLA_SCALE_DYNAMIC8;
  if (r->type == NABLA_SCALE_E8M0) return nabla_round_e8m0(r);
  if (r->from_peaks)
    nabla_scales_of_peaks(r);
  else
    memcpy(r->scales, r->wanted, r->count * sizeof(float));
  nabla_narrow_scales(r);
  if (is_f32 && r->from_peaks)
    return nabla_factors_of(r, r->wanted, r->recipe->limit,
                            r->recipe->divide_at);
  return nabla_factors_of(r, r->scales, 1.0f, 0.0f);
}

#endif
