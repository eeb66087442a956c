/* NF4 for AVX2: the bits of quant/codec/nf4.c. */
#include "quant/codec/nf4.h"
#include "quant/x86/decode/tables_avx2.h"
#include "quant/x86/encode/nibbles_avx2.h"

typedef struct nf4_tables {
  __m256 step[4];
} nf4_tables;

/* The clamp to [-1, 1] changes no compare: all thresholds lie between. */
INLINE void nf4_unit(unit_place at, const unit_scales *scales,
                     const void *tables) {
  const nf4_tables *t = tables;
  __m256i ranks[4];
  for (int j = 0; j < 4; j++) {
    const __m256 x = scaled_part(at, scales, j);
    __m256i rank = step(_mm256_setzero_si256(), x, t->step[0]);
    rank = step(rank, x, _mm256_permutevar_ps(t->step[1], rank));
    rank = step(rank, x, _mm256_permutevar_ps(t->step[2], rank));
    ranks[j] = step(rank, x, _mm256_permutevar8x32_ps(t->step[3], rank));
  }
  const __m256i codes = _mm256_abs_epi8(in_order(pack_bytes(ranks), at.dtype));
  store_half(at.codes, pack_nibbles(codes, 16, 1));
}

INLINE nf4_tables nf4_tables_of(const nabla_blocks *blocks) {
  (void)blocks;
  nf4_tables t;
  for (int i = 0; i < 4; i++)
    t.step[i] = bounds_of_step(nabla_nf4_thresholds, 4, i);
  return t;
}

CODE_STAGES(nf4, avx2, 4, nf4_unit, nf4_tables, nf4_tables_of, 109, 17)

DECODE_STAGE(nf4, 4, run_high_first, nabla_nf4_values)
