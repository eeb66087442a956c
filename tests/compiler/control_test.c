/* Control flow of nabla/function.h: cond, while, scan, call. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "nabla/function.h"
#include "tests/support/array_scope.h"

TestSuite(control, .init = set_up, .fini = tear_down, .timeout = 300);

static nabla_array *number(float value) {
  const nabla_dense dense = {&value, NABLA_DTYPE_F32, 0, {0}};
  return nabla_array_of(scope, &dense);
}

static nabla_array *vector(size_t count, const float *values) {
  const nabla_dense dense = {
      (void *)values, NABLA_DTYPE_F32, 1, {(int64_t)count}};
  return nabla_array_of(scope, &dense);
}

static void expect(nabla_array *array, size_t count, const float *want) {
  nabla_dense out;
  cr_assert_eq(nabla_array_read(array, &out, &diag), NABLA_OK, "%s", diag.what);
  for (size_t i = 0; i < count; i++)
    cr_expect_eq(((const float *)out.data)[i], want[i], "[%zu]: %g, not %g", i,
                 (double)((const float *)out.data)[i], (double)want[i]);
}

static void expect_number(nabla_array *array, float want) {
  expect(array, 1, &want);
}

static const char *failure(void) {
  cr_expect_neq(nabla_scope_status(scope, &diag), NABLA_OK);
  nabla_scope_clear(scope);
  return diag.what;
}

/* ---- cond ---- */

static nabla_array *outside;

static void plus(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)s, (void)self;
  out->array = nabla_add(in->array, outside);
}

static void minus(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)s, (void)self;
  out->array = nabla_sub(in->array, outside);
}

static void choose(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)s;
  nabla_cond(nabla_less(in->array, number(0)), plus, minus, self, in, out);
}

Test(control, cond_runs_one_part) {
  outside = number(10);
  for (int i = -1; i <= 1; i += 2) {
    const nabla_tree x = nabla_tree_of_array(number((float)i));
    nabla_tree y = nabla_tree_of_array(NULL);
    choose(scope, &x, &y, NULL);
    expect_number(y.array, i < 0 ? 9 : -9);
  }
  nabla_engine_statistics counts = {.struct_size = sizeof counts};
  cr_assert_eq(nabla_engine_count(engine, &counts, &diag), NABLA_OK);
  cr_expect_eq(counts.misses, 1); /* one graph, whichever part runs */
}

static void choose_twice(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                         void *self) {
  nabla_array *before = outside;
  outside = nabla_add(in->array, in->array); /* of the outer part */
  choose(s, in, out, self);
  outside = before;
}

Test(control, conds_nest_and_capture) {
  outside = number(1);
  for (int i = -3; i <= 3; i += 2) {
    const nabla_tree x = nabla_tree_of_array(number((float)i));
    nabla_tree y = nabla_tree_of_array(NULL);
    nabla_cond(nabla_less(number(-2), x.array), choose_twice, minus, NULL, &x,
               &y);
    expect_number(y.array, (float)(i == -3 ? -4 : i < 0 ? 3 * i : -i));
  }
}

static nabla_array *kept[2]; /* one for each part */
static int kept_count;

static void leaks(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)s, (void)self;
  outside = out->array = nabla_retain(nabla_add(in->array, in->array));
  kept[kept_count++] = outside;
}

Test(control, parts_do_not_share_arrays) {
  const nabla_tree x = nabla_tree_of_array(number(1));
  nabla_tree y = nabla_tree_of_array(NULL);
  nabla_cond(nabla_less(x.array, x.array), leaks, plus, NULL, &x, &y);
  cr_expect_null(y.array);
  const char *what = failure();
  cr_expect(strstr(what, "of a part that has ended"), "%s", what);
  nabla_release(kept[0]);
}

static void pair(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)s, (void)self;
  const float values[2] = {1, 2};
  out->array = nabla_add(in->array, vector(2, values));
}

Test(control, parts_of_cond_must_agree) {
  outside = number(1);
  const nabla_tree x = nabla_tree_of_array(number(1));
  nabla_tree y = nabla_tree_of_array(x.array);
  nabla_cond(nabla_less(x.array, x.array), plus, pair, NULL, &x, &y);
  cr_expect_null(y.array);
  const char *what = failure();
  cr_expect(strstr(what, "nabla_cond(F32[], F32[2]): leaf 0 differs"), "%s",
            what);
  nabla_cond(x.array, plus, minus, NULL, &x, &y);
  what = failure();
  cr_expect(strstr(what, "no truth value of rank 0"), "%s", what);
  nabla_cond(NULL, plus, minus, NULL, &x, &y);
  cr_expect_null(y.array);
  (void)failure();
  outside = NULL;
  nabla_cond(nabla_less(x.array, x.array), plus, minus, NULL, &x, &y);
  cr_expect_null(y.array);
  what = failure();
  cr_expect(strstr(what, "nabla_add(F32[], NULL)"), "%s", what);
}

