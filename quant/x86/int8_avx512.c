/* INT8 for AVX-512: the bits of quant/int8.c. */
#include "quant/x86/integers_avx512.h"

/* @param tables  the least code */
INLINE void int8_unit(unit_place at, const unit_scales *scales,
                      const void *tables) {
  const __m512i *least = tables;
  const __m512i q = _mm512_max_epi8(round_unit(at, scales), *least);
  _mm512_storeu_si512(at.codes, in_order(q, at.dtype));
}

#define LEAST(blocks) least_of(-127, -128, blocks)

CODE_STAGES(int8, avx512, 8, int8_unit, __m512i, LEAST, 77, 29)
