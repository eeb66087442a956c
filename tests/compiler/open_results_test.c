/* Results whose structure a callback gives: in calls, traces, derivatives,
 * batches and choices. */
#include <criterion/criterion.h>
#include <string.h>

#include "nabla/derivative.h"
#include "nabla/function.h"
#include "tests/support/array_scope.h"

static nabla_function *function, *outer;
static int traces;

static void end(void) {
  nabla_function_destroy(outer);
  nabla_function_destroy(function);
  tear_down();
}

TestSuite(open_results, .init = set_up, .fini = end, .timeout = 300);

/* The structure that callbacks give: {"sum", "both": [x + x, x * x]}. */
static nabla_tree pair[2], fields[2], given;

static nabla_tree *make_given(void) {
  static const char *const names[] = {"sum", "both"};
  for (int i = 0; i < 2; i++) pair[i] = nabla_tree_of_array(NULL);
  fields[0] = nabla_tree_of_array(NULL);
  fields[1] = nabla_tree_of_list(2, pair);
  given = nabla_tree_of_fields(2, names, fields);
  return &given;
}

static void three_results(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                          void *self) {
  (void)s, (void)self;
  nabla_array *x = in->items[0].array;
  traces++;
  cr_assert(out->kind == NABLA_TREE_OPEN && !out->items);
  out->items = make_given();
  fields[0].array = nabla_sum(x, 0, NULL, 0);
  pair[0].array = nabla_add(x, x);
  pair[1].array = nabla_mul(x, x);
}

static nabla_array *ones(int64_t rows) {
  const int64_t shape[2] = {rows, 3};
  return rows ? nabla_ones(scope, NABLA_DTYPE_F32, 2, shape)
              : nabla_ones(scope, NABLA_DTYPE_F32, 1, shape + 1);
}

static nabla_status call(nabla_function *f, nabla_array *x, nabla_tree *out) {
  nabla_tree item = nabla_tree_of_array(x);
  const nabla_tree in = nabla_tree_of_list(1, &item);
  return nabla_function_call(f, &in, out, &diag);
}

static void expect(nabla_array *array, float first) {
  nabla_dense dense;
  cr_assert_eq(nabla_array_read(array, &dense, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_float_eq(((const float *)dense.data)[0], first, 1e-6F);
}

static void expect_three(float a, float b, float c) {
  expect(fields[0].array, a);
  expect(pair[0].array, b);
  expect(pair[1].array, c);
}

Test(open_results, the_callback_gives_the_structure) {
  nabla_tree out = nabla_tree_of_open(NULL);
  function = make_function(three_results, NULL, (nabla_function_options){0});
  cr_assert_eq(call(function, ones(0), &out), NABLA_OK, "%s", diag.what);
  cr_expect_eq(out.items, &given);
  expect_three(3, 2, 1);
  out.items = make_given(); /* the callback is not called */
  cr_assert_eq(call(function, ones(0), &out), NABLA_OK, "%s", diag.what);
  expect_three(3, 2, 1);
  cr_expect_eq(traces, 1);
  out.items = NULL;
  cr_expect_eq(call(function, ones(0), &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "open place"), "%s", diag.what);
}

Test(open_results, names_of_results_are_those_of_the_tree) {
  static const nabla_function_replacement donated[] = {{"0", "both.1"}};
  static const nabla_function_replacement wrong[] = {{"0", "neither"}};
  nabla_tree out = nabla_tree_of_open(NULL);
  function = make_function(
      three_results, NULL,
      (nabla_function_options){.donated = donated, .donated_count = 1});
  cr_assert_eq(call(function, ones(0), &out), NABLA_OK, "%s", diag.what);
  expect_three(3, 2, 1);
  outer = make_function(
      three_results, NULL,
      (nabla_function_options){.donated = wrong, .donated_count = 1});
  out.items = NULL;
  cr_expect_eq(call(outer, ones(0), &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "'neither', which is no result"), "%s",
            diag.what);
}

Test(open_results, no_argument_is_open) {
  nabla_tree item = nabla_tree_of_array(ones(0));
  const nabla_tree in = nabla_tree_of_open(&item);
  nabla_tree out = nabla_tree_of_open(NULL);
  function = make_function(three_results, NULL, (nabla_function_options){0});
  cr_expect_eq(nabla_function_call(function, &in, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "an argument is an open place"), "%s", diag.what);
}

static void through_call(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                         void *self) {
  (void)s;
  nabla_call(self, in, out);
}

Test(open_results, calls_and_batches) {
  nabla_tree out = nabla_tree_of_open(NULL);
  function = make_function(three_results, NULL, (nabla_function_options){0});
  outer = make_function(through_call, function, (nabla_function_options){0});
  cr_assert_eq(call(outer, ones(0), &out), NABLA_OK, "%s", diag.what);
  expect_three(3, 2, 1);
  nabla_function_destroy(outer);
  cr_assert_eq(nabla_vmap(function, NULL, &outer, &diag), NABLA_OK);
  out.items = NULL;
  cr_assert_eq(call(outer, ones(2), &out), NABLA_OK, "%s", diag.what);
  expect_three(3, 2, 1);
  cr_expect_eq(traces, 2);
}

/* A value, and other results. */
static void value_and_more(nabla_scope *s, const nabla_tree *in,
                           nabla_tree *out, void *self) {
  three_results(s, in, &out->items[1], self);
  out->items[0].array = nabla_mul(fields[0].array, fields[0].array);
}

Test(open_results, other_results_of_gradients) {
  const nabla_derivative_options options = {.struct_size = sizeof options,
                                            .has_aux = 1};
  nabla_tree inner[2] = {nabla_tree_of_array(NULL), nabla_tree_of_open(NULL)};
  nabla_tree both[2] = {nabla_tree_of_list(2, inner),
                        nabla_tree_of_array(NULL)};
  nabla_tree out = nabla_tree_of_list(2, both);
  function = make_function(value_and_more, NULL, (nabla_function_options){0});
  cr_assert_eq(nabla_value_and_grad(function, &options, &outer, &diag),
               NABLA_OK);
  cr_assert_eq(call(outer, ones(0), &out), NABLA_OK, "%s", diag.what);
  expect(inner[0].array, 9);
  expect(both[1].array, 6);
  expect_three(3, 2, 1);
  nabla_function_destroy(outer);
  cr_assert_eq(nabla_grad(function, &options, &outer, &diag), NABLA_OK);
  inner[1].items = NULL;
  out = nabla_tree_of_list(2, inner);
  cr_assert_eq(call(outer, ones(0), &out), NABLA_OK, "%s", diag.what);
  expect(inner[0].array, 6);
  expect_three(3, 2, 1);
}

static void choose(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)self;
  nabla_array *x = in->items[0].array;
  nabla_cond(nabla_less(nabla_sum(x, 0, NULL, 0), nabla_scalar(s, 9)),
             three_results, three_results, NULL, in, out);
}

static void none(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)s, (void)in, (void)out, (void)self;
}

