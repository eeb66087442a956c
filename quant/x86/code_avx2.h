/* The loop of the code stages for AVX2: an encoding brings what makes the codes
 * of a unit. */
#ifndef NABLA_QUANT_X86_CODE_AVX2_H
#define NABLA_QUANT_X86_CODE_AVX2_H

#include "quant/x86/avx2.h"

/* What the blocks of a unit have: one for its first 16 values, one for the
 * others, which are the same unless blocks are of 16. */
typedef struct unit_scales {
  __m256 factor[2], scale[2];
  __m256i zero[2]; /* as words; 0 without zero points */
} unit_scales;

/* Where a unit is. */
typedef struct unit_place {
  const uint8_t *in;
  nabla_dtype dtype;
  uint8_t *codes;
} unit_place;

/* @param tables  of the encoding, kept in registers */
typedef void unit_fn(unit_place at, unit_scales scales, const void *tables);

/* Vector `j` of a unit, scaled. */
INLINE __m256 scaled_eight(unit_place at, const unit_scales *scales, int j) {
  return _mm256_mul_ps(load_part(at.in, at.dtype, (size_t)j),
                       scales->factor[j / 2]);
}

INLINE unit_scales scales_of(const nabla_blocks *blocks, size_t first,
                             size_t second) {
  const size_t b[2] = {first, second};
  unit_scales s;
  for (int i = 0; i < 2; i++) {
    s.factor[i] = _mm256_set1_ps(blocks->factors[b[i]]);
    s.scale[i] = _mm256_set1_ps(blocks->scales[b[i]]);
    s.zero[i] =
        _mm256_set1_epi16((short)(blocks->zeros ? blocks->zeros[b[i]] : 0.0f));
  }
  return s;
}

/* All whole units. */
INLINE void code_units(const nabla_blocks *blocks, unit_place at, size_t count,
                       size_t block, size_t bits, unit_fn *unit,
                       const void *tables) {
  const size_t in_step = UNIT * width_of(at.dtype), out_step = UNIT / 8 * bits;
  size_t b = 0;
  while (count >= UNIT) {
    const unit_scales scales =
        block < UNIT ? scales_of(blocks, b, b + 1) : scales_of(blocks, b, b);
    const size_t step = block < UNIT ? UNIT : block;
    const size_t units = (count < step ? count : step) / UNIT;
    for (size_t i = 0; i < units; i++) {
      prefetch_unit(at.in, at.dtype);
      unit(at, scales, tables);
      at.in += in_step;
      at.codes += out_step;
    }
    count -= units * UNIT;
    b += block < UNIT ? UNIT / block : 1;
  }
}

INLINE void code_dtype(const nabla_blocks *blocks, unit_place at, size_t count,
                       size_t block, size_t bits, unit_fn *unit,
                       const void *tables) {
  if (block < UNIT)
    code_units(blocks, at, count, 16, bits, unit, tables);
  else if (block == 64)
    code_units(blocks, at, count, 64, bits, unit, tables);
  else
    code_units(blocks, at, count, block, bits, unit, tables);
}

/* What is left, fewer values than a unit: in a copy that goes on with 0.0. */
static inline void code_rest(const nabla_blocks *blocks, unit_place at,
                             size_t count, size_t block, size_t bits,
                             nabla_kernel_code *self) {
  const size_t done = count / UNIT * UNIT, rest = count - done;
  const size_t width = width_of(at.dtype);
  const size_t b[2] = {done / block, (count - 1) / block};
  uint8_t in[UNIT * sizeof(float)] = {0}, codes[UNIT];
  float factors[2], scales[2], zeros[2] = {0};
  for (int i = 0; i < 2; i++) {
    factors[i] = blocks->factors[b[i]];
    scales[i] = blocks->scales[b[i]];
    if (blocks->zeros) zeros[i] = blocks->zeros[b[i]];
  }
  nabla_blocks copy = *blocks;
  copy.factors = factors;
  copy.scales = scales;
  if (blocks->zeros) copy.zeros = zeros;
  memcpy(in, at.in + done * width, rest * width);
  self(&copy, in, at.dtype, UNIT, block == 16 ? 16 : UNIT, codes);
  memcpy(at.codes + done / 8 * bits, codes, (rest * bits + 7) / 8);
}

/* The whole stage.
 * @param self  the stage itself, for the rest */
INLINE void code_all(const nabla_blocks *blocks, const void *in,
                     nabla_dtype dtype, size_t count, size_t block,
                     uint8_t *codes, size_t bits, unit_fn *unit,
                     const void *tables, nabla_kernel_code *self) {
  unit_place at = {in, dtype, codes};
  if (count % UNIT) code_rest(blocks, at, count, block, bits, self);
  if (dtype == NABLA_DTYPE_F32) {
    at.dtype = NABLA_DTYPE_F32;
    code_dtype(blocks, at, count, block, bits, unit, tables);
  } else if (dtype == NABLA_DTYPE_F16) {
    at.dtype = NABLA_DTYPE_F16;
    code_dtype(blocks, at, count, block, bits, unit, tables);
  } else {
    at.dtype = NABLA_DTYPE_BF16;
    code_dtype(blocks, at, count, block, bits, unit, tables);
  }
}

#endif
