/* INT4 for AVX2: the bits of quant/codec/int4.c. */
#include "quant/x86/decode/tables_avx2.h"
#include "quant/x86/encode/integers_avx2.h"

INLINE void int4_unit(unit_place at, const unit_scales *scales,
                      const void *tables) {
  (void)tables;
  const __m256i q =
      _mm256_max_epi8(round_unit(at, scales), _mm256_set1_epi8(-8));
  const __m256i code = _mm256_add_epi8(_mm256_min_epi8(q, _mm256_set1_epi8(7)),
                                       _mm256_set1_epi8(8));
  store_half(at.codes, pack_nibbles(code, 1, 16));
}

CODE_STAGES_SIGNED(int4, avx2, 4, int4_unit, no_tables, NO_TABLES, 45, 21)

static const float values[16] = {-8, -7, -6, -5, -4, -3, -2, -1,
                                 0,  1,  2,  3,  4,  5,  6,  7};

DECODE_STAGE(int4, 4, run_low_first, values)
