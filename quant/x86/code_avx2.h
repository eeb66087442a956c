/* The loop of the code stages for AVX2: an encoding brings what makes the codes
 * of a unit. */
#ifndef NABLA_QUANT_X86_CODE_AVX2_H
#define NABLA_QUANT_X86_CODE_AVX2_H

#include "quant/x86/absmax_avx2.h"

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

/* The chunk that follows is read while this one is coded, so that memory never
 * waits: `most` gets a vector of magnitudes for each unit, or block of 16.
 * @param turn  values that are looked at and then coded, of one block or a
 *              unit */
INLINE void code_and_look(const nabla_blocks *blocks, unit_place at,
                          size_t block, size_t turn, size_t bits, unit_fn *unit,
                          const void *tables, __m256i *most) {
  const size_t width = width_of(at.dtype), bytes = turn * width;
  const size_t span = width * (block < UNIT ? 16 : UNIT);
  const uint8_t *next = at.in + NABLA_CHUNK * width;
  for (size_t i = 0; i < NABLA_CHUNK; i += turn) {
    const size_t b = i / block;
    const unit_scales scales = scales_of(blocks, b, block < UNIT ? b + 1 : b);
    for (size_t line = 0; line < bytes; line += 64)
      _mm_prefetch((const char *)((uintptr_t)next + LOOK_AHEAD + line),
                   _MM_HINT_T0);
    for (size_t j = 0; j < bytes; j += span)
      *most++ = max_of_span(next + j, span, at.dtype);
    for (size_t j = 0; j < turn; j += UNIT) {
      unit(at, scales, tables);
      at.in += UNIT * width;
      at.codes += UNIT / 8 * bits;
    }
    next += bytes;
  }
}

/* Largest magnitudes of `count` blocks, of which each has `each` vectors. */
INLINE void peaks_of(const __m256i *most, size_t count, size_t each,
                     nabla_dtype dtype, float *peaks) {
  for (size_t i = 0; i < count; i += 8) {
    const size_t some = count - i < 8 ? count - i : 8;
    __m256i dwords[8];
    float out[8];
    for (size_t j = 0; j < 8; j++) {
      __m256i x = *most;
      for (size_t k = 1; k < each; k++) x = larger(x, most[k], dtype);
      dwords[j] = dwords_of(x, dtype);
      if (j + 1 < some) most += each;
    }
    most += each;
    _mm256_storeu_ps(out, widened(max_of_eight(dwords), dtype));
    memcpy(peaks + i, out, some * sizeof *out);
  }
}

INLINE void code_ahead_dtype(const nabla_blocks *blocks, unit_place at,
                             size_t block, size_t bits, unit_fn *unit,
                             const void *tables, float *peaks) {
  __m256i most[NABLA_CHUNK_BLOCKS];
  if (block < UNIT)
    code_and_look(blocks, at, 16, UNIT, bits, unit, tables, most);
  else if (block == UNIT)
    code_and_look(blocks, at, UNIT, UNIT, bits, unit, tables, most);
  else
    code_and_look(blocks, at, block, 2 * UNIT, bits, unit, tables, most);
  const size_t each = block < UNIT ? 1 : block / UNIT;
  if (each == 2)
    peaks_of(most, NABLA_CHUNK / block, 2, at.dtype, peaks);
  else
    peaks_of(most, NABLA_CHUNK / block, each, at.dtype, peaks);
}

/* The whole stage that codes one chunk and looks at the next. */
INLINE void code_ahead_all(const nabla_blocks *blocks, const void *in,
                           nabla_dtype dtype, size_t block, uint8_t *codes,
                           size_t bits, unit_fn *unit, const void *tables,
                           float *peaks) {
  unit_place at = {in, dtype, codes};
  if (dtype == NABLA_DTYPE_F32) {
    at.dtype = NABLA_DTYPE_F32;
    code_ahead_dtype(blocks, at, block, bits, unit, tables, peaks);
  } else if (dtype == NABLA_DTYPE_F16) {
    at.dtype = NABLA_DTYPE_F16;
    code_ahead_dtype(blocks, at, block, bits, unit, tables, peaks);
  } else {
    at.dtype = NABLA_DTYPE_BF16;
    code_ahead_dtype(blocks, at, block, bits, unit, tables, peaks);
  }
}

#endif
