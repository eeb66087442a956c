/* See tensor_reader.h. */
#include "quant/tiles/tensor_reader.h"

#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "quant/codec/codec.h"
#include "quant/formats/checkpoint_internal.h"

/* Cache lines; also what vector loads like. */
enum { ALIGNMENT = 64 };

/* Files are. */
#define IS_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

nabla_status nabla_scratch_create(const nabla_allocator *allocator,
                                  uint64_t tile, nabla_scratch *out,
                                  nabla_diag *diag) {
  const size_t raw = (size_t)tile * 8;
  const size_t scales = (size_t)tile * sizeof(float) + ALIGNMENT;
  const size_t values = ((size_t)tile + NABLA_BLOCK_MAX) * sizeof(float);
  const size_t stored = (size_t)tile * 2 + ALIGNMENT;
  const size_t zeros = (size_t)tile + ALIGNMENT;
  const size_t blocks = (size_t)NABLA_ENCODED_SCALES(tile);
  const size_t encoded = (size_t)tile + blocks * (sizeof(float) + 1);
  const size_t start = raw + scales + values + stored + zeros;
  const size_t size = start + 2 * (encoded + ALIGNMENT) + ALIGNMENT;
  void *block;
  NABLA_TRY(nabla_alloc_raw(allocator, size, 1, &block, diag));
  uint8_t *at = block;
  at += (ALIGNMENT - (uintptr_t)at % ALIGNMENT) % ALIGNMENT;
  *out = (nabla_scratch){.tile = tile,
                         .raw = at,
                         .scales = (float *)(void *)(at + raw),
                         .values = (float *)(void *)(at + raw + scales),
                         .stored = at + raw + scales + values,
                         .zeros = at + raw + scales + values + stored,
                         .block = block,
                         .block_size = size};
  for (size_t i = 0; i < 2; i++) {
    uint8_t *codes = at + start + i * (encoded + ALIGNMENT);
    codes += (ALIGNMENT - (uintptr_t)codes % ALIGNMENT) % ALIGNMENT;
    out->encoded[i] =
        (nabla_encoded){.codes = codes,
                        .scales = (float *)(void *)(codes + tile),
                        .zero_points = codes + tile + blocks * sizeof(float)};
  }
  return NABLA_OK;
}

void nabla_scratch_destroy(const nabla_allocator *allocator,
                           nabla_scratch *scratch) {
  nabla_free(allocator, scratch->block, scratch->block_size, 1);
}

nabla_status nabla_scratches_create(const nabla_allocator *allocator,
                                    uint32_t workers, uint64_t tile,
                                    nabla_scratch **out, nabla_diag *diag) {
  void *block;
  NABLA_TRY(
      nabla_alloc(allocator, workers, sizeof(nabla_scratch), &block, diag));
  nabla_scratch *scratches = block;
  for (uint32_t i = 0; i < workers; i++) {
    nabla_status status =
        nabla_scratch_create(allocator, tile, &scratches[i], diag);
    if (!status) continue;
    nabla_scratches_destroy(allocator, workers, scratches);
    return status;
  }
  *out = scratches;
  return NABLA_OK;
}

void nabla_scratches_destroy(const nabla_allocator *allocator, uint32_t workers,
                             nabla_scratch *scratches) {
  if (!scratches) return;
  for (uint32_t i = 0; i < workers; i++)
    nabla_scratch_destroy(allocator, &scratches[i]);
  nabla_free(allocator, scratches, workers, sizeof(nabla_scratch));
}

nabla_status nabla_values_blame(const nabla_values *values, nabla_status status,
                                nabla_diag *diag) {
  return nabla_checkpoint_blame(values->checkpoint, &values->tensor, status,
                                diag);
}

nabla_status nabla_values_open(const nabla_checkpoint *checkpoint,
                               size_t tensor, nabla_isa isa, nabla_values *out,
                               nabla_diag *diag) {
  nabla_values values = {.checkpoint = checkpoint,
                         .tensor = nabla_checkpoint_tensor(checkpoint, tensor)};
  if (values.tensor.unsupported)
    return nabla_values_blame(
        &values,
        nabla_fail(diag, NABLA_UNSUPPORTED, "cannot be decoded: %s",
                   values.tensor.unsupported),
        diag);
  if (!values.tensor.format.encoding) {
    if (!nabla_dtype_is_float(values.tensor.dtype))
      return nabla_values_blame(
          &values,
          nabla_fail(diag, NABLA_UNSUPPORTED,
                     "%s is not a type that is read by value",
                     nabla_dtype_name(values.tensor.dtype)),
          diag);
  } else {
    const nabla_codec_options how = {.struct_size = sizeof how, .isa = isa};
    nabla_status status =
        nabla_codec_select(&values.tensor.format, &how, &values.codec, diag);
    if (status) return nabla_values_blame(&values, status, diag);
  }
  *out = values;
  return NABLA_OK;
}

