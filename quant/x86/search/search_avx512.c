/* The fast search with AVX-512, for sixteen blocks at a time; results per block
 * are in one lane each. quant/search/search_table.c describes the method. */
#include <immintrin.h>
#include <string.h>

#include "quant/search/search_sums.h"
#include "quant/x86/immediate_avx512.h"

enum { BATCH = 16, FLUSH = 16 };

typedef struct tables {
  const nabla_search_table *t;
  __m512 thresholds_low, thresholds_high, below_low, below_high, above_low,
      above_high, reach, per_unit, middle;
} tables;

#define INLINE static inline __attribute__((always_inline))

INLINE tables tables_of(const nabla_search_table *t) {
  return (tables){.t = t,
                  .thresholds_low = _mm512_load_ps(t->thresholds),
                  .thresholds_high = _mm512_load_ps(t->thresholds + 16),
                  .below_low = _mm512_load_ps(t->below),
                  .below_high = _mm512_load_ps(t->below + 16),
                  .above_low = _mm512_load_ps(t->above),
                  .above_high = _mm512_load_ps(t->above + 16),
                  .reach = _mm512_set1_ps(t->reach),
                  .per_unit = _mm512_set1_ps(t->per_unit),
                  .middle = _mm512_set1_ps(16.0f)};
}

/* Sixteen vectors, one per block, to be reduced to one vector with a lane per
 * block. They are in memory because loops over blocks are not unrolled: that
 * would make half a megabyte of code and no difference in speed. */
typedef struct columns {
  __m512 of[BATCH]; /* block b at slots[b] */
} columns;

/* The slot of block b for which `folded` leaves its sum in lane b. */
static const uint8_t slots[BATCH] = {0, 2, 1, 3, 8,  10, 9,  11,
                                     4, 6, 5, 7, 12, 14, 13, 15};

INLINE __m512 add(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }

/* Returns the larger of two magnitudes, which compare like unsigned integers.
 */
INLINE __m512 larger(__m512 a, __m512 b) {
  return _mm512_castsi512_ps(
      _mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}

/* Reduces lanes that are 8, 4, 2 and 1 apart. */
INLINE __m512 folded(const columns *c, __m512 (*join)(__m512, __m512)) {
  __m512 a[8], b[4], d[2];
  for (int i = 0; i < 8; i++)
    a[i] = join(_mm512_shuffle_f32x4(c->of[i], c->of[i + 8], 0x44),
                _mm512_shuffle_f32x4(c->of[i], c->of[i + 8], 0xee));
  for (int i = 0; i < 4; i++)
    b[i] = join(_mm512_shuffle_f32x4(a[i], a[i + 4], 0x88),
                _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd));
  for (int i = 0; i < 2; i++)
    d[i] = join(_mm512_shuffle_ps(b[i], b[i + 2], 0x44),
                _mm512_shuffle_ps(b[i], b[i + 2], 0xee));
  return join(_mm512_shuffle_ps(d[0], d[1], 0x88),
              _mm512_shuffle_ps(d[0], d[1], 0xdd));
}

/* Magnitudes in the high bits, the sign in the lowest. */
INLINE __m512 key_of(const float *in) {
  return _mm512_castsi512_ps(_mm512_rol_epi32(_mm512_loadu_si512(in), 1));
}

/* The value of largest magnitude of each block. */
INLINE __m512 peaks_of(const float *in, int vectors) {
  columns c;
#pragma GCC unroll 1
  for (int b = 0; b < BATCH; b++) {
    const float *block = in + 16 * vectors * b;
    __m512 most = key_of(block);
    for (int v = 1; v < vectors; v++)
      most = larger(most, key_of(block + 16 * v));
    c.of[slots[b]] = most;
  }
  return _mm512_castsi512_ps(
      _mm512_ror_epi32(_mm512_castps_si512(folded(&c, larger)), 1));
}

/* The 8-bit values of the batch, and their bins; dword b of each vector has
 * four values of block b. */
typedef struct bytes {
  __m512i value[NABLA_SEARCH_LARGEST / 4], bin[NABLA_SEARCH_LARGEST / 4];
} bytes;

INLINE __m512i whole(const float *in, float unit) {
  return _mm512_cvtps_epi32(
      _mm512_mul_ps(_mm512_loadu_ps(in), _mm512_set1_ps(unit)));
}