/* ---- while ---- */

static void below(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)s, (void)self;
  out->array = nabla_less(in->items[0].array, outside);
}

static void step(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)self;
  out->items[0].array = nabla_add(in->items[0].array, nabla_scalar(s, 1));
  out->items[1].array = nabla_add(in->items[1].array, in->items[0].array);
}

Test(control, while_carries_trees) {
  outside = number(5);
  nabla_tree items[2] = {nabla_tree_of_array(number(0)),
                         nabla_tree_of_array(nabla_scalar(scope, 0))};
  nabla_tree results[2] = {nabla_tree_of_array(NULL),
                           nabla_tree_of_array(NULL)};
  const nabla_tree initial = nabla_tree_of_list(2, items);
  nabla_tree last = nabla_tree_of_list(2, results);
  nabla_while(below, step, NULL, &initial, &last);
  cr_assert_not_null(results[0].array, "%s", failure());
  expect_number(results[0].array, 5);
  expect_number(results[1].array, 10);
  items[0].array = number(7); /* no step */
  nabla_while(below, step, NULL, &initial, &last);
  expect_number(results[0].array, 7);
  expect_number(results[1].array, 0);
}

static void grows(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  const float values[2] = {1, 2};
  step(s, in, out, self);
  out->items[0].array = nabla_add(in->items[0].array, vector(2, values));
}

Test(control, carried_shapes_stay) {
  outside = number(5);
  nabla_tree items[2] = {nabla_tree_of_array(number(0)),
                         nabla_tree_of_array(number(0))};
  nabla_tree results[2] = {items[0], items[1]};
  const nabla_tree initial = nabla_tree_of_list(2, items);
  nabla_tree last = nabla_tree_of_list(2, results);
  nabla_while(below, grows, NULL, &initial, &last);
  cr_expect_null(results[0].array);
  const char *what = failure();
  cr_expect(strstr(what, "nabla_while(F32[], F32[2]): leaf 0 changes"), "%s",
            what);
  last.count = 1;
  nabla_while(below, step, NULL, &initial, &last);
  what = failure();
  cr_expect(strstr(what, "another structure"), "%s", what);
}

/* ---- scan ---- */

static void sums(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)s, (void)self;
  nabla_array *sum = nabla_add(in->items[0].array, in->items[1].array);
  out->items[0].array = sum;
  out->items[1].array = nabla_mul(sum, outside);
}

static void run_sums(nabla_array *xs, int reverse, nabla_tree *last,
                     nabla_tree *ys) {
  const nabla_tree initial = nabla_tree_of_array(number(0));
  const nabla_tree inputs = nabla_tree_of_array(xs);
  const nabla_scan_options options = {.struct_size = sizeof options,
                                      .initial = &initial,
                                      .inputs = &inputs,
                                      .reverse = reverse};
  *last = *ys = nabla_tree_of_array(NULL);
  nabla_scan(sums, NULL, &options, last, ys);
}

Test(control, scan_goes_over_the_first_dimension) {
  const float values[4] = {1, 2, 3, 4}, forwards[4] = {10, 30, 60, 100},
              backwards[4] = {100, 90, 70, 40};
  nabla_tree last, ys;
  outside = number(10);
  run_sums(vector(4, values), 0, &last, &ys);
  cr_assert_not_null(ys.array, "%s", failure());
  cr_expect_eq(nabla_array_dense(ys.array)->shape[0], 4);
  expect_number(last.array, 10);
  expect(ys.array, 4, forwards);
  run_sums(vector(4, values), 1, &last, &ys);
  expect(ys.array, 4, backwards);
  run_sums(number(1), 0, &last, &ys);
  cr_expect_null(last.array);
  const char *what = failure();
  cr_expect(strstr(what, "without a common first dimension"), "%s", what);
}

/* ---- sizes known at run time ---- */

static void over_rows(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                      void *self) {
  (void)s, (void)self;
  outside = in->items[1].array;
  run_sums(in->items[0].array, 0, &out->items[0], &out->items[1]);
  out->items[1].array =
      nabla_add(out->items[1].array, in->items[0].array); /* of one size */
  nabla_cond(nabla_less(in->items[1].array, number(0)), plus, minus, NULL,
             &in->items[0], &out->items[2]);
}

