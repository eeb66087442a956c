/* Inside quant/: small pieces of the search that every instruction set does
 * alike. Sums of floats have sixteen partial sums, of the elements with the
 * same index modulo 16, added as a tree: lanes 8, 4, 2, 1 apart. */
#ifndef NABLA_QUANT_SEARCH_SEARCH_SUMS_H
#define NABLA_QUANT_SEARCH_SEARCH_SUMS_H

#include "lib/base/floats.h"
#include "quant/codec/scalar.h"
#include "quant/search/search_table.h"

static inline float nabla_search_sum16(const float lanes[16]) {
  float sum[8];
  for (int j = 0; j < 8; j++) sum[j] = lanes[j] + lanes[j + 8];
  for (int apart = 4; apart > 0; apart /= 2)
    for (int j = 0; j < apart; j++) sum[j] += sum[j + apart];
  return sum[0];
}

/* Sums over one block, of misses x - code * scale and codes with scale 1. */
typedef struct nabla_search_sums {
  float miss_miss, miss_code, code_code;
} nabla_search_sums;

/* @param weights  NULL for ones */
typedef nabla_search_sums nabla_search_sum(const float *in, const float *codes,
                                           const float *weights, size_t count,
                                           float scale);

nabla_search_sum nabla_search_sum_scalar, nabla_search_sum_avx2,
    nabla_search_sum_avx512;

/* The scale as stored and widened. */
static inline float nabla_search_rounded(float scale, nabla_scale_type type) {
  if (type == NABLA_SCALE_F16) return nabla_f16_to_f32(nabla_f32_to_f16(scale));
  if (type == NABLA_SCALE_BF16)
    return nabla_bf16_to_f32(nabla_f32_to_bf16(scale));
  return scale;
}

/* Never falls with `scaled`, so that a bin is an interval. */
static inline int nabla_search_bin(float per_unit, float reach, float scaled) {
  return (int)(nabla_clamp(scaled, -reach, reach) * per_unit + 16.0f);
}

static inline float nabla_search_value(const nabla_search_table *t,
                                       float scaled) {
  const float s = nabla_clamp(scaled, -t->reach, t->reach);
  const int bin = nabla_search_bin(t->per_unit, t->reach, s);
  return s > t->thresholds[bin] ? t->above[bin] : t->below[bin];
}

#endif
