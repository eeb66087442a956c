/* Any bytes as components: every instruction set decodes them to the same bits
 * in each dtype, and what is finite encodes again, stably. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/codec/codec.h"
#include "tests/fuzz/codec_cases.h"

const char fuzz_shape[] = "bB";

/* Below this the grid of subnormals is too coarse for codes to survive; for F16
 * scales, of which codes are at most 57344 times, it begins earlier. */
#define SMALLEST_STABLE     0x1p-100f
#define SMALLEST_STABLE_F16 0x1p+3f

/* To `dtype` on every instruction set. */
static void decode_everywhere(const codec_case *at, const nabla_packed *p,
                              nabla_dtype dtype, void *out) {
  const size_t bytes = at->count * nabla_dtype_bits(dtype) / 8;
  nabla_codec scalar = codec_case_select(at, NABLA_ISA_SCALAR, dtype);
  nabla_decode(&scalar, p, at->count, out);
  for (int isa = NABLA_ISA_AVX2; isa <= NABLA_ISA_AVX512; isa++) {
    if (!nabla_isa_available((nabla_isa)isa)) continue;
    nabla_codec fast = codec_case_select(at, (nabla_isa)isa, dtype);
    void *other = codec_case_buffer(bytes);
    nabla_decode(&fast, p, at->count, other);
    fuzz_require(codec_case_same_values(dtype, out, other, at->count),
                 "every instruction set decodes to the same bits");
    free(other);
  }
}

/* Decoding to a narrow dtype is decoding to f32 and rounding. */
static void check_dtype(const codec_case *at, const nabla_packed *p,
                        const float *values) {
  const size_t bytes = at->count * nabla_dtype_bits(at->dtype) / 8;
  void *got = codec_case_buffer(bytes), *want = codec_case_buffer(bytes);
  decode_everywhere(at, p, at->dtype, got);
  if (at->dtype == NABLA_DTYPE_F32)
    memcpy(want, values, bytes);
  else
    (void)nabla_from_f32(at->dtype, values, at->count, want);
  fuzz_require(codec_case_same_values(at->dtype, got, want, at->count),
               "a narrow dtype is f32, rounded");
  free(got);
  free(want);
}

static int all_finite(const float *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!isfinite(values[i])) return 0;
  return 1;
}

/* @return 0 when the format cannot hold the values */
static int encode(const codec_case *at, const float *values,
                  const nabla_packed *out) {
  nabla_codec codec = codec_case_select(at, NABLA_ISA_BEST, NABLA_DTYPE_F32);
  nabla_diag diag = NABLA_DIAG_INIT;
  size_t index = SIZE_MAX;
  nabla_status status =
      nabla_encode(&codec, values, NULL, at->count, out, &index, &diag);
  fuzz_check_diag(status, &diag);
  if (!status) return 1;
  fuzz_require(status == NABLA_UNSUPPORTED, "finite values are finite");
  codec_case_check_bad(at, values, status, index);
  return 0;
}

/* Whether the scales of what is decoded are those that it was decoded with: not
 * means (but of equal magnitudes) nor ranges that zero points cut, and not of
 * blocks with small values. */
static int is_stable(const codec_case *at, const float *values) {
  if (at->format.zero_point || at->format.encoding->bits == 2) return 0;
  const float smallest = at->format.scale == NABLA_SCALE_F16
                             ? SMALLEST_STABLE_F16
                             : SMALLEST_STABLE;
  for (size_t begin = 0, end; begin < at->count; begin = end) {
    end = codec_case_block_end(at, begin);
    float absmax = nabla_absmax(NABLA_ISA_SCALAR, values + begin, end - begin);
    if (absmax != 0.0f && absmax < smallest) return 0;
  }
  return 1;
}

/* Encoded once, decoding and encoding change nothing more, but scales of f32 by
 * their last bit. */
static void encode_again(const codec_case *at, const float *values) {
  nabla_packed first = codec_case_parts(at), second = codec_case_parts(at);
  float *once = codec_case_buffer(at->count * sizeof(float));
  float *twice = codec_case_buffer(at->count * sizeof(float));
  if (encode(at, values, &first)) {
    decode_everywhere(at, &first, NABLA_DTYPE_F32, once);
    fuzz_require(all_finite(once, at->count), "what was encoded is finite");
    if (is_stable(at, values) && encode(at, once, &second)) {
      decode_everywhere(at, &second, NABLA_DTYPE_F32, twice);
      for (size_t i = 0; i < at->count; i++)
        fuzz_require(fabsf(once[i] - twice[i]) <= fabsf(once[i]) * 0x1p-21f,
                     "values survive a round trip");
    }
  }
  free(once);
  free(twice);
  codec_case_drop(&first);
  codec_case_drop(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  codec_case at;
  if (!codec_case_read(data, size, &at)) return 0;
  nabla_packed p = codec_case_parts(&at);
  codec_case_fill(at.rest, 0, p.scales, at.scale_bytes);
  codec_case_fill(at.rest, at.scale_bytes, p.codes, (size_t)at.size.code_bytes);
  if (p.zero_points)
    codec_case_fill(at.rest, 1, p.zero_points, (size_t)at.size.scales);
  float *values = codec_case_buffer(at.count * sizeof(float));
  decode_everywhere(&at, &p, NABLA_DTYPE_F32, values);
  check_dtype(&at, &p, values);
  if (all_finite(values, at.count)) encode_again(&at, values);
  free(values);
  codec_case_drop(&p);
  return 0;
}
