/* nabla/array.h, odd inputs: lists that are NULL, sizes that overflow, scalars
 * in functions of shapes, graphs that differ in one attribute or region, memory
 * that two results would take. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "nabla/array.h"
#include "nabla/function.h"
#include "tests/support/array_scope.h"

TestSuite(array_odd, .init = set_up, .fini = tear_down, .timeout = 300);

static nabla_array *numbers(int64_t count) {
  return nabla_arange(scope, NABLA_DTYPE_F32, 0, (double)count, 1);
}

static void expect(nabla_array *array, size_t count, const float *want) {
  nabla_dense out = {0};
  cr_assert_eq(nabla_array_read(array, &out, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(out.dtype, NABLA_DTYPE_F32, "%s", nabla_dtype_name(out.dtype));
  for (size_t i = 0; i < count; i++)
    cr_expect_eq(((const float *)out.data)[i], want[i], "[%zu]: %g, not %g", i,
                 (double)((const float *)out.data)[i], (double)want[i]);
}

/* Expects that recording failed with a text, and forgets it. */
static void expect_failure(const nabla_array *array, const char *text) {
  cr_expect_null(array);
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_neq(nabla_scope_status(scope, &diag), NABLA_OK);
  cr_expect_not_null(strstr(diag.what, text), "%s", diag.what);
  nabla_scope_clear(scope);
}

/* ---- refusals ---- */

Test(array_odd, lists_that_are_null) {
  nabla_array *out[2] = {numbers(1), NULL};
  nabla_array *x = numbers(4),
              *at = nabla_zeros(scope, NABLA_DTYPE_I32, NABLA_DIMS(1));
  const int64_t one = 1;
  nabla_split(x, 0, 2, NULL, out);
  expect_failure(out[0], "'sizes' of 2 numbers is NULL");
  const nabla_gather_dims none = {.struct_size = sizeof none};
  expect_failure(nabla_gather(x, at, &none, 1, NULL), "'sizes'");
  const nabla_gather_dims counts = {.struct_size = sizeof counts,
                                    .offset_count = 1};
  expect_failure(nabla_gather(x, at, &counts, 1, &one), "'offset_dims'");
  expect_failure(nabla_scatter(x, at, x, 0, &counts), "'offset_dims'");
}

