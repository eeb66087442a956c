/* Encoding and decoding: what every row of quant/codec/encodings.def promises,
 * in all its formats, whatever the instruction set (see codec_equal_test.c). */
#include "quant/codec/codec.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/floats.h"
#include "tests/support/codec_calls.h"
#include "tests/support/codec_forms.h"

enum { MOST = 1 << 16 };

/* Each case runs in a process of its own, where pointers of this one mean
 * nothing: the parameter is the number of a row. */
static struct criterion_test_params every_row(void) {
  static size_t rows[64];
  size_t count;
  nabla_encodings(&count);
  for (size_t i = 0; i < count; i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, count);
}

static const nabla_encoding *row_of(size_t number) {
  size_t ignored;
  return &nabla_encodings(&ignored)[number];
}

#define FOR_EACH_FORM(row, format)                     \
  for (size_t form_ = 0; form_ < CODEC_FORMS; form_++) \
    if (codec_form(row_of(row), form_, &(format)))

static nabla_codec codec_for(const nabla_format *format) {
  nabla_codec codec;
  cr_assert_eq(select_codec(format, NABLA_ISA_BEST, &codec, NULL), NABLA_OK);
  return codec;
}

/* Encodes `count` values; the components are the caller's. */
static guarded encode(const nabla_format *format, const float *in,
                      size_t count) {
  guarded g = guarded_create(format, count, 0);
  nabla_codec codec = codec_for(format);
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_encode(&codec, in, NULL, count, &g.parts, NULL, &diag),
               NABLA_OK, "%s: %s", codec_form_text(format), diag.what);
  return g;
}

static void decode(const nabla_format *format, const guarded *g, size_t count,
                   float *out) {
  nabla_codec codec = codec_for(format);
  nabla_decode(&codec, &g->parts, count, out);
}

static void drop(guarded *g) {
  cr_assert(guarded_destroy(g), "wrote outside the output");
}

static double relative_error(const float *got, const float *want,
                             size_t count) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < count; i++) {
    error += pow((double)got[i] - want[i], 2);
    norm += pow(want[i], 2);
  }
  return sqrt(error / norm);
}

/* The bound of the row is for blocks with the widest scales. Narrower scales
 * add little, zero points do better, and so many values to a scale do worse. */
ParameterizedTestParameters(codec, error_on_normal_values_is_the_tables) {
  return every_row();
}
ParameterizedTest(size_t *row, codec, error_on_normal_values_is_the_tables) {
  static float in[MOST], back[MOST];
  for (size_t i = 0; i < MOST; i++) in[i] = random_normal();
  nabla_format format;
  FOR_EACH_FORM(*row, format) {
    if (format.granularity == NABLA_PER_TENSOR) format.block = MOST;
    guarded g = encode(&format, in, MOST);
    decode(&format, &g, MOST, back);
    const double found = relative_error(back, in, MOST);
    const double bound = format.encoding->rmse_bound;
    const int is_plain =
        format.granularity == NABLA_PER_BLOCK && !format.zero_point &&
        (format.scale == NABLA_SCALE_F32 || format.scale == NABLA_SCALE_E8M0);
    const char *text = codec_form_text(&format);
    cr_expect_leq(found, is_plain ? bound : bound * 1.03, "%s: %g", text,
                  found);
    cr_expect_geq(found, bound * (is_plain ? 0.95 : 0.8),
                  "%s: %g, the bound is loose", text, found);
    drop(&g);
  }
}

