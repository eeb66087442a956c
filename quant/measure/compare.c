/* Differences between two checkpoints, by value. Partial sums are kept per
 * tile and added in the order of tiles: figures do not depend on threads. */
#include <math.h>
#include <string.h>

#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "nabla/measure.h"
#include "quant/tiles/parallel_tiles.h"
#include "quant/tiles/tensor_reader.h"

/* Independent sums, so that the compiler can use vectors without changing the
 * order of additions. */
enum { LANES = 8 };

/* What one tile contributes. */
typedef struct partial {
  double sum_abs, sum_rel, sum_square, sum_a, sum_b, sum_ab;
  double max_abs;
  uint64_t relative;   /* positions with a != 0            */
  uint64_t finite;     /* positions where both are finite  */
  uint64_t different;  /* positions whose values differ    */
  uint64_t not_finite; /* of those, NaN or infinity in one */
} partial;

typedef struct comparison {
  nabla_values a, b;
  const nabla_tensor_file *file_a, *file_b; /* for byte comparison */
  size_t entry_a, entry_b;
  nabla_tiling tiling;
  nabla_scratch *scratches; /* two per worker */
  partial *partials;        /* one per tile   */
} comparison;

/* Adds the lanes pairwise. */
static double total(const double lanes[LANES]) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/* Sums over positions where both values are finite; the others count as 0. */
static void add_values(const double *a, const double *b, size_t count,
                       partial *out) {
  double abs_sum[LANES] = {0}, rel[LANES] = {0}, square[LANES] = {0};
  double aa[LANES] = {0}, bb[LANES] = {0}, ab[LANES] = {0}, max[LANES] = {0};
  for (size_t i = 0; i < count; i += LANES) {
    const size_t lanes = count - i < LANES ? count - i : LANES;
    for (size_t k = 0; k < lanes; k++) {
      const int finite = isfinite(a[i + k]) && isfinite(b[i + k]);
      const double x = finite ? a[i + k] : 0;
      const double y = finite ? b[i + k] : 0;
      const double d = fabs(x - y);
      abs_sum[k] += d;
      square[k] += d * d;
      aa[k] += x * x;
      bb[k] += y * y;
      ab[k] += x * y;
      rel[k] += x != 0 ? d / fabs(x) : 0;
      max[k] = d > max[k] ? d : max[k];
    }
  }
  *out = (partial){total(abs_sum),
                   total(rel),
                   total(square),
                   total(aa),
                   total(bb),
                   total(ab),
                   0,
                   0,
                   0,
                   0,
                   0};
  for (int k = 0; k < LANES; k++)
    if (max[k] > out->max_abs) out->max_abs = max[k];
}

static void count_values(const double *a, const double *b, size_t count,
                         partial *out) {
  uint64_t relative = 0, finite = 0, different = 0, not_finite = 0;
  for (size_t i = 0; i < count; i++) {
    const int both = isfinite(a[i]) && isfinite(b[i]);
    const int differ = !(a[i] == b[i]) && memcmp(&a[i], &b[i], sizeof *a) != 0;
    relative += both && a[i] != 0;
    finite += (uint64_t)both;
    different += (uint64_t)differ;
    not_finite += differ && !both;
  }
  out->relative = relative;
  out->finite = finite;
  out->different = different;
  out->not_finite = not_finite;
}

static nabla_status value_tile(nabla_run *run, uint32_t worker, uint64_t tile,
                               nabla_diag *diag) {
  comparison *c = run->self;
  nabla_scratch *sa = &c->scratches[2 * worker], *sb = sa + 1;
  uint64_t first, count;
  nabla_tiling_get(&c->tiling, tile, &first, &count);
  nabla_status status = nabla_values_read(&c->a, first, count, sa, NULL, diag);
  if (status) return nabla_values_blame(&c->a, status, diag);
  status = nabla_values_read(&c->b, first, count, sb, NULL, diag);
  if (status) return nabla_values_blame(&c->b, status, diag);
  const double *a = nabla_values_widen(&c->a, count, sa);
  const double *b = nabla_values_widen(&c->b, count, sb);
  add_values(a, b, (size_t)count, &c->partials[tile]);
  count_values(a, b, (size_t)count, &c->partials[tile]);
  atomic_fetch_add(&run->bytes_done, count * sizeof(float));
  return NABLA_OK;
}

static nabla_status byte_tile(nabla_run *run, uint32_t worker, uint64_t tile,
                              nabla_diag *diag) {
  comparison *c = run->self;
  uint8_t *a = c->scratches[2 * worker].raw;
  uint8_t *b = c->scratches[2 * worker + 1].raw;
  uint64_t first, count;
  nabla_tiling_get(&c->tiling, tile, &first, &count);
  NABLA_TRY(nabla_tensor_file_read(c->file_a, c->entry_a, first, a,
                                   (size_t)count, diag));
  NABLA_TRY(nabla_tensor_file_read(c->file_b, c->entry_b, first, b,
                                   (size_t)count, diag));
  c->partials[tile].different = memcmp(a, b, (size_t)count) != 0;
  atomic_fetch_add(&run->bytes_done, count);
  return NABLA_OK;
}

