/* nabla/operation.h: bodies, handlers, kinds, the list, refusals. */
#include "nabla/operation.h"

#include <criterion/criterion.h>
#include <string.h>

#include "nabla/custom_call.h"
#include "nabla/function.h"
#include "tests/support/array_scope.h"

TestSuite(operation, .init = set_up, .fini = tear_down, .timeout = 300);

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

static const char *failure(void) {
  cr_expect_neq(nabla_scope_status(scope, &diag), NABLA_OK);
  nabla_scope_clear(scope);
  return diag.what;
}

static void add(const nabla_operation *operation) {
  cr_assert_eq(nabla_add_operation(operation, &diag), NABLA_OK, "%s",
               diag.what);
}

/* ---- bodies ---- */

static void square(nabla_scope *s, const nabla_operation_frame *frame,
                   nabla_array **results) {
  (void)s;
  nabla_array *x = frame->operands[0];
  results[0] = nabla_mul(x, x);
}

static const nabla_operation square_operation = {
    .struct_size = sizeof square_operation,
    .name = "square",
    .kind = NABLA_OPERATION_UNARY,
    .body = square};

static void use_square(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                       void *self) {
  (void)s, (void)self;
  nabla_array *x = in->array;
  for (int i = 0; i < 2; i++) x = nabla_apply(&square_operation, 1, &x, NULL);
  out->array = x;
}

Test(operation, bodies_are_private_functions) {
  const nabla_function_options options = {.struct_size = sizeof options};
  nabla_function *function;
  nabla_blob text = {.bytes = NULL};
  const nabla_sink sink = nabla_blob_sink(&text);
  add(&square_operation);
  nabla_array *x = three(1, 2, 3);
  expect_three(nabla_apply(&square_operation, 1, &x, NULL), 1, 4, 9);
  cr_assert_eq(
      nabla_function_create(engine, use_square, &options, &function, &diag),
      NABLA_OK);
  const nabla_tree in = nabla_tree_of_array(x);
  nabla_tree out = nabla_tree_of_array(NULL);
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  expect_three(out.array, 1, 16, 81);
  cr_assert_eq(nabla_function_print(function, &sink, &diag), NABLA_OK);
  const char *name = strstr(text.bytes, "func.func private @square.");
  cr_assert(name, "%s", text.bytes);
  cr_expect_null(strstr(name + 1, "func.func private @square."));
  nabla_blob_release(&text);
  nabla_function_destroy(function);
}

static void sum_and_difference(nabla_scope *s,
                               const nabla_operation_frame *frame,
                               nabla_array **results) {
  results[0] = nabla_add(frame->operands[0], frame->operands[1]);
  results[1] = nabla_mul(nabla_sub(frame->operands[0], frame->operands[1]),
                         nabla_scalar(s, (double)nabla_attribute_tree_integer(
                                             frame->attributes, "by", 1)));
}

static const nabla_operation both_operation = {
    .struct_size = sizeof both_operation,
    .name = "sum.and_difference",
    .body = sum_and_difference};

Test(operation, several_results_and_attributes) {
  const nabla_attribute_tree by = {
      .name = "by", .kind = NABLA_ATTRIBUTE_INTEGER, .integer = 10};
  const nabla_attribute_tree attributes = {.name = "",
                                           .kind = NABLA_ATTRIBUTE_DICTIONARY,
                                           .count = 1,
                                           .elements = &by};
  add(&both_operation);
  nabla_array *operands[2] = {three(1, 2, 3), three(1, 1, 1)}, *results[2];
  nabla_apply_all(&both_operation, 2, operands, &attributes, 2, results);
  expect_three(results[0], 2, 3, 4);
  expect_three(results[1], 0, 10, 20);
  nabla_apply_all(&both_operation, 2, operands, NULL, 2, results);
  expect_three(results[1], 0, 1, 2);
  results[0] = NULL;
  nabla_apply_all(&both_operation, 2, results, NULL, 2, operands);
  cr_expect_null(operands[0]);
  const char *what = failure();
  cr_expect(strstr(what, "sum.and_difference(NULL, F32[3])"), "%s", what);
}

static void total(nabla_scope *s, const nabla_operation_frame *frame,
                  nabla_array **results) {
  (void)s;
  results[0] = nabla_sum(frame->operands[0], NABLA_ALL_DIMS, 0);
}