/* What people are told is what the bounds above say, within the noise. */
ParameterizedTestParameters(codec, expected_error_is_the_tables) {
  return every_row();
}
ParameterizedTest(size_t *row, codec, expected_error_is_the_tables) {
  nabla_format format;
  double expected = 0, searched = 0;
  FOR_EACH_FORM(*row, format) {
    /* 8 bits of a scale are no more than 8 of a value */
    const double more = format.scale == NABLA_SCALE_DYNAMIC8 ? 1.15 : 1.03;
    const double bound = format.encoding->rmse_bound;
    cr_assert_eq(nabla_format_expected_error(&format, 0, NULL, &expected, NULL),
                 NABLA_OK);
    cr_expect(expected <= bound * more && expected >= bound * 0.8, "%s: %g",
              codec_form_text(&format), expected);
    if (format.granularity != NABLA_PER_BLOCK) continue;
    cr_assert_eq(nabla_format_expected_error(&format, 1, NULL, &searched, NULL),
                 NABLA_OK);
    cr_expect_leq(searched, expected * 1.0001, "%s: %g searched, %g without",
                  codec_form_text(&format), searched, expected);
  }
  const nabla_format bad = {.encoding = nabla_encoding_find("nf4"),
                            .block = 48};
  cr_expect_neq(nabla_format_expected_error(&bad, 0, NULL, &expected, NULL),
                NABLA_OK);
}

/* As good as ggml's Q4_0, which has the same bytes (.0860). */
Test(codec, int4_uses_all_codes) {
  static float in[MOST], back[MOST];
  uint32_t used = 0;
  for (size_t i = 0; i < MOST; i++) in[i] = random_normal();
  nabla_format format = {.encoding = nabla_encoding_find("int4"),
                         .block = 32,
                         .scale = NABLA_SCALE_F16};
  guarded g = encode(&format, in, MOST);
  decode(&format, &g, MOST, back);
  cr_expect_leq(relative_error(back, in, MOST), 0.0861, "%g",
                relative_error(back, in, MOST));
  for (size_t i = 0; i < MOST / 2; i++)
    used |= 1u << (g.parts.codes[i] & 15) | 1u << (g.parts.codes[i] >> 4);
  cr_expect_eq(used, 0xffffu, "codes %04x", used);
  drop(&g);
}

static void expect_zeros(const void *memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    cr_expect_eq(((const uint8_t *)memory)[i], 0);
}

/* Floats keep the sign of a zero; what is not a float has none. */
ParameterizedTestParameters(codec, zero_decodes_to_zero) { return every_row(); }
ParameterizedTest(size_t *row, codec, zero_decodes_to_zero) {
  float in[300], back[300];
  for (size_t i = 0; i < 300; i++) in[i] = i % 3 ? 0.0f : -0.0f;
  nabla_format format;
  FOR_EACH_FORM(*row, format) {
    guarded g = encode(&format, in, 300);
    decode(&format, &g, 300, back);
    const int is_float =
        strstr(format.encoding->name, "fp8") || format.encoding->is_mx;
    for (size_t i = 0; i < 300; i++)
      cr_expect_eq(nabla_bits_of_f32(back[i]),
                   is_float ? nabla_bits_of_f32(in[i]) : 0, "%s: %g",
                   codec_form_text(&format), back[i]);
    expect_zeros(g.parts.scales, g.scale_bytes);
    for (size_t i = 0; format.zero_point && i < g.size.scales; i++)
      cr_expect_eq(g.parts.zero_points[i],
                   format.encoding->bits == 8 ? 0x80 : 0);
    drop(&g);
  }
}

/* What is left of the last byte is as if 0.0 followed. */
ParameterizedTestParameters(codec, last_byte_is_filled_with_zero_values) {
  return every_row();
}
ParameterizedTest(size_t *row, codec, last_byte_is_filled_with_zero_values) {
  float in[48] = {0};
  nabla_format format;
  FOR_EACH_FORM(*row, format) {
    const size_t per_byte = 8 / format.encoding->bits;
    for (size_t count = 1; count <= 32; count++) {
      for (size_t i = 0; i < 48; i++) in[i] = i < count ? random_normal() : 0;
      if (format.granularity != NABLA_PER_BLOCK) format.block = count;
      /* Zeros beyond the end change no statistic but the mean. */
      guarded g = encode(&format, in, count);
      const size_t filled = (count + per_byte - 1) / per_byte * per_byte;
      float back[48];
      decode(&format, &g, filled, back);
      const uint8_t last = g.parts.codes[g.size.code_bytes - 1];
      const int is_binary = format.encoding->bits == 1;
      const float one = is_binary ? fabsf(back[0]) : 0.0f;
      for (size_t i = count; i < filled; i++)
        cr_expect_eq(back[i], one, "%s: %zu values, last byte %02x",
                     codec_form_text(&format), count, last);
      drop(&g);
    }
  }
}

