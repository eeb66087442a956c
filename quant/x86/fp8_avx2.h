/* 8-bit floats for AVX2, to and from f32: what lib/base/floats.c does. */
#ifndef NABLA_QUANT_X86_FP8_AVX2_H
#define NABLA_QUANT_X86_FP8_AVX2_H

#include "quant/x86/code_avx2.h"
#include "quant/x86/decode_avx2.h"

/* Codes of magnitudes, as dwords. The number of mantissa bits, the exponent
 * field that the least normal has in f32, and the largest value name the
 * format.
 *
 * Adding a power of two that is as many bits above x as f32 has more mantissa
 * rounds x to the format's, half to even; for subnormals it stays where the
 * least normal has it. The sum's mantissa is then that of the code with its
 * implicit bit, and the exponent is known: a carry raises it by itself. */
INLINE __m256i code_magnitude(__m256 x, int mantissa, int least, float most) {
  const __m256 size = _mm256_min_ps(magnitude_of(x), _mm256_set1_ps(most));
  const __m256i above = _mm256_sub_epi32(_mm256_castps_si256(size),
                                         _mm256_set1_epi32(least << 23));
  const __m256i exponent =
      _mm256_and_si256(_mm256_max_epi32(above, _mm256_setzero_si256()),
                       _mm256_set1_epi32((int)NABLA_F32_INFINITY));
  const __m256i adder = _mm256_add_epi32(
      exponent, _mm256_set1_epi32((least + 23 - mantissa) << 23));
  const __m256 sum = _mm256_add_ps(size, _mm256_castsi256_ps(adder));
  return _mm256_add_epi32(_mm256_sub_epi32(_mm256_castps_si256(sum), adder),
                          _mm256_srli_epi32(exponent, 23 - mantissa));
}

INLINE void fp8_unit(unit_place at, unit_scales scales, int mantissa, int least,
                     float most) {
  __m256i code[4], sign[4];
  for (int j = 0; j < 4; j++) {
    const __m256 x = scaled_eight(at, &scales, j);
    code[j] = code_magnitude(x, mantissa, least, most);
    sign[j] = _mm256_castps_si256(x);
  }
  const __m256i signs =
      _mm256_and_si256(pack_bytes(sign), _mm256_set1_epi8(INT8_MIN));
  store_bytes(at.codes, in_order(_mm256_or_si256(pack_bytes(code), signs)));
}

INLINE void e4m3_unit(unit_place at, unit_scales scales, const void *unused) {
  (void)unused;
  fp8_unit(at, scales, 3, 121, 448.0f);
}

INLINE void e5m2_unit(unit_place at, unit_scales scales, const void *unused) {
  (void)unused;
  fp8_unit(at, scales, 2, 113, 57344.0f);
}

/* Eight codes as the high bytes of f16, which E5M2 is. */
INLINE __m256 e5m2_eight(const uint8_t *codes, const void *unused) {
  (void)unused;
  const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)codes);
  return _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), bytes));
}

/* E4M3 one bit lower: 2^-8 times the value, but for NaN, which is moved to
 * where f16 has it. */
INLINE __m256 e4m3_eight(const uint8_t *codes, const void *unused) {
  (void)unused;
  const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)codes);
  const __m128i words = _mm_slli_epi16(_mm_cvtepi8_epi16(bytes), 7);
  const __m128i all = _mm_set1_epi16(0x3f80);
  const __m128i is_nan = _mm_cmpeq_epi16(_mm_and_si128(words, all), all);
  const __m128i half = _mm_and_si128(words, _mm_set1_epi16((short)0xbf80));
  const __m128i shift = _mm_and_si128(is_nan, _mm_set1_epi16(0x7e00 - 0x3f80));
  return _mm256_mul_ps(_mm256_cvtph_ps(_mm_add_epi16(half, shift)),
                       _mm256_set1_ps(256.0f));
}

INLINE void e5m2_run(unit_target at, unit_blocks blocks, size_t units,
                     const void *unused) {
  decode_eights(at, blocks, units, unused, e5m2_eight);
}

INLINE void e4m3_run(unit_target at, unit_blocks blocks, size_t units,
                     const void *unused) {
  decode_eights(at, blocks, units, unused, e4m3_eight);
}

/* The stages of an encoding with elements of one of the formats. */
#define FP8_STAGES(id, format)                                               \
  void nabla_##id##_code_avx2(const nabla_blocks *blocks, const void *in,    \
                              nabla_dtype dtype, size_t count, size_t block, \
                              uint8_t *codes) {                              \
    code_all(blocks, in, dtype, count, block, codes, 8, format##_unit, NULL, \
             nabla_##id##_code_avx2);                                        \
  }                                                                          \
  void nabla_##id##_decode_avx2(                                             \
      const nabla_blocks *blocks, const uint8_t *codes, size_t count,        \
      size_t block, nabla_dtype dtype, void *out, int stream) {              \
    decode_all(blocks, codes, count, block, dtype, out, stream, 8,           \
               format##_run, NULL, nabla_##id##_decode_avx2);                \
  }

#endif
