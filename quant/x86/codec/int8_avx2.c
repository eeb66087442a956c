/* INT8 for AVX2: the bits of quant/codec/int8.c. */
#include "quant/x86/decode/decode_avx2.h"
#include "quant/x86/encode/integers_avx2.h"

/* @param tables  the least code */
INLINE void int8_unit(unit_place at, const unit_scales *scales,
                      const void *tables) {
  const __m256i *least = tables;
  store_bytes(at.codes, _mm256_max_epi8(round_unit(at, scales), *least));
}

#define LEAST(blocks) least_of(-127, -128, blocks)

CODE_STAGES(int8, avx2, 8, int8_unit, __m256i, LEAST, 77, 29)

INLINE void int8_sixteen(const uint8_t *codes, __m256 out[2]) {
  const __m128i bytes = load_half(codes);
  out[0] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  out[1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
}

INLINE void int8_run(unit_target at, unit_blocks blocks, size_t units,
                     const void *unused) {
  (void)unused;
  decode_bytes(at, blocks, units, int8_sixteen, 0);
}

INLINE void int8_run_extra(unit_target at, unit_blocks blocks, size_t units,
                           const void *unused) {
  (void)unused;
  decode_bytes(at, blocks, units, int8_sixteen, BYTES_EXTRA);
}

void nabla_int8_decode_avx2(const nabla_blocks *blocks, const uint8_t *codes,
                            size_t count, size_t block, nabla_dtype dtype,
                            void *out, int stream) {
  static const decoder plain = {8, int8_run, NULL, nabla_int8_decode_avx2};
  static const decoder extra = {8, int8_run_extra, NULL,
                                nabla_int8_decode_avx2};
  if (blocks->zeros || blocks->after != 1.0f)
    decode_all(&extra, blocks, codes, count, block, dtype, out, stream);
  else
    decode_all(&plain, blocks, codes, count, block, dtype, out, stream);
}
