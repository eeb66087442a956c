/* The search for any encoding, with weights or zero points. Each candidate is
 * encoded and decoded by the stages, the error of the decoded values is summed,
 * and least squares refine the best candidate (docs/FORMAT.md, E7). */
#include "quant/codec/search.h"

#include <math.h>
#include <string.h>

#include "quant/search/search_sums.h"
#include "quant/search/search_table.h"

typedef struct reach {
  float low, high, widen;
  int count, signs, moves, fits;
} reach;

/* Extends the range of candidates for larger blocks: the larger a block, the
 * further its absmax lies from its other values. */
static reach widened(reach r, uint64_t block) {
  for (; block > 64; block /= 2) r.low -= r.widen;
  return r;
}

static reach reach_of(const nabla_encoding *encoding) {
  static const struct {
    const char *name;
    reach reach;
  } rows[] = {
#define SEARCH(id, low, high, widen, count, signs, moves, fits, table) \
  {#id, {low, high, widen, count, signs, moves, fits}},
#include "quant/search/searches.def"
#undef SEARCH
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, encoding->name)) return rows[i].reach;
  return (reach){/* default for an encoding without a row */
                 .low = 0.8f,
                 .high = 1.1f,
                 .count = 16,
                 .signs = 1,
                 .fits = 1};
}

/* The scales, zero points and errors of one candidate for all blocks. */
typedef struct choice {
  float scale[NABLA_CHUNK_BLOCKS], zero[NABLA_CHUNK_BLOCKS],
      error[NABLA_CHUNK_BLOCKS];
} choice;

/* State of the search for some blocks. */
typedef struct work {
  const nabla_search *search;
  const nabla_stages *stages;
  const nabla_recipe *recipe;
  nabla_search_sum *sum;
  reach reach;
  const float *in;
  size_t count, block, blocks;
  int levels; /* the largest code with a zero point, else 0          */
  /* Statistics from which the plain scales are computed. A scale that is not
   * finite as computed stays so, and encoding refuses it. */
  float spread[NABLA_CHUNK_BLOCKS]; /* absmax, peak, mean or range */
  float middle[NABLA_CHUNK_BLOCKS]; /* of the range, with zero points */
  uint8_t is_searched[NABLA_CHUNK_BLOCKS];
  choice plain, best;
  choice fitted;  /* least squares with the codes of the best candidate */
  choice tried;   /* scales as computed; trial() replaces them by the stored
                   * ones */
  choice refined; /* least squares with the codes of `tried`            */
  float ones[NABLA_CHUNK_BLOCKS];
  int has_weights;
  float weights[NABLA_BLOCK_MAX]; /* weights of a block, at most 1 */
  float values[NABLA_BLOCK_MAX];
  uint8_t codes[NABLA_BLOCK_MAX];
} work;

/* Rounds z and clamps it to 0..levels (E4). */
static float zero_within(const work *w, float z) {
  z = rintf(z);
  return !(z > 0.0f) ? 0.0f : z < (float)w->levels ? z : (float)w->levels;
}

/* Computes the scales of encoding without search. */
static void find_plain(work *w) {
  float low[NABLA_CHUNK_BLOCKS], factors[NABLA_CHUNK_BLOCKS];
  float wanted[NABLA_CHUNK_BLOCKS], stored[NABLA_CHUNK_BLOCKS];
  int from_peaks = 0;
  if (w->levels) {
    w->stages->range(w->in, NABLA_DTYPE_F32, w->count, w->block, low,
                     w->spread);
    for (size_t i = 0; i < w->blocks; i++) {
      w->middle[i] = 0.5f * low[i] + 0.5f * w->spread[i];
      w->spread[i] -= low[i];
      wanted[i] = w->spread[i] / (float)w->levels;
    }
  } else if (w->recipe->statistic == NABLA_STATISTIC_MEAN) {
    w->stages->mean(w->in, NABLA_DTYPE_F32, w->count, w->block, w->spread);
    memcpy(wanted, w->spread, w->blocks * sizeof *wanted);
  } else {
    (w->recipe->statistic == NABLA_STATISTIC_PEAK ? w->stages->peak
                                                  : w->stages->absmax)(
        w->in, NABLA_DTYPE_F32, w->count, w->block, w->spread);
    memcpy(wanted, w->spread, w->blocks * sizeof *wanted);
    from_peaks = 1;
  }
  const nabla_rounding rounding = {.recipe = w->recipe,
                                   .type = w->search->format->scale,
                                   .from_peaks = from_peaks,
                                   .count = w->blocks,
                                   .wanted = wanted,
                                   .scales = w->plain.scale,
                                   .factors = factors,
                                   .stored = stored};
  w->stages->round(&rounding);
  for (size_t i = 0; i < w->blocks; i++) {
    const float scale = w->plain.scale[i];
    w->plain.zero[i] =
        w->levels && scale != 0.0f ? zero_within(w, -low[i] / scale) : 0.0f;
    const float size = fabsf(w->spread[i]);
    w->is_searched[i] = size >= 0x1p-60f && size <= 0x1p60f && isfinite(scale);
    if (!isfinite(wanted[i])) w->plain.scale[i] = wanted[i];
  }
}