Test(operation, results_are_what_the_kind_says) {
  static const nabla_operation wrong = {.struct_size = sizeof wrong,
                                        .name = "wrong",
                                        .kind = NABLA_OPERATION_UNARY,
                                        .body = total};
  add(&wrong);
  nabla_array *x[2] = {three(1, 2, 3), three(1, 2, 3)};
  cr_expect_null(nabla_apply(&wrong, 1, x, NULL));
  const char *what = failure();
  cr_expect(strstr(what, "F32 of rank 0, is not what its kind"), "%s", what);
  cr_expect_null(nabla_apply(&wrong, 2, x, NULL));
  what = failure();
  cr_expect(strstr(what, "2 operands and 1 results"), "%s", what);
  cr_expect_null(nabla_apply(&square_operation, 1, x, NULL)); /* not added */
  what = failure();
  cr_expect(strstr(what, "was not added"), "%s", what);
}

/* ---- handlers ---- */

static nabla_call_code scale(const nabla_call_frame *frame) {
  const nabla_call_buffer *x = &frame->arguments[0], *y = &frame->results[0];
  const nabla_attribute_tree *by =
      nabla_attribute_tree_find(frame->attributes, "by");
  size_t count = 1;
  for (uint32_t i = 0; i < x->rank; i++) count *= (size_t)x->dims[i];
  for (size_t i = 0; i < count; i++)
    ((float *)y->data)[i] =
        (float)((double)((const float *)x->data)[i] * by->number);
  return NABLA_CALL_OK;
}

static void add_scale(const char *target, uint32_t traits) {
  static const nabla_call_parameter parameter = {"x", NABLA_CALL_DTYPE(F32), -1,
                                                 NULL};
  static const nabla_call_attribute attribute = {"by", NABLA_ATTRIBUTE_FLOAT,
                                                 0};
  const nabla_call_handler handler = {.struct_size = sizeof handler,
                                      .target = target,
                                      .platform = "cpu",
                                      .traits = traits,
                                      .arguments = &parameter,
                                      .results = &parameter,
                                      .argument_count = 1,
                                      .result_count = 1,
                                      .attributes = &attribute,
                                      .attribute_count = 1,
                                      .execute = scale};
  cr_assert_eq(nabla_add_call_handler(&handler, &diag), NABLA_OK, "%s",
               diag.what);
}

static const nabla_operation scale_operation = {
    .struct_size = sizeof scale_operation,
    .name = "scale",
    .kind = NABLA_OPERATION_UNARY,
    .handler = "scale_f32",
    .factors = "... -> ..."};

static nabla_array *apply_scale(nabla_array *x, double number) {
  const nabla_attribute_tree by = {
      .name = "by", .kind = NABLA_ATTRIBUTE_FLOAT, .number = number};
  const nabla_attribute_tree attributes = {.name = "",
                                           .kind = NABLA_ATTRIBUTE_DICTIONARY,
                                           .count = 1,
                                           .elements = &by};
  return nabla_apply(&scale_operation, 1, &x, &attributes);
}

static void use_scale(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                      void *self) {
  (void)s, (void)self;
  nabla_array *y = apply_scale(in->items[0].array, 2);
  out->array = nabla_add(y, in->items[0].array); /* of one unknown size */
}

Test(operation, handlers_are_custom_calls) {
  static const nabla_function_dim dims[] = {{"0", 0, "n"}};
  const nabla_function_options options = {
      .struct_size = sizeof options, .dims = dims, .dim_count = 1};
  nabla_function *function;
  nabla_blob text = {.bytes = NULL};
  const nabla_sink sink = nabla_blob_sink(&text);
  add_scale("scale_f32", NABLA_CALL_PURE);
  add(&scale_operation);
  nabla_array *x = three(1, 2, 3);
  expect_three(nabla_add(apply_scale(x, 2), apply_scale(x, 10)), 12, 24, 36);
  cr_assert_eq(
      nabla_function_create(engine, use_scale, &options, &function, &diag),
      NABLA_OK);
  const float values[4] = {1, 2, 3, 4}, want[4] = {3, 6, 9, 12};
  for (size_t n = 3; n <= 4; n++) {
    nabla_tree item = nabla_tree_of_array(vector(n, values));
    const nabla_tree in = nabla_tree_of_list(1, &item);
    nabla_tree out = nabla_tree_of_array(NULL);
    cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK,
                 "%s", diag.what);
    expect(out.array, n, want);
  }
  cr_assert_eq(nabla_function_print(function, &sink, &diag), NABLA_OK);
  cr_expect(strstr(text.bytes, "nabla.custom_call @scale_f32(%arg0, %"), "%s",
            text.bytes);
  cr_expect(strstr(text.bytes, "nabla.factors = \"... -> ...\""));
  nabla_blob_release(&text);
  nabla_function_destroy(function);
}

