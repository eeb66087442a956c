/* The loop of the decode stages for AVX2. An encoding supplies the function
 * that decodes consecutive units with the same scales. */
#ifndef NABLA_QUANT_X86_DECODE_DECODE_AVX2_H
#define NABLA_QUANT_X86_DECODE_DECODE_AVX2_H

#include <math.h>

#include "quant/x86/ahead.h"
#include "quant/x86/avx2.h"

/* The scales and zero points of the first 16 values of a unit and of the last
 * 16 (code_avx2.h); `after` is a further factor of all values. */
typedef struct unit_blocks {
  float scale[2], zero[2], after;
} unit_blocks;

/* The output of a unit. */
typedef struct unit_target {
  const uint8_t *codes;
  uint8_t *out;
  nabla_dtype dtype;
  int stream;
} unit_target;

/* Decodes `units` units.
 * @param values  of the encoding */
typedef void run_fn(unit_target at, unit_blocks blocks, size_t units,
                    const void *values);

/* An encoding. Its members are compile-time constants, as those of a coder
 * (code.h). */
typedef struct decoder {
  size_t bits;
  run_fn *run;
  const void *values;        /* of the encoding, for `run` */
  nabla_kernel_decode *self; /* the stage itself, for the values after the last
                              * unit */
} decoder;

INLINE void put_bytes(uint8_t *out, __m256i x, int stream) {
  if (!stream) {
    store_bytes(out, x);
    return;
  } /* in halves, because malloc may align to only 16 bytes */
  _mm_stream_si128((__m128i *)(void *)out, _mm256_castsi256_si128(x));
  _mm_stream_si128((__m128i *)(void *)(out + 16),
                   _mm256_extracti128_si256(x, 1));
}

/* Rounds half to even. A NaN has a payload that does not overflow: it was made
 * here or is that of an 8-bit code, because `plain` leaves no other in scales.
 */
INLINE __m256i round_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), one = _mm256_set1_epi32(1);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
  const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
}

/* Prefetches codes, and the output unless stores bypass the caches, ahead of
 * the unit whose first value is `i`. During many stores the hardware prefetcher
 * does little; stores that bypass the caches would then wait for each load of
 * codes.
 */
INLINE void look_ahead(unit_target at, size_t i, size_t bits) {
  const uintptr_t codes = (uintptr_t)at.codes + i / 8 * bits + 2048;
  const uintptr_t out = (uintptr_t)at.out + i * width_of(at.dtype);
  _mm_prefetch((const char *)codes, _MM_HINT_T0);
  if (at.stream) return;
  ask_for_line(out);
  if (at.dtype == NABLA_DTYPE_F32) ask_for_line(out + 64);
}

/* Converts 16 values to 16 bits each. */
INLINE __m256i narrow(__m256 x0, __m256 x1, nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_F16) {
    return _mm256_set_m128i(_mm256_cvtps_ph(x1, _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(x0, _MM_FROUND_TO_NEAREST_INT));
  }
  return _mm256_permute4x64_epi64(
      _mm256_packus_epi32(round_bf16(x0), round_bf16(x1)), 0xd8);
}

/* Converts 16 values that BF16 represents exactly. */
INLINE __m256i narrow_exact(__m256 x0, __m256 x1) {
  const __m256i low = _mm256_srli_epi32(_mm256_castps_si256(x0), 16);
  const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(x1), 16);
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
}

/* Stores the unit whose first value is `i`. */
INLINE void put_unit(unit_target at, size_t i, const __m256 x[4]) {
  uint8_t *out = at.out + i * width_of(at.dtype);
  if (at.dtype == NABLA_DTYPE_F32) {
    for (size_t j = 0; j < 4; j++)
      put_bytes(out + 32 * j, _mm256_castps_si256(x[j]), at.stream);
    return;
  }
  const __m256i first = narrow(x[0], x[1], at.dtype);
  const __m256i second = narrow(x[2], x[3], at.dtype);
  put_bytes(out, first, at.stream);
  put_bytes(out + 32, second, at.stream);
}

/* Replaces any NaN by the NaN without a payload. */
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

/* Decodes all whole units. */
INLINE void decode_units(const decoder *d, const nabla_blocks *blocks,
                         unit_target at, size_t count, size_t block) {
  size_t b = 0;
  while (count >= UNIT) {
    const size_t step = block < UNIT ? UNIT : block;
    const size_t units = (count < step ? count : step) / UNIT;
    d->run(at, blocks_at(blocks, b, block < UNIT ? b + 1 : b), units,
           d->values);
    at.codes += units * UNIT / 8 * d->bits;
    at.out += units * UNIT * width_of(at.dtype);
    count -= units * UNIT;
    b += block < UNIT ? UNIT / block : 1;
  }
}

