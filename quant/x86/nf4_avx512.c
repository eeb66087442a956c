/* NF4 for AVX-512: the bits of quant/nf4.c. */
#include "quant/nf4.h"
#include "quant/x86/bins_avx512.h"

/* Bins of width 1/14.6 around the 16th: no two thresholds share one. */
#define PER_UNIT 14.6f
#define FIRST    16.0f

#define NONE INFINITY

/* The threshold in each bin. */
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

INLINE void nf4_unit(unit_place at, const unit_scales *scales,
                     const void *tables) {
  const bin_tables *t = tables;
  __m512i bins[4];
  for (int j = 0; j < 4; j++) {
    const __m512 x = clamp_unit(scaled_sixteen(at, scales, j));
    const __m512i bin = bin_of(x, PER_UNIT, FIRST);
    const __m512 bound =
        _mm512_permutex2var_ps(t->bounds[0], bin, t->bounds[1]);
    const __mmask16 above = _mm512_cmp_ps_mask(x, bound, _CMP_GT_OQ);
    bins[j] = _mm512_mask_or_epi32(bin, above, bin, _mm512_set1_epi32(32));
  }
  const __m512i codes = _mm512_permutexvar_epi8(pack_bytes(bins), t->codes);
  store_half(at.codes, pack_nibbles(codes, 16, 1));
}

INLINE bin_tables nf4_tables(void) {
  return (bin_tables){{_mm512_load_ps(bounds), _mm512_load_ps(bounds + 16)},
                      _mm512_load_si512(codes_of_bins)};
}

void nabla_nf4_code_avx512(const nabla_blocks *blocks, const void *in,
                           nabla_dtype dtype, size_t count, size_t block,
                           uint8_t *codes) {
  const bin_tables t = nf4_tables();
  code_all(blocks, in, dtype, count, block, codes, 4, nf4_unit, &t,
           nabla_nf4_code_avx512);
}

void nabla_nf4_code_ahead_avx512(const nabla_blocks *blocks, const void *in,
                                 nabla_dtype dtype, size_t block,
                                 uint8_t *codes, float *peaks) {
  const bin_tables t = nf4_tables();
  code_ahead_all(blocks, in, dtype, block, codes, 4, nf4_unit, &t, peaks);
}
