/* The loop of the decode stages for AVX-512: an encoding brings what decodes
 * units whose blocks are the same. */
#ifndef NABLA_QUANT_X86_DECODE_AVX512_H
#define NABLA_QUANT_X86_DECODE_AVX512_H

#include <math.h>

#include "quant/x86/avx512.h"

/* Of each 16 values of a unit. */
typedef struct unit_blocks {
  float scale[4], zero[4], after;
} unit_blocks;

/* Where units go. */
typedef struct unit_target {
  const uint8_t *codes;
  uint8_t *out;
  nabla_dtype dtype;
} unit_target;

/* Decodes `units` units.
 * @param apart   how many quarters of a unit in a row have the same block
 * @param values  of the encoding */
typedef void run_fn(unit_target at, const unit_blocks *blocks, size_t apart,
                    size_t units, const void *values);

/* Half to even, in the high words. What is NaN has a payload that does not
 * overflow: it was made here or is that of an 8-bit code, scales being what
 * `plain` leaves. */
INLINE __m512i round_bf16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x), one = _mm512_set1_epi32(1);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
  const __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  return _mm512_add_epi32(bits, up);
}

/* The high words of two vectors of dwords, in order. */
INLINE __m512i high_words(__m512i a, __m512i b) {
  static const uint16_t odd[32] __attribute__((aligned(64))) = {
      1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
      33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return _mm512_permutex2var_epi16(a, _mm512_load_si512(odd), b);
}

/* 32 values, from `i` on, to the target. */
INLINE void put_thirty_two(unit_target at, size_t i, __m512 x0, __m512 x1) {
  uint8_t *out = at.out + i * width_of(at.dtype);
  if (at.dtype == NABLA_DTYPE_F32) {
    _mm512_storeu_ps(out, x0);
    _mm512_storeu_ps(out + 64, x1);
  } else if (at.dtype == NABLA_DTYPE_F16) {
    store_half(out, _mm512_cvtps_ph(x0, _MM_FROUND_TO_NEAREST_INT));
    store_half(out + 32, _mm512_cvtps_ph(x1, _MM_FROUND_TO_NEAREST_INT));
  } else {
    _mm512_storeu_si512(out, high_words(round_bf16(x0), round_bf16(x1)));
  }
}

/* Any NaN as the one that has no payload. */
INLINE float plain(float scale) { return isnan(scale) ? NAN : scale; }

INLINE unit_blocks blocks_at(const nabla_blocks *blocks, size_t b,
                             size_t apart) {
  unit_blocks u = {.after = blocks->after};
  for (size_t j = 0; j < 4; j++) {
    u.scale[j] = plain(blocks->scales[b + j / apart]);
    u.zero[j] = blocks->zeros ? blocks->zeros[b + j / apart] : 0.0f;
  }
  return u;
}

/* All whole units. */
INLINE void decode_units(const nabla_blocks *blocks, unit_target at,
                         size_t count, size_t block, size_t bits, run_fn *run,
                         const void *values) {
  const size_t apart = block < UNIT ? block / 16 : 4;
  size_t b = 0;
  while (count >= UNIT) {
    const size_t step = block < UNIT ? UNIT : block;
    const size_t units = (count < step ? count : step) / UNIT;
    const unit_blocks u = blocks_at(blocks, b, apart);
    run(at, &u, apart, units, values);
    at.codes += units * UNIT / 8 * bits;
    at.out += units * UNIT * width_of(at.dtype);
    count -= units * UNIT;
    b += block < UNIT ? UNIT / block : 1;
  }
}

INLINE void decode_dtype(const nabla_blocks *blocks, unit_target at,
                         size_t count, size_t block, size_t bits, run_fn *run,
                         const void *values) {
  if (block == 16)
    decode_units(blocks, at, count, 16, bits, run, values);
  else if (block == 32)
    decode_units(blocks, at, count, 32, bits, run, values);
  else if (block == 64)
    decode_units(blocks, at, count, 64, bits, run, values);
  else
    decode_units(blocks, at, count, block, bits, run, values);
}

/* What is left, fewer values than a unit: in copies. */
static inline void decode_rest(const nabla_blocks *blocks, unit_target at,
                               size_t count, size_t block, size_t bits,
                               nabla_kernel_decode *self) {
  const size_t done = count / UNIT * UNIT, rest = count - done;
  const size_t width = width_of(at.dtype), last = (count - 1) / block;
  uint8_t codes[UNIT] = {0}, out[UNIT * sizeof(float)];
  float scales[4], zeros[4] = {0};
  for (size_t i = 0; i < 4; i++) {
    const size_t own = (done + 16 * i) / block, b = own < last ? own : last;
    scales[i] = blocks->scales[b];
    if (blocks->zeros) zeros[i] = blocks->zeros[b];
  }
  nabla_blocks copy = *blocks;
  copy.scales = scales;
  if (blocks->zeros) copy.zeros = zeros;
  memcpy(codes, at.codes + done / 8 * bits, (rest * bits + 7) / 8);
  self(&copy, codes, UNIT, 16, at.dtype, out, 0);
  memcpy(at.out + done * width, out, rest * width);
}

/* Past the caches, whole lines; `out` need not begin with one. */
static inline void stream_bytes(uint8_t *out, const uint8_t *in, size_t size) {
  size_t i = (64 - (uintptr_t)out % 64) % 64;
  memcpy(out, in, i);
  for (; i + 64 <= size; i += 64)
    _mm512_stream_si512((__m512i *)(void *)(out + i), load_bytes(in + i));
  memcpy(out + i, in + i, size - i);
}

/* Values that are decoded into the first cache before they are streamed from
 * there: the processor writes a line that is half full as soon as nothing
 * follows, so that stores must come without pause. */
enum { STREAMED = 4096 };

/* All of it but less than STREAMED values at the end of a block or of all.
 * @return the values done */
static inline size_t decode_stream(const nabla_blocks *blocks, unit_target at,
                                   size_t count, size_t block, size_t bits,
                                   nabla_kernel_decode *self) {
  _Alignas(64) uint8_t out[STREAMED * sizeof(float)];
  const size_t width = width_of(at.dtype);
  size_t done = 0;
  for (; done + STREAMED <= count; done += STREAMED) {
    nabla_blocks some = *blocks;
    some.scales += done / block;
    if (some.zeros) some.zeros += done / block;
    self(&some, at.codes + done / 8 * bits, STREAMED,
         block < STREAMED ? block : STREAMED, at.dtype, out, 0);
    stream_bytes(at.out + done * width, out, STREAMED * width);
  }
  _mm_sfence();
  return done;
}

/* The whole stage.
 * @param self  the stage itself, for parts of it */
INLINE void decode_all(const nabla_blocks *blocks, const uint8_t *codes,
                       size_t count, size_t block, nabla_dtype dtype, void *out,
                       int stream, size_t bits, run_fn *run, const void *values,
                       nabla_kernel_decode *self) {
  unit_target at = {codes, out, dtype};
  if (stream) {
    const size_t done = decode_stream(blocks, at, count, block, bits, self);
    nabla_blocks rest = *blocks;
    if (done == count) return;
    rest.scales += done / block;
    if (rest.zeros) rest.zeros += done / block;
    self(&rest, codes + done / 8 * bits, count - done,
         block < count - done ? block : count - done, dtype,
         at.out + done * width_of(dtype), 0);
    return;
  }
  if (count % UNIT) decode_rest(blocks, at, count, block, bits, self);
  if (dtype == NABLA_DTYPE_F32) {
    at.dtype = NABLA_DTYPE_F32;
    decode_dtype(blocks, at, count, block, bits, run, values);
  } else if (dtype == NABLA_DTYPE_F16) {
    at.dtype = NABLA_DTYPE_F16;
    decode_dtype(blocks, at, count, block, bits, run, values);
  } else {
    at.dtype = NABLA_DTYPE_BF16;
    decode_dtype(blocks, at, count, block, bits, run, values);
  }
}

/* Values of 16 codes of 8 bits with scale 1. */
typedef __m512 sixteen_fn(const uint8_t *codes, const void *values);

INLINE void decode_sixteens(unit_target at, const unit_blocks *blocks,
                            size_t units, const void *values,
                            sixteen_fn *sixteen) {
  const __m512 after = _mm512_set1_ps(blocks->after);
  for (size_t i = 0; i < units * UNIT; i += UNIT)
    for (size_t j = 0; j < 4; j += 2) {
      __m512 x[2];
      for (size_t k = 0; k < 2; k++) {
        x[k] = sixteen(at.codes + i + 16 * (j + k), values);
        x[k] = _mm512_sub_ps(x[k], _mm512_set1_ps(blocks->zero[j + k]));
        x[k] = _mm512_mul_ps(x[k], _mm512_set1_ps(blocks->scale[j + k]));
        x[k] = _mm512_mul_ps(x[k], after); /* 1 changes nothing */
      }
      put_thirty_two(at, i + 16 * j, x[0], x[1]);
    }
}

#endif
