/* The first pass over a tensor whose rows are larger than a tile: it computes
 * the absmax of each row, which all pieces of the row need. */
#include <float.h>
#include <math.h>

#include "lib/base/bytes.h"
#include "quant/codec/codec.h"
#include "quant/write/write_internal.h"

typedef struct row_scan {
  nabla_file_job *job;
  nabla_item *item;
  nabla_tiling tiling;
} row_scan;

static nabla_status scan_tile(nabla_run *run, uint32_t worker, uint64_t tile,
                              nabla_diag *diag) {
  row_scan *scan = run->self;
  nabla_scratch *scratch = &scan->job->scratches[worker];
  const nabla_isa isa = scan->job->task->isa;
  nabla_values values;
  uint64_t first, count;
  nabla_tiling_get(&scan->tiling, tile, &first, &count);
  NABLA_TRY(nabla_values_open(scan->job->task->checkpoint, scan->item->index,
                              isa, &values, diag));
  NABLA_TRY(nabla_values_read(&values, first, count, scratch, NULL, diag));
  const float absmax = nabla_absmax(isa, scratch->values, (size_t)count);
  const nabla_format format = nabla_item_format(scan->job, scan->item);
  /* FLT_MAX / 127, rounded up, times 127 is infinite. */
  const float bound =
      nabla_format_is_llm_int8(&format) ? FLT_MAX / 127 : INFINITY;
  if (!(absmax < bound)) {
    uint64_t i = 0;
    while (fabsf(scratch->values[i]) < bound) i++;
    const float value = scratch->values[i];
    return nabla_value_refuse(
        &values, &format,
        isfinite(value) ? NABLA_UNSUPPORTED : NABLA_NOT_FINITE, first + i,
        value, diag);
  }
  /* For non-negative floats the order of the bits is that of the values. */
  const uint32_t bits = nabla_bits_of_f32(absmax);
  _Atomic uint32_t *row = &scan->item->row_absmax[first / scan->tiling.row];
  uint32_t seen = atomic_load(row);
  while (seen < bits && !atomic_compare_exchange_weak(row, &seen, bits)) {
  }
  return NABLA_OK;
}

static uint64_t locate_scan(const nabla_run *run, uint64_t tile,
                            const char **out_name) {
  const row_scan *scan = run->self;
  (void)tile;
  *out_name = nabla_item_name(scan->job, scan->item);
  return 0;
}

nabla_status nabla_item_scan(nabla_file_job *job, nabla_item *item,
                             nabla_diag *diag) {
  row_scan scan = {job, item, nabla_item_tiling(job, item)};
  void *block;
  const uint64_t rows = scan.tiling.elements / scan.tiling.row;
  const nabla_environment *environment = job->task->environment;
  NABLA_TRY(nabla_alloc(environment ? environment->allocator : NULL,
                        (size_t)rows, sizeof(uint32_t), &block, diag));
  item->row_absmax = block;
  nabla_run run = {.environment = environment,
                   .phase = "scan",
                   .tiles = scan.tiling.tiles,
                   .tile = scan_tile,
                   .locate = locate_scan,
                   .self = &scan};
  return nabla_run_tiles(&run, diag);
}
