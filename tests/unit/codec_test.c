/* Encoding and decoding: promises that every row of quant/encodings.def keeps
 * on every instruction set of this machine, per block and per row. */
#include "quant/codec.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/kernel.h"
#include "tests/support/codec_calls.h"

enum { GUARD = 80, CANARY = 0xA5, MOST = 1 << 16 };

/* Each case runs in a process of its own, where pointers of this one mean
 * nothing: the parameter is a number that names encoding, granularity, isa. */
enum { ISAS = 3, GRANULARITIES = 2 };

static int case_of(size_t number, nabla_format *format, nabla_isa *isa) {
  size_t count;
  const nabla_encoding *rows = nabla_encodings(&count);
  *isa = (nabla_isa)(NABLA_ISA_SCALAR + number % ISAS);
  number /= ISAS;
  format->granularity =
      number % GRANULARITIES ? NABLA_PER_ROW : NABLA_PER_BLOCK;
  number /= GRANULARITIES;
  if (number >= count) return 0;
  format->encoding = &rows[number];
  format->block = 64;
  return nabla_isa_available(*isa) &&
         (format->granularity == NABLA_PER_BLOCK || rows[number].has_rows);
}

static struct criterion_test_params every_case(void) {
  static size_t cases[256];
  size_t rows, count = 0;
  nabla_encodings(&rows);
  for (size_t i = 0; i < rows * ISAS * GRANULARITIES; i++) {
    nabla_format format;
    nabla_isa isa;
    if (case_of(i, &format, &isa)) cases[count++] = i;
  }
  return cr_make_param_array(size_t, cases, count);
}

static uint64_t seed = 1;

static uint32_t random_bits(void) { /* splitmix64 */
  uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((z ^ z >> 31) >> 32);
}

static float random_normal(void) {
  double u = (random_bits() + 1.0) / 4294967297.0;
  return (float)(sqrt(-2 * log(u)) *
                 cos(6.283185307179586 * random_bits() / 4294967296.0));
}

/* Encoded bytes between guards, at chosen misalignments of bytes and floats. */
typedef struct packed {
  uint8_t *code_memory, *codes;
  float *scale_memory, *scales;
  nabla_packed_size size;
} packed;

static packed packed_create(const nabla_format *format, size_t count,
                            size_t shift) {
  packed p;
  cr_assert_eq(nabla_format_size(format, count, &p.size, NULL), NABLA_OK);
  p.code_memory = malloc(p.size.code_bytes + 2 * GUARD + shift);
  p.scale_memory = malloc((p.size.scales + 2 * GUARD + shift) * sizeof(float));
  memset(p.code_memory, CANARY, p.size.code_bytes + 2 * GUARD + shift);
  memset(p.scale_memory, CANARY,
         (p.size.scales + 2 * GUARD + shift) * sizeof(float));
  p.codes = p.code_memory + GUARD + shift;
  p.scales = p.scale_memory + GUARD + shift;
  return p;
}

static void expect_canaries(const void *memory, size_t bytes) {
  const uint8_t *b = memory;
  for (size_t i = 0; i < bytes; i++)
    cr_assert_eq(b[i], CANARY, "wrote outside the output");
}

static void packed_destroy(packed *p) {
  expect_canaries(p->codes - GUARD, GUARD);
  expect_canaries(p->codes + p->size.code_bytes, GUARD);
  expect_canaries(p->scales - GUARD, GUARD * sizeof(float));
  expect_canaries(p->scales + p->size.scales, GUARD * sizeof(float));
  free(p->code_memory);
  free(p->scale_memory);
}

static nabla_codec codec_for(const nabla_format *format, nabla_isa isa) {
  nabla_codec codec;
  cr_assert_eq(select_codec(format, isa, &codec, NULL), NABLA_OK);
  return codec;
}

/* Encodes and decodes on `isa` and on the scalar code, from a heap copy of
 * exactly the right size at a shifted address, and compares every byte. */
