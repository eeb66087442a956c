/* Elements of a weight as f32, from any element on: nabla_decode begins at the
 * start of a block only. */
#include <inttypes.h>
#include <string.h>

#include "lib/base/require.h"
#include "lib/runtime/program/guarded.h"
#include "lib/runtime/weight/weight_view.h"
#include "quant/codec/codec.h"
#include "quant/codec/ggml.h"

/* Elements that are decoded at a time, and the scales of so many, with one that
 * is cut on each side. */
#define CHUNK  512u
#define SCALES (CHUNK / NABLA_BLOCK_MIN + 2)

static size_t least(size_t a, uint64_t b) { return a < b ? a : (size_t)b; }

static void decode_dense(const nabla_weight_view *weight, uint64_t first,
                         uint64_t count, float *out) {
  const size_t bytes = nabla_dtype_bits(weight->dtype) / 8;
  const uint8_t *from = (const uint8_t *)weight->codes + first * bytes;
  if (weight->dtype == NABLA_DTYPE_F32)
    memcpy(out, from, (size_t)count * sizeof *out);
  else
    nabla_to_f32(weight->dtype, from, (size_t)count, out);
}

static void decode_blocks(const nabla_weight_view *weight, uint64_t first,
                          uint64_t count, float *out) {
  const nabla_ggml *ggml = weight->layout.ggml;
  const uint8_t *at =
      (const uint8_t *)weight->codes + first / ggml->elements * ggml->bytes;
  float values[NABLA_GGML_ELEMENTS_MAX];
  size_t skipped = (size_t)(first % ggml->elements);
  for (; count; at += ggml->bytes, skipped = 0) {
    const size_t some = least(ggml->elements - skipped, count);
    nabla_ggml_decode_block(ggml, at, values);
    memcpy(out, values + skipped, some * sizeof *out);
    out += some;
    count -= some;
  }
}

/* Elements that begin a byte, and a block unless all are of one: at most a
 * chunk and a byte. */
static void decode_whole(const nabla_weight_view *weight, uint64_t first,
                         size_t count, float *out) {
  const nabla_format *format = &weight->layout.format;
  const size_t scale = (size_t)nabla_scale_index(format, first);
  float scales[SCALES];
  nabla_packed part = {
      .codes =
          (uint8_t *)(uintptr_t)weight->codes + nabla_code_bytes(format, first),
      .zero_points = format->zero_point
                         ? (uint8_t *)(uintptr_t)weight->zero_points + scale
                         : NULL};
  if (format->scale == NABLA_SCALE_DYNAMIC8) {
    const size_t block = weight->nested.block;
    nabla_dynamic8_decode(
        &weight->nested, (const uint8_t *)weight->scales + scale,
        weight->nested_scales + scale / block, scale % block,
        (size_t)nabla_scale_span(format, first, count), scales);
    part.scales = scales;
  } else {
    part.scales = (uint8_t *)(uintptr_t)weight->scales +
                  scale * nabla_scale_width(format);
  }
  nabla_decode(&weight->codec, &part, count, out);
}

/* Elements that may begin inside a byte; then all are of one block. */
static void decode_piece(const nabla_weight_view *weight, uint64_t first,
                         size_t count, float *out) {
  const size_t per_byte = 8 / weight->layout.format.encoding->bits;
  const size_t skipped = (size_t)(first % per_byte);
  if (!skipped) {
    decode_whole(weight, first, count, out);
    return;
  }
  float all[CHUNK + 8];
  decode_whole(weight, first - skipped, count + skipped, all);
  memcpy(out, all + skipped, count * sizeof *out);
}

static void decode_planes(const nabla_weight_view *weight, uint64_t first,
                          uint64_t count, float *out) {
  const nabla_format *format = &weight->layout.format;
  while (count) {
    const uint64_t at = format->segment ? first % format->segment : first;
    const uint64_t in_block = at % format->block;
    size_t some = least(CHUNK, count);
    if (format->segment) some = least(some, format->segment - at);
    if (in_block) some = least(some, format->block - in_block);
    decode_piece(weight, first, some, out);
    first += some;
    out += some;
    count -= some;
  }
}

void nabla_weight_decode(const nabla_weight_view *weight, uint64_t first,
                         uint64_t count, float *out) {
  if (weight->layout.kind == NABLA_STORAGE_BLOCKS)
    decode_blocks(weight, first, count, out);
  else if (weight->layout.kind == NABLA_STORAGE_PLANES)
    decode_planes(weight, first, count, out);
  else
    decode_dense(weight, first, count, out);
}

static nabla_status read_rows(const nabla_weight_desc *weight, uint64_t first,
                              uint64_t count, float *out, nabla_diag *diag) {
  nabla_weight_view view;
  NABLA_TRY(nabla_weight_view_of(weight, NABLA_ISA_BEST, &view, diag));
  if (view.layout.kind == NABLA_STORAGE_DENSE &&
      !nabla_dtype_is_float(view.dtype))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "%s is not a type that is read by value",
                      nabla_dtype_name(view.dtype));
  if (first > view.n || count > view.n - first) {
    nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                     "%" PRIu64 " rows from row %" PRIu64
                                     " on; the weight has %" PRIu64,
                                     count, first, view.n);
    nabla_diag_set_next(diag, "a row is an index of the first dimension");
    return status;
  }
  if (!count || !view.k) return NABLA_OK;
  NABLA_REQUIRE(out, diag);
  nabla_weight_decode(&view, first * view.k, count * view.k, out);
  return nabla_guarded_check_weight(weight, diag);
}

nabla_status nabla_weight_read(const nabla_weight_desc *weight, uint64_t first,
                               uint64_t count, float *out, nabla_diag *diag) {
  NABLA_REQUIRE(weight, diag);
  const nabla_status status = read_rows(weight, first, count, out, diag);
  if (status && weight->name)
    nabla_diag_set_tensor(diag, weight->name, strlen(weight->name));
  return status;
}
