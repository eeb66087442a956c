/* nabla/derivative.h: both modes, jacobians, hessians, batches, and functions
 * that are made of them in any order. */
#include <stdbool.h>

#include "tests/support/derivatives.h"

TestSuite(derivative_modes, .init = set_up, .fini = tear_down_functions,
          .timeout = 300);

/* y = tanh(x w) of x[3], w[3, 4]; and its maximum, and the index of that. */
static void three_results(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                          void *self) {
  (void)s, (void)self;
  nabla_array *y =
      nabla_tanh(nabla_matmul(in->items[0].array, in->items[1].array));
  out->items[0].array = y;
  out->items[1].array = nabla_argmax(y, 0, 0);
  out->items[2].array = nabla_sum(nabla_mul(y, y), NABLA_ALL_DIMS, 0);
}

static const int64_t three[1] = {3}, four[1] = {4}, matrix[2] = {3, 4};

static nabla_tree list_of(size_t count, nabla_tree *items,
                          nabla_array *const *arrays) {
  for (size_t i = 0; i < count; i++)
    items[i] = nabla_tree_of_array(arrays ? arrays[i] : NULL);
  return nabla_tree_of_list(count, items);
}

static double dot(nabla_array *x, nabla_array *y, size_t count) {
  const double *a = read(x), *b = read(y);
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

static void call_trees(nabla_function *function, nabla_tree *in,
                       nabla_tree *out) {
  cr_assert_eq(nabla_function_call(function, in, out, &diag), NABLA_OK, "%s",
               diag.what);
}

Test(derivative_modes, both_modes_are_adjoint) {
  static const char *const wrt[] = {"0", "1"};
  const nabla_derivative_options both = {.wrt = wrt, .wrt_count = 2};
  nabla_function *f = make(three_results, NULL);
  nabla_function *forward = derive(nabla_jvp, f, both);
  nabla_function *reverse = derive(nabla_vjp, f, both);
  nabla_array *const at[2] = {filled(1, three, 1), filled(2, matrix, 2)};
  nabla_array *const v[2] = {filled(1, three, 3), filled(2, matrix, 4)};
  nabla_array *const u[2] = {filled(1, four, 5), filled(0, NULL, 6)};
  nabla_tree items[6][3], in[2], out[2];
  in[0] = list_of(2, items[0], at);
  in[1] = list_of(2, items[1], v);
  out[0] = list_of(3, items[2], NULL);
  /* fields for the leaves that are of floats: "0" and "2" */
  static const char *const names[] = {"0", "2"};
  list_of(2, items[3], NULL);
  out[1] = nabla_tree_of_fields(2, names, items[3]);
  nabla_tree whole = nabla_tree_of_list(2, in);
  nabla_tree results = nabla_tree_of_list(2, out);
  call_trees(forward, &whole, &results);
  const double left =
      dot(items[3][0].array, u[0], 4) + dot(items[3][1].array, u[1], 1);
  const double value = read(items[2][2].array)[0];
  list_of(2, items[4], u);
  in[1] = nabla_tree_of_fields(2, names, items[4]);
  out[1] = list_of(2, items[5], NULL);
  call_trees(reverse, &whole, &results);
  const double right =
      dot(items[5][0].array, v[0], 3) + dot(items[5][1].array, v[1], 12);
  cr_expect_float_eq(left, right, 1e-12);
  cr_expect_gt(fabs(left), 1e-3);
  cr_expect_float_eq(read(items[2][2].array)[0], value, 1e-14);
}

Test(derivative_modes, directions_of_other_types_are_refused) {
  static const char *const wrt[] = {"0", "1"};
  const nabla_derivative_options both = {.wrt = wrt, .wrt_count = 2};
  nabla_function *f = make(three_results, NULL);
  nabla_array *const at[2] = {filled(1, three, 1), filled(2, matrix, 2)};
  nabla_array *const v[2] = {filled(1, three, 3), filled(1, four, 4)};
  nabla_array *const u[2] = {filled(1, three, 5), filled(0, NULL, 6)};
  static const char *const names[] = {"0", "2"};
  nabla_tree items[6][3], in[2], out[2];
  in[0] = list_of(2, items[0], at);
  list_of(2, items[1], u);
  in[1] = nabla_tree_of_fields(2, names, items[1]);
  out[0] = list_of(3, items[2], NULL);
  out[1] = list_of(2, items[3], NULL);
  nabla_tree whole = nabla_tree_of_list(2, in);
  nabla_tree results = nabla_tree_of_list(2, out);
  cr_expect_eq(
      nabla_function_call(derive(nabla_vjp, f, both), &whole, &results, &diag),
      NABLA_INVALID_ARGUMENT);
  cr_expect(
      strstr(diag.what, "the cotangent of '0' is F64[3], the result is F64[4]"),
      "%s", diag.what);
  nabla_scope_clear(scope);
  in[1] = list_of(2, items[4], v);
  out[1] = nabla_tree_of_fields(2, names, items[3]);
  cr_expect_eq(
      nabla_function_call(derive(nabla_jvp, f, both), &whole, &results, &diag),
      NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what,
                   "the tangent of '1' is F64[4], the argument is F64[3, 4]"),
            "%s", diag.what);
}