static void keep(choice *best, const choice *other, size_t i) {
  if (!(other->error[i] < best->error[i])) return;
  best->scale[i] = other->scale[i];
  best->zero[i] = other->zero[i];
  best->error[i] = other->error[i];
}

/* Encodes with the scales of `tried` as they would be stored, computes the
 * errors and the least-squares scales for the resulting codes, and keeps a
 * candidate that is better. */
static void trial(work *w) {
  float factors[NABLA_CHUNK_BLOCKS], stored[NABLA_CHUNK_BLOCKS];
  float wanted[NABLA_CHUNK_BLOCKS], zeros[NABLA_CHUNK_BLOCKS];
  for (size_t i = 0; i < w->blocks; i++) {
    wanted[i] = w->is_searched[i] ? w->tried.scale[i] : 1.0f;
    zeros[i] = w->tried.zero[i] - (float)w->recipe->bias;
  }
  const nabla_rounding rounding = {.recipe = w->recipe,
                                   .type = w->search->format->scale,
                                   .count = w->blocks,
                                   .wanted = wanted,
                                   .scales = w->tried.scale,
                                   .factors = factors,
                                   .stored = stored};
  const int flags = w->stages->round(&rounding);
  nabla_blocks blocks = {.scales = w->tried.scale,
                         .zeros = w->levels ? zeros : NULL,
                         .factors = factors,
                         .divisors = w->tried.scale,
                         .times = 1.0f,
                         .after = 1.0f};
  (flags & NABLA_ROUND_DIVIDE ? w->stages->code_scalar : w->stages->code)(
      &blocks, w->in, NABLA_DTYPE_F32, w->count, w->block, w->codes);
  blocks.scales = w->ones;
  w->stages->decode(&blocks, w->codes, w->count, w->block, NABLA_DTYPE_F32,
                    w->values, 0);
  for (size_t i = 0; i < w->blocks; i++) {
    const size_t at = i * w->block;
    const size_t size = w->count - at < w->block ? w->count - at : w->block;
    const float scale = w->tried.scale[i];
    const nabla_search_sums s =
        w->sum(w->in + at, w->values + at,
               w->has_weights ? w->weights + at : NULL, size, scale);
    const float step = s.miss_code / s.code_code;
    w->tried.error[i] = s.miss_miss;
    w->refined.scale[i] = scale + step;
    w->refined.zero[i] = w->tried.zero[i];
    w->refined.error[i] = s.miss_miss - s.miss_code * step;
    keep(&w->best, &w->tried, i);
    keep(&w->fitted, &w->refined, i);
  }
}

/* Sets `tried` to a candidate: `factor` times the plain scales and, with zero
 * points, those that map the middle of each block to the middle of the codes,
 * plus `move`. */
static void set_candidate(work *w, float factor, int move) {
  for (size_t i = 0; i < w->blocks; i++) {
    w->tried.scale[i] = factor * w->plain.scale[i];
    w->tried.zero[i] = 0.0f;
    if (!w->levels) continue;
    w->tried.scale[i] = factor * (w->spread[i] / (float)w->levels);
    w->tried.zero[i] = zero_within(
        w, rintf(0.5f * (float)w->levels - w->middle[i] / w->tried.scale[i]) +
               (float)move);
  }
}

static void try_candidates(work *w) {
  const reach r = w->reach;
  const int moves = w->levels ? r.moves : 0;
  const float step = r.count > 1 ? (r.high - r.low) / (float)(r.count - 1) : 0;
  for (int k = 0; k < r.count * r.signs; k++) {
    const float factor = r.low + step * (float)(k % r.count);
    for (int move = -moves; move <= moves; move++) {
      set_candidate(w, k < r.count ? factor : -factor, move);
      trial(w);
    }
  }
}