Test(array_odd, absent_operands_and_callbacks) {
  nabla_dense out = {0};
  nabla_tree in = nabla_tree_of_array(numbers(3)),
             results = nabla_tree_of_array(in.array);
  expect_failure(nabla_exp(nabla_none()),
                 "nabla_exp(none): an operand is nabla_none()");
  cr_expect_eq(nabla_array_read(nabla_none(), &out, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_not_null(strstr(diag.what, "nabla_none()"), "%s", diag.what);
  nabla_scope_clear(scope);
  nabla_while(NULL, NULL, NULL, &in, &results);
  expect_failure(results.array, "a callback is NULL");
  const nabla_scan_options options = {.struct_size = sizeof options,
                                      .inputs = &in};
  nabla_scan(NULL, NULL, &options, NULL, &results);
  expect_failure(results.array, "a callback is NULL");
}

Test(array_odd, steps_of_zero) {
  expect_failure(nabla_arange(scope, NABLA_DTYPE_F32, 0, 4, 0), "by 0");
  expect_failure(nabla_arange(scope, NABLA_DTYPE_F32, 0, 4, -0.0), "by -0");
  expect_failure(nabla_arange(scope, NABLA_DTYPE_F32, 4, 0, 0), "by 0");
}

Test(array_odd, the_largest_of_no_elements) {
  nabla_array *x = nabla_zeros(scope, NABLA_DTYPE_F32, NABLA_DIMS(3, 0)),
              *both[2];
  nabla_dense out;
  expect_failure(nabla_max(x, NABLA_DIMS(-1), 0),
                 "dimension 1 has no elements");
  expect_failure(nabla_min(x, 0, NULL, 1), "dimension 1 has no elements");
  nabla_minmax(x, 0, NULL, 0, both);
  expect_failure(both[0], "no elements");
  cr_expect_null(both[1]);
  cr_assert_eq(nabla_array_read(nabla_max(x, NABLA_DIMS(0), 0), &out, &diag),
               NABLA_OK); /* no results */
  cr_expect(out.rank == 1 && !out.shape[0]);
}

Test(array_odd, sums_of_truth_values_do_not_wrap) {
  const uint8_t a[4] = {0, 1, 0, 1}, b[4] = {0, 0, 1, 1};
  const nabla_dense da = {(void *)(uintptr_t)a, NABLA_DTYPE_BOOL, 1, {4}},
                    db = {(void *)(uintptr_t)b, NABLA_DTYPE_BOOL, 1, {4}};
  nabla_array *x = nabla_array_of(scope, &da), *y = nabla_array_of(scope, &db);
  nabla_array *results[2] = {nabla_add(x, y), nabla_mul(x, y)};
  for (int i = 0; i < 2; i++) {
    nabla_dense out;
    cr_assert_eq(nabla_array_read(results[i], &out, &diag), NABLA_OK, "%s",
                 diag.what);
    cr_expect_eq(out.dtype, NABLA_DTYPE_BOOL);
    for (int k = 0; k < 4; k++)
      cr_expect_eq(((const uint8_t *)out.data)[k],
                   i ? a[k] & b[k] : a[k] | b[k], "%d %d", i, k);
  }
}

/* As NumPy and JAX have it. */
Test(array_odd, none_of_no_elements_are_taken) {
  nabla_dense y;
  nabla_array *x = nabla_ones(scope, NABLA_DTYPE_F16, NABLA_DIMS(2, 0, 3));
  nabla_array *none = nabla_zeros(scope, NABLA_DTYPE_I32, NABLA_DIMS(0, 4));
  nabla_array *one = nabla_zeros(scope, NABLA_DTYPE_I32, NABLA_DIMS(1));
  cr_assert_eq(nabla_array_read(nabla_take(x, none, -2), &y, &diag), NABLA_OK,
               "%s", diag.what);
  cr_expect(y.dtype == NABLA_DTYPE_F16 && y.rank == 4 && y.shape[0] == 2 &&
            y.shape[1] == 0 && y.shape[2] == 4 && y.shape[3] == 3);
  cr_expect(!nabla_take(x, one, 1));
  cr_expect(nabla_scope_status(scope, &diag));
  nabla_scope_clear(scope);
  cr_expect(!nabla_take(x, nabla_convert(none, NABLA_DTYPE_F32), 1));
  cr_expect(nabla_scope_status(scope, &diag));
  nabla_scope_clear(scope);
}

Test(array_odd, products_of_truth_values_are_truth_values) {
  unsigned char values[4] = {1, 1, 1, 0};
  nabla_dense dense = {values, NABLA_DTYPE_BOOL, 2, {2, 2}};
  nabla_array *x = nabla_array_of(scope, &dense);
  nabla_array *y = nabla_matmul(x, nabla_slice(x, 2, (const int64_t[]){1, 0},
                                               (const int64_t[]){2, 2}, NULL));
  expect_failure(y, "columns");
  cr_assert_eq(nabla_array_read(nabla_matmul(x, x), &dense, &diag), NABLA_OK);
  cr_expect_eq(dense.dtype, NABLA_DTYPE_BOOL);
  cr_expect(!memcmp(dense.data, (const unsigned char[]){1, 1, 1, 1}, 4));
}

Test(array_odd, sizes_that_overflow) {
  nabla_array *one = nabla_scalar(scope, 1);
  nabla_array *column =
      nabla_broadcast_to(one, NABLA_DIMS(INT64_C(1) << 32, 1));
  nabla_array *row = nabla_broadcast_to(one, NABLA_DIMS(1, INT64_C(1) << 32));
  expect_failure(nabla_add(column, row), "more than 2^60 elements");
  nabla_array *empty =
      nabla_zeros(scope, NABLA_DTYPE_F32, NABLA_DIMS(0, INT64_MAX, 4));
  cr_assert_not_null(empty);
  expect_failure(nabla_flatten(empty, 1, 2), "overflow");
  expect_failure(nabla_sum(empty, NABLA_DIMS(0), 0), "more than 2^60");
}

Test(array_odd, weights_that_are_too_short) {
  const float data[4] = {1, 2, 3, 4};
  nabla_weight_desc weight = {.rank = 2,
                              .shape = {2, 2},
                              .dtype = NABLA_DTYPE_F32,
                              .component_count = 1};
  weight.components[0] = (nabla_weight_component){
      .dtype = NABLA_DTYPE_F32, .data = data, .bytes = sizeof data};
  expect(nabla_array_of_weight(scope, &weight), 4, data);
  weight.shape[0] = 3;
  expect_failure(nabla_array_of_weight(scope, &weight), "16 bytes");
}

Test(array_odd, many_failures) {
  /* each is made in MLIR; the context is renewed as it is for kinds */
  float data[3] = {0, 1, 2};
  const nabla_dense vector = {data, NABLA_DTYPE_F32, 1, {3}};
  nabla_array *x = nabla_array_of(scope, &vector);
  for (int i = 0; i < 5000; i++) {
    nabla_array *joined[2] = {x, nabla_none()};
    const nabla_dense dense = {NULL, NABLA_DTYPE_F32, 2, {0, 3 + i}};
    joined[1] = nabla_array_borrow(scope, &dense);
    expect_failure(nabla_concatenate(2, joined, 0), "nabla_concatenate");
    nabla_release(joined[1]);
  }
  const float want[3] = {0, 2, 4};
  expect(nabla_add(x, x), 3, want);
}

/* ---- scalars ---- */

Test(array_odd, scalars_of_a_shape_are_f32) {
  nabla_array *two = nabla_scalar(scope, 2);
  const float twos[3] = {2, 2, 2}, padded[3] = {2, 1, 1};
  const int64_t low = 0, high = 2;
  expect(nabla_broadcast_to(two, NABLA_DIMS(3)), 3, twos);
  expect(nabla_broadcast_in_dim(two, NABLA_DIMS(3), 0, NULL), 3, twos);
  expect(nabla_reshape(two, NABLA_DIMS(1, 1)), 1, twos);
  expect(nabla_unsqueeze(two, 0), 1, twos);
  expect(nabla_flatten(two, 0, -1), 1, twos);
  expect(nabla_outer(two, nabla_integer(scope, 1)), 1, twos);
  expect(nabla_flip(two, NABLA_ALL_DIMS), 1, twos);
  expect(nabla_slice(two, 0, NULL, NULL, NULL), 1, twos);
  expect(nabla_dynamic_slice(two, 0, NULL, NULL), 1, twos);
  expect(nabla_dynamic_update_slice(nabla_scalar(scope, 1), two, 0, NULL), 1,
         twos);
  expect(nabla_pad(nabla_unsqueeze(two, 0), nabla_integer(scope, 1), 1, &low,
                   &high, NULL),
         3, padded);
  nabla_array *many =
      nabla_broadcast_to(nabla_integer(scope, 7), NABLA_DIMS(2));
  cr_expect_eq(nabla_array_dense(many)->dtype, NABLA_DTYPE_I32);
  nabla_array *halves = nabla_ones(scope, NABLA_DTYPE_F16, NABLA_DIMS(3));
  cr_expect_eq(nabla_array_dense(nabla_outer(two, halves))->dtype,
               NABLA_DTYPE_F16);
  /* seeds and starts keep 64 bits */
  nabla_array *a = nabla_uniform(nabla_integer(scope, 1), NABLA_DTYPE_F32,
                                 NABLA_DIMS(4)),
              *b = nabla_uniform(nabla_integer(scope, INT64_C(4294967297)),
                                 NABLA_DTYPE_F32, NABLA_DIMS(4));
  nabla_dense equal = {0};
  cr_assert_eq(nabla_array_read(nabla_all(nabla_equal(a, b), NABLA_ALL_DIMS, 0),
                                &equal, &diag),
               NABLA_OK);
  cr_expect_eq(*(const uint8_t *)equal.data, 0);
}

/* ---- graphs that differ in little ---- */

static void first(nabla_scope *inner, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)inner, (void)self;
  out->array = in->items[0].array;
}

static void second(nabla_scope *inner, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)inner, (void)self;
  out->array = in->items[1].array;
}

