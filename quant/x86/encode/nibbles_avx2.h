/* The 4-bit code stages for AVX2 that look for a value among thresholds: a
 * binary search, a compare and a permute per step. Compares give 0 or -1, and
 * the search counts with them: its result is minus the rank, and the tables of
 * the steps are indexed by the low bits of minus the rank so far. */
#ifndef NABLA_QUANT_X86_ENCODE_NIBBLES_AVX2_H
#define NABLA_QUANT_X86_ENCODE_NIBBLES_AVX2_H

#include "quant/x86/encode/code_avx2.h"

/* 2 * rank + (x > bound), all negated. */
INLINE __m256i step(__m256i rank, __m256 x, __m256 bound) {
  const __m256i above =
      _mm256_castps_si256(_mm256_cmp_ps(x, bound, _CMP_GT_OQ));
  return _mm256_add_epi32(_mm256_add_epi32(rank, rank), above);
}

/* The bounds that a step asks about when `known` bits of the rank are known, of
 * 2^bits - 1 rising thresholds: lane i has the one for a rank of -i, modulo
 * 2^known. */
INLINE __m256 bounds_of_step(const float *thresholds, int bits, int known) {
  float bounds[8];
  const int stride = 1 << (bits - known);
  for (int i = 0; i < 8; i++) {
    const int rank = -i & ((1 << known) - 1);
    bounds[i] = thresholds[rank * stride + stride / 2 - 1];
  }
  return _mm256_loadu_ps(bounds);
}

/* A magnitude among seven thresholds, below a sign that is 0 or -1. */
typedef struct signed_tables {
  __m256 step[3];
  __m256i codes; /* by rank, the sign its top bit */
} signed_tables;

INLINE __m256i signed_rank(__m256i sign, __m256 x, const signed_tables *t) {
  const __m256 size = magnitude_of(x);
  __m256i rank = step(sign, size, t->step[0]);
  rank = step(rank, size, _mm256_permutevar_ps(t->step[1], rank));
  return step(rank, size, _mm256_permutevar_ps(t->step[2], rank));
}

INLINE signed_tables signed_tables_of(const float thresholds[7],
                                      const uint8_t codes[16]) {
  signed_tables t;
  for (int i = 0; i < 3; i++) t.step[i] = bounds_of_step(thresholds, 3, i);
  t.codes = _mm256_broadcastsi128_si256(load_half(codes));
  return t;
}

/* Four vectors of minus ranks as codes in order. */
INLINE __m256i codes_of_ranks(const __m256i ranks[4], __m256i codes,
                              nabla_dtype dtype) {
  const __m256i positive = _mm256_abs_epi8(in_order(pack_bytes(ranks), dtype));
  return _mm256_shuffle_epi8(codes, positive);
}

#endif
