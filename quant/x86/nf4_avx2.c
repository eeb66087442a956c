/* NF4 for AVX2: the bytes of quant/nf4.c. */
#include "quant/nf4.h"
#include "quant/x86/nibbles_avx2.h"

/* Four steps over the 15 thresholds. */
INLINE __m256i rank_of(__m256 scaled, const nibble_tables *t) {
  __m256i rank = step(_mm256_setzero_si256(), scaled, t->step1);
  rank = step(rank, scaled, _mm256_permutevar_ps(t->step2, rank));
  rank = step(rank, scaled, _mm256_permutevar_ps(t->step3, rank));
  return step(rank, scaled, _mm256_permutevar8x32_ps(t->step4, rank));
}

/* The threshold that a step asks about when `bits` bits of the rank are known:
 * lane i holds it for a rank of -i, modulo 2^bits. */
INLINE __m256 thresholds_of_step(int bits) {
  float bounds[8];
  int stride = 16 >> bits;
  for (int i = 0; i < 8; i++) {
    int rank = -i & ((1 << bits) - 1);
    bounds[i] = nabla_nf4_thresholds[rank * stride + stride / 2 - 1];
  }
  return _mm256_loadu_ps(bounds);
}

void nabla_nf4_encode_avx2(const float *in, size_t count, size_t block,
                           uint8_t *codes, float *scales) {
  __m256i ranks =
      _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0,
                       1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  nibble_tables tables = {thresholds_of_step(0), thresholds_of_step(1),
                          thresholds_of_step(2), thresholds_of_step(3), ranks};
  encode_nibbles(in, count, block, codes, scales, &tables, rank_of,
                 nabla_nf4_encode_scalar);
}

void nabla_nf4_decode_avx2(const uint8_t *codes, const float *scales,
                           size_t count, size_t block, float *out) {
  decode_nibbles(codes, scales, count, block, out, nabla_nf4_values,
                 nabla_nf4_decode_scalar);
}
