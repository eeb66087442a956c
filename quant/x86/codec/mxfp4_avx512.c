/* MXFP4 for AVX-512: the bits of quant/codec/mxfp4.c. */
#include "quant/x86/codec/fp8_avx512.h"

/* E2M1: the least normal is 1, the largest value 6. */
INLINE void mxfp4_unit(unit_place at, const unit_scales *scales,
                       const void *unused) {
  (void)unused;
  const float_codes c = float_unit(at, scales, 1, 127, 6.0f);
  /* The sign four bits down, above the magnitude: c ? a : b. */
  const __m512i codes = _mm512_ternarylogic_epi32(
      _mm512_srli_epi16(c.sign, 4), c.size, _mm512_set1_epi8(8), 0xe4);
  store_half(at.codes, nibbles_in_order(codes, 1, 16, at.dtype));
}

CODE_STAGES(mxfp4, avx512, 4, mxfp4_unit, no_tables, NO_TABLES, 109, 17)
