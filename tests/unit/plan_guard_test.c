/* Checks of planned memory: what they find, and what they let pass. */
#include "lib/runtime/session/plan_guard.h"

#include <criterion/criterion.h>
#include <string.h>

#include "lib/runtime/session/run_context.h"
#include "tests/support/failing_allocator.h"

#define PAGE 4096

static _Alignas(64) uint8_t memory[PAGE];
static failing_allocator allocator;
static nabla_plan_guard guard;

static void set_up(void) { failing_allocator_init(&allocator, 0); }

static void tear_down(void) {
  nabla_plan_guard_deinit(&guard, &allocator.allocator);
  cr_expect(failing_allocator_is_clean(&allocator));
}

TestSuite(plan_guard, .init = set_up, .fini = tear_down);

static int begin(size_t at, uint64_t bytes) {
  return nabla_plan_guard_begin(&guard, &allocator.allocator, memory + at,
                                bytes);
}

static int end(size_t at) { return nabla_plan_guard_end(&guard, memory + at); }

Test(plan_guard, parts_beside_and_after_each_other_are_good) {
  cr_expect(begin(0, 128));
  cr_expect(begin(128, 64));
  cr_expect(end(0));
  cr_expect(begin(64, 64));
  cr_expect(begin(0, 64));
  cr_expect(end(128) && end(64) && end(0));
}

Test(plan_guard, overlap_is_found) {
  cr_expect(begin(128, 128));
  cr_expect_not(begin(192, 256));
  cr_expect_not(begin(64, 128));
  cr_expect_not(begin(0, 1024));
  cr_expect_not(begin(128, 64));
  cr_expect_not(begin(64, 64 | NABLA_PART_HAS_RED_ZONE));
  cr_expect(begin(256, 64));
}

Test(plan_guard, a_function_places_parts_in_that_of_its_call) {
  cr_expect(begin(128, 256 | NABLA_PART_IS_OF_CALL));
  cr_expect(begin(128, 64));
  cr_expect(begin(192, 192));
  cr_expect_not(begin(256, 64));
  cr_expect(end(128) && end(192));
  cr_expect_not(begin(320, 128));
  cr_expect(end(128));
}

Test(plan_guard, writes_past_the_end_are_found) {
  cr_expect(begin(0, 64 | NABLA_PART_HAS_RED_ZONE));
  cr_expect(begin(128, 64 | NABLA_PART_HAS_RED_ZONE));
  memset(memory, 1, 64);
  cr_expect(end(0));
  memset(memory + 128, 1, 65);
  cr_expect_not(end(128));
}

Test(plan_guard, memory_holds_nans_before_and_after) {
  float value;
  cr_expect(begin(0, 64));
  memcpy(&value, memory + 4, sizeof value);
  cr_expect(value != value);
  memset(memory, 0, 64);
  cr_expect(end(0));
#if !defined(__SANITIZE_ADDRESS__) /* which refuses to read it */
  memcpy(&value, memory + 4, sizeof value);
  cr_expect(value != value);
#endif
}

Test(plan_guard, without_memory_nothing_is_checked) {
  allocator.fail_at = 1;
  cr_expect(begin(0, 64));
  cr_expect(end(0));
}

Test(plan_guard, a_run_ends_with_an_error) {
  for (int is_on = 0; is_on < 2; is_on++) {
    const nabla_environment environment = {.allocator = &allocator.allocator};
    nabla_run_arena arena = {0};
    nabla_run_context context;
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_run_context_begin(&context, &environment, &arena);
    nabla_run_context_guard(&context, is_on);
    const nabla_services *services = &context.services;
    if (!is_on) {
      cr_expect_null(services->part_begin);
    } else {
      services->part_begin(services, memory, 128);
      cr_expect_eq(nabla_run_context_status(&context, &diag), NABLA_OK);
      services->part_begin(services, memory + 64, 64);
      cr_expect_eq(nabla_run_context_status(&context, &diag), NABLA_CORRUPT);
      cr_expect(strstr(diag.what, "planned arrays overlap") != NULL, "%s",
                diag.what);
    }
    nabla_run_context_end(&context);
    nabla_run_arena_clear(&arena, &allocator.allocator);
  }
}