/* ---- jacobians ---- */

static void two_results(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                        void *self) {
  (void)s, (void)self;
  nabla_array *y =
      nabla_tanh(nabla_matmul(in->items[0].array, in->items[1].array));
  out->items[0].array = y;
  out->items[1].array = nabla_mean(nabla_mul(y, y), NABLA_ALL_DIMS, 0);
}

/* Compares jacobians in x[3] and w[3, 4] with central differences. */
static void check_jacobian(nabla_jacobian_mode mode) {
  static const char *const wrt[] = {"0", "1"};
  static const size_t sizes[2] = {3, 12}, rows[2] = {4, 1};
  nabla_tree shape[2];
  const nabla_tree structure = list_of(2, shape, NULL);
  nabla_function *f = make(two_results, NULL);
  nabla_function *j = derive(
      nabla_jacobian, f,
      (nabla_derivative_options){
          .wrt = wrt, .wrt_count = 2, .mode = mode, .results = &structure});
  nabla_array *at[2] = {filled(1, three, 1), filled(2, matrix, 2)};
  nabla_tree items[2], parts[2][2], out[2];
  nabla_tree in = list_of(2, items, at);
  for (int r = 0; r < 2; r++) out[r] = list_of(2, parts[r], NULL);
  nabla_tree results = nabla_tree_of_list(2, out);
  call_trees(j, &in, &results);
  for (size_t a = 0; a < 2; a++) {
    double values[12];
    memcpy(values, read(at[a]), sizes[a] * sizeof *values);
    for (size_t i = 0; i < sizes[a]; i++) {
      nabla_tree sides[2][2];
      const double x = values[i];
      for (int side = 0; side < 2; side++) {
        values[i] = x + (side ? 1e-6 : -1e-6);
        nabla_array *moved[2] = {at[0], at[1]};
        moved[a] = a ? array(2, matrix, values) : array(1, three, values);
        in = list_of(2, items, moved);
        nabla_tree y = list_of(2, sides[side], NULL);
        call_trees(f, &in, &y);
      }
      values[i] = x;
      for (size_t r = 0; r < 2; r++)
        for (size_t row = 0; row < rows[r]; row++)
          cr_expect_float_eq(
              read(parts[r][a].array)[row * sizes[a] + i],
              (read(sides[1][r].array)[row] - read(sides[0][r].array)[row]) /
                  2e-6,
              1e-8);
    }
  }
}

Test(derivative_modes, jacobian_forward) {
  check_jacobian(NABLA_JACOBIAN_FORWARD);
}
Test(derivative_modes, jacobian_reverse) {
  check_jacobian(NABLA_JACOBIAN_REVERSE);
}
Test(derivative_modes, jacobian_auto) { check_jacobian(NABLA_JACOBIAN_AUTO); }

