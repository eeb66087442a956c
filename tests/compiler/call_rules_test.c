/* nabla_add_call_rules: derivatives and batches of custom calls from C, and
 * what rules get wrong. */
#include <criterion/criterion.h>
#include <mlir-c/Diagnostics.h>
#include <mlir-c/Pass.h>
#include <stdio.h>
#include <string.h>

#include "dialect/dialect.h"
#include "lib/kernels/builder/text.h"
#include "nabla/mlir.h"
#include "transforms/ir/build.h"
#include "transforms/passes.h"

static char said[1024];
static nabla_diag diag;

static void put(MlirStringRef part, void *data) {
  size_t used = strlen(data);
  (void)snprintf((char *)data + used, sizeof said - used, "%.*s",
                 (int)part.length, part.data);
}

static MlirLogicalResult listen(MlirDiagnostic diagnostic, void *data) {
  mlirDiagnosticPrint(diagnostic, put, data);
  return mlirLogicalResultSuccess();
}

static void append(MlirStringRef part, void *data) {
  nabla_text_add(data, "%.*s", (int)part.length, part.data);
}

static const char program[] =
    "func.func @f(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {\n"
    "  %0 = nabla.exp %x : tensor<4xf32>\n"
    "  %y, %z = nabla.custom_call @two(%0, %w) pure : (tensor<4xf32>, "
    "tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)\n"
    "  return %y : tensor<4xf32>\n}\n";

/* The program after a pass; an empty text where it fails. */
static nabla_text after(const char *pass) {
  nabla_text out = {0};
  char pipeline[128];
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
  mlirContextAttachDiagnosticHandler(context, listen, said, NULL);
  mlirContextLoadAllAvailableDialects(context);
  *said = 0;
  MlirModule module = mlirModuleCreateParse(context, nabla_ref(program));
  cr_assert_not(mlirModuleIsNull(module), "%s", said);
  (void)snprintf(pipeline, sizeof pipeline, "%s", pass);
  MlirPassManager manager = mlirPassManagerCreate(context);
  cr_assert(mlirLogicalResultIsSuccess(mlirOpPassManagerAddPipeline(
                mlirPassManagerGetAsOpPassManager(manager), nabla_ref(pipeline),
                put, said)),
            "%s", said);
  if (mlirLogicalResultIsSuccess(
          mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(module))))
    mlirOperationPrint(mlirModuleGetOperation(module), append, &out);
  mlirPassManagerDestroy(manager);
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
  return out;
}

/* ---- rules ---- */

static bool forward(nabla_call_rule_frame *f) {
  const nabla_builder b = {f->before};
  f->out[0] = nabla_build_two(&b, "mul", f->operands[0], f->operands[1]);
  f->out[1] = nabla_build_one(&b, "neg", f->operands[0]);
  f->save[0] = f->operands[1];
  f->out_count = 1;
  return true;
}

static bool vjp(nabla_call_rule_frame *f) {
  const nabla_builder b = {f->before};
  f->out[0] = nabla_build_two(&b, "mul", f->given[0], f->saved[0]);
  if (!mlirValueIsNull(f->given[1]))
    f->out[0] = nabla_build_two(&b, "sub", f->out[0], f->given[1]);
  f->out_count = 2;
  return true;
}

static bool jvp(nabla_call_rule_frame *f) {
  const nabla_builder b = {f->before};
  f->out[0] = nabla_build_two(&b, "mul", f->given[0], f->operands[1]);
  f->out[1] = nabla_build_one(&b, "neg", f->given[0]);
  return true;
}

static bool batch(nabla_call_rule_frame *f) {
  const nabla_builder b = {f->before};
  f->out[0] = nabla_build_one(&b, "sin", f->operands[0]);
  f->out[1] = nabla_build_one(&b, "cos", f->operands[0]);
  return f->batched[0] && !f->batched[1];
}

static bool too_few(nabla_call_rule_frame *f) {
  f->out_count = 1;
  return true;
}

static bool other_shape(nabla_call_rule_frame *f) {
  const nabla_builder b = {f->before};
  f->out[0] = nabla_build_reduce(&b, NABLA_BUILD_SUM, f->given[0], 0);
  f->out_count = 2;
  return true;
}

/* The operand that forward did not save. */
static bool not_saved(nabla_call_rule_frame *f) {
  const nabla_builder b = {f->before};
  MlirBlock entry = mlirOperationGetBlock(f->before);
  f->out[0] =
      nabla_build_two(&b, "mul", f->given[0], mlirBlockGetArgument(entry, 0));
  f->out_count = 2;
  return true;
}

