/* Spans of memory: what overlaps, beside each compared with each, and thousands
 * of them in a moment. */
#include "lib/runtime/session/run_spans.h"

#include <criterion/criterion.h>

#define MOST 24

static uint64_t next(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

static int overlap(const nabla_run_span *a, const nabla_run_span *b) {
  return a->begin < b->end && b->begin < a->end;
}

static void check(const nabla_run_spans *spans, const nabla_run_span *asked) {
  int any = 0;
  for (size_t i = 0; i < spans->count; i++) {
    int other = 0;
    any |= overlap(&spans->at[i], asked);
    for (size_t k = 0; k < spans->count; k++)
      other |= k != i && overlap(&spans->at[i], &spans->at[k]);
    cr_assert_eq(nabla_run_spans_overlap_other(spans, i), other);
    cr_assert(i == 0 || spans->at[i - 1].begin <= spans->at[i].begin);
  }
  /* NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is read there */
  const void *data = (const void *)asked->begin;
  cr_assert_eq(nabla_run_spans_overlap(spans, data, asked->end - asked->begin),
               any);
}

Test(run_spans, equal_each_compared_with_each) {
  uint64_t seed = 7;
  for (int round = 0; round < 20000; round++) {
    nabla_run_span room[MOST + 1];
    nabla_run_spans spans = {room, 0}, asked = {room + MOST, 0};
    const size_t wanted = next(&seed) % MOST;
    const uint64_t range = 1 + next(&seed) % 200;
    for (size_t i = 0; i < wanted; i++) {
      /* NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is read there */
      const void *data = (const void *)(uintptr_t)(64 + next(&seed) % range);
      nabla_run_spans_add(&spans, data, next(&seed) % 12, i);
    }
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is read there */
    const void *data = (const void *)(uintptr_t)(64 + next(&seed) % range);
    nabla_run_spans_add(&asked, data, 1 + next(&seed) % 12, 0);
    nabla_run_spans_sort(&spans);
    check(&spans, &asked.at[0]);
  }
}

Test(run_spans, a_hundred_thousand_take_no_time, .timeout = 5) {
  enum { COUNT = 100000 };
  static nabla_run_span room[COUNT];
  static char memory[COUNT];
  nabla_run_spans spans = {room, 0};
  for (size_t i = 0; i < COUNT; i++)
    nabla_run_spans_add(&spans, &memory[i * 7919 % COUNT], 1, i);
  nabla_run_spans_sort(&spans);
  for (size_t i = 0; i < COUNT; i++) {
    cr_assert_eq(spans.at[i].begin, (uintptr_t)&memory[i]);
    cr_assert_not(nabla_run_spans_overlap_other(&spans, i));
  }
}
