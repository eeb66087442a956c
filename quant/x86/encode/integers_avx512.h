/* Integer codes for AVX-512, int8 and int4: rounded, a zero point added. */
#ifndef NABLA_QUANT_X86_ENCODE_INTEGERS_AVX512_H
#define NABLA_QUANT_X86_ENCODE_INTEGERS_AVX512_H

#include "quant/x86/encode/code_avx512.h"

/* 64 integers saturated to bytes, as pack_bytes orders them. What is too large
 * for an int would convert to the least one; what is too small does, rightly.
 */
INLINE __m512i round_unit(unit_place at, const unit_scales *scales) {
  __m512i q[4], words[2];
  for (int j = 0; j < 4; j++) {
    const __m512 x = scaled_part(at, scales, j);
    q[j] = _mm512_cvtps_epi32(_mm512_min_ps(x, _mm512_set1_ps(0x1p20f)));
  }
  for (int i = 0; i < 2; i++)
    words[i] = _mm512_adds_epi16(_mm512_packs_epi32(q[2 * i], q[2 * i + 1]),
                                 scales->zero[i]);
  return _mm512_packs_epi16(words[0], words[1]);
}

/* The least integer. */
INLINE __m512i least_of(int symmetric, int asymmetric,
                        const nabla_blocks *blocks) {
  return _mm512_set1_epi8((char)(blocks->zeros ? asymmetric : symmetric));
}

#endif