static void other(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  static nabla_tree one;
  (void)s, (void)self;
  one = in->items[0];
  out->items = &one;
}

static void choose_another(nabla_scope *s, const nabla_tree *in,
                           nabla_tree *out, void *self) {
  (void)self;
  nabla_cond(
      nabla_less(nabla_sum(in->items[0].array, 0, NULL, 0), nabla_scalar(s, 9)),
      three_results, other, NULL, in, out);
}

Test(open_results, trees_that_do_not_go_together) {
  nabla_tree out = nabla_tree_of_open(NULL);
  function = make_function(none, NULL, (nabla_function_options){0});
  cr_expect_eq(call(function, ones(0), &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "left an open place of its results empty"), "%s",
            diag.what);
  nabla_scope_clear(scope);
  outer = make_function(choose_another, NULL, (nabla_function_options){0});
  cr_expect_eq(call(outer, ones(0), &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "trees of another structure"), "%s", diag.what);
}

/* Carries a sum, and gives three results for each element. */
static void scan_step(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                      void *self) {
  nabla_tree x =
      nabla_tree_of_array(nabla_add(in->items[1].array, in->items[0].array));
  const nabla_tree list = nabla_tree_of_list(1, &x);
  three_results(s, &list, &out->items[1], self);
  out->items[0].array = fields[0].array;
}

static void scan(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)self;
  const nabla_tree first =
      nabla_tree_of_array(nabla_convert(nabla_scalar(s, 0), NABLA_DTYPE_F32));
  const nabla_scan_options options = {.struct_size = sizeof options,
                                      .initial = &first,
                                      .inputs = &in->items[0]};
  nabla_tree last = nabla_tree_of_array(NULL);
  nabla_scan(scan_step, NULL, &options, &last, out);
}

Test(open_results, stacked_outputs) {
  nabla_tree out = nabla_tree_of_open(NULL);
  function = make_function(scan, NULL, (nabla_function_options){0});
  cr_assert_eq(call(function, ones(0), &out), NABLA_OK, "%s", diag.what);
  expect_three(1, 2, 1);
}

Test(open_results, choices) {
  nabla_tree out = nabla_tree_of_open(NULL);
  function = make_function(choose, NULL, (nabla_function_options){0});
  cr_assert_eq(call(function, ones(0), &out), NABLA_OK, "%s", diag.what);
  expect_three(3, 2, 1);
  cr_expect_eq(traces, 2); /* both parts */
}
