/* Integer codes for AVX2, int8 and int4: rounded, a zero point added. */
#ifndef NABLA_QUANT_X86_ENCODE_INTEGERS_AVX2_H
#define NABLA_QUANT_X86_ENCODE_INTEGERS_AVX2_H

#include "quant/x86/encode/code_avx2.h"

/* 32 integers, saturated to bytes. What is too large for an int would convert
 * to the least one; what is too small does, rightly. */
INLINE __m256i round_unit(unit_place at, const unit_scales *scales) {
  __m256i q[4], words[2];
  for (int j = 0; j < 4; j++) {
    const __m256 x = scaled_part(at, scales, j);
    q[j] = _mm256_cvtps_epi32(_mm256_min_ps(x, _mm256_set1_ps(0x1p20f)));
  }
  for (int i = 0; i < 2; i++)
    words[i] = _mm256_adds_epi16(_mm256_packs_epi32(q[2 * i], q[2 * i + 1]),
                                 scales->zero[i]);
  return in_order(_mm256_packs_epi16(words[0], words[1]), at.dtype);
}

/* The least integer. */
INLINE __m256i least_of(int symmetric, int asymmetric,
                        const nabla_blocks *blocks) {
  return _mm256_set1_epi8((char)(blocks->zeros ? asymmetric : symmetric));
}

#endif
