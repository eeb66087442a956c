/* INT8 for AVX-512: the bytes of quant/int8.c. */
#include "quant/int8.h"
#include "quant/x86/avx512.h"

INLINE __m512i round_scaled(__m512 x, __m512 factor) {
  return _mm512_cvtps_epi32(_mm512_mul_ps(x, factor)); /* half to even */
}

INLINE void encode_values(const float *in, values factor, uint8_t *codes,
                          __m512i picks) {
  values x = load_values(in);
  __m512i q[4];
  for (int j = 0; j < 4; j++) q[j] = round_scaled(x.v[j], factor.v[j]);
  _mm512_storeu_si512(codes, pack_bytes(q, picks));
}

/* Codes of any number of values whose absmax is `most`, in f32 bits. */
INLINE void encode_span(const float *in, size_t count, uint32_t most,
                        uint8_t *codes, __m512i picks) {
  float absmax = nabla_f32_of_bits(most);
  if (__builtin_expect(!is_easy(most, NABLA_INT8_EASY), 0)) {
    nabla_int8_encode_scaled_scalar(in, count, absmax, codes);
    return;
  }
  values factor = same(127.0f / absmax);
  size_t i = 0;
  for (; i + 64 <= count; i += 64)
    encode_values(in + i, factor, codes + i, picks);
  for (; i < count; i += 16) {
    __mmask16 some = count - i < 16 ? first(count - i) : 0xffff;
    __m512 x = _mm512_maskz_loadu_ps(some, in + i);
    _mm512_mask_cvtepi32_storeu_epi8(codes + i, some,
                                     round_scaled(x, factor.v[0]));
  }
}

/* Blocks of 64, and of 16 or 32 four or two at a time; `count` is a multiple
 * of 64. */
INLINE void encode_small(const float *in, size_t count, size_t block,
                         uint8_t *codes, float *scales, __m512i picks) {
  for (size_t i = 0; i < count; i += 64) {
    prefetch(in + i);
    values x = load_values(in + i), factor;
    int easy;
    if (block == 64) {
      uint32_t most = max_of_all(max_of_values(x));
      float absmax = nabla_f32_of_bits(most);
      easy = is_easy(most, NABLA_INT8_EASY);
      factor = same(127.0f / absmax);
      *scales = absmax / 127.0f;
    } else {
      __m128i most = max_of_blocks(x, block);
      __m128 absmax = _mm_castsi128_ps(most), limit = _mm_set1_ps(127.0f);
      easy = all_easy(most, NABLA_INT8_EASY);
      factor = spread(_mm_div_ps(limit, absmax));
      store_scales(scales, _mm_div_ps(absmax, limit), block);
    }
    if (__builtin_expect(easy, 1))
      encode_values(in + i, factor, codes + i, picks);
    else
      nabla_int8_encode_scalar(in + i, 64, block, codes + i, scales);
    scales += 64 / block;
  }
}

/* Spans of any length, the last one short when `count` is no multiple. */
INLINE void encode_spans(const float *in, size_t count, size_t span, int rows,
                         uint8_t *codes, float *scales, __m512i picks) {
  for (size_t at = 0; at < count; at += span) {
    size_t size = count - at < span ? count - at : span;
    uint32_t most = max_of_span(in + at, size);
    float absmax = nabla_f32_of_bits(most);
    encode_span(in + at, size, most, codes + at, picks);
    int plain = rows || most >= NABLA_F32_INFINITY;
    *scales++ = plain ? absmax : nabla_int8_scale(absmax);
  }
}

void nabla_int8_encode_avx512(const float *in, size_t count, size_t block,
                              uint8_t *codes, float *scales) {
  __m512i picks = _mm512_load_si512(low_bytes);
  size_t whole = block > 64 ? 0 : count / 64 * 64;
  if (block == 64)
    encode_small(in, whole, 64, codes, scales, picks);
  else if (block == 32)
    encode_small(in, whole, 32, codes, scales, picks);
  else if (block == 16)
    encode_small(in, whole, 16, codes, scales, picks);
  encode_spans(in + whole, count - whole, block, 0, codes + whole,
               scales + whole / block, picks);
}

void nabla_int8_encode_rows_avx512(const float *in, size_t count, size_t length,
                                   uint8_t *codes, float *scales) {
  encode_spans(in, count, length, 1, codes, scales,
               _mm512_load_si512(low_bytes));
}

float nabla_int8_absmax_avx512(const float *in, size_t count) {
  return nabla_f32_of_bits(max_of_span(in, count));
}

void nabla_int8_encode_scaled_avx512(const float *in, size_t count,
                                     float absmax, uint8_t *codes) {
  encode_span(in, count, nabla_bits_of_f32(absmax), codes,
              _mm512_load_si512(low_bytes));
}

INLINE __m512 decode_vector(__m128i codes, __m512 scale, int rows) {
  __m512 x =
      _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)), scale);
  return rows ? _mm512_mul_ps(x, _mm512_set1_ps(NABLA_INT8_STEP)) : x;
}

INLINE void decode_spans(const uint8_t *codes, const float *scales,
                         size_t count, size_t span, float *out, int rows,
                         int stream) {
  for (size_t at = 0; at < count; at += span) {
    size_t end = count - at < span ? count : at + span, i = at;
    __m512 scale = _mm512_set1_ps(*scales++);
    for (; i + 16 <= end; i += 16) {
      __m128i q = _mm_loadu_si128((const __m128i *)(codes + i));
      store_vector(out + i, decode_vector(q, scale, rows), stream);
    }
    if (i < end) {
      __mmask16 some = first(end - i);
      __m128i q = _mm_maskz_loadu_epi8(some, codes + i);
      _mm512_mask_storeu_ps(out + i, some, decode_vector(q, scale, rows));
    }
  }
  if (stream) _mm_sfence();
}

void nabla_int8_decode_avx512(const uint8_t *codes, const float *scales,
                              size_t count, size_t block, float *out) {
  if (nabla_should_stream(out, count))
    decode_spans(codes, scales, count, block, out, 0, 1);
  else
    decode_spans(codes, scales, count, block, out, 0, 0);
}

void nabla_int8_decode_rows_avx512(const uint8_t *codes, const float *scales,
                                   size_t count, size_t length, float *out) {
  if (nabla_should_stream(out, count) && length % 4 == 0)
    decode_spans(codes, scales, count, length, out, 1, 1);
  else
    decode_spans(codes, scales, count, length, out, 1, 0);
}