static uint64_t locate(const nabla_run *run, uint64_t tile,
                       const char **out_name) {
  const comparison *c = run->self;
  (void)tile;
  *out_name = c->a.tensor.name;
  return 0;
}

static void summarise(const comparison *c, nabla_difference *out) {
  partial sum = {0};
  for (uint64_t i = 0; i < c->tiling.tiles; i++) {
    const partial *p = &c->partials[i];
    sum.sum_abs += p->sum_abs;
    sum.sum_rel += p->sum_rel;
    sum.sum_square += p->sum_square;
    sum.sum_a += p->sum_a;
    sum.sum_b += p->sum_b;
    sum.sum_ab += p->sum_ab;
    sum.max_abs = p->max_abs > sum.max_abs ? p->max_abs : sum.max_abs;
    sum.relative += p->relative;
    sum.finite += p->finite;
    sum.different += p->different;
    sum.not_finite += p->not_finite;
  }
  const int equal = sum.different == 0;
  out->max_abs = sum.max_abs;
  out->mean_abs = sum.finite ? sum.sum_abs / (double)sum.finite : 0;
  out->mean_rel = sum.relative ? sum.sum_rel / (double)sum.relative : 0;
  /* F64 values above 1e154 have squares that overflow: then nothing is said
   * but that they differ. */
  const int known = isfinite(sum.sum_square) && isfinite(sum.sum_a) &&
                    isfinite(sum.sum_b) && isfinite(sum.sum_ab);
  out->rel_rmse = equal || sum.sum_square == 0 ? 0
                  : known && sum.sum_a > 0 ? sqrt(sum.sum_square / sum.sum_a)
                                           : HUGE_VAL;
  /* sqrt each: the product of two sums of squares may overflow. */
  const double norms = sqrt(sum.sum_a) * sqrt(sum.sum_b);
  out->cosine = equal ? 1 : known && norms > 0 ? sum.sum_ab / norms : 0;
  out->not_finite = sum.not_finite;
}

typedef struct differ {
  const nabla_checkpoint *a, *b;
  const nabla_environment *environment;
  const nabla_allocator *allocator;
  nabla_scratch *scratches;
  nabla_difference_summary summary;
  int (*row)(void *self, const nabla_difference *difference);
  void *self;
} differ;

static const char *stored_as(const nabla_tensor *tensor) {
  if (tensor->layout == NABLA_LAYOUT_DENSE)
    return nabla_dtype_name(tensor->dtype);
  return tensor->format.encoding ? tensor->format.encoding->name : "unknown";
}

static int same_shape(const nabla_tensor *a, const nabla_tensor *b) {
  return a->rank == b->rank &&
         (!a->rank || !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape));
}

static int has_values(const nabla_tensor *tensor) {
  return tensor->layout != NABLA_LAYOUT_DENSE ||
         nabla_dtype_is_float(tensor->dtype);
}

static nabla_status run_comparison(differ *d, comparison *c, int by_value,
                                   nabla_difference *out, nabla_diag *diag) {
  void *block;
  NABLA_TRY(nabla_alloc(d->allocator, (size_t)c->tiling.tiles, sizeof(partial),
                        &block, diag));
  c->partials = block;
  c->scratches = d->scratches;
  nabla_run run = {
      .environment = d->environment,
      .phase = "diff",
      .workers = nabla_run_fixed_workers(d->environment),
      .tiles = c->tiling.tiles,
      .bytes_total = c->tiling.elements * (by_value ? sizeof(float) : 1),
      .tensors_total = nabla_checkpoint_count(d->a),
      .tile = by_value ? value_tile : byte_tile,
      .locate = locate,
      .self = c,
  };
  nabla_status status = nabla_run_tiles(&run, diag);
  if (!status) summarise(c, out);
  nabla_free(d->allocator, block, (size_t)c->tiling.tiles, sizeof(partial));
  return status;
}

static nabla_status compare_bytes(differ *d, const nabla_tensor *a,
                                  const nabla_tensor *b, nabla_difference *out,
                                  nabla_diag *diag) {
  comparison c = {.entry_a = a->data.entry, .entry_b = b->data.entry};
  c.file_a = nabla_checkpoint_borrow_shard(d->a, a->data.shard);
  c.file_b = nabla_checkpoint_borrow_shard(d->b, b->data.shard);
  c.a.tensor = *a;
  c.tiling = nabla_tiling_of(NULL, a->stored_bytes, NABLA_TILE_SMALL);
  if (a->dtype != b->dtype) {
    out->problem = "dtypes differ";
    return NABLA_OK;
  }
  NABLA_TRY(run_comparison(d, &c, 0, out, diag));
  if (out->cosine != 1) out->problem = "bytes differ";
  return NABLA_OK;
}

