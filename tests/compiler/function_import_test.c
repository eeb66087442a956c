/* Loaded functions within traces of others: calls, derivatives, batches; and
 * what a file keeps for them. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "nabla/derivative.h"
#include "nabla/function.h"
#include "tests/support/function_file.h"

static nabla_function *loaded, *outer;

static void end(void) {
  nabla_function_destroy(outer);
  nabla_function_destroy(loaded);
  end_file();
}

TestSuite(function_import, .init = begin, .fini = end, .timeout = 300);

static nabla_status call(nabla_function *function, nabla_array *x,
                         nabla_array **out) {
  nabla_tree item = nabla_tree_of_array(x);
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree result = nabla_tree_of_array(NULL);
  const nabla_status status =
      nabla_function_call(function, &in, &result, &diag);
  *out = result.array;
  return status;
}

static size_t run(nabla_function *function, nabla_array *x, float *out) {
  nabla_array *array;
  nabla_dense dense;
  size_t count = 1;
  cr_assert_eq(call(function, x, &array), NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_array_read(array, &dense, &diag), NABLA_OK);
  for (uint32_t d = 0; d < dense.rank; d++) count *= (size_t)dense.shape[d];
  memcpy(out, dense.data, count * sizeof *out);
  return count;
}

/* Saves `function` after a call, and loads it in another engine. */
static void reload(nabla_function *function) {
  cr_assert_eq(nabla_function_save(function, file, 0, &diag), NABLA_OK, "%s",
               diag.what);
  nabla_function_destroy(function);
  tear_down();
  set_up();
  cr_assert_eq(nabla_function_load(engine, file, &loaded, &diag), NABLA_OK,
               "%s", diag.what);
}

/* tanh(x + captured) * 3 */
static void affine(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  nabla_array *x = in->items[0].array;
  if (self) x = nabla_add(x, self);
  out->array = nabla_mul(nabla_tanh(x), nabla_scalar(s, 3));
}

static void calling(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  nabla_tree first = nabla_tree_of_array(NULL);
  nabla_call(self, in, &first);
  (void)!nabla_function_call(self, in, out, NULL);
  out->array =
      nabla_mul(nabla_add(first.array, out->array), nabla_scalar(s, .5F));
}

static size_t calls_in(nabla_function *function, const char *what) {
  nabla_blob text = {0};
  size_t count = 0;
  const nabla_sink sink = nabla_blob_sink(&text);
  cr_assert_eq(nabla_function_print(function, &sink, &diag), NABLA_OK);
  for (const char *at = text.bytes; (at = strstr(at, what)); at++) count++;
  nabla_blob_release(&text);
  return count;
}

Test(function_import, calls_share_one_private_function) {
  float want[4], got[4];
  nabla_function *f =
      make_function(affine, vector(1), (nabla_function_options){0});
  cr_assert_eq(run(f, vector(3), want), 3);
  run(f, vector(4), want);
  run(f, vector(3), want);
  reload(f);
  outer = make_function(calling, loaded, (nabla_function_options){.name = "g"});
  cr_assert_eq(run(outer, vector(3), got), 3);
  cr_expect(!memcmp(want, got, 3 * sizeof *want));
  cr_expect_eq(calls_in(outer, "func.func private @f."), 1);
  cr_expect_eq(calls_in(outer, "call @f."), 2);
  cr_expect_eq(calls_in(outer, "nabla.captured"), 3); /* vector(1), 3, .5 */
}

Test(function_import, other_signatures_are_refused_within_traces) {
  float got[3];
  nabla_array *out;
  nabla_function *f = make_function(affine, NULL, (nabla_function_options){0});
  run(f, vector(3), got);
  reload(f);
  outer = make_function(calling, loaded, (nabla_function_options){0});
  cr_expect_eq(call(outer, vector(4), &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "no signature (tensor<4xf32>)"), "%s", diag.what);
  nabla_scope_clear(scope);
  cr_expect_eq(run(outer, vector(3), got), 3);
}

/* sum(tanh(x + captured) * 3) */
static void loss(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  affine(s, in, out, self);
  out->array = nabla_sum(out->array, 0, NULL, 0);
}