static nabla_array *choose(nabla_array *which, nabla_function_callback yes,
                           nabla_function_callback no, nabla_array *x,
                           nabla_array *y) {
  nabla_tree items[2] = {nabla_tree_of_array(x), nabla_tree_of_array(y)};
  const nabla_tree in = nabla_tree_of_list(2, items);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_cond(which, yes, no, NULL, &in, &out);
  return out.array;
}

Test(array_odd, regions_tell_graphs_apart) {
  nabla_array *x = nabla_full(scope, NABLA_DTYPE_F32, NABLA_DIMS(1), 1),
              *y = nabla_full(scope, NABLA_DTYPE_F32, NABLA_DIMS(1), 2),
              *yes =
                  nabla_greater(nabla_scalar(scope, 1), nabla_scalar(scope, 0));
  nabla_array *all[3] = {x, y, yes};
  const float one = 1, two = 2;
  cr_assert_eq(nabla_realize(scope, 3, all, &diag), NABLA_OK, "%s", diag.what);
  for (int i = 0; i < 2; i++) { /* compiled, then found */
    expect(choose(yes, first, second, x, y), 1, &one);
    expect(choose(yes, second, first, x, y), 1, &two);
    expect(choose(yes, second, first, y, x), 1, &one);
    expect(choose(yes, first, first, y, x), 1, &two);
    expect(choose(yes, second, second, y, y), 1, &two);
  }
}

static void total(nabla_scope *inner, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)inner, (void)self;
  nabla_array *sum =
      nabla_add(nabla_mul(in->items[0].array, nabla_scalar(inner, 2)),
                in->items[1].array);
  out->items[0].array = sum;
}

