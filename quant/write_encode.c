/* The tiles of a tensor that is encoded: read, encode, write. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "quant/codec.h"
#include "quant/write_internal.h"

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

nabla_status nabla_value_refuse(const nabla_values *values,
                                const nabla_format *format, nabla_status status,
                                uint64_t index, float value, nabla_diag *diag) {
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

nabla_status nabla_tile_encode(nabla_run *run, const nabla_item *item,
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
    return nabla_value_refuse(&values, &format, status, first + index, value,
                              diag);
  }
  NABLA_TRY(nabla_safetensors_writer_write(
      job->writer, item->id, nabla_code_offset(&format, first), scratch->raw,
      (size_t)nabla_code_bytes(&format, count), diag));
  return put_scales(job, item, &format, nabla_scale_index(&format, first),
                    &packed, nabla_scale_span(&format, first, count), diag);
}
