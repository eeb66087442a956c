/* The dtype table; arrays convert with the same bits as single values, by
 * whatever path the machine takes, at every length and alignment. */
#include "nabla/dtype.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/floats.h"

Test(dtype, every_name_is_found_and_nothing_else) {
  for (int i = 0; i < NABLA_DTYPE_COUNT; i++) {
    const char *name = nabla_dtype_name((nabla_dtype)i);
    nabla_dtype found = NABLA_DTYPE_COUNT;
    cr_assert_eq(nabla_dtype_find(name, strlen(name), &found, NULL), 0);
    cr_assert_eq(found, (nabla_dtype)i);
  }
  static const char *const unknown[] = {
      "", "f32", "F3", "F322", "BF8", "F8_E4M3FN", "?", " F32", "F32 "};
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
    nabla_dtype found = NABLA_DTYPE_COUNT;
    nabla_diag diag = NABLA_DIAG_INIT;
    cr_assert_eq(
        nabla_dtype_find(unknown[i], strlen(unknown[i]), &found, &diag),
        NABLA_UNSUPPORTED);
    cr_assert_eq(found, NABLA_DTYPE_COUNT);
    cr_assert_not_null(strstr(diag.what, unknown[i]));
  }
}

Test(dtype, names_need_no_nul_and_may_be_long) {
  nabla_dtype found;
  cr_assert_eq(nabla_dtype_find("F32X", 3, &found, NULL), 0);
  cr_assert_eq(found, NABLA_DTYPE_F32);
  char name[10000];
  memset(name, 'F', sizeof name);
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_dtype_find(name, sizeof name, &found, &diag),
               NABLA_UNSUPPORTED);
}

Test(dtype, bits_and_names) {
  cr_assert_eq(nabla_dtype_bits(NABLA_DTYPE_F4), 4);
  cr_assert_eq(nabla_dtype_bits(NABLA_DTYPE_F6_E2M3), 6);
  cr_assert_eq(nabla_dtype_bits(NABLA_DTYPE_BF16), 16);
  cr_assert_eq(nabla_dtype_bits(NABLA_DTYPE_C64), 64);
  cr_assert_str_eq(nabla_dtype_name(NABLA_DTYPE_F8_E5M2FNUZ), "F8_E5M2FNUZ");
  cr_assert_str_eq(nabla_dtype_torch_name(NABLA_DTYPE_BF16), "bfloat16");
  cr_assert_null(nabla_dtype_torch_name(NABLA_DTYPE_F64));
  cr_assert_str_eq(nabla_dtype_name(NABLA_DTYPE_COUNT), "?");
  cr_assert_eq(nabla_dtype_bits((nabla_dtype)-1), 0);
  for (int i = 0; i < NABLA_DTYPE_COUNT; i++)
    cr_assert_eq(nabla_dtype_is_float((nabla_dtype)i),
                 i == NABLA_DTYPE_F16 || i == NABLA_DTYPE_BF16 ||
                     i == NABLA_DTYPE_F32 || i == NABLA_DTYPE_F64);
}

/* All 65536 codes of a 16-bit dtype, as bytes in a file. */
static uint8_t *all_codes(void) {
  uint8_t *bytes = malloc(2 * 65536);
  for (uint32_t code = 0; code < 65536; code++)
    bytes[2 * code] = (uint8_t)code, bytes[2 * code + 1] = (uint8_t)(code >> 8);
  return bytes;
}

Test(dtype, every_16_bit_code_widens_as_alone) {
  uint8_t *bytes = all_codes();
  float *out = malloc(65536 * sizeof *out);
  nabla_to_f32(NABLA_DTYPE_F16, bytes, 65536, out);
  for (uint32_t code = 0; code < 65536; code++)
    cr_assert_eq(nabla_bits_of_f32(out[code]),
                 nabla_bits_of_f32(nabla_f16_to_f32((uint16_t)code)), "f16 %x",
                 code);
  nabla_to_f32(NABLA_DTYPE_BF16, bytes, 65536, out);
  for (uint32_t code = 0; code < 65536; code++)
    cr_assert_eq(nabla_bits_of_f32(out[code]), code << 16, "bf16 %x", code);
  free(out);
  free(bytes);
}

/* Covers all exponents, with ties, near ties, infinities and NaNs of many
 * payloads: every sign, exponent and high mantissa bits with some low bits. */
static float pattern(size_t i) {
  static const uint32_t low[] = {0,      1,      0x0fff, 0x1000, 0x1001,
                                 0x1fff, 0x2000, 0x3000, 0x7fff, 0x8000,
                                 0x8001, 0xefff, 0xf000, 0xffff};
  const size_t kinds = sizeof low / sizeof low[0];
  return nabla_f32_of_bits((uint32_t)(i / kinds) << 16 | low[i % kinds]);
}
#define PATTERNS ((size_t)65536 * 14)

