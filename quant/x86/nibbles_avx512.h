/* The frame of the 4-bit AVX-512 kernels. An encoding brings `bins`: what maps
 * 64 scaled values to dwords whose low 6 bits are places in a table of codes.
 *
 * How a value finds its code: a multiply-add sends it to one of a few equal
 * bins, each with at most one threshold inside; the bin gives that threshold
 * (one permute), a compare says on which side the value lies, and bin and side
 * give the code (another permute). Only the monotony of the multiply-add
 * matters, so its rounding cannot change a code. */
#ifndef NABLA_QUANT_X86_NIBBLES_AVX512_H
#define NABLA_QUANT_X86_NIBBLES_AVX512_H

#include "quant/x86/avx512.h"

/* Adding this leaves the nearest integer in the low bits of the sum. */
#define ROUNDER 12582912.0f /* 1.5 * 2^23 */

typedef struct nibble_tables {
  __m512 bounds[2]; /* the threshold in each bin, or infinity */
  __m512i codes;    /* by bin and side                        */
  __m512i picks;    /* low_bytes                              */
} nibble_tables;

/* How one vector of scaled values is looked up. */
typedef values factors;
typedef __m512i code_fn(__m512 scaled, const nibble_tables *tables);

INLINE void encode_values(const float *in, values inverse, uint8_t *codes,
                          const nibble_tables *t, code_fn *bin) {
  values x = load_values(in);
  __m512i at[4];
  for (int j = 0; j < 4; j++)
    at[j] = bin(_mm512_mul_ps(x.v[j], inverse.v[j]), t);
  __m512i code = _mm512_permutexvar_epi8(pack_bytes(at, t->picks), t->codes);
  /* 16 times the even code plus the odd one */
  __m512i pairs = _mm512_maddubs_epi16(code, _mm512_set1_epi16(0x0110));
  _mm256_storeu_si256((__m256i *)codes, _mm512_cvtepi16_epi8(pairs));
}

/* Blocks of 64, and of 16 or 32 four or two at a time; `count` is a multiple
 * of 64. Blocks that are zero, subnormal or not finite go to `scalar`. */
INLINE void encode_small(const float *in, size_t count, size_t block,
                         uint8_t *codes, float *scales, const nibble_tables *t,
                         code_fn *bin, nabla_kernel_encode *scalar) {
  for (size_t i = 0; i < count; i += 64) {
    prefetch(in + i);
    values x = load_values(in + i), inverse;
    int easy;
    if (block == 64) {
      uint32_t most = max_of_all(max_of_values(x));
      float absmax = nabla_f32_of_bits(most);
      easy = is_easy(most, NABLA_F32_NORMAL);
      inverse = same(1.0f / absmax);
      *scales = absmax;
    } else {
      __m128i most = max_of_blocks(x, block);
      __m128 absmax = _mm_castsi128_ps(most);
      easy = all_easy(most, NABLA_F32_NORMAL);
      inverse = spread(_mm_div_ps(_mm_set1_ps(1.0f), absmax));
      store_scales(scales, absmax, block);
    }
    if (__builtin_expect(easy, 1))
      encode_values(in + i, inverse, codes + i / 2, t, bin);
    else
      scalar(in + i, 64, block, codes + i / 2, scales);
    scales += 64 / block;
  }
}

#include "quant/x86/nibbles.h"

/* Decodes 64 values with one table of 16 scaled values per 16 of them. Two
 * permutes: dword (lane / 8) of each 8 bytes, then, shifted so that the lane's
 * nibble is lowest, the value. */
INLINE void decode_values(const uint8_t *codes, values table, float *out,
                          int stream) {
  __m512i shifts = _mm512_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24, 4, 0, 12, 8,
                                     20, 16, 28, 24);
  __m512i place =
      _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  __m512i bytes =
      _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)codes));
  for (int j = 0; j < 4; j++) {
    __m512i pick = _mm512_add_epi32(place, _mm512_set1_epi32(2 * j));
    __m512i nibbles =
        _mm512_srlv_epi32(_mm512_permutexvar_epi32(pick, bytes), shifts);
    store_vector(out + 16 * j, _mm512_permutexvar_ps(nibbles, table.v[j]),
                 stream);
  }
}

INLINE values scale_table(__m512 table, const float *scales, size_t block) {
  values scaled;
  for (size_t j = 0; j < 4; j++)
    scaled.v[j] = _mm512_mul_ps(table, _mm512_set1_ps(scales[j * 16 / block]));
  return scaled;
}

INLINE void decode_small(const uint8_t *codes, const float *scales,
                         size_t count, size_t block, float *out, __m512 table,
                         int stream) {
  for (size_t i = 0; i < count; i += 64) {
    decode_values(codes + i / 2, scale_table(table, scales, block), out + i,
                  stream);
    scales += 64 / block;
  }
}

/* Whole blocks of 64 and more. */
INLINE void decode_large(const uint8_t *codes, const float *scales,
                         size_t count, size_t block, float *out, __m512 table,
                         int stream) {
  for (size_t at = 0; at < count; at += block) {
    values scaled = scale_table(table, scales++, 64);
    for (size_t i = at; i < at + block; i += 64)
      decode_values(codes + i / 2, scaled, out + i, stream);
  }
}

INLINE void decode_whole(const uint8_t *codes, const float *scales,
                         size_t count, size_t block, float *out, __m512 table,
                         int stream) {
  if (block == 16)
    decode_small(codes, scales, count, 16, out, table, stream);
  else if (block == 32)
    decode_small(codes, scales, count, 32, out, table, stream);
  else
    decode_large(codes, scales, count, block, out, table, stream);
  if (stream) _mm_sfence();
}

INLINE void decode_nibbles(const uint8_t *codes, const float *scales,
                           size_t count, size_t block, float *out,
                           const float values_of_codes[16],
                           nabla_kernel_decode *scalar) {
  __m512 table = _mm512_loadu_ps(values_of_codes);
  size_t unit = block > 64 ? block : 64, whole = count / unit * unit;
  if (nabla_should_stream(out, count))
    decode_whole(codes, scales, whole, block, out, table, 1);
  else
    decode_whole(codes, scales, whole, block, out, table, 0);
  if (whole < count)
    scalar(codes + whole / 2, scales + whole / block, count - whole, block,
           out + whole);
}

#endif