static bool gives_up(nabla_call_rule_frame *f) {
  (void)f;
  return false;
}

static nabla_call_rules rules_of(bool (*backward)(nabla_call_rule_frame *)) {
  return (nabla_call_rules){.struct_size = sizeof(nabla_call_rules),
                            .target = "two",
                            .symbolic_zeros = 1,
                            .forward = forward,
                            .vjp = backward,
                            .jvp = jvp,
                            .batch = batch};
}

/* ---- tests ---- */

static void expect(const char *pass, const char *const *lines) {
  nabla_text text = after(pass);
  cr_assert(text.data, "%s", said);
  const char *at = text.data;
  for (; *lines; lines++) {
    const char *found = strstr(at, *lines);
    cr_expect(found, "no '%s' in\n%s", *lines, text.data);
    if (found) at = found;
  }
  nabla_text_deinit(&text);
}

Test(call_rules, derivatives, .timeout = 60) {
  const nabla_call_rules rules = rules_of(vjp);
  cr_assert_eq(nabla_add_call_rules(&rules, &diag), NABLA_OK, "%s", diag.what);
  static const char *const pulled[] = {"@f.vjp(",
                                       "nabla.exp %arg0",
                                       "nabla.mul %0, %arg1",
                                       "nabla.mul %arg2, %arg1",
                                       "return",
                                       NULL};
  expect("nabla-vjp{wrt=0 function=f}", pulled);
  static const char *const pushed[] = {"@f.jvp(", "nabla.custom_call @two",
                                       "nabla.mul %", ", %arg1", NULL};
  expect("nabla-jvp{wrt=0 function=f}", pushed);
  static const char *const batched[] = {"@f.vmap(",
                                        "nabla.sin %0 : tensor<3x4xf32>", NULL};
  expect("nabla-vmap{function=f in-axes=0,none axis-size=3}", batched);
}

/* Zeros are arrays where the rules do not say that they take null values. */
Test(call_rules, zeros, .timeout = 60) {
  nabla_call_rules rules = rules_of(vjp);
  rules.symbolic_zeros = 0;
  cr_assert_eq(nabla_add_call_rules(&rules, &diag), NABLA_OK, "%s", diag.what);
  static const char *const pulled[] = {"@f.vjp(", "nabla.full 0.0", "nabla.sub",
                                       NULL};
  expect("nabla-vjp{wrt=0 function=f}", pulled);
}

static void expect_error(bool (*backward)(nabla_call_rule_frame *),
                         const char *error) {
  const nabla_call_rules rules = rules_of(backward);
  cr_assert_eq(nabla_add_call_rules(&rules, &diag), NABLA_OK, "%s", diag.what);
  nabla_text text = after("nabla-vjp{function=f}");
  cr_expect_null(text.data);
  cr_expect(strstr(said, error), "%s", said);
  nabla_text_deinit(&text);
}

#define WRONG(function, error) \
  Test(call_rules, function, .timeout = 60) { expect_error(function, error); }
WRONG(too_few,
      "the rule vjp of custom calls of 'two' gives 1 cotangents, not "
      "one for each of 2 operands")
WRONG(other_shape,
      "the rule vjp of custom calls of 'two' gives cotangent #0 as "
      "tensor<f32>, not tensor<4xf32>")
WRONG(not_saved,
      "the rule vjp of custom calls of 'two' uses a value that "
      "forward did not save")
WRONG(gives_up, "the rule vjp of custom calls of 'two' failed")

Test(call_rules, adding) {
  nabla_call_rules rules = rules_of(vjp);
  rules.struct_size--;
  cr_expect_eq(nabla_add_call_rules(&rules, &diag), NABLA_INVALID_ARGUMENT);
  rules = rules_of(NULL);
  cr_expect_eq(nabla_add_call_rules(&rules, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "forward without vjp"), "%s", diag.what);
  rules = rules_of(vjp), rules.batch_word = "loop";
  cr_expect_eq(nabla_add_call_rules(&rules, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "none of scan, expand, broadcast"), "%s",
            diag.what);
  rules = rules_of(vjp), rules.target = "";
  cr_expect_eq(nabla_add_call_rules(&rules, &diag), NABLA_INVALID_ARGUMENT);
  rules = rules_of(vjp);
  cr_expect_eq(nabla_add_call_rules(&rules, &diag), NABLA_OK);
  cr_expect_eq(nabla_add_call_rules(&rules, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "has rules already"), "%s", diag.what);
}