INLINE void decode_dtype(const decoder *d, const nabla_blocks *blocks,
                         unit_target at, size_t count, size_t block) {
  if (block < UNIT)
    decode_units(d, blocks, at, count, 16);
  else
    decode_units(d, blocks, at, count, block);
}

INLINE void decode_stores(const decoder *d, const nabla_blocks *blocks,
                          unit_target at, size_t count, size_t block) {
  if (at.stream) {
    at.stream = 1;
    decode_dtype(d, blocks, at, count, block);
    _mm_sfence();
  } else {
    at.stream = 0;
    decode_dtype(d, blocks, at, count, block);
  }
}

/* Decodes the values after the last whole unit, from a copy to a copy. */
static inline void decode_rest(const decoder *d, const nabla_blocks *blocks,
                               unit_target at, size_t count, size_t block) {
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
  memcpy(codes, at.codes + done / 8 * d->bits, (rest * d->bits + 7) / 8);
  d->self(&copy, codes, UNIT, block == 16 ? 16 : UNIT, at.dtype, out, 0);
  memcpy(at.out + done * width, out, rest * width);
}

/* Decodes all values of a call. */
INLINE void decode_all(const decoder *d, const nabla_blocks *blocks,
                       const uint8_t *codes, size_t count, size_t block,
                       nabla_dtype dtype, void *out, int stream) {
  unit_target at = {codes, out, dtype, stream && (uintptr_t)out % 16 == 0};
  if (count % UNIT) decode_rest(d, blocks, at, count, block);
  if (dtype == NABLA_DTYPE_F32) {
    at.dtype = NABLA_DTYPE_F32;
    decode_stores(d, blocks, at, count, block);
  } else if (dtype == NABLA_DTYPE_F16) {
    at.dtype = NABLA_DTYPE_F16;
    decode_stores(d, blocks, at, count, block);
  } else {
    at.dtype = NABLA_DTYPE_BF16;
    decode_stores(d, blocks, at, count, block);
  }
}

/* Defines nabla_<id>_decode_avx2. */
#define DECODE_STAGE(id, bits, run, values)                            \
  static const decoder id##_decoder = {bits, run, values,              \
                                       nabla_##id##_decode_avx2};      \
  void nabla_##id##_decode_avx2(                                       \
      const nabla_blocks *blocks, const uint8_t *codes, size_t count,  \
      size_t block, nabla_dtype dtype, void *out, int stream) {        \
    decode_all(&id##_decoder, blocks, codes, count, block, dtype, out, \
               stream);                                                \
  }

/* Values of 16 codes of 8 bits with scale 1. */
typedef void sixteen_fn(const uint8_t *codes, __m256 out[2]);

/* Steps of decode_bytes besides the multiplication by the scale. */
enum {
  BYTES_EXTRA = 1, /* zero points, and the last factor */
  BYTES_EXACT = 2, /* BF16 represents all products: no rounding */
};

INLINE void decode_bytes(unit_target at, unit_blocks blocks, size_t units,
                         sixteen_fn *sixteen, int how) {
  const __m256 after = _mm256_set1_ps(blocks.after);
  for (size_t i = 0; i < units * UNIT; i += UNIT) {
    __m256 x[4];
    look_ahead(at, i, 8);
    sixteen(at.codes + i, x);
    sixteen(at.codes + i + 16, x + 2);
    for (int j = 0; j < 4; j++) {
      const __m256 zero = _mm256_set1_ps(blocks.zero[j / 2]);
      if (how & BYTES_EXTRA) x[j] = _mm256_sub_ps(x[j], zero);
      x[j] = _mm256_mul_ps(x[j], _mm256_set1_ps(blocks.scale[j / 2]));
      if (how & BYTES_EXTRA) x[j] = _mm256_mul_ps(x[j], after);
    }
    if (how & BYTES_EXACT) {
      put_bytes(at.out + 2 * i, narrow_exact(x[0], x[1]), at.stream);
      put_bytes(at.out + 2 * i + 32, narrow_exact(x[2], x[3]), at.stream);
    } else {
      put_unit(at, i, x);
    }
  }
}

#endif
