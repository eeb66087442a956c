/* Extending the compiler from C: an encoding, a rule that computes with it
 * packed, and a custom call that programs make by name. Prints what it computed
 * and ends with 1 if that is not what it should be.
 *
 *   cc extend.c $(pkg-config --cflags --libs nabla-mlir) */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <nabla/compiler.h>
#include <nabla/custom_call.h>
#include <nabla/custom_encoding.h>
#include <nabla/mlir.h>
#include <stdio.h>
#include <string.h>

/* ---- an encoding: each row is signs times one magnitude ---- */

static const char *count_signs(void *self, const nabla_encoding_storage *of,
                               int64_t counts[NABLA_ENCODING_MAX_COMPONENTS]) {
  (void)self;
  if (of->rank != 2) return "a storage has rows and columns";
  counts[0] = (int64_t)of->elements; /* signs, -1 or 1 */
  counts[1] = of->shape[0];          /* magnitudes     */
  return NULL;
}

static nabla_status decode_signs(void *self, const nabla_encoding_storage *of,
                                 const char *name, const nabla_sink *to,
                                 nabla_diag *diag) {
  char text[700];
  (void)self;
  int length = snprintf(
      text, sizeof text,
      "func.func private @%s(%%signs: tensor<?xi8>, %%sizes: tensor<?xf32>, "
      "%%at: index) -> f32 {\n"
      "  %%columns = arith.constant %lld : index\n"
      "  %%row = arith.divui %%at, %%columns : index\n"
      "  %%sign = tensor.extract %%signs[%%at] : tensor<?xi8>\n"
      "  %%size = tensor.extract %%sizes[%%row] : tensor<?xf32>\n"
      "  %%f = arith.sitofp %%sign : i8 to f32\n"
      "  %%value = arith.mulf %%f, %%size : f32\n"
      "  return %%value : f32\n}\n",
      name, (long long)of->shape[1]);
  return to->write(to->self, text, (size_t)length, diag);
}

static const nabla_encoding_description signs = {
    .struct_size = sizeof signs,
    .name = "signs",
    .component_count = 2,
    .components = {{"signs", NABLA_DTYPE_I8}, {"sizes", NABLA_DTYPE_F32}},
    .count = count_signs,
    .decode = decode_signs,
    .version = "1",
};

/* ---- a rule: |signs| is the magnitudes, nothing is decoded ---- */

/* An op with one result, before the one that is replaced; its type may be
 * null: then it is inferred. */
static MlirOperation build(nabla_dispatch_call *call, const char *name,
                           MlirValue operand, const char *key,
                           MlirAttribute attribute, MlirType type) {
  MlirContext context = mlirOperationGetContext(call->op);
  MlirOperationState state = mlirOperationStateGet(
      mlirStringRefCreateFromCString(name), mlirOperationGetLocation(call->op));
  mlirOperationStateAddOperands(&state, 1, &operand);
  if (key) {
    MlirNamedAttribute named = mlirNamedAttributeGet(
        mlirIdentifierGet(context, mlirStringRefCreateFromCString(key)),
        attribute);
    mlirOperationStateAddAttributes(&state, 1, &named);
  }
  if (mlirTypeIsNull(type))
    mlirOperationStateEnableResultTypeInference(&state);
  else
    mlirOperationStateAddResults(&state, 1, &type);
  MlirOperation made = mlirOperationCreate(&state);
  if (!mlirOperationIsNull(made))
    (void)mlirRewriterBaseInsert(call->rewriter, made);
  return made;
}

static nabla_rule_outcome abs_of_signs(nabla_dispatch_call *call) {
  MlirValue packed = mlirOperationGetOperand(call->op, 0);
  MlirContext context = mlirOperationGetContext(call->op);
  const int64_t rows = 0;
  if (!nabla_type_has_encoding(mlirValueGetType(packed), "signs")) {
    call->why = "it is no array of signs";
    return NABLA_RULE_DECLINED;
  }
  MlirOperation parts = build(call, "nabla.unpack", packed, NULL,
                              (MlirAttribute){NULL}, (MlirType){NULL});
  if (mlirOperationIsNull(parts)) return NABLA_RULE_FAILED;
  MlirOperation spread =
      build(call, "nabla.broadcast_in_dim", mlirOperationGetResult(parts, 1),
            "dims", mlirDenseI64ArrayGet(context, 1, &rows),
            mlirValueGetType(mlirOperationGetResult(call->op, 0)));
  MlirValue result = mlirOperationGetResult(spread, 0);
  mlirRewriterBaseReplaceOpWithValues(call->rewriter, call->op, 1, &result);
  return NABLA_RULE_APPLIED;
}

