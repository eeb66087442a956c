/* Tiles of a tensor that is encoded: read, encode, write. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "quant/codec/codec.h"
#include "quant/write/write_internal.h"

/* Returns whether a value is finite in the file, though not in f32: F64 has
 * larger values. */
static int overflows_f32(const nabla_values *values, uint64_t index) {
  uint8_t bytes[8];
  const nabla_part part = values->tensor.data;
  if (values->tensor.dtype != NABLA_DTYPE_F64 ||
      nabla_tensor_file_read(
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
  const nabla_entry entry = nabla_tensor_file_entry(
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

/* Encodes a piece of one row, or of a tensor with one scale, whose absmax was
 * computed in an earlier pass. */
static nabla_status encode_piece(const nabla_packed_tile *tile,
                                 const nabla_codec *codec,
                                 const nabla_scratch *scratch,
                                 nabla_diag *diag) {
  const uint64_t row = tile->first / codec->format.block;
  float absmax = nabla_f32_of_bits(atomic_load(&tile->item->row_absmax[row]));
  if (nabla_encode_part(codec, scratch->values, (size_t)tile->count, absmax,
                        tile->packed.codes, tile->packed.scales))
    return NABLA_OK;
  return nabla_fail(diag, NABLA_UNSUPPORTED,
                    "row %" PRIu64
                    " with values up to %g is too large for "
                    "scales of %s",
                    row, (double)absmax,
                    nabla_scale_info_of(codec->format.scale)->option);
}

static nabla_status select_codec(const nabla_file_job *job,
                                 const nabla_item *item, nabla_dtype dtype,
                                 uint64_t first, uint64_t count,
                                 nabla_codec *out, nabla_diag *diag) {
  const nabla_decision *decision = &job->task->plan->decisions[item->index];
  const nabla_codec_options how = {.struct_size = sizeof how,
                                   .isa = job->task->isa,
                                   .dtype = dtype,
                                   .search = decision->search};
  nabla_format format = *nabla_plan_format(job->task->plan, item->index);
  /* all blocks of a tile inside a segment are consecutive */
  if (format.segment && (first % format.segment || count < format.segment))
    format.segment = 0;
  return nabla_codec_select(&format, &how, out, diag);
}

/* Encodes the values [part->first, part->first + part->count). */
static nabla_status encode_values(nabla_run *run, const nabla_values *values,
                                  const nabla_packed_tile *part,
                                  nabla_scratch *scratch, nabla_diag *diag) {
  const nabla_file_job *job = run->self;
  const nabla_item *item = part->item;
  const uint64_t first = part->first, count = part->count;
  nabla_dtype dtype;
  nabla_codec codec;
  const float *weights;
  size_t index;
  NABLA_TRY(nabla_values_load(values, first, count, scratch, &dtype, diag));
  atomic_fetch_add(&run->bytes_done,
                   count * nabla_dtype_bits(values->tensor.dtype) / 8);
  NABLA_TRY(select_codec(job, item, dtype, first, count, &codec, diag));
  if (item->row_absmax) {
    nabla_status status = encode_piece(part, &codec, scratch, diag);
    return status ? nabla_values_blame(values, status, diag) : NABLA_OK;
  }
  NABLA_TRY(nabla_importance_read(job->task->plan, item->index, first, count,
                                  scratch, &weights, diag));
  nabla_status status =
      nabla_encode(&codec, scratch->values, weights, (size_t)count,
                   &part->packed, &index, NULL);
  if (!status) return NABLA_OK;
  const nabla_format format = nabla_item_format(job, item);
  float value;
  nabla_to_f32(
      dtype,
      (const uint8_t *)scratch->values + index * (nabla_dtype_bits(dtype) / 8),
      1, &value);
  return nabla_value_refuse(values, &format, status, first + index, value,
                            diag);
}

/* Returns how many values are read and encoded at a time: whole blocks, rows or
 * segments that fit in the second cache. Returns 0 if one of them does not fit,
 * or is so short that nabla_encoded has no space for its scales. */
static uint64_t piece_of(const nabla_item *item, const nabla_format *format) {
  const uint64_t unit = nabla_format_unit(format);
  if (item->row_absmax || unit < NABLA_BLOCK_MIN || unit > NABLA_READ_VALUES)
    return 0;
  return NABLA_READ_VALUES / unit * unit;
}

static nabla_status encode_pieces(nabla_run *run, const nabla_values *values,
                                  const nabla_format *format, uint64_t piece,
                                  const nabla_packed_tile *tile,
                                  nabla_scratch *scratch, nabla_diag *diag) {
  const uint64_t first_scale = nabla_scale_index(format, tile->first);
  nabla_packed_tile part = *tile;
  for (uint64_t done = 0; done < tile->count; done += part.count) {
    const uint64_t left = tile->count - done;
    part.first = tile->first + done;
    part.count = left < piece ? left : piece;
    const uint64_t scale = nabla_scale_index(format, part.first) - first_scale;
    part.packed.codes = tile->packed.codes + nabla_code_bytes(format, done);
    part.packed.scales =
        (uint8_t *)tile->packed.scales + scale * nabla_scale_width(format);
    if (format->zero_point)
      part.packed.zero_points = tile->packed.zero_points + scale;
    NABLA_TRY(encode_values(run, values, &part, scratch, diag));
  }
  return NABLA_OK;
}

nabla_status nabla_tile_encode(nabla_run *run, const nabla_packed_tile *tile,
                               uint32_t worker, nabla_diag *diag) {
  nabla_file_job *job = run->self;
  nabla_scratch *scratch = &job->scratches[worker];
  const nabla_format format = nabla_item_format(job, tile->item);
  nabla_packed_tile out = *tile;
  nabla_values values;
  NABLA_TRY(nabla_values_open(job->task->checkpoint, tile->item->index,
                              job->task->isa, &values, diag));
  const uint64_t piece = piece_of(tile->item, &format);
  if (piece) {
    const nabla_encoded *room = nabla_tile_buffers(job, worker);
    out.packed = (nabla_packed){
        .codes = room->codes,
        .scales = room->scales,
        .zero_points = format.zero_point ? room->zero_points : NULL};
    NABLA_TRY(encode_pieces(run, &values, &format, piece, &out, scratch, diag));
    return nabla_tile_put_soon(job, worker, &out, diag);
  }
  out.packed =
      (nabla_packed){.codes = scratch->raw,
                     .scales = scratch->scales,
                     .zero_points = format.zero_point ? scratch->zeros : NULL};
  NABLA_TRY(encode_values(run, &values, &out, scratch, diag));
  return nabla_tile_put(job, &out, diag);
}
