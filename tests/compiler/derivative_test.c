/* nabla/derivative.h: gradients against central differences in f64, trees,
 * other results, captured arrays, signatures, and what is refused. */
#include "nabla/derivative.h"

#include "tests/support/derivatives.h"

TestSuite(derivative, .init = set_up, .fini = tear_down_functions,
          .timeout = 300);

/* ---- gradients ---- */

/* sum(tanh(x y) + x^2), of vectors */
static void scalar_of_two(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                          void *self) {
  (void)s, (void)self;
  nabla_array *x = in->items[0].array, *y = in->items[1].array;
  out->array =
      nabla_sum(nabla_add(nabla_tanh(nabla_mul(x, y)), nabla_mul(x, x)),
                NABLA_ALL_DIMS, 0);
}

static const double xs[3] = {.3, -1.2, 2}, ys[3] = {.7, .2, -.4};

static void gradient_of_x(double *out) {
  for (int i = 0; i < 3; i++) {
    const double t = tanh(xs[i] * ys[i]);
    out[i] = (1 - t * t) * ys[i] + 2 * xs[i];
  }
}

Test(derivative, gradient_of_the_first_argument) {
  double want[3];
  gradient_of_x(want);
  nabla_function *f = make(scalar_of_two, NULL);
  nabla_function *g = derive(nabla_grad, f, none);
  nabla_array *in[2] = {vector(3, xs), vector(3, ys)};
  expect(call(g, 2, in), 3, want, 1e-12);
  expect(call(g, 2, in), 3, want, 1e-12);
  nabla_function_statistics counts = {.struct_size = sizeof counts};
  cr_assert_eq(nabla_function_count(g, &counts, &diag), NABLA_OK);
  cr_expect_eq(counts.misses, 1);
  cr_expect_eq(counts.hits, 1);
}

Test(derivative, value_and_gradients_of_both) {
  static const char *const wrt[] = {"1", "0"};
  double want[3];
  gradient_of_x(want);
  nabla_function *f = make(scalar_of_two, NULL);
  nabla_function *g =
      derive(nabla_value_and_grad, f,
             (nabla_derivative_options){.wrt = wrt, .wrt_count = 2});
  nabla_array *in[2] = {vector(3, xs), vector(3, ys)};
  nabla_tree gradients[2] = {nabla_tree_of_array(NULL),
                             nabla_tree_of_array(NULL)};
  nabla_tree results[2] = {nabla_tree_of_array(NULL),
                           nabla_tree_of_list(2, gradients)};
  nabla_tree out = nabla_tree_of_list(2, results);
  cr_assert_eq(try_call(g, 2, in, &out), NABLA_OK, "%s", diag.what);
  expect(gradients[1].array, 3, want, 1e-12);
  expect(results[0].array, 1, read(call(f, 2, in)), 1e-12);
  for (int i = 0; i < 3; i++) {
    const double t = tanh(xs[i] * ys[i]);
    want[i] = (1 - t * t) * xs[i];
  }
  expect(gradients[0].array, 3, want, 1e-12);
}

/* The gradient of a sum of a gradient: a second derivative. */
static void sum_of(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  nabla_tree inner = nabla_tree_of_array(NULL);
  (void)s;
  if (nabla_function_call(self, in, &inner, NULL)) return;
  out->array = nabla_sum(inner.array, NABLA_ALL_DIMS, 0);
}

Test(derivative, gradient_of_a_gradient) {
  double want[3];
  nabla_function *f = make(scalar_of_two, NULL);
  nabla_function *g = derive(nabla_grad, f, none);
  nabla_function *h = derive(nabla_grad, make(sum_of, g), none);
  nabla_array *in[2] = {vector(3, xs), vector(3, ys)};
  for (int i = 0; i < 3; i++) {
    const double t = tanh(xs[i] * ys[i]);
    want[i] = -2 * t * (1 - t * t) * ys[i] * ys[i] + 2;
  }
  expect(call(h, 2, in), 3, want, 1e-12);
}

/* ---- trees, other results, captured arrays ---- */

