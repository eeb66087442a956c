/* Every instruction set of this machine gives the bits of the scalar code, for
 * each format of each row of quant/codec/encodings.def, at any address and of
 * any length; and each finds the same bad values. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "quant/codec/codec.h"
#include "quant/codec/kernel.h"
#include "tests/support/codec_calls.h"
#include "tests/support/codec_forms.h"

enum { GUARD = 80, CANARY = 0xA5, MOST = 1 << 12, ISAS = 2 };

static const nabla_dtype dtypes[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                     NABLA_DTYPE_BF16};

/* Each case runs in a process of its own, where pointers of this one mean
 * nothing: the parameter is a number that names encoding and isa. */
static struct criterion_test_params every_case(void) {
  static size_t cases[128];
  size_t rows, count = 0;
  nabla_encodings(&rows);
  for (size_t i = 0; i < rows * ISAS; i++)
    if (nabla_isa_available((nabla_isa)(NABLA_ISA_AVX2 + i % ISAS)))
      cases[count++] = i;
  return cr_make_param_array(size_t, cases, count);
}

/* The cases of one encoding on one instruction set. */
typedef struct subject {
  const nabla_encoding *encoding;
  nabla_isa isa;
} subject;

static subject subject_of(size_t number) {
  size_t ignored;
  return (subject){&nabla_encodings(&ignored)[number / ISAS],
                   (nabla_isa)(NABLA_ISA_AVX2 + number % ISAS)};
}

#define FOR_EACH_FORM(s, format)                       \
  for (size_t form_ = 0; form_ < CODEC_FORMS; form_++) \
    if (codec_form((s).encoding, form_, &(format)))

static nabla_codec codec_for(const nabla_format *format, nabla_isa isa,
                             nabla_dtype dtype) {
  const nabla_codec_options options = {
      .struct_size = sizeof options, .isa = isa, .dtype = dtype};
  nabla_codec codec;
  cr_assert_eq(nabla_codec_select(format, &options, &codec, NULL), NABLA_OK);
  return codec;
}

/* Bit for bit, but that any NaN stands for any: only scales or codes that are
 * no numbers give it. */
static int same_values(const uint8_t *a, const uint8_t *b, size_t count,
                       nabla_dtype dtype) {
  const size_t width = nabla_dtype_bits(dtype) / 8;
  if (!memcmp(a, b, count * width)) return 1;
  for (size_t i = 0; i < count; i++) {
    float x, y;
    nabla_to_f32(dtype, a + i * width, 1, &x);
    nabla_to_f32(dtype, b + i * width, 1, &y);
    if (memcmp(a + i * width, b + i * width, width) != 0 &&
        !(isnan(x) && isnan(y)))
      return 0;
  }
  return 1;
}

/* Decodes to a dtype, at a shifted address and not. */
static void expect_equal_values(const nabla_format *format, nabla_isa isa,
                                nabla_dtype dtype, const guarded *packed,
                                size_t count, size_t shift) {
  const size_t width = nabla_dtype_bits(dtype) / 8, size = count * width;
  nabla_codec scalar = codec_for(format, NABLA_ISA_SCALAR, dtype);
  nabla_codec fast = codec_for(format, isa, dtype);
  uint8_t *want = malloc(size + 1);
  uint8_t *memory = malloc(size + shift * width + 2 * GUARD);
  uint8_t *got = memory + GUARD + shift * width;
  memset(memory, CANARY, GUARD + shift * width);
  memset(got + size, CANARY, GUARD);
  nabla_decode(&scalar, &packed->parts, count, want);
  nabla_decode(&fast, &packed->parts, count, got);
  cr_assert(same_values(want, got, count, dtype), "%s: %zu values to %s",
            codec_form_text(format), count, nabla_dtype_name(dtype));
  for (size_t i = 0; i < GUARD; i++)
    cr_assert(got[-1 - (ptrdiff_t)i] == CANARY && got[size + i] == CANARY,
              "wrote outside the output");
  free(want);
  free(memory);
}

static void expect_equal_in_all_dtypes(const nabla_format *format,
                                       nabla_isa isa, const guarded *packed,
                                       size_t count, size_t shift) {
  for (size_t d = 0; d < 3; d++)
    expect_equal_values(format, isa, dtypes[d], packed, count, shift);
}

/* Encodes on `isa` and on the scalar code, from a heap copy of exactly the
 * right size at a shifted address, and compares every byte. */
