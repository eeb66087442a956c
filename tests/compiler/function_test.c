/* nabla/function.h: signatures, captured arrays, sizes, states, threads. */
#include "nabla/function.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/array_scope.h"

static nabla_function *function;
static atomic_int traces;

static void tear_down_function(void) {
  nabla_function_destroy(function);
  tear_down();
}

TestSuite(function, .init = set_up, .fini = tear_down_function, .timeout = 300);

static void create_with(nabla_function_callback callback,
                        nabla_function_options options) {
  options.struct_size = sizeof options;
  if (!options.name) options.name = "f";
  cr_assert_eq(
      nabla_function_create(engine, callback, &options, &function, &diag),
      NABLA_OK, "%s", diag.what);
}

static void create(nabla_function_callback callback) {
  create_with(callback, (nabla_function_options){.name = NULL});
}

static nabla_array *vector(size_t count, const float *values) {
  const nabla_dense dense = {
      (void *)values, NABLA_DTYPE_F32, 1, {(int64_t)count}};
  return nabla_array_of(scope, &dense);
}

static nabla_array *three(float a, float b, float c) {
  const float values[3] = {a, b, c};
  return vector(3, values);
}

static void expect(nabla_array *array, size_t count, const float *want) {
  nabla_dense out;
  cr_assert_eq(nabla_array_read(array, &out, &diag), NABLA_OK, "%s", diag.what);
  for (size_t i = 0; i < count; i++)
    cr_expect_eq(((const float *)out.data)[i], want[i], "[%zu]: %g, not %g", i,
                 (double)((const float *)out.data)[i], (double)want[i]);
}

static void expect_three(nabla_array *array, float a, float b, float c) {
  const float want[3] = {a, b, c};
  expect(array, 3, want);
}

static nabla_status call(size_t count, nabla_array *const *arrays,
                         nabla_array **out) {
  nabla_tree items[8];
  for (size_t i = 0; i < count; i++) items[i] = nabla_tree_of_array(arrays[i]);
  const nabla_tree in = nabla_tree_of_list(count, items);
  nabla_tree result = nabla_tree_of_array(NULL);
  const nabla_status status =
      nabla_function_call(function, &in, &result, &diag);
  *out = result.array;
  return status;
}

static nabla_array *call_one(nabla_array *x) {
  nabla_array *out;
  cr_assert_eq(call(1, &x, &out), NABLA_OK, "%s", diag.what);
  return out;
}

static nabla_function_statistics count(void) {
  nabla_function_statistics out = {.struct_size = sizeof out};
  cr_assert_eq(nabla_function_count(function, &out, &diag), NABLA_OK);
  return out;
}

static void print(nabla_blob *blob) {
  const nabla_sink sink = nabla_blob_sink(blob);
  cr_assert_eq(nabla_function_print(function, &sink, &diag), NABLA_OK);
}

/* ---- signatures ---- */

static void square(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)s, (void)self;
  traces++;
  nabla_array *x = in->items[0].array;
  out->array = nabla_mul(x, x);
}

Test(function, is_traced_once_for_each_signature) {
  create(square);
  expect_three(call_one(three(1, 2, 3)), 1, 4, 9);
  nabla_array *x = three(2, 3, 4);
  expect_three(call_one(nabla_add(x, x)), 16, 36, 64); /* pending */
  cr_expect_eq(traces, 1);
  const float four[4] = {1, 2, 3, 4}, want[4] = {1, 4, 9, 16};
  expect(call_one(vector(4, four)), 4, want);
  cr_expect_eq(traces, 2);
  nabla_array *number = call_one(nabla_scalar(scope, 3));
  cr_expect_eq(nabla_array_dense(number)->dtype, NABLA_DTYPE_F32);
  const float nine[1] = {9};
  expect(number, 1, nine);
  const nabla_function_statistics counts = count();
  cr_expect_eq(counts.misses, 3);
  cr_expect_eq(counts.hits, 1);
  cr_expect_eq(counts.signatures, 3);
  cr_expect_gt(counts.bytes, 1000);
  cr_expect_gt(counts.compile_ms, 0);
}

