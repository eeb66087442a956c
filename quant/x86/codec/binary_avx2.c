/* Binary for AVX2: the bits of quant/codec/binary.c. */
#include "quant/x86/decode/decode_avx2.h"
#include "quant/x86/encode/code_avx2.h"

/* Whether words are values that are not negative, -0 among these: its bits are
 * the least of all as integers. */
INLINE __m256i not_negative(__m256i words) {
  const __m256i least = _mm256_set1_epi16(INT16_MIN);
  return _mm256_or_si256(_mm256_cmpgt_epi16(words, _mm256_set1_epi16(-1)),
                         _mm256_cmpeq_epi16(words, least));
}

INLINE void binary_unit(unit_place at, const unit_scales *scales,
                        const void *unused) {
  (void)scales;
  (void)unused;
  uint32_t bits;
  if (at.dtype == NABLA_DTYPE_F32) {
    __m256 compared[4];
    for (size_t j = 0; j < 4; j++)
      compared[j] = _mm256_cmp_ps(load_part(at.in, at.dtype, j),
                                  _mm256_setzero_ps(), _CMP_GE_OQ);
    bits = bits_of(compared, at.dtype);
  } else {
    const __m256i words = _mm256_packs_epi16(
        not_negative(load_bytes(at.in)), not_negative(load_bytes(at.in + 32)));
    bits =
        (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(words, 0xd8));
  }
  memcpy(at.codes, &bits, sizeof bits);
}

CODE_STAGE(binary, avx2, 1, binary_unit, no_tables, NO_TABLES)

/* -scale, its sign turned where the bit is set: the bit is moved to the sign,
 * by a shift, or by a multiplication where words have no such shift. */
INLINE void binary_wide(unit_target at, unit_blocks blocks, size_t units) {
  const __m256i shifts = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
  const __m256i sign = _mm256_set1_epi32(INT32_MIN);
  for (size_t i = 0; i < units * UNIT; i += UNIT) {
    look_ahead(at, i, 1);
    const __m256i codes =
        _mm256_set1_epi32((int)nabla_load_le32(at.codes + i / 8));
    __m256 x[4];
    for (int j = 0; j < 4; j++) {
      const __m256i eight = _mm256_srli_epi32(codes, 8 * j);
      const __m256i set =
          _mm256_and_si256(_mm256_sllv_epi32(eight, shifts), sign);
      x[j] = _mm256_xor_ps(_mm256_set1_ps(-blocks.scale[j / 2]),
                           _mm256_castsi256_ps(set));
    }
    put_unit(at, i, x);
  }
}

INLINE void binary_narrow(unit_target at, unit_blocks blocks, size_t units) {
  const __m256i places = _mm256_setr_epi16(
      INT16_MIN, 1 << 14, 1 << 13, 1 << 12, 1 << 11, 1 << 10, 1 << 9, 1 << 8,
      1 << 7, 1 << 6, 1 << 5, 1 << 4, 1 << 3, 1 << 2, 1 << 1, 1);
  const __m256i sign = _mm256_set1_epi16(INT16_MIN);
  __m256i scale[2];
  for (int j = 0; j < 2; j++) {
    const __m256 all = _mm256_set1_ps(-blocks.scale[j]);
    scale[j] = narrow(all, all, at.dtype);
  }
  for (size_t i = 0; i < units * UNIT; i += UNIT) {
    look_ahead(at, i, 1);
    for (size_t j = 0; j < 2; j++) {
      const uint8_t *from = at.codes + i / 8 + 2 * j;
      const __m256i codes = _mm256_set1_epi16((short)nabla_load_le16(from));
      const __m256i set =
          _mm256_and_si256(_mm256_mullo_epi16(codes, places), sign);
      put_bytes(at.out + 2 * (i + 16 * j), _mm256_xor_si256(scale[j], set),
                at.stream);
    }
  }
}

INLINE void binary_run(unit_target at, unit_blocks blocks, size_t units,
                       const void *unused) {
  (void)unused;
  if (at.dtype == NABLA_DTYPE_F32)
    binary_wide(at, blocks, units);
  else
    binary_narrow(at, blocks, units);
}

DECODE_STAGE(binary, 1, binary_run, NULL)