typedef struct layer {
  nabla_array *w, *b;
} layer;
static const nabla_tree_member layer_members[] = {NABLA_TREE_MEMBER(layer, w),
                                                  NABLA_TREE_MEMBER(layer, b)};
static const nabla_tree_layout layer_layout = NABLA_TREE_LAYOUT(layer);
typedef struct net {
  layer layers[2];
  nabla_array *steps; /* an integer */
} net;
static const nabla_tree_member net_members[] = {
    NABLA_TREE_MEMBER_STRUCT(net, layers, layer_layout),
    NABLA_TREE_MEMBER(net, steps)};
static const nabla_tree_layout net_layout = NABLA_TREE_LAYOUT(net);

static net make_net(void) {
  static const int64_t wide[2] = {3, 4}, narrow[2] = {4, 2};
  return (net){{{filled(2, wide, 1), filled(1, &wide[1], 2)},
                {filled(2, narrow, 3), filled(1, &narrow[1], 4)}},
               nabla_full(scope, NABLA_DTYPE_I32, 0, NULL, 7)};
}

/* A list: the loss of the net, whose input is `self`; fields: the outputs, and
 * the steps. */
static void net_loss(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  (void)s;
  const net *n = in->items[0].data;
  nabla_array *x = self;
  for (int i = 0; i < 2; i++)
    x = nabla_tanh(nabla_add(nabla_matmul(x, n->layers[i].w), n->layers[i].b));
  out->items[0].array = nabla_mean(nabla_mul(x, x), NABLA_ALL_DIMS, 0);
  out->items[1].items[0].array = x;
  out->items[1].items[1].array = n->steps;
}