Test(function, least_recently_used_signatures_go) {
  create_with(square, (nabla_function_options){.max_signatures = 2});
  const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const size_t sizes[] = {1, 2, 1, 3, 1, 2};
  for (size_t i = 0; i < 6; i++)
    expect(call_one(vector(sizes[i], values)), 1, values);
  cr_expect_eq(count().signatures, 2);
  cr_expect_eq(count().evictions, 2);
  cr_expect_eq(count().misses, 4);
  cr_expect_eq(count().hits, 2);
}

Test(function, growing_signatures_are_named) {
  create_with(square, (nabla_function_options){.max_traces = 3});
  const float values[8] = {1};
  nabla_array *out;
  for (size_t i = 1; i <= 3; i++) (void)call_one(vector(i, values));
  nabla_array *x = vector(4, values);
  cr_expect_eq(call(1, &x, &out), NABLA_TOO_LARGE);
  cr_expect(strstr(diag.what, "dimension 0 of the argument '0', now 4, was 3"),
            "%s", diag.what);
  cr_expect(strstr(diag.next, "name the dimension"), "%s", diag.next);
  (void)call_one(vector(2, values)); /* those that are kept go on */
}

typedef struct layer {
  nabla_array *w, *b;
} layer;
typedef struct net {
  layer layers[2];
  int relu;
} net;
static const nabla_tree_member layer_members[] = {NABLA_TREE_MEMBER(layer, w),
                                                  NABLA_TREE_MEMBER(layer, b)};
static const nabla_tree_layout layer_layout = NABLA_TREE_LAYOUT(layer);
static const nabla_tree_member net_members[] = {
    NABLA_TREE_MEMBER_STRUCT(net, layers, layer_layout),
    NABLA_TREE_MEMBER_STATIC(net, relu)};
static const nabla_tree_layout net_layout = NABLA_TREE_LAYOUT(net);

static void forward(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)s, (void)self;
  traces++;
  const net *n = in->items[0].data;
  nabla_array *x = in->items[1].array;
  for (int i = 0; i < 2; i++)
    x = nabla_add(nabla_mul(x, n->layers[i].w), n->layers[i].b);
  out->items[0].array = n->relu ? nabla_relu(x) : x;
  out->items[1].array = in->items[1].array; /* as it is */
}

Test(function, trees_and_static_values) {
  net n = {
      {{three(1, 2, 3), three(-9, 0, 1)}, {three(1, 1, 2), three(1, 1, 1)}}, 0};
  create(forward);
  nabla_tree items[2] = {nabla_tree_of_struct(&net_layout, &n),
                         nabla_tree_of_array(three(1, 1, 1))};
  nabla_tree in = nabla_tree_of_list(2, items);
  nabla_tree results[2] = {nabla_tree_of_array(NULL),
                           nabla_tree_of_array(NULL)};
  nabla_tree out = nabla_tree_of_list(2, results);
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  expect_three(results[0].array, -7, 3, 9);
  expect_three(results[1].array, 1, 1, 1);
  n.relu = 1;
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK);
  expect_three(results[0].array, 0, 3, 9);
  cr_expect_eq(traces, 2);
  nabla_blob text = {.bytes = NULL};
  print(&text);
  cr_expect(strstr(text.bytes, "nabla.name = \"0.layers.1.w\""), "%s",
            text.bytes);
  nabla_blob_release(&text);
}

/* ---- captured arrays ---- */

static nabla_array *outside;

static void shift(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)self;
  nabla_array *x = nabla_mul(in->items[0].array, nabla_scalar(s, 2));
  out->array = nabla_add(x, outside);
}

Test(function, captured_arrays_are_arguments) {
  nabla_array *y = three(1, 2, 3);
  outside = nabla_add(y, y); /* pending: realized when it was captured */
  create(shift);
  expect_three(call_one(three(1, 1, 1)), 4, 6, 8);
  expect_three(call_one(three(2, 2, 2)), 6, 8, 10);
  nabla_blob text = {.bytes = NULL};
  print(&text);
  const char *first = strstr(text.bytes, "nabla.captured");
  cr_assert(first && strstr(first + 1, "nabla.captured"), "%s", text.bytes);
  cr_expect(!strstr(text.bytes, "dense<"), "%s", text.bytes);
  nabla_blob_release(&text);
}

/* ---- sizes ---- */