/* Whether what was decoded has the scales it was decoded with. A mean of other
 * magnitudes than one, and a range that zero points cut, may differ. */
static int is_idempotent(const nabla_format *format) {
  return !format->zero_point && format->encoding->bits != 2;
}

/* What was decoded encodes to the same values, so that files survive a round
 * trip; scales in f32 may move by their last bit. */
ParameterizedTestParameters(codec, second_round_trip_changes_nothing) {
  return every_row();
}
ParameterizedTest(size_t *row, codec, second_round_trip_changes_nothing) {
  static float in[MOST], back[MOST], again[MOST];
  for (size_t i = 0; i < MOST; i++) in[i] = random_normal();
  nabla_format format;
  FOR_EACH_FORM(*row, format) {
    if (!is_idempotent(&format)) continue;
    guarded a = encode(&format, in, MOST);
    decode(&format, &a, MOST, back);
    guarded b = encode(&format, back, MOST);
    decode(&format, &b, MOST, again);
    const int is_exact =
        format.encoding->bits == 4 || (format.scale != NABLA_SCALE_F32 &&
                                       format.scale != NABLA_SCALE_DYNAMIC8);
    const float tolerance = is_exact ? 0.0f : 0x1p-22f;
    for (size_t i = 0; i < MOST; i++)
      cr_assert_leq(fabsf(again[i] - back[i]), fabsf(back[i]) * tolerance,
                    "%s: %g, then %g", codec_form_text(&format), back[i],
                    again[i]);
    drop(&a);
    drop(&b);
  }
}

/* Decoding to a narrow dtype is decoding to f32 and rounding; encoding from one
 * is encoding what it widens to. */
ParameterizedTestParameters(codec, narrow_dtypes_are_as_f32) {
  return every_row();
}
ParameterizedTest(size_t *row, codec, narrow_dtypes_are_as_f32) {
  enum { COUNT = 1500 };
  static const nabla_dtype dtypes[] = {NABLA_DTYPE_F16, NABLA_DTYPE_BF16};
  static uint16_t narrow[COUNT], out[COUNT], rounded[COUNT];
  static float in[COUNT], back[COUNT];
  nabla_format format;
  FOR_EACH_FORM(*row, format) {
    for (size_t d = 0; d < 2; d++) {
      for (size_t i = 0; i < COUNT; i++) in[i] = random_normal();
      (void)nabla_from_f32(dtypes[d], in, COUNT, narrow);
      nabla_to_f32(dtypes[d], narrow, COUNT, in);
      guarded a = encode(&format, in, COUNT);
      guarded b = guarded_create(&format, COUNT, 0);
      const nabla_codec_options options = {.struct_size = sizeof options,
                                           .dtype = dtypes[d]};
      nabla_codec codec;
      cr_assert_eq(nabla_codec_select(&format, &options, &codec, NULL),
                   NABLA_OK);
      cr_assert_eq(
          nabla_encode(&codec, narrow, NULL, COUNT, &b.parts, NULL, NULL),
          NABLA_OK);
      cr_expect(guarded_equal(&a, &b), "%s", codec_form_text(&format));
      decode(&format, &a, COUNT, back);
      nabla_decode(&codec, &b.parts, COUNT, out);
      (void)nabla_from_f32(dtypes[d], back, COUNT, rounded);
      cr_expect_arr_eq(out, rounded, sizeof out, "%s",
                       codec_form_text(&format));
      drop(&a);
      drop(&b);
    }
  }
}

