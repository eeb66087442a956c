/* Shared by the AVX2 stages: loads of each dtype as vectors of f32, and
 * packing. Values are processed in units of 32: codes of all widths then fill
 * whole bytes, and no block of 32 or more ends inside a unit. */
#ifndef NABLA_QUANT_X86_AVX2_H
#define NABLA_QUANT_X86_AVX2_H

#include <immintrin.h>

#include "quant/codec/kernel.h"

/* Forces inlining: parameters that are constant at a call (dtype, unit
 * functions) must be constants in the innermost loop. */
#define INLINE static inline __attribute__((always_inline))

enum {
  UNIT = 32,
  PARTS = UNIT / 16, /* each has its own block, or all share one */
  LANES = 8,         /* dwords of a vector */
};

typedef __m256i vector;

/* Prefetch distance of every stage, also past the end of the buffer, which is
 * harmless. Otherwise the first stage of a chunk waits for memory, and the
 * second leaves the memory idle. It is two chunks of 16 bits or one of 32. */
enum { AHEAD = 4096 };

INLINE size_t width_of(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 ? 4 : 2;
}

/* Prefetches the unit at the distance AHEAD. */
INLINE void prefetch_unit(const uint8_t *in, nabla_dtype dtype) {
  const uintptr_t ahead = (uintptr_t)in + AHEAD;
  _mm_prefetch((const char *)ahead, _MM_HINT_T0);
  if (dtype == NABLA_DTYPE_F32)
    _mm_prefetch((const char *)(ahead + 64), _MM_HINT_T0);
}

INLINE __m256i load_bytes(const uint8_t *in) {
  return _mm256_loadu_si256((const __m256i *)(const void *)in);
}

INLINE __m128i load_half(const uint8_t *in) {
  return _mm_loadu_si128((const __m128i *)(const void *)in);
}

/* Loads fewer bytes than a vector has, and zeros. */
INLINE __m256i load_rest(const uint8_t *in, size_t bytes) {
  uint8_t copy[sizeof(__m256i)] = {0};
  memcpy(copy, in, bytes);
  return load_bytes(copy);
}

/* Copies 64 bytes past the caches; both addresses must be multiples of 64. */
INLINE void stream_line(uint8_t *out, const uint8_t *in) {
  for (int i = 0; i < 64; i += 32)
    _mm256_stream_si256(
        (__m256i *)(void *)(out + i),
        _mm256_load_si256((const __m256i *)(const void *)(in + i)));
}

INLINE void store_floats(float *out, __m256 x) { _mm256_storeu_ps(out, x); }

INLINE void store_bytes(uint8_t *out, __m256i x) {
  _mm256_storeu_si256((__m256i *)(void *)out, x);
}

INLINE void store_half(uint8_t *out, __m128i x) {
  _mm_storeu_si128((__m128i *)(void *)out, x);
}

/* Loads the values i to i + 7. */
INLINE __m256 load_eight(const uint8_t *in, nabla_dtype dtype, size_t i) {
  const uint8_t *at = in + i * width_of(dtype);
  if (dtype == NABLA_DTYPE_F32) return _mm256_castsi256_ps(load_bytes(at));
  if (dtype == NABLA_DTYPE_F16) return _mm256_cvtph_ps(load_half(at));
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(at)), 16));
}

/* Loads vector `j` of a unit: the values from 8 j on. For BF16 these are four
 * of them and four others from the same half of the unit, which takes one
 * instruction. */
INLINE __m256 load_part(const uint8_t *in, nabla_dtype dtype, size_t j) {
  if (dtype != NABLA_DTYPE_BF16) return load_eight(in, dtype, 8 * j);
  const __m256i words = load_bytes(in + j / 2 * 32);
  const __m256i zero = _mm256_setzero_si256();
  return _mm256_castsi256_ps(j % 2 ? _mm256_unpackhi_epi16(zero, words)
                                   : _mm256_unpacklo_epi16(zero, words));
}

INLINE __m256 magnitude_of(__m256 x) {
  return _mm256_and_ps(
      x, _mm256_castsi256_ps(_mm256_set1_epi32((int)NABLA_F32_MAGNITUDE)));
}

/* Packs the dwords of the four vectors of a unit to bytes, saturated. Groups of
 * four are in order; `in_order` restores the order of the groups. */
INLINE __m256i pack_bytes(const __m256i x[4]) {
  return _mm256_packs_epi16(_mm256_packs_epi32(x[0], x[1]),
                            _mm256_packs_epi32(x[2], x[3]));
}

INLINE __m256i in_order(__m256i bytes, nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_BF16) return _mm256_permute4x64_epi64(bytes, 0xd8);
  return _mm256_permutevar8x32_epi32(bytes,
                                     _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Returns the compares of the four vectors of a unit as 32 bits. */
INLINE uint32_t bits_of(const __m256 compared[4], nabla_dtype dtype) {
  __m256i x[4];
  for (int j = 0; j < 4; j++) x[j] = _mm256_castps_si256(compared[j]);
  return (uint32_t)_mm256_movemask_epi8(in_order(pack_bytes(x), dtype));
}

/* Joins pairs of codes to bytes: the even one times `even` plus the odd one
 * times `odd`, of which one is 1 and the other 16. */
INLINE __m128i pack_nibbles(__m256i codes, int even, int odd) {
  const __m256i words =
      _mm256_maddubs_epi16(codes, _mm256_set1_epi16((short)(odd << 8 | even)));
  return _mm_packus_epi16(_mm256_castsi256_si128(words),
                          _mm256_extracti128_si256(words, 1));
}

#endif