static void expect_equal(const nabla_format *format, nabla_isa isa,
                         const float *in, size_t count, size_t shift) {
  const nabla_dtype dtype = dtypes[shift % 3];
  const size_t width = nabla_dtype_bits(dtype) / 8;
  nabla_codec scalar = codec_for(format, NABLA_ISA_SCALAR, dtype);
  nabla_codec fast = codec_for(format, isa, dtype);
  guarded a = guarded_create(format, count, 0);
  guarded b = guarded_create(format, count, shift);
  uint8_t *plain = malloc(count * width + 1);
  uint8_t *memory = malloc((count + shift) * width + 1);
  uint8_t *copy = memory + shift * width;
  (void)nabla_from_f32(dtype, in, count, plain);
  memcpy(copy, plain, count * width);
  size_t first = 0, second = 0;
  const nabla_status status =
      nabla_encode(&scalar, plain, NULL, count, &a.parts, &first, NULL);
  cr_assert_eq(nabla_encode(&fast, copy, NULL, count, &b.parts, &second, NULL),
               status);
  cr_assert_eq(first, second);
  if (!status) {
    cr_assert(guarded_equal(&a, &b), "%s: %zu values of %s",
              codec_form_text(format), count, nabla_dtype_name(dtype));
    expect_equal_in_all_dtypes(format, isa, &b, count, shift);
  }
  free(plain);
  free(memory);
  cr_assert(guarded_destroy(&a) & guarded_destroy(&b),
            "%s: %zu values: wrote outside the output", codec_form_text(format),
            count);
}

ParameterizedTestParameters(codec_equal, every_tail) { return every_case(); }
ParameterizedTest(size_t *number, codec_equal, every_tail) {
  const subject s = subject_of(*number);
  static float in[4 * NABLA_BLOCK_MAX];
  for (size_t i = 0; i < sizeof in / sizeof *in; i++) in[i] = random_normal();
  nabla_format format;
  FOR_EACH_FORM(s, format)
  for (size_t n = 0; codec_form_resize(&format, n); n++) {
    const size_t block = (size_t)format.block;
    for (size_t count = 0; count <= 130; count++)
      expect_equal(&format, s.isa, in, count, count % 17);
    for (size_t count = block; count <= 2 * block; count += block / 4 + 1)
      expect_equal(&format, s.isa, in, count, count % 17);
  }
}

/* Values that lie on and around the midpoints of what codes stand for. */
typedef struct bounds {
  float at[255];
  size_t count;
} bounds;

