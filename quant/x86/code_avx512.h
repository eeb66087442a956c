/* The loop of the code stages for AVX-512: an encoding brings what makes the
 * codes of a unit. */
#ifndef NABLA_QUANT_X86_CODE_AVX512_H
#define NABLA_QUANT_X86_CODE_AVX512_H

#include "quant/x86/absmax_avx512.h"

/* What each 16 values of a unit are multiplied by, and their zero points. */
typedef struct unit_scales {
  __m512 factor[4];
  __m512i zero[4]; /* as dwords; 0 without zero points */
} unit_scales;

/* Where a unit is. */
typedef struct unit_place {
  const uint8_t *in;
  nabla_dtype dtype;
  uint8_t *codes;
} unit_place;

/* @param tables  of the encoding, kept in registers */
typedef void unit_fn(unit_place at, const unit_scales *scales,
                     const void *tables);

/* The scaled values 16 j to 16 j + 15 of a unit. */
INLINE __m512 scaled_sixteen(unit_place at, const unit_scales *scales, int j) {
  return _mm512_mul_ps(load_sixteen(at.in, at.dtype, 16 * (size_t)j),
                       scales->factor[j]);
}

/* `apart` of the unit's quarters have the next block: 1, 2, or 4 for all one.
 */
INLINE unit_scales scales_of(const nabla_blocks *blocks, size_t b,
                             size_t apart) {
  unit_scales s;
  for (size_t j = 0; j < 4; j++) {
    const size_t k = b + j / apart;
    s.factor[j] = _mm512_set1_ps(blocks->factors[k]);
    s.zero[j] = _mm512_set1_epi32(blocks->zeros ? (int)blocks->zeros[k] : 0);
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
        scales_of(blocks, b, block < UNIT ? block / 16 : 4);
    const size_t step = block < UNIT ? UNIT : block;
    const size_t units = (count < step ? count : step) / UNIT;
    for (size_t i = 0; i < units; i++) {
      prefetch_unit(at.in, at.dtype);
      unit(at, &scales, tables);
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
  if (block == 16)
    code_units(blocks, at, count, 16, bits, unit, tables);
  else if (block == 32)
    code_units(blocks, at, count, 32, bits, unit, tables);
  else if (block == 64)
    code_units(blocks, at, count, 64, bits, unit, tables);
  else
    code_units(blocks, at, count, block, bits, unit, tables);
}

/* What is left, fewer values than a unit: in a copy that goes on with 0.0 of
 * the last block. */
static inline void code_rest(const nabla_blocks *blocks, unit_place at,
                             size_t count, size_t block, size_t bits,
                             nabla_kernel_code *self) {
  const size_t done = count / UNIT * UNIT, rest = count - done;
  const size_t width = width_of(at.dtype), last = (count - 1) / block;
  uint8_t in[UNIT * sizeof(float)] = {0}, codes[UNIT];
  float factors[4], zeros[4] = {0};
  for (size_t i = 0; i < 4; i++) {
    const size_t own = (done + 16 * i) / block, b = own < last ? own : last;
    factors[i] = blocks->factors[b];
    if (blocks->zeros) zeros[i] = blocks->zeros[b];
  }
  nabla_blocks copy = *blocks;
  copy.factors = factors;
  if (blocks->zeros) copy.zeros = zeros;
  memcpy(in, at.in + done * width, rest * width);
  self(&copy, in, at.dtype, UNIT, 16, codes);
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
 * waits: one vector of magnitudes for each block, or each unit of a block. */
INLINE void code_and_look(const nabla_blocks *blocks, unit_place at,
                          size_t block, size_t bits, unit_fn *unit,
                          const void *tables, __m512i *most) {
  const size_t width = width_of(at.dtype), span = block < UNIT ? block : UNIT;
  const uint8_t *next = at.in + NABLA_CHUNK * width;
  for (size_t i = 0; i < NABLA_CHUNK; i += UNIT) {
    const unit_scales scales =
        scales_of(blocks, i / block, block < UNIT ? block / 16 : 4);
    for (size_t line = 0; line < UNIT * width; line += 64)
      _mm_prefetch((const char *)((uintptr_t)next + LOOK_AHEAD + line),
                   _MM_HINT_T0);
    for (size_t j = 0; j < UNIT; j += span)
      *most++ = max_of_span(next + j * width, span * width, at.dtype);
    unit(at, &scales, tables);
    next += UNIT * width;
    at.in += UNIT * width;
    at.codes += UNIT / 8 * bits;
  }
}

/* Largest magnitudes of `count` vectors as f32, of `each` in a row one. */
INLINE void peaks_of(const __m512i *most, size_t count, size_t each,
                     nabla_dtype dtype, float *peaks) {
  __m512i dwords[16];
  float of_vectors[NABLA_CHUNK_BLOCKS];
  for (size_t i = 0; i < count; i += 16) {
    for (size_t j = 0; j < 16; j++) dwords[j] = dwords_of(most[i + j], dtype);
    _mm512_storeu_ps(of_vectors + i, widened(max_of_sixteen(dwords), dtype));
  }
  for (size_t i = 0; i < count; i += each) {
    float peak = of_vectors[i]; /* as integers: NaN is the largest */
    for (size_t j = 1; j < each; j++)
      if (nabla_bits_of_f32(of_vectors[i + j]) > nabla_bits_of_f32(peak))
        peak = of_vectors[i + j];
    *peaks++ = peak;
  }
}

INLINE void code_ahead_dtype(const nabla_blocks *blocks, unit_place at,
                             size_t block, size_t bits, unit_fn *unit,
                             const void *tables, float *peaks) {
  __m512i most[NABLA_CHUNK_BLOCKS];
  if (block == 16)
    code_and_look(blocks, at, 16, bits, unit, tables, most);
  else if (block == 32)
    code_and_look(blocks, at, 32, bits, unit, tables, most);
  else if (block == 64)
    code_and_look(blocks, at, 64, bits, unit, tables, most);
  else
    code_and_look(blocks, at, block, bits, unit, tables, most);
  const size_t span = block < UNIT ? block : UNIT;
  peaks_of(most, NABLA_CHUNK / span, block / span, at.dtype, peaks);
}

/* The whole stage. */
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
