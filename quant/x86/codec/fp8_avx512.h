/* Codes of small floats for AVX-512: what lib/base/floats.c does. */
#ifndef NABLA_QUANT_X86_CODEC_FP8_AVX512_H
#define NABLA_QUANT_X86_CODEC_FP8_AVX512_H

#include "quant/x86/encode/code_avx512.h"
#include "quant/x86/immediate_avx512.h"

/* Codes of magnitudes, as dwords, all `above` the code by what to_magnitudes
 * takes away. The number of mantissa bits, the exponent field that the least
 * normal has in f32, and the largest value name the format.
 *
 * Adding a power of two that is as many bits above x as f32 has more mantissa
 * rounds x to the format's, half to even; for subnormals it stays where the
 * least normal has it. The sum's mantissa is then that of the code with its
 * implicit bit, and the exponent is known: a carry raises it by itself. */
INLINE __m512i code_above(__m512 x, int mantissa, int least, float most) {
  const __m512 size = min_magnitude(x, _mm512_set1_ps(most));
  const __m512i exponent = _mm512_max_epu32(
      _mm512_and_si512(_mm512_castps_si512(size),
                       _mm512_set1_epi32((int)NABLA_F32_INFINITY)),
      _mm512_set1_epi32(least << 23));
  const __m512i adder =
      _mm512_add_epi32(exponent, _mm512_set1_epi32((23 - mantissa) << 23));
  const __m512 sum = _mm512_add_ps(size, _mm512_castsi512_ps(adder));
  return _mm512_add_epi32(
      _mm512_sub_epi32(_mm512_castps_si512(sum), adder),
      _mm512_srli_epi32(exponent, (unsigned)(23 - mantissa)));
}

/* The magnitudes of a unit, and the signs as the top bits of bytes; as
 * pack_bytes orders them. */
typedef struct float_codes {
  __m512i size, sign;
} float_codes;

INLINE float_codes float_unit(unit_place at, const unit_scales *scales,
                              int mantissa, int least, float most) {
  __m512i code[4], sign[4], words[2];
  for (int j = 0; j < 4; j++) {
    const __m512 x = scaled_part(at, scales, j);
    code[j] = code_above(x, mantissa, least, most);
    sign[j] = _mm512_castps_si512(x);
  }
  for (int i = 0; i < 2; i++)
    words[i] =
        _mm512_sub_epi16(_mm512_packs_epi32(code[2 * i], code[2 * i + 1]),
                         _mm512_set1_epi16((short)(least << mantissa)));
  return (float_codes){_mm512_packs_epi16(words[0], words[1]),
                       pack_bytes(sign)};
}

INLINE void fp8_unit(unit_place at, const unit_scales *scales, int mantissa,
                     int least, float most) {
  const float_codes c = float_unit(at, scales, mantissa, least, most);
  /* The top bit of one and the other bits of the other: c ? a : b. */
  const __m512i codes = _mm512_ternarylogic_epi32(
      c.sign, c.size, _mm512_set1_epi8(INT8_MIN), 0xe4);
  _mm512_storeu_si512(at.codes, in_order(codes, at.dtype));
}

INLINE void e4m3_unit(unit_place at, const unit_scales *scales,
                      const void *unused) {
  (void)unused;
  fp8_unit(at, scales, 3, 121, 448.0f);
}

INLINE void e5m2_unit(unit_place at, const unit_scales *scales,
                      const void *unused) {
  (void)unused;
  fp8_unit(at, scales, 2, 113, 57344.0f);
}

#endif