static int by_value(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static bounds bounds_of(const nabla_encoding *encoding) {
  const nabla_recipe *recipe = nabla_recipe_find(encoding);
  const size_t codes = (size_t)1 << encoding->bits;
  float values[256];
  size_t finite = 0;
  for (size_t i = 0; i < codes; i++) {
    values[finite] = recipe->value((uint8_t)i);
    finite += (size_t)!!isfinite(values[finite]);
  }
  qsort(values, finite, sizeof *values, by_value);
  bounds out = {.count = finite - 1};
  for (size_t i = 0; i + 1 < finite; i++)
    out.at[i] = (values[i] + values[i + 1]) / 2;
  return out;
}

/* One value of a kind that is hard in some way; never NaN or infinity. */
static float hard_value(size_t kind, float scale, const bounds *b) {
  const float near = b->at[random_bits() % b->count] * scale;
  switch (kind % 7) {
    case 0:
    case 1:
    case 2:
      return nabla_f32_of_bits(nabla_bits_of_f32(near) + random_bits() % 5 - 2);
    case 3:
      return random_bits() % 4 ? 0.0f : -0.0f;
    case 4:
      return nabla_f32_of_bits(random_bits() & 0x807fffff);
    case 5:
      return nabla_f32_of_bits(random_bits() & 0xff7fffff);
    default:
      return random_normal() * scale;
  }
}

/* Scales from the smallest subnormal to the largest float. */
static float any_scale(size_t number) {
  if (number % 7 == 0) return 1.0f;
  float scale = ldexpf(1.0f + (float)(random_bits() % 1000) / 1001.0f,
                       (int)(number * 13 % 277) - 149);
  return number % 31 == 0 ? FLT_MAX : scale;
}

/* Runs of values around one scale, its largest multiple among them. */
static void fill_hard(const nabla_encoding *encoding, float *out, size_t count,
                      size_t run) {
  const bounds b = bounds_of(encoding);
  const float limit = fabsf(nabla_recipe_find(encoding)->limit);
  for (size_t i = 0; i < count; i++) {
    const size_t block = i / run;
    const float scale = any_scale(block);
    const size_t kind = block % 9 < 7 ? block % 9 : random_bits();
    out[i] = i % run == block % run ? (block % 2 ? -scale : scale) * limit
                                    : hard_value(kind, scale, &b);
    if (!isfinite(out[i])) out[i] = FLT_MAX;
  }
}

/* Blocks that a scale type cannot hold would hide the others: zeros. */
static void drop_refused(const nabla_format *format, float *in, size_t count) {
  nabla_codec codec = codec_for(format, NABLA_ISA_SCALAR, NABLA_DTYPE_F32);
  guarded g = guarded_create(format, count, 0);
  size_t index;
  while (nabla_encode(&codec, in, NULL, count, &g.parts, &index, NULL))
    for (size_t i = index / format->block * format->block;
         i < count && i / format->block == index / format->block; i++)
      in[i] = 0;
  (void)guarded_destroy(&g);
}

ParameterizedTestParameters(codec_equal, hard_values) { return every_case(); }
ParameterizedTest(size_t *number, codec_equal, hard_values) {
  const subject s = subject_of(*number);
  static float in[MOST];
  nabla_format format;
  FOR_EACH_FORM(s, format)
  for (size_t n = 0; codec_form_resize(&format, n); n++)
    for (size_t run = 16; run <= 1024; run *= 8) {
      fill_hard(s.encoding, in, MOST, run);
      expect_equal(&format, s.isa, in, MOST, 4 + n % 2);
      drop_refused(&format, in, MOST);
      expect_equal(&format, s.isa, in, MOST, 3);
    }
}

ParameterizedTestParameters(codec_equal, bad_values) { return every_case(); }
ParameterizedTest(size_t *number, codec_equal, bad_values) {
  const subject s = subject_of(*number);
  const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000,
                          0xffc00123, 0x7f800001, 0xffbfffff};
  static float in[1000];
  nabla_format format;
  FOR_EACH_FORM(s, format)
  for (size_t n = 0; codec_form_resize(&format, n); n++)
    for (size_t i = 0; i < 1000; i += 1 + i / 4) {
      for (size_t j = 0; j < 1000; j++) in[j] = random_normal();
      in[i] = nabla_f32_of_bits(bad[i % 6]);
      in[999] = nabla_f32_of_bits(bad[n % 6]);
      nabla_codec codec = codec_for(&format, s.isa, NABLA_DTYPE_F32);
      guarded g = guarded_create(&format, 1000, 1);
      size_t index = 5000;
      nabla_diag diag = NABLA_DIAG_INIT;
      cr_assert_eq(
          nabla_encode(&codec, in, NULL, 1000, &g.parts, &index, &diag),
          NABLA_NOT_FINITE);
      cr_expect_eq(index, i);
      cr_expect(strlen(diag.what) > 0);
      cr_assert(guarded_destroy(&g), "wrote outside the output");
      expect_equal(&format, s.isa, in, 1000, 2);
    }
}

/* Every code, every kind of scale: decoding reads nothing else. */
ParameterizedTestParameters(codec_equal, any_bytes) { return every_case(); }
ParameterizedTest(size_t *number, codec_equal, any_bytes) {
  const subject s = subject_of(*number);
  nabla_format format;
  FOR_EACH_FORM(s, format)
  for (size_t n = 0; codec_form_resize(&format, n); n++) {
    guarded g = guarded_create(&format, 5001, 1);
    guarded_fill(&g);
    expect_equal_in_all_dtypes(&format, s.isa, &g, 5001, n);
    cr_assert(guarded_destroy(&g));
  }
}

/* Large outputs are written past the caches, by other code. */
ParameterizedTestParameters(codec_equal, large_outputs) { return every_case(); }
ParameterizedTest(size_t *number, codec_equal, large_outputs) {
  const subject s = subject_of(*number);
  nabla_format format;
  FOR_EACH_FORM(s, format)
  for (size_t d = 0; d < 3; d++) {
    const size_t count =
        NABLA_STREAM_BYTES / (nabla_dtype_bits(dtypes[d]) / 8) + 77;
    if (format.scale != NABLA_SCALE_F32 && format.scale != NABLA_SCALE_E8M0)
      continue; /* widened first: no other code */
    if (format.granularity == NABLA_PER_ROW) format.block = 101;
    if (format.granularity == NABLA_PER_TENSOR) format.block = count;
    guarded g = guarded_create(&format, count, 0);
    guarded_fill(&g);
    for (size_t i = 0; i < g.scale_bytes; i++) /* finite ones */
      ((uint8_t *)g.parts.scales)[i] &= 0x3f;
    for (size_t shift = 0; shift < 6; shift += 3)
      expect_equal_values(&format, s.isa, dtypes[d], &g, count, shift);
    cr_assert(guarded_destroy(&g));
  }
}