static const nabla_rule_description rule = {
    .struct_size = sizeof rule,
    .id = "abs_of_signs",
    .op = "nabla.abs",
    .lhs = "custom",
    .rhs = "",
    .summary = "the magnitudes, spread over the rows",
    .version = "1",
    .apply = abs_of_signs,
};

/* ---- a custom call: y = by . x ---- */

static nabla_call_code scale(const nabla_call_frame *frame) {
  const nabla_call_buffer *x = &frame->arguments[0], *y = &frame->results[0];
  double by = nabla_attribute_tree_find(frame->attributes, "by")->number;
  if (x->rank != y->rank) {
    snprintf(frame->message, frame->message_size, "ranks %u and %u differ",
             x->rank, y->rank);
    return NABLA_CALL_INVALID_ARGUMENT;
  }
  int64_t count = 1;
  for (uint32_t i = 0; i < x->rank; i++) count *= x->dims[i];
  for (int64_t i = 0; i < count; i++)
    ((float *)y->data)[i] = (float)by * ((const float *)x->data)[i];
  return NABLA_CALL_OK;
}

static nabla_status add_all(nabla_diag *diag) {
  static const nabla_call_parameter x = {"x", NABLA_CALL_DTYPE(F32), -1, NULL};
  static const nabla_call_attribute by = {"by", NABLA_ATTRIBUTE_FLOAT, 0};
  const nabla_call_handler handler = {
      .struct_size = sizeof handler,
      .target = "example.scale",
      .platform = "cpu",
      .traits = NABLA_CALL_PURE,
      .arguments = &x,
      .argument_count = 1,
      .results = &x,
      .result_count = 1,
      .attributes = &by,
      .attribute_count = 1,
      .execute = scale,
  };
  nabla_status status = nabla_add_encoding(&signs, diag);
  if (!status) status = nabla_add_rule(&rule, diag);
  if (!status) status = nabla_add_call_handler(&handler, diag);
  return status;
}

/* ---- a program that uses all three ---- */

static const char program[] =
    "!w = !nabla.implicit<2x3xf32, #nabla.custom<\"signs\">>\n"
    "func.func @f(%w: !w {nabla.name = \"w\"}) -> "
    "(tensor<2x3xf32>, tensor<2x3xf32>) {\n"
    "  %d = nabla.materialize %w : !w\n"
    "  %a = nabla.abs %w : !w\n"
    "  %y = nabla.custom_call @example.scale(%a) {by = 2.0} : "
    "(tensor<2x3xf32>) -> tensor<2x3xf32>\n"
    "  return %d, %y : tensor<2x3xf32>, tensor<2x3xf32>\n"
    "}\n";

static int check(nabla_executable *executable, nabla_diag *diag) {
  static const float decoded[6] = {.5f, -.5f, .5f, -3, -3, 3};
  static const float scaled[6] = {1, 1, 1, 6, 6, 6};
  int8_t codes[6] = {1, -1, 1, -1, -1, 1};
  float sizes[2] = {.5f, 3};
  nabla_dense inputs[2] = {{codes, NABLA_DTYPE_I8, 1, {6}},
                           {sizes, NABLA_DTYPE_F32, 1, {2}}};
  nabla_dense outputs[2] = {{0}};
  int wrong = 0;
  if (nabla_executable_run(executable, "f", inputs, 2, outputs, 2, diag))
    return 1;
  for (int i = 0; i < 6; i++) {
    float d = ((float *)outputs[0].data)[i], y = ((float *)outputs[1].data)[i];
    printf("%4g -> %g\n", (double)d, (double)y);
    wrong += d != decoded[i] || y != scaled[i];
  }
  nabla_dense_release(executable, &outputs[0]);
  nabla_dense_release(executable, &outputs[1]);
  return wrong;
}

int main(void) {
  nabla_compiler_options options = {.struct_size = sizeof options, .cache = ""};
  nabla_compile_options compile = {.struct_size = sizeof compile,
                                   .policy = "error"}; /* nothing decoded */
  nabla_compiler *compiler = NULL;
  nabla_executable *executable = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status = add_all(&diag);
  if (!status) status = nabla_compiler_create(&options, NULL, &compiler, &diag);
  if (!status)
    status = nabla_compile_text(compiler, program, strlen(program), "extend",
                                &compile, &executable, &diag);
  int wrong = status ? 1 : check(executable, &diag);
  if (wrong) fprintf(stderr, "extend: %s %s\n", diag.what, diag.next);
  nabla_executable_close(executable);
  nabla_compiler_destroy(compiler);
  return wrong != 0;
}
