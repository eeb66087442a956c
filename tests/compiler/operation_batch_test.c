/* The member `batch` of operations with a handler: the handler is called once
 * for all examples. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

#include "nabla/custom_call.h"
#include "nabla/derivative.h"
#include "nabla/function.h"
#include "nabla/operation.h"
#include "tests/support/array_scope.h"

static nabla_function *function, *batched;

static void end(void) {
  nabla_function_destroy(batched);
  nabla_function_destroy(function);
  tear_down();
}

TestSuite(operation_batch, .init = set_up, .fini = end, .timeout = 300);

/* ---- a handler: x + w, turned if it has two dimensions; and w ---- */

static nabla_call_code turn(const nabla_call_frame *frame) {
  const nabla_call_buffer *x = &frame->arguments[0], *w = &frame->arguments[1];
  const int64_t rows = x->rank == 2 ? x->dims[0] : 1;
  const int64_t columns = x->dims[x->rank - 1];
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < columns; k++)
      ((float *)frame->results[0].data)[k * rows + i] =
          ((const float *)x->data)[i * columns + k] +
          ((const float *)w->data)[k];
  for (int64_t k = 0; k < columns; k++)
    ((float *)frame->results[1].data)[k] = ((const float *)w->data)[k];
  return NABLA_CALL_OK;
}

static void add_handler(const char *target) {
  static const nabla_call_parameter both[2] = {
      {"x", NABLA_CALL_DTYPE(F32), -1, NULL},
      {"w", NABLA_CALL_DTYPE(F32), -1, NULL}};
  const nabla_call_handler handler = {.struct_size = sizeof handler,
                                      .target = target,
                                      .platform = "cpu",
                                      .traits = NABLA_CALL_PURE,
                                      .arguments = both,
                                      .results = both,
                                      .argument_count = 2,
                                      .result_count = 2,
                                      .execute = turn};
  cr_assert_eq(nabla_add_call_handler(&handler, &diag), NABLA_OK, "%s",
               diag.what);
}

static nabla_status infer(const nabla_operation_frame *frame,
                          nabla_dense *results, nabla_diag *d) {
  (void)d;
  results[0] = frame->types[0];
  results[1] = frame->types[1];
  return NABLA_OK;
}

static int64_t rank_seen, size_seen;

static void batch(const nabla_operation_frame *frame, const int64_t *dims,
                  int64_t *result_dims) {
  cr_assert(dims[0] == 0 && dims[1] == NABLA_NO_AXIS);
  cr_assert_eq(frame->operand_count, 2);
  cr_assert_eq(frame->attributes->count, 0);
  rank_seen = frame->types[0].rank;
  size_seen = frame->types[0].shape[0];
  result_dims[0] = 1; /* turned; the other is the same for all examples */
}

static void wrong(const nabla_operation_frame *frame, const int64_t *dims,
                  int64_t *result_dims) {
  (void)frame, (void)dims;
  result_dims[0] = 2;
}

static nabla_operation turning = {.struct_size = sizeof turning,
                                  .name = "turning",
                                  .handler = "turn",
                                  .infer = infer,
                                  .factors = "..., ... -> ..., ...",
                                  .batch = batch};

static void use(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                void *self) {
  nabla_array *operands[2] = {in->items[0].array, self}, *results[2];
  (void)s;
  nabla_apply_all(&turning, 2, operands, NULL, 2, results);
  for (int i = 0; i < 2; i++) out->items[i].array = results[i];
}

static nabla_status run(int64_t rows, float *out) {
  float values[12];
  nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {rows, 3}};
  for (int i = 0; i < 12; i++) values[i] = (float)i;
  nabla_tree item = nabla_tree_of_array(nabla_array_of(scope, &dense));
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree results[2] = {nabla_tree_of_array(NULL),
                           nabla_tree_of_array(NULL)},
             list = nabla_tree_of_list(2, results);
  const nabla_status status = nabla_function_call(batched, &in, &list, &diag);
  for (int i = 0; i < 2 && !status; i++) {
    cr_assert_eq(nabla_array_read(results[i].array, &dense, &diag), NABLA_OK);
    cr_assert(dense.rank == 2 && dense.shape[0] == rows && dense.shape[1] == 3);
    memcpy(out + 3 * rows * i, dense.data, 3 * (size_t)rows * sizeof *out);
  }
  return status;
}

static void expect(int64_t rows) {
  float got[24];
  cr_assert_eq(run(rows, got), NABLA_OK, "%s", diag.what);
  for (int i = 0; i < 3 * (int)rows; i++) {
    cr_expect_eq(got[i], (float)(i + 10 * (i % 3)), "%d", i);
    cr_expect_eq(got[3 * rows + i], (float)(10 * (i % 3)), "%d", i);
  }
}

static void make(const nabla_vmap_options *options, const char *target) {
  static float values[3] = {0, 10, 20};
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 1, {3}};
  const nabla_function_options named = {.struct_size = sizeof named,
                                        .name = "f",
                                        .self = nabla_array_of(scope, &dense)};
  add_handler(target);
  turning.handler = target;
  cr_assert_eq(nabla_add_operation(&turning, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_function_create(engine, use, &named, &function, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_vmap(function, options, &batched, &diag), NABLA_OK);
}

static bool prints(const char *what) {
  nabla_blob text = {0};
  const nabla_sink sink = nabla_blob_sink(&text);
  cr_assert_eq(nabla_function_print(batched, &sink, &diag), NABLA_OK);
  const bool is_found = strstr(text.bytes, what) != NULL;
  nabla_blob_release(&text);
  return is_found;
}

Test(operation_batch, the_handler_is_called_once) {
  make(NULL, "turn");
  expect(4);
  cr_expect(rank_seen == 2 && size_seen == 4);
  cr_expect(!prints("nabla.scan"));
  cr_expect(
      prints("(tensor<4x3xf32>, tensor<3xf32>) -> (tensor<3x4xf32>, "
             "tensor<3xf32>)"));
  cr_expect(!prints("nabla.factors"));
}

Test(operation_batch, batches_of_unknown_size) {
  static const nabla_function_dim dims[] = {{"0", 0, "n"}};
  const nabla_function_options named = {
      .struct_size = sizeof named, .dims = dims, .dim_count = 1};
  const nabla_vmap_options options = {.struct_size = sizeof options,
                                      .function = &named};
  make(&options, "turn");
  expect(4);
  cr_expect_eq(size_seen, NABLA_DYNAMIC);
  expect(2);
  cr_expect(!prints("nabla.scan"));
}

Test(operation_batch, without_it_one_example_follows_the_other) {
  turning.batch = NULL;
  make(NULL, "turn");
  expect(4);
  cr_expect(prints("nabla.scan"));
}

Test(operation_batch, wrong_dimensions_and_a_target_with_rules) {
  float got[24];
  nabla_operation again = turning;
  again.name = "again";
  turning.batch = wrong;
  make(NULL, "turn");
  cr_expect_neq(run(4, got), NABLA_OK);
  cr_expect(strstr(diag.what,
                   "the batch of the operation 'turning': 'batch' "
                   "gave a result a dimension"),
            "%s", diag.what);
  nabla_scope_clear(scope);
  again.handler = "turn";
  cr_expect_eq(nabla_add_operation(&again, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "rules"), "%s", diag.what);
  cr_expect(!nabla_operation_find("again"));
}