/* 128-bit lane L of the result has the values 4L .. 4L + 3 of four blocks. */
INLINE __m512i four_blocks(const float *in, int vectors, const float *unit) {
  const int stride = 16 * vectors;
  return _mm512_packs_epi16(
      _mm512_packs_epi32(whole(in, unit[0]), whole(in + stride, unit[1])),
      _mm512_packs_epi32(whole(in + 2 * stride, unit[2]),
                         whole(in + 3 * stride, unit[3])));
}

INLINE void put_bytes(bytes *out, int at, __m512i value) {
  out->value[at] = value;
  /* Only the lowest 7 bits of a bin are used; the shift leaves a foreign bit in
   * the highest. */
  out->bin[at] = _mm512_srli_epi16(
      _mm512_xor_si512(value, _mm512_set1_epi8((char)0x80)), 1);
}

INLINE void bytes_of(const float *in, int vectors, __m512 unit, bytes *out) {
  _Alignas(64) float units[BATCH];
  _mm512_store_ps(units, unit);
  for (int v = 0; v < vectors; v++) {
    __m512i z[4], half[4];
    for (int i = 0; i < 4; i++)
      z[i] =
          four_blocks(in + 16 * v + 64 * vectors * i, vectors, units + 4 * i);
    half[0] = _mm512_shuffle_i32x4(z[0], z[1], 0x44);
    half[1] = _mm512_shuffle_i32x4(z[2], z[3], 0x44);
    half[2] = _mm512_shuffle_i32x4(z[0], z[1], 0xee);
    half[3] = _mm512_shuffle_i32x4(z[2], z[3], 0xee);
    put_bytes(out, 4 * v, _mm512_shuffle_i32x4(half[0], half[1], 0x88));
    put_bytes(out, 4 * v + 1, _mm512_shuffle_i32x4(half[0], half[1], 0xdd));
    put_bytes(out, 4 * v + 2, _mm512_shuffle_i32x4(half[2], half[3], 0x88));
    put_bytes(out, 4 * v + 3, _mm512_shuffle_i32x4(half[2], half[3], 0xdd));
  }
}

/* Adds squares of differences over at most FLUSH vectors: sums of pairs fit in
 * 16 bits (NABLA_SEARCH_MISS). */
INLINE __m512i misses(const bytes *x, int from, int vectors, __m512i low,
                      __m512i high) {
  __m512i sum = _mm512_setzero_si512();
  for (int i = from; i < vectors && i < from + FLUSH; i++) {
    const __m512i miss = _mm512_abs_epi8(_mm512_sub_epi8(
        x->value[i], _mm512_permutex2var_epi8(low, x->bin[i], high)));
    sum = _mm512_add_epi16(sum, _mm512_maddubs_epi16(miss, miss));
  }
  return _mm512_madd_epi16(sum, _mm512_set1_epi16(1));
}

/* Returns the best factor of each block. */
INLINE __m512 best_factors(const tables *t, const bytes *x, int vectors) {
  __m512i least = _mm512_set1_epi32(INT32_MAX);
  __m512i best = _mm512_setzero_si512();
  for (int k = 0; k < NABLA_SEARCH_CANDIDATES; k++) {
    const __m512i low = _mm512_load_si512(t->t->steps[k]);
    const __m512i high = _mm512_load_si512(t->t->steps[k] + 64);
    __m512i sum = _mm512_setzero_si512();
    for (int i = 0; i < 4 * vectors; i += FLUSH)
      sum = _mm512_add_epi32(sum, misses(x, i, 4 * vectors, low, high));
    const __mmask16 is_better = _mm512_cmplt_epi32_mask(sum, least);
    least = _mm512_min_epi32(sum, least);
    best = _mm512_mask_mov_epi32(best, is_better, _mm512_set1_epi32(k));
  }
  return _mm512_permutexvar_ps(best, _mm512_load_ps(t->t->factors));
}

