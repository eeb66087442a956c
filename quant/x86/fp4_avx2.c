/* FP4 for AVX2: the bytes of quant/fp4.c. */
#include "quant/fp4.h"
#include "quant/x86/nibbles_avx2.h"

/* The sign is the top bit of the rank; then three steps over the seven
 * thresholds of the magnitude. */
INLINE __m256i rank_of(__m256 scaled, const nibble_tables *t) {
  __m256 size = _mm256_castsi256_ps(magnitudes(scaled));
  __m256i rank = _mm256_castps_si256(
      _mm256_cmp_ps(scaled, _mm256_setzero_ps(), _CMP_LT_OQ));
  rank = step(rank, size, t->step2);
  rank = step(rank, size, _mm256_permutevar_ps(t->step3, rank));
  return step(rank, size, _mm256_permutevar_ps(t->step4, rank));
}

/* The threshold that a step asks about when `bits` bits of the magnitude's
 * rank are known: lane i holds it for a rank of -i, modulo 2^bits. */
INLINE __m256 thresholds_of_step(int bits) {
  float bounds[8];
  int stride = 8 >> bits;
  for (int i = 0; i < 8; i++) {
    int rank = -i & ((1 << bits) - 1);
    bounds[i] = nabla_fp4_thresholds[rank * stride + stride / 2 - 1];
  }
  return _mm256_loadu_ps(bounds);
}

void nabla_fp4_encode_avx2(const float *in, size_t count, size_t block,
                           uint8_t *codes, float *scales) {
  __m128i positive = _mm_loadl_epi64((const __m128i *)nabla_fp4_codes);
  __m128i negative = _mm_or_si128(positive, _mm_set1_epi8(NABLA_FP4_SIGN));
  __m128i both = _mm_unpacklo_epi64(positive, negative);
  nibble_tables tables = {_mm256_setzero_ps(), thresholds_of_step(0),
                          thresholds_of_step(1), thresholds_of_step(2),
                          _mm256_set_m128i(both, both)};
  encode_nibbles(in, count, block, codes, scales, &tables, rank_of,
                 nabla_fp4_encode_scalar);
}

void nabla_fp4_decode_avx2(const uint8_t *codes, const float *scales,
                           size_t count, size_t block, float *out) {
  decode_nibbles(codes, scales, count, block, out, nabla_fp4_values,
                 nabla_fp4_decode_scalar);
}
