/* Little-endian bytes, and a cursor that stays inside its span. */
#include "lib/base/bytes.h"

#include <criterion/criterion.h>

static const uint8_t sample[] = {0xff, 0x01, 0x82, 0x03, 0x84,
                                 0x05, 0x86, 0x07, 0x88};

Test(bytes, loads_are_little_endian_and_unaligned) {
  cr_assert_eq(nabla_load_le16(sample + 1), 0x8201);
  cr_assert_eq(nabla_load_le32(sample + 1), 0x84038201u);
  cr_assert_eq(nabla_load_le64(sample + 1), UINT64_C(0x8807860584038201));
}

Test(bytes, stores_are_little_endian_and_stay_inside) {
  uint8_t out[11];
  memset(out, 0xee, sizeof out);
  nabla_store_le32(out + 1, 0x84038201u);
  cr_assert_eq(memcmp(out, "\xee\x01\x82\x03\x84\xee", 6), 0);
  nabla_store_le64(out + 1, UINT64_C(0x8807860584038201));
  cr_assert_eq(memcmp(out + 1, sample + 1, 8), 0);
  cr_assert_eq(out[0], 0xee);
  cr_assert_eq(out[9], 0xee);
}

Test(bytes, f32_bits) {
  cr_assert_eq(nabla_bits_of_f32(-2.0f), 0xc0000000u);
  cr_assert_eq(nabla_f32_of_bits(0x3fc00000u), 1.5f);
}

Test(bytes, the_cursor_takes_what_is_there) {
  nabla_cursor cursor = {sample, sizeof sample, 0};
  uint32_t word;
  const uint8_t *rest;
  cr_assert(nabla_cursor_take_u32(&cursor, &word));
  cr_assert_eq(word, 0x038201ffu);
  cr_assert_eq(nabla_cursor_left(&cursor), 5);
  cr_assert(nabla_cursor_take(&cursor, 5, &rest));
  cr_assert_eq(rest, sample + 4);
  cr_assert_eq(nabla_cursor_left(&cursor), 0);
  cr_assert(nabla_cursor_take(&cursor, 0, &rest));
}

Test(bytes, the_cursor_refuses_more_and_stays) {
  nabla_cursor cursor = {sample, sizeof sample, 2};
  uint64_t wide = 5;
  uint32_t word = 5;
  const uint8_t *rest = NULL;
  cr_assert_not(nabla_cursor_take_u64(&cursor, &wide));
  cr_assert_not(nabla_cursor_take(&cursor, 8, &rest));
  cr_assert_not(nabla_cursor_take(&cursor, SIZE_MAX, &rest));
  cr_assert_eq(cursor.at, 2);
  cr_assert_eq(wide, 5);
  cr_assert_null(rest);
  cursor.at = sizeof sample - 3;
  cr_assert_not(nabla_cursor_take_u32(&cursor, &word));
  cr_assert_eq(word, 5);
  cursor.at = 1;
  cr_assert(nabla_cursor_take_u64(&cursor, &wide));
  cr_assert_eq(wide, UINT64_C(0x8807860584038201));
}
