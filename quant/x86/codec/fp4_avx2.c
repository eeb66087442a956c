/* FP4 for AVX2: the bits of quant/codec/fp4.c. */
#include "quant/codec/fp4.h"
#include "quant/x86/decode/tables_avx2.h"
#include "quant/x86/encode/nibbles_avx2.h"

/* -0 has no sign. The clamp to [-1, 1] changes no compare: all thresholds are
 * below 1. */
INLINE void fp4_unit(unit_place at, const unit_scales *scales,
                     const void *tables) {
  const signed_tables *t = tables;
  __m256i ranks[4];
  for (int j = 0; j < 4; j++) {
    const __m256 x = scaled_part(at, scales, j);
    const __m256 below = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    ranks[j] = signed_rank(_mm256_castps_si256(below), x, t);
  }
  const __m256i codes = codes_of_ranks(ranks, t->codes, at.dtype);
  store_half(at.codes, pack_nibbles(codes, 16, 1));
}

INLINE signed_tables fp4_tables(const nabla_blocks *blocks) {
  (void)blocks;
  uint8_t by_rank[16];
  for (int i = 0; i < 8; i++) {
    by_rank[i] = nabla_fp4_codes[i];
    by_rank[i + 8] = nabla_fp4_codes[i] | NABLA_FP4_SIGN;
  }
  return signed_tables_of(nabla_fp4_thresholds, by_rank);
}

CODE_STAGES(fp4, avx2, 4, fp4_unit, signed_tables, fp4_tables, 109, 17)

DECODE_STAGE(fp4, 4, run_high_first, nabla_fp4_values)