Test(control, loops_and_choices_of_unknown_size) {
  static const nabla_function_dim dims[] = {{"0", 0, "n"}};
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .name = "over",
                                          .dims = dims,
                                          .dim_count = 1};
  nabla_function *function;
  cr_assert_eq(
      nabla_function_create(engine, over_rows, &options, &function, &diag),
      NABLA_OK);
  const float values[4] = {1, 2, 3, 4}, sums_of[4] = {11, 32, 63, 104},
              differences[4] = {-9, -8, -7, -6};
  for (size_t n = 2; n <= 4; n++) {
    nabla_tree items[2] = {nabla_tree_of_array(vector(n, values)),
                           nabla_tree_of_array(number(10))};
    nabla_tree results[3] = {{.kind = NABLA_TREE_ARRAY},
                             {.kind = NABLA_TREE_ARRAY},
                             {.kind = NABLA_TREE_ARRAY}};
    const nabla_tree in = nabla_tree_of_list(2, items);
    nabla_tree out = nabla_tree_of_list(3, results);
    cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK,
                 "%s", diag.what);
    expect(results[1].array, n, sums_of);
    expect(results[2].array, n, differences);
    cr_expect_eq(nabla_array_dense(results[1].array)->shape[0], (int64_t)n);
  }
  nabla_function_destroy(function);
}

/* ---- call ---- */

static void layer(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)s, (void)self;
  nabla_array *x = in->items[0].array;
  out->array = nabla_add(nabla_mul(x, in->items[1].array), outside);
}

static void network(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)s;
  nabla_tree items[2] = {nabla_tree_of_array(in->items[0].array),
                         nabla_tree_of_array(NULL)};
  const nabla_tree list = nabla_tree_of_list(2, items);
  for (size_t i = 1; i < in->count; i++) {
    nabla_tree result = nabla_tree_of_array(NULL);
    items[1].array = in->items[i].array;
    nabla_call(self, &list, &result);
    items[0].array = result.array;
  }
  out->array = items[0].array;
}

Test(control, calls_stay_calls) {
  nabla_function *inner, *function;
  nabla_function_options options = {.struct_size = sizeof options,
                                    .name = "layer"};
  outside = number(1);
  cr_assert_eq(nabla_function_create(engine, layer, &options, &inner, &diag),
               NABLA_OK);
  options = (nabla_function_options){
      .struct_size = sizeof options, .name = "network", .self = inner};
  cr_assert_eq(
      nabla_function_create(engine, network, &options, &function, &diag),
      NABLA_OK);
  nabla_tree items[4];
  for (int i = 0; i < 4; i++)
    items[i] = nabla_tree_of_array(number((float)(i + 1)));
  const nabla_tree in = nabla_tree_of_list(4, items);
  nabla_tree out = nabla_tree_of_array(NULL);
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  expect_number(out.array, ((1 * 2 + 1) * 3 + 1) * 4 + 1);
  nabla_blob text = {.bytes = NULL};
  const nabla_sink sink = nabla_blob_sink(&text);
  cr_assert_eq(nabla_function_print(function, &sink, &diag), NABLA_OK);
  const char *calls = text.bytes, *functions = text.bytes;
  int call_count = 0, function_count = 0;
  while ((calls = strstr(calls, "call @layer."))) calls++, call_count++;
  while ((functions = strstr(functions, "func.func private @layer.")))
    functions++, function_count++;
  cr_expect_eq(call_count, 3, "%s", text.bytes);
  cr_expect_eq(function_count, 1, "%s", text.bytes);
  nabla_blob_release(&text);
  network(scope, &in, &out, inner); /* without a trace too */
  expect_number(out.array, 41);
  nabla_function_destroy(function);
  nabla_function_destroy(inner);
}

Test(control, arrays_of_an_ended_part_cannot_be_read) {
  const nabla_tree x = nabla_tree_of_array(number(1));
  nabla_tree y = nabla_tree_of_array(NULL);
  nabla_dense value;
  nabla_cond(nabla_less(x.array, x.array), leaks, leaks, NULL, &x, &y);
  expect_number(y.array, 2);
  nabla_array *both[2] = {outside, x.array};
  cr_expect_neq(nabla_realize(scope, 2, both, &diag), NABLA_OK);
  cr_expect_neq(nabla_array_read(nabla_add(outside, y.array), &value, &diag),
                NABLA_OK);
  for (int i = 0; i < kept_count; i++) nabla_release(kept[i]);
}
