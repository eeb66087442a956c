/* 8-bit floats for AVX2, to and from f32, with the same results as
 * lib/base/floats.c. */
#ifndef NABLA_QUANT_X86_CODEC_FP8_AVX2_H
#define NABLA_QUANT_X86_CODEC_FP8_AVX2_H

#include "quant/x86/decode/tables_avx2.h"
#include "quant/x86/encode/code_avx2.h"

/* Returns codes of magnitudes, as dwords. The format is given by its number of
 * mantissa bits, the exponent field in f32 of its least normal value, and its
 * largest value.
 *
 * x is rounded half to even to the mantissa of the format by the addition of a
 * power of two, which is larger than x by as many binary places as f32 has more
 * mantissa bits; for subnormals it is the one of the least normal value. The
 * mantissa of the sum is that of the code with its implicit bit. The exponent
 * is known, and a carry raises it. */
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

INLINE void fp8_unit(unit_place at, const unit_scales *scales, int mantissa,
                     int least, float most) {
  __m256i code[4], sign[4];
  for (int j = 0; j < 4; j++) {
    const __m256 x = scaled_part(at, scales, j);
    code[j] = code_magnitude(x, mantissa, least, most);
    sign[j] = _mm256_castps_si256(x);
  }
  const __m256i signs =
      _mm256_and_si256(pack_bytes(sign), _mm256_set1_epi8(INT8_MIN));
  store_bytes(at.codes,
              in_order(_mm256_or_si256(pack_bytes(code), signs), at.dtype));
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

/* E5M2 is the high byte of f16. */
INLINE void e5m2_sixteen(const uint8_t *codes, __m256 out[2]) {
  const __m128i bytes = load_half(codes), none = _mm_setzero_si128();
  out[0] = _mm256_cvtph_ps(_mm_unpacklo_epi8(none, bytes));
  out[1] = _mm256_cvtph_ps(_mm_unpackhi_epi8(none, bytes));
}

/* E4M3, moved one bit lower, is the high byte of an f16 that is 2^-8 times the
 * value. NaN is replaced by the NaN of f16. */
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

/* Returns whether the scale and all products with it are far from subnormals
 * and infinity. */
INLINE int is_moderate(float scale) {
  const uint32_t exponent = nabla_bits_of_f32(scale) >> 23 & 0xff;
  return exponent - 27 <= 200;
}

/* Returns whether BF16 represents all products, which is so for scales that are
 * powers of two. */
INLINE int is_exact(unit_target at, unit_blocks blocks) {
  const uint32_t fractions =
      nabla_bits_of_f32(blocks.scale[0]) | nabla_bits_of_f32(blocks.scale[1]);
  return at.dtype == NABLA_DTYPE_BF16 &&
         !(fractions & (NABLA_F32_NORMAL - 1)) &&
         is_moderate(blocks.scale[0]) && is_moderate(blocks.scale[1]);
}

INLINE void e5m2_run(unit_target at, unit_blocks blocks, size_t units,
                     const void *unused) {
  (void)unused;
  if (is_exact(at, blocks))
    decode_bytes(at, blocks, units, e5m2_sixteen, BYTES_EXACT);
  else
    decode_bytes(at, blocks, units, e5m2_sixteen, 0);
}

/* As e4m3_sixteen, for scales that 2^8 might make infinite. */
INLINE void e4m3_large_sixteen(const uint8_t *codes, __m256 out[2]) {
  e4m3_sixteen(codes, out);
  for (int i = 0; i < 2; i++)
    out[i] = _mm256_mul_ps(out[i], _mm256_set1_ps(256.0f));
}

/* Values by the mantissa with an exponent field of 0: subnormals, and normals
 * before the exponent multiplies them. */
static const float e4m3_mantissas[16] = {
    0x0p-9f,  0x1p-9f,  0x2p-9f,  0x3p-9f,  0x4p-9f,  0x5p-9f,
    0x6p-9f,  0x7p-9f,  0x8p-10f, 0x9p-10f, 0xap-10f, 0xbp-10f,
    0xcp-10f, 0xdp-10f, 0xep-10f, 0xfp-10f};

/* Decodes to BF16 where no value is subnormal or overflows: looks up the
 * product of scale and mantissa, and adds the exponent. A unit with a NaN is
 * decoded by decode_bytes. */
INLINE void e4m3_to_bf16(unit_target at, unit_blocks blocks, size_t units) {
  const byte_tables t =
      byte_tables_of(e4m3_mantissas, blocks, NABLA_DTYPE_BF16);
  const __m256i none = _mm256_setzero_si256(), nan = _mm256_set1_epi8(0x7f);
  for (size_t i = 0; i < units * UNIT; i += UNIT) {
    const __m256i codes = load_bytes(at.codes + i);
    const __m256i size = _mm256_and_si256(codes, nan);
    if (_mm256_movemask_epi8(_mm256_cmpeq_epi8(size, nan))) {
      const unit_target one = {at.codes + i, at.out + 2 * i, at.dtype,
                               at.stream};
      decode_bytes(one, blocks, 1, e4m3_large_sixteen, 0);
      continue;
    }
    look_ahead(at, i, 8);
    /* Normal codes are at least 8; without their exponent they are 8 to 15. */
    const __m256i mantissa = _mm256_and_si256(codes, _mm256_set1_epi8(7));
    const __m256i index =
        _mm256_min_epu8(size, _mm256_or_si256(mantissa, _mm256_set1_epi8(8)));
    const __m256i sign = _mm256_xor_si256(size, codes);
    const __m256i low = _mm256_shuffle_epi8(t.low, index);
    const __m256i high =
        _mm256_xor_si256(_mm256_shuffle_epi8(t.high, index), sign);
    const __m256i exponent = _mm256_andnot_si256(
        _mm256_set1_epi8(7), size); /* the exponent field * 8 */
    const __m256i a = _mm256_add_epi16(
        _mm256_unpacklo_epi8(low, high),
        _mm256_slli_epi16(_mm256_unpacklo_epi8(exponent, none), 4));
    const __m256i b = _mm256_add_epi16(
        _mm256_unpackhi_epi8(low, high),
        _mm256_slli_epi16(_mm256_unpackhi_epi8(exponent, none), 4));
    put_lanes(at, i, a, b);
  }
}

/* Multiplies the scale by 2^8, unless the scale might become infinite. */
INLINE void e4m3_run(unit_target at, unit_blocks blocks, size_t units,
                     const void *unused) {
  (void)unused;
  const unit_blocks given = blocks;
  blocks.scale[0] *= 256.0f;
  blocks.scale[1] *= 256.0f;
  if (is_exact(at, given))
    decode_bytes(at, blocks, units, e4m3_sixteen, BYTES_EXACT);
  else if (at.dtype == NABLA_DTYPE_BF16 && units > 1 &&
           is_moderate(given.scale[0]) && is_moderate(given.scale[1]))
    e4m3_to_bf16(at, given, units);
  else if (isfinite(blocks.scale[0]) && isfinite(blocks.scale[1]))
    decode_bytes(at, blocks, units, e4m3_sixteen, 0);
  else
    decode_bytes(at, given, units, e4m3_large_sixteen, 0);
}

/* Defines the stages of an encoding with elements of one of the formats. */
#define FP8_STAGES(id, format)                                          \
  CODE_STAGES(id, avx2, 8, format##_unit, no_tables, NO_TABLES, 77, 29) \
  DECODE_STAGE(id, 8, format##_run, NULL)

#endif
