/* Slices of generated cases: each case is in exactly one of ten. */
#include "tests/support/slice.h"

#include <criterion/criterion.h>

Test(slice, each_case_is_in_one_of_ten) {
  for (uint64_t index = 0; index < 1000; index++) {
    unsigned slices = 0;
    for (char digit = '0'; digit <= '9'; digit++) {
      test_slice slice;
      cr_assert(test_slice_parse((char[]){digit, 0}, &slice));
      slices += test_slice_has(slice, index);
    }
    cr_assert_eq(slices, 1, "case %u is in %u slices", (unsigned)index, slices);
  }
}

Test(slice, all_has_every_case) {
  const char *names[] = {NULL, "", "all"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    test_slice slice;
    cr_assert(test_slice_parse(names[i], &slice));
    for (uint64_t index = 0; index < 100; index++)
      cr_assert(test_slice_has(slice, index));
  }
}

Test(slice, others_are_refused) {
  const char *names[] = {"10", "-1", " 1", "1 ", "01", "x", "ALL", "3.0"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    test_slice slice = {.parts = 77};
    cr_expect_not(test_slice_parse(names[i], &slice), "%s", names[i]);
    cr_expect_eq(slice.parts, 77);
  }
}