static void expect_equal_to_scalar(nabla_format format, nabla_isa isa,
                                   const float *in, size_t count,
                                   size_t shift) {
  nabla_codec scalar = codec_for(&format, NABLA_ISA_SCALAR);
  nabla_codec fast = codec_for(&format, isa);
  packed a = packed_create(&format, count, 0);
  packed b = packed_create(&format, count, shift);
  float *memory = malloc((count + shift) * sizeof *in + 1);
  float *copy = memory + shift;
  memcpy(copy, in, count * sizeof *in);
  size_t index_a = 0, index_b = 0;
  nabla_status status_a =
      encode_f32(&scalar, in, count, a.codes, a.scales, &index_a, NULL);
  nabla_status status_b =
      encode_f32(&fast, copy, count, b.codes, b.scales, &index_b, NULL);
  cr_assert_eq(status_a, status_b);
  cr_assert_eq(index_a, index_b);
  const char *name = format.encoding->name;
  cr_assert_eq(memcmp(a.codes, b.codes, a.size.code_bytes), 0,
               "%s codes, block %zu, count %zu", name, (size_t)format.block,
               count);
  cr_assert_eq(memcmp(a.scales, b.scales, a.size.scales * sizeof(float)), 0,
               "%s scales, block %zu, count %zu", name, (size_t)format.block,
               count);
  float *back = malloc(count * sizeof *back + 1);
  decode_f32(&scalar, a.codes, a.scales, count, back);
  decode_f32(&fast, b.codes, b.scales, count, copy);
  cr_assert_eq(memcmp(back, copy, count * sizeof *back), 0,
               "%s decoded, block %zu, count %zu", name, (size_t)format.block,
               count);
  free(back);
  free(memory);
  packed_destroy(&a);
  packed_destroy(&b);
}

/* Row lengths to try, by number; blocks are the powers of two. */
static int next_block(nabla_format *format, size_t number) {
  static const uint64_t rows[] = {1,  2,  3,  7,   15,  16,  17,  31,  33,
                                  63, 64, 65, 100, 127, 129, 500, 4097};
  if (format->granularity == NABLA_PER_ROW) {
    if (number >= sizeof rows / sizeof *rows) return 0;
    format->block = rows[number];
  } else {
    format->block = (uint64_t)NABLA_BLOCK_MIN << number;
  }
  return format->granularity == NABLA_PER_ROW ||
         format->block <= NABLA_BLOCK_MAX;
}

ParameterizedTestParameters(codec, round_trip_stays_in_bound) {
  return every_case();
}
ParameterizedTest(size_t *number, codec, round_trip_stays_in_bound) {
  nabla_format format;
  nabla_isa isa;
  cr_assert(case_of(*number, &format, &isa));
  nabla_codec codec = codec_for(&format, isa);
  static float in[MOST], back[MOST];
  for (size_t i = 0; i < MOST; i++) in[i] = random_normal();
  packed p = packed_create(&format, MOST, 0);
  size_t index;
  cr_assert_eq(encode_f32(&codec, in, MOST, p.codes, p.scales, &index, NULL),
               NABLA_OK);
  decode_f32(&codec, p.codes, p.scales, MOST, back);
  double error = 0, norm = 0;
  for (size_t i = 0; i < MOST; i++) {
    error += pow((double)in[i] - back[i], 2);
    norm += pow(in[i], 2);
  }
  double bound = format.encoding->rmse_bound;
  cr_expect_leq(sqrt(error / norm), bound, "%g", sqrt(error / norm));
  cr_expect_geq(sqrt(error / norm), bound * 0.9, "the bound is loose");
  packed_destroy(&p);
}

ParameterizedTestParameters(codec, every_tail_equals_scalar) {
  return every_case();
}
ParameterizedTest(size_t *number, codec, every_tail_equals_scalar) {
  nabla_format format;
  nabla_isa isa;
  cr_assert(case_of(*number, &format, &isa));
  static float in[2 * NABLA_BLOCK_MAX + 2 * 4097];
  for (size_t i = 0; i < sizeof in / sizeof *in; i++) in[i] = random_normal();
  for (size_t n = 0; next_block(&format, n); n++) {
    size_t most = 2 * (size_t)format.block, step = most > 600 ? 37 : 1;
    if (most < 200) most = 200;
    for (size_t count = 0; count <= most; count += step)
      expect_equal_to_scalar(format, isa, in, count, count % 17);
  }
}

