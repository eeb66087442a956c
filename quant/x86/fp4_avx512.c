/* FP4 for AVX-512: the bytes of quant/fp4.c. */
#include <math.h>

#include "quant/fp4.h"
#include "quant/x86/nibbles_avx512.h"

/* Bins of width 1/15, no two thresholds in one: bin b is where |s| * 15 rounds
 * to b. */
#define BINS_PER_UNIT 15.0f
#define NONE          INFINITY

static const float bounds[16] __attribute__((aligned(64))) = {
    0.00260417f, 0.0859375f, NONE, 0.20833333f, 0.29166667f, NONE,
    0.4166667f,  NONE,       NONE, 0.583333f,   NONE,        NONE,
    0.8333333f,  NONE,       NONE, NONE};

/* By bin: the code up to the bin's threshold, then the code above it, then the
 * two again for negative values. */
static const uint8_t codes_of_bins[64] __attribute__((aligned(64))) = {
    0, 1,  6,  6,  7,  4,  4,  5,  5,  5,  2,  2,  2,  3,  3,  3,
    1, 6,  7,  7,  4,  5,  5,  2,  2,  2,  3,  3,  3,  3,  3,  3,
    8, 9,  14, 14, 15, 12, 12, 13, 13, 13, 10, 10, 10, 11, 11, 11,
    9, 14, 15, 15, 12, 13, 13, 10, 10, 10, 11, 11, 11, 11, 11, 11};

INLINE __m512i bin_of(__m512 scaled, const nibble_tables *t) {
  __m512 size = _mm512_castsi512_ps(magnitudes(scaled));
  __m512 sum = _mm512_fmadd_ps(size, _mm512_set1_ps(BINS_PER_UNIT),
                               _mm512_set1_ps(ROUNDER));
  __m512i bin = _mm512_castps_si512(sum);
  __m512 bound = _mm512_permutexvar_ps(bin, t->bounds[0]);
  __mmask16 above = _mm512_cmp_ps_mask(size, bound, _CMP_GT_OQ);
  __mmask16 negative =
      _mm512_cmp_ps_mask(scaled, _mm512_setzero_ps(), _CMP_LT_OQ);
  bin = _mm512_mask_or_epi32(bin, above, bin, _mm512_set1_epi32(16));
  return _mm512_mask_or_epi32(bin, negative, bin, _mm512_set1_epi32(32));
}

void nabla_fp4_encode_avx512(const float *in, size_t count, size_t block,
                             uint8_t *codes, float *scales) {
  nibble_tables tables = {{_mm512_load_ps(bounds), _mm512_setzero_ps()},
                          _mm512_load_si512(codes_of_bins),
                          _mm512_load_si512(low_bytes)};
  encode_nibbles(in, count, block, codes, scales, &tables, bin_of,
                 nabla_fp4_encode_scalar);
}

void nabla_fp4_decode_avx512(const uint8_t *codes, const float *scales,
                             size_t count, size_t block, float *out) {
  decode_nibbles(codes, scales, count, block, out, nabla_fp4_values,
                 nabla_fp4_decode_scalar);
}
