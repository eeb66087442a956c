/* Narrow floats: every code, and every boundary between neighbours, against a
 * slow definition that shares nothing with the code under test. */
#include "lib/base/floats.h"

#include <criterion/criterion.h>
#include <math.h>

#include "lib/base/bytes.h"

typedef struct format {
  const char *name;
  uint32_t codes;    /* how many have a clear sign bit */
  uint32_t largest;  /* code of the largest finite value */
  uint32_t overflow; /* code that a larger value gets */
  int mantissa, bias;
  float (*widen)(uint32_t code);
  uint32_t (*narrow)(float value);
} format;

static float widen_f16(uint32_t c) { return nabla_f16_to_f32((uint16_t)c); }
static float widen_bf16(uint32_t c) { return nabla_bf16_to_f32((uint16_t)c); }
static float widen_e4m3(uint32_t c) { return nabla_f8e4m3_to_f32((uint8_t)c); }
static float widen_e5m2(uint32_t c) { return nabla_f8e5m2_to_f32((uint8_t)c); }
static uint32_t narrow_f16(float v) { return nabla_f32_to_f16(v); }
static uint32_t narrow_bf16(float v) { return nabla_f32_to_bf16(v); }
static uint32_t narrow_e4m3(float v) { return nabla_f32_to_f8e4m3(v); }
static uint32_t narrow_e5m2(float v) { return nabla_f32_to_f8e5m2(v); }

static const format formats[] = {
    {"f16", 0x8000, 0x7bff, 0x7c00, 10, 15, widen_f16, narrow_f16},
    {"bf16", 0x8000, 0x7f7f, 0x7f80, 7, 127, widen_bf16, narrow_bf16},
    {"f8e4m3", 0x80, 0x7e, 0x7e, 3, 7, widen_e4m3, narrow_e4m3},
    {"f8e5m2", 0x80, 0x7b, 0x7b, 2, 15, widen_e5m2, narrow_e5m2},
};
#define FORMATS (sizeof formats / sizeof formats[0])

/* What a code that is no infinity or NaN means, from the definition. */
static double meaning(const format *f, uint32_t code) {
  const int exponent = (int)(code >> f->mantissa);
  const double fraction = code & ((1u << f->mantissa) - 1);
  const double unit = ldexp(fraction, -f->mantissa);
  return exponent ? ldexp(1 + unit, exponent - f->bias)
                  : ldexp(unit, 1 - f->bias);
}

Test(floats, every_finite_code_means_what_it_should_and_comes_back) {
  for (size_t i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    for (uint32_t code = 0; code <= f->largest; code++) {
      const float value = f->widen(code), negative = f->widen(code | f->codes);
      cr_assert_eq((double)value, meaning(f, code), "%s %x", f->name, code);
      cr_assert_eq(nabla_bits_of_f32(negative),
                   nabla_bits_of_f32(value) | 0x80000000u);
      cr_assert_eq(f->narrow(value), code, "%s %x", f->name, code);
      cr_assert_eq(f->narrow(negative), code | f->codes);
    }
  }
}

Test(floats, every_code_beyond_is_infinity_or_a_quiet_nan) {
  for (size_t i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    for (uint32_t code = f->largest + 1; code < f->codes; code++) {
      const float value = f->widen(code), negative = f->widen(code | f->codes);
      const uint32_t bits = nabla_bits_of_f32(value);
      const int is_infinity = code == f->largest + 1 && f->mantissa != 3;
      cr_assert_eq(nabla_bits_of_f32(negative), bits | 0x80000000u);
      if (is_infinity) {
        cr_assert_eq(bits, 0x7f800000u, "%s", f->name);
        cr_assert_eq(f->narrow(value), f->overflow);
        cr_assert_eq(f->narrow(negative), f->overflow | f->codes);
        continue;
      }
      /* Widening bf16 is a shift and keeps a signalling NaN; narrowing makes
       * every NaN quiet and keeps the rest of the payload. */
      const uint32_t quiet =
          f->mantissa == 3 ? 0x7f : code | 1u << (f->mantissa - 1);
      cr_assert(isnan(value), "%s %x", f->name, code);
      if (f->mantissa != 7) cr_assert(bits & 0x00400000u);
      cr_assert_eq(f->narrow(value), quiet, "%s %x", f->name, code);
      cr_assert_eq(f->narrow(negative), quiet | f->codes);
    }
  }
}

Test(floats, nans_stay_nans_whatever_their_payload) {
  for (size_t i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    for (uint32_t bit = 0; bit < 23; bit++)
      for (uint32_t sign = 0; sign < 2; sign++) {
        const uint32_t bits = sign << 31 | 0x7f800000u | 1u << bit;
        const uint32_t code = f->narrow(nabla_f32_of_bits(bits));
        cr_assert(isnan(f->widen(code)), "%s bit %u", f->name, bit);
        cr_assert_eq(code / f->codes, sign);
      }
  }
}