Test(function_import, derivatives_of_loaded_functions) {
  float want[3], got[3];
  nabla_function *grad;
  nabla_function *f =
      make_function(loss, vector(1), (nabla_function_options){0});
  cr_assert_eq(nabla_grad(f, NULL, &grad, &diag), NABLA_OK);
  run(grad, vector(3), want);
  nabla_function_destroy(grad);
  run(f, vector(3), got);
  reload(f);
  cr_assert_eq(nabla_grad(loaded, NULL, &outer, &diag), NABLA_OK);
  cr_assert_eq(run(outer, vector(3), got), 3);
  for (int i = 0; i < 3; i++) {
    const float t = tanhf(.6F + (float)i);
    cr_expect_float_eq(got[i], 3 * (1 - t * t), 1e-5F);
    cr_expect_float_eq(got[i], want[i], 1e-6F);
  }
}

Test(function_import, batches_of_loaded_functions) {
  float values[6] = {1, 2, 3, 4, 5, 6}, want[3], got[6];
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {2, 3}};
  nabla_function *f =
      make_function(affine, vector(1), (nabla_function_options){0});
  run(f, vector(3), want);
  reload(f);
  cr_assert_eq(nabla_vmap(loaded, NULL, &outer, &diag), NABLA_OK);
  cr_assert_eq(run(outer, nabla_array_of(scope, &dense), got), 6);
  for (int i = 0; i < 6; i++)
    cr_expect_float_eq(got[i], 3 * tanhf(values[i] + .3F), 1e-5F);
}

Test(function_import, named_dimensions_take_sizes_of_the_trace) {
  static const nabla_function_dim dims[] = {{"0", 0, "n"}};
  const nabla_function_options named = {.dims = dims, .dim_count = 1};
  float want[7], got[7];
  nabla_function *f = make_function(affine, vector(1), named);
  run(f, vector(7), want);
  reload(f);
  outer = make_function(calling, loaded, (nabla_function_options){0});
  cr_assert_eq(run(outer, vector(7), got), 7); /* a size that is known */
  cr_expect(!memcmp(want, got, sizeof want));
  nabla_function_destroy(outer);
  outer = make_function(calling, loaded, named);
  cr_assert_eq(run(outer, vector(7), got), 7); /* a size that is not */
  cr_expect(!memcmp(want, got, sizeof want));
  cr_assert_eq(run(outer, vector(3), got), 3);
  cr_expect(!memcmp(want, got, 3 * sizeof *want));
}

/* A sum of two arguments, whose dimensions have one name. */
static void sum_of_two(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                       void *self) {
  (void)s, (void)self;
  out->array = nabla_add(in->items[0].array, in->items[1].array);
}

/* Gives it `self`, and `x` or a part of it. */
static void call_with_two(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                          void *self) {
  static const int64_t begins[1] = {0}, ends[1] = {2};
  (void)s;
  nabla_array *x = in->items[0].array;
  nabla_tree items[2] = {
      nabla_tree_of_array(x),
      nabla_tree_of_array(nabla_slice(x, 1, begins, ends, NULL))};
  const nabla_tree both = nabla_tree_of_list(2, items);
  nabla_call(self, &both, out);
}

Test(function_import, sizes_of_one_name_are_compared) {
  static const nabla_function_dim dims[] = {{"0", 0, "n"}, {"1", 0, "n"}};
  nabla_tree items[2] = {nabla_tree_of_array(vector(3)),
                         nabla_tree_of_array(vector(3))};
  const nabla_tree in = nabla_tree_of_list(2, items);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_array *result;
  float got[3];
  nabla_function *f = make_function(
      sum_of_two, NULL, (nabla_function_options){.dims = dims, .dim_count = 2});
  cr_assert_eq(nabla_function_call(f, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  reload(f);
  outer = make_function(call_with_two, loaded, (nabla_function_options){0});
  cr_expect_eq(call(outer, vector(3), &result), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "'n' is 2 in dimension 0 of '1', 3 before"), "%s",
            diag.what);
  nabla_scope_clear(scope);
  cr_expect_eq(run(outer, vector(2), got), 2);
  cr_expect_float_eq(got[1], 2.6F, 1e-6F);
}

/* ---- what a file keeps ---- */

static nabla_array *packed(void) {
  float values[128];
  for (int i = 0; i < 128; i++) values[i] = (float)(i % 7) - 3;
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {2, 64}};
  const nabla_storage nf4 = {.kind = NABLA_STORAGE_PLANES,
                             .format = {.encoding = nabla_encoding_find("nf4"),
                                        .granularity = NABLA_PER_BLOCK,
                                        .block = 64,
                                        .scale = NABLA_SCALE_F32}};
  return nabla_quantize(nabla_array_of(scope, &dense), &nf4);
}

