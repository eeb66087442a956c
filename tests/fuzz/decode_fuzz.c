/* Any bytes as codes and scales: every instruction set decodes them to the same
 * bits, and what is finite encodes again, stably. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/codec.h"
#include "tests/fuzz/codec_cases.h"
#include "tests/support/codec_calls.h"

const char fuzz_shape[] = "bB";

/* Below this the grid of subnormals is too coarse for codes to survive. */
#define SMALLEST_STABLE 0x1p-110f

/* A tensor in its packed form. */
typedef struct packed {
  uint8_t *codes;
  float *scales;
} packed;

static packed make(const codec_case *at) {
  return (packed){codec_case_buffer(at->code_bytes),
                  codec_case_buffer(at->scales * sizeof(float))};
}

static void drop(packed *p) {
  free(p->codes);
  free(p->scales);
}

static void decode_everywhere(const codec_case *at, const packed *p,
                              float *out) {
  nabla_codec scalar = codec_case_select(at, NABLA_ISA_SCALAR);
  decode_f32(&scalar, p->codes, p->scales, at->count, out);
  for (int isa = NABLA_ISA_AVX2; isa <= NABLA_ISA_AVX512; isa++) {
    if (!nabla_isa_available((nabla_isa)isa)) continue;
    nabla_codec fast = codec_case_select(at, (nabla_isa)isa);
    float *other = codec_case_buffer(at->count * sizeof(float));
    decode_f32(&fast, p->codes, p->scales, at->count, other);
    fuzz_require(!memcmp(out, other, at->count * sizeof(float)),
                 "every instruction set decodes to the same bits");
    free(other);
  }
}

static int all_finite(const float *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!isfinite(values[i])) return 0;
  return 1;
}

/* @return 0 when the encoding cannot hold the values: rows, huge values */
static int encode(const codec_case *at, const float *values, packed *out) {
  nabla_codec codec = codec_case_select(at, NABLA_ISA_BEST);
  nabla_diag diag = NABLA_DIAG_INIT;
  size_t index = SIZE_MAX;
  nabla_status status = encode_f32(&codec, values, at->count, out->codes,
                                   out->scales, &index, &diag);
  fuzz_check_diag(status, &diag);
  if (!status) return 1;
  fuzz_require(
      status == NABLA_UNSUPPORTED && at->format.granularity == NABLA_PER_ROW &&
          index < at->count && fabsf(values[index]) >= FLT_MAX / 127.0f,
      "finite values encode");
  return 0;
}

/* Whether each block is all zero, or large enough to be stable. */
static int is_stable(const codec_case *at, const float *values) {
  size_t block = (size_t)at->format.block;
  for (size_t begin = 0; begin < at->count; begin += block) {
    size_t size = at->count - begin < block ? at->count - begin : block;
    float absmax = nabla_absmax(NABLA_ISA_SCALAR, values + begin, size);
    if (absmax != 0.0f && absmax < SMALLEST_STABLE) return 0;
  }
  return 1;
}

/* 4-bit scales are values of their block and return exactly; int8's absmax/127
 * is rounded once more. */
static int same_scales(const codec_case *at, const packed *a, const packed *b) {
  for (size_t i = 0; i < at->scales; i++) {
    float tolerance = at->format.encoding->bits == 4
                          ? 0.0f
                          : a->scales[i] * 2.0f * FLT_EPSILON;
    if (!(fabsf(a->scales[i] - b->scales[i]) <= tolerance)) return 0;
  }
  return 1;
}

/* Encoded once, decoding and encoding change nothing more. */
static void encode_again(const codec_case *at, const float *values) {
  packed first = make(at), second = make(at);
  float *decoded = codec_case_buffer(at->count * sizeof(float));
  if (encode(at, values, &first)) {
    decode_everywhere(at, &first, decoded);
    fuzz_require(all_finite(decoded, at->count), "what was encoded is finite");
    if (is_stable(at, values) && encode(at, decoded, &second))
      fuzz_require(!memcmp(first.codes, second.codes, at->code_bytes) &&
                       same_scales(at, &first, &second),
                   "codes and scales survive a round trip");
  }
  free(decoded);
  drop(&first);
  drop(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  codec_case at;
  if (!codec_case_read(data, size, &at)) return 0;
  packed p = make(&at);
  codec_case_fill(at.rest, 0, p.scales, at.scales * sizeof(float));
  codec_case_fill(at.rest, at.scales * sizeof(float), p.codes, at.code_bytes);
  float *values = codec_case_buffer(at.count * sizeof(float));
  decode_everywhere(&at, &p, values);
  if (all_finite(values, at.count)) encode_again(&at, values);
  free(values);
  drop(&p);
  return 0;
}
