/* A test that a function passes with each of its allocations failing once. */
#ifndef NABLA_TESTS_EACH_ALLOCATION_H
#define NABLA_TESTS_EACH_ALLOCATION_H

#include <criterion/criterion.h>

#include "nabla/status.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/figure.h"

/* Calls `run` with an allocator that works, then with ones whose first, second,
 * ... request fails, until a call makes fewer requests: each returns
 * NABLA_NO_MEMORY, or NABLA_OK (at most a quarter do: the object cache goes on
 * without), and frees all that it allocated. */
static inline void fail_each_allocation(
    nabla_status (*run)(const nabla_allocator *allocator)) {
  static failing_allocator failing;
  cr_assert_eq(run(nabla_allocator_default()), NABLA_OK);
  size_t at = 1, survived = 0;
  for (;; at++) {
    failing_allocator_init(&failing, at);
    const nabla_status status = run(&failing.allocator);
    const size_t failures = failing.failures;
    cr_assert(failing_allocator_is_clean(&failing), "request %zu", at);
    if (!failures) {
      cr_assert_eq(status, NABLA_OK);
      break;
    }
    survived += status == NABLA_OK;
    cr_expect(status == NABLA_OK || status == NABLA_NO_MEMORY,
              "request %zu: %d", at, (int)status);
  }
  cr_expect_gt(at, 100);
  cr_expect_lt(survived, at / 4);
  figure_print("requests", "", at);
}

#endif