/* sum(tanh(x x') x) of x[3], broadcast twice */
static void of_one(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)s, (void)self;
  nabla_array *x = in->items[0].array;
  nabla_array *y = nabla_mul(nabla_unsqueeze(x, 0), nabla_unsqueeze(x, 1));
  out->array = nabla_sum(nabla_mul(nabla_tanh(y), x), NABLA_ALL_DIMS, 0);
}

Test(derivative_modes, hessian_is_symmetric_and_the_difference_of_gradients) {
  nabla_function *f = make(of_one, NULL);
  nabla_function *g = derive(nabla_grad, f, none);
  nabla_function *h = derive(nabla_hessian, f, none);
  nabla_array *x = filled(1, three, 1);
  const double *have = read(call(h, 1, &x));
  double values[3];
  memcpy(values, read(x), sizeof values);
  for (int i = 0; i < 3; i++) {
    const double *sides[2], at = values[i];
    for (int side = 0; side < 2; side++) {
      values[i] = at + (side ? 1e-6 : -1e-6);
      nabla_array *moved = vector(3, values);
      sides[side] = read(call(g, 1, &moved));
    }
    values[i] = at;
    for (int k = 0; k < 3; k++) {
      cr_expect_float_eq(have[3 * k + i], (sides[1][k] - sides[0][k]) / 2e-6,
                         1e-8);
      cr_expect_float_eq(have[3 * k + i], have[3 * i + k], 1e-14);
    }
  }
}

/* ---- batches ---- */

static nabla_function *batch(nabla_function *function,
                             nabla_vmap_options options) {
  nabla_function *out;
  options.struct_size = sizeof options;
  cr_assert_eq(nabla_vmap(function, &options, &out, &diag), NABLA_OK, "%s",
               diag.what);
  return keep(out);
}

static void example(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)s, (void)self;
  nabla_array *y =
      nabla_tanh(nabla_matmul(in->items[0].array, in->items[1].array));
  out->array = nabla_sum(nabla_mul(y, y), NABLA_ALL_DIMS, 0);
}

Test(derivative_modes, hessian_of_two_arguments) {
  static const char *const wrt[] = {"0", "1"};
  static const size_t sizes[2] = {3, 12};
  nabla_function *h =
      derive(nabla_hessian, make(example, NULL),
             (nabla_derivative_options){.wrt = wrt, .wrt_count = 2});
  nabla_array *at[2] = {filled(1, three, 1), filled(2, matrix, 2)};
  nabla_tree parts[2][2], out[2];
  for (int r = 0; r < 2; r++) out[r] = list_of(2, parts[r], NULL);
  nabla_tree results = nabla_tree_of_list(2, out);
  cr_assert_eq(try_call(h, 2, at, &results), NABLA_OK, "%s", diag.what);
  for (int a = 0; a < 2; a++)
    for (int b = 0; b < 2; b++)
      for (size_t i = 0; i < sizes[a]; i++)
        for (size_t k = 0; k < sizes[b]; k++)
          cr_expect_float_eq(read(parts[a][b].array)[i * sizes[b] + k],
                             read(parts[b][a].array)[k * sizes[a] + i], 1e-14);
  cr_expect_neq(read(parts[0][1].array)[0], 0);
  cr_expect_eq(nabla_array_dense(parts[1][0].array)->rank, 3);
}

/* Row i of a matrix of 3 columns. */
static nabla_array *row(nabla_array *x, int64_t i) {
  const int64_t starts[2] = {i, 0}, ends[2] = {i + 1, 3}, steps[2] = {1, 1};
  return nabla_squeeze(nabla_slice(x, 2, starts, ends, steps), NABLA_DIMS(0));
}

