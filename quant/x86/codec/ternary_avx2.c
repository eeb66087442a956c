/* Ternary for AVX2: the bits of quant/codec/ternary.c. */
#include <math.h>

#include "quant/x86/decode/decode_avx2.h"
#include "quant/x86/encode/code_avx2.h"

/* rint(x / scale) is not 0 where 2|x| > |scale|, and has the sign of both; a
 * scale of 0 gives 0. Code 1 is where neither side is. */
INLINE void ternary_unit(unit_place at, const unit_scales *scales,
                         const void *unused) {
  (void)unused;
  const __m256 minus = _mm256_set1_ps(-0.0f), none = _mm256_set1_ps(INFINITY);
  __m256 twice[2], bound[2], above[4], below[4];
  for (int i = 0; i < 2; i++) {
    const __m256 scale = scales->scale[i], sign = _mm256_and_ps(scale, minus);
    const __m256 zero = _mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_EQ_OQ);
    twice[i] = _mm256_or_ps(_mm256_set1_ps(2.0f), sign);
    bound[i] = _mm256_or_ps(magnitude_of(scale), _mm256_and_ps(zero, none));
  }
  for (int j = 0; j < 4; j++) {
    const __m256 x = load_part(at.in, at.dtype, (size_t)j);
    const __m256 doubled = _mm256_mul_ps(x, twice[j / 2]);
    const __m256 least = _mm256_xor_ps(bound[j / 2], minus);
    above[j] = _mm256_cmp_ps(doubled, bound[j / 2], _CMP_GT_OQ);
    below[j] = _mm256_cmp_ps(doubled, least, _CMP_LT_OQ);
  }
  const uint32_t twos = bits_of(above, at.dtype),
                 ones = ~(twos | bits_of(below, at.dtype));
  const uint64_t even = UINT64_C(0x5555555555555555);
  const uint64_t codes = _pdep_u64(ones, even) | _pdep_u64(twos, even << 1);
  memcpy(at.codes, &codes, sizeof codes);
}

CODE_STAGE(ternary, avx2, 2, ternary_unit, no_tables, NO_TABLES)

/* What the four codes decode to, in both halves. */
INLINE __m256 ternary_table(float scale, float zero) {
  const __m256 q = _mm256_setr_ps(-1, 0, 1, 2, -1, 0, 1, 2);
  return _mm256_mul_ps(_mm256_sub_ps(q, _mm256_set1_ps(zero)),
                       _mm256_set1_ps(scale));
}

/* To f32: a lane looks its code up by its two lowest bits. */
INLINE void ternary_wide(unit_target at, unit_blocks blocks, size_t units) {
  const __m256i shifts = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
  __m256 table[2];
  for (int j = 0; j < 2; j++)
    table[j] = ternary_table(blocks.scale[j], blocks.zero[j]);
  for (size_t i = 0; i < units * UNIT; i += UNIT) {
    __m256 x[4];
    look_ahead(at, i, 2);
    for (size_t j = 0; j < 4; j += 2) {
      const __m256i codes =
          _mm256_set1_epi32((int)nabla_load_le32(at.codes + i / 4 + 2 * j));
      const __m256i low = _mm256_srlv_epi32(codes, shifts);
      const __m256i high = _mm256_srli_epi32(low, 16);
      x[j] = _mm256_permutevar_ps(table[j / 2], low);
      x[j + 1] = _mm256_permutevar_ps(table[j / 2], high);
    }
    put_unit(at, i, x);
  }
}

/* To 16 bits: the two values of a dword have tables of their own, which leave
 * the other half 0. */
INLINE void ternary_narrow(unit_target at, unit_blocks blocks, size_t units) {
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  __m256 first[2], second[2];
  for (int j = 0; j < 2; j++) {
    const __m256 table = ternary_table(blocks.scale[j], blocks.zero[j]);
    const __m256i wide = _mm256_cvtepu16_epi32(
        _mm256_castsi256_si128(narrow(table, table, at.dtype)));
    first[j] = _mm256_castsi256_ps(wide);
    second[j] = _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  for (size_t i = 0; i < units * UNIT; i += UNIT) {
    look_ahead(at, i, 2);
    for (size_t j = 0; j < 2; j++) {
      const __m256i codes =
          _mm256_set1_epi32((int)nabla_load_le32(at.codes + i / 4 + 4 * j));
      const __m256i low = _mm256_srlv_epi32(codes, shifts);
      const __m256i high = _mm256_srli_epi32(low, 2);
      const __m256 both = _mm256_or_ps(_mm256_permutevar_ps(first[j], low),
                                       _mm256_permutevar_ps(second[j], high));
      put_bytes(at.out + 2 * (i + 16 * j), _mm256_castps_si256(both),
                at.stream);
    }
  }
}

INLINE void ternary_run(unit_target at, unit_blocks blocks, size_t units,
                        const void *unused) {
  (void)unused;
  if (at.dtype == NABLA_DTYPE_F32)
    ternary_wide(at, blocks, units);
  else
    ternary_narrow(at, blocks, units);
}

DECODE_STAGE(ternary, 2, ternary_run, NULL)
