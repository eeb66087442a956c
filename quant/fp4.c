/* FP4, the definition: docs/FORMAT.md. Fast paths give the same bytes. */
#include "quant/fp4.h"

#include <math.h>

#include "quant/nibbles.h"

/* The nearest magnitude, the smaller when between two; then the sign, which
 * -0 has not. */
static uint8_t code_of(float scaled) {
  unsigned below = 0;
  float magnitude = fabsf(scaled);
  for (int i = 0; i < 7; i++) below += magnitude > nabla_fp4_thresholds[i];
  unsigned sign = scaled < 0.0f ? NABLA_FP4_SIGN : 0;
  return (uint8_t)(nabla_fp4_codes[below] | sign);
}

void nabla_fp4_encode_scalar(const float *in, size_t count, size_t block,
                             uint8_t *codes, float *scales) {
  nabla_nibbles_encode(in, count, block, codes, scales, NABLA_FP4_ZERO,
                       code_of);
}

void nabla_fp4_decode_scalar(const uint8_t *codes, const float *scales,
                             size_t count, size_t block, float *out) {
  nabla_nibbles_decode(codes, scales, count, block, out, nabla_fp4_values);
}
