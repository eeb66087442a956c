/* Functions of arrays in f64, their derivatives and calls, for the tests of
 * nabla/derivative.h: for TestSuite(NAME, .init = set_up, .fini =
 * tear_down_functions). */
#ifndef NABLA_TESTS_SUPPORT_DERIVATIVES_H
#define NABLA_TESTS_SUPPORT_DERIVATIVES_H

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "nabla/derivative.h"
#include "tests/support/array_scope.h"

static nabla_function *functions[64]; /* destroyed last to first */
static size_t function_count;

static void tear_down_functions(void) {
  while (function_count) nabla_function_destroy(functions[--function_count]);
  tear_down();
}

static nabla_function *keep(nabla_function *function) {
  functions[function_count++] = function;
  return function;
}

static nabla_function *make(nabla_function_callback callback, void *self) {
  const nabla_function_options options = {
      .struct_size = sizeof options, .name = "f", .self = self};
  nabla_function *out;
  cr_assert_eq(nabla_function_create(engine, callback, &options, &out, &diag),
               NABLA_OK, "%s", diag.what);
  return keep(out);
}

typedef nabla_status derivative(nabla_function *,
                                const nabla_derivative_options *,
                                nabla_function **, nabla_diag *);

static inline nabla_function *derive(derivative *how, nabla_function *function,
                                     nabla_derivative_options options) {
  nabla_function *out;
  options.struct_size = sizeof options;
  cr_assert_eq(how(function, &options, &out, &diag), NABLA_OK, "%s", diag.what);
  return keep(out);
}

__attribute__((unused)) static const nabla_derivative_options none = {.wrt =
                                                                          NULL};

/* ---- arrays ---- */

static nabla_array *array(uint32_t rank, const int64_t *shape,
                          const double *values) {
  nabla_dense dense = {(void *)values, NABLA_DTYPE_F64, rank, {0}};
  if (rank) memcpy(dense.shape, shape, rank * sizeof *shape);
  return nabla_array_of(scope, &dense);
}

static inline nabla_array *vector(size_t count, const double *values) {
  const int64_t shape = (int64_t)count;
  return array(1, &shape, values);
}

/* Values in [-1, 1] that depend on `phase`. */
static inline nabla_array *filled(uint32_t rank, const int64_t *shape,
                                  double phase) {
  double values[64];
  for (int i = 0; i < 64; i++) values[i] = sin(phase + 1.7 * i);
  return array(rank, shape, values);
}

/* The elements of an array as f64. */
static const double *read(nabla_array *x) {
  nabla_dense out;
  cr_assert_eq(nabla_array_read(nabla_convert(x, NABLA_DTYPE_F64), &out, &diag),
               NABLA_OK, "%s", diag.what);
  return out.data;
}

static inline void expect(nabla_array *x, size_t count, const double *want,
                          double bound) {
  const double *have = read(x);
  for (size_t i = 0; i < count; i++)
    cr_expect(fabs(have[i] - want[i]) <= bound * (1 + fabs(want[i])),
              "[%zu]: %.17g, not %.17g", i, have[i], want[i]);
}

/* Calls a function of a list of arrays. */
static nabla_status try_call(nabla_function *function, size_t count,
                             nabla_array *const *arrays, nabla_tree *out) {
  nabla_tree items[8];
  for (size_t i = 0; i < count; i++) items[i] = nabla_tree_of_array(arrays[i]);
  const nabla_tree in = nabla_tree_of_list(count, items);
  return nabla_function_call(function, &in, out, &diag);
}

static inline nabla_array *call(nabla_function *function, size_t count,
                                nabla_array *const *arrays) {
  nabla_tree out = nabla_tree_of_array(NULL);
  cr_assert_eq(try_call(function, count, arrays, &out), NABLA_OK, "%s",
               diag.what);
  return out.array;
}

#endif
