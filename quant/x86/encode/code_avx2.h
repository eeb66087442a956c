/* What the code stages for AVX2 are made of: quant/x86/encode/code.h. */
#ifndef NABLA_QUANT_X86_ENCODE_CODE_AVX2_H
#define NABLA_QUANT_X86_ENCODE_CODE_AVX2_H

#include "quant/x86/encode/absmax_avx2.h"

/* What the blocks of a unit have, one for each 16 values. */
typedef struct unit_scales {
  __m256 factor[PARTS], scale[PARTS];
  __m256i zero[PARTS]; /* as words; 0 without zero points */
} unit_scales;

/* `apart` parts of the unit share a block: 1, or all. */
INLINE unit_scales scales_of(const nabla_blocks *blocks, size_t b, size_t apart,
                             nabla_dtype dtype) {
  unit_scales s;
  (void)dtype; /* no vector of load_part has values of two parts */
  for (size_t i = 0; i < PARTS; i++) {
    const size_t k = b + i / apart;
    s.factor[i] = _mm256_set1_ps(blocks->factors[k]);
    s.scale[i] = _mm256_set1_ps(blocks->scales[k]);
    s.zero[i] =
        _mm256_set1_epi16((short)(blocks->zeros ? blocks->zeros[k] : 0.0f));
  }
  return s;
}

#include "quant/x86/encode/code.h"

/* Vector `j` of a unit, scaled. */
INLINE __m256 scaled_part(unit_place at, const unit_scales *scales, int j) {
  return _mm256_mul_ps(load_part(at.in, at.dtype, (size_t)j),
                       scales->factor[j / 2]);
}

#endif
