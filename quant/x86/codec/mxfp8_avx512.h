/* Decoding MXFP8 to BF16 for AVX-512: a table of all magnitudes, to whose
 * exponents each block adds that of its scale. All else is left to AVX2, which
 * waits for memory as well. */
#ifndef NABLA_QUANT_X86_CODEC_MXFP8_AVX512_H
#define NABLA_QUANT_X86_CODEC_MXFP8_AVX512_H

#include "quant/x86/ahead.h"
#include "quant/x86/codec/fp8_avx512.h"

/* BF16 of the 128 magnitudes, 32 in each vector, and which of these no factor
 * changes: 0, infinity and NaN. */
typedef struct magnitudes {
  __m512i of[4];
  __mmask32 fixed[4];
} magnitudes;

INLINE __m128i load_quarter(const uint16_t *in) {
  return _mm_loadu_si128((const __m128i *)(const void *)in);
}

/* BF16 has the exponent and mantissa of 8-bit floats, moved, but for the few
 * that are given: subnormals first, and what is not finite. */
INLINE magnitudes magnitudes_with(int mantissa, int bias,
                                  const uint16_t first[8],
                                  const uint16_t last[8], uint32_t not_finite) {
  magnitudes m;
  const __m512i from_0 = _mm512_set_epi16(
      31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,
      13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (int i = 0; i < 4; i++) {
    const __m512i code =
        _mm512_add_epi16(from_0, _mm512_set1_epi16((short)(32 * i)));
    m.of[i] = _mm512_add_epi16(
        _mm512_sll_epi16(code, _mm_cvtsi32_si128(7 - mantissa)),
        _mm512_set1_epi16((short)((127 - bias) << 7)));
    m.fixed[i] = 0;
  }
  m.of[0] = _mm512_inserti32x4(m.of[0], load_quarter(first), 0);
  m.of[3] = _mm512_inserti32x4(m.of[3], load_quarter(last), 3);
  m.fixed[0] = 1;
  m.fixed[3] = not_finite;
  return m;
}

INLINE __m512i decode_block(const uint8_t *codes, const magnitudes *m,
                            uint32_t exponent) {
  const __m512i add = _mm512_set1_epi16((short)((exponent - 127) << 7));
  __m512i t[4];
  for (int i = 0; i < 4; i++)
    t[i] = _mm512_mask_add_epi16(m->of[i], ~m->fixed[i], m->of[i], add);
  const __m512i code = _mm512_cvtepu8_epi16(load_half(codes));
  const __m512i low = _mm512_permutex2var_epi16(t[0], code, t[1]);
  const __m512i high = _mm512_permutex2var_epi16(t[2], code, t[3]);
  const __mmask32 is_high =
      _mm512_test_epi16_mask(code, _mm512_set1_epi16(0x40));
  /* The sign of one and the other bits of the other: c ? a : b. */
  return _mm512_ternarylogic_epi32(_mm512_slli_epi16(code, 8),
                                   _mm512_mask_mov_epi16(low, is_high, high),
                                   _mm512_set1_epi16(INT16_MIN), 0xe4);
}

/* Blocks of 32 to BF16, all with moderate scales: no product is subnormal or
 * infinite.
 * @return how many were done */
INLINE size_t decode_moderate(const nabla_blocks *blocks, const uint8_t *codes,
                              size_t count, uint8_t *out, int stream,
                              const magnitudes *m) {
  size_t b = 0;
  for (; b < count; b++) {
    const uint32_t exponent = nabla_bits_of_f32(blocks->scales[b]) >> 23;
    const uint8_t *from = codes + 32 * b;
    if (exponent - 27 > 200) break;
    _mm_prefetch((const char *)((uintptr_t)from + 2048), _MM_HINT_T0);
    const __m512i values = decode_block(from, m, exponent);
    if (stream) {
      _mm512_stream_si512((__m512i *)(void *)(out + 64 * b), values);
    } else {
      ask_for_line((uintptr_t)(out + 64 * b));
      _mm512_storeu_si512(out + 64 * b, values);
    }
  }
  return b;
}

/* The whole stage.
 * @param other  serves what is not for this one */
INLINE void decode_mx(const nabla_blocks *blocks, const uint8_t *codes,
                      size_t count, nabla_dtype dtype, void *out, int stream,
                      const magnitudes *m, nabla_kernel_decode *other) {
  nabla_blocks left = *blocks;
  uint8_t *to = out;
  const int fits =
      dtype == NABLA_DTYPE_BF16 && (!stream || (uintptr_t)out % 64 == 0);
  while (fits && count >= 32) {
    const size_t whole = count / 32;
    const size_t done = stream ? decode_moderate(&left, codes, whole, to, 1, m)
                               : decode_moderate(&left, codes, whole, to, 0, m);
    const size_t one = done < whole;
    if (one)
      other(&(nabla_blocks){.scales = left.scales + done, .after = left.after},
            codes + 32 * done, 32, 32, dtype, to + 64 * done, 0);
    left.scales += done + one;
    codes += 32 * (done + one);
    to += 64 * (done + one);
    count -= 32 * (done + one);
  }
  if (stream) _mm_sfence();
  if (count) other(&left, codes, count, 32, dtype, to, stream);
}

/* Defines nabla_<id>_decode_avx512. */
#define DECODE_MX_STAGE(id, mantissa, bias, first, last, not_finite)    \
  void nabla_##id##_decode_avx512(                                      \
      const nabla_blocks *blocks, const uint8_t *codes, size_t count,   \
      size_t block, nabla_dtype dtype, void *out, int stream) {         \
    const magnitudes m =                                                \
        magnitudes_with(mantissa, bias, first, last, not_finite);       \
    if (block == 32)                                                    \
      decode_mx(blocks, codes, count, dtype, out, stream, &m,           \
                nabla_##id##_decode_avx2);                              \
    else                                                                \
      nabla_##id##_decode_avx2(blocks, codes, count, block, dtype, out, \
                               stream);                                 \
  }

#endif