/* A midpoint is exact in f32 too: half a step is one more mantissa bit. */
Test(floats, each_boundary_between_neighbours_rounds_half_to_even) {
  for (size_t i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    for (uint32_t code = 0; code < f->largest; code++) {
      const double exact = (meaning(f, code) + meaning(f, code + 1)) / 2;
      const float middle = (float)exact;
      cr_assert_eq((double)middle, exact, "%s %x", f->name, code);
      const uint32_t even = code + (code & 1);
      const float below = nextafterf(middle, 0),
                  above = nextafterf(middle, INFINITY);
      cr_assert_eq(f->narrow(middle), even, "%s %x", f->name, code);
      cr_assert_eq(f->narrow(-middle), even | f->codes);
      cr_assert_eq(f->narrow(below), code, "%s %x", f->name, code);
      cr_assert_eq(f->narrow(-below), code | f->codes);
      cr_assert_eq(f->narrow(above), code + 1, "%s %x", f->name, code);
      cr_assert_eq(f->narrow(-above), (code + 1) | f->codes);
    }
  }
}

Test(floats, overflow_starts_half_a_step_above_the_largest) {
  for (size_t i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    const double top = meaning(f, f->largest);
    const double step = top - meaning(f, f->largest - 1);
    const float edge = (float)(top + step / 2);
    cr_assert_eq((double)edge, top + step / 2);
    cr_assert_eq(f->narrow(nextafterf(edge, 0)), f->largest, "%s", f->name);
    cr_assert_eq(f->narrow(edge), f->overflow, "%s", f->name);
    cr_assert_eq(f->narrow(nextafterf(edge, INFINITY)), f->overflow);
    cr_assert_eq(f->narrow(3.4028234663852886e38f), f->overflow);
    cr_assert_eq(f->narrow(-3.4028234663852886e38f), f->overflow | f->codes);
    cr_assert_eq(f->narrow(INFINITY), f->overflow);
    cr_assert_eq(f->narrow(-INFINITY), f->overflow | f->codes);
  }
}

Test(floats, the_limits_are_those_of_the_standards) {
  cr_assert_eq(nabla_f16_to_f32(0x7bff), 65504.0f);
  cr_assert_eq(nabla_f8e4m3_to_f32(0x7e), 448.0f);
  cr_assert_eq(nabla_f8e5m2_to_f32(0x7b), 57344.0f);
  cr_assert_eq(nabla_f8e4m3_to_f32(0x01), 0x1p-9f);
  cr_assert_eq(nabla_f8e5m2_to_f32(0x01), 0x1p-16f);
}

/* Nearest code by search over all of them; of two as near, the even one. */
static uint32_t nearest(const format *f, double magnitude) {
  uint32_t best = 0;
  for (uint32_t code = 1; code <= f->largest; code++) {
    const double was = fabs(meaning(f, best) - magnitude);
    const double is = fabs(meaning(f, code) - magnitude);
    if (is < was || (is == was && code % 2 == 0)) best = code;
  }
  return best;
}

Test(floats, f8_is_the_nearest_value_of_a_search) {
  for (size_t i = 2; i < FORMATS; i++) {
    const format *f = &formats[i];
    uint32_t bits = 0x12345;
    for (int n = 0; n < 200000; n++) {
      bits = bits * 1664525u + 1013904223u;
      /* Exponents from well below the least subnormal to above the largest. */
      const uint32_t exponent = 100 + (bits >> 26);
      const uint32_t pattern =
          (bits & 0x80000000u) | exponent << 23 | (bits >> 3 & 0x7fffffu);
      const float value = nabla_f32_of_bits(pattern);
      const uint32_t expected =
          nearest(f, fabs((double)value)) | (bits >> 31 ? f->codes : 0);
      cr_assert_eq(f->narrow(value), expected, "%s %a", f->name, (double)value);
    }
  }
}

#ifdef __FLT16_MAX__
Test(floats, f16_equals_the_compilers) {
  /* Odd, so that low bits vary: 13 million patterns of 2^32. */
  for (uint64_t wide = 0; wide <= UINT32_MAX; wide += 331) {
    const float value = nabla_f32_of_bits((uint32_t)wide);
    if (isnan(value)) continue;
    const _Float16 half = (_Float16)value;
    uint16_t expected;
    memcpy(&expected, &half, sizeof expected);
    if (nabla_f32_to_f16(value) != expected)
      cr_assert_fail("%a gives %x, not %x", (double)value,
                     nabla_f32_to_f16(value), expected);
  }
}
#endif

Test(floats, bf16_is_the_upper_half_rounded) {
  for (uint64_t wide = 0; wide <= UINT32_MAX; wide += 331) {
    const uint32_t bits = (uint32_t)wide;
    const uint32_t low = bits & 0xffff, high = bits >> 16;
    if (isnan(nabla_f32_of_bits(bits))) continue;
    const int up = low > 0x8000 || (low == 0x8000 && (high & 1));
    const uint32_t expected = high + (up ? 1 : 0);
    if (nabla_f32_to_bf16(nabla_f32_of_bits(bits)) != expected)
      cr_assert_fail("%08x gives %x, not %x", bits,
                     nabla_f32_to_bf16(nabla_f32_of_bits(bits)), expected);
  }
}
