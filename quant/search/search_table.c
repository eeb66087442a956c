/* The fast search: its tables, and the scalar code that defines the result. */
#include "quant/search/search_table.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "lib/base/floats.h"
#include "quant/search/search_sums.h"

static const struct {
  const char *encoding;
  float low, high;
  int signs, has_table;
} kinds[] = {
#define SEARCH(id, low, high, widen, count, signs, moves, fits, table) \
  {#id, low, high, signs, table},
#include "quant/search/searches.def"
#undef SEARCH
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static nabla_search_table tables[KINDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static float value_of_scaled(const nabla_recipe *recipe, float scaled) {
  const nabla_scaler s = {
      .scale = 1.0f, .factor = 1.0f, .divisor = 1.0f, .times = 1.0f};
  return recipe->value(recipe->code(scaled, &s));
}

/* Floats in their order, as integers: -0 and 0 are both 0. */
static int64_t rank_of(float x) {
  const uint32_t bits = nabla_bits_of_f32(x);
  const int64_t magnitude = (int64_t)(bits & NABLA_F32_MAGNITUDE);
  return bits >> 31 ? -magnitude : magnitude;
}

static float of_rank(int64_t rank) {
  return rank < 0 ? -nabla_f32_of_bits((uint32_t)-rank)
                  : nabla_f32_of_bits((uint32_t)rank);
}

/* The largest float in [low, high] with a value (or a bin) like that of `low`;
 * either never falls. */
static float last_alike(const nabla_search_table *t, float low, float high,
                        int of_bins) {
  int64_t first = rank_of(low), last = rank_of(high);
  const float want = of_bins
                         ? (float)nabla_search_bin(t->per_unit, t->reach, low)
                         : value_of_scaled(t->recipe, low);
  while (first < last) {
    const int64_t middle = first + (last - first) / 2 + 1;
    const float x = of_rank(middle);
    const float have = of_bins
                           ? (float)nabla_search_bin(t->per_unit, t->reach, x)
                           : value_of_scaled(t->recipe, x);
    if (have == want)
      first = middle;
    else
      last = middle - 1;
  }
  return of_rank(first);
}

/* Goes through the bins from -reach up. Bins that no scaled value reaches keep
 * zeros. */
static void fill_bins(nabla_search_table *t) {
  float low = -t->reach;
  for (unsigned step = 0;;) {
    assert(step < 16);
    const int bin = nabla_search_bin(t->per_unit, t->reach, low);
    const float high = last_alike(t, low, t->reach, 1);
    const float last = last_alike(t, low, high, 0);
    t->below[bin] = value_of_scaled(t->recipe, low);
    t->above[bin] = value_of_scaled(t->recipe, high);
    t->thresholds[bin] = last;
    t->first[bin] = (uint8_t)step;
    t->values[step] = t->below[bin];
    t->ends[step] = last;
    if (last != high) t->values[++step] = t->above[bin];
    /* At most one threshold in a bin. */
    assert(last == high ||
           last_alike(t, of_rank(rank_of(last) + 1), high, 0) == high);
    if (high == t->reach) return;
    low = of_rank(rank_of(high) + 1);
  }
}

static void fill_steps(nabla_search_table *t) {
  const int peak = NABLA_SEARCH_PEAK;
  for (int k = 0; k < NABLA_SEARCH_CANDIDATES; k++) {
    const double factor = (double)t->factors[k];
    for (int bin = 0; bin < NABLA_SEARCH_STEPS; bin++) {
      /* Between the two of the bin, but 0 stays 0, and fills blocks up. */
      const double x = bin == NABLA_SEARCH_STEPS / 2 ? 0.0 : 2 * bin - 127.5;
      const double scaled = x / (double)peak / factor * (double)t->limit;
      const double back = (double)value_of_scaled(t->recipe, (float)scaled) *
                          factor / (double)t->limit * (double)peak;
      assert(fabs(back) < 127.5);
      t->steps[k][bin] = (int8_t)lrint(back);
      assert(fabs(x) > NABLA_SEARCH_PEAK + 1 ||
             fabs(x - t->steps[k][bin]) <= NABLA_SEARCH_MISS - 0.5);
    }
  }
}

static void fill_table(size_t kind) {
  nabla_search_table *t = &tables[kind];
  t->recipe = nabla_recipe_find(nabla_encoding_find(kinds[kind].encoding));
  t->limit = t->recipe->limit;
  t->reach = fabsf(t->limit);
  t->is_signed = t->recipe->statistic == NABLA_STATISTIC_PEAK;
  t->per_unit = 15.5f / t->reach;
  const int each = NABLA_SEARCH_CANDIDATES / kinds[kind].signs;
  for (int k = 0; k < NABLA_SEARCH_CANDIDATES; k++) {
    const float step = (kinds[kind].high - kinds[kind].low) / (float)(each - 1);
    const float factor = kinds[kind].low + step * (float)(k % each);
    t->factors[k] = k < each ? factor : -factor;
  }
  fill_bins(t);
  fill_steps(t);
}

static void fill(void) {
  for (size_t i = 0; i < KINDS; i++)
    if (kinds[i].has_table) fill_table(i);
}

const nabla_search_table *nabla_search_table_find(
    const nabla_encoding *encoding) {
  for (size_t i = 0; i < KINDS; i++) {
    if (!kinds[i].has_table || strcmp(kinds[i].encoding, encoding->name) != 0)
      continue;
    pthread_once(&once, fill);
    return &tables[i];
  }
  return NULL;
}

/* Values of a block, of a multiple of 16 elements: zeros fill the last 16, and
 * change no sum. */
typedef struct padded {
  float values[NABLA_SEARCH_LARGEST];
  size_t count;
} padded;

static int best_candidate(const nabla_search_table *t, const padded *x,
                          float base) {
  const float unit = (float)NABLA_SEARCH_PEAK / base;
  int32_t least = INT32_MAX;
  int best = 0;
  for (int k = 0; k < NABLA_SEARCH_CANDIDATES; k++) {
    int32_t sum = 0;
    for (size_t i = 0; i < x->count; i++) {
      const int byte = (int)rintf(x->values[i] * unit);
      const int miss = byte - t->steps[k][(byte + 128) >> 1];
      sum += miss * miss;
    }
    if (sum < least) least = sum, best = k;
  }
  return best;
}

static void values_of(const nabla_search_table *t, const padded *x, float scale,
                      float *out) {
  const float factor = 1.0f / scale;
  for (size_t i = 0; i < x->count; i++)
    out[i] = nabla_search_value(t, x->values[i] * factor);
}

/* Least squares: <x, q> / <q, q>. */
static float refined(const nabla_search_table *t, const padded *x,
                     float scale) {
  float q[NABLA_SEARCH_LARGEST];
  float xq[16] = {0}, qq[16] = {0};
  values_of(t, x, scale, q);
  for (size_t i = 0; i < x->count; i++) {
    xq[i % 16] += x->values[i] * q[i];
    qq[i % 16] += q[i] * q[i];
  }
  return nabla_search_sum16(xq) / nabla_search_sum16(qq);
}

static float error_of(const nabla_search_table *t, const padded *x,
                      float scale) {
  float q[NABLA_SEARCH_LARGEST];
  float sum[16] = {0};
  values_of(t, x, scale, q);
  for (size_t i = 0; i < x->count; i++) {
    const float miss = x->values[i] - q[i] * scale;
    sum[i % 16] += miss * miss;
  }
  return nabla_search_sum16(sum);
}

static float search_block(const nabla_search_table *t, const padded *x,
                          nabla_scale_type type) {
  const nabla_search_range range = nabla_search_range_of(type);
  float base;
  (t->is_signed ? nabla_any_peak_scalar : nabla_any_absmax_scalar)(
      x->values, NABLA_DTYPE_F32, x->count, x->count, &base);
  const float plain = nabla_search_rounded(base / t->limit + 0.0f, type);
  if (!(fabsf(base) >= range.low && fabsf(base) <= range.high)) return plain;
  const int best = best_candidate(t, x, base);
  const float scale = nabla_search_rounded(
      refined(t, x, base / t->limit * t->factors[best]), type);
  return error_of(t, x, scale) < error_of(t, x, plain) ? scale : plain;
}

void nabla_search_blocks_scalar(const nabla_search_table *table,
                                const float *in, size_t count, size_t block,
                                nabla_scale_type type, float *scales) {
  for (size_t at = 0; at < count; at += block) {
    const size_t size = count - at < block ? count - at : block;
    padded x = {.count = (size + 15) / 16 * 16};
    memcpy(x.values, in + at, size * sizeof *in);
    *scales++ = search_block(table, &x, type);
  }
}

nabla_search_sums nabla_search_sum_scalar(const float *in, const float *codes,
                                          const float *weights, size_t count,
                                          float scale) {
  float mm[16] = {0}, mc[16] = {0}, cc[16] = {0};
  for (size_t i = 0; i < count; i++) {
    const float miss = in[i] - codes[i] * scale;
    const float weight = weights ? weights[i] : 1.0f;
    mm[i % 16] += weight * (miss * miss);
    mc[i % 16] += weight * (miss * codes[i]);
    cc[i % 16] += weight * (codes[i] * codes[i]);
  }
  return (nabla_search_sums){.miss_miss = nabla_search_sum16(mm),
                             .miss_code = nabla_search_sum16(mc),
                             .code_code = nabla_search_sum16(cc)};
}
