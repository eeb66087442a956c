/* INT8 for AVX-512: the bits of quant/int8.c. */
#include "quant/x86/integers_avx512.h"

/* @param tables  the least code */
INLINE void int8_unit(unit_place at, const unit_scales *scales,
                      const void *tables) {
  const __m512i *least = tables;
  _mm512_storeu_si512(at.codes,
                      round_unit(at, scales, *least, _mm512_set1_epi32(127)));
}

void nabla_int8_code_avx512(const nabla_blocks *blocks, const void *in,
                            nabla_dtype dtype, size_t count, size_t block,
                            uint8_t *codes) {
  const __m512i least = _mm512_set1_epi32(blocks->zeros ? -128 : -127);
  code_all(blocks, in, dtype, count, block, codes, 8, int8_unit, &least,
           nabla_int8_code_avx512);
}

void nabla_int8_code_ahead_avx512(const nabla_blocks *blocks, const void *in,
                                  nabla_dtype dtype, size_t block,
                                  uint8_t *codes, float *peaks) {
  const __m512i least = _mm512_set1_epi32(blocks->zeros ? -128 : -127);
  code_ahead_all(blocks, in, dtype, block, codes, 8, int8_unit, &least, peaks);
}
