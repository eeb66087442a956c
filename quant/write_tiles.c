/* The tiles of an output file: read, encode or decode or copy, write. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "quant/codec.h"
#include "quant/run.h"
#include "quant/write.h"

/* A copied tensor is cut by bytes: what fits in the raw buffer is twice this.
 */
static uint64_t copy_span(const nabla_file_job *job) { return job->tile * 4; }

nabla_format nabla_item_format(const nabla_file_job *job,
                               const nabla_item *item) {
  if (item->kind == NABLA_ITEM_ENCODE)
    return job->task->plan->decisions[item->index].format;
  return nabla_checkpoint_tensor(job->task->checkpoint, item->index).format;
}

nabla_tiling nabla_item_tiling(const nabla_file_job *job,
                               const nabla_item *item) {
  const nabla_checkpoint *checkpoint = job->task->checkpoint;
  if (item->kind == NABLA_ITEM_COPY) {
    const nabla_entry entry = nabla_safetensors_entry(
        nabla_checkpoint_borrow_shard(checkpoint, item->shard), item->index);
    return nabla_tiling_of(NULL, entry.bytes, copy_span(job));
  }
  const nabla_format format = nabla_item_format(job, item);
  return nabla_tiling_of(
      &format, nabla_checkpoint_tensor(checkpoint, item->index).elements,
      job->tile);
}

static nabla_status copy_tile(nabla_run *run, const nabla_item *item,
                              uint64_t at, uint64_t size,
                              nabla_scratch *scratch, nabla_diag *diag) {
  nabla_file_job *job = run->self;
  const nabla_safetensors *file =
      nabla_checkpoint_borrow_shard(job->task->checkpoint, item->shard);
  NABLA_TRY(nabla_safetensors_read(file, item->index, at, scratch->raw,
                                   (size_t)size, diag));
  atomic_fetch_add(&run->bytes_done, size);
  return nabla_safetensors_writer_write(job->writer, item->id, at, scratch->raw,
                                        (size_t)size, diag);
}

/* F64 holds values that f32 does not: then the file's value is finite. */
static int overflows_f32(const nabla_values *values, uint64_t index) {
  uint8_t bytes[8];
  const nabla_part part = values->tensor.data;
  if (values->tensor.dtype != NABLA_DTYPE_F64 ||
      nabla_safetensors_read(
          nabla_checkpoint_borrow_shard(values->checkpoint, part.shard),
          part.entry, index * sizeof bytes, bytes, sizeof bytes, NULL))
    return 0;
  const uint64_t bits = nabla_load_le64(bytes);
  double value;
  memcpy(&value, &bits, sizeof value);
  return isfinite(value);
}

/* Says which value cannot be encoded, by tensor, index and byte. */
static nabla_status refuse_value(const nabla_values *values,
                                 nabla_status status, uint64_t index,
                                 float value, nabla_diag *diag) {
  const nabla_tensor *tensor = &values->tensor;
  const nabla_entry entry = nabla_safetensors_entry(
      nabla_checkpoint_borrow_shard(values->checkpoint, tensor->data.shard),
      tensor->data.entry);
  if (status == NABLA_NOT_FINITE) {
    status =
        nabla_fail(diag, status, "the value at index %" PRIu64 " is %s", index,
                   isnan(value)                   ? "NaN"
                   : overflows_f32(values, index) ? "too large for f32"
                                                  : "infinite");
    nabla_diag_set_next(diag, "repair it, or keep the tensor as it is");
  } else {
    status = nabla_fail(diag, NABLA_UNSUPPORTED,
                        "the value %g at index %" PRIu64
                        " is too large for LLM.int8",
                        (double)value, index);
    nabla_diag_set_next(diag, "encode it by blocks, or keep it");
  }
  nabla_diag_set_offset(
      diag, entry.offset + index * (nabla_dtype_bits(tensor->dtype) / 8));
  return nabla_values_blame(values, status, diag);
}

static nabla_status put_scales(nabla_file_job *job, const nabla_item *item,
                               uint64_t scale, float *scales, uint64_t count,
                               nabla_diag *diag) {
  for (uint64_t i = 0; i < count; i++)
    nabla_store_le32(&scales[i], nabla_bits_of_f32(scales[i]));
  return nabla_safetensors_writer_write(job->writer, item->id + 1,
                                        scale * sizeof(float), scales,
                                        (size_t)count * sizeof(float), diag);
}

