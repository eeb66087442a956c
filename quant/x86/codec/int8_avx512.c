/* INT8 for AVX-512: the bits of quant/codec/int8.c. */
#include "lib/base/x86_features.h"
#include "quant/x86/ahead.h"
#include "quant/x86/encode/integers_avx512.h"

/* @param tables  the least code */
INLINE void int8_unit(unit_place at, const unit_scales *scales,
                      const void *tables) {
  const __m512i *least = tables;
  const __m512i q = _mm512_max_epi8(round_unit(at, scales), *least);
  _mm512_storeu_si512(at.codes, in_order(q, at.dtype));
}

#define LEAST(blocks) least_of(-127, -128, blocks)

CODE_STAGES(int8, avx512, 8, int8_unit, __m512i, LEAST, 77, 29)

/* ---- decode to BF16 where the CPU converts to it ---- */

/* Blocks of 64 and more values, or the one that is shorter. */
typedef struct int8_block {
  const uint8_t *codes;
  uint8_t *out;
  float scale, zero, after;
} int8_block;

/* The conversion takes subnormal values for 0: no product with such a scale is
 * one, or infinite. */
static int is_moderate(float scale) {
  const uint32_t exponent = nabla_bits_of_f32(scale) >> 23 & 0xff;
  return exponent - 27 <= 200;
}

#define BF16_CODE __attribute__((target("avx512bf16"), noinline))

BF16_CODE static void decode_units(int8_block b, size_t units, int extra,
                                   int stream) {
  const __m512 zero = _mm512_set1_ps(b.zero), scale = _mm512_set1_ps(b.scale);
  const __m512 after = _mm512_set1_ps(b.after);
  for (size_t i = 0; i < 2 * units; i++, b.codes += 32, b.out += 64) {
    __m512 x[2];
    _mm_prefetch((const char *)((uintptr_t)b.codes + 2048), _MM_HINT_T0);
    if (!stream) ask_for_line((uintptr_t)b.out);
    for (int j = 0; j < 2; j++) {
      x[j] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
          _mm_loadu_si128((const __m128i *)(const void *)(b.codes + 16 * j))));
      if (extra) x[j] = _mm512_sub_ps(x[j], zero);
      x[j] = _mm512_mul_ps(x[j], scale);
      if (extra) x[j] = _mm512_mul_ps(x[j], after);
    }
    const __m512i bits = (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]);
    if (stream)
      _mm512_stream_si512((__m512i *)(void *)b.out, bits);
    else
      _mm512_storeu_si512(b.out, bits);
  }
}

/* Of `b`, `units` units; `extra` and `stream` are constants in each call. */
static void decode_some(int8_block b, size_t units, int extra, int stream) {
  if (extra)
    stream ? decode_units(b, units, 1, 1) : decode_units(b, units, 1, 0);
  else
    stream ? decode_units(b, units, 0, 1) : decode_units(b, units, 0, 0);
}

static void decode_bf16(const nabla_blocks *blocks, const uint8_t *codes,
                        size_t count, size_t block, uint8_t *out, int stream) {
  const int extra = blocks->zeros || blocks->after != 1.0f;
  for (size_t b = 0, at = 0; at < count; b++, at += block) {
    const size_t size = count - at < block ? count - at : block;
    const nabla_blocks one = {.scales = blocks->scales + b,
                              .zeros = blocks->zeros ? blocks->zeros + b : NULL,
                              .after = blocks->after};
    const size_t whole = is_moderate(*one.scales) ? size / 64 * 64 : 0;
    decode_some((int8_block){codes + at, out + 2 * at, *one.scales,
                             one.zeros ? *one.zeros : 0.0f, one.after},
                whole / 64, extra, stream);
    if (size > whole)
      nabla_int8_decode_avx2(&one, codes + at + whole, size - whole, block,
                             NABLA_DTYPE_BF16, out + 2 * (at + whole), 0);
  }
  if (stream) _mm_sfence();
}

void nabla_int8_decode_avx512(const nabla_blocks *blocks, const uint8_t *codes,
                              size_t count, size_t block, nabla_dtype dtype,
                              void *out, int stream) {
  const int fits = dtype == NABLA_DTYPE_BF16 && block >= 64 &&
                   (!stream || (uintptr_t)out % 64 == 0);
  if (fits && nabla_x86_has(NABLA_X86_AVX512BF16))
    decode_bf16(blocks, codes, count, block, out, stream);
  else
    nabla_int8_decode_avx2(blocks, codes, count, block, dtype, out, stream);
}