static void product(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)self;
  traces++;
  nabla_array *x = in->items[0].array;
  cr_expect_lt(nabla_array_dense(x)->shape[0], NABLA_DYNAMIC);
  out->array =
      nabla_add(nabla_tanh(nabla_mul(x, in->items[1].array)),
                nabla_scalar(s, 1)); /* a broadcast to an unknown size */
}

Test(function, named_dimensions_have_any_size) {
  static const nabla_function_dim dims[] = {{"0", 0, "n"}, {"1", 0, "n"}};
  create_with(product, (nabla_function_options){.dims = dims, .dim_count = 2});
  const float zero[6] = {0}, ones[6] = {1, 1, 1, 1, 1, 1};
  nabla_array *out;
  for (size_t n = 1; n <= 6; n++) {
    nabla_array *both[2] = {vector(n, zero), vector(n, zero)};
    cr_assert_eq(call(2, both, &out), NABLA_OK, "%s", diag.what);
    cr_expect_eq(nabla_array_dense(out)->shape[0], (int64_t)n);
    expect(out, n, ones);
  }
  cr_expect_eq(traces, 1);
  nabla_blob text = {.bytes = NULL};
  print(&text);
  cr_expect(strstr(text.bytes, "nabla.dims = \"n\"") &&
                strstr(text.bytes, "tensor<?xf32>"),
            "%s", text.bytes);
  nabla_blob_release(&text);
  nabla_array *both[2] = {vector(2, zero), vector(3, zero)};
  cr_expect_eq(call(2, both, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "'n' is 3 in dimension 0 of '1', 2 before"), "%s",
            diag.what);
}

static void sum(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                void *self) {
  (void)s, (void)self;
  out->array = nabla_add(in->items[0].array, in->items[1].array);
}

Test(function, sizes_of_other_names_do_not_go_together) {
  static const nabla_function_dim dims[] = {{"0", 0, "rows"}, {"1", 0, "n"}};
  create_with(sum, (nabla_function_options){.dims = dims, .dim_count = 2});
  nabla_array *both[2] = {three(1, 2, 3), three(1, 2, 3)}, *out;
  cr_expect_eq(call(2, both, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what,
                   "nabla_add(F32[rows], F32[n]): shapes that do not "
                   "broadcast: sizes rows and n"),
            "%s", diag.what);
  cr_expect_eq(nabla_scope_status(scope, NULL), NABLA_INVALID_ARGUMENT);
}

Test(function, options_name_arguments) {
  static const nabla_function_dim dims[] = {{"7", 0, "n"}};
  create_with(square, (nabla_function_options){.dims = dims, .dim_count = 1});
  nabla_array *x = three(1, 2, 3), *out;
  cr_expect_eq(call(1, &x, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "'7', which is no argument"), "%s", diag.what);
}

/* ---- failures ---- */

static void reads(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)s;
  nabla_dense value;
  nabla_diag own;
  nabla_array *y = nabla_add(in->items[0].array, in->items[0].array);
  cr_expect_eq(nabla_array_read(self ? y : in->items[0].array, &value, &own),
               NABLA_INVALID_ARGUMENT);
  out->array = y;
}

Test(function, reading_within_a_trace_names_the_place) {
  nabla_array *x = three(1, 2, 3), *out;
  for (int i = 0; i < 2; i++) {
    create_with(reads, (nabla_function_options){.self = i ? &i : NULL});
    cr_expect_eq(call(1, &x, &out), NABLA_INVALID_ARGUMENT);
    cr_expect(strstr(diag.what, "f is being traced"), "%s", diag.what);
    cr_expect(strstr(diag.file, "function_test.c:"), "%s", diag.file);
    nabla_function_destroy(function);
  }
  create(square); /* the scope stays usable */
  expect_three(call_one(x), 1, 4, 9);
}

static nabla_array *leaked;

static void leaves_nothing(nabla_scope *s, const nabla_tree *in,
                           nabla_tree *out, void *self) {
  (void)s, (void)out;
  leaked = nabla_retain(nabla_add(in->items[0].array, in->items[0].array));
  if (self) cr_expect_null(nabla_keep(leaked, scope));
}

