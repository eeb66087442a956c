/* MXFP4 for AVX2: the bits of quant/codec/mxfp4.c. */
#include "quant/codec/mxfp4.h"
#include "quant/x86/decode/tables_avx2.h"
#include "quant/x86/encode/nibbles_avx2.h"

/* The sign is that of the bits: -0 has it. */
INLINE void mxfp4_unit(unit_place at, const unit_scales *scales,
                       const void *tables) {
  const signed_tables *t = tables;
  __m256i ranks[4];
  for (int j = 0; j < 4; j++) {
    const __m256 x = scaled_part(at, scales, j);
    const __m256i sign = _mm256_srai_epi32(_mm256_castps_si256(x), 31);
    ranks[j] = signed_rank(sign, x, t);
  }
  const __m256i codes = codes_of_ranks(ranks, t->codes, at.dtype);
  store_half(at.codes, pack_nibbles(codes, 1, 16));
}

INLINE signed_tables mxfp4_tables(const nabla_blocks *blocks) {
  (void)blocks;
  /* At the odd midpoints the upper code wins: these are above all that is
   * below the midpoint. */
  float thresholds[7];
  uint8_t by_rank[16];
  for (unsigned i = 0; i < 7; i++)
    thresholds[i] =
        nabla_f32_of_bits(nabla_bits_of_f32(nabla_mxfp4_midpoints[i]) - i % 2);
  for (uint8_t i = 0; i < 16; i++) by_rank[i] = i;
  return signed_tables_of(thresholds, by_rank);
}

CODE_STAGES(mxfp4, avx2, 4, mxfp4_unit, signed_tables, mxfp4_tables, 109, 17)

DECODE_STAGE(mxfp4, 4, run_low_first, nabla_mxfp4_values)
