/* Elements of a weight in f32, from any element on: what nabla_decode does from
 * the start of a block on. */
#include <string.h>

#include "lib/runtime/matmul/matmul_c.h"
#include "lib/runtime/matmul/provider.h"
#include "quant/codec/codec.h"
#include "quant/codec/ggml.h"

/* Scales of a chunk, at most, with one that is cut on each side. */
#define SCALES (NABLA_TILE_CHUNK / NABLA_BLOCK_MIN + 2)

static size_t least(size_t a, uint64_t b) { return a < b ? a : (size_t)b; }

static void decode_dense(const nabla_matmul_weight *weight, uint64_t flat,
                         size_t count, float *out) {
  const size_t bytes = nabla_dtype_bits(weight->dtype) / 8;
  const uint8_t *from = (const uint8_t *)weight->codes + flat * bytes;
  if (weight->dtype == NABLA_DTYPE_F32)
    memcpy(out, from, count * sizeof *out);
  else
    nabla_to_f32(weight->dtype, from, count, out);
}

static void decode_blocks(const nabla_matmul_weight *weight, uint64_t flat,
                          size_t count, float *out) {
  const nabla_ggml *ggml = weight->ggml;
  const uint8_t *at =
      (const uint8_t *)weight->codes + flat / ggml->elements * ggml->bytes;
  float values[NABLA_GGML_ELEMENTS_MAX];
  size_t skipped = (size_t)(flat % ggml->elements);
  for (; count; at += ggml->bytes, skipped = 0) {
    const size_t some = least(count, ggml->elements - skipped);
    nabla_ggml_decode_block(ggml, at, values);
    memcpy(out, values + skipped, some * sizeof *out);
    out += some;
    count -= some;
  }
}

/* Elements that begin a byte, and a block unless all are of one: at most a
 * chunk. */
static void decode_whole(const nabla_matmul_request *request, uint64_t flat,
                         size_t count, float *out) {
  const nabla_matmul_weight *weight = &request->weight;
  const nabla_format *format = &weight->format;
  const size_t first = (size_t)nabla_scale_index(format, flat);
  float scales[SCALES];
  nabla_packed part = {
      .codes =
          (uint8_t *)(uintptr_t)weight->codes + nabla_code_bytes(format, flat),
      .zero_points = format->zero_point
                         ? (uint8_t *)(uintptr_t)weight->zero_points + first
                         : NULL};
  if (format->scale == NABLA_SCALE_DYNAMIC8) {
    const size_t block = request->nested.block;
    nabla_dynamic8_decode(
        &request->nested, (const uint8_t *)weight->scales + first,
        weight->nested_scales + first / block, first % block,
        (size_t)nabla_scale_span(format, flat, count), scales);
    part.scales = scales;
  } else {
    part.scales = (uint8_t *)(uintptr_t)weight->scales +
                  first * nabla_scale_width(format);
  }
  nabla_decode(&request->codec, &part, count, out);
}

/* Elements that may begin inside a byte; then all are of one block. */
static void decode_piece(const nabla_matmul_request *request, uint64_t flat,
                         size_t count, float *out) {
  const size_t per_byte = 8 / request->weight.format.encoding->bits;
  const size_t skipped = (size_t)(flat % per_byte);
  if (!skipped) {
    decode_whole(request, flat, count, out);
    return;
  }
  float all[NABLA_TILE_CHUNK + 8];
  decode_whole(request, flat - skipped, count + skipped, all);
  memcpy(out, all + skipped, count * sizeof *out);
}

void nabla_matmul_decode(const nabla_matmul_request *request, uint64_t n,
                         uint64_t k, size_t count, float *out) {
  const nabla_format *format = &request->weight.format;
  uint64_t flat = n * request->weight.k + k;
  if (request->weight.ggml) {
    decode_blocks(&request->weight, flat, count, out);
    return;
  }
  if (!format->encoding) {
    decode_dense(&request->weight, flat, count, out);
    return;
  }
  while (count) {
    const uint64_t at = format->segment ? flat % format->segment : flat;
    const uint64_t in_block = at % format->block;
    size_t some = least(count, NABLA_TILE_CHUNK);
    if (format->segment) some = least(some, format->segment - at);
    if (in_block) some = least(some, format->block - in_block);
    decode_piece(request, flat, some, out);
    flat += some;
    out += some;
    count -= some;
  }
}