Test(function, results_are_not_null_and_traces_keep_their_arrays) {
  nabla_array *x = three(1, 2, 3), *out;
  create(leaves_nothing);
  cr_expect_eq(call(1, &x, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "left the result '' NULL"), "%s", diag.what);
  cr_expect_null(nabla_add(leaked, leaked));
  nabla_release(leaked);
  nabla_function_destroy(function);
  nabla_scope_clear(scope);
  create_with(leaves_nothing, (nabla_function_options){.self = &x});
  cr_expect_eq(call(1, &x, &out), NABLA_INVALID_ARGUMENT);
  (void)nabla_scope_status(scope, &diag);
  cr_expect(strstr(diag.what, "within the trace"), "%s", diag.what);
  nabla_release(leaked);
  x = NULL;
  nabla_scope_clear(scope);
  cr_expect_eq(call(1, &x, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "argument 0 is NULL"), "%s", diag.what);
}

static void ends_its_scope(nabla_scope *s, const nabla_tree *in,
                           nabla_tree *out, void *self) {
  (void)in, (void)out, (void)self;
  nabla_scope_end(s);
}

static void makes_another_tree(nabla_scope *s, const nabla_tree *in,
                               nabla_tree *out, void *self) {
  (void)s, (void)self;
  *out = in->items[0];
  out->kind = NABLA_TREE_NONE;
}

Test(function, callbacks_that_misbehave) {
  nabla_array *x = three(1, 2, 3), *out;
  create(ends_its_scope);
  cr_expect_eq(call(1, &x, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "ended the scope"), "%s", diag.what);
  nabla_function_destroy(function);
  create(makes_another_tree);
  cr_expect_eq(call(1, &x, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "another structure"), "%s", diag.what);
}

static void calls_itself(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                         void *self) {
  (void)s, (void)self;
  nabla_diag own;
  (void)!nabla_function_call(function, in, out, &own);
}

Test(function, endless_recursion_is_refused) {
  nabla_array *x = three(1, 2, 3), *out;
  create(calls_itself);
  cr_expect_eq(call(1, &x, &out), NABLA_TOO_LARGE);
  cr_expect(strstr(diag.what, "deep while they are traced"), "%s", diag.what);
}

