/* Integer codes for AVX-512, int8 and int4: rounded, a zero point added. */
#ifndef NABLA_QUANT_X86_INTEGERS_AVX512_H
#define NABLA_QUANT_X86_INTEGERS_AVX512_H

#include "quant/x86/code_avx512.h"

/* 64 integers within [least, most], as bytes. What is too large for an int
 * would convert to the least one; what is too small does, rightly. */
INLINE __m512i round_unit(unit_place at, const unit_scales *scales,
                          __m512i least, __m512i most) {
  __m512i q[4];
  for (int j = 0; j < 4; j++) {
    const __m512 x =
        _mm512_min_ps(scaled_sixteen(at, scales, j), _mm512_set1_ps(0x1p20f));
    q[j] = _mm512_add_epi32(
        _mm512_max_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(-(1 << 20))),
        scales->zero[j]);
    q[j] = _mm512_min_epi32(_mm512_max_epi32(q[j], least), most);
  }
  return pack_bytes(q);
}

#endif
