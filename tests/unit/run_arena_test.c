/* The arena of runs: what it keeps, gives again, counts and frees. */
#include "lib/runtime/session/run_arena.h"

#include <criterion/criterion.h>

#include "tests/support/failing_allocator.h"

static failing_allocator memory;
static nabla_run_arena arena;

static void set_up(void) {
  failing_allocator_init(&memory, 0);
  arena = (nabla_run_arena){0};
}

static void tear_down(void) {
  nabla_run_arena_clear(&arena, &memory.allocator);
  cr_expect_eq(arena.live_bytes, 0);
  cr_expect_eq(arena.kept_bytes, 0);
  cr_expect(failing_allocator_is_clean(&memory));
}

TestSuite(run_arena, .init = set_up, .fini = tear_down);

static void *get(uint64_t bytes) {
  unsigned char *out =
      nabla_run_arena_allocate(&arena, &memory.allocator, bytes);
  if (out && bytes) out[0] = out[bytes - 1] = 1;
  return out;
}

Test(run_arena, every_size_fits_its_class) {
  for (uint64_t bytes = 0; bytes < 5000; bytes++) {
    void *a = get(bytes);
    cr_assert_not_null(a);
    cr_assert_eq((uintptr_t)a % NABLA_SERVICES_ALIGNMENT, 0);
    cr_assert_geq(nabla_allocations_bytes(a), bytes);
    cr_assert_leq(nabla_allocations_bytes(a), 64 + bytes + bytes / 8);
    nabla_run_arena_release(&arena, &memory.allocator, a);
    nabla_run_arena_clear(&arena, &memory.allocator);
  }
}

Test(run_arena, sizes_that_nothing_has_are_refused) {
  const uint64_t sizes[] = {((uint64_t)1 << 62) + 1, UINT64_MAX,
                            (uint64_t)1 << 63};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    cr_expect_null(
        nabla_run_arena_allocate(&arena, &memory.allocator, sizes[i]));
}

Test(run_arena, released_blocks_serve_the_next_request) {
  void *a = get(1000), *b = get(1000), *c = get(70000);
  cr_expect_neq(a, b);
  cr_expect_geq(arena.peak_bytes, 72000);
  nabla_run_arena_release(&arena, &memory.allocator, a);
  nabla_run_arena_release(&arena, &memory.allocator, c);
  const size_t requests = memory.requests;
  cr_expect_eq(get(1001), a);
  cr_expect_eq(get(69999), c);
  cr_expect_eq(memory.requests, requests);
}

Test(run_arena, the_end_of_a_run_keeps_all) {
  void *a = get(100), *b = get(200);
  nabla_run_arena_end_run(&arena, &memory.allocator);
  cr_expect_eq(arena.live_bytes, 0);
  cr_expect_eq(get(200), b);
  cr_expect_eq(get(100), a);
}

Test(run_arena, a_taken_block_is_the_callers) {
  void *a = get(100);
  nabla_run_arena_take(&arena, a);
  nabla_run_arena_clear(&arena, &memory.allocator);
  nabla_allocations_free(NULL, &memory.allocator, a);
}

Test(run_arena, blocks_that_no_run_uses_are_freed) {
  (void)get(100000);
  nabla_run_arena_end_run(&arena, &memory.allocator);
  for (int i = 0; i < 3 * (int)NABLA_RUN_ARENA_IDLE_RUNS; i++) {
    (void)get(100);
    nabla_run_arena_end_run(&arena, &memory.allocator);
  }
  cr_expect_eq(memory.live_blocks, 1);
}

Test(run_arena, kept_blocks_make_room) {
  nabla_run_arena_release(&arena, &memory.allocator, get(1000));
  memory.fail_at = memory.requests + 1;
  cr_expect_not_null(get(5000));
  cr_expect_eq(memory.failures, 1);
  cr_expect_eq(arena.kept_bytes, 0);
}
