/* INT4 for AVX-512: the bits of quant/int4.c. */
#include "quant/x86/integers_avx512.h"

/* @param tables  the least integer */
INLINE void int4_unit(unit_place at, const unit_scales *scales,
                      const void *tables) {
  const __m512i *least = tables;
  const __m512i q = round_unit(at, scales, *least, _mm512_set1_epi32(7));
  store_half(at.codes,
             pack_nibbles(_mm512_add_epi8(q, _mm512_set1_epi8(8)), 1, 16));
}

void nabla_int4_code_avx512(const nabla_blocks *blocks, const void *in,
                            nabla_dtype dtype, size_t count, size_t block,
                            uint8_t *codes) {
  const __m512i least = _mm512_set1_epi32(blocks->zeros ? -8 : -7);
  code_all(blocks, in, dtype, count, block, codes, 4, int4_unit, &least,
           nabla_int4_code_avx512);
}

void nabla_int4_code_ahead_avx512(const nabla_blocks *blocks, const void *in,
                                  nabla_dtype dtype, size_t block,
                                  uint8_t *codes, float *peaks) {
  const __m512i least = _mm512_set1_epi32(blocks->zeros ? -8 : -7);
  code_ahead_all(blocks, in, dtype, block, codes, 4, int4_unit, &least, peaks);
}