static nabla_status compare_tensors(differ *d, size_t index_a, size_t index_b,
                                    nabla_difference *out, nabla_diag *diag) {
  const nabla_tensor a = nabla_checkpoint_tensor(d->a, index_a);
  const nabla_tensor b = nabla_checkpoint_tensor(d->b, index_b);
  comparison c;
  out->b_stored = stored_as(&b);
  if (!same_shape(&a, &b)) {
    out->problem = "shapes differ";
    return NABLA_OK;
  }
  if (!has_values(&a) || !has_values(&b))
    return compare_bytes(d, &a, &b, out, diag);
  NABLA_TRY(nabla_values_open(d->a, index_a, NABLA_ISA_BEST, &c.a, diag));
  NABLA_TRY(nabla_values_open(d->b, index_b, NABLA_ISA_BEST, &c.b, diag));
  c.tiling = nabla_tiling_of(NULL, a.elements, NABLA_TILE_SMALL);
  return run_comparison(d, &c, 1, out, diag);
}

static nabla_status emit(differ *d, const nabla_difference *row,
                         nabla_diag *diag) {
  d->summary.tensors++;
  if (row->problem) d->summary.problems++;
  if (!row->problem && row->cosine == 1 && row->max_abs == 0 &&
      !row->not_finite)
    d->summary.equal++;
  if (row->rel_rmse > d->summary.worst_rel_rmse)
    d->summary.worst_rel_rmse = row->rel_rmse;
  if (d->row && d->row(d->self, row))
    return nabla_fail(diag, NABLA_CANCELLED, "stopped on request");
  return NABLA_OK;
}

/* Finds a tensor of the name of `tensor`: in models of one kind at about the
 * same place, `near`, else by the index of names. */
static size_t find_like(const nabla_checkpoint *checkpoint,
                        const nabla_tensor *tensor, size_t near) {
  if (near < nabla_checkpoint_count(checkpoint)) {
    const nabla_tensor there = nabla_checkpoint_tensor(checkpoint, near);
    if (there.name_length == tensor->name_length &&
        !memcmp(there.name, tensor->name, tensor->name_length))
      return near;
  }
  return nabla_checkpoint_find(checkpoint, tensor->name, tensor->name_length);
}

static nabla_status compare_all(differ *d, nabla_diag *diag) {
  size_t near = 0;
  for (size_t i = 0; i < nabla_checkpoint_count(d->a); i++) {
    const nabla_tensor a = nabla_checkpoint_tensor(d->a, i);
    nabla_difference row = {.name = a.name,
                            .elements = a.elements,
                            .a_stored = stored_as(&a),
                            .b_stored = "-"};
    const size_t other = find_like(d->b, &a, near);
    if (other == SIZE_MAX) {
      row.problem = "only in A";
    } else {
      near = other + 1;
      NABLA_TRY(compare_tensors(d, i, other, &row, diag));
    }
    NABLA_TRY(emit(d, &row, diag));
  }
  near = 0;
  for (size_t i = 0; i < nabla_checkpoint_count(d->b); i++) {
    const nabla_tensor b = nabla_checkpoint_tensor(d->b, i);
    const size_t other = find_like(d->a, &b, near);
    if (other != SIZE_MAX) {
      near = other + 1;
      continue;
    }
    const nabla_difference row = {.name = b.name,
                                  .elements = b.elements,
                                  .a_stored = "-",
                                  .b_stored = stored_as(&b),
                                  .problem = "only in B"};
    NABLA_TRY(emit(d, &row, diag));
  }
  return NABLA_OK;
}

nabla_status nabla_compare(const nabla_checkpoint *a, const nabla_checkpoint *b,
                           const nabla_environment *environment,
                           int (*row)(void *self,
                                      const nabla_difference *difference),
                           void *self, nabla_difference_summary *out,
                           nabla_diag *diag) {
  NABLA_REQUIRE(a, diag);
  NABLA_REQUIRE(b, diag);
  NABLA_REQUIRE(out, diag);
  differ d = {.a = a,
              .b = b,
              .environment = environment,
              .allocator = environment ? environment->allocator : NULL,
              .row = row,
              .self = self};
  const uint32_t scratches = 2 * nabla_run_fixed_workers(environment);
  NABLA_TRY(nabla_scratches_create(d.allocator, scratches, NABLA_TILE_SMALL,
                                   &d.scratches, diag));
  nabla_status status = compare_all(&d, diag);
  nabla_scratches_destroy(d.allocator, scratches, d.scratches);
  if (!status) *out = d.summary;
  return status;
}
