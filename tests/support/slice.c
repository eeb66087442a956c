#include "tests/support/slice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool test_slice_parse(const char *text, test_slice *out) {
  if (!text || !*text || !strcmp(text, "all")) {
    *out = (test_slice){.parts = 1, .number = 0};
    return true;
  }
  if (text[0] < '0' || text[0] > '9' || text[1]) return false;
  *out = (test_slice){.parts = TEST_SLICES, .number = (unsigned)(*text - '0')};
  return true;
}

test_slice test_slice_get(void) {
  const char *text = getenv("NABLA_TEST_SLICE");
  test_slice slice;
  if (!test_slice_parse(text, &slice)) {
    (void)fprintf(stderr,
                  "NABLA_TEST_SLICE=%s is no slice: one of 0 to 9, or all\n",
                  text);
    exit(2);
  }
  return slice;
}

bool test_slice_has(test_slice slice, uint64_t index) {
  return index % slice.parts == slice.number;
}
