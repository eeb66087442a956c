/* The 4-bit code stages for AVX-512 that look for a value among thresholds.
 *
 * A multiply-add sends the value to one of a few equal bins, each with at most
 * one threshold inside; the bin gives that threshold (one permute), a compare
 * says on which side the value lies, and bin and side give the code (another
 * permute). Only the monotony of the multiply-add matters, so its rounding
 * cannot change a code. */
#ifndef NABLA_QUANT_X86_ENCODE_BINS_AVX512_H
#define NABLA_QUANT_X86_ENCODE_BINS_AVX512_H

#include <math.h>

#include "quant/x86/encode/code_avx512.h"
#include "quant/x86/immediate_avx512.h"

/* Adding this leaves the nearest integer in the low bits of the sum. */
#define ROUNDER 12582912.0f /* 1.5 * 2^23 */

typedef struct bin_tables {
  __m512 bounds[2]; /* the threshold in each bin, or infinity   */
  __m512i codes;    /* by side and bin, and sign where it counts */
} bin_tables;

/* The bin of `x`, of 32; `first` is the bin of 0. */
INLINE __m512i bin_of(__m512 x, float per_unit, float first) {
  const __m512 sum = _mm512_fmadd_ps(x, _mm512_set1_ps(per_unit),
                                     _mm512_set1_ps(ROUNDER + first));
  return _mm512_and_si512(_mm512_castps_si512(sum), _mm512_set1_epi32(31));
}

/* Magnitudes above 1 as 1, with their sign. */
INLINE __m512 clamp_unit(__m512 x) {
  return signed_min_magnitude(x, _mm512_set1_ps(1.0f));
}

#endif
