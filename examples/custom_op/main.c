/* Two operations of one's own: `swish`, which is recorded, and `topple`, a C
 * function that compiled programs call. Both are used in a traced function,
 * whose MLIR is printed. */
#include <stdio.h>
#include <string.h>

#include "nabla/custom_call.h"
#include "nabla/function.h"
#include "nabla/operation.h"

/* ---- an operation with a body ---- */

static void swish(nabla_scope *scope, const nabla_operation_frame *frame,
                  nabla_array **results) {
  (void)scope;
  nabla_array *x = frame->operands[0];
  results[0] = nabla_mul(x, nabla_sigmoid(x));
}

static const nabla_operation swish_operation = {
    .struct_size = sizeof swish_operation,
    .name = "swish",
    .kind = NABLA_OPERATION_UNARY, /* so the result has dtype and shape of x */
    .body = swish};

/* ---- an operation with a handler ---- */

/* The sum of each row, times `by`. */
static nabla_call_code topple(const nabla_call_frame *frame) {
  const nabla_call_buffer *x = &frame->arguments[0];
  const nabla_attribute_tree *by =
      nabla_attribute_tree_find(frame->attributes, "by");
  const float *in = x->data;
  float *out = frame->results[0].data;
  if (!by) {
    snprintf(frame->message, frame->message_size, "by is missing");
    return NABLA_CALL_INVALID_ARGUMENT;
  }
  for (int64_t i = 0; i < x->dims[0]; i++) {
    double sum = 0;
    for (int64_t k = 0; k < x->dims[1]; k++) sum += (double)*in++;
    out[i] = (float)(sum * by->number);
  }
  return NABLA_CALL_OK;
}

/* What nabla_operation.infer says before anything runs. */
static nabla_status infer_topple(const nabla_operation_frame *frame,
                                 nabla_dense *results, nabla_diag *diag) {
  if (frame->operand_count != 1 || frame->types[0].rank != 2)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "topple takes a matrix");
  results[0] = (nabla_dense){.dtype = NABLA_DTYPE_F32, .rank = 1};
  results[0].shape[0] = frame->types[0].shape[0]; /* also where it is unknown */
  return NABLA_OK;
}

static const nabla_operation topple_operation = {
    .struct_size = sizeof topple_operation,
    .name = "topple",
    .infer = infer_topple,
    .handler = "example.topple"};

static nabla_status add_operations(nabla_diag *diag) {
  static const nabla_call_parameter x = {"x", NABLA_CALL_DTYPE(F32), 2, NULL},
                                    y = {"y", NABLA_CALL_DTYPE(F32), 1, NULL};
  static const nabla_call_attribute by = {"by", NABLA_ATTRIBUTE_FLOAT, 0};
  const nabla_call_handler handler = {.struct_size = sizeof handler,
                                      .target = "example.topple",
                                      .platform = "cpu",
                                      .traits = NABLA_CALL_PURE,
                                      .arguments = &x,
                                      .argument_count = 1,
                                      .results = &y,
                                      .result_count = 1,
                                      .attributes = &by,
                                      .attribute_count = 1,
                                      .execute = topple};
  nabla_status status = nabla_add_call_handler(&handler, diag);
  if (!status) status = nabla_add_operation(&swish_operation, diag);
  if (!status) status = nabla_add_operation(&topple_operation, diag);
  return status;
}

/* ---- their use ---- */

static void rows(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)scope, (void)self;
  static const nabla_attribute_tree by = {
      .name = "by", .kind = NABLA_ATTRIBUTE_FLOAT, .number = 0.5};
  static const nabla_attribute_tree attributes = {
      .name = "",
      .kind = NABLA_ATTRIBUTE_DICTIONARY,
      .count = 1,
      .elements = &by};
  nabla_array *x = nabla_apply(&swish_operation, 1, &in->array, NULL);
  out->array = nabla_apply(&topple_operation, 1, &x, &attributes);
}

static nabla_status work(nabla_scope *scope, nabla_function *function,
                         nabla_diag *diag) {
  static float values[6] = {0, 1, 2, -1, -2, -3};
  const nabla_dense matrix = {values, NABLA_DTYPE_F32, 2, {2, 3}};
  const nabla_tree in = nabla_tree_of_array(nabla_array_of(scope, &matrix));
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_blob text = {.bytes = NULL};
  const nabla_sink sink = nabla_blob_sink(&text);
  nabla_dense y;
  nabla_status status = nabla_function_call(function, &in, &out, diag);
  if (!status) status = nabla_array_read(out.array, &y, diag);
  if (!status) status = nabla_function_print(function, &sink, diag);
  if (!status)
    printf("%.4f %.4f\n%s", (double)((float *)y.data)[0],
           (double)((float *)y.data)[1], text.bytes);
  nabla_blob_release(&text);
  return status;
}

int main(void) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_engine *engine = NULL;
  nabla_scope *scope = NULL;
  nabla_function *function = NULL;
  nabla_status status = add_operations(&diag);
  if (!status) status = nabla_engine_create(NULL, NULL, &engine, &diag);
  if (!status) status = nabla_scope_create(engine, &scope, &diag);
  if (!status)
    status = nabla_function_create(engine, rows, NULL, &function, &diag);
  if (!status) status = work(scope, function, &diag);
  if (status) fprintf(stderr, "custom_op: %s\n", diag.what);
  nabla_function_destroy(function);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  return status != NABLA_OK;
}