static void times_packed(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                         void *self) {
  (void)s;
  out->array = nabla_mul(nabla_materialize(self), in->items[0].array);
}

Test(function_import, packed_captures_stay_packed) {
  float want[128], got[128];
  nabla_function *f =
      make_function(times_packed, packed(), (nabla_function_options){0});
  run(f, vector(1), want);
  reload(f);
  outer = make_function(calling, loaded, (nabla_function_options){0});
  cr_assert_eq(run(outer, vector(1), got), 128);
  cr_expect(!memcmp(want, got, sizeof want));
  cr_expect_eq(calls_in(outer, "nabla.captured"), 2); /* the weight, and .5 */
}

static void sum_of(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)s;
  (void)!nabla_function_call(self, in, out, NULL);
  out->array = nabla_sum(out->array, 0, NULL, 0);
}

/* 2 * round(x) */
static void rounded(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)s, (void)self;
  out->array = nabla_mul(nabla_round(in->items[0].array), nabla_scalar(s, 2));
}

/* The cotangent of twice the rounded array passes straight through. */
Test(function_import, derivatives_that_the_user_gave_are_kept) {
  float got[3];
  nabla_function *straight;
  nabla_function *f = make_function(rounded, NULL, (nabla_function_options){0});
  cr_assert_eq(nabla_straight_through(f, &straight, &diag), NABLA_OK);
  nabla_function *sum =
      make_function(sum_of, straight, (nabla_function_options){0});
  run(sum, vector(3), got);
  cr_expect_float_eq(got[0], 6, 1e-6F); /* of .3, 1.3, 2.3 */
  cr_assert_eq(nabla_function_save(sum, file, 0, &diag), NABLA_OK);
  nabla_function_destroy(sum);
  nabla_function_destroy(straight);
  nabla_function_destroy(f);
  tear_down();
  set_up();
  cr_assert_eq(nabla_function_load(engine, file, &loaded, &diag), NABLA_OK);
  got[0] = 0;
  run(loaded, vector(3), got);
  cr_expect_float_eq(got[0], 6, 1e-6F);
  cr_assert_eq(nabla_grad(loaded, NULL, &outer, &diag), NABLA_OK);
  cr_assert_eq(run(outer, vector(3), got), 3);
  for (int i = 0; i < 3; i++) cr_expect_float_eq(got[i], 1, 1e-6F);
}

static void step(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)s, (void)self;
  out->items[0].array = nabla_add(in->items[0].array, in->items[1].array);
  out->items[1].array = nabla_mul(out->items[0].array, out->items[0].array);
}

static void call_step(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                      void *self) {
  nabla_tree results[2] = {nabla_tree_of_array(NULL),
                           nabla_tree_of_array(NULL)},
             items[2] = {in->items[0], nabla_tree_of_array(nabla_scalar(s, 2))};
  const nabla_tree given = nabla_tree_of_list(2, items);
  nabla_tree both = nabla_tree_of_list(2, results);
  items[1].array = nabla_convert(items[1].array, NABLA_DTYPE_F32);
  nabla_call(self, &given, &both);
  out->array = results[1].array;
}

Test(function_import, states_are_arguments_within_traces) {
  static const nabla_function_replacement states[] = {{"0", "0"}};
  float got[3];
  nabla_session *session;
  nabla_tree items[2] = {nabla_tree_of_array(vector(3)),
                         nabla_tree_of_array(nabla_convert(
                             nabla_scalar(scope, 2), NABLA_DTYPE_F32))},
             outs[2] = {nabla_tree_of_array(NULL), nabla_tree_of_array(NULL)};
  const nabla_tree in = nabla_tree_of_list(2, items),
                   out = nabla_tree_of_list(2, outs);
  nabla_function *f = make_function(
      step, NULL, (nabla_function_options){.states = states, .state_count = 1});
  cr_assert_eq(nabla_function_session(f, &in, &out, NULL, &session, &diag),
               NABLA_OK, "%s", diag.what);
  nabla_session_close(session);
  reload(f);
  outer = make_function(call_step, loaded, (nabla_function_options){0});
  cr_assert_eq(run(outer, vector(3), got), 3);
  for (int i = 0; i < 3; i++)
    cr_expect_float_eq(got[i], (2.3F + (float)i) * (2.3F + (float)i), 1e-5F);
}