/* Divides the weights of a block by the largest one; all are one if all are
 * zero. */
static void take_weights(work *w, const float *weights) {
  w->has_weights = weights != NULL;
  if (!weights) return;
  for (size_t at = 0; at < w->count; at += w->block) {
    const size_t size = w->count - at < w->block ? w->count - at : w->block;
    float most = 0.0f;
    for (size_t i = at; i < at + size; i++)
      if (weights[i] > most) most = weights[i];
    for (size_t i = at; i < at + size; i++)
      w->weights[i] = most > 0.0f ? weights[i] / most : 1.0f;
  }
}

static void forget(choice *c, size_t blocks) {
  for (size_t i = 0; i < blocks; i++) c->error[i] = INFINITY;
}

static void search_some(work *w, float *scales, float *zeros) {
  find_plain(w);
  forget(&w->best, w->blocks);
  forget(&w->fitted, w->blocks);
  w->tried = w->plain;
  trial(w);
  try_candidates(w);
  /* Codes for refined scales differ a little: refine once more. */
  for (int again = 0; w->reach.fits && again < 2; again++) {
    for (size_t i = 0; i < w->blocks; i++) {
      const int is_good =
          isfinite(w->fitted.scale[i]) && w->fitted.error[i] < INFINITY;
      w->tried.scale[i] = is_good ? w->fitted.scale[i] : w->plain.scale[i];
      w->tried.zero[i] = is_good ? w->fitted.zero[i] : w->plain.zero[i];
    }
    trial(w);
    w->fitted = w->refined;
  }
  for (size_t i = 0; i < w->blocks; i++) {
    const int is_found = w->is_searched[i] && w->best.error[i] < INFINITY;
    const choice *from = is_found ? &w->best : &w->plain;
    scales[i] = from->scale[i];
    if (zeros) zeros[i] = from->zero[i];
  }
}

/* Returns the fast search of an encoding, NULL if there is none. */
static nabla_search_blocks *fast_search(const nabla_search *search,
                                        nabla_isa isa) {
  if (search->weights || search->zeros ||
      search->format->block > NABLA_SEARCH_LARGEST)
    return NULL;
#if NABLA_X86
  if (isa == NABLA_ISA_AVX512) return nabla_search_blocks_avx512;
  if (isa == NABLA_ISA_AVX2) return nabla_search_blocks_avx2;
#endif
  (void)isa;
  return nabla_search_blocks_scalar;
}

static nabla_search_sum *sum_for(nabla_isa isa) {
#if NABLA_X86
  if (isa == NABLA_ISA_AVX512) return nabla_search_sum_avx512;
  if (isa == NABLA_ISA_AVX2) return nabla_search_sum_avx2;
#endif
  (void)isa;
  return nabla_search_sum_scalar;
}

void nabla_search_run(const nabla_search *search, nabla_isa isa) {
  const nabla_format *format = search->format;
  isa = nabla_isa_resolve(isa);
  const nabla_search_table *table = nabla_search_table_find(format->encoding);
  nabla_search_blocks *fast = fast_search(search, isa);
  if (table && fast) {
    fast(table, search->in, search->count, (size_t)format->block, format->scale,
         search->scales);
    return;
  }
  const size_t block = (size_t)format->block;
  const size_t step = block > NABLA_CHUNK ? block : NABLA_CHUNK;
  work w = {.search = search,
            .stages = nabla_stages_find(format->encoding, isa),
            .recipe = nabla_recipe_find(format->encoding),
            .sum = sum_for(isa),
            .reach = widened(reach_of(format->encoding), format->block),
            .block = block};
  if (format->zero_point) w.levels = 2 * w.recipe->bias - 1;
  for (size_t i = 0; i < NABLA_CHUNK_BLOCKS; i++) w.ones[i] = 1.0f;
  for (size_t at = 0; at < search->count; at += step) {
    w.in = search->in + at;
    w.count = search->count - at < step ? search->count - at : step;
    w.blocks = (w.count + block - 1) / block;
    take_weights(&w, search->weights ? search->weights + at : NULL);
    search_some(&w, search->scales + at / block,
                search->zeros ? search->zeros + at / block : NULL);
  }
}
