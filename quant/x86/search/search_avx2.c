/* The fast search with AVX2: eight blocks at a time, one in each lane wherever
 * whole blocks count. quant/search/search_table.c says what happens. */
#include <immintrin.h>
#include <string.h>

#include "quant/search/search_sums.h"

enum { BATCH = 8, FLUSH = 16, SIXTEENTHS = NABLA_SEARCH_STEPS / 16 };

typedef struct tables {
  const nabla_search_table *t;
  __m256i first_low, first_high;
  __m256 ends_low, ends_high, values_low, values_high, reach, per_unit;
} tables;

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i twice(const void *at) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(at));
}

INLINE tables tables_of(const nabla_search_table *t) {
  return (tables){.t = t,
                  .first_low = twice(t->first),
                  .first_high = twice(t->first + 16),
                  .ends_low = _mm256_load_ps(t->ends),
                  .ends_high = _mm256_load_ps(t->ends + 8),
                  .values_low = _mm256_load_ps(t->values),
                  .values_high = _mm256_load_ps(t->values + 8),
                  .reach = _mm256_set1_ps(t->reach),
                  .per_unit = _mm256_set1_ps(t->per_unit)};
}

/* Eight vectors on their way to one, whose lane b tells of block b. */
typedef struct columns {
  __m256 of[BATCH]; /* block b at SLOT(b) */
} columns;

/* Where block b goes so that `folded` leaves its sum in lane b. */
#define SLOT(b) (((b) & 1) * 2 + ((b) >> 1 & 1) + ((b) >> 2) * 4)

INLINE __m256 add(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }

