/* FP4 for AVX-512: the bits of quant/codec/fp4.c. */
#include "quant/codec/fp4.h"
#include "quant/x86/encode/bins_avx512.h"

/* Bins of width 1/15 from 0: no two thresholds share one. */
#define PER_UNIT 15.0f
#define FIRST    0.0f

#define NONE INFINITY

/* The threshold in each bin. */
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

/* The place of a code: bin, side (16), sign (32), which -0 has not. */
INLINE void fp4_unit(unit_place at, const unit_scales *scales,
                     const void *tables) {
  const bin_tables *t = tables;
  __m512i bins[4];
  for (int j = 0; j < 4; j++) {
    const __m512 x = scaled_part(at, scales, j);
    const __m512 size = _mm512_min_ps(magnitude_of(x), _mm512_set1_ps(1.0f));
    __m512i bin = bin_of(size, PER_UNIT, FIRST);
    const __m512 bound = _mm512_permutexvar_ps(bin, t->bounds[0]);
    const __mmask16 above = _mm512_cmp_ps_mask(size, bound, _CMP_GT_OQ);
    const __mmask16 below =
        _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    bin = _mm512_mask_or_epi32(bin, above, bin, _mm512_set1_epi32(16));
    bins[j] = _mm512_mask_or_epi32(bin, below, bin, _mm512_set1_epi32(32));
  }
  const __m512i codes = _mm512_permutexvar_epi8(pack_bytes(bins), t->codes);
  store_half(at.codes, nibbles_in_order(codes, 16, 1, at.dtype));
}

INLINE bin_tables fp4_tables(const nabla_blocks *blocks) {
  (void)blocks;
  return (bin_tables){{_mm512_load_ps(bounds), _mm512_setzero_ps()},
                      _mm512_load_si512(codes_of_bins)};
}

CODE_STAGES(fp4, avx512, 4, fp4_unit, bin_tables, fp4_tables, 109, 17)
