/* INT4 for AVX-512: the bits of quant/int4.c. */
#include "quant/x86/integers_avx512.h"

/* @param tables  the least integer */
INLINE void int4_unit(unit_place at, const unit_scales *scales,
                      const void *tables) {
  const __m512i *least = tables;
  const __m512i q = _mm512_max_epi8(round_unit(at, scales), *least);
  const __m512i code = _mm512_add_epi8(_mm512_min_epi8(q, _mm512_set1_epi8(7)),
                                       _mm512_set1_epi8(8));
  store_half(at.codes, nibbles_in_order(code, 1, 16, at.dtype));
}

#define LEAST(blocks) least_of(-7, -8, blocks)

CODE_STAGES(int4, avx512, 4, int4_unit, __m512i, LEAST, 45, 21)