/* Lanes are bits without sign. */
INLINE __m256 larger(__m256 a, __m256 b) {
  return _mm256_castsi256_ps(
      _mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

/* Folds lanes 4, 2 and 1 apart. */
INLINE __m256 folded(const columns *c, __m256 (*join)(__m256, __m256)) {
  __m256 a[4], b[2];
  for (int i = 0; i < 4; i++)
    a[i] = join(_mm256_permute2f128_ps(c->of[i], c->of[i + 4], 0x20),
                _mm256_permute2f128_ps(c->of[i], c->of[i + 4], 0x31));
  for (int i = 0; i < 2; i++)
    b[i] = join(_mm256_shuffle_ps(a[i], a[i + 2], 0x44),
                _mm256_shuffle_ps(a[i], a[i + 2], 0xee));
  return join(_mm256_shuffle_ps(b[0], b[1], 0x88),
              _mm256_shuffle_ps(b[0], b[1], 0xdd));
}

INLINE __m256 magnitude(__m256 x) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

/* Magnitudes above signs. */
INLINE __m256 key_of(const float *in) {
  const __m256i x = _mm256_castps_si256(_mm256_loadu_ps(in));
  return _mm256_castsi256_ps(
      _mm256_or_si256(_mm256_slli_epi32(x, 1), _mm256_srli_epi32(x, 31)));
}

/* The value of largest magnitude of each block. */
INLINE __m256 peaks_of(const float *in, int vectors) {
  columns c;
#pragma GCC unroll 8
  for (int b = 0; b < BATCH; b++) {
    const float *block = in + 8 * vectors * b;
    __m256 most = key_of(block);
    for (int v = 1; v < vectors; v++)
      most = larger(most, key_of(block + 8 * v));
    c.of[SLOT(b)] = most;
  }
  const __m256i most = _mm256_castps_si256(folded(&c, larger));
  return _mm256_castsi256_ps(
      _mm256_or_si256(_mm256_srli_epi32(most, 1), _mm256_slli_epi32(most, 31)));
}

/* The 8-bit values of the batch, and where their bins are: dword b of each
 * vector holds four values of block b. */
typedef struct bytes {
  __m256i value[NABLA_SEARCH_LARGEST / 4];
  /* The place within the sixteenth of the bins that has it; 0x80, of which a
   * shuffle makes 0, in the others. */
  __m256i place[NABLA_SEARCH_LARGEST / 4][SIXTEENTHS];
} bytes;

INLINE __m256i whole(const float *in, float unit) {
  return _mm256_cvtps_epi32(
      _mm256_mul_ps(_mm256_loadu_ps(in), _mm256_set1_ps(unit)));
}

/* 128-bit lane L of the result: values 4L .. 4L + 3 of four blocks. */
INLINE __m256i four_blocks(const float *in, int vectors, const float *unit) {
  const int stride = 8 * vectors;
  return _mm256_packs_epi16(
      _mm256_packs_epi32(whole(in, unit[0]), whole(in + stride, unit[1])),
      _mm256_packs_epi32(whole(in + 2 * stride, unit[2]),
                         whole(in + 3 * stride, unit[3])));
}

INLINE void put_bytes(bytes *out, int at, __m256i value) {
  const __m256i positive =
      _mm256_xor_si256(value, _mm256_set1_epi8((char)0x80));
  const __m256i bin =
      _mm256_and_si256(_mm256_srli_epi16(positive, 1), _mm256_set1_epi8(0x7f));
  out->value[at] = value;
  for (int j = 0; j < SIXTEENTHS; j++) {
    /* 0 to 15 where it is the right one, else beyond as bytes without sign,
     * which the saturating addition takes to 0x80 and above. */
    const __m256i place =
        _mm256_sub_epi8(bin, _mm256_set1_epi8((char)(16 * j)));
    out->place[at][j] = _mm256_adds_epu8(place, _mm256_set1_epi8(0x70));
  }
}

INLINE void bytes_of(const float *in, int vectors, __m256 unit, bytes *out) {
  _Alignas(32) float units[BATCH];
  _mm256_store_ps(units, unit);
  for (int v = 0; v < vectors; v++) {
    const __m256i low = four_blocks(in + 8 * v, vectors, units);
    const __m256i high =
        four_blocks(in + 8 * v + 32 * vectors, vectors, units + 4);
    put_bytes(out, 2 * v, _mm256_permute2x128_si256(low, high, 0x20));
    put_bytes(out, 2 * v + 1, _mm256_permute2x128_si256(low, high, 0x31));
  }
}

INLINE __m256i stepped(const __m256i *steps, const __m256i *place) {
  __m256i low = _mm256_setzero_si256(), high = low;
#pragma GCC unroll 4
  for (int j = 0; j < SIXTEENTHS; j += 2) {
    low = _mm256_or_si256(low, _mm256_shuffle_epi8(steps[j], place[j]));
    high =
        _mm256_or_si256(high, _mm256_shuffle_epi8(steps[j + 1], place[j + 1]));
  }
  return _mm256_or_si256(low, high);
}

/* Sums of squared misses over at most FLUSH vectors: in pairs they fit in 16
 * bits (NABLA_SEARCH_MISS). */
INLINE __m256i misses(const bytes *x, int from, int vectors,
                      const __m256i *steps) {
  __m256i sum = _mm256_setzero_si256();
  for (int i = from; i < vectors && i < from + FLUSH; i++) {
    const __m256i miss = _mm256_abs_epi8(
        _mm256_sub_epi8(x->value[i], stepped(steps, x->place[i])));
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(miss, miss));
  }
  return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

/* The best factor of each block. */
INLINE __m256 best_factors(const tables *t, const bytes *x, int vectors) {
  __m256i least = _mm256_set1_epi32(INT32_MAX);
  __m256 best = _mm256_setzero_ps();
  for (int k = 0; k < NABLA_SEARCH_CANDIDATES; k++) {
    __m256i steps[SIXTEENTHS];
#pragma GCC unroll 8
    for (int j = 0; j < SIXTEENTHS; j++)
      steps[j] = twice(t->t->steps[k] + 16 * j);
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < 2 * vectors; i += FLUSH)
      sum = _mm256_add_epi32(sum, misses(x, i, 2 * vectors, steps));
    const __m256i is_better = _mm256_cmpgt_epi32(least, sum);
    least = _mm256_min_epi32(sum, least);
    best = _mm256_blendv_ps(best, _mm256_set1_ps(t->t->factors[k]),
                            _mm256_castsi256_ps(is_better));
  }
  return best;
}

INLINE __m256 looked_up(__m256 low, __m256 high, __m256i at) {
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, at),
                          _mm256_permutevar8x32_ps(high, at),
                          _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)));
}

/* Decoded values with scale 1. */
INLINE __m256 value_of(const tables *t, __m256 x, __m256 factor) {
  const __m256 scaled = _mm256_mul_ps(x, factor);
  const __m256 s = _mm256_max_ps(_mm256_min_ps(scaled, t->reach),
                                 _mm256_sub_ps(_mm256_setzero_ps(), t->reach));
  const __m256i bin = _mm256_cvttps_epi32(
      _mm256_add_ps(_mm256_mul_ps(s, t->per_unit), _mm256_set1_ps(16.0f)));
  /* The three high bytes of a dword are 0 and stay first[0], which is 0. */
  const __m256i first = _mm256_blendv_epi8(
      _mm256_shuffle_epi8(t->first_low, bin),
      _mm256_shuffle_epi8(t->first_high, bin), _mm256_slli_epi16(bin, 3));
  const __m256 end = looked_up(t->ends_low, t->ends_high, first);
  const __m256i is_above =
      _mm256_castps_si256(_mm256_cmp_ps(s, end, _CMP_GT_OQ));
  return looked_up(t->values_low, t->values_high,
                   _mm256_sub_epi32(first, is_above));
}

