/* The loop of the decode stages for AVX2: an encoding brings what decodes units
 * whose blocks are the same. */
#ifndef NABLA_QUANT_X86_DECODE_AVX2_H
#define NABLA_QUANT_X86_DECODE_AVX2_H

#include <math.h>

#include "quant/x86/avx2.h"

/* As in code_avx2.h: of the first 16 values of a unit, and of the others. */
typedef struct unit_blocks {
  float scale[2], zero[2], after;
} unit_blocks;

/* Where units go. */
typedef struct unit_target {
  const uint8_t *codes;
  uint8_t *out;
  nabla_dtype dtype;
} unit_target;

/* Decodes `units` units.
 * @param values  of the encoding */
typedef void run_fn(unit_target at, unit_blocks blocks, size_t units,
                    const void *values);

/* Half to even. What is NaN has a payload that does not overflow: it was made
 * here or is that of an 8-bit code, scales being what `plain` leaves. */
INLINE __m256i round_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), one = _mm256_set1_epi32(1);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
  const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
}

/* 16 values, from `i` on, to the target. */
INLINE void put_sixteen(unit_target at, size_t i, __m256 x0, __m256 x1) {
  uint8_t *out = at.out + i * width_of(at.dtype);
  __m256i halves;
  if (at.dtype == NABLA_DTYPE_F32) {
    store_bytes(out, _mm256_castps_si256(x0));
    store_bytes(out + 32, _mm256_castps_si256(x1));
    return;
  }
  if (at.dtype == NABLA_DTYPE_F16) {
    const int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    halves = _mm256_set_m128i(_mm256_cvtps_ph(x1, nearest),
                              _mm256_cvtps_ph(x0, nearest));
  } else {
    halves = _mm256_permute4x64_epi64(
        _mm256_packus_epi32(round_bf16(x0), round_bf16(x1)), 0xd8);
  }
  store_bytes(out, halves);
}

/* Any NaN as the one that has no payload. */
INLINE float plain(float scale) { return isnan(scale) ? NAN : scale; }

INLINE unit_blocks blocks_at(const nabla_blocks *blocks, size_t first,
                             size_t second) {
  const size_t b[2] = {first, second};
  unit_blocks u = {.after = blocks->after};
  for (int i = 0; i < 2; i++) {
    u.scale[i] = plain(blocks->scales[b[i]]);
    u.zero[i] = blocks->zeros ? blocks->zeros[b[i]] : 0.0f;
  }
  return u;
}

/* All whole units. */
INLINE void decode_units(const nabla_blocks *blocks, unit_target at,
                         size_t count, size_t block, size_t bits, run_fn *run,
                         const void *values) {
  size_t b = 0;
  while (count >= UNIT) {
    const size_t step = block < UNIT ? UNIT : block;
    const size_t units = (count < step ? count : step) / UNIT;
    run(at, blocks_at(blocks, b, block < UNIT ? b + 1 : b), units, values);
    at.codes += units * UNIT / 8 * bits;
    at.out += units * UNIT * width_of(at.dtype);
    count -= units * UNIT;
    b += block < UNIT ? UNIT / block : 1;
  }
}

INLINE void decode_dtype(const nabla_blocks *blocks, unit_target at,
                         size_t count, size_t block, size_t bits, run_fn *run,
                         const void *values) {
  if (block < UNIT)
    decode_units(blocks, at, count, 16, bits, run, values);
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
  const size_t width = width_of(at.dtype);
  const size_t b[2] = {done / block, (count - 1) / block};
  uint8_t codes[UNIT] = {0}, out[UNIT * sizeof(float)];
  float scales[2], zeros[2] = {0};
  for (int i = 0; i < 2; i++) {
    scales[i] = blocks->scales[b[i]];
    if (blocks->zeros) zeros[i] = blocks->zeros[b[i]];
  }
  nabla_blocks copy = *blocks;
  copy.scales = scales;
  if (blocks->zeros) copy.zeros = zeros;
  memcpy(codes, at.codes + done / 8 * bits, (rest * bits + 7) / 8);
  self(&copy, codes, UNIT, block == 16 ? 16 : UNIT, at.dtype, out, 0);
  memcpy(at.out + done * width, out, rest * width);
}

/* Past the caches. Halves of vectors: malloc aligns to no more than 16 bytes.
 */
static inline void stream_bytes(uint8_t *out, const uint8_t *in, size_t size) {
  for (size_t i = 0; i < size; i += 64)
    for (size_t j = i; j < i + 64; j += 16)
      _mm_stream_si128((__m128i *)(void *)(out + j), load_half(in + j));
}

/* Values that are decoded into the first cache before they are streamed from
 * there: the processor writes a line that is half full as soon as nothing
 * follows, so that stores must come without pause. */
enum { STREAMED = 1024 };

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
  if (stream && (uintptr_t)out % 16 == 0) {
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

/* Values of eight codes of 8 bits with scale 1. */
typedef __m256 eight_fn(const uint8_t *codes, const void *values);

INLINE void decode_eights(unit_target at, unit_blocks blocks, size_t units,
                          const void *values, eight_fn *eight) {
  const __m256 after = _mm256_set1_ps(blocks.after);
  for (size_t i = 0; i < units * UNIT; i += UNIT)
    for (size_t j = 0; j < 2; j++) {
      const __m256 scale = _mm256_set1_ps(blocks.scale[j]);
      const __m256 zero = _mm256_set1_ps(blocks.zero[j]);
      __m256 x[2];
      for (size_t k = 0; k < 2; k++) {
        x[k] = eight(at.codes + i + 16 * j + 8 * k, values);
        x[k] = _mm256_mul_ps(_mm256_sub_ps(x[k], zero), scale);
        x[k] = _mm256_mul_ps(x[k], after); /* 1 changes nothing */
      }
      put_sixteen(at, i + 16 * j, x[0], x[1]);
    }
}

#endif
