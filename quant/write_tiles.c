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
                                 const nabla_format *format,
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
  } else if (nabla_format_is_llm_int8(format)) {
    status = nabla_fail(diag, NABLA_UNSUPPORTED,
                        "the value %g at index %" PRIu64
                        " is too large for LLM.int8",
                        (double)value, index);
    nabla_diag_set_next(diag, "encode it by blocks, or keep it");
  } else {
    status = nabla_fail(
        diag, NABLA_UNSUPPORTED,
        "the value %g at index %" PRIu64 " is too large for scales of %s",
        (double)value, index, nabla_scale_info_of(format->scale)->option);
    nabla_diag_set_next(diag, "use scales of f32, or keep it");
  }
  nabla_diag_set_offset(
      diag, entry.offset + index * (nabla_dtype_bits(tensor->dtype) / 8));
  return nabla_values_blame(values, status, diag);
}

/* Files are little-endian. */
static void swap_scales(nabla_scale_type type, void *scales, uint64_t count) {
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
  const size_t width = nabla_scale_info_of(type)->bytes;
  uint8_t *at = scales;
  for (uint64_t i = 0; i < count; i++, at += width)
    for (size_t b = 0; b < width / 2; b++) {
      const uint8_t low = at[b];
      at[b] = at[width - 1 - b];
      at[width - 1 - b] = low;
    }
#else
  (void)type;
  (void)scales;
  (void)count;
#endif
}

static nabla_status put_scales(nabla_file_job *job, const nabla_item *item,
                               const nabla_format *format, uint64_t scale,
                               const nabla_packed *packed, uint64_t count,
                               nabla_diag *diag) {
  const size_t width = nabla_scale_width(format);
  if (packed->zero_points)
    NABLA_TRY(nabla_safetensors_writer_write(job->writer, item->id + 2, scale,
                                             packed->zero_points, (size_t)count,
                                             diag));
  if (format->scale == NABLA_SCALE_DYNAMIC8)
    return nabla_spill_write(job->spill, item->spill + scale, packed->scales,
                             (size_t)count, diag);
  swap_scales(format->scale, packed->scales, count);
  return nabla_safetensors_writer_write(job->writer, item->id + 1,
                                        scale * width, packed->scales,
                                        (size_t)count * width, diag);
}

/* A piece of one row, or of a tensor with one scale, whose absmax an earlier
 * pass has found. */
static nabla_status encode_piece(nabla_file_job *job, const nabla_item *item,
                                 const nabla_codec *codec, uint64_t first,
                                 uint64_t count, nabla_scratch *scratch,
                                 nabla_diag *diag) {
  const nabla_format *format = &codec->format;
  const nabla_packed packed = {.codes = scratch->raw,
                               .scales = scratch->scales};
  const uint64_t row = first / format->block;
  float absmax = nabla_f32_of_bits(atomic_load(&item->row_absmax[row]));
  if (!nabla_encode_part(codec, scratch->values, (size_t)count, absmax,
                         packed.codes, packed.scales))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "row %" PRIu64
                      " with values up to %g is too large for "
                      "scales of %s",
                      row, (double)absmax,
                      nabla_scale_info_of(format->scale)->option);
  NABLA_TRY(nabla_safetensors_writer_write(job->writer, item->id, first,
                                           packed.codes, (size_t)count, diag));
  if (first % format->block) return NABLA_OK;
  return put_scales(job, item, format, row, &packed, 1, diag);
}

static nabla_status select_codec(const nabla_file_job *job,
                                 const nabla_item *item, nabla_dtype dtype,
                                 uint64_t first, uint64_t count,
                                 nabla_codec *out, nabla_diag *diag) {
  const nabla_decision *decision = &job->task->plan->decisions[item->index];
  const nabla_codec_options how = {
      .isa = job->task->isa, .dtype = dtype, .search = decision->search};
  nabla_format format = decision->format;
  /* a tile inside a segment has blocks of one run */
  if (format.segment && (first % format.segment || count < format.segment))
    format.segment = 0;
  return nabla_codec_select(&format, &how, out, diag);
}

