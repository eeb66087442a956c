/* NF4, the definition: docs/FORMAT.md. Fast paths give the same bytes. */
#include "quant/nf4.h"

#include "quant/nibbles.h"

/* The code is the number of thresholds below `scaled`. */
static uint8_t code_of(float scaled) {
  unsigned below = 0;
  for (int i = 0; i < 15; i++) below += scaled > nabla_nf4_thresholds[i];
  return (uint8_t)below;
}

void nabla_nf4_encode_scalar(const float *in, size_t count, size_t block,
                             uint8_t *codes, float *scales) {
  nabla_nibbles_encode(in, count, block, codes, scales, NABLA_NF4_ZERO,
                       code_of);
}

void nabla_nf4_decode_scalar(const uint8_t *codes, const float *scales,
                             size_t count, size_t block, float *out) {
  nabla_nibbles_decode(codes, scales, count, block, out, nabla_nf4_values);
}
