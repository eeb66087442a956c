/* nabla/here.h: what a program that is compiled without NDEBUG gets from a
 * library that is compiled with it: file and line of failures, and an error
 * where an array is used after its release. */
#undef NDEBUG
#include "nabla/here.h"

#include <stdio.h>
#include <string.h>

#include "nabla/dlpack.h"
#include "nabla/function.h"
#include "nabla/operation.h"
#include "tests/support/array_scope.h"

TestSuite(here, .init = set_up, .fini = tear_down, .timeout = 300);

static nabla_array *ones(int64_t size) {
  return nabla_ones(scope, NABLA_DTYPE_F32, NABLA_DIMS(size));
}

/* Whether the failure, which is forgotten, is of this file and line. */
static void expect_line(int line) {
  char place[300];
  (void)snprintf(place, sizeof place, "%s:%d", __FILE__, line);
  cr_expect_neq(nabla_scope_status(scope, &diag), NABLA_OK, "line %d", line);
  cr_expect_str_eq(diag.file, place, "%s: %s", diag.what, diag.file);
  nabla_scope_clear(scope);
}

Test(here, the_line_of_the_first_failure) {
  nabla_array *x = ones(2), *y = ones(3);
  const int line = __LINE__ + 1;
  nabla_array *sum = nabla_add(x, y);
  cr_expect_null(nabla_mul(sum, x));
  cr_expect_null(nabla_sub(y, x));
  expect_line(line);
}

Test(here, of_nested_calls) {
  nabla_array *x = ones(2), *y = ones(3);
  const int line = __LINE__ + 1;
  cr_expect_null(nabla_exp(nabla_neg(nabla_matmul(nabla_neg(x), y))));
  expect_line(line);
}

Test(here, of_calls_that_give_no_array) {
  nabla_array *x = ones(4), *pieces[3];
  nabla_dense value;
  const int line = __LINE__ + 1;
  nabla_chunk(x, 0, 3, pieces);
  expect_line(line);
  nabla_array *none = NULL;
  cr_expect_neq(nabla_realize(scope, 1, &none, &diag), NABLA_OK);
  expect_line(__LINE__ - 1);
  cr_expect_null(nabla_full(scope, NABLA_DTYPE_F32, NABLA_DIMS(-2), 1));
  expect_line(__LINE__ - 1);
  cr_expect_null(nabla_array_from_dlpack(scope, NULL));
  expect_line(__LINE__ - 1);
  cr_expect_null(nabla_apply(NULL, 0, NULL, NULL));
  expect_line(__LINE__ - 1);
  cr_expect_eq(nabla_array_read(x, &value, &diag), NABLA_OK);
}

/* A call without the macro has program and offset, which no later call
 * replaces. */
Test(here, calls_of_other_files_keep_theirs) {
  nabla_array *x = ones(2), *y = ones(3);
  cr_expect_null((nabla_add)(x, y));
  cr_expect_null(nabla_exp(NULL));
  cr_expect_neq(nabla_scope_status(scope, &diag), NABLA_OK);
  cr_expect(strstr(diag.file, "+0x"), "%s", diag.file);
  nabla_scope_clear(scope);
  cr_expect_null(NABLA_HERE((nabla_add)(x, y)));
  expect_line(__LINE__ - 1);
}

Test(here, scopes_hand_the_place_outwards) {
  nabla_scope *inner;
  cr_assert_eq(nabla_scope_create(engine, &inner, &diag), NABLA_OK);
  cr_expect_null(nabla_sum(ones(2), NABLA_DIMS(7), 0));
  const int line = __LINE__ - 1;
  nabla_scope_end(inner);
  cr_expect_null(nabla_exp(NULL));
  expect_line(line);
}

static int read_line;

static void reads(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  nabla_dense value;
  (void)s, (void)self;
  out->array = nabla_neg(in->array);
  read_line = __LINE__ + 1;
  cr_expect_neq(nabla_array_read(out->array, &value, NULL), NABLA_OK);
}