Test(derivative_modes, batch_of_gradients_is_the_loop_of_gradients) {
  static const int64_t rows[2] = {5, 3};
  static const nabla_axis shared[] = {{"1", NABLA_NO_AXIS}};
  nabla_function *f = make(example, NULL);
  nabla_function *g = derive(nabla_grad, f, none);
  nabla_function *all =
      batch(g, (nabla_vmap_options){.in = shared, .in_count = 1});
  nabla_function *values =
      batch(f, (nabla_vmap_options){.in = shared, .in_count = 1});
  nabla_array *in[2] = {filled(2, rows, 1), filled(2, matrix, 2)};
  nabla_array *gradients = call(all, 2, in), *losses = call(values, 2, in);
  cr_expect_eq(nabla_array_dense(losses)->rank, 1);
  for (int64_t i = 0; i < 5; i++) {
    nabla_array *one[2] = {row(in[0], i), in[1]};
    expect(row(gradients, i), 3, read(call(g, 2, one)), 1e-14);
    cr_expect_float_eq(read(losses)[i], read(call(f, 2, one))[0], 1e-14);
  }
}

/* The sum of what a function gives. */
static void total(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  nabla_tree inner = nabla_tree_of_array(NULL);
  (void)s;
  if (nabla_function_call(self, in, &inner, NULL)) return;
  out->array = nabla_sum(inner.array, NABLA_ALL_DIMS, 0);
}

Test(derivative_modes, gradient_of_a_batch_is_the_batch_of_gradients) {
  static const int64_t rows[2] = {5, 3};
  static const nabla_axis shared[] = {{"1", NABLA_NO_AXIS}};
  const nabla_vmap_options options = {.in = shared, .in_count = 1};
  nabla_function *f = make(example, NULL);
  nabla_function *inside =
      derive(nabla_grad, make(total, batch(f, options)), none);
  nabla_function *outside = batch(derive(nabla_grad, f, none), options);
  nabla_array *in[2] = {filled(2, rows, 1), filled(2, matrix, 2)};
  expect(call(inside, 2, in), 15, read(call(outside, 2, in)), 1e-14);
  cr_expect_neq(read(call(inside, 2, in))[14], 0);
}

Test(derivative_modes, axes_of_arguments_and_results) {
  static const int64_t columns[2] = {3, 5};
  static const nabla_axis in_axes[] = {{"", NABLA_NO_AXIS}, {"0", -1}};
  static const nabla_axis out_axes[] = {{"0", 1}, {"1", NABLA_NO_AXIS}};
  nabla_function *f = make(example, NULL);
  nabla_array *in[2] = {filled(2, columns, 1), filled(2, matrix, 2)};
  nabla_function *last =
      batch(f, (nabla_vmap_options){.in = in_axes, .in_count = 2});
  nabla_array *losses = call(last, 2, in);
  in[0] = nabla_swap_axes(in[0], 0, 1);
  const nabla_axis shared = {"1", NABLA_NO_AXIS};
  nabla_function *first =
      batch(f, (nabla_vmap_options){.in = &shared, .in_count = 1});
  expect(losses, 5, read(call(first, 2, in)), 1e-14);
  nabla_function *bad =
      batch(f, (nabla_vmap_options){.out = out_axes, .out_count = 1});
  nabla_tree out = nabla_tree_of_array(NULL);
  cr_expect_eq(try_call(bad, 2, in, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "argument '1' has 3 examples, 5 before"), "%s",
            diag.what);
  nabla_scope_clear(scope);
  bad = batch(
      f,
      (nabla_vmap_options){
          .in = &shared, .in_count = 1, .out = out_axes + 1, .out_count = 1});
  cr_expect_eq(try_call(bad, 2, in, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "an axis is given for '1', which is no result"),
            "%s", diag.what);
  cr_expect_str_eq(diag.next, "the results are one array, whose name is ''");
  nabla_scope_clear(scope);
  static const nabla_axis no_argument[] = {{"1", NABLA_NO_AXIS}, {"1.w", 0}};
  bad = batch(f, (nabla_vmap_options){.in = no_argument, .in_count = 2});
  cr_expect_eq(try_call(bad, 2, in, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "'1.w', which is no argument"), "%s", diag.what);
  cr_expect_str_eq(diag.next, "the arguments have the leaves 0, 1");
  nabla_scope_clear(scope);
  static const nabla_axis none_of[] = {{"", NABLA_NO_AXIS}};
  bad = batch(f, (nabla_vmap_options){.in = none_of, .in_count = 1});
  cr_expect_eq(try_call(bad, 2, in, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "no argument has a batch"), "%s", diag.what);
  nabla_scope_clear(scope);
  bad = batch(
      f, (nabla_vmap_options){
             .in = &shared, .in_count = 1, .out = none_of, .out_count = 1});
  cr_expect_eq(try_call(bad, 2, in, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "differs by example"), "%s", diag.what);
}

