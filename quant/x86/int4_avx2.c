/* INT4 for AVX2: the bits of quant/int4.c. */
#include "quant/x86/integers_avx2.h"
#include "quant/x86/tables_avx2.h"

/* @param tables  the least integer */
INLINE void int4_unit(unit_place at, unit_scales scales, const void *tables) {
  const __m256i *least = tables;
  const __m256i q = _mm256_max_epi8(round_unit(at, &scales), *least);
  const __m256i code = _mm256_add_epi8(_mm256_min_epi8(q, _mm256_set1_epi8(7)),
                                       _mm256_set1_epi8(8));
  store_half(at.codes, pack_nibbles(code, 1, 16));
}

void nabla_int4_code_avx2(const nabla_blocks *blocks, const void *in,
                          nabla_dtype dtype, size_t count, size_t block,
                          uint8_t *codes) {
  const __m256i least = _mm256_set1_epi8(blocks->zeros ? -8 : -7);
  code_all(blocks, in, dtype, count, block, codes, 4, int4_unit, &least,
           nabla_int4_code_avx2);
}

void nabla_int4_code_ahead_avx2(const nabla_blocks *blocks, const void *in,
                                nabla_dtype dtype, size_t block, uint8_t *codes,
                                float *peaks) {
  const __m256i least = _mm256_set1_epi8(blocks->zeros ? -8 : -7);
  code_ahead_all(blocks, in, dtype, block, codes, 4, int4_unit, &least, peaks);
}

void nabla_int4_decode_avx2(const nabla_blocks *blocks, const uint8_t *codes,
                            size_t count, size_t block, nabla_dtype dtype,
                            void *out, int stream) {
  static const float values[16] = {-8, -7, -6, -5, -4, -3, -2, -1,
                                   0,  1,  2,  3,  4,  5,  6,  7};
  decode_tables(blocks, codes, count, block, dtype, out, stream, values, 0,
                nabla_int4_decode_avx2);
}