/* Codes of long inputs go past the caches; a value alone in the last chunk, at
 * an address that is no multiple of a line, is the shortest such copy. */
ParameterizedTestParameters(codec_equal, long_inputs) { return every_case(); }
ParameterizedTest(size_t *number, codec_equal, long_inputs) {
  const subject s = subject_of(*number);
  const size_t count = NABLA_STREAM_BYTES / sizeof(float) + 1;
  float *in = malloc(count * sizeof *in);
  for (size_t i = 0; i < count; i++)
    in[i] = i < MOST ? random_normal() : in[i - MOST] * 0.999f;
  /* Chunks between the others that lines are not made of: these divide. */
  for (size_t i = 0; i < 3000; i++) in[count / 2 + i] *= 0x1p-130f;
  nabla_format format;
  FOR_EACH_FORM(s, format)
  for (size_t shift = 0; shift < 64; shift = shift ? 2 * shift + 29 : 1) {
    if (format.granularity != NABLA_PER_BLOCK || format.zero_point ||
        (format.scale != NABLA_SCALE_F32 && format.scale != NABLA_SCALE_E8M0))
      continue; /* no other copies */
    guarded a = guarded_create(&format, count, 0);
    guarded b = guarded_create(&format, count, shift);
    nabla_codec scalar = codec_for(&format, NABLA_ISA_SCALAR, NABLA_DTYPE_F32);
    nabla_codec fast = codec_for(&format, s.isa, NABLA_DTYPE_F32);
    cr_assert_eq(nabla_encode(&scalar, in, NULL, count, &a.parts, NULL, NULL),
                 NABLA_OK);
    cr_assert_eq(nabla_encode(&fast, in, NULL, count, &b.parts, NULL, NULL),
                 NABLA_OK);
    cr_assert(guarded_equal(&a, &b), "%s", codec_form_text(&format));
    cr_assert(guarded_destroy(&a) & guarded_destroy(&b),
              "%s: wrote outside the output", codec_form_text(&format));
  }
  free(in);
}

/* A row (or tensor) in pieces is the row. */
ParameterizedTestParameters(codec_equal, rows_in_pieces) {
  return every_case();
}
ParameterizedTest(size_t *number, codec_equal, rows_in_pieces) {
  enum { COUNT = 5000, PIECE = 625 };
  const subject s = subject_of(*number);
  static float in[COUNT];
  static uint8_t pieces[COUNT];
  for (size_t i = 0; i < COUNT; i++) in[i] = random_normal();
  float absmax = 0;
  for (size_t at = 0; at < COUNT; at += PIECE)
    absmax = fmaxf(absmax, nabla_absmax(s.isa, in + at, PIECE));
  nabla_format format;
  FOR_EACH_FORM(s, format) {
    if (format.granularity == NABLA_PER_BLOCK) continue;
    format.block = COUNT;
    nabla_codec codec = codec_for(&format, s.isa, NABLA_DTYPE_F32);
    guarded whole = guarded_create(&format, COUNT, 0);
    cr_assert_eq(
        nabla_encode(&codec, in, NULL, COUNT, &whole.parts, NULL, NULL),
        NABLA_OK);
    uint32_t scale = 0;
    for (size_t at = 0; at < COUNT; at += PIECE)
      cr_assert(nabla_encode_part(&codec, in + at, PIECE, absmax, pieces + at,
                                  at ? NULL : &scale));
    cr_expect_eq(memcmp(whole.parts.codes, pieces, COUNT), 0, "%s",
                 codec_form_text(&format));
    cr_expect_eq(memcmp(whole.parts.scales, &scale, whole.scale_bytes), 0);
    (void)guarded_destroy(&whole);
  }
  in[4321] = NAN;
  cr_expect(isnan(nabla_absmax(s.isa, in, COUNT)));
  cr_expect_eq(nabla_bits_of_f32(nabla_absmax(s.isa, in, 0)), 0);
}