Test(derivative_modes, batches_of_any_size_are_one_trace) {
  static const nabla_axis shared[] = {{"1", NABLA_NO_AXIS}};
  static const nabla_function_dim dims[] = {{"0", 0, "batch"}};
  const nabla_function_options named = {.struct_size = sizeof named,
                                        .name = "batched",
                                        .dims = dims,
                                        .dim_count = 1};
  nabla_function *g = derive(nabla_grad, make(example, NULL), none);
  nabla_function *all = batch(
      g, (nabla_vmap_options){.in = shared, .in_count = 1, .function = &named});
  double first[3] = {0};
  for (int64_t size = 1; size < 4; size++) {
    const int64_t rows[2] = {size, 3};
    nabla_array *in[2] = {filled(2, rows, 1), filled(2, matrix, 2)};
    const double *have = read(call(all, 2, in));
    if (size == 1) memcpy(first, have, sizeof first);
    for (int i = 0; i < 3; i++) cr_expect_float_eq(have[i], first[i], 1e-14);
  }
  nabla_function_statistics counts = {.struct_size = sizeof counts};
  cr_assert_eq(nabla_function_count(all, &counts, &diag), NABLA_OK);
  cr_expect_eq(counts.misses, 1);
}

/* ---- in any order ---- */

Test(derivative_modes, steps_in_any_order) {
  static const int64_t rows[2] = {4, 3};
  nabla_function *f = make(of_one, NULL);
  nabla_function *h = derive(nabla_hessian, f, none);
  nabla_function *h_rows = batch(h, (nabla_vmap_options){.size = 0});
  nabla_function *jac =
      derive(nabla_jacobian, derive(nabla_grad, f, none),
             (nabla_derivative_options){.mode = NABLA_JACOBIAN_REVERSE});
  nabla_array *x = filled(2, rows, 1), *hessians = call(h_rows, 1, &x);
  for (int64_t i = 0; i < 4; i++) {
    nabla_array *one = row(x, i);
    const double *want = read(call(h, 1, &one));
    const double *other = read(call(jac, 1, &one));
    for (int k = 0; k < 9; k++) {
      cr_expect_float_eq(read(hessians)[9 * i + k], want[k], 1e-13);
      cr_expect_float_eq(other[k], want[k], 1e-13);
    }
  }
}

/* A function that was made by steps. */
typedef struct level {
  nabla_function *f;
  uint32_t rank; /* of the argument: 2 x ... x 3 */
  bool is_batch, is_gradient;
  bool is_number; /* gives a number */
} level;

static nabla_array *argument(uint32_t rank, const double *values) {
  int64_t shape[4] = {2, 2, 2, 2};
  shape[rank - 1] = 3;
  return array(rank, shape, values);
}

static size_t size_of(uint32_t rank) { return (size_t)3 << (rank - 1); }

/* The gradient of a level against differences of the one below. */
static void check_gradient(const level *below, const level *l,
                           const double *values) {
  const size_t count = size_of(l->rank);
  double moved[24];
  nabla_array *x = argument(l->rank, values);
  const double *have = read(call(l->f, 1, &x));
  memcpy(moved, values, count * sizeof *moved);
  for (size_t i = 0; i < count; i += 2) {
    double sides[2];
    for (int side = 0; side < 2; side++) {
      moved[i] = values[i] + (side ? 1e-5 : -1e-5);
      nabla_array *y = argument(l->rank, moved);
      sides[side] = read(call(below->f, 1, &y))[0];
    }
    moved[i] = values[i];
    const double want = (sides[1] - sides[0]) / 2e-5;
    cr_expect(fabs(have[i] - want) < 1e-6 * (1 + fabs(want)),
              "[%zu]: %g, not %g", i, have[i], want);
  }
}

