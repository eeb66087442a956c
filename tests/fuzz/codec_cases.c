/* See codec_cases.h. */
#include "tests/fuzz/codec_cases.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "quant/codec/codec.h"
#include "quant/codec/kernel.h"

static const nabla_dtype dtypes[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                     NABLA_DTYPE_BF16};

static void choose_span(const uint8_t *data, codec_case *at) {
  nabla_format *format = &at->format;
  const unsigned option = data[1] & 0x7fu;
  if (format->encoding->has_rows && (data[1] & 0x80)) {
    const int is_tensor = format->encoding->has_tensor && (option & 0x40);
    format->granularity = is_tensor ? NABLA_PER_TENSOR : NABLA_PER_ROW;
    format->block = is_tensor ? at->count + (at->count == 0) : option % 64 + 1;
    if (!is_tensor) at->count -= at->count % format->block;
    at->dtype = dtypes[(data[0] >> 6) % 3];
    return;
  }
  format->block =
      format->encoding->is_mx ? NABLA_BLOCK_MX : 16u << (option % 9);
  format->zero_point = format->encoding->has_zero_point && (data[0] & 0x40);
  if (data[0] & 0x80) format->segment = 8 * (1 + data[2] % 67u);
  at->dtype = dtypes[option / 9 % 3];
}

int codec_case_read(const uint8_t *data, size_t size, codec_case *out) {
  static const nabla_scale_type scales[] = {
      NABLA_SCALE_F32, NABLA_SCALE_F16, NABLA_SCALE_BF16, NABLA_SCALE_DYNAMIC8};
  if (size < FUZZ_OPTIONS) return 0;
  size_t encodings;
  const nabla_encoding *rows = nabla_encodings(&encodings);
  const nabla_encoding *encoding = &rows[(data[0] & 15) % encodings];
  size_t count = nabla_load_le16(data + 2);
  count %= count < 0xe000 ? 600 : CODEC_MAX_COUNT + 1;
  *out = (codec_case){
      .format = {.encoding = encoding,
                 .scale = encoding->is_mx ? NABLA_SCALE_E8M0
                                          : scales[data[0] >> 4 & 3]},
      .count = count,
      .rest = {data + FUZZ_OPTIONS, size - FUZZ_OPTIONS}};
  choose_span(data, out);
  nabla_diag diag = NABLA_DIAG_INIT;
  fuzz_require(!nabla_format_size(&out->format, out->count, &out->size, &diag),
               "small sizes are right");
  out->scale_bytes = (size_t)out->size.scales * nabla_scale_width(&out->format);
  return 1;
}

nabla_codec codec_case_select(const codec_case *at, nabla_isa isa,
                              nabla_dtype dtype) {
  const nabla_codec_options options = {
      .struct_size = sizeof options, .isa = isa, .dtype = dtype};
  nabla_codec codec = {0};
  fuzz_require(!nabla_codec_select(&at->format, &options, &codec, NULL),
               "an available instruction set can be selected");
  return codec;
}

void *codec_case_buffer(size_t size) {
  void *block = malloc(size > 0 ? size : 1);
  fuzz_require(block != NULL, "memory for a buffer");
  memset(block, 0xa5, size);
  return block;
}

void codec_case_fill(fuzz_span from, size_t begin, void *out, size_t size) {
  uint8_t *to = out;
  if (from.size == 0) memset(to, 0, size);
  while (from.size > 0 && size > 0) {
    size_t at = begin % from.size, piece = from.size - at;
    if (piece > size) piece = size;
    memcpy(to, from.data + at, piece);
    to += piece;
    begin = 0;
    size -= piece;
  }
}

nabla_packed codec_case_parts(const codec_case *at) {
  return (nabla_packed){
      .codes = codec_case_buffer((size_t)at->size.code_bytes),
      .scales = codec_case_buffer(at->scale_bytes),
      .zero_points = at->format.zero_point
                         ? codec_case_buffer((size_t)at->size.scales)
                         : NULL};
}

void codec_case_drop(nabla_packed *parts) {
  free(parts->codes);
  free(parts->scales);
  free(parts->zero_points);
}

int codec_case_equal(const codec_case *at, const nabla_packed *a,
                     const nabla_packed *b) {
  return !memcmp(a->codes, b->codes, (size_t)at->size.code_bytes) &&
         !memcmp(a->scales, b->scales, at->scale_bytes) &&
         (!a->zero_points ||
          !memcmp(a->zero_points, b->zero_points, (size_t)at->size.scales));
}

int codec_case_same_values(nabla_dtype dtype, const void *a, const void *b,
                           size_t count) {
  const size_t width = nabla_dtype_bits(dtype) / 8;
  for (size_t i = 0; i < count; i++) {
    const uint8_t *one = (const uint8_t *)a + i * width;
    const uint8_t *two = (const uint8_t *)b + i * width;
    float x, y;
    if (!memcmp(one, two, width)) continue;
    nabla_to_f32(dtype, one, 1, &x);
    nabla_to_f32(dtype, two, 1, &y);
    if (!isnan(x) || !isnan(y)) return 0;
  }
  return 1;
}

size_t codec_case_block_end(const codec_case *at, size_t begin) {
  const size_t segment = (size_t)at->format.segment;
  size_t end = begin + (size_t)at->format.block;
  if (segment && end > begin / segment * segment + segment)
    end = begin / segment * segment + segment;
  return end < at->count ? end : at->count;
}

/* From about which magnitude on a block may have no scale in its type. */
static double refused_from(const nabla_format *format) {
  const nabla_recipe *recipe = nabla_recipe_find(format->encoding);
  if (nabla_format_is_llm_int8(format)) return (double)FLT_MAX / 127;
  double most = (double)FLT_MAX * 2; /* nothing is so large */
  if (format->scale == NABLA_SCALE_F16) most = 65504;
  if (format->scale == NABLA_SCALE_BF16) most = 0x1.fep+127;
  if (format->zero_point) /* of a range, which is at most twice as large */
    return fmin(most * (recipe->bias - 0.5), FLT_MAX / 2.0);
  return fmin(most * fabs((double)recipe->limit), FLT_MAX);
}

void codec_case_check_bad(const codec_case *at, const float *in,
                          nabla_status status, size_t index) {
  fuzz_require(index < at->count, "a bad value has an index");
  const float value = in[index];
  if (status == NABLA_NOT_FINITE) {
    fuzz_require(!isfinite(value), "it is not finite");
    for (size_t i = 0; i < index; i++)
      fuzz_require(isfinite(in[i]), "it is the first");
    return;
  }
  fuzz_require(status == NABLA_UNSUPPORTED && isfinite(value),
               "nothing but a scale is unsupported");
  fuzz_require(fabs((double)value) >= refused_from(&at->format) * 0.99,
               "only large values are refused");
}