Test(function, bad_options) {
  nabla_function_options options = {.struct_size = sizeof options};
  static const nabla_function_replacement donated[] = {{"0", NULL}};
  static const nabla_function_replacement states[] = {{"", "0"}};
  static const nabla_function_dim dims[] = {{"0", 0, ""}};
  nabla_function *out = NULL;
  options.donated = donated;
  options.donated_count = 1;
  cr_expect_eq(nabla_function_create(engine, square, &options, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  options.donated_count = 0;
  options.states = states;
  options.state_count = 1;
  cr_expect_eq(nabla_function_create(engine, square, &options, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  options.state_count = 0;
  options.dims = dims;
  options.dim_count = 1;
  cr_expect_eq(nabla_function_create(engine, square, &options, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  options.struct_size = 3;
  cr_expect_eq(nabla_function_create(engine, square, &options, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_null(out);
}

/* ---- functions in functions ---- */

static void twice(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)s;
  nabla_diag own;
  nabla_tree item = in->items[0];
  const nabla_tree list = nabla_tree_of_list(1, &item);
  for (int i = 0; i < 2; i++) {
    nabla_tree result = nabla_tree_of_array(NULL);
    cr_expect_eq(nabla_function_call(self, &list, &result, &own), NABLA_OK);
    item.array = result.array;
  }
  out->array = item.array;
}

Test(function, calls_within_a_trace_are_part_of_it) {
  nabla_function *inner;
  create(square);
  inner = function;
  create_with(twice, (nabla_function_options){.self = inner});
  expect_three(call_one(three(1, 2, 3)), 1, 16, 81);
  cr_expect_eq(count().misses, 1);
  nabla_function_destroy(inner);
}

/* ---- sessions ---- */

static void accumulate(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                       void *self) {
  (void)self;
  nabla_array *sum_of = nabla_add(in->items[0].array, in->items[1].array);
  out->items[0].array = sum_of;
  out->items[1].array = nabla_mul(sum_of, nabla_scalar(s, 10));
}

Test(function, states_live_in_sessions) {
  static const nabla_function_replacement states[] = {{"0", "0"}};
  nabla_session *session = NULL, *other = NULL;
  create_with(accumulate,
              (nabla_function_options){.states = states, .state_count = 1});
  nabla_tree items[2] = {nabla_tree_of_array(three(1, 2, 3)),
                         nabla_tree_of_array(three(0, 0, 0))};
  const nabla_tree in = nabla_tree_of_list(2, items);
  nabla_tree results[2] = {nabla_tree_of_array(NULL),
                           nabla_tree_of_array(NULL)};
  nabla_tree out = nabla_tree_of_list(2, results);
  cr_assert_eq(
      nabla_function_session(function, &in, &out, NULL, &session, &diag),
      NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_function_session(function, &in, &out, NULL, &other, &diag),
               NABLA_OK, "%s", diag.what);
  float step[3] = {1, 1, 1}, value[3];
  const nabla_dense x = {step, NABLA_DTYPE_F32, 1, {3}};
  nabla_dense y = {value, NABLA_DTYPE_F32, 1, {3}};
  for (int i = 1; i <= 3; i++) {
    cr_assert_eq(nabla_session_run(session, "main", &x, 1, &y, 1, &diag),
                 NABLA_OK, "%s", diag.what);
    cr_expect_eq(value[2], (float)(10 * (3 + i)));
  }
  cr_assert_eq(nabla_session_run(other, "main", &x, 1, &y, 1, &diag), NABLA_OK);
  cr_expect_eq(value[2], 40);
  cr_expect_eq(count().misses, 1);
  cr_expect_eq(nabla_function_call(function, &in, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "has states"), "%s", diag.what);
  nabla_session_close(session);
  nabla_session_close(other);
}

/* ---- donated arguments ---- */

static void train(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)s, (void)self;
  out->items[0].array = nabla_sub(in->items[0].array, in->items[1].array);
}

static nabla_status step_of(nabla_array *w, nabla_array *g, nabla_array **out) {
  nabla_tree items[2] = {nabla_tree_of_array(w), nabla_tree_of_array(g)};
  nabla_tree result = nabla_tree_of_array(NULL);
  const nabla_tree in = nabla_tree_of_list(2, items);
  nabla_tree results = nabla_tree_of_list(1, &result);
  const nabla_status status =
      nabla_function_call(function, &in, &results, &diag);
  *out = result.array;
  return status;
}

Test(function, donated_arguments_are_overwritten) {
  static const nabla_function_replacement donated[] = {{"0", "0"}};
  create_with(train,
              (nabla_function_options){.donated = donated, .donated_count = 1});
  nabla_array *w = three(5, 6, 7), *g = three(1, 1, 1), *next;
  const void *memory = nabla_array_dense(w)->data;
  cr_assert_eq(step_of(w, g, &next), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_array_dense(next)->data, memory); /* in place */
  expect_three(next, 4, 5, 6);
  cr_expect_null(nabla_array_dense(w)->data);
  cr_expect_null(nabla_neg(w));
  (void)nabla_scope_status(scope, &diag);
  cr_expect(strstr(diag.what, "was donated to a function"), "%s", diag.what);
  nabla_scope_clear(scope);
  w = next;
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(step_of(w, g, &next), NABLA_OK);
    cr_expect_eq(nabla_array_dense(next)->data, memory);
    w = next;
  }
  expect_three(w, 1, 2, 3);
  /* what something else needs is copied: an operation, the other argument,
   * borrowed memory */
  nabla_array *pending = nabla_neg(w);
  cr_assert_eq(step_of(w, g, &next), NABLA_OK);
  cr_expect_neq(nabla_array_dense(next)->data, memory);
  expect_three(next, 0, 1, 2);
  expect_three(pending, -1, -2, -3);
  cr_assert_eq(step_of(w, w, &next), NABLA_OK, "%s", diag.what);
  expect_three(next, 0, 0, 0);
  expect_three(w, 1, 2, 3);
  static const float values[3] = {1, 2, 3};
  const nabla_dense dense = {(void *)values, NABLA_DTYPE_F32, 1, {3}};
  cr_assert_eq(step_of(nabla_array_borrow(scope, &dense), g, &next), NABLA_OK);
  expect_three(next, 0, 1, 2);
  cr_expect_eq(values[2], 3);
  cr_expect_eq(count().misses, 1);
  nabla_blob text = {.bytes = NULL};
  print(&text);
  cr_expect(strstr(text.bytes, "nabla.donated"), "%s", text.bytes);
  nabla_blob_release(&text);
}

static void add_one(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)self;
  out->array = nabla_add(in->array, nabla_scalar(s, 1));
}

/* A tree that is one array has a leaf without a name. */
Test(function, one_array_is_donated_to_one_result) {
  static const nabla_function_replacement donated[] = {{"", ""}};
  static const nabla_function_replacement wrong[] = {{"", "0"}};
  create_with(add_one,
              (nabla_function_options){.donated = donated, .donated_count = 1});
  nabla_array *x = three(1, 2, 3);
  const void *memory = nabla_array_dense(x)->data;
  nabla_tree in = nabla_tree_of_array(x), out = nabla_tree_of_array(NULL);
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_eq(nabla_array_dense(out.array)->data, memory);
  expect_three(out.array, 2, 3, 4);
  nabla_function_destroy(function);
  create_with(add_one,
              (nabla_function_options){.donated = wrong, .donated_count = 1});
  in = nabla_tree_of_array(out.array);
  out = nabla_tree_of_array(NULL);
  cr_expect_eq(nabla_function_call(function, &in, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_str_eq(diag.next, "the results are one array, whose name is ''");
}

static void shrink(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)s, (void)self;
  out->items[0].array = nabla_sum(in->items[0].array, NABLA_ALL_DIMS, 0);
}

Test(function, results_take_the_memory_of_their_shape) {
  static const nabla_function_replacement donated[] = {{"0", "0"}};
  create_with(shrink,
              (nabla_function_options){.donated = donated, .donated_count = 1});
  nabla_array *w = three(1, 2, 3), *next;
  cr_expect_eq(step_of(w, w, &next), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "cannot take the memory of '0'"), "%s",
            diag.what);
  expect_three(w, 1, 2, 3);
  static const nabla_function_replacement none[] = {{"w", "0"}};
  nabla_function_destroy(function);
  create_with(shrink,
              (nabla_function_options){.donated = none, .donated_count = 1});
  cr_expect_eq(step_of(w, w, &next), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "'w', which is no argument"), "%s", diag.what);
  cr_expect_str_eq(diag.next, "the arguments have the leaves 0, 1");
}

static nabla_array *packed_weight;

static void project(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)s, (void)self;
  out->array = nabla_linear(in->array, packed_weight, nabla_none());
}

Test(function, packed_arrays_are_captured_and_bound) {
  const nabla_storage nf4 = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  const int64_t shape[2] = {3, 64}, row[2] = {1, 64};
  packed_weight =
      nabla_quantize(nabla_ones(scope, NABLA_DTYPE_F32, 2, shape), &nf4);
  create(project);
  nabla_array *x = nabla_ones(scope, NABLA_DTYPE_F32, 2, row);
  const nabla_tree in = nabla_tree_of_array(x);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_session *session;
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  expect_three(out.array, 64, 64, 64);
  cr_assert_eq(
      nabla_function_session(function, &in, &out, NULL, &session, &diag),
      NABLA_OK, "%s", diag.what);
  float value[3] = {0};
  nabla_dense y = {value, NABLA_DTYPE_F32, 2, {1, 3}};
  cr_assert_eq(
      nabla_session_run(session, "main", nabla_array_dense(x), 1, &y, 1, &diag),
      NABLA_OK, "%s", diag.what);
  cr_expect_eq(value[2], 64);
  nabla_session_close(session);
}

/* ---- operations of unknown sizes ---- */

static nabla_array *operate(nabla_array *x, int which) {
  switch (which) {
    case 0:
      return nabla_sum(x, NABLA_DIMS(0), 0);
    case 1:
      return nabla_softmax(x, 1);
    case 2:
      return nabla_matmul(x, nabla_transpose(x, 0, NULL));
    case 3:
      return nabla_reshape(x, NABLA_DIMS(-1));
    case 4:
      return nabla_mul(nabla_unsqueeze(x, 1), nabla_unsqueeze(x, 2));
    case 5:
      return nabla_sub(x, nabla_mean(x, NABLA_DIMS(0), 1));
    case 6:
      return nabla_mul(x, nabla_ones_like(x));
    case 7: {
      nabla_array *const twice_x[2] = {x, x};
      return nabla_concatenate(2, twice_x, 0);
    }
    case 8:
      return nabla_relu(nabla_flatten(x, 0, 1));
    case 9:
      return nabla_argmax(x, 0, 0);
    case 10:
      return nabla_where(nabla_less(x, nabla_mean(x, NABLA_ALL_DIMS, 0)), x,
                         nabla_neg(x));
    default:
      return nabla_broadcast_to(nabla_sum(x, NABLA_ALL_DIMS, 0),
                                nabla_array_dense(x)->rank,
                                nabla_array_dense(x)->shape);
  }
}
enum { OPERATIONS = 12 };

static void operate_all(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                        void *self) {
  (void)s, (void)self;
  for (int i = 0; i < OPERATIONS; i++)
    out->items[i].array = operate(in->items[0].array, i);
}

/* The same operations of known sizes are the oracle. */
Test(function, operations_of_unknown_sizes) {
  static const nabla_function_dim dims[] = {{"0", 0, "n"}};
  create_with(operate_all,
              (nabla_function_options){.dims = dims, .dim_count = 1});
  const int64_t sizes[] = {4, 1, 7};
  for (int k = 0; k < 3; k++) {
    const int64_t shape[2] = {sizes[k], 3};
    nabla_array *x =
        nabla_normal(nabla_integer(scope, k), NABLA_DTYPE_F32, 2, shape);
    nabla_tree item = nabla_tree_of_array(x), results[OPERATIONS];
    for (int i = 0; i < OPERATIONS; i++) results[i] = nabla_tree_of_array(NULL);
    const nabla_tree in = nabla_tree_of_list(1, &item);
    nabla_tree out = nabla_tree_of_list(OPERATIONS, results);
    cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK,
                 "%s", diag.what);
    for (int i = 0; i < OPERATIONS; i++) {
      nabla_dense got, want;
      cr_assert_eq(nabla_array_read(operate(x, i), &want, &diag), NABLA_OK);
      cr_assert_eq(nabla_array_read(results[i].array, &got, &diag), NABLA_OK);
      size_t bytes = got.dtype == NABLA_DTYPE_I64 ? 8 : 4;
      cr_assert_eq(got.rank, want.rank, "%d", i);
      for (uint32_t d = 0; d < got.rank; d++) {
        cr_assert_eq(got.shape[d], want.shape[d], "%d: %d", i, (int)d);
        bytes *= (size_t)got.shape[d];
      }
      const float *a = got.data, *b = want.data;
      if (got.dtype == NABLA_DTYPE_I64)
        cr_expect_arr_eq(got.data, want.data, bytes, "%d", i);
      else
        for (size_t e = 0; e < bytes / 4; e++)
          cr_expect(a[e] - b[e] < 1e-5f && b[e] - a[e] < 1e-5f,
                    "%d of %d: %g, not %g", i, (int)sizes[k], (double)a[e],
                    (double)b[e]);
    }
  }
  cr_expect_eq(count().misses, 1);
}

/* ---- threads ---- */

static void *work(void *self) {
  float *result = self;
  nabla_scope *own;
  nabla_diag why;
  if (nabla_scope_create(engine, &own, &why)) return NULL;
  for (int i = 0; i < 20; i++) {
    const float values[4] = {*result, 2, 3, 4};
    const nabla_dense dense = {(void *)values, NABLA_DTYPE_F32, 1, {1 + i % 4}};
    nabla_tree item = nabla_tree_of_array(nabla_array_of(own, &dense));
    const nabla_tree in = nabla_tree_of_list(1, &item);
    nabla_tree out = nabla_tree_of_array(NULL);
    nabla_dense value;
    if (nabla_function_call(function, &in, &out, &why) ||
        nabla_array_read(out.array, &value, &why)) {
      cr_log_error("%s", why.what);
      return NULL;
    }
    if (*(const float *)value.data != *result * *result) return NULL;
  }
  nabla_scope_end(own);
  return self;
}

Test(function, threads_share_signatures) {
  create_with(square, (nabla_function_options){.max_signatures = 3,
                                               .max_traces = 1000});
  pthread_t threads[4];
  float values[4] = {3, 4, 5, 6};
  for (int i = 0; i < 4; i++)
    cr_assert_eq(pthread_create(&threads[i], NULL, work, &values[i]), 0);
  for (int i = 0; i < 4; i++) {
    void *result;
    cr_assert_eq(pthread_join(threads[i], &result), 0);
    cr_expect_not_null(result);
  }
  cr_expect_leq(count().signatures, 3);
  cr_expect_eq(count().misses + count().hits, 80);
}
