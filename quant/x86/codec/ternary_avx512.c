/* Ternary for AVX-512: the bits of quant/codec/ternary.c. */
#include <math.h>

#include "quant/x86/encode/code_avx512.h"

/* rint(x / scale) is not 0 where 2|x| > |scale|, and has the sign of both; a
 * scale of 0 gives 0. Code 1 is where neither side is. */
INLINE void ternary_unit(unit_place at, const unit_scales *scales,
                         const void *unused) {
  (void)unused;
  const __m512 minus = _mm512_set1_ps(-0.0f);
  uint64_t twos = 0, zeros = 0;
  for (int j = 0; j < 4; j++) {
    const __m512 scale = scales->scale[j], sign = _mm512_and_ps(scale, minus);
    const __mmask16 none =
        _mm512_cmp_ps_mask(scale, _mm512_setzero_ps(), _CMP_EQ_OQ);
    const __m512 bound =
        _mm512_mask_mov_ps(magnitude_of(scale), none, _mm512_set1_ps(INFINITY));
    const __m512 x = load_sixteen(at.in, at.dtype, 16 * (size_t)j);
    const __m512 doubled =
        _mm512_mul_ps(x, _mm512_or_ps(_mm512_set1_ps(2.0f), sign));
    const __m512 least = _mm512_xor_ps(bound, minus);
    twos |= (uint64_t)_mm512_cmp_ps_mask(doubled, bound, _CMP_GT_OQ)
            << (16 * j);
    zeros |= (uint64_t)_mm512_cmp_ps_mask(doubled, least, _CMP_LT_OQ)
             << (16 * j);
  }
  const uint64_t ones = ~(twos | zeros), even = UINT64_C(0x5555555555555555);
  const uint64_t codes[2] = {
      _pdep_u64(ones, even) | _pdep_u64(twos, even << 1),
      _pdep_u64(ones >> 32, even) | _pdep_u64(twos >> 32, even << 1)};
  memcpy(at.codes, codes, sizeof codes);
}

CODE_STAGE(ternary, avx512, 2, ternary_unit, no_tables, NO_TABLES)
