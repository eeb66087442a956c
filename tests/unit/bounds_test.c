/* Bounds of decoded values: what they promise to be finite is, by decoding it,
 * and they promise what is needed where nothing is near the limit. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "quant/codec/codec.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const nabla_dtype dtypes[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                     NABLA_DTYPE_BF16};
static const float largest[] = {FLT_MAX, 65504.0f, 0x1.fep127f};

TestSuite(bounds);

static nabla_format format_of(const char *name, int zero_point) {
  nabla_format format = {.encoding = nabla_encoding_find(name),
                         .granularity = NABLA_PER_BLOCK,
                         .block = 64,
                         .zero_point = zero_point};
  cr_assert_not_null(format.encoding, "%s", name);
  if (format.encoding->is_mx) {
    format.block = NABLA_BLOCK_MX;
    format.scale = NABLA_SCALE_E8M0;
  }
  return format;
}

Test(bounds, the_largest_code) {
  static const struct {
    const char *name;
    int zero_point;
    float largest;
  } rows[] = {
      {"nf4", 0, 1},
      {"fp4", 0, 1},
      {"int8", 0, 128},
      {"int8", 1, 255},
      {"int4", 0, 8},
      {"int4", 1, 15},
      {"ternary", 0, 2},
      {"binary", 0, 1},
      {"fp8", 0, 448},
      {"mxfp4", 0, 6},
      {"mxfp8", 0, 448},
      {"fp8_e5m2", 0, 57344},
      {"mxfp8_e5m2", 0, 57344},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    const nabla_format format = format_of(rows[i].name, rows[i].zero_point);
    cr_expect_float_eq(nabla_format_largest(&format), rows[i].largest, 0, "%s",
                       rows[i].name);
  }
}

/* The largest magnitude that 256 values in every code have with `scale`, or
 * infinity. */
static float decoded(const nabla_format *format, const uint8_t *codes,
                     float scale, nabla_dtype dtype) {
  const nabla_codec_options how = {.struct_size = sizeof how, .dtype = dtype};
  nabla_codec codec;
  float scales[256], values[256];
  uint8_t raw[256 * 4], zeros[256];
  cr_assert_eq(nabla_codec_select(format, &how, &codec, NULL), NABLA_OK);
  codec.format.scale = NABLA_SCALE_DYNAMIC8; /* scales are f32 here */
  for (size_t i = 0; i < COUNT(scales); i++) scales[i] = scale;
  /* the most that a zero point can add */
  memset(zeros, format->encoding->bits == 8 ? 0x80 : 0, sizeof zeros);
  const nabla_packed packed = {(uint8_t *)(uintptr_t)codes, scales, zeros};
  nabla_decode(&codec, &packed, 256, raw);
  nabla_to_f32(dtype, raw, 256, values);
  float most = 0;
  for (size_t i = 0; i < 256; i++) {
    if (!isfinite(values[i])) return INFINITY;
    most = fmaxf(most, fabsf(values[i]));
  }
  return most;
}

/* Every code once, but those that are not finite by themselves. */
static size_t all_codes(const nabla_format *format, uint8_t codes[256]) {
  for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
  const char *name = format->encoding->name;
  for (int i = 0; i < 256; i++) {
    const int magnitude = i & 127;
    if ((!strcmp(name, "fp8") || !strcmp(name, "mxfp8")) && magnitude == 127)
      codes[i] = 0;
    if (strstr(name, "e5m2") && magnitude >= 0x7c) codes[i] = 0;
  }
  return (size_t)nabla_code_bytes(format, 256);
}

