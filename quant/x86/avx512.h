/* Shared by the AVX-512 stages: loads of each dtype as vectors of f32. Values
 * are processed in units of 64: no block of 64 or more ends inside a unit. */
#ifndef NABLA_QUANT_X86_AVX512_H
#define NABLA_QUANT_X86_AVX512_H

#include <immintrin.h>

#include "quant/codec/kernel.h"

/* Forces inlining: parameters that are constant at a call (dtype, unit
 * functions) must be constants in the innermost loop. */
#define INLINE static inline __attribute__((always_inline))

enum {
  UNIT = 64,
  PARTS = UNIT / 16, /* each may have its own block */
  LANES = 16,        /* dwords of a vector */
};

typedef __m512i vector;

INLINE size_t width_of(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 ? 4 : 2;
}

/* Prefetch distance of a stage, also past the end of the buffer, which is
 * harmless. Otherwise the first stage of a chunk waits for memory, and the
 * second leaves the memory idle: the second prefetches the next chunk of f32,
 * or the next two of 16 bits. */
enum { AHEAD = 4096 };

INLINE void prefetch_unit(const uint8_t *in, nabla_dtype dtype) {
  const uintptr_t ahead = (uintptr_t)in + AHEAD;
  for (size_t line = 0; line < UNIT * width_of(dtype); line += 64)
    _mm_prefetch((const char *)(ahead + line), _MM_HINT_T0);
}

INLINE __m512i load_bytes(const uint8_t *in) { return _mm512_loadu_si512(in); }

INLINE __m256i load_half(const uint8_t *in) {
  return _mm256_loadu_si256((const __m256i *)(const void *)in);
}

/* Loads fewer bytes than a vector has, and zeros. */
INLINE __m512i load_rest(const uint8_t *in, size_t bytes) {
  if (bytes == 32) return _mm512_zextsi256_si512(load_half(in));
  return _mm512_maskz_loadu_epi8(_bzhi_u64(~UINT64_C(0), (unsigned)bytes), in);
}

/* Copies 64 bytes past the caches; both addresses must be multiples of 64. */
INLINE void stream_line(uint8_t *out, const uint8_t *in) {
  _mm512_stream_si512((__m512i *)(void *)out, _mm512_load_si512(in));
}

INLINE void store_floats(float *out, __m512 x) { _mm512_storeu_ps(out, x); }

INLINE void store_half(uint8_t *out, __m256i x) {
  _mm256_storeu_si256((__m256i *)(void *)out, x);
}

/* Loads the values i to i + 15. */
INLINE __m512 load_sixteen(const uint8_t *in, nabla_dtype dtype, size_t i) {
  const uint8_t *at = in + i * width_of(dtype);
  if (dtype == NABLA_DTYPE_F32) return _mm512_loadu_ps(at);
  if (dtype == NABLA_DTYPE_F16) return _mm512_cvtph_ps(load_half(at));
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(load_half(at)), 16));
}

/* Loads vector `j` of a unit: the values from 16 j on. For BF16 these are half
 * of them and half of others from the same half of the unit, which takes one
 * instruction. */
INLINE __m512 load_part(const uint8_t *in, nabla_dtype dtype, size_t j) {
  if (dtype != NABLA_DTYPE_BF16) return load_sixteen(in, dtype, 16 * j);
  const __m512i words = load_bytes(in + j / 2 * 64);
  const __m512i zero = _mm512_setzero_si512();
  return _mm512_castsi512_ps(j % 2 ? _mm512_unpackhi_epi16(zero, words)
                                   : _mm512_unpacklo_epi16(zero, words));
}

INLINE __m512 magnitude_of(__m512 x) {
  return _mm512_and_ps(
      x, _mm512_castsi512_ps(_mm512_set1_epi32((int)NABLA_F32_MAGNITUDE)));
}

/* Packs the dwords of the four vectors of a unit to bytes, saturated. Groups of
 * four are in order; `in_order` restores the order of the groups. */
INLINE __m512i pack_bytes(const __m512i x[4]) {
  return _mm512_packs_epi16(_mm512_packs_epi32(x[0], x[1]),
                            _mm512_packs_epi32(x[2], x[3]));
}

INLINE __m512i in_order(__m512i bytes, nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_BF16)
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                    bytes);
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
      bytes);
}

/* The even bytes in the order of in_order; then the same for BF16. */
static const uint8_t even_bytes[2][32] __attribute__((aligned(32))) = {
    {0, 2,  16, 18, 32, 34, 48, 50, 4,  6,  20, 22, 36, 38, 52, 54,
     8, 10, 24, 26, 40, 42, 56, 58, 12, 14, 28, 30, 44, 46, 60, 62},
    {0, 2,  4,  6,  16, 18, 20, 22, 32, 34, 36, 38, 48, 50, 52, 54,
     8, 10, 12, 14, 24, 26, 28, 30, 40, 42, 44, 46, 56, 58, 60, 62}};

/* Joins pairs of codes, as pack_bytes leaves them, to bytes in order: the even
 * one times `even` plus the odd one times `odd`, of which one is 1 and the
 * other 16. */
INLINE __m256i nibbles_in_order(__m512i codes, int even, int odd,
                                nabla_dtype dtype) {
  const __m512i words =
      _mm512_maddubs_epi16(codes, _mm512_set1_epi16((short)(odd << 8 | even)));
  const __m256i picks = load_half(even_bytes[dtype == NABLA_DTYPE_BF16]);
  return _mm512_castsi512_si256(
      _mm512_permutexvar_epi8(_mm512_castsi256_si512(picks), words));
}

#endif
