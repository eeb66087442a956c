/* INT8 for AVX-512: the bits of quant/int8.c. */
#include "quant/x86/decode_avx512.h"
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

INLINE __m512 int8_sixteen(const uint8_t *codes, const void *unused) {
  (void)unused;
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
      _mm_loadu_si128((const __m128i *)(const void *)codes)));
}

INLINE void int8_run(unit_target at, const unit_blocks *blocks, size_t apart,
                     size_t units, const void *values) {
  (void)apart;
  decode_sixteens(at, blocks, units, values, int8_sixteen);
}

void nabla_int8_decode_avx512(const nabla_blocks *blocks, const uint8_t *codes,
                              size_t count, size_t block, nabla_dtype dtype,
                              void *out, int stream) {
  decode_all(blocks, codes, count, block, dtype, out, stream, 8, int8_run, NULL,
             nabla_int8_decode_avx512);
}
