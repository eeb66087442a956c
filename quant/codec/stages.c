/* The scalar stages that serve all encodings: statistics of blocks, and scales
 * on their way to storage (docs/FORMAT.md, E1, E2, E4, E5). */
#include "quant/codec/round.h"
#include "quant/codec/scalar.h"

/* The value of largest magnitude of [at, end): magnitudes above signs, compared
 * as integers, so that NaN is larger than all numbers. */
static float peak_of(const void *in, nabla_dtype dtype, size_t at, size_t end) {
  uint32_t most = 0;
  for (size_t i = at; i < end; i++) {
    const uint32_t bits = nabla_bits_of_f32(nabla_load_value(in, dtype, i));
    const uint32_t key = bits << 1 | bits >> 31;
    if (key > most) most = key;
  }
  return nabla_f32_of_bits(most >> 1 | most << 31);
}

void nabla_any_absmax_scalar(const void *in, nabla_dtype dtype, size_t count,
                             size_t block, float *out) {
  for (size_t at = 0; at < count; at += block)
    *out++ =
        fabsf(peak_of(in, dtype, at, count - at < block ? count : at + block));
}

void nabla_any_peak_scalar(const void *in, nabla_dtype dtype, size_t count,
                           size_t block, float *out) {
  for (size_t at = 0; at < count; at += block)
    *out++ = peak_of(in, dtype, at, count - at < block ? count : at + block);
}

void nabla_any_range_scalar(const void *in, nabla_dtype dtype, size_t count,
                            size_t block, float *low, float *high) {
  for (size_t at = 0; at < count; at += block) {
    const size_t end = count - at < block ? count : at + block;
    float least = 0.0f, most = 0.0f, peak = 0.0f;
    for (size_t i = at; i < end; i++) {
      const float x = nabla_load_value(in, dtype, i);
      if (x < least) least = x;
      if (x > most) most = x;
    }
    const size_t width = dtype == NABLA_DTYPE_F32 ? 4 : 2;
    nabla_any_absmax_scalar((const uint8_t *)in + at * width, dtype, end - at,
                            end - at, &peak);
    *low++ = least;
    *high++ = isfinite(peak) ? most : peak;
  }
}

void nabla_any_mean_scalar(const void *in, nabla_dtype dtype, size_t count,
                           size_t block, float *out) {
  for (size_t at = 0; at < count; at += block) {
    const size_t size = count - at < block ? count - at : block;
    double lane[16] = {0};
    for (size_t i = 0; i < size; i++)
      lane[i % 16] += fabs((double)nabla_load_value(in, dtype, at + i));
    for (size_t apart = 8; apart > 0; apart /= 2)
      for (size_t j = 0; j < apart; j++) lane[j] += lane[j + apart];
    *out++ = (float)(lane[0] / (double)size);
  }
}

void nabla_any_stream_scalar(uint8_t *out, const uint8_t *in, size_t size) {
  if (size) memcpy(out, in, size);
}

int nabla_any_round_scalar(const nabla_rounding *r) {
  return nabla_rounding_apply(r);
}