/* Decoded values with scale 1. */
INLINE __m512 value_of(const tables *t, __m512 x, __m512 factor) {
  const __m512 s = signed_min_magnitude(_mm512_mul_ps(x, factor), t->reach);
  const __m512i bin = _mm512_cvttps_epi32(
      _mm512_add_ps(_mm512_mul_ps(s, t->per_unit), t->middle));
  const __m512 threshold =
      _mm512_permutex2var_ps(t->thresholds_low, bin, t->thresholds_high);
  const __mmask16 is_above = _mm512_cmp_ps_mask(s, threshold, _CMP_GT_OQ);
  const __m512 below = _mm512_permutex2var_ps(t->below_low, bin, t->below_high);
  const __m512 above = _mm512_permutex2var_ps(t->above_low, bin, t->above_high);
  return _mm512_mask_mov_ps(below, is_above, above);
}

INLINE __m512 refined(const tables *t, const float *in, int vectors,
                      __m512 scale) {
  columns products, squares;
  _Alignas(64) float factors[BATCH];
  _mm512_store_ps(factors, _mm512_div_ps(_mm512_set1_ps(1.0f), scale));
#pragma GCC unroll 1
  for (int b = 0; b < BATCH; b++) {
    const __m512 factor = _mm512_set1_ps(factors[b]);
    __m512 xq = _mm512_setzero_ps(), qq = xq;
    for (int v = 0; v < vectors; v++) {
      const __m512 x = _mm512_loadu_ps(in + 16 * vectors * b + 16 * v);
      const __m512 q = value_of(t, x, factor);
      xq = add(xq, _mm512_mul_ps(x, q));
      qq = add(qq, _mm512_mul_ps(q, q));
    }
    products.of[slots[b]] = xq;
    squares.of[slots[b]] = qq;
  }
  return _mm512_div_ps(folded(&products, add), folded(&squares, add));
}

INLINE __m512 errors_of(const tables *t, const float *in, int vectors,
                        __m512 scale) {
  columns sums;
  _Alignas(64) float scales[BATCH], factors[BATCH];
  _mm512_store_ps(scales, scale);
  _mm512_store_ps(factors, _mm512_div_ps(_mm512_set1_ps(1.0f), scale));
#pragma GCC unroll 1
  for (int b = 0; b < BATCH; b++) {
    const __m512 one = _mm512_set1_ps(scales[b]);
    const __m512 factor = _mm512_set1_ps(factors[b]);
    __m512 sum = _mm512_setzero_ps();
    for (int v = 0; v < vectors; v++) {
      const __m512 x = _mm512_loadu_ps(in + 16 * vectors * b + 16 * v);
      const __m512 miss =
          _mm512_sub_ps(x, _mm512_mul_ps(value_of(t, x, factor), one));
      sum = add(sum, _mm512_mul_ps(miss, miss));
    }
    sums.of[slots[b]] = sum;
  }
  return folded(&sums, add);
}

INLINE __m512 rounded(__m512 scale, nabla_scale_type type) {
  if (type == NABLA_SCALE_F16) return _mm512_cvtph_ps(to_f16(scale));
  if (type != NABLA_SCALE_BF16) return scale;
  _Alignas(64) float scales[BATCH];
  _mm512_store_ps(scales, scale);
  for (int b = 0; b < BATCH; b++)
    scales[b] = nabla_search_rounded(scales[b], type);
  return _mm512_load_ps(scales);
}

INLINE __m512 search_batch(const tables *t, const float *in, int vectors,
                           nabla_scale_type type) {
  const nabla_search_range range = nabla_search_range_of(type);
  const __m512 peak = peaks_of(in, vectors), absmax = _mm512_abs_ps(peak);
  const __m512 base = t->t->is_signed ? peak : absmax;
  const __m512 wanted =
      _mm512_add_ps(_mm512_div_ps(base, _mm512_set1_ps(t->t->limit)),
                    _mm512_setzero_ps()); /* -0 is 0 */
  const __m512 plain = rounded(wanted, type);
  const __mmask16 is_usual =
      _mm512_cmp_ps_mask(absmax, _mm512_set1_ps(range.low), _CMP_GE_OQ) &
      _mm512_cmp_ps_mask(absmax, _mm512_set1_ps(range.high), _CMP_LE_OQ);
  if (is_usual == 0) return plain;
  bytes x;
  bytes_of(
      in, vectors,
      _mm512_maskz_div_ps(is_usual, _mm512_set1_ps(NABLA_SEARCH_PEAK), base),
      &x);
  const __m512 first = _mm512_mul_ps(wanted, best_factors(t, &x, vectors));
  const __m512 scale = rounded(refined(t, in, vectors, first), type);
  const __mmask16 is_better =
      _mm512_mask_cmp_ps_mask(is_usual, errors_of(t, in, vectors, scale),
                              errors_of(t, in, vectors, plain), _CMP_LT_OQ);
  return _mm512_mask_mov_ps(plain, is_better, scale);
}