Test(bounds, what_they_promise_is_finite) {
  size_t encodings, promised = 0, refused = 0;
  const nabla_encoding *rows = nabla_encodings(&encodings);
  for (size_t e = 0; e < encodings; e++)
    for (int zero = 0; zero <= rows[e].has_zero_point; zero++)
      for (size_t d = 0; d < COUNT(dtypes); d++) {
        const nabla_format format = format_of(rows[e].name, zero);
        uint8_t codes[256];
        const size_t size = all_codes(&format, codes);
        const float edge = largest[d] / nabla_format_largest(&format);
        for (int step = -40; step <= 40; step++) {
          const float scale = edge * (1 + (float)step * 0x1p-13f);
          if (!isfinite(scale)) continue;
          const int promise =
              nabla_codes_stay_within(&format, codes, size, scale, dtypes[d]);
          const float most = decoded(&format, codes, scale, dtypes[d]);
          cr_expect(!promise || isfinite(most), "%s in %s, scale %a",
                    rows[e].name, nabla_dtype_name(dtypes[d]), (double)scale);
          promised += promise != 0;
          refused += !promise;
        }
        cr_expect(nabla_codes_stay_within(&format, codes, size, edge * 0.99f,
                                          dtypes[d]),
                  "%s in %s", rows[e].name, nabla_dtype_name(dtypes[d]));
      }
  cr_expect_gt(promised, 100u);
  cr_expect_gt(refused, 100u);
}

/* Codes of floats that are not finite by themselves. */
Test(bounds, codes_that_are_not_finite_are_seen) {
  static const struct {
    const char *name;
    uint8_t good, bad;
  } rows[] = {
      {"fp8", 0x7e, 0x7f},      {"fp8", 0xfe, 0xff},
      {"mxfp8", 0x7e, 0x7f},    {"fp8_e5m2", 0x7b, 0x7c},
      {"fp8_e5m2", 0xfb, 0xfd}, {"mxfp8_e5m2", 0xfb, 0xff},
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    for (size_t at = 0; at < 70; at += 23) {
      const nabla_format format = format_of(rows[i].name, 0);
      uint8_t codes[70] = {0};
      codes[at] = rows[i].good;
      cr_expect(nabla_codes_stay_within(&format, codes, sizeof codes, 1e-3f,
                                        NABLA_DTYPE_F32));
      codes[at] = rows[i].bad;
      cr_expect_not(nabla_codes_stay_within(&format, codes, sizeof codes, 1e-3f,
                                            NABLA_DTYPE_F32),
                    "%s %x", rows[i].name, rows[i].bad);
    }
}

/* LLM.int8 multiplies by 127 before it divides: that is what must be finite. */
Test(bounds, llm_int8) {
  const nabla_format format = {.encoding = nabla_encoding_find("int8"),
                               .granularity = NABLA_PER_ROW,
                               .block = 64};
  uint8_t codes[64];
  memset(codes, 0x81, sizeof codes);
  cr_assert(nabla_format_is_llm_int8(&format));
  cr_expect(nabla_codes_stay_within(&format, codes, sizeof codes, FLT_MAX / 129,
                                    NABLA_DTYPE_F32));
  cr_expect_not(nabla_codes_stay_within(&format, codes, sizeof codes,
                                        FLT_MAX / 127, NABLA_DTYPE_F32));
  cr_expect(nabla_codes_stay_within(&format, codes, sizeof codes, 60000,
                                    NABLA_DTYPE_F16));
  cr_expect_not(nabla_codes_stay_within(&format, codes, sizeof codes, 70000,
                                        NABLA_DTYPE_F16));
}

Test(bounds, other_dtypes_and_no_numbers_promise_nothing) {
  const nabla_format format = format_of("nf4", 0);
  const uint8_t codes[32] = {0};
  cr_expect_not(nabla_codes_stay_within(&format, codes, sizeof codes, 1,
                                        NABLA_DTYPE_F64));
  cr_expect_not(nabla_codes_stay_within(&format, codes, sizeof codes, NAN,
                                        NABLA_DTYPE_F32));
  cr_expect_not(nabla_codes_stay_within(&format, codes, sizeof codes, INFINITY,
                                        NABLA_DTYPE_F32));
}
