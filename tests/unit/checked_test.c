/* Checked arithmetic at and around every limit. */
#include "lib/base/checked.h"

#include <criterion/criterion.h>

#define KEPT 12345 /* what an output holds before a call that must fail */

Test(checked, mul_u64) {
  uint64_t out = KEPT;
  cr_assert_not(nabla_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
  cr_assert_not(nabla_mul_u64(UINT64_MAX, 2, &out));
  cr_assert_eq(out, KEPT);
  cr_assert(nabla_mul_u64(UINT64_MAX, 1, &out));
  cr_assert_eq(out, UINT64_MAX);
  cr_assert(
      nabla_mul_u64((UINT64_C(1) << 32) - 1, (UINT64_C(1) << 32) + 1, &out));
  cr_assert_eq(out, UINT64_MAX);
  cr_assert(nabla_mul_u64(0, UINT64_MAX, &out));
  cr_assert_eq(out, 0);
}

Test(checked, add_u64) {
  uint64_t out = KEPT;
  cr_assert_not(nabla_add_u64(UINT64_MAX, 1, &out));
  cr_assert_not(nabla_add_u64(UINT64_MAX, UINT64_MAX, &out));
  cr_assert_eq(out, KEPT);
  cr_assert(nabla_add_u64(UINT64_MAX - 1, 1, &out));
  cr_assert_eq(out, UINT64_MAX);
}

Test(checked, sub_u64) {
  uint64_t out = KEPT;
  cr_assert_not(nabla_sub_u64(0, 1, &out));
  cr_assert_not(nabla_sub_u64(UINT64_MAX - 1, UINT64_MAX, &out));
  cr_assert_eq(out, KEPT);
  cr_assert(nabla_sub_u64(7, 7, &out));
  cr_assert_eq(out, 0);
  cr_assert(nabla_sub_u64(UINT64_MAX, 1, &out));
  cr_assert_eq(out, UINT64_MAX - 1);
}

Test(checked, align_u64) {
  uint64_t out = KEPT;
  cr_assert_not(nabla_align_u64(UINT64_MAX, 2, &out));
  cr_assert_not(nabla_align_u64(UINT64_MAX - 62, 64, &out));
  cr_assert_eq(out, KEPT);
  cr_assert(nabla_align_u64(UINT64_MAX - 63, 64, &out));
  cr_assert_eq(out, UINT64_MAX - 63);
  for (uint64_t alignment = 1; alignment <= 4096; alignment *= 2)
    for (uint64_t value = 0; value < 3 * alignment; value++) {
      cr_assert(nabla_align_u64(value, alignment, &out));
      cr_assert(out >= value && out - value < alignment);
      cr_assert_eq(out % alignment, 0);
    }
}

Test(checked, sizes) {
  size_t out = KEPT;
  cr_assert_not(nabla_mul_size(SIZE_MAX / 2 + 1, 2, &out));
  cr_assert_not(nabla_add_size(SIZE_MAX, 1, &out));
  cr_assert_eq(out, KEPT);
  cr_assert(nabla_mul_size(SIZE_MAX / 3, 3, &out));
  cr_assert_eq(out, SIZE_MAX / 3 * 3);
  cr_assert(nabla_add_size(SIZE_MAX - 1, 1, &out));
  cr_assert_eq(out, SIZE_MAX);
  cr_assert(nabla_cast_size(SIZE_MAX, &out));
  cr_assert_eq(out, SIZE_MAX);
}

Test(checked, ceil_div) {
  cr_assert_eq(nabla_ceil_div_u64(0, 8), 0);
  cr_assert_eq(nabla_ceil_div_u64(1, 8), 1);
  cr_assert_eq(nabla_ceil_div_u64(8, 8), 1);
  cr_assert_eq(nabla_ceil_div_u64(9, 8), 2);
  cr_assert_eq(nabla_ceil_div_u64(UINT64_MAX, 1), UINT64_MAX);
  cr_assert_eq(nabla_ceil_div_u64(UINT64_MAX, 2), UINT64_C(1) << 63);
}
