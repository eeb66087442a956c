/* Largest magnitudes, and least and largest values, of blocks for AVX2: the
 * bits of quant/stages.c. */
#include <math.h>

#include "quant/x86/avx2.h"

/* Magnitudes are compared as integers: of dwords, or of words as they are, 16
 * bits being in the same order as what they widen to. */
INLINE __m256i magnitudes_of(__m256i x, nabla_dtype dtype) {
  return _mm256_and_si256(x, dtype == NABLA_DTYPE_F32
                                 ? _mm256_set1_epi32((int)NABLA_F32_MAGNITUDE)
                                 : _mm256_set1_epi16(0x7fff));
}

INLINE __m256i larger(__m256i a, __m256i b, nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 ? _mm256_max_epu32(a, b)
                                  : _mm256_max_epu16(a, b);
}

INLINE __m256i magnitudes_at(const uint8_t *in, nabla_dtype dtype) {
  return magnitudes_of(load_bytes(in), dtype);
}

/* The largest of words as dwords: of each pair. */
INLINE __m256i dwords_of(__m256i most, nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_F32) return most;
  const __m256i low = _mm256_and_si256(most, _mm256_set1_epi32(0xffff));
  return _mm256_max_epu16(low, _mm256_srli_epi32(most, 16));
}

/* The magnitude as f32, from the bits of the dtype. */
INLINE __m256 widened(__m256i most, nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_F32) return _mm256_castsi256_ps(most);
  if (dtype == NABLA_DTYPE_BF16)
    return _mm256_castsi256_ps(_mm256_slli_epi32(most, 16));
  return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(most),
                                          _mm256_extracti128_si256(most, 1)));
}

/* Largest magnitudes of eight vectors, one each. */
INLINE __m256i max_of_eight(const __m256i x[8]) {
  __m256i pairs[4], fours[2];
  for (int i = 0; i < 4; i++)
    pairs[i] = _mm256_max_epu32(_mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]),
                                _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]));
  for (int i = 0; i < 2; i++)
    fours[i] =
        _mm256_max_epu32(_mm256_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]),
                         _mm256_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
  return _mm256_max_epu32(_mm256_permute2x128_si256(fours[0], fours[1], 0x20),
                          _mm256_permute2x128_si256(fours[0], fours[1], 0x31));
}

/* The largest of `bytes` bytes, a multiple of a vector. */
INLINE __m256i max_of_span(const uint8_t *in, size_t bytes, nabla_dtype dtype) {
  __m256i most = magnitudes_at(in, dtype), other = most;
  size_t i = 32;
  for (; i + 64 <= bytes; i += 64) {
    most = larger(most, magnitudes_at(in + i, dtype), dtype);
    other = larger(other, magnitudes_at(in + i + 32, dtype), dtype);
  }
  if (i < bytes) most = larger(most, magnitudes_at(in + i, dtype), dtype);
  return larger(most, other, dtype);
}

/* Eight blocks, each of whole vectors. */
INLINE void absmax_of_eight(const uint8_t *in, size_t bytes, nabla_dtype dtype,
                            float *out) {
  __m256i most[8];
  for (size_t b = 0; b < 8; b++)
    most[b] = dwords_of(max_of_span(in + b * bytes, bytes, dtype), dtype);
  _mm256_storeu_ps(out, widened(max_of_eight(most), dtype));
}

/* One block of any length. */
INLINE float absmax_of_one(const uint8_t *in, size_t bytes, nabla_dtype dtype) {
  const size_t whole = bytes / 32 * 32;
  uint8_t rest[32] = {0};
  __m256i most[8];
  memcpy(rest, in + whole, bytes - whole);
  most[0] = magnitudes_at(rest, dtype);
  if (whole) most[0] = larger(most[0], max_of_span(in, whole, dtype), dtype);
  most[0] = dwords_of(most[0], dtype);
  for (int i = 1; i < 8; i++) most[i] = most[0];
  return _mm256_cvtss_f32(widened(max_of_eight(most), dtype));
}

INLINE void absmax_all(const uint8_t *in, nabla_dtype dtype, size_t count,
                       size_t block, float *out) {
  const size_t bytes = block * width_of(dtype);
  size_t left = count;
  for (; left / 8 >= block; left -= 8 * block) {
    if (block == 64)
      absmax_of_eight(in, 64 * width_of(dtype), dtype, out);
    else if (block == 32)
      absmax_of_eight(in, 32 * width_of(dtype), dtype, out);
    else if (block == 16)
      absmax_of_eight(in, 16 * width_of(dtype), dtype, out);
    else
      absmax_of_eight(in, bytes, dtype, out);
    in += 8 * bytes;
    out += 8;
  }
  while (left) {
    const size_t some = left < block ? left : block;
    *out++ = absmax_of_one(in, some * width_of(dtype), dtype);
    in += some * width_of(dtype);
    left -= some;
  }
}

void nabla_any_absmax_avx2(const void *in, nabla_dtype dtype, size_t count,
                           size_t block, float *out) {
  if (dtype == NABLA_DTYPE_F32)
    absmax_all(in, NABLA_DTYPE_F32, count, block, out);
  else if (dtype == NABLA_DTYPE_F16)
    absmax_all(in, NABLA_DTYPE_F16, count, block, out);
  else
    absmax_all(in, NABLA_DTYPE_BF16, count, block, out);
}