static nabla_array *scan(nabla_array *x, int reverse) {
  nabla_tree start = nabla_tree_of_array(
                 nabla_zeros(scope, NABLA_DTYPE_F32, 0, NULL)),
             inputs = nabla_tree_of_array(x), out = nabla_tree_of_array(NULL);
  const nabla_scan_options options = {.struct_size = sizeof options,
                                      .initial = &start,
                                      .inputs = &inputs,
                                      .reverse = reverse};
  nabla_scan(total, NULL, &options, &out, NULL);
  return out.array;
}

Test(array_odd, attributes_tell_graphs_apart) {
  nabla_array *x = numbers(3);
  const int64_t starts[2] = {0, 1}, limits[2] = {2, 3};
  const float ahead = 4, back = 10;
  cr_assert_eq(nabla_realize(scope, 1, &x, &diag), NABLA_OK);
  for (int i = 0; i < 2; i++) {
    expect(nabla_slice(x, 1, &starts[0], &limits[0], NULL), 2,
           (const float[]){0, 1});
    expect(nabla_slice(x, 1, &starts[1], &limits[1], NULL), 2,
           (const float[]){1, 2});
    expect(scan(x, 0), 1, &ahead);
    expect(scan(x, 1), 1, &back);
    nabla_array *zero = nabla_full(scope, NABLA_DTYPE_F32, 0, NULL, 0),
                *minus = nabla_full(scope, NABLA_DTYPE_F32, 0, NULL, -0.0),
                *one = nabla_ones(scope, NABLA_DTYPE_F32, 0, NULL);
    expect(nabla_div(one, zero), 1, (const float[]){INFINITY});
    expect(nabla_div(one, minus), 1, (const float[]){-INFINITY});
    expect(nabla_sum(nabla_outer(x, x), NABLA_DIMS(0), 0), 3,
           (const float[]){0, 3, 6});
    expect(nabla_sum(nabla_outer(x, x), NABLA_DIMS(0), 1), 3,
           (const float[]){0, 3, 6});
    cr_expect_eq(nabla_array_dense(nabla_sum(x, NABLA_DIMS(0), 1))->rank, 1);
    cr_expect_eq(nabla_array_dense(nabla_sum(x, NABLA_DIMS(0), 0))->rank, 0);
  }
}

/* ---- functions ---- */

Test(array_odd, one_memory_is_donated_once) {
  nabla_function *function = NULL;
  const nabla_function_replacement twice[2][2] = {{{"0", "0"}, {"0", "1"}},
                                                  {{"0", "0"}, {"1", "0"}}};
  const char *const want[2] = {"the argument '0' twice",
                               "the result '0' twice"};
  for (int i = 0; i < 2; i++) {
    const nabla_function_options donated = {
        .struct_size = sizeof donated, .donated = twice[i], .donated_count = 2};
    const nabla_function_options states = {
        .struct_size = sizeof states, .states = twice[i], .state_count = 2};
    cr_expect_eq(
        nabla_function_create(engine, first, &donated, &function, &diag),
        NABLA_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(diag.what, want[i]), "%s", diag.what);
    cr_expect_eq(
        nabla_function_create(engine, first, &states, &function, &diag),
        NABLA_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(diag.what, want[i]), "%s", diag.what);
  }
}

/* A square of zeros, n by n. */
static void square(nabla_scope *inner, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)self;
  const int64_t n = nabla_array_dense(in->items[0].array)->shape[0];
  out->array = nabla_zeros(inner, NABLA_DTYPE_F32, NABLA_DIMS(n, n));
}

Test(array_odd, named_sizes_that_overflow) {
  nabla_function *function = NULL;
  const nabla_function_dim dim = {"0", 0, "n"};
  const nabla_function_options options = {
      .struct_size = sizeof options, .dims = &dim, .dim_count = 1};
  const int64_t sizes[3] = {2, INT64_C(1) << 31, INT64_C(1) << 32};
  cr_assert_eq(
      nabla_function_create(engine, square, &options, &function, &diag),
      NABLA_OK);
  for (int i = 0; i < 3; i++) { /* 2^31 squared, times 4, is 2^64 */
    const nabla_dense empty = {NULL, NABLA_DTYPE_F32, 2, {sizes[i], 0}};
    nabla_tree item = nabla_tree_of_array(nabla_array_borrow(scope, &empty)),
               out = nabla_tree_of_array(NULL);
    const nabla_tree in = nabla_tree_of_list(1, &item);
    const nabla_status status = nabla_function_call(function, &in, &out, &diag);
    cr_expect_eq(status, i ? NABLA_TOO_LARGE : NABLA_OK, "%s", diag.what);
    nabla_scope_clear(scope);
  }
  nabla_function_destroy(function);
}
