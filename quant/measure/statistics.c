/* Statistics of one tensor's values, scales and codes. */
#include <math.h>

#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "nabla/measure.h"
#include "quant/tiles/parallel_tiles.h"
#include "quant/tiles/tensor_reader.h"

/* What one tile contributes; added in the order of tiles. */
typedef struct partial {
  double mean, spread; /* spread: sum of squared distances from the mean */
  double min, max;
  double scale_min, scale_max;
  uint64_t finite, zeros, nan, infinite;
} partial;

typedef struct survey {
  nabla_values values;
  nabla_tiling tiling;
  nabla_scratch *scratches;
  uint64_t (*codes)[256]; /* per worker: integers add up in any order */
  partial *partials;
} survey;

/* Two passes over a tile: the spread about its own mean has no cancellation. */
static void add_values(partial *p, const double *values, uint64_t count) {
  double sum = 0;
  for (uint64_t i = 0; i < count; i++) {
    const double value = values[i];
    if (isnan(value)) p->nan++;
    if (isinf(value)) p->infinite++;
    if (!isfinite(value)) continue;
    p->finite++;
    p->zeros += value == 0;
    sum += value;
    if (value < p->min) p->min = value;
    if (value > p->max) p->max = value;
  }
  if (p->finite) p->mean = sum / (double)p->finite;
  for (uint64_t i = 0; i < count; i++) {
    const double distance = isfinite(values[i]) ? values[i] - p->mean : 0;
    p->spread += distance * distance;
  }
}

/* Chan, Golub, LeVeque 1979: mean and spread of two sets together. */
static void merge_spread(partial *sum, const partial *p) {
  const double n = (double)sum->finite, m = (double)p->finite;
  if (p->finite == 0) return;
  const double distance = p->mean - sum->mean;
  sum->spread += p->spread + distance * distance * n * m / (n + m);
  sum->mean += distance * m / (n + m);
}

static void count_codes(const survey *s, const uint8_t *codes, uint64_t count,
                        uint64_t *table) {
  const nabla_encoding *encoding = s->values.tensor.format.encoding;
  const uint32_t bits = encoding->bits, per_byte = 8 / bits;
  const unsigned mask = (1u << bits) - 1;
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t at = (uint32_t)(i % per_byte);
    const uint32_t shift =
        bits * (encoding->high_first ? per_byte - 1 - at : at);
    table[(unsigned)codes[i / per_byte] >> shift & mask]++;
  }
}

static nabla_status tile(nabla_run *run, uint32_t worker, uint64_t index,
                         nabla_diag *diag) {
  survey *s = run->self;
  nabla_scratch *scratch = &s->scratches[worker];
  partial p = {.min = HUGE_VAL,
               .max = -HUGE_VAL,
               .scale_min = HUGE_VAL,
               .scale_max = -HUGE_VAL};
  uint64_t first, count, scales;
  nabla_tiling_get(&s->tiling, index, &first, &count);
  nabla_status status =
      nabla_values_read(&s->values, first, count, scratch, &scales, diag);
  if (status) return nabla_values_blame(&s->values, status, diag);
  for (uint64_t i = 0; i < scales; i++) {
    const double scale = (double)scratch->scales[i];
    if (scale < p.scale_min) p.scale_min = scale;
    if (scale > p.scale_max) p.scale_max = scale;
  }
  if (s->values.tensor.format.encoding)
    count_codes(s, scratch->raw, count, s->codes[worker]);
  add_values(&p, nabla_values_widen(&s->values, count, scratch), count);
  s->partials[index] = p;
  atomic_fetch_add(&run->bytes_done, count);
  return NABLA_OK;
}

static uint64_t locate(const nabla_run *run, uint64_t index,
                       const char **out_name) {
  const survey *s = run->self;
  (void)index;
  *out_name = s->values.tensor.name;
  return 0;
}

static void add_up(const survey *s, uint32_t workers, nabla_statistics *out) {
  partial sum = {.min = HUGE_VAL,
                 .max = -HUGE_VAL,
                 .scale_min = HUGE_VAL,
                 .scale_max = -HUGE_VAL};
  nabla_statistics result = {.elements = s->tiling.elements};
  for (uint64_t i = 0; i < s->tiling.tiles; i++) {
    const partial *p = &s->partials[i];
    merge_spread(&sum, p);
    sum.min = fmin(sum.min, p->min);
    sum.max = fmax(sum.max, p->max);
    sum.scale_min = fmin(sum.scale_min, p->scale_min);
    sum.scale_max = fmax(sum.scale_max, p->scale_max);
    sum.finite += p->finite;
    result.zeros += p->zeros;
    result.nan += p->nan;
    result.infinite += p->infinite;
  }
  if (sum.finite) {
    result.mean = sum.mean;
    result.std = sqrt(sum.spread / (double)sum.finite);
    result.min = sum.min;
    result.max = sum.max;
    result.absmax = fmax(fabs(sum.min), fabs(sum.max));
  }
  if (sum.scale_max >= sum.scale_min) {
    result.scale_min = sum.scale_min;
    result.scale_max = sum.scale_max;
  }
  for (uint32_t w = 0; w < workers; w++)
    for (int c = 0; c < 256; c++) result.codes[c] += s->codes[w][c];
  *out = result;
}

static nabla_status look(survey *s, const nabla_environment *environment,
                         nabla_statistics *out, nabla_diag *diag) {
  nabla_run run = {.environment = environment,
                   .phase = "inspect",
                   .workers = nabla_run_fixed_workers(environment),
                   .tiles = s->tiling.tiles,
                   .bytes_total = s->tiling.elements,
                   .tensors_total = 1,
                   .tile = tile,
                   .locate = locate,
                   .self = s};
  NABLA_TRY(nabla_run_tiles(&run, diag));
  add_up(s, nabla_run_fixed_workers(environment), out);
  return NABLA_OK;
}

nabla_status nabla_tensor_statistics(const nabla_checkpoint *checkpoint,
                                     size_t tensor,
                                     const nabla_environment *environment,
                                     nabla_statistics *out, nabla_diag *diag) {
  NABLA_REQUIRE(checkpoint, diag);
  NABLA_REQUIRE(out, diag);
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  const uint32_t workers = nabla_run_fixed_workers(environment);
  survey s = {.scratches = NULL};
  void *codes = NULL, *partials = NULL;
  NABLA_TRY(
      nabla_values_open(checkpoint, tensor, NABLA_ISA_BEST, &s.values, diag));
  const nabla_tensor *source = &s.values.tensor;
  s.tiling =
      nabla_tiling_of(&source->format, source->elements, NABLA_TILE_SMALL);
  const size_t tiles = (size_t)s.tiling.tiles;
  nabla_status status =
      nabla_alloc(allocator, workers, sizeof *s.codes, &codes, diag);
  if (!status)
    status = nabla_alloc(allocator, tiles, sizeof(partial), &partials, diag);
  if (!status)
    status = nabla_scratches_create(allocator, workers, NABLA_TILE_SMALL,
                                    &s.scratches, diag);
  s.codes = codes;
  s.partials = partials;
  if (!status) status = look(&s, environment, out, diag);
  if (!status && source->format.encoding) {
    nabla_packed_size size;
    status = nabla_format_size(&source->format, source->elements, &size, diag);
    if (!status) out->scales = size.scales;
  }
  nabla_scratches_destroy(allocator, workers, s.scratches);
  nabla_free(allocator, partials, tiles, sizeof(partial));
  nabla_free(allocator, codes, workers, sizeof *s.codes);
  return status;
}
