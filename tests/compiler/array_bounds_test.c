/* nabla/array.h: memory and programs stay within bounds, however long a program
 * runs. */
#define NABLA_NO_HERE /* debug engines keep freed arrays */

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/array_scope.h"

TestSuite(array_bounds, .init = set_up, .fini = tear_down, .timeout = 7200);

static nabla_array *vector(void) {
  static float values[16] = {1, 2, 3};
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 1, {16}};
  return nabla_array_of(scope, &dense);
}

static size_t bytes_in_use(void) {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/* A training step: a scope within a scope, of which one array is kept. */
static nabla_array *step(nabla_array *w, nabla_array *x, int i) {
  nabla_scope *outer, *inner;
  cr_assert_eq(nabla_scope_create(engine, &outer, &diag), NABLA_OK);
  cr_assert_eq(nabla_scope_create(engine, &inner, &diag), NABLA_OK);
  nabla_array *rate = nabla_scalar(inner, 1.0 / (i + 1));
  nabla_array *error = nabla_sub(w, x);
  nabla_array *next = nabla_sub(w, nabla_mul(error, rate));
  cr_assert_eq(nabla_realize(inner, 1, &next, &diag), NABLA_OK, "%s",
               diag.what);
  nabla_array *kept = nabla_keep(nabla_keep(next, outer), scope);
  nabla_scope_end(inner);
  nabla_scope_end(outer);
  cr_assert_not_null(kept);
  nabla_release(w);
  return kept;
}

Test(array_bounds, a_hundred_thousand_steps_in_nested_scopes) {
  nabla_array *x = vector(), *w = vector();
  for (int i = 0; i < 1000; i++) w = step(w, x, i);
  const size_t before = bytes_in_use();
  for (int i = 0; i < 100000; i++) w = step(w, x, i);
  const size_t after = bytes_in_use();
  cr_expect_leq(after, before + 4096, "%zu bytes, then %zu", before, after);
  nabla_engine_statistics counts = {.struct_size = sizeof counts};
  cr_assert_eq(nabla_engine_count(engine, &counts, &diag), NABLA_OK);
  cr_expect_eq(counts.programs, 1);
  cr_expect_eq(counts.misses, 1);
}

/* Graphs of i + 1 operations whose kinds are the bits of i.
 * NABLA_TEST_SLICE=all makes 10,000 of them. */
static nabla_array *graph(nabla_array *x, unsigned i) {
  for (unsigned bit = 0; bit < 14; bit++)
    x = i >> bit & 1 ? nabla_add(x, x) : nabla_mul(x, x);
  return x;
}

Test(array_bounds, different_graphs_stay_within_the_bound) {
  const char *slice = getenv("NABLA_TEST_SLICE");
  const unsigned count = slice && !strcmp(slice, "all") ? 10000 : 40;
  const size_t most = count == 40 ? 8 : 100;
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = ""};
  const nabla_engine_options options = {.struct_size = sizeof options,
                                        .compiler = &compiler,
                                        .max_programs = most};
  nabla_engine_statistics counts = {.struct_size = sizeof counts};
  tear_down();
  cr_assert_eq(nabla_engine_create(&options, NULL, &engine, &diag), NABLA_OK);
  cr_assert_eq(nabla_scope_create(engine, &scope, &diag), NABLA_OK);
  nabla_array *x = vector();
  uint64_t bytes = 0;
  for (unsigned i = 0; i < count; i++) {
    nabla_scope *inner;
    cr_assert_eq(nabla_scope_create(engine, &inner, &diag), NABLA_OK);
    nabla_array *y = graph(x, i);
    cr_assert_eq(nabla_realize(inner, 1, &y, &diag), NABLA_OK, "%s", diag.what);
    nabla_scope_end(inner);
    cr_assert_eq(nabla_engine_count(engine, &counts, &diag), NABLA_OK);
    cr_assert_leq(counts.programs, most);
    if (i + 1 == most) bytes = counts.bytes;
  }
  cr_expect_eq(counts.misses, count);
  cr_expect_eq(counts.evictions, count - most);
  cr_expect_leq(counts.bytes, 2 * bytes);
}
