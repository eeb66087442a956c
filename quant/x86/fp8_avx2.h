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
  store_bytes(at.codes,
              in_order(_mm256_or_si256(pack_bytes(code), signs), at.dtype));
}

INLINE void e4m3_unit(unit_place at, unit_scales scales, const void *unused) {
  (void)unused;
  fp8_unit(at, scales, 3, 121, 448.0f);
}

INLINE void e5m2_unit(unit_place at, unit_scales scales, const void *unused) {
  (void)unused;
  fp8_unit(at, scales, 2, 113, 57344.0f);
}

/* E5M2 is the high byte of f16. */
INLINE void e5m2_sixteen(const uint8_t *codes, __m256 out[2]) {
  const __m128i bytes = load_half(codes), none = _mm_setzero_si128();
  out[0] = _mm256_cvtph_ps(_mm_unpacklo_epi8(none, bytes));
  out[1] = _mm256_cvtph_ps(_mm_unpackhi_epi8(none, bytes));
}

/* E4M3 is that one bit lower: 2^-8 times the value, but for NaN, which is moved
 * to where f16 has it. */
INLINE void e4m3_sixteen(const uint8_t *codes, __m256 out[2]) {
  const __m256i words =
      _mm256_slli_epi16(_mm256_cvtepi8_epi16(load_half(codes)), 7);
  const __m256i all = _mm256_set1_epi16(0x3f80);
  const __m256i is_nan = _mm256_cmpeq_epi16(_mm256_and_si256(words, all), all);
  const __m256i shift =
      _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00 - 0x3f80));
  const __m256i half = _mm256_add_epi16(
      _mm256_and_si256(words, _mm256_set1_epi16((short)0xbf80)), shift);
  out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(half));
  out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
}

INLINE void e5m2_run(unit_target at, unit_blocks blocks, size_t units,
                     const void *unused) {
  (void)unused;
  decode_bytes(at, blocks, units, e5m2_sixteen, 0);
}

/* The same with a scale that 2^8 might make overflow. */
INLINE void e4m3_large_sixteen(const uint8_t *codes, __m256 out[2]) {
  e4m3_sixteen(codes, out);
  for (int i = 0; i < 2; i++)
    out[i] = _mm256_mul_ps(out[i], _mm256_set1_ps(256.0f));
}

/* The scale takes the 2^8, but where it might overflow. */
INLINE void e4m3_run(unit_target at, unit_blocks blocks, size_t units,
                     const void *unused) {
  (void)unused;
  const int large = !(fabsf(blocks.scale[0]) < 0x1p119f) ||
                    !(fabsf(blocks.scale[1]) < 0x1p119f);
  if (__builtin_expect(large, 0)) {
    decode_bytes(at, blocks, units, e4m3_large_sixteen, 0);
    return;
  }
  blocks.scale[0] *= 256.0f;
  blocks.scale[1] *= 256.0f;
  decode_bytes(at, blocks, units, e4m3_sixteen, 0);
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
