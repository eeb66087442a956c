/* The frame of the 4-bit AVX2 kernels. An encoding brings a binary search over
 * its thresholds, a compare and a permute per step. Compares give 0 or -1, and
 * the search counts with them: its result is minus the rank, and the tables of
 * the steps are indexed by the low bits of minus the rank so far. */
#ifndef NABLA_QUANT_X86_NIBBLES_AVX2_H
#define NABLA_QUANT_X86_NIBBLES_AVX2_H

#include "quant/x86/avx2.h"

typedef struct nibble_tables {
  __m256 step1, step2, step3, step4; /* thresholds by minus the rank so far */
  __m256i codes;                     /* by rank                             */
} nibble_tables;

/* Minus the rank, 0 to 15, of eight scaled values. */
typedef __m256i code_fn(__m256 scaled, const nibble_tables *tables);

/* 2 * rank + (x > bound), all negated. */
INLINE __m256i step(__m256i rank, __m256 x, __m256 bound) {
  __m256i above = _mm256_castps_si256(_mm256_cmp_ps(x, bound, _CMP_GT_OQ));
  return _mm256_add_epi32(_mm256_add_epi32(rank, rank), above);
}

/* Pairs of codes of 32 values, as 16 words of which the low byte counts. */
INLINE __m256i encode_half(const float *in, __m256 inverse0, __m256 inverse1,
                           const nibble_tables *t, code_fn *rank) {
  __m256i at[4];
  for (int j = 0; j < 4; j++) {
    __m256 x = _mm256_loadu_ps(in + 8 * j);
    at[j] = rank(_mm256_mul_ps(x, j < 2 ? inverse0 : inverse1), t);
  }
  __m256i ranks = _mm256_abs_epi8(pack_bytes(at));
  __m256i code = _mm256_shuffle_epi8(t->codes, ranks);
  /* 16 times the even code plus the odd one */
  return _mm256_maddubs_epi16(code, _mm256_set1_epi16(0x0110));
}

INLINE void encode_values(const float *in, factors inverse, uint8_t *codes,
                          const nibble_tables *t, code_fn *rank) {
  __m256i low = encode_half(in, inverse.v[0], inverse.v[1], t, rank);
  __m256i high = encode_half(in + 32, inverse.v[2], inverse.v[3], t, rank);
  __m256i bytes = _mm256_packus_epi16(low, high);
  _mm256_storeu_si256((__m256i *)codes, _mm256_permute4x64_epi64(bytes, 0xd8));
}

/* Blocks of 64, and of 16 or 32 four or two at a time; `count` is a multiple
 * of 64. Blocks that are zero, subnormal or not finite go to `scalar`. */
INLINE void encode_small(const float *in, size_t count, size_t block,
                         uint8_t *codes, float *scales, const nibble_tables *t,
                         code_fn *rank, nabla_kernel_encode *scalar) {
  for (size_t i = 0; i < count; i += 64) {
    prefetch(in + i);
    factors inverse;
    int easy;
    if (block == 64) {
      uint32_t most = max_of_64(in + i);
      float absmax = nabla_f32_of_bits(most);
      easy = is_easy(most, NABLA_F32_NORMAL);
      inverse = same(1.0f / absmax);
      *scales = absmax;
    } else {
      __m128i most = max_of_blocks(in + i, block);
      __m128 absmax = _mm_castsi128_ps(most);
      easy = all_easy(most, NABLA_F32_NORMAL);
      inverse = spread(_mm_div_ps(_mm_set1_ps(1.0f), absmax));
      store_scales(scales, absmax, block);
    }
    if (__builtin_expect(easy, 1))
      encode_values(in + i, inverse, codes + i / 2, t, rank);
    else
      scalar(in + i, 64, block, codes + i / 2, scales);
    scales += 64 / block;
  }
}

#include "quant/x86/nibbles.h"

/* The table of 16 values times a scale, in two halves. */
typedef struct scaled_table {
  __m256 low, high;
} scaled_table;

/* Decodes eight values: four bytes in every lane, shifted so that the lane's
 * nibble is lowest; its top bit, moved to the sign, chooses the half. */
INLINE __m256 decode_eight(const uint8_t *codes, scaled_table table) {
  __m256i shifts = _mm256_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24);
  __m256i bytes = _mm256_set1_epi32((int)nabla_load_le32(codes));
  __m256i nibbles = _mm256_srlv_epi32(bytes, shifts);
  __m256 half = _mm256_castsi256_ps(_mm256_slli_epi32(nibbles, 28));
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.low, nibbles),
                          _mm256_permutevar8x32_ps(table.high, nibbles), half);
}

/* Whole blocks. */
INLINE void decode_whole(const uint8_t *codes, const float *scales,
                         size_t count, size_t block, float *out,
                         scaled_table values, int stream) {
  for (size_t at = 0; at < count; at += block) {
    __m256 scale = _mm256_set1_ps(*scales++);
    scaled_table table = {_mm256_mul_ps(values.low, scale),
                          _mm256_mul_ps(values.high, scale)};
    for (size_t i = at; i < at + block; i += 16) {
      const uint8_t *from = codes + i / 2;
      store_vector(out + i, decode_eight(from, table), stream);
      store_vector(out + i + 8, decode_eight(from + 4, table), stream);
    }
  }
  if (stream) _mm_sfence();
}

INLINE void decode_nibbles(const uint8_t *codes, const float *scales,
                           size_t count, size_t block, float *out,
                           const float values[16],
                           nabla_kernel_decode *scalar) {
  scaled_table table = {_mm256_loadu_ps(values), _mm256_loadu_ps(values + 8)};
  /* Hides that FP4's halves are each other's negatives: compilers would negate
   * products instead, which changes the sign of NaN. */
  __asm__("" : "+x"(table.high));
  size_t whole = count / block * block;
  if (nabla_should_stream(out, count))
    decode_whole(codes, scales, whole, block, out, table, 1);
  else
    decode_whole(codes, scales, whole, block, out, table, 0);
  if (whole < count)
    scalar(codes + whole / 2, scales + whole / block, count - whole, block,
           out + whole);
}

#endif
