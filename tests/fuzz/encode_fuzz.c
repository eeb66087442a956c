/* Any floats: every instruction set encodes them to the same bytes, tells of
 * the same bad value, and finite ones come back within half a step. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/codec.h"
#include "tests/fuzz/codec_cases.h"
#include "tests/support/codec_calls.h"

const char fuzz_shape[] = "bB";

static int by_value(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Half the widest gap between neighbouring values of the codes, as a part of
 * absmax, and some rounding. Asked of the kernel: a new row needs no line here.
 */
static float widest_half_gap(const nabla_encoding *encoding) {
  enum { BLOCK = 16, MOST = 256 };
  const float in[BLOCK] = {1};
  uint8_t codes[MOST];
  float scales[MOST], values[MOST], widest = 0;
  const nabla_format format = {
      .encoding = encoding, .granularity = NABLA_PER_BLOCK, .block = BLOCK};
  nabla_codec codec;
  fuzz_require(!select_codec(&format, NABLA_ISA_SCALAR, &codec, NULL),
               "a row of the table has a codec");
  fuzz_require(!encode_f32(&codec, in, BLOCK, codes, scales, NULL, NULL),
               "it encodes");
  const size_t count = encoding->bits == 4 ? 16 : MOST;
  for (size_t i = 1; i < MOST / BLOCK; i++) scales[i] = scales[0];
  for (size_t i = 0; i < count; i++)
    codes[i] = (uint8_t)(encoding->bits == 4 ? 2 * i << 4 | (2 * i + 1) : i);
  decode_f32(&codec, codes, scales, count, values);
  qsort(values, count, sizeof *values, by_value);
  for (size_t i = 1; i < count; i++)
    widest = fmaxf(widest, values[i] - values[i - 1]);
  return widest / 2 * 1.0001f;
}

/* A scale below FLT_MIN is off by up to half a unit of the last place, which
 * 127 multiplies. */
#define SUBNORMAL_SLACK (130.0f * FLT_TRUE_MIN)

typedef struct outcome {
  nabla_status status;
  size_t index;
  uint8_t *codes;
  float *scales;
} outcome;

static outcome encode(const codec_case *at, nabla_isa isa, const float *in) {
  outcome out = {NABLA_OK, SIZE_MAX, codec_case_buffer(at->code_bytes),
                 codec_case_buffer(at->scales * sizeof(float))};
  nabla_codec codec = codec_case_select(at, isa);
  nabla_diag diag = NABLA_DIAG_INIT;
  out.status = encode_f32(&codec, in, at->count, out.codes, out.scales,
                          &out.index, &diag);
  fuzz_check_diag(out.status, &diag);
  return out;
}

static void drop(outcome *out) {
  free(out->codes);
  free(out->scales);
}

/* The pieces that cut rows use. */
static void compare_pieces(const codec_case *at, nabla_isa isa,
                           const float *in) {
  float absmax = nabla_absmax(NABLA_ISA_SCALAR, in, at->count);
  float other = nabla_absmax(isa, in, at->count);
  fuzz_require(!memcmp(&absmax, &other, sizeof absmax), "one absmax");
  const nabla_encoding *encoding = at->format.encoding;
  if (!isfinite(absmax) || !encoding->has_rows) return;
  uint8_t *a = codec_case_buffer(at->count), *b = codec_case_buffer(at->count);
  nabla_codec plain = codec_case_select(at, NABLA_ISA_SCALAR);
  nabla_codec fast = codec_case_select(at, isa);
  const int good = nabla_encode_part(&plain, in, at->count, absmax, a, NULL);
  fuzz_require(good == nabla_encode_part(&fast, in, at->count, absmax, b, NULL),
               "one verdict on pieces");
  fuzz_require(!good || !memcmp(a, b, at->count), "one encoding of pieces");
  free(a);
  free(b);
}

static void compare(const codec_case *at, nabla_isa isa, const float *in,
                    const outcome *expected) {
  outcome out = encode(at, isa, in);
  fuzz_require(out.status == expected->status && out.index == expected->index,
               "every instruction set finds the same bad value");
  fuzz_require(
      !memcmp(out.codes, expected->codes, at->code_bytes) &&
          !memcmp(out.scales, expected->scales, at->scales * sizeof(float)),
      "every instruction set encodes to the same bytes");
  compare_pieces(at, isa, in);
  drop(&out);
}

static void check_bad(const codec_case *at, const float *in,
                      const outcome *out) {
  fuzz_require(out->index < at->count, "a bad value has an index");
  float value = in[out->index];
  if (out->status == NABLA_NOT_FINITE) {
    fuzz_require(!isfinite(value), "it is not finite");
    for (size_t i = 0; i < out->index; i++)
      fuzz_require(isfinite(in[i]), "it is the first");
  } else {
    fuzz_require(out->status == NABLA_UNSUPPORTED &&
                     at->format.granularity == NABLA_PER_ROW &&
                     fabsf(value) >= FLT_MAX / 127.0f,
                 "only rows refuse large values");
  }
}

static void check_error(const codec_case *at, const float *in,
                        const outcome *out) {
  nabla_codec codec = codec_case_select(at, NABLA_ISA_SCALAR);
  float *decoded = codec_case_buffer(at->count * sizeof(float));
  decode_f32(&codec, out->codes, out->scales, at->count, decoded);
  float part = widest_half_gap(at->format.encoding);
  size_t block = (size_t)at->format.block;
  for (size_t begin = 0; begin < at->count; begin += block) {
    size_t size = at->count - begin < block ? at->count - begin : block;
    float absmax = nabla_absmax(NABLA_ISA_SCALAR, in + begin, size);
    float bound = absmax * part + SUBNORMAL_SLACK;
    for (size_t i = begin; i < begin + size; i++)
      fuzz_require(fabsf(decoded[i] - in[i]) <= bound,
                   "a value comes back within half a step");
  }
  free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  codec_case at;
  if (!codec_case_read(data, size, &at)) return 0;
  float *in = codec_case_buffer(at.count * sizeof(float));
  codec_case_fill(at.rest, 0, in, at.count * sizeof(float));
  outcome expected = encode(&at, NABLA_ISA_SCALAR, in);
  for (int isa = NABLA_ISA_AVX2; isa <= NABLA_ISA_AVX512; isa++)
    if (nabla_isa_available((nabla_isa)isa))
      compare(&at, (nabla_isa)isa, in, &expected);
  if (expected.status) {
    check_bad(&at, in, &expected);
  } else {
    for (size_t i = 0; i < at.count; i++)
      fuzz_require(isfinite(in[i]), "bad values are found");
    check_error(&at, in, &expected);
  }
  drop(&expected);
  free(in);
  return 0;
}