static nabla_status encode_tile(nabla_run *run, const nabla_item *item,
                                uint64_t first, uint64_t count,
                                nabla_scratch *scratch, nabla_diag *diag) {
  nabla_file_job *job = run->self;
  const nabla_format format = nabla_item_format(job, item);
  nabla_values values;
  nabla_dtype dtype;
  nabla_codec codec;
  const float *weights;
  size_t index;
  NABLA_TRY(nabla_values_open(job->task->checkpoint, item->index,
                              job->task->isa, &values, diag));
  NABLA_TRY(nabla_values_load(&values, first, count, scratch, &dtype, diag));
  atomic_fetch_add(&run->bytes_done,
                   count * nabla_dtype_bits(values.tensor.dtype) / 8);
  NABLA_TRY(select_codec(job, item, dtype, first, count, &codec, diag));
  if (item->row_absmax) {
    nabla_status status =
        encode_piece(job, item, &codec, first, count, scratch, diag);
    return status ? nabla_values_blame(&values, status, diag) : NABLA_OK;
  }
  NABLA_TRY(nabla_importance_read(job->task->plan, item->index, first, count,
                                  scratch, &weights, diag));
  const nabla_packed packed = {
      .codes = scratch->raw,
      .scales = scratch->scales,
      .zero_points = format.zero_point ? scratch->zeros : NULL};
  nabla_status status = nabla_encode(&codec, scratch->values, weights,
                                     (size_t)count, &packed, &index, NULL);
  if (status) {
    float value;
    nabla_to_f32(dtype,
                 (const uint8_t *)scratch->values +
                     index * (nabla_dtype_bits(dtype) / 8),
                 1, &value);
    return refuse_value(&values, &format, status, first + index, value, diag);
  }
  NABLA_TRY(nabla_safetensors_writer_write(
      job->writer, item->id, nabla_code_offset(&format, first), scratch->raw,
      (size_t)nabla_code_bytes(&format, count), diag));
  return put_scales(job, item, &format, nabla_scale_index(&format, first),
                    &packed, nabla_scale_span(&format, first, count), diag);
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

/* Checks the scales of a range. @return the largest magnitude among them in
 * *out */
static nabla_status check_scales(const nabla_values *values,
                                 const nabla_range *range,
                                 const nabla_scratch *scratch, float *out,
                                 nabla_diag *diag) {
  float most = 0;
  int all = 1;
  for (uint64_t i = 0; i < range->scales; i++) {
    const float magnitude = fabsf(scratch->scales[i]);
    all &= magnitude <= FLT_MAX;
    most = magnitude > most ? magnitude : most;
  }
  *out = most;
  for (uint64_t i = 0; i < range->scales && !all; i++)
    if (!isfinite(scratch->scales[i]))
      return refuse_scale(values, range->first_scale + i, diag);
  return NABLA_OK;
}

/* Decodes a tile by way of f32, looking at every value. */
static nabla_status decode_checked(const nabla_values *values,
                                   const nabla_range *range, uint64_t first,
                                   nabla_scratch *scratch, nabla_dtype dtype,
                                   nabla_diag *diag) {
  const size_t count = (size_t)range->length; /* tiles begin with blocks */
  nabla_values_decode(values, range, scratch, NABLA_DTYPE_F32, scratch->values);
  if (!isfinite(nabla_absmax(values->codec.isa, scratch->values, count)))
    return refuse_infinite(values, first, scratch, diag);
  if (nabla_from_f32(dtype, scratch->values, count, scratch->raw))
    return refuse_overflow(values, dtype, first, scratch, diag);
  return NABLA_OK;
}

/* Bytes of a tensor's file that a range takes. A scale of pieces counts with
 * the first of them. */
static uint64_t range_bytes(const nabla_format *format,
                            const nabla_range *range) {
  const int is_inside = format->granularity != NABLA_PER_BLOCK &&
                        range->start % format->block != 0;
  const uint64_t each =
      nabla_scale_info_of(format->scale)->bytes + (format->zero_point != 0);
  return nabla_code_bytes(format, range->length) +
         (range->scales - (is_inside ? 1 : 0)) * each;
}

static nabla_status decode_tile(nabla_run *run, const nabla_item *item,
                                uint64_t first, uint64_t count,
                                nabla_scratch *scratch, nabla_diag *diag) {
  nabla_file_job *job = run->self;
  const nabla_dequantize_options *options = job->task->dequantize;
  nabla_values values;
  float most;
  NABLA_TRY(nabla_values_open(job->task->checkpoint, item->index,
                              job->task->isa, &values, diag));
  const nabla_format *format = &values.tensor.format;
  const nabla_range range = nabla_values_range(format, first, count);
  NABLA_TRY(nabla_values_fetch(&values, &range, scratch, diag));
  atomic_fetch_add(&run->bytes_done, range_bytes(format, &range));
  NABLA_TRY(check_scales(&values, &range, scratch, &most, diag));
  const nabla_dtype dtype =
      options->has_dtype ? options->dtype : values.tensor.dtype;
  const uint64_t size = nabla_dtype_bits(dtype) / 8;
  const void *data = scratch->values;
  if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
      nabla_codes_stay_within(format, scratch->raw,
                              (size_t)nabla_code_bytes(format, count), most,
                              dtype)) {
    nabla_values_decode(&values, &range, scratch, dtype, scratch->values);
  } else {
    NABLA_TRY(decode_checked(&values, &range, first, scratch, dtype, diag));
    data = scratch->raw;
  }
  return nabla_safetensors_writer_write(job->writer, item->id, first * size,
                                        data, (size_t)(count * size), diag);
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
  const nabla_format format = nabla_item_format(scan->job, scan->item);
  /* FLT_MAX / 127 is rounded up: 127 times it is infinite. */
  const float bound =
      nabla_format_is_llm_int8(&format) ? FLT_MAX / 127 : INFINITY;
  if (!(absmax < bound)) {
    uint64_t i = 0;
    while (fabsf(scratch->values[i]) < bound) i++;
    const float value = scratch->values[i];
    return refuse_value(&values, &format,
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
