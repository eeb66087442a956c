/* The first pass of NABLA_NONFINITE_KEEP: finds the tensors that hold NaN or
 * infinity and keeps them as they are. */
#include <inttypes.h>
#include <math.h>

#include "lib/base/memory.h"
#include "quant/codec/codec.h"
#include "quant/plan/plan.h"
#include "quant/tiles/parallel_tiles.h"
#include "quant/tiles/tensor_reader.h"

typedef struct scan {
  const nabla_plan *plan;
  nabla_scratch *scratches;
  uint64_t tile;
  uint64_t *first_tile;        /* count + 1 */
  _Atomic uint64_t *first_bad; /* per tensor: lowest index, or UINT64_MAX */
} scan;

static nabla_tiling tiling_of(const scan *s, size_t tensor) {
  const nabla_plan *plan = s->plan;
  if (!plan->decisions[tensor].format) return (nabla_tiling){0};
  return nabla_tiling_of(
      NULL, nabla_checkpoint_tensor(plan->checkpoint, tensor).elements,
      s->tile);
}

static nabla_status scan_tile(nabla_run *run, uint32_t worker, uint64_t tile,
                              nabla_diag *diag) {
  scan *s = run->self;
  const uint64_t owner = nabla_tile_owner(s->first_tile, s->plan->count, tile);
  nabla_scratch *scratch = &s->scratches[worker];
  const nabla_tiling tiling = tiling_of(s, owner);
  uint64_t first, count;
  nabla_values values;
  nabla_tiling_get(&tiling, tile - s->first_tile[owner], &first, &count);
  NABLA_TRY(nabla_values_open(s->plan->checkpoint, owner, s->plan->isa, &values,
                              diag));
  NABLA_TRY(nabla_values_read(&values, first, count, scratch, NULL, diag));
  atomic_fetch_add(&run->bytes_done,
                   count * (nabla_dtype_bits(values.tensor.dtype) / 8));
  if (isfinite(nabla_absmax(s->plan->isa, scratch->values, (size_t)count)))
    return NABLA_OK;
  uint64_t index = first;
  while (isfinite(scratch->values[index - first])) index++;
  uint64_t seen = atomic_load(&s->first_bad[owner]);
  while (index < seen &&
         !atomic_compare_exchange_weak(&s->first_bad[owner], &seen, index)) {
  }
  return NABLA_OK;
}

static uint64_t locate(const nabla_run *run, uint64_t tile,
                       const char **out_name) {
  const scan *s = run->self;
  const uint64_t owner = nabla_tile_owner(s->first_tile, s->plan->count, tile);
  *out_name = nabla_checkpoint_tensor(s->plan->checkpoint, owner).name;
  return owner;
}

static nabla_status run_scan(scan *s, const nabla_environment *environment,
                             nabla_diag *diag) {
  nabla_run run = {.environment = environment,
                   .phase = "scan",
                   .tensors_total = s->plan->count,
                   .tile = scan_tile,
                   .locate = locate,
                   .self = s};
  for (size_t i = 0; i < s->plan->count; i++) {
    s->first_tile[i + 1] = s->first_tile[i] + tiling_of(s, i).tiles;
    if (s->plan->decisions[i].format)
      run.bytes_total +=
          nabla_checkpoint_tensor(s->plan->checkpoint, i).stored_bytes;
    s->first_bad[i] = UINT64_MAX;
  }
  run.tiles = s->first_tile[s->plan->count];
  return nabla_run_tiles(&run, diag);
}

nabla_status nabla_plan_keep_nonfinite(nabla_plan *plan,
                                       const nabla_environment *environment,
                                       nabla_diag *diag) {
  const uint32_t workers = nabla_run_workers(environment);
  scan s = {.plan = plan, .tile = nabla_tile_for(workers)};
  void *tiles = NULL, *bad = NULL;
  nabla_status status = nabla_alloc(plan->allocator, plan->count + 1,
                                    sizeof *s.first_tile, &tiles, diag);
  if (!status)
    status = nabla_alloc(plan->allocator, plan->count + 1, sizeof *s.first_bad,
                         &bad, diag);
  if (!status)
    status = nabla_scratches_create(plan->allocator, workers, s.tile,
                                    &s.scratches, diag);
  s.first_tile = tiles;
  s.first_bad = bad;
  if (!status) status = run_scan(&s, environment, diag);
  for (size_t i = 0; i < plan->count && !status; i++)
    if (s.first_bad[i] != UINT64_MAX)
      plan->decisions[i] = (nabla_decision){.reason = NABLA_REASON_NONFINITE,
                                            .index = s.first_bad[i]};
  nabla_scratches_destroy(plan->allocator, workers, s.scratches);
  nabla_free(plan->allocator, bad, plan->count + 1, sizeof *s.first_bad);
  nabla_free(plan->allocator, tiles, plan->count + 1, sizeof *s.first_tile);
  return status;
}
