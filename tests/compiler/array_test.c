/* nabla/array.h: graphs and their programs, references, scopes, failures. */
#include "nabla/array.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/array_scope.h"

TestSuite(array, .init = set_up, .fini = tear_down, .timeout = 300);

static nabla_array *vector(float a, float b, float c) {
  const float data[3] = {a, b, c};
  const nabla_dense dense = {(void *)data, NABLA_DTYPE_F32, 1, {3}};
  return nabla_array_of(scope, &dense);
}

static void expect_values(nabla_array *array, size_t count, const float *want) {
  nabla_dense out = {0};
  cr_assert_eq(nabla_array_read(array, &out, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(out.dtype, NABLA_DTYPE_F32);
  for (size_t i = 0; i < count; i++)
    cr_expect_eq(((const float *)out.data)[i], want[i], "[%zu]: %g, not %g", i,
                 (double)((const float *)out.data)[i], (double)want[i]);
}

static void expect(nabla_array *array, float a, float b, float c) {
  const float want[3] = {a, b, c};
  expect_values(array, 3, want);
}

static nabla_engine_statistics count(void) {
  nabla_engine_statistics out = {.struct_size = sizeof out};
  cr_assert_eq(nabla_engine_count(engine, &out, &diag), NABLA_OK);
  return out;
}

/* ---- graphs ---- */

Test(array, x_minus_x_is_not_x_minus_y) {
  nabla_array *x = vector(1, 2, 3), *y = vector(5, 7, 9);
  expect(nabla_sub(x, x), 0, 0, 0);
  expect(nabla_sub(x, y), -4, -5, -6);
  expect(nabla_sub(y, x), 4, 5, 6);
  cr_expect_eq(count().misses, 2);
  cr_expect_eq(count().hits, 1);
}

Test(array, diamond) {
  nabla_array *x = vector(1, 2, 3);
  nabla_array *square = nabla_mul(x, x);
  expect(nabla_add(nabla_add(square, x), nabla_sub(square, x)), 2, 8, 18);
  cr_expect_eq(count().misses, 1);
}

Test(array, results_keep_their_order) {
  nabla_array *x = vector(1, 2, 3), *y = vector(4, 5, 6);
  nabla_array *sum = nabla_add(x, y), *product = nabla_mul(x, y);
  nabla_array *both[2] = {product, sum};
  cr_assert_eq(nabla_realize(scope, 2, both, &diag), NABLA_OK);
  expect(sum, 5, 7, 9);
  expect(product, 4, 10, 18);
  sum = nabla_add(x, y);
  product = nabla_mul(x, y);
  nabla_array *turned[3] = {sum, product, sum};
  cr_assert_eq(nabla_realize(scope, 3, turned, &diag), NABLA_OK);
  expect(sum, 5, 7, 9);
  expect(product, 4, 10, 18);
}

Test(array, other_data_hits) {
  for (int i = 0; i < 5; i++) {
    nabla_array *x = vector((float)i, 1, 2);
    nabla_array *rate = nabla_scalar(scope, i * 0.5);
    expect(nabla_mul(x, rate), (float)i * (float)i * 0.5f, (float)i * 0.5f,
           (float)i);
  }
  cr_expect_eq(count().misses, 1);
  cr_expect_eq(count().hits, 4);
}

Test(array, constants_are_part_of_the_program) {
  const float one[3] = {1, 1, 1}, two[3] = {2, 2, 2};
  const nabla_dense a = {(void *)one, NABLA_DTYPE_F32, 1, {3}},
                    b = {(void *)two, NABLA_DTYPE_F32, 1, {3}};
  nabla_array *x = vector(1, 2, 3);
  expect(nabla_add(x, nabla_constant(scope, &a)), 2, 3, 4);
  expect(nabla_add(x, nabla_constant(scope, &b)), 3, 4, 5);
  expect(nabla_add(x, nabla_constant(scope, &a)), 2, 3, 4);
  cr_expect_eq(count().misses, 2);
  cr_expect_eq(count().hits, 1);
}

Test(array, realized_arrays_are_leaves) {
  nabla_array *x = vector(1, 2, 3), *y = nabla_add(x, x);
  expect(y, 2, 4, 6);
  expect(nabla_add(y, y), 4, 8, 12); /* the same graph */
  cr_expect_eq(count().misses, 1);
  cr_expect_eq(count().hits, 1);
}

Test(array, deep_graphs) {
  nabla_array *x = vector(0, 1, 2), *one = vector(1, 1, 1);
  for (int i = 0; i < 200; i++) x = nabla_add(x, one);
  expect(x, 200, 201, 202);
  cr_expect_eq(count().misses, 1);
}

/* A user's reference makes an intermediate array a result; the scope's alone
 * does not: then reading it needs a program of its own. */
Test(array, held_arrays_are_results) {
  nabla_array *x = vector(1, 2, 3);
  nabla_array *held = nabla_retain(nabla_mul(x, x)), *other = nabla_add(x, x);
  expect(nabla_sub(held, other), -1, 0, 3);
  cr_expect_eq(count().misses, 1);
  cr_expect_not_null(nabla_array_dense(held)->data);
  cr_expect_null(nabla_array_dense(other)->data);
  expect(held, 1, 4, 9);
  cr_expect_eq(count().misses, 1);
  expect(other, 2, 4, 6);
  cr_expect_eq(count().misses, 2);
  nabla_release(held);
}

/* ---- dtypes and shapes ---- */

Test(array, broadcasting) {
  const float column[2] = {10, 20};
  const nabla_dense dense = {(void *)column, NABLA_DTYPE_F32, 2, {2, 1}};
  nabla_array *sum = nabla_add(nabla_array_of(scope, &dense), vector(1, 2, 3));
  const nabla_dense *type = nabla_array_dense(sum);
  cr_assert_not_null(type);
  cr_expect_eq(type->rank, 2);
  cr_expect_eq(type->shape[0], 2);
  cr_expect_eq(type->shape[1], 3);
  const float want[6] = {11, 12, 13, 21, 22, 23};
  expect_values(sum, 6, want);
}

static nabla_dtype dtype_of_sum(nabla_dtype a, nabla_dtype b) {
  static const uint64_t zero[2];
  const nabla_dense x = {(void *)zero, a, 1, {2}},
                    y = {(void *)zero, b, 1, {2}};
  nabla_array *sum =
      nabla_add(nabla_array_of(scope, &x), nabla_array_of(scope, &y));
  cr_assert_not_null(sum);
  return nabla_array_dense(sum)->dtype;
}

Test(array, dtypes_of_pairs) {
  cr_expect_eq(dtype_of_sum(NABLA_DTYPE_BF16, NABLA_DTYPE_F16),
               NABLA_DTYPE_F32);
  cr_expect_eq(dtype_of_sum(NABLA_DTYPE_I64, NABLA_DTYPE_F16), NABLA_DTYPE_F16);
  cr_expect_eq(dtype_of_sum(NABLA_DTYPE_I8, NABLA_DTYPE_U8), NABLA_DTYPE_I32);
  cr_expect_eq(dtype_of_sum(NABLA_DTYPE_BOOL, NABLA_DTYPE_I8), NABLA_DTYPE_I8);
  cr_expect_eq(dtype_of_sum(NABLA_DTYPE_F64, NABLA_DTYPE_F32), NABLA_DTYPE_F64);
}

Test(array, scalars_take_the_dtype_of_arrays) {
  const int32_t data[3] = {1, 2, 3};
  const nabla_dense dense = {(void *)data, NABLA_DTYPE_I32, 1, {3}};
  nabla_array *x = nabla_array_of(scope, &dense);
  nabla_array *y = nabla_mul(x, nabla_integer(scope, 2));
  cr_expect_eq(nabla_array_dense(y)->dtype, NABLA_DTYPE_I32);
  expect(nabla_mul(x, nabla_scalar(scope, 0.5)), 0.5f, 1, 1.5f);
  expect(nabla_div(x, nabla_integer(scope, 2)), 0.5f, 1, 1.5f);
  nabla_dense quotient;
  cr_assert_eq(nabla_array_read(nabla_quotient(x, nabla_integer(scope, 2)),
                                &quotient, &diag),
               NABLA_OK);
  const int32_t want[3] = {0, 1, 1};
  cr_expect_arr_eq(quotient.data, want, sizeof want);
}

Test(array, no_elements) {
  const nabla_dense dense = {NULL, NABLA_DTYPE_F32, 2, {0, 3}};
  nabla_array *y = nabla_add(nabla_array_of(scope, &dense), vector(1, 2, 3));
  nabla_dense out;
  cr_assert_eq(nabla_array_read(y, &out, &diag), NABLA_OK, "%s", diag.what);
  cr_expect_eq(out.shape[0], 0);
}

/* ---- references and scopes ---- */

Test(array, released_arrays_are_freed_with_their_users) {
  nabla_array *x = vector(1, 2, 3), *y = nabla_add(x, x);
  nabla_release(x);
  expect(y, 2, 4, 6);
}

Test(array, held_values_outlive_scope_and_program) {
  nabla_scope *inner;
  cr_assert_eq(nabla_scope_create(engine, &inner, &diag), NABLA_OK);
  nabla_array *x = vector(1, 2, 3);
  nabla_array *y = nabla_retain(nabla_add(x, x));
  cr_assert_eq(nabla_realize(inner, 1, &y, &diag), NABLA_OK);
  nabla_scope_end(inner);
  expect(y, 2, 4, 6);
  nabla_release(y);
}

Test(array, pending_arrays_are_lost_with_their_scope) {
  nabla_scope *inner;
  nabla_dense out;
  cr_assert_eq(nabla_scope_create(engine, &inner, &diag), NABLA_OK);
  nabla_array *x = vector(1, 2, 3), *y = nabla_retain(nabla_add(x, x));
  nabla_scope_end(inner);
  cr_expect_eq(nabla_array_read(y, &out, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "scope ended"), "%s", diag.what);
  cr_expect_null(nabla_add(y, x));
  nabla_release(y);
}

Test(array, kept_arrays_stay_pending) {
  nabla_scope *inner;
  cr_assert_eq(nabla_scope_create(engine, &inner, &diag), NABLA_OK);
  nabla_array *x = vector(1, 2, 3);
  nabla_array *y = nabla_keep(nabla_add(nabla_mul(x, x), x), scope);
  cr_assert_not_null(y);
  nabla_scope_end(inner);
  expect(y, 2, 6, 12);
  cr_expect_null(nabla_keep(NULL, scope));
}

Test(array, training_steps_in_nested_scopes) {
  nabla_array *w = vector(8, 16, 24);
  for (int i = 0; i < 100; i++) {
    nabla_scope *step;
    cr_assert_eq(nabla_scope_create(engine, &step, &diag), NABLA_OK);
    nabla_array *next = nabla_mul(w, nabla_scalar(step, i < 3 ? 0.5 : 1));
    cr_assert_eq(nabla_realize(step, 1, &next, &diag), NABLA_OK);
    nabla_keep(next, scope);
    nabla_scope_end(step);
    nabla_release(w);
    w = next;
  }
  expect(w, 1, 2, 3);
  cr_expect_eq(count().misses, 1);
}

Test(array, evicted_programs_are_compiled_anew) {
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = ""};
  const nabla_engine_options options = {
      .struct_size = sizeof options, .max_programs = 1, .compiler = &compiler};
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  cr_assert_eq(nabla_engine_create(&options, NULL, &engine, &diag), NABLA_OK);
  cr_assert_eq(nabla_scope_create(engine, &scope, &diag), NABLA_OK);
  nabla_array *x = vector(1, 2, 3);
  nabla_array *first = nabla_add(x, x);
  expect(first, 2, 4, 6);
  expect(nabla_mul(x, x), 1, 4, 9);
  cr_expect_eq(count().programs, 1);
  cr_expect_eq(count().evictions, 1);
  expect(nabla_add(x, x), 2, 4, 6);
  cr_expect_eq(count().misses, 3);
  expect(first, 2, 4, 6); /* outlives its program */
}

static void *use(void *self) {
  nabla_array *x = self;
  nabla_scope *own;
  nabla_diag why;
  float *result = NULL;
  static float values[3];
  if (nabla_scope_create(engine, &own, &why)) return NULL;
  nabla_dense out;
  if (!nabla_array_read(nabla_add(x, x), &out, &why))
    result = memcpy(values, out.data, sizeof values);
  nabla_scope_end(own);
  nabla_release(x);
  return result;
}

Test(array, realized_arrays_serve_other_threads) {
  nabla_array *x = nabla_retain(vector(1, 2, 3));
  pthread_t thread;
  void *result;
  cr_assert_eq(pthread_create(&thread, NULL, use, x), 0);
  cr_assert_eq(pthread_join(thread, &result), 0);
  cr_assert_not_null(result);
  cr_expect_eq(((float *)result)[2], 6);
}

static void *use_pending(void *self) {
  nabla_scope *own;
  nabla_diag why = NABLA_DIAG_INIT;
  static char text[300];
  if (nabla_scope_create(engine, &own, &why)) return NULL;
  nabla_array *sum = nabla_add(self, self);
  (void)nabla_scope_status(own, &why);
  (void)snprintf(text, sizeof text, "%s%s", sum ? "!" : "", why.what);
  nabla_scope_end(own);
  return text;
}

Test(array, pending_arrays_are_their_threads) {
  nabla_array *x = vector(1, 2, 3), *y = nabla_add(x, x);
  pthread_t thread;
  void *result;
  cr_assert_eq(pthread_create(&thread, NULL, use_pending, y), 0);
  cr_assert_eq(pthread_join(thread, &result), 0);
  cr_assert_not_null(result);
  cr_expect(strstr(result, "realize it first"), "%s", (char *)result);
  cr_expect_neq(*(char *)result, '!');
}

/* ---- failures ---- */

Test(array, the_first_failure_names_operation_shapes_and_place) {
  const float data[2] = {1, 2};
  const nabla_dense dense = {(void *)data, NABLA_DTYPE_F32, 1, {2}};
  nabla_array *x = vector(1, 2, 3), *y = nabla_array_of(scope, &dense);
  nabla_array *sum = nabla_add(x, y);
  cr_expect_null(sum);
  cr_expect_null(nabla_tanh(sum));
  cr_expect_null(nabla_mul(sum, x));
  nabla_dense out;
  cr_expect_eq(nabla_array_read(nabla_exp(sum), &out, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_scope_status(scope, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(strncmp(diag.what, "nabla_add(F32[3], F32[2]): ", 27), 0, "%s",
               diag.what);
  cr_expect(strstr(diag.file, "array_test.c:"), "%s", diag.file);
  expect(nabla_add(x, x), 2, 4, 6); /* the scope stays usable */
  nabla_scope_clear(scope);
  cr_expect_eq(nabla_scope_status(scope, &diag), NABLA_OK);
}

Test(array, dtypes_that_an_operation_does_not_take) {
  nabla_array *x = vector(1, 2, 3);
  cr_expect_null(nabla_and(x, x));
  cr_expect_eq(nabla_scope_status(scope, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "nabla_and(F32[3], F32[3]): "), "%s", diag.what);
}

/* The text of the first failure, which is forgotten. */
static const char *scope_failure(void) {
  (void)nabla_scope_status(scope, &diag);
  nabla_scope_clear(scope);
  return diag.what;
}

Test(array, bad_leaves) {
  const nabla_dense none = {NULL, NABLA_DTYPE_F32, 1, {3}};
  const nabla_dense negative = {NULL, NABLA_DTYPE_F32, 1, {-1}};
  const nabla_dense huge = {
      NULL, NABLA_DTYPE_F32, 3, {INT64_MAX, INT64_MAX, 4}};
  const nabla_dense strange = {NULL, NABLA_DTYPE_F4, 0, {0}};
  const nabla_dense *const bad[] = {&none, &negative, &huge, &strange, NULL};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cr_expect_null(nabla_array_of(scope, bad[i]), "%zu", i);
    cr_expect_neq(nabla_scope_status(scope, &diag), NABLA_OK, "%zu", i);
    nabla_scope_clear(scope);
  }
  cr_expect_null(nabla_array_of(NULL, &none));
}

Test(array, null_everywhere) {
  nabla_array *none = NULL;
  nabla_dense out;
  cr_expect_null(nabla_add(NULL, NULL));
  cr_expect_eq(nabla_scope_status(scope, &diag), NABLA_INVALID_ARGUMENT);
  nabla_scope_clear(scope);
  cr_expect_eq(nabla_realize(scope, 1, &none, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_scope_status(scope, NULL), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_array_read(NULL, &out, &diag), NABLA_INVALID_ARGUMENT);
  nabla_release(NULL);
  cr_expect_null(nabla_retain(NULL));
  cr_expect_null(nabla_array_dense(NULL));
  nabla_scope_end(NULL);
  nabla_engine_destroy(NULL);
}

Test(array, an_integer_division_by_zero_fails_and_can_be_repeated) {
  const int32_t data[2] = {1, 0};
  const nabla_dense dense = {(void *)data, NABLA_DTYPE_I32, 1, {2}};
  nabla_array *x = nabla_array_of(scope, &dense);
  nabla_array *y = nabla_quotient(x, x);
  nabla_dense out;
  cr_expect_neq(nabla_array_read(y, &out, &diag), NABLA_OK);
  cr_expect_neq(nabla_array_read(y, &out, &diag), NABLA_OK);
  cr_expect_null(nabla_array_dense(y)->data);
}

Test(array, lists_that_are_missing) {
  nabla_array *x = vector(1, 2, 3), *i = nabla_integer(scope, 0);
  cr_expect_null(nabla_dynamic_slice(x, 1, NULL, NULL));
  cr_expect(strstr(scope_failure(), "starts"), "%s", diag.what);
  cr_expect_null(nabla_dynamic_slice(x, 1, &i, NULL));
  cr_expect_null(nabla_dynamic_update_slice(x, x, 1, NULL));
  cr_expect_null(nabla_dynamic_update_slice(x, NULL, 1, &i));
  cr_expect_null(nabla_dynamic_update_slice(NULL, x, 1, &i));
  cr_expect_null(nabla_slice(x, 1, NULL, NULL, NULL));
  cr_expect_null(nabla_reshape(x, 1, NULL));
  cr_expect_null(nabla_sum(x, 1, NULL, 0));
  cr_expect_null(nabla_pad(x, i, 1, NULL, NULL, NULL));
  cr_expect_null(nabla_concatenate(2, NULL, 0));
  cr_expect_null(nabla_dot_general(x, x, NULL));
  cr_expect_null(nabla_max_pool(x, 1, NULL, NULL, NULL));
  cr_expect_null(nabla_gather(x, i, NULL, 1, NULL));
  cr_expect_null(nabla_add(x, nabla_none()));
  cr_expect_neq(nabla_scope_status(scope, &diag), NABLA_OK);
}

/* ---- allocations that fail ---- */

static size_t allowed; /* allocations that succeed before all fail */

static void *resize(void *self, void *memory, size_t old_size,
                    size_t new_size) {
  const nabla_allocator *allocator = nabla_allocator_default();
  (void)self;
  if (new_size && !allowed) return NULL;
  if (new_size) allowed--;
  return allocator->resize(allocator->self, memory, old_size, new_size);
}

/* Records and realizes; gives the status of what failed first. */
static nabla_status record_and_read(nabla_scope *in, nabla_diag *why) {
  const float data[6] = {1, 2, 3, 4, 5, 6};
  const nabla_dense dense = {(void *)data, NABLA_DTYPE_F32, 2, {2, 3}};
  nabla_array *x = nabla_array_of(in, &dense), *pieces[3];
  nabla_array *y = nabla_matmul(x, nabla_transpose(x, 0, NULL));
  nabla_array *both[2] = {nabla_softmax(y, -1), nabla_triu(y, 0)};
  nabla_unbind(nabla_concatenate(2, both, 1), 0, 2, pieces);
  nabla_array *z = nabla_mse(nabla_take(x, nabla_integer(in, -1), 0),
                             nabla_sum(x, NABLA_DIMS(-2), 0));
  nabla_dense out;
  return nabla_array_read(nabla_add(nabla_max(pieces[1], NABLA_ALL_DIMS, 0), z),
                          &out, why);
}

/* Programs, and kinds of operations, are there: what fails are arrays, nodes,
 * walks and results. */
Test(array, every_allocation_may_fail) {
  const nabla_allocator failing = {.resize = resize};
  const nabla_environment environment = {.allocator = &failing};
  nabla_engine *own;
  nabla_scope *outer, *inner;
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  scope = NULL;
  engine = NULL;
  allowed = SIZE_MAX;
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = ""};
  const nabla_engine_options options = {.struct_size = sizeof options,
                                        .compiler = &compiler};
  cr_assert_eq(nabla_engine_create(&options, &environment, &own, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_scope_create(own, &outer, &diag), NABLA_OK);
  cr_assert_eq(record_and_read(outer, &diag), NABLA_OK, "%s", diag.what);
  nabla_status status = NABLA_NO_MEMORY;
  size_t failures = 0;
  for (size_t n = 0; status && n < 1000; n++) {
    allowed = SIZE_MAX;
    cr_assert_eq(nabla_scope_create(own, &inner, &diag), NABLA_OK);
    allowed = n;
    status = record_and_read(inner, &diag);
    if (status) cr_assert_eq(status, NABLA_NO_MEMORY, "%zu: %s", n, diag.what);
    failures += status != NABLA_OK;
    nabla_scope_end(inner);
  }
  allowed = SIZE_MAX;
  cr_expect_eq(status, NABLA_OK);
  cr_expect_gt(failures, 30);
  nabla_scope_end(outer);
  nabla_engine_destroy(own);
}