Test(here, the_line_that_reads_within_a_trace) {
  nabla_function *function;
  const nabla_tree in = nabla_tree_of_array(ones(2));
  nabla_tree out = nabla_tree_of_array(NULL);
  cr_assert_eq(nabla_function_create(engine, reads, NULL, &function, &diag),
               NABLA_OK);
  cr_expect_neq(nabla_function_call(function, &in, &out, &diag), NABLA_OK);
  expect_line(read_line);
  nabla_function_destroy(function);
}

/* ---- use after release ---- */

static void expect_released(int line) {
  (void)nabla_scope_status(scope, &diag);
  cr_expect(strstr(diag.what, "use after release"), "%s", diag.what);
  expect_line(line);
}

Test(here, use_after_release) {
  nabla_array *x = ones(2), *y = ones(2);
  nabla_dense value;
  nabla_release(x);
  cr_expect_null(nabla_add(x, y));
  expect_released(__LINE__ - 1);
  cr_expect_null(nabla_retain(x));
  expect_released(__LINE__ - 1);
  nabla_release(x);
  expect_released(__LINE__ - 1);
  cr_expect_null(nabla_keep(x, scope));
  expect_released(__LINE__ - 1);
  cr_expect_neq(nabla_realize(scope, 1, &x, &diag), NABLA_OK);
  expect_released(__LINE__ - 1);
  cr_expect_neq(nabla_array_read(x, &value, &diag), NABLA_OK);
  cr_expect(strstr(diag.what, "use after release"), "%s", diag.what);
  cr_expect_null(nabla_array_dense(x)->data);
  cr_expect_eq(nabla_array_read(y, &value, &diag), NABLA_OK);
}

/* x is needed by a pending array, and no longer the user's. */
Test(here, use_after_release_of_what_is_needed) {
  nabla_array *x = ones(2), *y = nabla_neg(x);
  nabla_dense value;
  nabla_release(x);
  cr_expect_null(nabla_add(x, y));
  expect_released(__LINE__ - 1);
  nabla_release(x);
  expect_released(__LINE__ - 1);
  cr_expect_eq(nabla_array_read(y, &value, &diag), NABLA_OK);
  cr_expect_eq(((const float *)value.data)[1], -1);
}

Test(here, use_after_the_scope) {
  nabla_scope *inner;
  cr_assert_eq(nabla_scope_create(engine, &inner, &diag), NABLA_OK);
  nabla_array *x = nabla_scalar(inner, 2);
  nabla_array *kept = nabla_retain(nabla_neg(x));
  cr_assert_eq(nabla_realize(inner, 1, &kept, &diag), NABLA_OK);
  nabla_scope_end(inner);
  cr_expect_null(nabla_exp(x));
  expect_released(__LINE__ - 1);
  cr_expect_not_null(nabla_exp(kept));
  nabla_release(kept);
}

Test(here, arguments_of_functions_after_release) {
  nabla_function *function;
  nabla_array *x = ones(2);
  const nabla_tree in = nabla_tree_of_array(x);
  nabla_tree out = nabla_tree_of_array(NULL);
  cr_assert_eq(nabla_function_create(engine, reads, NULL, &function, &diag),
               NABLA_OK);
  nabla_release(x);
  cr_expect_neq(nabla_function_call(function, &in, &out, &diag), NABLA_OK);
  cr_expect(strstr(diag.what, "use after release"), "%s", diag.what);
  nabla_function_destroy(function);
}

/* As many as are kept, and more; an array that outlives its engine. */
Test(here, old_arrays_are_freed) {
  nabla_scope *inner;
  nabla_array *kept = nabla_retain(ones(2));
  cr_assert_eq(nabla_realize(scope, 1, &kept, &diag), NABLA_OK);
  for (int i = 0; i < 25; i++) {
    cr_assert_eq(nabla_scope_create(engine, &inner, &diag), NABLA_OK);
    for (int k = 0; k < 1000; k++) cr_assert_not_null(nabla_scalar(inner, k));
    nabla_scope_end(inner);
  }
  tear_down();
  cr_expect_eq(((const float *)nabla_array_dense(kept)->data)[0], 1);
  nabla_release(kept);
  set_up();
}
