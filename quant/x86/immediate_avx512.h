/* Intrinsics of AVX-512 with an immediate operand. Without optimisation gcc 12
 * has them as macros whose casts of masks -Wconversion refuses. */
#ifndef NABLA_QUANT_X86_IMMEDIATE_AVX512_H
#define NABLA_QUANT_X86_IMMEDIATE_AVX512_H

#include <immintrin.h>

#if defined __GNUC__ && !defined __clang__ && !defined __OPTIMIZE__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif

/* The operand of smaller magnitude, with the sign of `a`. */
static inline __attribute__((always_inline)) __m512
signed_min_magnitude(__m512 a, __m512 b) {
  return _mm512_range_ps(a, b, 2);
}

/* The smaller magnitude. */
static inline __attribute__((always_inline)) __m512 min_magnitude(__m512 a,
                                                                  __m512 b) {
  return _mm512_range_ps(a, b, 10);
}

/* f16, rounded half to even. */
static inline __attribute__((always_inline)) __m256i to_f16(__m512 x) {
  return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}

#if defined __GNUC__ && !defined __clang__ && !defined __OPTIMIZE__
#pragma GCC diagnostic pop
#endif

#endif