INLINE __m256 refined(const tables *t, const float *in, int vectors,
                      __m256 scale) {
  columns products, squares;
  _Alignas(32) float factors[BATCH];
  _mm256_store_ps(factors, _mm256_div_ps(_mm256_set1_ps(1.0f), scale));
  for (int b = 0; b < BATCH; b++) {
    const __m256 factor = _mm256_set1_ps(factors[b]);
    __m256 xq[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    __m256 qq[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int v = 0; v < vectors; v++) {
      const __m256 x = _mm256_loadu_ps(in + 8 * vectors * b + 8 * v);
      const __m256 q = value_of(t, x, factor);
      xq[v % 2] = add(xq[v % 2], _mm256_mul_ps(x, q));
      qq[v % 2] = add(qq[v % 2], _mm256_mul_ps(q, q));
    }
    products.of[SLOT(b)] = add(xq[0], xq[1]);
    squares.of[SLOT(b)] = add(qq[0], qq[1]);
  }
  return _mm256_div_ps(folded(&products, add), folded(&squares, add));
}

INLINE __m256 errors_of(const tables *t, const float *in, int vectors,
                        __m256 scale) {
  columns sums;
  _Alignas(32) float scales[BATCH], factors[BATCH];
  _mm256_store_ps(scales, scale);
  _mm256_store_ps(factors, _mm256_div_ps(_mm256_set1_ps(1.0f), scale));
  for (int b = 0; b < BATCH; b++) {
    const __m256 one = _mm256_set1_ps(scales[b]);
    const __m256 factor = _mm256_set1_ps(factors[b]);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int v = 0; v < vectors; v++) {
      const __m256 x = _mm256_loadu_ps(in + 8 * vectors * b + 8 * v);
      const __m256 miss =
          _mm256_sub_ps(x, _mm256_mul_ps(value_of(t, x, factor), one));
      sum[v % 2] = add(sum[v % 2], _mm256_mul_ps(miss, miss));
    }
    sums.of[SLOT(b)] = add(sum[0], sum[1]);
  }
  return folded(&sums, add);
}

INLINE __m256 rounded(__m256 scale, nabla_scale_type type) {
  if (type == NABLA_SCALE_F16)
    return _mm256_cvtph_ps(_mm256_cvtps_ph(scale, _MM_FROUND_TO_NEAREST_INT));
  if (type != NABLA_SCALE_BF16) return scale;
  _Alignas(32) float scales[BATCH];
  _mm256_store_ps(scales, scale);
  for (int b = 0; b < BATCH; b++)
    scales[b] = nabla_search_rounded(scales[b], type);
  return _mm256_load_ps(scales);
}

INLINE __m256 search_batch(const tables *t, const float *in, int vectors,
                           nabla_scale_type type) {
  const nabla_search_range range = nabla_search_range_of(type);
  const __m256 peak = peaks_of(in, vectors), absmax = magnitude(peak);
  const __m256 base = t->t->is_signed ? peak : absmax;
  const __m256 wanted =
      _mm256_add_ps(_mm256_div_ps(base, _mm256_set1_ps(t->t->limit)),
                    _mm256_setzero_ps()); /* -0 is 0 */
  const __m256 plain = rounded(wanted, type);
  const __m256 is_usual = _mm256_and_ps(
      _mm256_cmp_ps(absmax, _mm256_set1_ps(range.low), _CMP_GE_OQ),
      _mm256_cmp_ps(absmax, _mm256_set1_ps(range.high), _CMP_LE_OQ));
  if (_mm256_movemask_ps(is_usual) == 0) return plain;
  bytes x;
  bytes_of(
      in, vectors,
      _mm256_and_ps(is_usual,
                    _mm256_div_ps(_mm256_set1_ps(NABLA_SEARCH_PEAK), base)),
      &x);
  const __m256 first = _mm256_mul_ps(wanted, best_factors(t, &x, vectors));
  const __m256 scale = rounded(refined(t, in, vectors, first), type);
  const __m256 is_better =
      _mm256_cmp_ps(errors_of(t, in, vectors, scale),
                    errors_of(t, in, vectors, plain), _CMP_LT_OQ);
  return _mm256_blendv_ps(plain, scale, _mm256_and_ps(is_usual, is_better));
}

