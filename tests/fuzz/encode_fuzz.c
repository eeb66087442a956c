/* Any values: every instruction set encodes them to the same bytes and tells of
 * the same bad value, and finite ones come back as close as the format says. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/codec/codec.h"
#include "quant/codec/kernel.h"
#include "tests/fuzz/codec_cases.h"

const char fuzz_shape[] = "bB";

static int by_value(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Half the widest gap between neighbouring values of the codes, as a part of
 * absmax. Asked of the definition: a new row needs no line here. */
static double widest_half_gap(const nabla_encoding *encoding) {
  const nabla_recipe *recipe = nabla_recipe_find(encoding);
  float values[256];
  double widest = 0;
  size_t finite = 0;
  for (size_t i = 0; i < (size_t)1 << encoding->bits; i++) {
    values[finite] = recipe->value((uint8_t)i);
    finite += (size_t)(isfinite(values[finite]) != 0);
  }
  qsort(values, finite, sizeof *values, by_value);
  for (size_t i = 1; i < finite; i++)
    widest = fmax(widest, (double)values[i] - values[i - 1]);
  /* Of a value and its negative one alone has a code of its own. */
  if (recipe->statistic == NABLA_STATISTIC_PEAK) widest *= 2;
  return widest / 2 / fabs((double)recipe->limit);
}

/* How far a value may come back from where it was (docs/FORMAT.md, E): `part`
 * of the largest magnitude of its block, and `slack` where scales are too small
 * to be told from each other. */
typedef struct tolerance {
  double part, slack;
} tolerance;

static tolerance tolerance_of(const nabla_format *format) {
  const nabla_recipe *recipe = nabla_recipe_find(format->encoding);
  double precision = 0x1p-22, smallest = FLT_TRUE_MIN,
         steps = fabs((double)recipe->limit);
  if (format->scale == NABLA_SCALE_F16) precision = 0x1p-11, smallest = 0x1p-24;
  if (format->scale == NABLA_SCALE_BF16)
    precision = 0x1p-8, smallest = 0x1p-133;
  double part = widest_half_gap(format->encoding);
  if (format->encoding->is_mx) { /* from the power of two above, saturated */
    part = recipe->emax == 2 ? 0.5 : 0.25;
    smallest = 0x1p-127;
    steps = 1;
  } else if (recipe->statistic == NABLA_STATISTIC_MEAN) {
    part = 1;                      /* a mean is somewhere below the largest */
  } else if (format->zero_point) { /* range: twice; of z and q half a step */
    steps = 2 * recipe->bias - 1;
    part = 2 / steps;
    precision *= 2;
  }
  return (tolerance){(part + precision) * 1.0001, smallest * (steps + 3)};
}

typedef struct outcome {
  nabla_status status;
  size_t index;
  nabla_packed parts;
} outcome;

static outcome encode(const codec_case *at, nabla_isa isa, const void *in) {
  outcome out = {NABLA_OK, SIZE_MAX, codec_case_parts(at)};
  nabla_codec codec = codec_case_select(at, isa, at->dtype);
  nabla_diag diag = NABLA_DIAG_INIT;
  out.status =
      nabla_encode(&codec, in, NULL, at->count, &out.parts, &out.index, &diag);
  fuzz_check_diag(out.status, &diag);
  return out;
}

/* The pieces that cut rows use. */
static void compare_pieces(const codec_case *at, nabla_isa isa,
                           const float *in) {
  const float absmax = nabla_absmax(NABLA_ISA_SCALAR, in, at->count);
  const float other = nabla_absmax(isa, in, at->count);
  fuzz_require(!memcmp(&absmax, &other, sizeof absmax), "one absmax");
  if (!isfinite(absmax) || at->format.granularity == NABLA_PER_BLOCK) return;
  uint8_t *a = codec_case_buffer(at->count), *b = codec_case_buffer(at->count);
  nabla_codec plain = codec_case_select(at, NABLA_ISA_SCALAR, NABLA_DTYPE_F32);
  nabla_codec fast = codec_case_select(at, isa, NABLA_DTYPE_F32);
  const int good = nabla_encode_part(&plain, in, at->count, absmax, a, NULL);
  fuzz_require(good == nabla_encode_part(&fast, in, at->count, absmax, b, NULL),
               "one verdict on pieces");
  fuzz_require(!good || !memcmp(a, b, at->count), "one encoding of pieces");
  free(a);
  free(b);
}

static void compare(const codec_case *at, nabla_isa isa, const void *in,
                    const float *values, const outcome *expected) {
  outcome out = encode(at, isa, in);
  fuzz_require(out.status == expected->status && out.index == expected->index,
               "every instruction set finds the same bad value");
  fuzz_require(out.status || codec_case_equal(at, &out.parts, &expected->parts),
               "every instruction set encodes to the same bytes");
  compare_pieces(at, isa, values);
  codec_case_drop(&out.parts);
}

static void check_error(const codec_case *at, const float *in,
                        const outcome *out) {
  nabla_codec codec = codec_case_select(at, NABLA_ISA_BEST, NABLA_DTYPE_F32);
  float *decoded = codec_case_buffer(at->count * sizeof(float));
  nabla_decode(&codec, &out->parts, at->count, decoded);
  const tolerance may = tolerance_of(&at->format);
  for (size_t begin = 0, end; begin < at->count; begin = end) {
    end = codec_case_block_end(at, begin);
    const double absmax =
        nabla_absmax(NABLA_ISA_SCALAR, in + begin, end - begin);
    const double bound = absmax * may.part + may.slack;
    for (size_t i = begin; i < end; i++)
      fuzz_require(fabs((double)decoded[i] - in[i]) <= bound,
                   "a value comes back about where it was");
  }
  free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  codec_case at;
  if (!codec_case_read(data, size, &at)) return 0;
  const size_t bytes = at.count * nabla_dtype_bits(at.dtype) / 8;
  void *in = codec_case_buffer(bytes);
  float *values = codec_case_buffer(at.count * sizeof(float));
  codec_case_fill(at.rest, 0, in, bytes);
  nabla_to_f32(at.dtype, in, at.count, values);
  outcome expected = encode(&at, NABLA_ISA_SCALAR, in);
  for (int isa = NABLA_ISA_AVX2; isa <= NABLA_ISA_AVX512; isa++)
    if (nabla_isa_available((nabla_isa)isa))
      compare(&at, (nabla_isa)isa, in, values, &expected);
  if (expected.status) {
    codec_case_check_bad(&at, values, expected.status, expected.index);
  } else {
    for (size_t i = 0; i < at.count; i++)
      fuzz_require(isfinite(values[i]), "bad values are found");
    check_error(&at, values, &expected);
  }
  codec_case_drop(&expected.parts);
  free(values);
  free(in);
  return 0;
}
