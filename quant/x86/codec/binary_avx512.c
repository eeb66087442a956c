/* Binary for AVX-512: the bits of quant/codec/binary.c. */
#include "quant/x86/encode/code_avx512.h"

/* Bits of 16 or 32 values that are not negative; of 16 bits, -0 is the least
 * integer. */
INLINE uint64_t not_negative(unit_place at, int j) {
  if (at.dtype == NABLA_DTYPE_F32)
    return _mm512_cmp_ps_mask(load_sixteen(at.in, at.dtype, 16 * (size_t)j),
                              _mm512_setzero_ps(), _CMP_GE_OQ);
  const __m512i words = load_bytes(at.in + 64 * j);
  return _mm512_cmpgt_epi16_mask(words, _mm512_set1_epi16(-1)) |
         _mm512_cmpeq_epi16_mask(words, _mm512_set1_epi16(INT16_MIN));
}

INLINE void binary_unit(unit_place at, const unit_scales *scales,
                        const void *unused) {
  (void)scales;
  (void)unused;
  const int each = at.dtype == NABLA_DTYPE_F32 ? 16 : 32;
  uint64_t bits = 0;
  for (int j = 0; j < UNIT / each; j++)
    bits |= not_negative(at, j) << (each * j);
  memcpy(at.codes, &bits, sizeof bits);
}

CODE_STAGE(binary, avx512, 1, binary_unit, no_tables, NO_TABLES)
