/* NF4 for AVX-512: the bytes of quant/nf4.c. */
#include <math.h>

#include "quant/nf4.h"
#include "quant/x86/nibbles_avx512.h"

/* Bins of width 1/14.6, so placed that no two thresholds share one: bin b is
 * where s * 14.6 + 16 rounds to b. */
#define BINS_PER_UNIT 14.6f
#define NONE          INFINITY

static const float bounds[32] __attribute__((aligned(64))) = {NONE,
                                                              NONE,
                                                              NONE,
                                                              NONE,
                                                              -0x1.b239bp-1f,
                                                              NONE,
                                                              NONE,
                                                              -0x1.38a4ep-1f,
                                                              NONE,
                                                              -0x1.d709p-2f,
                                                              NONE,
                                                              -0x1.5bd4ecp-2f,
                                                              NONE,
                                                              -0x1.e079d8p-3f,
                                                              -0x1.1a7178p-3f,
                                                              -0x1.74f0e2p-5f,
                                                              NONE,
                                                              0x1.45f5fep-5f,
                                                              0x1.ec90c4p-4f,
                                                              0x1.a0cfcp-3f,
                                                              0x1.2b05a8p-2f,
                                                              NONE,
                                                              0x1.8ea7f2p-2f,
                                                              0x1.00da08p-1f,
                                                              NONE,
                                                              0x1.491b5ep-1f,
                                                              NONE,
                                                              NONE,
                                                              NONE,
                                                              0x1.b913b4p-1f,
                                                              NONE,
                                                              NONE};

/* By bin: the code up to the bin's threshold, then the code above it. */
static const uint8_t codes_of_bins[64] __attribute__((aligned(64))) = {
    0, 0, 0, 0,  0,  1,  1,  1,  2,  2,  3,  3,  4,  4,  5,  6,
    7, 7, 8, 9,  10, 11, 11, 12, 13, 13, 14, 14, 14, 14, 15, 15,
    1, 1, 1, 1,  1,  2,  2,  2,  3,  3,  4,  4,  5,  5,  6,  7,
    8, 8, 9, 10, 11, 12, 12, 13, 14, 14, 15, 15, 15, 15, 15, 15};

INLINE __m512i bin_of(__m512 scaled, const nibble_tables *t) {
  __m512 sum = _mm512_fmadd_ps(scaled, _mm512_set1_ps(BINS_PER_UNIT),
                               _mm512_set1_ps(ROUNDER + 16));
  __m512i bin = _mm512_castps_si512(sum);
  __m512 bound = _mm512_permutex2var_ps(t->bounds[0], bin, t->bounds[1]);
  __mmask16 above = _mm512_cmp_ps_mask(scaled, bound, _CMP_GT_OQ);
  return _mm512_mask_or_epi32(bin, above, bin, _mm512_set1_epi32(32));
}

void nabla_nf4_encode_avx512(const float *in, size_t count, size_t block,
                             uint8_t *codes, float *scales) {
  nibble_tables tables = {{_mm512_load_ps(bounds), _mm512_load_ps(bounds + 16)},
                          _mm512_load_si512(codes_of_bins),
                          _mm512_load_si512(low_bytes)};
  encode_nibbles(in, count, block, codes, scales, &tables, bin_of,
                 nabla_nf4_encode_scalar);
}

void nabla_nf4_decode_avx512(const uint8_t *codes, const float *scales,
                             size_t count, size_t block, float *out) {
  decode_nibbles(codes, scales, count, block, out, nabla_nf4_values,
                 nabla_nf4_decode_scalar);
}
