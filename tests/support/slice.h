/* Slices of generated cases: NABLA_TEST_SLICE names which tenth of them runs.
 * tests/execution/harness.py has the same rule for tests in Python. */
#ifndef NABLA_TESTS_SLICE_H
#define NABLA_TESTS_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#define TEST_SLICES 10u

typedef struct test_slice {
  unsigned parts;  /* TEST_SLICES, or 1: all cases run */
  unsigned number; /* below parts */
} test_slice;

/* Reads "0" to "9", or NULL, "" and "all" for all cases; false for others. */
bool test_slice_parse(const char *text, test_slice *out);

/* Reads NABLA_TEST_SLICE; a value that names no slice ends the process. */
test_slice test_slice_get(void);

/* Whether the case with this number is in the slice. */
bool test_slice_has(test_slice slice, uint64_t index);

#endif