/* A batch against the loop, a sum against the sum. */
static void check_values(const level *below, const level *l,
                         const double *values) {
  nabla_array *x = argument(l->rank, values);
  const double *have = read(call(l->f, 1, &x));
  const size_t examples = l->is_batch ? 2 : 1;
  const size_t each = size_of(below->rank);
  for (size_t e = 0; e < examples; e++) {
    nabla_array *one = argument(below->rank, values + e * each);
    nabla_array *y = call(below->f, 1, &one);
    const nabla_dense *dense = nabla_array_dense(y);
    size_t count = 1;
    for (uint32_t d = 0; d < dense->rank; d++) count *= (size_t)dense->shape[d];
    const double *want = read(y);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
      sum += want[i];
      if (l->is_batch)
        cr_expect_float_eq(have[e * count + i], want[i],
                           1e-12 * (1 + fabs(want[i])));
    }
    if (!l->is_batch) cr_expect_float_eq(have[0], sum, 1e-12 * (1 + fabs(sum)));
  }
}

/* The next level: a batch, or a gradient of a number, or a sum. */
static level next_level(const level *l, unsigned choice) {
  level out = {.rank = l->rank};
  if (choice % 2 && l->rank < 3) {
    cr_assert_eq(nabla_vmap(l->f, NULL, &out.f, &diag), NABLA_OK);
    keep(out.f);
    out.rank++;
    out.is_batch = true;
  } else if (l->is_number) {
    out.f = derive(nabla_grad, l->f, none);
    out.is_gradient = true;
  } else {
    out.f = make(total, l->f);
    out.is_number = true;
  }
  return out;
}

Test(derivative_modes, random_compositions) {
  double values[24];
  unsigned random = 12345;
  for (int i = 0; i < 24; i++) values[i] = .8 * sin(1 + 1.3 * i);
  for (int word = 0; word < 5; word++) {
    level l = {.f = make(of_one, NULL), .rank = 1, .is_number = true};
    for (int step = 0; step < 4; step++) {
      random = random * 1664525 + 1013904223;
      const level next = next_level(&l, random >> 20);
      if (next.is_gradient)
        check_gradient(&l, &next, values);
      else
        check_values(&l, &next, values);
      l = next;
    }
  }
}

/* ---- packed arguments ---- */

static void packed_product(nabla_scope *s, const nabla_tree *in,
                           nabla_tree *out, void *self) {
  (void)s, (void)self;
  out->array =
      nabla_linear(in->items[0].array, in->items[1].array, nabla_none());
}

Test(derivative_modes, packed_arguments_stay_packed_in_batches) {
  static const int64_t shape[3] = {2, 32, 64}, rows[3] = {2, 3, 64};
  static const nabla_axis second = {"1", 1};
  const nabla_storage layout = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  nabla_array *w = nabla_quantize(
      nabla_normal(nabla_integer(scope, 1), NABLA_DTYPE_F32, 3, shape),
      &layout);
  nabla_array *x =
      nabla_normal(nabla_integer(scope, 2), NABLA_DTYPE_F32, 3, rows);
  nabla_array *both[2] = {x, w};
  cr_assert_eq(nabla_realize(scope, 2, both, &diag), NABLA_OK, "%s", diag.what);
  nabla_function *f = make(packed_product, NULL);
  nabla_function *all = batch(f, (nabla_vmap_options){.size = 0});
  nabla_array *dense[2] = {x, nabla_materialize(w)};
  const double *want = read(call(all, 2, dense));
  expect(call(all, 2, both), 2 * 3 * 32, want, 1e-5);
  nabla_function *bad =
      batch(f, (nabla_vmap_options){.in = &second, .in_count = 1});
  nabla_tree out = nabla_tree_of_array(NULL);
  cr_expect_eq(try_call(bad, 2, both, &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "has 32 examples, 2 before") ||
                strstr(diag.what, "whole blocks along axis 0"),
            "%s", diag.what);
}
