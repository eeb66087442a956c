/* nabla/dynamic8.h against its definition (docs/FORMAT.md, E6, B5). */
#include "nabla/dynamic8.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { GROUP = NABLA_DYNAMIC8_BLOCK };

static float midpoint(size_t code) {
  const float *map = nabla_dynamic8_map();
  return (map[code] + map[code + 1]) * 0.5f;
}

static uint8_t count_below(float value) {
  uint8_t code = 0;
  for (size_t i = 0; i + 1 < NABLA_DYNAMIC8_CODES; i++)
    code = (uint8_t)(code + (value > midpoint(i)));
  return code;
}

Test(dynamic8, the_map_rises_and_is_bitsandbytes) {
  const float *map = nabla_dynamic8_map();
  for (size_t i = 0; i + 1 < NABLA_DYNAMIC8_CODES; i++)
    cr_assert_lt(map[i], map[i + 1], "%zu", i);
  cr_expect_eq(map[0], -0.99296875f);
  cr_expect_eq(map[126], -5.5e-7f);
  cr_expect_eq(map[127], 0);
  cr_expect_eq(map[128], 5.5e-7f);
  cr_expect_eq(map[254], 0.99296875f);
  cr_expect_eq(map[255], 1);
}

Test(dynamic8, codes_count_the_midpoints_below_around_each) {
  for (size_t m = 0; m + 1 < NABLA_DYNAMIC8_CODES; m++) {
    float scales[8] = {1}, absmax;
    uint8_t codes[8];
    float value = midpoint(m);
    for (int i = 0; i < 3; i++) value = nextafterf(value, -2);
    for (int i = 1; i < 8; i++, value = nextafterf(value, 2)) scales[i] = value;
    cr_assert(nabla_dynamic8_encode(scales, 8, 0, codes, &absmax));
    cr_assert_eq(absmax, 1);
    for (int i = 1; i < 8; i++)
      cr_assert_eq(codes[i], count_below(scales[i]), "%zu: %a", m, scales[i]);
  }
}

Test(dynamic8, groups_of_equal_and_tiny_scales) {
  float scales[GROUP + 3], absmax[2], back[GROUP + 3];
  uint8_t codes[GROUP + 3];
  for (int i = 0; i < GROUP; i++) scales[i] = 0.25f;
  scales[GROUP] = 0.25f + 0x1p-20f;
  scales[GROUP + 1] = 0.25f;
  scales[GROUP + 2] = 0.25f - 0x1p-20f;
  cr_assert(nabla_dynamic8_encode(scales, GROUP + 3, 0.25f, codes, absmax));
  for (int i = 0; i < GROUP; i++) cr_assert_eq(codes[i], 127);
  cr_expect_eq(absmax[0], 0);
  cr_expect_eq(absmax[1], 0x1p-20f);
  cr_expect_eq(codes[GROUP], 255);
  cr_expect_eq(codes[GROUP + 2], 0);
  nabla_dynamic8 how = {.offset = 0.25f, .block = GROUP};
  memcpy(how.map, nabla_dynamic8_map(), sizeof how.map);
  nabla_dynamic8_decode(&how, codes, absmax, 0, GROUP + 3, back);
  cr_expect_eq(back[0], 0.25f);
  cr_expect_eq(back[GROUP], scales[GROUP]);
  float part[2];
  nabla_dynamic8_decode(&how, codes + GROUP - 1, absmax, GROUP - 1, 2, part);
  cr_expect_arr_eq(part, back + GROUP - 1, sizeof part);
  const float tiny[2] = {0x1p-149f, -0x1p-149f};
  cr_assert(nabla_dynamic8_encode(tiny, 2, 0, codes, absmax));
  cr_expect_eq(codes[0], 255);
  cr_expect_eq(codes[1], 0);
}

Test(dynamic8, what_cannot_be_stored_is_said) {
  float absmax;
  uint8_t codes[2];
  const float infinite[2] = {1, INFINITY}, nan[2] = {NAN, 1};
  const float apart[2] = {FLT_MAX, -FLT_MAX};
  cr_expect_not(nabla_dynamic8_encode(infinite, 2, 0, codes, &absmax));
  cr_expect_not(nabla_dynamic8_encode(nan, 2, 0, codes, &absmax));
  cr_expect_not(nabla_dynamic8_encode(apart, 2, FLT_MAX, codes, &absmax));
  cr_expect(nabla_dynamic8_encode(apart, 2, 0, codes, &absmax));
}

Test(dynamic8, the_sum_does_not_depend_on_the_pieces) {
  enum { COUNT = 9 * NABLA_DYNAMIC8_CHUNK + 77 };
  static float scales[COUNT];
  uint32_t state = 1;
  for (int i = 0; i < COUNT; i++) {
    state = state * 1664525u + 1013904223u;
    scales[i] = (float)state * (state % 7 ? 1e-9f : 1e20f);
  }
  double expected = 0;
  for (int at = 0; at < COUNT; at += NABLA_DYNAMIC8_CHUNK) {
    double part = 0;
    for (int i = at; i < COUNT && i < at + NABLA_DYNAMIC8_CHUNK; i++)
      part += (double)scales[i];
    expected += part;
  }
  cr_expect_eq(nabla_dynamic8_add(0, scales, COUNT), expected);
  double sum = nabla_dynamic8_add(0, scales, NABLA_DYNAMIC8_CHUNK);
  sum = nabla_dynamic8_add(sum, scales + NABLA_DYNAMIC8_CHUNK,
                           COUNT - NABLA_DYNAMIC8_CHUNK);
  cr_expect_eq(sum, expected);
  cr_expect_eq(nabla_dynamic8_offset(expected, COUNT),
               (float)(expected / (double)COUNT));
  cr_expect_eq(nabla_dynamic8_offset(0, 0), 0);
}