static nabla_status read_part(const nabla_values *values, nabla_part part,
                              uint64_t at, void *out, size_t size,
                              nabla_diag *diag) {
  return nabla_tensor_file_read(
      nabla_checkpoint_borrow_shard(values->checkpoint, part.shard), part.entry,
      at, out, size, diag);
}

static nabla_status read_dense(const nabla_values *values, uint64_t first,
                               uint64_t count, nabla_scratch *scratch,
                               nabla_diag *diag) {
  const nabla_dtype dtype = values->tensor.dtype;
  const uint64_t size = nabla_dtype_bits(dtype) / 8;
  if (dtype == NABLA_DTYPE_F32 && IS_LITTLE)
    return read_part(values, values->tensor.data, first * size, scratch->values,
                     (size_t)(count * size), diag);
  NABLA_TRY(read_part(values, values->tensor.data, first * size, scratch->raw,
                      (size_t)(count * size), diag));
  nabla_to_f32(dtype, scratch->raw, (size_t)count, scratch->values);
  return NABLA_OK;
}

nabla_status nabla_values_load(const nabla_values *values, uint64_t first,
                               uint64_t count, nabla_scratch *scratch,
                               nabla_dtype *out, nabla_diag *diag) {
  const nabla_dtype dtype = values->tensor.dtype;
  const uint64_t size = nabla_dtype_bits(dtype) / 8;
  if (size > sizeof(float) || !IS_LITTLE) {
    *out = NABLA_DTYPE_F32;
    return read_dense(values, first, count, scratch, diag);
  }
  *out = dtype;
  return read_part(values, values->tensor.data, first * size, scratch->values,
                   (size_t)(count * size), diag);
}

nabla_range nabla_values_range(const nabla_format *format, uint64_t first,
                               uint64_t count) {
  nabla_range range = {.start = first, .length = count};
  if (format->granularity == NABLA_PER_BLOCK) {
    const uint64_t in =
        format->segment ? first % format->segment : first; /* the segment */
    range.start = first - in % format->block;
    range.length = count + in % format->block;
  }
  range.first_scale = nabla_scale_index(format, first);
  range.scales = nabla_scale_span(format, first, count);
  return range;
}

/* Scales of dynamic8: their codes and the absmax of their groups. */
static nabla_status fetch_nested(const nabla_values *values,
                                 const nabla_range *range,
                                 nabla_scratch *scratch, nabla_diag *diag) {
  const nabla_nested *nested = values->tensor.nested;
  const uint64_t group = range->first_scale / nested->how.block;
  const uint64_t in = range->first_scale % nested->how.block;
  const uint64_t groups =
      nabla_ceil_div_u64(in + range->scales, nested->how.block);
  float *absmax = scratch->values; /* nothing is there yet */
  NABLA_TRY(read_part(values, values->tensor.scales, range->first_scale,
                      scratch->stored, (size_t)range->scales, diag));
  NABLA_TRY(read_part(values, nested->absmax, group * sizeof(float), absmax,
                      (size_t)groups * sizeof(float), diag));
  for (uint64_t i = 0; i < groups && !IS_LITTLE; i++)
    absmax[i] = nabla_f32_of_bits(nabla_load_le32(&absmax[i]));
  nabla_dynamic8_decode(&nested->how, scratch->stored, absmax, (size_t)in,
                        (size_t)range->scales, scratch->scales);
  return NABLA_OK;
}

static nabla_status fetch_scales(const nabla_values *values,
                                 const nabla_range *range,
                                 nabla_scratch *scratch, nabla_diag *diag) {
  const nabla_scale_type type = values->tensor.format.scale;
  const size_t width = nabla_scale_info_of(type)->bytes;
  if (type == NABLA_SCALE_DYNAMIC8)
    return fetch_nested(values, range, scratch, diag);
  void *raw = type == NABLA_SCALE_F32 ? (void *)scratch->scales
                                      : (void *)scratch->stored;
  NABLA_TRY(read_part(values, values->tensor.scales, range->first_scale * width,
                      raw, (size_t)range->scales * width, diag));
  nabla_scales_widen(type, raw, (size_t)range->scales, scratch->scales);
  return NABLA_OK;
}

