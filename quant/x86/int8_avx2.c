/* INT8 for AVX2: the bytes of quant/int8.c. */
#include <string.h>

#include "quant/int8.h"
#include "quant/x86/avx2.h"

/* Codes of 32 values, the second 16 with their own factor. */
INLINE __m256i encode_half(const float *in, __m256 factor0, __m256 factor1) {
  __m256i q[4];
  for (int j = 0; j < 4; j++) {
    __m256 x = _mm256_loadu_ps(in + 8 * j);
    q[j] = _mm256_cvtps_epi32(/* half to even */
                              _mm256_mul_ps(x, j < 2 ? factor0 : factor1));
  }
  return pack_bytes(q);
}

INLINE void encode_values(const float *in, factors factor, uint8_t *codes) {
  _mm256_storeu_si256((__m256i *)codes,
                      encode_half(in, factor.v[0], factor.v[1]));
  _mm256_storeu_si256((__m256i *)(codes + 32),
                      encode_half(in + 32, factor.v[2], factor.v[3]));
}

/* Codes of any number of values whose absmax is `most`, in f32 bits. */
INLINE void encode_span(const float *in, size_t count, uint32_t most,
                        uint8_t *codes) {
  float absmax = nabla_f32_of_bits(most);
  if (__builtin_expect(!is_easy(most, NABLA_INT8_EASY), 0)) {
    nabla_int8_encode_scaled_scalar(in, count, absmax, codes);
    return;
  }
  factors factor = same(127.0f / absmax);
  size_t i = 0;
  for (; i + 64 <= count; i += 64) encode_values(in + i, factor, codes + i);
  if (i < count) { /* in a copy, so that nothing beyond the end is touched */
    float rest[64] = {0};
    uint8_t rest_codes[64];
    memcpy(rest, in + i, (count - i) * sizeof *in);
    encode_values(rest, factor, rest_codes);
    memcpy(codes + i, rest_codes, count - i);
  }
}

/* Blocks of 64, and of 16 or 32 four or two at a time; `count` is a multiple
 * of 64. */
INLINE void encode_small(const float *in, size_t count, size_t block,
                         uint8_t *codes, float *scales) {
  for (size_t i = 0; i < count; i += 64) {
    prefetch(in + i);
    factors factor;
    int easy;
    if (block == 64) {
      uint32_t most = max_of_64(in + i);
      float absmax = nabla_f32_of_bits(most);
      easy = is_easy(most, NABLA_INT8_EASY);
      factor = same(127.0f / absmax);
      *scales = absmax / 127.0f;
    } else {
      __m128i most = max_of_blocks(in + i, block);
      __m128 absmax = _mm_castsi128_ps(most), limit = _mm_set1_ps(127.0f);
      easy = all_easy(most, NABLA_INT8_EASY);
      factor = spread(_mm_div_ps(limit, absmax));
      store_scales(scales, _mm_div_ps(absmax, limit), block);
    }
    if (__builtin_expect(easy, 1))
      encode_values(in + i, factor, codes + i);
    else
      nabla_int8_encode_scalar(in + i, 64, block, codes + i, scales);
    scales += 64 / block;
  }
}

/* Spans of any length, the last one short when `count` is no multiple. */
INLINE void encode_spans(const float *in, size_t count, size_t span, int rows,
                         uint8_t *codes, float *scales) {
  for (size_t at = 0; at < count; at += span) {
    size_t size = count - at < span ? count - at : span;
    uint32_t most = max_of_span(in + at, size);
    float absmax = nabla_f32_of_bits(most);
    encode_span(in + at, size, most, codes + at);
    int plain = rows || most >= NABLA_F32_INFINITY;
    *scales++ = plain ? absmax : nabla_int8_scale(absmax);
  }
}

void nabla_int8_encode_avx2(const float *in, size_t count, size_t block,
                            uint8_t *codes, float *scales) {
  size_t whole = block > 64 ? 0 : count / 64 * 64;
  if (block == 64)
    encode_small(in, whole, 64, codes, scales);
  else if (block == 32)
    encode_small(in, whole, 32, codes, scales);
  else if (block == 16)
    encode_small(in, whole, 16, codes, scales);
  encode_spans(in + whole, count - whole, block, 0, codes + whole,
               scales + whole / block);
}

void nabla_int8_encode_rows_avx2(const float *in, size_t count, size_t length,
                                 uint8_t *codes, float *scales) {
  encode_spans(in, count, length, 1, codes, scales);
}

float nabla_int8_absmax_avx2(const float *in, size_t count) {
  return nabla_f32_of_bits(max_of_span(in, count));
}

void nabla_int8_encode_scaled_avx2(const float *in, size_t count, float absmax,
                                   uint8_t *codes) {
  encode_span(in, count, nabla_bits_of_f32(absmax), codes);
}

INLINE __m256 decode_eight(__m128i codes, __m256 scale, int rows) {
  __m256 x =
      _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)), scale);
  return rows ? _mm256_mul_ps(x, _mm256_set1_ps(NABLA_INT8_STEP)) : x;
}

INLINE void decode_spans(const uint8_t *codes, const float *scales,
                         size_t count, size_t span, float *out, int rows,
                         int stream) {
  for (size_t at = 0; at < count; at += span) {
    size_t end = count - at < span ? count : at + span, i = at;
    __m256 scale = _mm256_set1_ps(*scales++);
    for (; i + 8 <= end; i += 8) {
      __m128i q = _mm_loadl_epi64((const __m128i *)(codes + i));
      store_vector(out + i, decode_eight(q, scale, rows), stream);
    }
    if (i < end) {
      uint8_t rest[16] = {0};
      memcpy(rest, codes + i, end - i);
      __m128i q = _mm_loadl_epi64((const __m128i *)rest);
      _mm256_maskstore_ps(out + i, first(end - i),
                          decode_eight(q, scale, rows));
    }
  }
  if (stream) _mm_sfence();
}

void nabla_int8_decode_avx2(const uint8_t *codes, const float *scales,
                            size_t count, size_t block, float *out) {
  if (nabla_should_stream(out, count))
    decode_spans(codes, scales, count, block, out, 0, 1);
  else
    decode_spans(codes, scales, count, block, out, 0, 0);
}

void nabla_int8_decode_rows_avx2(const uint8_t *codes, const float *scales,
                                 size_t count, size_t length, float *out) {
  if (nabla_should_stream(out, count) && length % 4 == 0)
    decode_spans(codes, scales, count, length, out, 1, 1);
  else
    decode_spans(codes, scales, count, length, out, 1, 0);
}