/* A piece of one row, whose absmax an earlier pass has found. */
static nabla_status encode_piece(nabla_file_job *job, const nabla_item *item,
                                 const nabla_format *format, uint64_t first,
                                 uint64_t count, nabla_scratch *scratch,
                                 nabla_diag *diag) {
  const uint64_t row = first / format->block;
  float absmax = nabla_f32_of_bits(atomic_load(&item->row_absmax[row]));
  const nabla_codec_options how = {.isa = job->task->isa};
  nabla_codec codec;
  NABLA_TRY(nabla_codec_select(format, &how, &codec, diag));
  if (!nabla_encode_part(&codec, scratch->values, (size_t)count, absmax,
                         scratch->raw, scratch->scales))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "the scale of row %" PRIu64 " is not finite", row);
  NABLA_TRY(nabla_safetensors_writer_write(job->writer, item->id, first,
                                           scratch->raw, (size_t)count, diag));
  if (first % format->block) return NABLA_OK;
  return put_scales(job, item, row, scratch->scales, 1, diag);
}

static nabla_status encode_tile(nabla_run *run, const nabla_item *item,
                                uint64_t first, uint64_t count,
                                nabla_scratch *scratch, nabla_diag *diag) {
  nabla_file_job *job = run->self;
  const nabla_format format = nabla_item_format(job, item);
  nabla_values values;
  NABLA_TRY(nabla_values_open(job->task->checkpoint, item->index,
                              job->task->isa, &values, diag));
  NABLA_TRY(nabla_values_read(&values, first, count, scratch, NULL, diag));
  atomic_fetch_add(&run->bytes_done,
                   count * nabla_dtype_bits(values.tensor.dtype) / 8);
  if (item->row_absmax)
    return encode_piece(job, item, &format, first, count, scratch, diag);
  nabla_codec codec;
  size_t index;
  const nabla_codec_options how = {.isa = job->task->isa};
  const nabla_packed packed = {.codes = scratch->raw,
                               .scales = scratch->scales};
  NABLA_TRY(nabla_codec_select(&format, &how, &codec, diag));
  nabla_status status = nabla_encode(&codec, scratch->values, NULL,
                                     (size_t)count, &packed, &index, NULL);
  if (status)
    return refuse_value(&values, status, first + index, scratch->values[index],
                        diag);
  NABLA_TRY(nabla_safetensors_writer_write(
      job->writer, item->id, nabla_code_offset(&format, first), scratch->raw,
      (size_t)nabla_code_bytes(&format, count), diag));
  return put_scales(job, item, first / format.block, scratch->scales,
                    nabla_ceil_div_u64(count, format.block), diag);
}

/* Says which value of a tile cannot be decoded: hostile or foreign scales may
 * be too large though finite. */
static nabla_status refuse_infinite(const nabla_values *values, uint64_t first,
                                    const nabla_scratch *scratch,
                                    nabla_diag *diag) {
  uint64_t i = 0;
  while (isfinite(scratch->values[i])) i++;
  nabla_status status = nabla_fail(
      diag, NABLA_NOT_FINITE,
      "its scale makes the value at index %" PRIu64 " infinite", first + i);
  nabla_diag_set_next(diag, "quantize the model again from its source");
  return nabla_values_blame(values, status, diag);
}

static nabla_status refuse_scale(const nabla_values *values, uint64_t scale,
                                 nabla_diag *diag) {
  nabla_status status = nabla_fail(diag, NABLA_NOT_FINITE,
                                   "scale %" PRIu64 " is not finite", scale);
  nabla_diag_set_next(diag, "quantize the model again from its source");
  return nabla_values_blame(values, status, diag);
}

static nabla_status refuse_overflow(const nabla_values *values,
                                    nabla_dtype dtype, uint64_t first,
                                    const nabla_scratch *scratch,
                                    nabla_diag *diag) {
  uint64_t i = 0;
  uint8_t narrow[8];
  while (!nabla_from_f32(dtype, &scratch->values[i], 1, narrow)) i++;
  nabla_status status = nabla_fail(
      diag, NABLA_UNSUPPORTED,
      "the value %g at index %" PRIu64 " does not fit in %s",
      (double)scratch->values[i], first + i, nabla_dtype_name(dtype));
  nabla_diag_set_next(diag, "decode to a wider dtype");
  return nabla_values_blame(values, status, diag);
}

