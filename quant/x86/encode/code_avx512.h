/* What the code stages for AVX-512 are made of: quant/x86/encode/code.h. */
#ifndef NABLA_QUANT_X86_ENCODE_CODE_AVX512_H
#define NABLA_QUANT_X86_ENCODE_CODE_AVX512_H

#include "quant/x86/encode/absmax_avx512.h"

/* What the blocks of a unit have. */
typedef struct unit_scales {
  __m512 factor[PARTS];    /* of the vectors of load_part  */
  __m512 scale[PARTS];     /* of each 16 values */
  __m512i zero[PARTS / 2]; /* as words, as two vectors are packed; or 0 */
} unit_scales;

/* What 16 values each have, as the vectors of load_part have them. */
INLINE void spread(nabla_dtype dtype, __m512i x[PARTS]) {
  if (dtype != NABLA_DTYPE_BF16) return;
  for (int i = 0; i < PARTS; i += 2) {
    x[i] = _mm512_inserti64x4(x[i], _mm512_castsi512_si256(x[i + 1]), 1);
    x[i + 1] = x[i];
  }
}

/* `apart` parts of the unit share a block: 1, 2, or all. */
INLINE unit_scales scales_of(const nabla_blocks *blocks, size_t b, size_t apart,
                             nabla_dtype dtype) {
  unit_scales s;
  __m512i factor[PARTS], zero[PARTS];
  for (size_t i = 0; i < PARTS; i++) {
    const size_t k = b + i / apart;
    factor[i] = _mm512_castps_si512(_mm512_set1_ps(blocks->factors[k]));
    s.scale[i] = _mm512_set1_ps(blocks->scales[k]);
    zero[i] =
        _mm512_set1_epi16((short)(blocks->zeros ? blocks->zeros[k] : 0.0f));
  }
  if (apart == 1) spread(dtype, factor), spread(dtype, zero);
  for (int i = 0; i < PARTS; i++) s.factor[i] = _mm512_castsi512_ps(factor[i]);
  for (int i = 0; i < PARTS / 2; i++)
    s.zero[i] = _mm512_unpacklo_epi64(zero[2 * i], zero[2 * i + 1]);
  return s;
}

#include "quant/x86/encode/code.h"

/* Vector `j` of a unit, scaled. */
INLINE __m512 scaled_part(unit_place at, const unit_scales *scales, int j) {
  return _mm512_mul_ps(load_part(at.in, at.dtype, (size_t)j),
                       scales->factor[j]);
}

#endif
