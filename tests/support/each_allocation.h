/* A test that a function passes with each of its allocations failing once. */
#ifndef NABLA_TESTS_EACH_ALLOCATION_H
#define NABLA_TESTS_EACH_ALLOCATION_H

#include <criterion/criterion.h>

#include "nabla/array.h"
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

/* Makes an engine and a scope whose memory an allocator gives, with a cache of
 * objects in a folder. */
static inline nabla_status create_scope_of(const nabla_allocator *allocator,
                                           const char *cache,
                                           nabla_engine **engine,
                                           nabla_scope **scope,
                                           nabla_diag *diag) {
  const nabla_environment environment = {.allocator = allocator};
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = cache};
  const nabla_engine_options options = {.struct_size = sizeof options,
                                        .compiler = &compiler};
  const nabla_status status =
      nabla_engine_create(&options, &environment, engine, diag);
  return status ? status : nabla_scope_create(*engine, scope, diag);
}

#endif
