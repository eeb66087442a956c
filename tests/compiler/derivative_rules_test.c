/* nabla/derivative.h: derivatives of one's own, straight-through functions, and
 * those of operations of users. */
#include "nabla/custom_call.h"
#include "nabla/operation.h"
#include "tests/support/derivatives.h"

TestSuite(derivative_rules, .init = set_up, .fini = tear_down_functions,
          .timeout = 300);

static const double xs[3] = {.3, -1.2, 2};

/* The sum of f(x) x, whatever f, `self`, is. */
static void weighted(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  nabla_tree y = nabla_tree_of_array(NULL);
  (void)s;
  if (nabla_function_call(self, in, &y, NULL)) return;
  out->array =
      nabla_sum(nabla_mul(y.array, in->items[0].array), NABLA_ALL_DIMS, 0);
}

/* ---- straight through ---- */

static void rounded(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)self;
  out->array = nabla_floor(nabla_add(in->items[0].array, nabla_scalar(s, .5)));
}

Test(derivative_rules, cotangents_pass_straight_through) {
  nabla_function *f = make(rounded, NULL), *q;
  cr_assert_eq(nabla_straight_through(f, &q, &diag), NABLA_OK);
  keep(q);
  nabla_array *x = vector(3, xs);
  const double values[3] = {0, -1, 2};
  expect(call(q, 1, &x), 3, values, 0);
  nabla_function *with = derive(nabla_grad, make(weighted, q), none);
  nabla_function *without = derive(nabla_grad, make(weighted, f), none);
  double want[3];
  for (int i = 0; i < 3; i++) want[i] = values[i] + xs[i];
  expect(call(with, 1, &x), 3, want, 1e-15);
  expect(call(without, 1, &x), 3, values, 1e-15);
}

/* x as NF4, and the product with it. */
static void packed(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  const nabla_storage layout = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  (void)s, (void)self;
  out->array = nabla_quantize(in->items[0].array, &layout);
}

static void product(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  nabla_tree w = nabla_tree_of_array(NULL);
  (void)s;
  if (nabla_function_call(self, in, &w, NULL)) return;
  nabla_array *y = nabla_linear(in->items[1].array, w.array, nabla_none());
  out->array = nabla_sum(nabla_mul(y, y), NABLA_ALL_DIMS, 0);
}

Test(derivative_rules, packed_results_pass_straight_through) {
  static const int64_t shapes[2][2] = {{32, 64}, {3, 64}};
  nabla_function *f = make(packed, NULL), *q;
  cr_assert_eq(nabla_straight_through(f, &q, &diag), NABLA_OK);
  keep(q);
  nabla_array *in[2];
  for (int i = 0; i < 2; i++)
    in[i] =
        nabla_normal(nabla_integer(scope, i), NABLA_DTYPE_F32, 2, shapes[i]);
  cr_assert_eq(nabla_realize(scope, 2, in, &diag), NABLA_OK);
  nabla_function *with = derive(nabla_grad, make(product, q), none);
  nabla_function *by_quantize = derive(nabla_grad, make(product, f), none);
  const double *want = read(call(by_quantize, 2, in));
  expect(call(with, 2, in), 32 * 64, want, 0);
  cr_expect_neq(want[0], 0);
}

/* ---- rules of functions ---- */

/* (x^2, x + .5) of x */
static void two(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                void *self) {
  (void)self;
  nabla_array *x = in->items[0].array;
  out->items[0].array = nabla_mul(x, x);
  out->items[1].array = nabla_add(x, nabla_scalar(s, .5));
}

static void two_forward(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                        void *self) {
  two(s, in, &out->items[0], self);
  out->items[1].items[0].array = in->items[0].array;
}

/* Ten times the cotangent of the first result by x, and that of the second. */
static void two_backward(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                         void *self) {
  (void)self;
  nabla_array *x = in->items[0].items[0].array;
  const nabla_tree *cotangents = &in->items[1];
  out->items[0].array = nabla_add(
      nabla_mul(nabla_mul(cotangents->items[0].array, x), nabla_scalar(s, 10)),
      cotangents->items[1].array);
}

static void two_jvp(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  nabla_array *t = in->items[1].items[0].array;
  two(s, &in->items[0], &out->items[0], self);
  out->items[1].items[0].array = nabla_mul(t, nabla_scalar(s, 7));
  out->items[1].items[1].array = t;
}

