/* NF4 for AVX2: the bits of quant/nf4.c. */
#include "quant/nf4.h"
#include "quant/x86/nibbles_avx2.h"
#include "quant/x86/tables_avx2.h"

typedef struct nf4_tables {
  __m256 step[4];
} nf4_tables;

/* The clamp to [-1, 1] changes no compare: all thresholds lie between. */
INLINE void nf4_unit(unit_place at, unit_scales scales, const void *tables) {
  const nf4_tables *t = tables;
  __m256i ranks[4];
  for (int j = 0; j < 4; j++) {
    const __m256 x = scaled_eight(at, &scales, j);
    __m256i rank = step(_mm256_setzero_si256(), x, t->step[0]);
    rank = step(rank, x, _mm256_permutevar_ps(t->step[1], rank));
    rank = step(rank, x, _mm256_permutevar_ps(t->step[2], rank));
    ranks[j] = step(rank, x, _mm256_permutevar8x32_ps(t->step[3], rank));
  }
  const __m256i codes = _mm256_abs_epi8(in_order(pack_bytes(ranks), at.dtype));
  store_half(at.codes, pack_nibbles(codes, 16, 1));
}

INLINE nf4_tables nf4_tables_of(void) {
  nf4_tables t;
  for (int i = 0; i < 4; i++)
    t.step[i] = bounds_of_step(nabla_nf4_thresholds, 4, i);
  return t;
}

void nabla_nf4_code_avx2(const nabla_blocks *blocks, const void *in,
                         nabla_dtype dtype, size_t count, size_t block,
                         uint8_t *codes) {
  const nf4_tables t = nf4_tables_of();
  code_all(blocks, in, dtype, count, block, codes, 4, nf4_unit, &t,
           nabla_nf4_code_avx2);
}

void nabla_nf4_code_ahead_avx2(const nabla_blocks *blocks, const void *in,
                               nabla_dtype dtype, size_t block, uint8_t *codes,
                               float *peaks) {
  const nf4_tables t = nf4_tables_of();
  code_ahead_all(blocks, in, dtype, block, codes, 4, nf4_unit, &t, peaks);
}

void nabla_nf4_decode_avx2(const nabla_blocks *blocks, const uint8_t *codes,
                           size_t count, size_t block, nabla_dtype dtype,
                           void *out, int stream) {
  decode_tables(blocks, codes, count, block, dtype, out, stream,
                nabla_nf4_values, 1, nabla_nf4_decode_avx2);
}