INLINE void search_all(const nabla_search_table *table, const float *in,
                       size_t count, int vectors, nabla_scale_type type,
                       float *scales) {
  const tables t = tables_of(table);
  const size_t block = 8 * (size_t)vectors, step = BATCH * block;
  size_t at = 0;
  for (; count - at >= step; at += step, scales += BATCH)
    _mm256_storeu_ps(scales, search_batch(&t, in + at, vectors, type));
  if (at == count) return;
  float rest[BATCH * NABLA_SEARCH_LARGEST], last[BATCH];
  memset(rest, 0, step * sizeof *rest);
  memcpy(rest, in + at, (count - at) * sizeof *in);
  _mm256_storeu_ps(last, search_batch(&t, rest, vectors, type));
  memcpy(scales, last, (count - at + block - 1) / block * sizeof *scales);
}

void nabla_search_blocks_avx2(const nabla_search_table *table, const float *in,
                              size_t count, size_t block, nabla_scale_type type,
                              float *scales) {
  switch (block) {
    case 16:
      search_all(table, in, count, 2, type, scales);
      return;
    case 32:
      search_all(table, in, count, 4, type, scales);
      return;
    case 64:
      search_all(table, in, count, 8, type, scales);
      return;
    case 128:
      search_all(table, in, count, 16, type, scales);
      return;
    default:
      search_all(table, in, count, 32, type, scales);
      return;
  }
}

typedef struct sums {
  __m256 miss_miss, miss_code, code_code;
} sums;

INLINE void add_products(sums *s, __m256 x, __m256 code, __m256 weight,
                         int has_weight, __m256 scale) {
  const __m256 miss = _mm256_sub_ps(x, _mm256_mul_ps(code, scale));
  __m256 mm = _mm256_mul_ps(miss, miss), mc = _mm256_mul_ps(miss, code),
         cc = _mm256_mul_ps(code, code);
  if (has_weight) {
    mm = _mm256_mul_ps(weight, mm);
    mc = _mm256_mul_ps(weight, mc);
    cc = _mm256_mul_ps(weight, cc);
  }
  s->miss_miss = add(s->miss_miss, mm);
  s->miss_code = add(s->miss_code, mc);
  s->code_code = add(s->code_code, cc);
}

/* Of two vectors: lanes 8 apart, then 4, 2 and 1. */
INLINE float folded_two(__m256 low, __m256 high) {
  const __m256 a = add(low, high);
  const __m128 b =
      _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

INLINE void add_sixteen(sums s[2], const float *in, const float *codes,
                        const float *weights, __m256 scale, int has_weights) {
  for (int h = 0; h < 2; h++)
    add_products(&s[h], _mm256_loadu_ps(in + 8 * h),
                 _mm256_loadu_ps(codes + 8 * h),
                 has_weights ? _mm256_loadu_ps(weights + 8 * h) : scale,
                 has_weights, scale);
}

INLINE nabla_search_sums sum_all(const float *in, const float *codes,
                                 const float *weights, size_t count,
                                 __m256 scale, int has_weights) {
  const __m256 zero = _mm256_setzero_ps();
  sums s[2] = {{zero, zero, zero}, {zero, zero, zero}};
  size_t i = 0;
  for (; count - i >= 16; i += 16)
    add_sixteen(s, in + i, codes + i, has_weights ? weights + i : weights,
                scale, has_weights);
  if (i < count) {
    float rest[3][16] = {0};
    memcpy(rest[0], in + i, (count - i) * sizeof *in);
    memcpy(rest[1], codes + i, (count - i) * sizeof *in);
    if (has_weights) memcpy(rest[2], weights + i, (count - i) * sizeof *in);
    add_sixteen(s, rest[0], rest[1], rest[2], scale, has_weights);
  }
  return (nabla_search_sums){
      .miss_miss = folded_two(s[0].miss_miss, s[1].miss_miss),
      .miss_code = folded_two(s[0].miss_code, s[1].miss_code),
      .code_code = folded_two(s[0].code_code, s[1].code_code)};
}

nabla_search_sums nabla_search_sum_avx2(const float *in, const float *codes,
                                        const float *weights, size_t count,
                                        float scale) {
  const __m256 all = _mm256_set1_ps(scale);
  return weights ? sum_all(in, codes, weights, count, all, 1)
                 : sum_all(in, codes, weights, count, all, 0);
}
