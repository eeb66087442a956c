/* Tiles of a tensor that is decoded: read, check scales and codes, decode,
 * write. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "quant/codec/codec.h"
#include "quant/tiles/verify_packed.h"
#include "quant/write/write_internal.h"

/* Reports the value of a tile that cannot be decoded. In hostile or foreign
 * files, scales may be finite and still too large. */
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

/* Checks the scales of a range; stores the largest magnitude among them in
 * *out. */
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

/* Decodes a tile to f32 first and checks every value. */
static nabla_status decode_checked(const nabla_values *values,
                                   const nabla_range *range, uint64_t first,
                                   nabla_scratch *scratch, nabla_dtype dtype,
                                   nabla_diag *diag) {
  const size_t count = (size_t)range->length; /* a tile begins with a block */
  nabla_values_decode(values, range, scratch, NABLA_DTYPE_F32, scratch->values);
  if (!isfinite(nabla_absmax(values->codec.isa, scratch->values, count)))
    return refuse_infinite(values, first, scratch, diag);
  if (nabla_from_f32(dtype, scratch->values, count, scratch->raw))
    return refuse_overflow(values, dtype, first, scratch, diag);
  return NABLA_OK;
}

/* Returns the bytes in the file that a range takes. The scale of a row that is
 * divided counts with its first piece. */
static uint64_t range_bytes(const nabla_format *format,
                            const nabla_range *range) {
  const int is_inside = format->granularity != NABLA_PER_BLOCK &&
                        range->start % format->block != 0;
  const uint64_t each =
      nabla_scale_info_of(format->scale)->bytes + (format->zero_point != 0);
  return nabla_code_bytes(format, range->length) +
         (range->scales - (is_inside ? 1 : 0)) * each;
}

nabla_status nabla_tile_decode(nabla_run *run, const nabla_item *item,
                               uint64_t first, uint64_t count,
                               nabla_scratch *scratch, nabla_diag *diag) {
  nabla_file_job *job = run->self;
  nabla_values values;
  float most;
  NABLA_TRY(nabla_values_open(job->task->checkpoint, item->index,
                              job->task->isa, &values, diag));
  const nabla_format *format = &values.tensor.format;
  const nabla_range range = nabla_values_range(format, first, count);
  NABLA_TRY(nabla_values_fetch(&values, &range, scratch, diag));
  atomic_fetch_add(&run->bytes_done, range_bytes(format, &range));
  NABLA_TRY(check_scales(&values, &range, scratch, &most, diag));
  if (format->encoding->bits < 8) /* 8-bit codes that are no number decode to
                                   * NaN, found below */
    NABLA_TRY(nabla_packed_check_bytes(
        &values, nabla_code_offset(format, range.start), scratch->raw,
        (size_t)nabla_code_bytes(format, range.length), diag));
  const nabla_dtype dtype = nabla_write_dtype(job->task, &values.tensor);
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