/* Values whose scaled form falls on and around every threshold. */
static float near_threshold(const float *bounds, size_t count, float scale) {
  float x = bounds[random_bits() % count];
  if (random_bits() % 2) x = -x;
  x *= scale;
  int ulps = (int)(random_bits() % 5) - 2;
  return nabla_f32_of_bits(nabla_bits_of_f32(x) + (uint32_t)ulps);
}

/* One value of a kind that is hard in some way; never NaN or infinity. */
static float hard_value(size_t kind, float scale) {
  static const float nf4[] = {-0x1.b239bp-1f,  -0x1.38a4ep-1f,  -0x1.d709p-2f,
                              -0x1.5bd4ecp-2f, -0x1.e079d8p-3f, -0x1.1a7178p-3f,
                              -0x1.74f0e2p-5f, 0x1.45f5fep-5f,  0x1.ec90c4p-4f,
                              0x1.a0cfcp-3f,   0x1.2b05a8p-2f,  0x1.8ea7f2p-2f,
                              0x1.00da08p-1f,  0x1.491b5ep-1f,  0x1.b913b4p-1f};
  static const float fp4[] = {0.00260417f, 0.0859375f, 0.20833333f, 0.29166667f,
                              0.4166667f,  0.583333f,  0.8333333f};
  float int8 = ((float)(random_bits() % 127) + 0.5f) / 127.0f;
  switch (kind % 7) {
    case 0:
      return near_threshold(nf4, 15, scale);
    case 1:
      return near_threshold(fp4, 7, scale);
    case 2:
      return near_threshold(&int8, 1, scale);
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

static void fill_hard(float *out, size_t count, size_t run) {
  for (size_t i = 0; i < count; i++) {
    size_t block = i / run;
    float scale = any_scale(block);
    size_t kind = block % 9 < 7 ? block % 9 : random_bits();
    out[i] = i % run == block % run ? scale : hard_value(kind, scale);
    if (!isfinite(out[i])) out[i] = FLT_MAX;
  }
}

ParameterizedTestParameters(codec, hard_values_equal_scalar) {
  return every_case();
}
ParameterizedTest(size_t *number, codec, hard_values_equal_scalar) {
  nabla_format format;
  nabla_isa isa;
  cr_assert(case_of(*number, &format, &isa));
  static float in[MOST];
  for (size_t n = 0; next_block(&format, n); n++)
    for (size_t run = 16; run <= 4096; run *= 4) {
      fill_hard(in, MOST, run);
      expect_equal_to_scalar(format, isa, in, MOST, 3);
    }
}

ParameterizedTestParameters(codec, nonfinite_values_are_found) {
  return every_case();
}
ParameterizedTest(size_t *number, codec, nonfinite_values_are_found) {
  nabla_format format;
  nabla_isa isa;
  cr_assert(case_of(*number, &format, &isa));
  const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000,
                          0xffc00123, 0x7f800001, 0xffbfffff};
  static float in[1000];
  for (size_t n = 0; next_block(&format, n); n++)
    for (size_t i = 0; i < 1000; i += 1 + i / 4) {
      for (size_t j = 0; j < 1000; j++) in[j] = random_normal();
      in[i] = nabla_f32_of_bits(bad[i % 6]);
      in[999] = nabla_f32_of_bits(bad[n % 6]);
      nabla_codec codec = codec_for(&format, isa);
      packed p = packed_create(&format, 1000, 1);
      size_t index = 5000;
      nabla_diag diag = NABLA_DIAG_INIT;
      cr_assert_eq(
          encode_f32(&codec, in, 1000, p.codes, p.scales, &index, &diag),
          NABLA_NOT_FINITE);
      cr_expect_eq(index, i);
      cr_expect(strlen(diag.what) > 0);
      packed_destroy(&p);
      expect_equal_to_scalar(format, isa, in, 1000, 2);
    }
}

ParameterizedTestParameters(codec, zero_decodes_to_zero) {
  return every_case();
}
ParameterizedTest(size_t *number, codec, zero_decodes_to_zero) {
  nabla_format format;
  nabla_isa isa;
  cr_assert(case_of(*number, &format, &isa));
  nabla_codec codec = codec_for(&format, isa);
  float in[300], back[300];
  for (size_t i = 0; i < 300; i++) in[i] = i % 3 ? 0.0f : -0.0f;
  packed p = packed_create(&format, 300, 0);
  size_t index;
  cr_assert_eq(encode_f32(&codec, in, 300, p.codes, p.scales, &index, NULL),
               NABLA_OK);
  decode_f32(&codec, p.codes, p.scales, 300, back);
  for (size_t i = 0; i < 300; i++)
    cr_expect_eq(nabla_bits_of_f32(back[i]), 0, "+0, not %g", back[i]);
  for (size_t i = 0; i < p.size.scales; i++)
    cr_expect_eq(nabla_bits_of_f32(p.scales[i]), 0);
  packed_destroy(&p);
}

/* What was decoded encodes to itself, so that files survive a round trip. */
ParameterizedTestParameters(codec, second_round_trip_changes_nothing) {
  return every_case();
}
ParameterizedTest(size_t *number, codec, second_round_trip_changes_nothing) {
  nabla_format format;
  nabla_isa isa;
  cr_assert(case_of(*number, &format, &isa));
  if (format.encoding->bits != 4) cr_skip("scales of 8-bit codes may move");
  nabla_codec codec = codec_for(&format, isa);
  static float in[MOST], back[MOST];
  for (size_t i = 0; i < MOST; i++) in[i] = random_normal();
  packed a = packed_create(&format, MOST, 0),
         b = packed_create(&format, MOST, 0);
  size_t index;
  cr_assert_eq(encode_f32(&codec, in, MOST, a.codes, a.scales, &index, NULL),
               NABLA_OK);
  decode_f32(&codec, a.codes, a.scales, MOST, back);
  cr_assert_eq(encode_f32(&codec, back, MOST, b.codes, b.scales, &index, NULL),
               NABLA_OK);
  cr_expect_eq(memcmp(a.scales, b.scales, a.size.scales * sizeof(float)), 0);
  float *again = in;
  decode_f32(&codec, b.codes, b.scales, MOST, again);
  for (size_t i = 0; i < MOST; i++) cr_assert_eq(again[i], back[i]);
  packed_destroy(&a);
  packed_destroy(&b);
}

/* Every code, every kind of scale: decoding reads nothing else. */
ParameterizedTestParameters(codec, any_bytes_decode_alike) {
  return every_case();
}
ParameterizedTest(size_t *number, codec, any_bytes_decode_alike) {
  nabla_format format;
  nabla_isa isa;
  cr_assert(case_of(*number, &format, &isa));
  for (size_t n = 0; next_block(&format, n); n++) {
    size_t count = 5001;
    packed p = packed_create(&format, count, 1);
    for (size_t i = 0; i < p.size.code_bytes; i++)
      p.codes[i] = (uint8_t)random_bits();
    for (size_t i = 0; i < p.size.scales; i++)
      p.scales[i] = nabla_f32_of_bits(random_bits());
    nabla_codec scalar = codec_for(&format, NABLA_ISA_SCALAR);
    nabla_codec fast = codec_for(&format, isa);
    float *a = malloc(count * sizeof *a), *b = malloc(count * sizeof *b);
    decode_f32(&scalar, p.codes, p.scales, count, a);
    decode_f32(&fast, p.codes, p.scales, count, b);
    cr_assert_eq(memcmp(a, b, count * sizeof *a), 0);
    free(a);
    free(b);
    packed_destroy(&p);
  }
}

/* Large outputs are written past the caches, by other code. */
ParameterizedTestParameters(codec, large_decode_equals_scalar) {
  return every_case();
}
ParameterizedTest(size_t *number, codec, large_decode_equals_scalar) {
  nabla_format format;
  nabla_isa isa;
  cr_assert(case_of(*number, &format, &isa));
  static const uint64_t blocks[] = {16, 32, 64, 4096},
                        rows[] = {100, 101, 4096};
  int by_row = format.granularity == NABLA_PER_ROW;
  const size_t count = (NABLA_STREAM_BYTES / sizeof(float)) + 77,
               shifts[] = {0, 1, 4};
  float *want = malloc(count * sizeof *want);
  float *memory = malloc((count + 4 + 2 * GUARD) * sizeof *memory);
  for (size_t n = 0; n < (by_row ? 3 : 4); n++) {
    format.block = by_row ? rows[n] : blocks[n];
    packed p = packed_create(&format, count, 0);
    for (size_t i = 0; i < p.size.code_bytes; i++)
      p.codes[i] = (uint8_t)random_bits();
    for (size_t i = 0; i < p.size.scales; i++) p.scales[i] = random_normal();
    nabla_codec scalar = codec_for(&format, NABLA_ISA_SCALAR);
    nabla_codec fast = codec_for(&format, isa);
    decode_f32(&scalar, p.codes, p.scales, count, want);
    for (size_t i = 0; i < 3; i++) {
      float *got = memory + GUARD + shifts[i];
      memset(memory, CANARY, (count + 4 + 2 * GUARD) * sizeof *memory);
      decode_f32(&fast, p.codes, p.scales, count, got);
      cr_assert_eq(memcmp(got, want, count * sizeof *got), 0);
      expect_canaries(got - GUARD, GUARD * sizeof *got);
      expect_canaries(got + count, GUARD * sizeof *got);
    }
    packed_destroy(&p);
  }
  free(want);
  free(memory);
}

Test(codec, rows_too_large_for_llm_int8_are_refused) {
  nabla_format format = {.encoding = nabla_encoding_find("int8"),
                         .granularity = NABLA_PER_ROW,
                         .block = 4};
  nabla_codec codec = codec_for(&format, NABLA_ISA_BEST);
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
  in[0] = NAN; /* does not hide it */
  cr_expect_eq(encode_f32(&codec, in, 8, codes, scales, &index, NULL),
               NABLA_UNSUPPORTED);
  cr_expect_eq(index, 5);
}

Test(codec, the_index_may_be_left_out) {
  nabla_format format = {.encoding = nabla_encoding_find("int8"),
                         .granularity = NABLA_PER_ROW,
                         .block = 4};
  nabla_codec codec = codec_for(&format, NABLA_ISA_BEST);
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

Test(codec, row_in_pieces_equals_row) {
  static float in[5000];
  static uint8_t whole[5000], pieces[5000];
  for (size_t i = 0; i < 5000; i++) in[i] = random_normal();
  for (int isa = NABLA_ISA_SCALAR; isa <= NABLA_ISA_AVX512; isa++) {
    if (!nabla_isa_available((nabla_isa)isa)) continue;
    nabla_format format = {.encoding = nabla_encoding_find("int8"),
                           .granularity = NABLA_PER_ROW,
                           .block = 5000};
    nabla_codec codec = codec_for(&format, (nabla_isa)isa);
    float scale, absmax = 0;
    size_t index;
    cr_assert_eq(encode_f32(&codec, in, 5000, whole, &scale, &index, NULL),
                 NABLA_OK);
    for (size_t at = 0; at < 5000; at += 625) {
      float most = nabla_absmax((nabla_isa)isa, in + at, 625);
      if (most > absmax) absmax = most;
    }
    cr_expect_eq(nabla_bits_of_f32(absmax), nabla_bits_of_f32(scale));
    for (size_t at = 0; at < 5000; at += 625)
      cr_assert(
          nabla_encode_part(&codec, in + at, 625, absmax, pieces + at, NULL));
    cr_expect_eq(memcmp(whole, pieces, 5000), 0);
    in[4321] = NAN;
    cr_expect(isnan(nabla_absmax((nabla_isa)isa, in, 5000)));
    in[4321] = 0.5f;
    cr_expect_eq(nabla_bits_of_f32(nabla_absmax((nabla_isa)isa, in, 0)), 0);
  }
}