static double loss_of(nabla_function *f, const net *n) {
  nabla_tree item = nabla_tree_of_struct(&net_layout, (void *)n);
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree other[2] = {{.kind = NABLA_TREE_ARRAY},
                         {.kind = NABLA_TREE_ARRAY}};
  nabla_tree results[2] = {{.kind = NABLA_TREE_ARRAY},
                           nabla_tree_of_list(2, other)};
  nabla_tree out = nabla_tree_of_list(2, results);
  cr_assert_eq(nabla_function_call(f, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  return read(results[0].array)[0];
}

/* Compares a gradient with differences of the loss in one array of `n`. */
static void expect_difference(nabla_function *f, net *n, nabla_array **place,
                              nabla_array *gradient) {
  const nabla_dense dense = *nabla_array_dense(*place);
  nabla_array *kept = *place;
  const double *have = read(gradient);
  double values[64];
  size_t count = 1;
  for (uint32_t d = 0; d < dense.rank; d++) count *= (size_t)dense.shape[d];
  memcpy(values, read(kept), count * sizeof *values);
  for (size_t i = 0; i < count; i += 3) {
    const double x = values[i];
    double sides[2];
    for (int side = 0; side < 2; side++) {
      values[i] = x + (side ? 1e-6 : -1e-6);
      *place = array(dense.rank, dense.shape, values);
      sides[side] = loss_of(f, n);
    }
    values[i] = x;
    cr_expect_float_eq(have[i], (sides[1] - sides[0]) / 2e-6, 1e-8);
  }
  *place = kept;
}

Test(derivative, gradients_of_a_tree_and_a_captured_array) {
  static const int64_t shape[2] = {2, 3};
  static const char *const wrt[] = {"0.layers"};
  nabla_array *x = filled(2, shape, .5);
  net n = make_net(), gradients = {.steps = NULL};
  nabla_function *f = make(net_loss, x);
  nabla_function *g = derive(nabla_value_and_grad, f,
                             (nabla_derivative_options){.wrt = wrt,
                                                        .wrt_count = 1,
                                                        .captured = &x,
                                                        .captured_count = 1,
                                                        .has_aux = 1});
  nabla_tree item = nabla_tree_of_struct(&net_layout, &n);
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree layers[2],
      other[2] = {{.kind = NABLA_TREE_ARRAY}, {.kind = NABLA_TREE_ARRAY}};
  for (int i = 0; i < 2; i++)
    layers[i] = nabla_tree_of_struct(&layer_layout, &gradients.layers[i]);
  nabla_tree entries[2] = {nabla_tree_of_list(2, layers),
                           nabla_tree_of_array(NULL)};
  nabla_tree value[2] = {nabla_tree_of_array(NULL),
                         nabla_tree_of_list(2, other)};
  nabla_tree results[2] = {nabla_tree_of_list(2, value),
                           nabla_tree_of_list(2, entries)};
  nabla_tree out = nabla_tree_of_list(2, results);
  cr_assert_eq(nabla_function_call(g, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_float_eq(read(value[0].array)[0], loss_of(f, &n), 1e-14);
  cr_expect_eq(read(other[1].array)[0], 7);
  for (int i = 0; i < 2; i++) {
    expect_difference(f, &n, &n.layers[i].w, gradients.layers[i].w);
    expect_difference(f, &n, &n.layers[i].b, gradients.layers[i].b);
  }
  cr_expect_eq(nabla_array_dense(entries[1].array)->shape[1], 3);
  cr_expect_neq(read(entries[1].array)[0], 0);
}

/* ---- sizes that are not known ---- */

Test(derivative, one_trace_for_all_sizes) {
  static const nabla_function_dim dims[] = {{"0", 0, "n"}, {"1", 0, "n"}};
  const nabla_function_options options = {
      .struct_size = sizeof options, .name = "f", .dims = dims, .dim_count = 2};
  nabla_function *f, *g;
  double want[3];
  gradient_of_x(want);
  cr_assert_eq(
      nabla_function_create(engine, scalar_of_two, &options, &f, &diag),
      NABLA_OK);
  g = derive(nabla_grad, keep(f), none);
  for (size_t size = 1; size <= 3; size++) {
    nabla_array *in[2] = {vector(size, xs), vector(size, ys)};
    expect(call(g, 2, in), size, want, 1e-12);
  }
  nabla_function_statistics counts = {.struct_size = sizeof counts};
  cr_assert_eq(nabla_function_count(g, &counts, &diag), NABLA_OK);
  cr_expect_eq(counts.misses, 1);
  cr_expect_eq(counts.hits, 2);
}

/* ---- what is refused ---- */

static void identity(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  (void)s, (void)self;
  out->array = in->items[0].array;
}

static void refused(nabla_function *f, nabla_derivative_options options,
                    nabla_array *x, const char *text) {
  nabla_function *g = derive(nabla_grad, f, options);
  nabla_tree out = nabla_tree_of_array(NULL);
  diag.what[0] = 0;
  cr_expect_eq(try_call(g, 1, &x, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, text), "'%s' lacks '%s'", diag.what, text);
  cr_expect(strstr(diag.what, "nabla_grad of f"), "%s", diag.what);
  cr_expect_null(out.array);
  nabla_scope_clear(scope);
}

Test(derivative, what_has_no_gradient_is_refused) {
  static const char *const missing[] = {"2"}, *const twice[] = {"0", ""};
  nabla_array *x = vector(3, xs);
  nabla_function *f = make(identity, NULL);
  refused(f, none, x, "the value is F64 of rank 1");
  refused(f, none, nabla_full(scope, NABLA_DTYPE_I32, 0, NULL, 3),
          "the value is I32 of rank 0");
  nabla_array *number = nabla_full(scope, NABLA_DTYPE_F32, 0, NULL, 3);
  refused(f, (nabla_derivative_options){.wrt = missing, .wrt_count = 1}, number,
          "no argument is called '2'");
  cr_expect_str_eq(diag.next, "the arguments have the leaves 0");
  refused(f, (nabla_derivative_options){.wrt = twice, .wrt_count = 2}, number,
          "the argument '0' is named twice");
  refused(f, (nabla_derivative_options){.captured = &x, .captured_count = 1},
          number, "captured array 0 is not used");
}

static void sum_of_converted(nabla_scope *s, const nabla_tree *in,
                             nabla_tree *out, void *self) {
  (void)s, (void)self;
  out->array = nabla_sum(nabla_convert(in->items[0].array, NABLA_DTYPE_F32),
                         NABLA_ALL_DIMS, 0);
}

static void sum_of_decoded(nabla_scope *s, const nabla_tree *in,
                           nabla_tree *out, void *self) {
  (void)s, (void)self;
  out->array =
      nabla_sum(nabla_materialize(in->items[0].array), NABLA_ALL_DIMS, 0);
}

Test(derivative, arguments_that_have_no_gradient_are_refused) {
  const int64_t shape[2] = {2, 64};
  refused(make(sum_of_converted, NULL), none,
          nabla_full(scope, NABLA_DTYPE_I32, 2, shape, 3),
          "the argument '0' is I32: derivatives are of floats");
  const nabla_storage layout = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  nabla_array *w =
      nabla_quantize(nabla_full(scope, NABLA_DTYPE_F32, 2, shape, 3), &layout);
  refused(make(sum_of_decoded, NULL), none, w,
          "nabla_quantize, train nabla_lora_init beside it, or pass a copy by "
          "nabla_materialize");
}

static void sum_of_logs(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                        void *self) {
  (void)s, (void)self;
  out->array = nabla_sum(nabla_log(in->items[0].array), NABLA_ALL_DIMS, 0);
}

Test(derivative, gradients_that_are_not_finite_fail) {
  const double zero[3] = {1, 0, 2}, want[3] = {1, .5, .25}, at[3] = {1, 2, 4};
  nabla_function *g = derive(nabla_grad, make(sum_of_logs, NULL),
                             (nabla_derivative_options){.check_finite = 1});
  nabla_array *x = vector(3, at);
  expect(call(g, 1, &x), 3, want, 1e-15);
  nabla_tree out = nabla_tree_of_array(NULL);
  x = vector(3, zero);
  cr_expect_neq(try_call(g, 1, &x, &out), NABLA_OK);
  cr_expect(strstr(diag.what, "the gradient of @f."), "%s", diag.what);
}

/* ---- packed weights ---- */

/* sum(tanh(x w^T)^2), in f32 */
static void product(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)s;
  nabla_array *w = self ? self : in->items[1].array;
  nabla_array *y =
      nabla_tanh(nabla_linear(in->items[0].array, w, nabla_none()));
  out->array = nabla_sum(nabla_mul(y, y), NABLA_ALL_DIMS, 0);
}

static nabla_array *pack(void) {
  static const int64_t shape[2] = {32, 64};
  const nabla_storage layout = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  nabla_array *w = nabla_quantize(
      nabla_normal(nabla_integer(scope, 1), NABLA_DTYPE_F32, 2, shape),
      &layout);
  cr_assert_eq(nabla_realize(scope, 1, &w, &diag), NABLA_OK, "%s", diag.what);
  return w;
}

Test(derivative, gradients_through_packed_weights_are_those_of_decoded_ones) {
  static const int64_t shape[2] = {3, 64};
  nabla_array *w = pack();
  nabla_array *x = nabla_mul(
      nabla_normal(nabla_integer(scope, 2), NABLA_DTYPE_F32, 2, shape),
      nabla_scalar(scope, .1));
  nabla_function *g = derive(nabla_grad, make(product, NULL), none);
  nabla_function *captured = derive(nabla_grad, make(product, w), none);
  nabla_array *packed[2] = {x, w}, *dense[2] = {x, nabla_materialize(w)};
  const double *want = read(call(g, 2, dense));
  expect(call(g, 2, packed), 3 * 64, want, 1e-5);
  expect(call(captured, 1, packed), 3 * 64, want, 1e-5);
}

Test(derivative, adapters_are_merged_and_unmerged) {
  nabla_array *w = pack(), *a, *b;
  nabla_lora_init(w, nabla_integer(scope, 3), 4, &a, &b);
  cr_assert_not_null(a);
  cr_expect_eq(nabla_array_dense(a)->shape[1], 64);
  cr_expect_eq(nabla_array_dense(b)->shape[0], 32);
  const double *dense = read(nabla_materialize(w));
  expect(nabla_lora_merge(w, a, b, 2), 32 * 64, dense, 0);
  nabla_array *ones = nabla_ones_like(b);
  nabla_array *merged = nabla_lora_merge(w, a, ones, 2);
  const double *factor = read(a), *have = read(merged);
  double sum = 0;
  for (int r = 0; r < 4; r++) sum += factor[64 * r + 5];
  cr_expect_float_eq(have[64 * 7 + 5], dense[64 * 7 + 5] + 2 * sum, 1e-5);
  expect(nabla_lora_unmerge(merged, a, ones, 2), 32 * 64, dense, 1e-6);
  cr_expect_null(nabla_lora_merge(w, b, a, 1));
  cr_expect_eq(nabla_scope_status(scope, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "nabla_lora_merge(F32[32, 64], F32[32, 4]"), "%s",
            diag.what);
  nabla_scope_clear(scope);
  nabla_lora_init(w, nabla_integer(scope, 3), 33, &a, &b);
  cr_expect_null(a);
  cr_expect_null(b);
  cr_expect_eq(nabla_scope_status(scope, &diag), NABLA_INVALID_ARGUMENT);
}

Test(derivative, trees_of_other_leaves_are_refused) {
  nabla_function *g =
      derive(nabla_value_and_grad, make(scalar_of_two, NULL), none);
  nabla_array *in[2] = {vector(3, xs), vector(3, ys)};
  nabla_tree out = nabla_tree_of_array(NULL);
  cr_expect_eq(try_call(g, 2, in, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "the results are a list of 2 trees"), "%s",
            diag.what);
  nabla_scope_clear(scope);
  nabla_tree more[2] = {nabla_tree_of_array(NULL), nabla_tree_of_array(NULL)};
  nabla_tree results[2] = {nabla_tree_of_array(NULL),
                           nabla_tree_of_list(2, more)};
  out = nabla_tree_of_list(2, results);
  cr_expect_eq(try_call(g, 2, in, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(
      strstr(diag.what, "gradients has the leaf '0' where one array is wanted"),
      "%s", diag.what);
}

Test(derivative, options_are_checked) {
  nabla_function *f = make(identity, NULL), *out = NULL;
  const nabla_derivative_options old = {.struct_size = 1},
                                 bad = {.struct_size = sizeof bad,
                                        .wrt_count = 1};
  cr_expect_eq(nabla_grad(f, &old, &out, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_grad(f, &bad, &out, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_grad(NULL, NULL, &out, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_value_and_grad(f, NULL, NULL, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_null(out);
}

/* A step whose argument gives its memory to the result, beside packed ones. */
static void descend(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  nabla_tree gradient = nabla_tree_of_array(NULL);
  if (nabla_function_call(self, in, &gradient, NULL)) return;
  out->items[0].array = nabla_sub(
      in->items[0].array, nabla_mul(gradient.array, nabla_scalar(s, .5)));
}

Test(derivative, donated_arguments_beside_packed_ones) {
  static const int64_t shape[2] = {3, 64};
  static const nabla_function_replacement donated[] = {{"0", "0"}};
  nabla_function *g = derive(nabla_grad, make(product, NULL), none), *f;
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .name = "descend",
                                          .self = g,
                                          .donated = donated,
                                          .donated_count = 1};
  cr_assert_eq(nabla_function_create(engine, descend, &options, &f, &diag),
               NABLA_OK);
  keep(f);
  nabla_array *in[2] = {nabla_ones(scope, NABLA_DTYPE_F32, 2, shape), pack()};
  nabla_array *want =
      nabla_sub(in[0], nabla_mul(call(g, 2, in), nabla_scalar(scope, .5)));
  cr_assert_eq(nabla_realize(scope, 1, &want, &diag), NABLA_OK); /* ends uses */
  const double *values = read(want);
  nabla_tree item = nabla_tree_of_array(NULL);
  for (int i = 0; i < 2; i++) { /* the second time with what the first gave */
    nabla_tree out = nabla_tree_of_list(1, &item);
    cr_assert_eq(try_call(f, 2, in, &out), NABLA_OK, "%s", diag.what);
    if (!i) expect(item.array, 3 * 64, values, 1e-6);
    cr_expect_eq(try_call(f, 2, in, &out), NABLA_INVALID_ARGUMENT);
    cr_expect(strstr(diag.what, "donated"), "%s", diag.what);
    nabla_scope_clear(scope);
    in[0] = item.array;
  }
}