static void narrow_as_alone(nabla_dtype dtype, uint16_t (*alone)(float)) {
  float *in = malloc(PATTERNS * sizeof *in);
  uint8_t *out = malloc(2 * PATTERNS);
  size_t overflows = 0;
  for (size_t i = 0; i < PATTERNS; i++) in[i] = pattern(i);
  const size_t reported = nabla_from_f32(dtype, in, PATTERNS, out);
  for (size_t i = 0; i < PATTERNS; i++) {
    const uint16_t expected = alone(in[i]);
    if (nabla_load_le16(out + 2 * i) != expected)
      cr_assert_fail("%08x gives %x, not %x", nabla_bits_of_f32(in[i]),
                     nabla_load_le16(out + 2 * i), expected);
    float back;
    nabla_to_f32(dtype, out + 2 * i, 1, &back);
    if (isfinite(in[i]) && isinf(back)) overflows++;
  }
  cr_assert_gt(overflows, 0);
  cr_assert_eq(reported, overflows);
  free(out);
  free(in);
}

Test(dtype, f32_narrows_as_alone) {
  narrow_as_alone(NABLA_DTYPE_F16, nabla_f32_to_f16);
  narrow_as_alone(NABLA_DTYPE_BF16, nabla_f32_to_bf16);
}

/* Lengths around the vector width, at every alignment, between guards. */
static void short_arrays(nabla_dtype dtype, size_t size) {
  uint8_t file[8 * 40 + 8];
  float values[40 + 1];
  for (size_t at = 0; at < 8; at++)
    for (size_t count = 0; count < 40; count++) {
      for (size_t i = 0; i < count; i++) values[i] = (float)i - 7.5f;
      memset(file, 0xee, sizeof file);
      cr_assert_eq(nabla_from_f32(dtype, values, count, file + at), 0);
      for (size_t i = 0; i < sizeof file; i++)
        if (i < at || i >= at + size * count) cr_assert_eq(file[i], 0xee);
      values[count] = 99;
      for (size_t i = 0; i < count; i++) values[i] = 0;
      nabla_to_f32(dtype, file + at, count, values);
      for (size_t i = 0; i < count; i++)
        cr_assert_eq(values[i], (float)i - 7.5f);
      cr_assert_eq(values[count], 99);
    }
}

Test(dtype, short_and_unaligned_arrays) {
  short_arrays(NABLA_DTYPE_F16, 2);
  short_arrays(NABLA_DTYPE_BF16, 2);
  short_arrays(NABLA_DTYPE_F32, 4);
  short_arrays(NABLA_DTYPE_F64, 8);
}

Test(dtype, f32_and_f64_keep_every_bit_that_fits) {
  for (uint64_t wide = 0; wide <= UINT32_MAX; wide += 104729) {
    const uint32_t bits = (uint32_t)wide;
    const float value = nabla_f32_of_bits(bits);
    const uint32_t kept = isnan(value) ? bits | 0x00400000u : bits;
    uint8_t file[8];
    float back;
    cr_assert_eq(nabla_from_f32(NABLA_DTYPE_F64, &value, 1, file), 0);
    nabla_to_f32(NABLA_DTYPE_F64, file, 1, &back);
    cr_assert_eq(nabla_bits_of_f32(back), kept, "%x", bits);
    cr_assert_eq(nabla_from_f32(NABLA_DTYPE_F32, &value, 1, file), 0);
    cr_assert_eq(nabla_load_le32(file), bits);
    nabla_to_f32(NABLA_DTYPE_F32, file, 1, &back);
    cr_assert_eq(nabla_bits_of_f32(back), bits);
  }
}

static uint32_t f64_bits_to_f32_bits(uint64_t bits) {
  uint8_t file[8];
  float out;
  nabla_store_le64(file, bits);
  nabla_to_f32(NABLA_DTYPE_F64, file, 1, &out);
  return nabla_bits_of_f32(out);
}

Test(dtype, f64_rounds_half_to_even) {
  cr_assert_eq(f64_bits_to_f32_bits(0x3ff0000010000000u), 0x3f800000u);
  cr_assert_eq(f64_bits_to_f32_bits(0x3ff0000010000001u), 0x3f800001u);
  cr_assert_eq(f64_bits_to_f32_bits(0x3ff0000030000000u), 0x3f800002u);
  cr_assert_eq(f64_bits_to_f32_bits(0x7fe0000000000000u), 0x7f800000u);
  cr_assert_eq(f64_bits_to_f32_bits(0xfff0000000000000u), 0xff800000u);
  cr_assert_eq(f64_bits_to_f32_bits(0x36a0000000000000u), 0x00000001u);
  /* A NaN whose payload lies only in bits that f32 does not have. */
  cr_assert_eq(f64_bits_to_f32_bits(0xfff0000000000001u), 0xffc00000u);
  cr_assert_eq(f64_bits_to_f32_bits(0x7ff8000020000000u), 0x7fc00001u);
}