/* ---- refusals and the list ---- */

static void batch(const nabla_operation_frame *frame, const int64_t *dims,
                  int64_t *result_dims) {
  (void)frame;
  *result_dims = *dims;
}

static nabla_array *derivative(nabla_array *x, nabla_array *y) {
  (void)y;
  return x;
}

Test(operation, what_cannot_be_added) {
  add_scale("loud", 0);
  const nabla_operation good = {
      .struct_size = sizeof good, .name = "good", .body = square};
  nabla_operation bad[13];
  static const nabla_status want[13] = {
      NABLA_INVALID_ARGUMENT, NABLA_INVALID_ARGUMENT, NABLA_INVALID_ARGUMENT,
      NABLA_INVALID_ARGUMENT, NABLA_INVALID_ARGUMENT, NABLA_INVALID_ARGUMENT,
      NABLA_INVALID_ARGUMENT, NABLA_UNSUPPORTED,      NABLA_INVALID_ARGUMENT,
      NABLA_INVALID_ARGUMENT, NABLA_INVALID_ARGUMENT, NABLA_INVALID_ARGUMENT,
      NABLA_INVALID_ARGUMENT};
  static const char *const says[13] = {"a name",
                                       "neither a body",
                                       "both a body",
                                       "no handler 'quiet'",
                                       "set struct_size",
                                       "'batch' is that of a handler",
                                       "collective",
                                       "not pure",
                                       "no 'infer'",
                                       "of the kind UNARY",
                                       "'saved_count' is that of",
                                       "of a handler",
                                       "none of sum"};
  for (int i = 0; i < 13; i++) bad[i] = good;
  bad[0].name = "no blanks";
  bad[1].body = NULL;
  bad[2].handler = "loud";
  bad[3].body = NULL, bad[3].handler = "quiet";
  bad[4].struct_size--;
  bad[5].batch = batch;
  bad[6].kind = NABLA_OPERATION_COLLECTIVE;
  bad[7].body = NULL, bad[7].handler = "loud";
  add_scale("soft", NABLA_CALL_PURE);
  bad[8].body = NULL, bad[8].handler = "soft";
  bad[9].derivative = derivative;
  bad[10].saved_count = 1;
  bad[11].factors = "m -> m";
  bad[12].body = NULL, bad[12].handler = "soft", bad[12].factors = "m -> m";
  bad[12].reduction = "mean";
  for (int i = 0; i < 13; i++) {
    cr_expect_eq(nabla_add_operation(&bad[i], &diag), want[i], "%d", i);
    cr_expect(strstr(diag.what, says[i]), "%d: %s", i, diag.what);
  }
  add(&square_operation);
  cr_expect_eq(nabla_add_operation(&square_operation, &diag),
               NABLA_INVALID_ARGUMENT);
}

/* What the list of operations has. */
typedef struct seen {
  size_t count;
  bool has_add, has_square;
} seen;

static int see(void *self, const nabla_operation_entry *entry) {
  seen *s = self;
  s->count++;
  if (!strcmp(entry->name, "add"))
    s->has_add = !strcmp(entry->op, "nabla.add") && !entry->operation &&
                 entry->kind == NABLA_OPERATION_BINARY;
  if (!strcmp(entry->name, "square"))
    s->has_square = entry->operation == &square_operation;
  return 1;
}

Test(operation, all_are_listed) {
  seen s = {.count = 0};
  add(&square_operation);
  cr_expect_eq(nabla_operation_find("square"), &square_operation);
  cr_expect_null(nabla_operation_find("cube"));
  nabla_operations(see, &s);
  cr_expect(s.has_add && s.has_square);
  cr_expect_gt(s.count, 80);
}