/* The sum of both. */
static void sum_of_two(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                       void *self) {
  nabla_tree items[2] = {nabla_tree_of_array(NULL), nabla_tree_of_array(NULL)};
  nabla_tree both = nabla_tree_of_list(2, items);
  (void)s;
  if (nabla_function_call(self, in, &both, NULL)) return;
  out->array =
      nabla_sum(nabla_add(items[0].array, items[1].array), NABLA_ALL_DIMS, 0);
}

static nabla_function *ruled(void) {
  nabla_function *f = make(two, NULL);
  cr_assert_eq(nabla_function_set_vjp(f, make(two_forward, NULL),
                                      make(two_backward, NULL), 1, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_function_set_jvp(f, make(two_jvp, NULL), &diag), NABLA_OK);
  return f;
}

Test(derivative_rules, rules_are_used_within_others) {
  nabla_function *sum = make(sum_of_two, ruled());
  nabla_function *g = derive(nabla_grad, sum, none);
  nabla_array *x = vector(3, xs);
  double want[3];
  for (int i = 0; i < 3; i++) want[i] = 10 * xs[i] + 1;
  expect(call(g, 1, &x), 3, want, 1e-15);
  double value = 0;
  for (int i = 0; i < 3; i++) value += xs[i] * xs[i] + xs[i] + .5;
  expect(call(sum, 1, &x), 1, &value, 1e-15);
  nabla_function *j =
      derive(nabla_jacobian, sum,
             (nabla_derivative_options){.mode = NABLA_JACOBIAN_FORWARD});
  for (int i = 0; i < 3; i++) want[i] = 8;
  expect(call(j, 1, &x), 3, want, 1e-15);
}

Test(derivative_rules, batches_of_their_gradients) {
  static const int64_t rows[2] = {4, 3};
  nabla_function *g = derive(nabla_grad, make(sum_of_two, ruled()), none), *all;
  cr_assert_eq(nabla_vmap(g, NULL, &all, &diag), NABLA_OK);
  keep(all);
  nabla_array *x = filled(2, rows, 1);
  const double *values = read(x);
  double want[12];
  for (int i = 0; i < 12; i++) want[i] = 10 * values[i] + 1;
  expect(call(all, 1, &x), 12, want, 1e-15);
}

Test(derivative_rules, gradients_of_their_batches) {
  static const int64_t rows[2] = {4, 3};
  nabla_function *all;
  cr_assert_eq(nabla_vmap(ruled(), NULL, &all, &diag), NABLA_OK);
  keep(all);
  nabla_array *x = filled(2, rows, 1);
  const double *values = read(x);
  double want[12];
  for (int i = 0; i < 12; i++) want[i] = 10 * values[i] + 1;
  expect(call(derive(nabla_grad, make(sum_of_two, all), none), 1, &x), 12, want,
         1e-15);
}

/* ---- what does not fit ---- */

static void captures(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  (void)s;
  out->items[0].array = nabla_mul(in->items[0].array, self);
  out->items[1].array = in->items[0].array;
}

static void wrong_backward(nabla_scope *s, const nabla_tree *in,
                           nabla_tree *out, void *self) {
  (void)s, (void)self;
  out->items[0].array =
      nabla_sum(in->items[0].items[0].array, NABLA_ALL_DIMS, 0);
}

static void expect_failure(nabla_function *f, const char *text) {
  nabla_array *x = vector(3, xs);
  nabla_tree items[2] = {nabla_tree_of_array(NULL), nabla_tree_of_array(NULL)};
  nabla_tree out = nabla_tree_of_list(2, items);
  cr_expect_eq(try_call(f, 1, &x, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, text), "%s", diag.what);
  nabla_scope_clear(scope);
}

Test(derivative_rules, rules_that_do_not_fit_are_refused) {
  nabla_array *x = vector(3, xs);
  nabla_function *forward = make(two_forward, NULL);
  nabla_function *f = make(captures, x), *q;
  cr_assert_eq(
      nabla_function_set_vjp(f, forward, make(two_backward, NULL), 1, &diag),
      NABLA_OK);
  expect_failure(f, "captures an array of floats");
  f = make(two, NULL);
  cr_assert_eq(
      nabla_function_set_vjp(f, forward, make(wrong_backward, NULL), 1, &diag),
      NABLA_OK);
  expect_failure(f, "the rule 'backward' gives array 0 as F64 of rank 0");
  cr_expect_eq(nabla_function_set_vjp(f, f, forward, 1, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_assert_eq(nabla_straight_through(make(two, NULL), &q, &diag), NABLA_OK);
  keep(q);
  nabla_array *integers = nabla_full(scope, NABLA_DTYPE_I32, 0, NULL, 3);
  nabla_tree items[2] = {nabla_tree_of_array(NULL), nabla_tree_of_array(NULL)};
  nabla_tree out = nabla_tree_of_list(2, items);
  cr_expect_eq(try_call(q, 1, &integers, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "straight through"), "%s", diag.what);
}

/* ---- operations of users ---- */

static void cube(nabla_scope *s, const nabla_operation_frame *frame,
                 nabla_array **results) {
  (void)s;
  nabla_array *x = frame->operands[0];
  results[0] = nabla_mul(nabla_mul(x, x), x);
}

static nabla_array *twice_the_cube(nabla_array *x, nabla_array *y) {
  (void)x;
  return nabla_add(y, y); /* not 3 x^2: that it is used is seen */
}

static const nabla_operation cube_operation = {
    .struct_size = sizeof cube_operation,
    .name = "rules.cube",
    .kind = NABLA_OPERATION_UNARY,
    .body = cube,
    .derivative = twice_the_cube};
static const nabla_operation plain_operation = {
    .struct_size = sizeof plain_operation,
    .name = "rules.plain",
    .kind = NABLA_OPERATION_UNARY,
    .body = cube};

/* y = 3 x in C, of which no pass knows the derivative */
static nabla_call_code triple(const nabla_call_frame *frame) {
  const double *x = frame->arguments[0].data;
  double *y = frame->results[0].data;
  for (int64_t i = 0; i < frame->arguments[0].dims[0]; i++) y[i] = 3 * x[i];
  return NABLA_CALL_OK;
}

static void triple_vjp(const nabla_operation_frame *frame,
                       nabla_array *const *saved,
                       nabla_array *const *cotangents, nabla_array **out) {
  (void)frame;
  out[0] = nabla_mul(cotangents[0], saved[1]); /* by the result: 3 x */
}

static void triple_jvp(const nabla_operation_frame *frame,
                       nabla_array *const *tangents, nabla_array **out) {
  out[0] = nabla_mul(tangents[0], frame->operands[0]);
}

static const nabla_operation triple_operation = {
    .struct_size = sizeof triple_operation,
    .name = "rules.triple",
    .kind = NABLA_OPERATION_UNARY,
    .handler = "rules.triple",
    .vjp = triple_vjp,
    .jvp = triple_jvp};

static void apply(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)s;
  nabla_array *x = in->items[0].array;
  out->array = nabla_sum(nabla_apply(self, 1, &x, NULL), NABLA_ALL_DIMS, 0);
}

static void expect_both_modes(const nabla_operation *operation,
                              const double *reverse, const double *forward) {
  nabla_function *f = make(apply, (void *)(uintptr_t)operation);
  nabla_array *x = vector(3, xs);
  expect(call(derive(nabla_grad, f, none), 1, &x), 3, reverse, 1e-14);
  nabla_function *j =
      derive(nabla_jacobian, f,
             (nabla_derivative_options){.mode = NABLA_JACOBIAN_FORWARD});
  expect(call(j, 1, &x), 3, forward, 1e-14);
}

Test(derivative_rules, operations_bring_derivatives) {
  static const nabla_call_parameter vector_type = {
      .name = "x", .dtypes = NABLA_CALL_DTYPE(F64), .rank = 1};
  static const nabla_call_handler handler = {.struct_size = sizeof handler,
                                             .target = "rules.triple",
                                             .platform = "cpu",
                                             .traits = NABLA_CALL_PURE,
                                             .arguments = &vector_type,
                                             .argument_count = 1,
                                             .results = &vector_type,
                                             .result_count = 1,
                                             .execute = triple};
  double own[3], plain[3], saved[3];
  for (int i = 0; i < 3; i++) {
    own[i] = 2 * xs[i] * xs[i] * xs[i];
    plain[i] = 3 * xs[i] * xs[i];
    saved[i] = 3 * xs[i];
  }
  cr_assert_eq(nabla_add_call_handler(&handler, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_add_operation(&cube_operation, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_add_operation(&plain_operation, &diag), NABLA_OK);
  cr_assert_eq(nabla_add_operation(&triple_operation, &diag), NABLA_OK, "%s",
               diag.what);
  expect_both_modes(&cube_operation, own, own);
  expect_both_modes(&plain_operation, plain, plain);
  nabla_array *x = vector(3, xs);
  expect(nabla_apply(&triple_operation, 1, &x, NULL), 3, saved, 1e-15);
  expect_both_modes(&triple_operation, saved, xs);
}
