/* See values.h. */
#include "quant/values.h"

#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "quant/codec.h"
#include "quant/formats/checkpoint_internal.h"

/* Cache lines; also what vector loads like. */
enum { ALIGNMENT = 64 };

nabla_status nabla_scratch_create(const nabla_allocator *allocator,
                                  uint64_t tile, nabla_scratch *out,
                                  nabla_diag *diag) {
  const size_t raw = (size_t)tile * 8;
  const size_t scales = (size_t)tile * sizeof(float) + ALIGNMENT;
  const size_t values = ((size_t)tile + NABLA_BLOCK_MAX) * sizeof(float);
  const size_t size = raw + scales + values + ALIGNMENT;
  void *block;
  NABLA_TRY(nabla_alloc(allocator, size, 1, &block, diag));
  uint8_t *at = block;
  at += (ALIGNMENT - (uintptr_t)at % ALIGNMENT) % ALIGNMENT;
  *out = (nabla_scratch){.tile = tile,
                         .raw = at,
                         .scales = (float *)(void *)(at + raw),
                         .values = (float *)(void *)(at + raw + scales),
                         .block = block,
                         .block_size = size};
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
    const nabla_codec_options how = {.isa = isa};
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
  return nabla_safetensors_read(
      nabla_checkpoint_borrow_shard(values->checkpoint, part.shard), part.entry,
      at, out, size, diag);
}

static nabla_status read_dense(const nabla_values *values, uint64_t first,
                               uint64_t count, nabla_scratch *scratch,
                               nabla_diag *diag) {
  const nabla_dtype dtype = values->tensor.dtype;
  const uint64_t size = nabla_dtype_bits(dtype) / 8;
  if (dtype == NABLA_DTYPE_F32 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
    return read_part(values, values->tensor.data, first * size, scratch->values,
                     (size_t)(count * size), diag);
  NABLA_TRY(read_part(values, values->tensor.data, first * size, scratch->raw,
                      (size_t)(count * size), diag));
  nabla_to_f32(dtype, scratch->raw, (size_t)count, scratch->values);
  return NABLA_OK;
}

/* A piece of a row decodes as a short row of its own. */
static void decode_rows(const nabla_values *values, uint64_t first,
                        uint64_t count, nabla_scratch *scratch) {
  const uint64_t row = values->tensor.format.block;
  nabla_codec codec = values->codec;
  float *scales = scratch->scales;
  for (uint64_t done = 0; done < count;) {
    const uint64_t left = count - done, at = (first + done) % row;
    const int whole = at == 0 && left >= row;
    const uint64_t piece = whole             ? left / row * row
                           : left < row - at ? left
                                             : row - at;
    codec.format.block = whole ? row : piece;
    const nabla_packed packed = {.codes = scratch->raw + done,
                                 .scales = scales};
    nabla_decode(&codec, &packed, (size_t)piece, scratch->values + done);
    scales += piece / codec.format.block;
    done += piece;
  }
}

nabla_status nabla_values_read(const nabla_values *values, uint64_t first,
                               uint64_t count, nabla_scratch *scratch,
                               uint64_t *out_scales, nabla_diag *diag) {
  const nabla_tensor *tensor = &values->tensor;
  const nabla_format *format = &tensor->format;
  if (out_scales) *out_scales = 0;
  if (!format->encoding) return read_dense(values, first, count, scratch, diag);
  const int rows = format->granularity == NABLA_PER_ROW;
  const uint64_t skip = first % format->block;
  const uint64_t start = rows ? first : first - skip;
  const uint64_t length = rows ? count : count + skip;
  const uint64_t scales = nabla_ceil_div_u64(skip + count, format->block);
  NABLA_TRY(read_part(values, tensor->data, nabla_code_offset(format, start),
                      scratch->raw, (size_t)nabla_code_bytes(format, length),
                      diag));
  NABLA_TRY(read_part(values, tensor->scales,
                      first / format->block * sizeof(float), scratch->scales,
                      (size_t)scales * sizeof(float), diag));
  for (uint64_t i = 0; i < scales; i++) /* files are little-endian */
    scratch->scales[i] =
        nabla_f32_of_bits(nabla_load_le32(&scratch->scales[i]));
  if (rows) {
    decode_rows(values, first, count, scratch);
  } else {
    const nabla_packed packed = {.codes = scratch->raw,
                                 .scales = scratch->scales};
    nabla_decode(&values->codec, &packed, (size_t)length, scratch->values);
    if (skip)
      memmove(scratch->values, scratch->values + skip,
              (size_t)count * sizeof(float));
  }
  if (out_scales) *out_scales = scales;
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