nabla_status nabla_values_fetch(const nabla_values *values,
                                const nabla_range *range,
                                nabla_scratch *scratch, nabla_diag *diag) {
  const nabla_tensor *tensor = &values->tensor;
  const nabla_format *format = &tensor->format;
  NABLA_TRY(fetch_scales(values, range, scratch, diag));
  if (format->zero_point)
    NABLA_TRY(read_part(values, tensor->zero_points, range->first_scale,
                        scratch->zeros, (size_t)range->scales, diag));
  return read_part(values, tensor->data,
                   nabla_code_offset(format, range->start), scratch->raw,
                   (size_t)nabla_code_bytes(format, range->length), diag);
}

/* How many of the `left` values at `first` share what decodes them at once: a
 * piece of a row, segment or block of its own, or many whole ones. */
static uint64_t next_piece(const nabla_format *format, uint64_t first,
                           uint64_t left, int *is_whole) {
  const uint64_t unit = nabla_format_unit(format);
  const uint64_t at = first % unit;
  *is_whole = at == 0 && left >= unit;
  if (*is_whole) return left / unit * unit;
  return left < unit - at ? left : unit - at;
}

void nabla_values_decode(const nabla_values *values, const nabla_range *range,
                         const nabla_scratch *scratch, nabla_dtype dtype,
                         void *out) {
  const nabla_format *format = &values->tensor.format;
  const int is_rows = format->granularity != NABLA_PER_BLOCK;
  const size_t width = nabla_dtype_bits(dtype) / 8;
  nabla_codec codec = values->codec;
  if (format->scale != NABLA_SCALE_F32) /* f32, but not LLM.int8 */
    codec.format.scale = NABLA_SCALE_DYNAMIC8;
  codec.dtype = dtype;
  if (!is_rows && !format->segment) {
    const nabla_packed packed = {scratch->raw, scratch->scales, scratch->zeros};
    nabla_decode(&codec, &packed, (size_t)range->length, out);
    return;
  }
  uint64_t piece;
  for (uint64_t done = 0; done < range->length; done += piece) {
    const uint64_t first = range->start + done;
    int is_whole;
    piece = next_piece(format, first, range->length - done, &is_whole);
    if (is_rows) codec.format.block = is_whole ? format->block : piece;
    codec.format.segment = is_whole ? format->segment : 0;
    const uint64_t scale =
        nabla_scale_index(format, first) - range->first_scale;
    const nabla_packed packed = {scratch->raw + nabla_code_bytes(format, done),
                                 scratch->scales + scale,
                                 scratch->zeros + scale};
    nabla_decode(&codec, &packed, (size_t)piece, (uint8_t *)out + done * width);
  }
}

nabla_status nabla_values_read(const nabla_values *values, uint64_t first,
                               uint64_t count, nabla_scratch *scratch,
                               uint64_t *out_scales, nabla_diag *diag) {
  const nabla_format *format = &values->tensor.format;
  if (out_scales) *out_scales = 0;
  if (!format->encoding) return read_dense(values, first, count, scratch, diag);
  const nabla_range range = nabla_values_range(format, first, count);
  NABLA_TRY(nabla_values_fetch(values, &range, scratch, diag));
  nabla_values_decode(values, &range, scratch, NABLA_DTYPE_F32,
                      scratch->values);
  if (first > range.start)
    memmove(scratch->values, scratch->values + (first - range.start),
            (size_t)count * sizeof(float));
  if (out_scales) *out_scales = range.scales;
  return NABLA_OK;
}

const double *nabla_values_widen(const nabla_values *values, uint64_t count,
                                 nabla_scratch *scratch) {
  double *out = (double *)(void *)scratch->raw;
  const int is_f64 = !values->tensor.format.encoding &&
                     values->tensor.dtype == NABLA_DTYPE_F64;
  for (uint64_t i = 0; i < count && is_f64; i++) {
    const uint64_t bits = nabla_load_le64(&out[i]);
    memcpy(&out[i], &bits, sizeof bits);
  }
  for (uint64_t i = 0; i < count && !is_f64; i++)
    out[i] = (double)scratch->values[i];
  return out;
}
