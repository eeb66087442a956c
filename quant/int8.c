/* INT8, the definition: docs/FORMAT.md. Fast paths give the same bytes.
 *
 * Blocks store absmax/127 (int8.h) and decode q * scale. Rows are LLM.int8:
 * they store absmax (its SCB) and decode (q * SCB) * (1/127). Codes are two's
 * complement and the same for both. */
#include "quant/int8.h"

#include <math.h>
#include <string.h>

#include "quant/kernel.h"

float nabla_int8_absmax_scalar(const float *in, size_t count) {
  return nabla_f32_of_bits(nabla_max_magnitude(in, count));
}

static uint8_t code_of(float scaled) {
  long rounded = lrintf(scaled); /* half to even */
  if (rounded > 127) rounded = 127;
  if (rounded < -127) rounded = -127;
  return (uint8_t)(int8_t)rounded;
}

void nabla_int8_encode_scaled_scalar(const float *in, size_t count,
                                     float absmax, uint8_t *codes) {
  uint32_t most = nabla_bits_of_f32(absmax);
  if (most == 0 || most >= NABLA_F32_INFINITY) {
    memset(codes, 0, count);
    return;
  }
  float factor = 127.0f / absmax;
  if (isfinite(factor)) {
    for (size_t i = 0; i < count; i++) codes[i] = code_of(in[i] * factor);
  } else { /* absmax is below 127/FLT_MAX */
    for (size_t i = 0; i < count; i++)
      codes[i] = code_of(in[i] / absmax * 127.0f);
  }
}

void nabla_int8_encode_scalar(const float *in, size_t count, size_t block,
                              uint8_t *codes, float *scales) {
  for (size_t at = 0; at < count; at += block) {
    size_t size = count - at < block ? count - at : block;
    float absmax = nabla_int8_absmax_scalar(in + at, size);
    nabla_int8_encode_scaled_scalar(in + at, size, absmax, codes + at);
    *scales++ = isfinite(absmax) ? nabla_int8_scale(absmax) : absmax;
  }
}

void nabla_int8_decode_scalar(const uint8_t *codes, const float *scales,
                              size_t count, size_t block, float *out) {
  for (size_t i = 0; i < count; i++)
    out[i] = (float)(int8_t)codes[i] * scales[i / block];
}

void nabla_int8_encode_rows_scalar(const float *in, size_t count, size_t length,
                                   uint8_t *codes, float *scales) {
  for (size_t at = 0; at < count; at += length) {
    size_t size = count - at < length ? count - at : length;
    float absmax = nabla_int8_absmax_scalar(in + at, size);
    nabla_int8_encode_scaled_scalar(in + at, size, absmax, codes + at);
    *scales++ = absmax;
  }
}

void nabla_int8_decode_rows_scalar(const uint8_t *codes, const float *scales,
                                   size_t count, size_t length, float *out) {
  for (size_t i = 0; i < count; i++)
    out[i] = (float)(int8_t)codes[i] * scales[i / length] * NABLA_INT8_STEP;
}
