/* What the AVX-512 stages share: values of each dtype as vectors of f32. Values
 * are taken 64 at a time, a "unit": no block of 64 and more ends inside one. */
#ifndef NABLA_QUANT_X86_AVX512_H
#define NABLA_QUANT_X86_AVX512_H

#include <immintrin.h>

#include "quant/kernel.h"

/* Parameters that are constants where these are called (dtype, unit functions)
 * must reach the innermost loop as such. */
#define INLINE static inline __attribute__((always_inline))

enum { UNIT = 64 };

INLINE size_t width_of(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 ? 4 : 2;
}

/* How far ahead a stage asks for memory, past the end of the buffer too, which
 * is harmless. The first stage of a chunk otherwise waits for memory, and the
 * second leaves it idle: the second asks for the next chunk, of f32 one, of 16
 * bits two. */
enum { AHEAD = 4096 };

/* The same for a stage that reads all of its input from memory. An odd number
 * of lines: with an even one the processor, which fetches lines in pairs, was
 * measured to lose up to 40 % (Sapphire Rapids). */
enum { LOOK_AHEAD = 29 * 64 };

INLINE void prefetch_unit(const uint8_t *in, nabla_dtype dtype) {
  const uintptr_t ahead = (uintptr_t)in + AHEAD;
  for (size_t line = 0; line < UNIT * width_of(dtype); line += 64)
    _mm_prefetch((const char *)(ahead + line), _MM_HINT_T0);
}

INLINE __m512i load_bytes(const uint8_t *in) { return _mm512_loadu_si512(in); }

INLINE __m256i load_half(const uint8_t *in) {
  return _mm256_loadu_si256((const __m256i *)(const void *)in);
}

INLINE void store_half(uint8_t *out, __m256i x) {
  _mm256_storeu_si256((__m256i *)(void *)out, x);
}

/* Values i to i + 15. */
INLINE __m512 load_sixteen(const uint8_t *in, nabla_dtype dtype, size_t i) {
  const uint8_t *at = in + i * width_of(dtype);
  if (dtype == NABLA_DTYPE_F32) return _mm512_loadu_ps(at);
  if (dtype == NABLA_DTYPE_F16) return _mm512_cvtph_ps(load_half(at));
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(load_half(at)), 16));
}

INLINE __m512 magnitude_of(__m512 x) {
  return _mm512_and_ps(
      x, _mm512_castsi512_ps(_mm512_set1_epi32((int)NABLA_F32_MAGNITUDE)));
}

/* For _mm512_permutex2var_epi8: the low byte of each dword of two vectors. */
static const uint8_t low_bytes[64] __attribute__((aligned(64))) = {
    0,  4,  8,  12, 16, 20, 24, 28, 32, 36,  40,  44,  48,  52,  56,  60,
    64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108, 112, 116, 120, 124};

/* The low bytes of 64 dwords, in order. */
INLINE __m512i pack_bytes(const __m512i x[4]) {
  const __m512i picks = _mm512_load_si512(low_bytes);
  const __m512i low = _mm512_permutex2var_epi8(x[0], picks, x[1]);
  const __m512i high = _mm512_permutex2var_epi8(x[2], picks, x[3]);
  return _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
}

/* Pairs of codes as bytes: the even one times `even`, the odd one times `odd`,
 * of which one is 1 and one 16. */
INLINE __m256i pack_nibbles(__m512i codes, int even, int odd) {
  return _mm512_cvtepi16_epi8(
      _mm512_maddubs_epi16(codes, _mm512_set1_epi16((short)(odd << 8 | even))));
}

#endif