static nabla_status decode_tile(nabla_run *run, const nabla_item *item,
                                uint64_t first, uint64_t count,
                                nabla_scratch *scratch, nabla_diag *diag) {
  nabla_file_job *job = run->self;
  const nabla_dequantize_options *options = job->task->dequantize;
  nabla_values values;
  uint64_t scales;
  NABLA_TRY(nabla_values_open(job->task->checkpoint, item->index,
                              job->task->isa, &values, diag));
  NABLA_TRY(nabla_values_read(&values, first, count, scratch, &scales, diag));
  atomic_fetch_add(
      &run->bytes_done,
      nabla_code_bytes(&values.tensor.format, count) + scales * sizeof(float));
  for (uint64_t i = 0; i < scales; i++)
    if (!isfinite(scratch->scales[i]))
      return refuse_scale(&values, first / values.tensor.format.block + i,
                          diag);
  if (!isfinite(nabla_absmax(job->task->isa, scratch->values, (size_t)count)))
    return refuse_infinite(&values, first, scratch, diag);
  const nabla_dtype dtype =
      options->has_dtype ? options->dtype : values.tensor.dtype;
  if (nabla_from_f32(dtype, scratch->values, (size_t)count, scratch->raw))
    return refuse_overflow(&values, dtype, first, scratch, diag);
  const uint64_t size = nabla_dtype_bits(dtype) / 8;
  return nabla_safetensors_writer_write(job->writer, item->id, first * size,
                                        scratch->raw, (size_t)(count * size),
                                        diag);
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
    return encode_tile(run, item, first, count, scratch, diag);
  return decode_tile(run, item, first, count, scratch, diag);
}

static const char *item_name(const nabla_file_job *job,
                             const nabla_item *item) {
  const nabla_checkpoint *checkpoint = job->task->checkpoint;
  if (item->kind != NABLA_ITEM_COPY)
    return nabla_checkpoint_tensor(checkpoint, item->index).name;
  return nabla_safetensors_entry(
             nabla_checkpoint_borrow_shard(checkpoint, item->shard),
             item->index)
      .name;
}

static uint64_t locate(const nabla_run *run, uint64_t tile,
                       const char **out_name) {
  const nabla_file_job *job = run->self;
  const uint64_t owner = nabla_tile_owner(job->first_tile, job->count, tile);
  *out_name = item_name(job, &job->items[owner]);
  return job->tensors_before + owner;
}

/* First pass over a tensor whose rows are larger than a tile. */
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
  /* FLT_MAX / 127 is rounded up: 127 times it is infinite. */
  if (!(absmax < FLT_MAX / 127)) {
    uint64_t i = 0;
    while (fabsf(scratch->values[i]) < FLT_MAX / 127) i++;
    const float value = scratch->values[i];
    return refuse_value(&values,
                        isfinite(value) ? NABLA_UNSUPPORTED : NABLA_NOT_FINITE,
                        first + i, value, diag);
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
  *out_name = item_name(scan->job, scan->item);
  return 0;
}

static nabla_status scan_rows(nabla_file_job *job, nabla_item *item,
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

/* Bytes of a decoded tensor that no tile reads: its description and table. */
static uint64_t companion_bytes(const nabla_file_job *job,
                                const nabla_item *item) {
  if (item->kind != NABLA_ITEM_DECODE) return 0;
  const nabla_tensor tensor =
      nabla_checkpoint_tensor(job->task->checkpoint, item->index);
  nabla_packed_size size;
  if (nabla_format_size(&tensor.format, tensor.elements, &size, NULL)) return 0;
  return tensor.stored_bytes - size.code_bytes - size.scales * sizeof(float);
}

nabla_status nabla_file_job_run(nabla_file_job *job, nabla_diag *diag) {
  uint64_t companions = 0;
  for (size_t i = 0; i < job->count; i++) {
    nabla_item *item = &job->items[i];
    companions += companion_bytes(job, item);
    if (item->kind == NABLA_ITEM_ENCODE && nabla_item_tiling(job, item).row)
      NABLA_TRY(scan_rows(job, item, diag));
  }
  nabla_run run = {
      .environment = job->task->environment,
      .phase = job->task->plan ? "quantize" : "dequantize",
      .tiles = job->first_tile[job->count],
      .bytes_total = job->task->bytes_total,
      .tensors_total = job->task->tensors_total,
      .tile = run_tile,
      .locate = locate,
      .self = job,
      .bytes_done = job->bytes_before,
  };
  NABLA_TRY(nabla_run_tiles(&run, diag));
  job->bytes_before = atomic_load(&run.bytes_done) + companions;
  job->tensors_before += job->count;
  return NABLA_OK;
}
