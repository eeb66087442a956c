/* nabla/dynamic8.h against its definition (docs/FORMAT.md, E6, B5). */
#include "nabla/dynamic8.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "lib/base/bytes.h"

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

/* The bits of bitsandbytes 0.50.2's create_dynamic_map() from 0 up, with torch
 * 2.15 on CPUs with AVX2 and with AVX-512. */
Test(dynamic8, the_map_rises_and_is_bitsandbytes) {
  static const uint32_t from_zero[129] = {
      0x00000000, 0x3513a3b7, 0x365a1a94, 0x370205ff, 0x37b24206, 0x38378034,
      0x388aefb3, 0x38ba1f4b, 0x3923d70b, 0x398ce705, 0x39c7e283, 0x3a016f01,
      0x3a1eecc1, 0x3a3c6a80, 0x3a59e83e, 0x3a7765ff, 0x3aa7ef9d, 0x3af1a9fc,
      0x3b1db22d, 0x3b428f5c, 0x3b676c8a, 0x3b8624dd, 0x3b989374, 0x3bab020d,
      0x3bbd70a4, 0x3bcfdf3b, 0x3be24dd3, 0x3bf4bc6a, 0x3c039581, 0x3c0ccccd,
      0x3c160418, 0x3c1f3b64, 0x3c3ae148, 0x3c68f5c3, 0x3c8b851f, 0x3ca28f5d,
      0x3cb9999a, 0x3cd0a3d7, 0x3ce7ae15, 0x3cfeb852, 0x3d0ae148, 0x3d166667,
      0x3d21eb85, 0x3d2d70a3, 0x3d38f5c3, 0x3d447ae1, 0x3d500000, 0x3d5b851f,
      0x3d670a3d, 0x3d728f5d, 0x3d7e147b, 0x3d84cccd, 0x3d8a8f5d, 0x3d9051eb,
      0x3d96147b, 0x3d9bd70a, 0x3da1999a, 0x3da75c2a, 0x3dad1eb8, 0x3db2e148,
      0x3db8a3d7, 0x3dbe6667, 0x3dc428f7, 0x3dc9eb85, 0x3ddb3334, 0x3df80000,
      0x3e0a6666, 0x3e18cccd, 0x3e273333, 0x3e35999a, 0x3e440000, 0x3e526666,
      0x3e60cccd, 0x3e6f3333, 0x3e7d9999, 0x3e860000, 0x3e8d3334, 0x3e946666,
      0x3e9b999a, 0x3ea2cccc, 0x3eaa0000, 0x3eb13333, 0x3eb86666, 0x3ebf999a,
      0x3ec6cccc, 0x3ece0000, 0x3ed53333, 0x3edc6666, 0x3ee3999a, 0x3eeacccc,
      0x3ef20000, 0x3ef93332, 0x3f003333, 0x3f03cccc, 0x3f076666, 0x3f0b0000,
      0x3f0e999a, 0x3f123334, 0x3f15cccd, 0x3f196666, 0x3f1d0000, 0x3f20999a,
      0x3f243334, 0x3f27cccd, 0x3f2b6666, 0x3f2f0000, 0x3f32999a, 0x3f363334,
      0x3f39cccd, 0x3f3d6666, 0x3f410000, 0x3f44999a, 0x3f483333, 0x3f4bcccd,
      0x3f4f6666, 0x3f530000, 0x3f56999a, 0x3f5a3333, 0x3f5dcccd, 0x3f616666,
      0x3f650000, 0x3f68999a, 0x3f6c3333, 0x3f6fcccd, 0x3f736666, 0x3f770000,
      0x3f7a999a, 0x3f7e3333, 0x3f800000,
  };
  const float *map = nabla_dynamic8_map();
  for (size_t i = 0; i < 129; i++)
    cr_expect_eq(nabla_bits_of_f32(map[127 + i]), from_zero[i], "%zu", i);
  for (size_t i = 1; i < 128; i++) cr_expect_eq(map[127 - i], -map[127 + i]);
  for (size_t i = 0; i + 1 < NABLA_DYNAMIC8_CODES; i++)
    cr_assert_lt(map[i], map[i + 1], "%zu", i);
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