INLINE void search_all(const nabla_search_table *table, const float *in,
                       size_t count, int vectors, nabla_scale_type type,
                       float *scales) {
  const tables t = tables_of(table);
  const size_t block = 16 * (size_t)vectors, step = BATCH * block;
  float rest[BATCH * NABLA_SEARCH_LARGEST];
  for (size_t at = 0; at < count; at += step, scales += BATCH) {
    const float *from = in + at;
    __mmask16 stored = 0xffff;
    if (count - at < step) { /* the last blocks, and zeros */
      memset(rest, 0, step * sizeof *rest);
      memcpy(rest, from, (count - at) * sizeof *in);
      from = rest;
      stored = (__mmask16)((1u << ((count - at + block - 1) / block)) - 1);
    }
    _mm512_mask_storeu_ps(scales, stored,
                          search_batch(&t, from, vectors, type));
  }
}

void nabla_search_blocks_avx512(const nabla_search_table *table,
                                const float *in, size_t count, size_t block,
                                nabla_scale_type type, float *scales) {
  switch (block) {
    case 16:
      search_all(table, in, count, 1, type, scales);
      return;
    case 32:
      search_all(table, in, count, 2, type, scales);
      return;
    case 64:
      search_all(table, in, count, 4, type, scales);
      return;
    case 128:
      search_all(table, in, count, 8, type, scales);
      return;
    default:
      search_all(table, in, count, 16, type, scales);
      return;
  }
}

typedef struct sums {
  __m512 miss_miss, miss_code, code_code;
} sums;

INLINE void add_products(sums *s, __m512 x, __m512 code, __m512 weight,
                         int has_weight, __m512 scale) {
  const __m512 miss = _mm512_sub_ps(x, _mm512_mul_ps(code, scale));
  __m512 mm = _mm512_mul_ps(miss, miss), mc = _mm512_mul_ps(miss, code),
         cc = _mm512_mul_ps(code, code);
  if (has_weight) {
    mm = _mm512_mul_ps(weight, mm);
    mc = _mm512_mul_ps(weight, mc);
    cc = _mm512_mul_ps(weight, cc);
  }
  s->miss_miss = add(s->miss_miss, mm);
  s->miss_code = add(s->miss_code, mc);
  s->code_code = add(s->code_code, cc);
}

INLINE float folded_one(__m512 v) {
  const __m256 a =
      _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 b =
      _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

INLINE nabla_search_sums sum_all(const float *in, const float *codes,
                                 const float *weights, size_t count,
                                 __m512 scale, int has_weights) {
  const __m512 zero = _mm512_setzero_ps();
  sums s = {zero, zero, zero};
  __m512 weight = zero;
  size_t i = 0;
  for (; count - i >= 16; i += 16) {
    if (has_weights) weight = _mm512_loadu_ps(weights + i);
    add_products(&s, _mm512_loadu_ps(in + i), _mm512_loadu_ps(codes + i),
                 weight, has_weights, scale);
  }
  if (i < count) {
    const __mmask16 left = (__mmask16)((1u << (count - i)) - 1);
    if (has_weights) weight = _mm512_maskz_loadu_ps(left, weights + i);
    add_products(&s, _mm512_maskz_loadu_ps(left, in + i),
                 _mm512_maskz_loadu_ps(left, codes + i), weight, has_weights,
                 scale);
  }
  return (nabla_search_sums){.miss_miss = folded_one(s.miss_miss),
                             .miss_code = folded_one(s.miss_code),
                             .code_code = folded_one(s.code_code)};
}

nabla_search_sums nabla_search_sum_avx512(const float *in, const float *codes,
                                          const float *weights, size_t count,
                                          float scale) {
  const __m512 all = _mm512_set1_ps(scale);
  return weights ? sum_all(in, codes, weights, count, all, 1)
                 : sum_all(in, codes, weights, count, all, 0);
}
