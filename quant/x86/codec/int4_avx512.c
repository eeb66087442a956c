/* INT4 for AVX-512: the bits of quant/codec/int4.c. */
#include "quant/x86/encode/integers_avx512.h"

INLINE void int4_unit(unit_place at, const unit_scales *scales,
                      const void *tables) {
  (void)tables;
  const __m512i q =
      _mm512_max_epi8(round_unit(at, scales), _mm512_set1_epi8(-8));
  const __m512i code = _mm512_add_epi8(_mm512_min_epi8(q, _mm512_set1_epi8(7)),
                                       _mm512_set1_epi8(8));
  store_half(at.codes, nibbles_in_order(code, 1, 16, at.dtype));
}

CODE_STAGES_SIGNED(int4, avx512, 4, int4_unit, no_tables, NO_TABLES, 45, 21)
