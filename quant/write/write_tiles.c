/* The tiles of an output file: the item of each tile, and its processing. */
#include <stdatomic.h>

#include "quant/codec/codec.h"
#include "quant/tiles/verify_packed.h"
#include "quant/write/write_internal.h"

/* Copied tensors are divided by bytes; the raw buffer has twice this size. */
static uint64_t copy_span(const nabla_file_job *job) { return job->tile * 4; }

nabla_format nabla_item_format(const nabla_file_job *job,
                               const nabla_item *item) {
  if (item->kind == NABLA_ITEM_ENCODE)
    return *nabla_plan_format(job->task->plan, item->index);
  return nabla_checkpoint_tensor(job->task->checkpoint, item->index).format;
}

nabla_tiling nabla_item_tiling(const nabla_file_job *job,
                               const nabla_item *item) {
  const nabla_checkpoint *checkpoint = job->task->checkpoint;
  if (item->kind == NABLA_ITEM_COPY) {
    const nabla_entry entry = nabla_tensor_file_entry(
        nabla_checkpoint_borrow_shard(checkpoint, item->shard), item->index);
    return nabla_tiling_of(NULL, entry.bytes, copy_span(job));
  }
  const nabla_format format = nabla_item_format(job, item);
  return nabla_tiling_of(
      &format, nabla_checkpoint_tensor(checkpoint, item->index).elements,
      job->tile);
}

/* Makes any problem in copied data NABLA_CORRUPT and refers to `verify`, which
 * reports all problems of the input. The status of a bad scale is replaced,
 * too. */
static nabla_status refuse(const nabla_values *values, nabla_diag *diag) {
  diag->code = NABLA_CORRUPT;
  nabla_diag_set_next(diag,
                      "nabla-quant verify %s shows all problems; quantize the "
                      "model again from its source",
                      nabla_checkpoint_borrow_path(values->checkpoint));
  return NABLA_CORRUPT;
}

/* Checks codes that were read; with the first codes of a tensor also all of its
 * scales. Scales are thus read twice, but codes, which are larger, once. */
static nabla_status check_copied(nabla_file_job *job, const nabla_item *item,
                                 uint64_t at, uint64_t size,
                                 nabla_scratch *scratch, nabla_diag *diag) {
  nabla_values values;
  NABLA_TRY(nabla_values_open(job->task->checkpoint, item->packed - 1,
                              NABLA_ISA_BEST, &values, diag));
  if (nabla_packed_check_bytes(&values, at, scratch->raw, (size_t)size, diag))
    return refuse(&values, diag);
  if (at) return NABLA_OK;
  nabla_diag found = NABLA_DIAG_INIT;
  NABLA_TRY(nabla_packed_check_scales(&values, scratch, &found, diag));
  if (!found.code) return NABLA_OK;
  *diag = found;
  return refuse(&values, diag);
}

static nabla_status copy_tile(nabla_run *run, const nabla_item *item,
                              uint64_t at, uint64_t size,
                              nabla_scratch *scratch, nabla_diag *diag) {
  nabla_file_job *job = run->self;
  const nabla_tensor_file *file =
      nabla_checkpoint_borrow_shard(job->task->checkpoint, item->shard);
  NABLA_TRY(nabla_tensor_file_read(file, item->index, at, scratch->raw,
                                   (size_t)size, diag));
  if (item->packed) NABLA_TRY(check_copied(job, item, at, size, scratch, diag));
  atomic_fetch_add(&run->bytes_done, size);
  return nabla_safetensors_writer_write(job->writer, item->id, at, scratch->raw,
                                        (size_t)size, diag);
}

static nabla_status run_tile(nabla_run *run, uint32_t worker, uint64_t tile,
                             nabla_diag *diag) {
  nabla_file_job *job = run->self;
  const uint64_t owner = nabla_tile_owner(job->first_tile, job->count, tile);
  const nabla_item *item = &job->items[owner];
  const nabla_tiling tiling = nabla_item_tiling(job, item);
  nabla_scratch *scratch = &job->scratches[worker];
  uint64_t first, count;
  nabla_tiling_get(&tiling, tile - job->first_tile[owner], &first, &count);
  if (item->kind == NABLA_ITEM_COPY)
    return copy_tile(run, item, first, count, scratch, diag);
  if (item->kind == NABLA_ITEM_ENCODE)
    return nabla_tile_encode(
        run,
        &(nabla_packed_tile){
            .item = item, .number = tile, .first = first, .count = count},
        worker, diag);
  return nabla_tile_decode(run, item, first, count, scratch, diag);
}

const char *nabla_item_name(const nabla_file_job *job, const nabla_item *item) {
  const nabla_checkpoint *checkpoint = job->task->checkpoint;
  if (item->kind != NABLA_ITEM_COPY)
    return nabla_checkpoint_tensor(checkpoint, item->index).name;
  return nabla_tensor_file_entry(
             nabla_checkpoint_borrow_shard(checkpoint, item->shard),
             item->index)
      .name;
}

static uint64_t locate(const nabla_run *run, uint64_t tile,
                       const char **out_name) {
  const nabla_file_job *job = run->self;
  const uint64_t owner = nabla_tile_owner(job->first_tile, job->count, tile);
  *out_name = nabla_item_name(job, &job->items[owner]);
  return job->tensors_before + owner;
}

/* Returns the bytes of a decoded tensor that no tile reads: its description and
 * table. */
static uint64_t companion_bytes(const nabla_file_job *job,
                                const nabla_item *item) {
  if (item->kind != NABLA_ITEM_DECODE) return 0;
  const nabla_tensor tensor =
      nabla_checkpoint_tensor(job->task->checkpoint, item->index);
  nabla_packed_size size;
  if (nabla_format_size(&tensor.format, tensor.elements, &size, NULL)) return 0;
  if (tensor.format.zero_point) size.scale_bytes += size.scales;
  return tensor.stored_bytes - size.code_bytes - size.scale_bytes;
}

nabla_status nabla_file_job_run(nabla_file_job *job, nabla_diag *diag) {
  uint64_t companions = 0;
  for (size_t i = 0; i < job->count; i++) {
    nabla_item *item = &job->items[i];
    companions += companion_bytes(job, item);
    if (item->kind == NABLA_ITEM_ENCODE &&
        nabla_item_format(job, item).granularity != NABLA_PER_BLOCK &&
        nabla_item_tiling(job, item).row)
      NABLA_TRY(nabla_item_scan(job, item, diag));
  }
  nabla_run run = {
      .environment = job->task->environment,
      .phase = job->task->plan ? "quantize" : "dequantize",
      .tiles = job->first_tile[job->count],
      .bytes_total = job->task->bytes_total,
      .tensors_total = job->task->tensors_total,
      .tile = run_tile,
      .finish = nabla_tile_put_rest,
      .locate = locate,
      .self = job,
      .bytes_done = job->bytes_before,
  };
  NABLA_TRY(nabla_run_tiles(&run, diag));
  job->bytes_before = atomic_load(&run.bytes_done) + companions;
  job->tensors_before += job->count;
  return NABLA_OK;
}