Test(codec, rows_too_large_for_llm_int8_are_refused) {
  nabla_format format = {.encoding = nabla_encoding_find("int8"),
                         .granularity = NABLA_PER_ROW,
                         .block = 4};
  nabla_codec codec = codec_for(&format);
  float limit = nextafterf(FLT_MAX / 127.0f, 0.0f); /* 127 times it: finite */
  float in[8] = {1, limit, 0, 0, 0, -limit, 2, 3}, back[8], scales[2];
  uint8_t codes[8];
  size_t index = 99;
  cr_assert_eq(encode_f32(&codec, in, 8, codes, scales, &index, NULL),
               NABLA_OK);
  decode_f32(&codec, codes, scales, 8, back);
  for (int i = 0; i < 8; i++) cr_expect(isfinite(back[i]));

  in[5] = -FLT_MAX / 127.0f;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(encode_f32(&codec, in, 8, codes, scales, &index, &diag),
               NABLA_UNSUPPORTED);
  cr_expect_eq(index, 5);
  cr_expect(strlen(diag.next) > 0);
}

/* The largest value of the block, not of those around it. */
Test(codec, scales_too_large_for_their_type_are_refused) {
  nabla_format format = {.encoding = nabla_encoding_find("ternary"),
                         .block = 16,
                         .scale = NABLA_SCALE_F16};
  nabla_codec codec = codec_for(&format);
  float in[48] = {0};
  in[3] = 1e6f; /* a mean of 62,500 */
  for (size_t i = 16; i < 32; i++) in[i] = -7e4f;
  in[29] = 8e4f;
  uint8_t codes[12];
  float scales[2]; /* three of F16 */
  size_t index = 99;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(encode_f32(&codec, in, 48, codes, scales, &index, &diag),
               NABLA_UNSUPPORTED);
  cr_expect_eq(index, 29);
  cr_expect_not_null(strstr(diag.next, "wider"), "%s", diag.next);
  in[40] = NAN;
  cr_expect_eq(encode_f32(&codec, in, 48, codes, scales, &index, NULL),
               NABLA_NOT_FINITE);
  cr_expect_eq(index, 40);
}

Test(codec, the_index_may_be_left_out) {
  nabla_format format = {.encoding = nabla_encoding_find("int8"),
                         .granularity = NABLA_PER_ROW,
                         .block = 4};
  nabla_codec codec = codec_for(&format);
  float in[4] = {1, 2, FLT_MAX, 3}, scale;
  uint8_t codes[4];
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(encode_f32(&codec, in, 4, codes, &scale, NULL, &diag),
               NABLA_UNSUPPORTED);
  cr_expect_not_null(strstr(diag.what, "value 2"), "%s", diag.what);
  in[2] = NAN;
  cr_expect_eq(encode_f32(&codec, in, 4, codes, &scale, NULL, &diag),
               NABLA_NOT_FINITE);
  cr_expect_not_null(strstr(diag.what, "value 2"), "%s", diag.what);
}

Test(codec, other_dtypes_and_searches_of_rows_are_refused) {
  nabla_format format = {.encoding = nabla_encoding_find("fp8"),
                         .granularity = NABLA_PER_ROW,
                         .block = 4};
  nabla_codec codec = {.isa = NABLA_ISA_AVX2};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_codec_options options = {.struct_size = sizeof options,
                                 .dtype = NABLA_DTYPE_F64};
  cr_expect_eq(nabla_codec_select(&format, &options, &codec, &diag),
               NABLA_UNSUPPORTED);
  options = (nabla_codec_options){.struct_size = sizeof(nabla_codec_options),
                                  .search = 1};
  cr_expect_eq(nabla_codec_select(&format, &options, &codec, &diag),
               NABLA_UNSUPPORTED);
  cr_expect_eq(codec.isa, NABLA_ISA_AVX2, "outputs stay as they were");
}
