/* What the scalar 4-bit encodings share: blocks scaled by their absmax, two
 * codes per byte, the element with the even index in the high half. */
#ifndef NABLA_QUANT_NIBBLES_H
#define NABLA_QUANT_NIBBLES_H

#include <string.h>

#include "quant/kernel.h"

/* Gives the code of `scaled`, which is within [-1, 1]. */
typedef uint8_t nabla_nibble_of(float scaled);

static inline float nabla_clamp_unit(float x) {
  return x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
}

/* Encodes one block and returns its absmax. `zero` is the code of zero: it
 * fills blocks whose absmax is zero or not finite, and pads an odd count. */
static inline float nabla_nibbles_encode_block(const float *in, size_t count,
                                               uint8_t *codes, uint8_t zero,
                                               nabla_nibble_of *code_of) {
  uint32_t most = nabla_max_magnitude(in, count);
  float absmax = nabla_f32_of_bits(most);
  if (most == 0 || most >= NABLA_F32_INFINITY) {
    memset(codes, zero << 4 | zero, count / 2 + count % 2);
    return absmax;
  }
  /* The reciprocal of a subnormal may be infinite: divide by it instead. */
  int divide = most < NABLA_F32_NORMAL;
  float inverse = divide ? 0.0f : 1.0f / absmax;
  for (size_t i = 0; i < count; i += 2) {
    float first = divide ? in[i] / absmax : in[i] * inverse;
    uint8_t high = code_of(nabla_clamp_unit(first)), low = zero;
    if (i + 1 < count) {
      float second = divide ? in[i + 1] / absmax : in[i + 1] * inverse;
      low = code_of(nabla_clamp_unit(second));
    }
    codes[i / 2] = (uint8_t)(high << 4 | low);
  }
  return absmax;
}

static inline void nabla_nibbles_encode(const float *in, size_t count,
                                        size_t block, uint8_t *codes,
                                        float *scales, uint8_t zero,
                                        nabla_nibble_of *code_of) {
  for (size_t at = 0; at < count; at += block) {
    size_t size = count - at < block ? count - at : block;
    *scales++ = nabla_nibbles_encode_block(in + at, size, codes + at / 2, zero,
                                           code_of);
  }
}

static inline void nabla_nibbles_decode(const uint8_t *codes,
                                        const float *scales, size_t count,
                                        size_t block, float *out,
                                        const float table[16]) {
  for (size_t i = 0; i < count; i++) {
    unsigned code = i % 2 ? codes[i / 2] & 15u : codes[i / 2] >> 4;
    out[i] = table[code] * scales[i / block];
  }
}

#endif
