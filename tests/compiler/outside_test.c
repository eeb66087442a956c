/* What comes from outside, from C: rules, encodings, handlers of custom calls;
 * how each is refused, what a wrong one does, and what the cache knows of it.
 * Every test is a process of its own: what it adds is gone with it. */
#include <criterion/criterion.h>
#include <ftw.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/custom_call.h"
#include "nabla/custom_encoding.h"
#include "nabla/mlir.h"
#include "tests/support/temp_folder.h"

static nabla_diag diag;
static char said[8192];

static void listen(void *self, const char *text) {
  size_t used = strlen(said);
  (void)self;
  snprintf(said + used, sizeof said - used, "%s\n", text);
}

static nabla_status compile_with(const char *cache, const char *rules,
                                 const char *text, nabla_executable **out,
                                 int *from_cache) {
  nabla_compiler_options options = {
      .struct_size = sizeof options, .cache = cache, .diagnostic = listen};
  nabla_compile_options compile = {.struct_size = sizeof compile,
                                   .rules = &rules,
                                   .rule_count = rules != NULL};
  nabla_compiler *compiler = NULL;
  said[0] = '\0';
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
  nabla_status status = nabla_compile_text(compiler, text, strlen(text), "p",
                                           &compile, out, &diag);
  *from_cache = nabla_compiler_last_report(compiler).from_cache;
  nabla_compiler_destroy(compiler);
  return status;
}

static nabla_status compile(const char *text, nabla_executable **out) {
  int ignored;
  *out = NULL;
  return compile_with("", NULL, text, out, &ignored);
}

static void expect_said(const char *text) {
  cr_expect(strstr(said, text) || strstr(diag.what, text),
            "'%s' is not in '%s' or '%s'", text, said, diag.what);
}

/* ---- rules ---- */

static const char relu[] =
    "!w = !nabla.implicit<4x16xf32, #nabla.nf4<block = 16>>\n"
    "func.func @f(%w: !w) -> tensor<4x16xf32> {\n"
    "  %y = nabla.relu %w : !w\n"
    "  return %y : tensor<4x16xf32>\n"
    "}\n";

static MlirOperation build(nabla_dispatch_call *call, const char *name,
                           MlirType type) {
  MlirOperationState state = mlirOperationStateGet(
      mlirStringRefCreateFromCString(name), mlirOperationGetLocation(call->op));
  MlirValue operand = mlirOperationGetOperand(call->op, 0);
  mlirOperationStateAddOperands(&state, 1, &operand);
  mlirOperationStateAddResults(&state, 1, &type);
  MlirOperation made = mlirOperationCreate(&state);
  return mlirRewriterBaseInsert(call->rewriter, made);
}

static MlirType own_type(nabla_dispatch_call *call) {
  return mlirValueGetType(mlirOperationGetResult(call->op, 0));
}

static nabla_rule_outcome replace(nabla_dispatch_call *call, MlirOperation by) {
  MlirValue value = mlirOperationGetResult(by, 0);
  mlirRewriterBaseReplaceOpWithValues(call->rewriter, call->op, 1, &value);
  return NABLA_RULE_APPLIED;
}

static nabla_rule_outcome decline(nabla_dispatch_call *call) {
  call->why = "the rule from C said no";
  return NABLA_RULE_DECLINED;
}
static nabla_rule_outcome fail(nabla_dispatch_call *call) {
  (void)call;
  return NABLA_RULE_FAILED;
}
static nabla_rule_outcome change_and_decline(nabla_dispatch_call *call) {
  (void)build(call, "nabla.abs", own_type(call));
  return NABLA_RULE_DECLINED;
}
static nabla_rule_outcome again(nabla_dispatch_call *call) {
  return replace(call, build(call, "nabla.relu", own_type(call)));
}
static nabla_rule_outcome wrong_type(nabla_dispatch_call *call) {
  const int64_t four = 4;
  return replace(
      call,
      build(call, "nabla.abs",
            mlirRankedTensorTypeGet(
                1, &four, mlirF32TypeGet(mlirOperationGetContext(call->op)),
                (MlirAttribute){NULL})));
}
static nabla_rule_outcome invalid(nabla_dispatch_call *call) {
  return replace(call, build(call, "nabla.transpose", own_type(call)));
}
static nabla_rule_outcome erase(nabla_dispatch_call *call) {
  mlirRewriterBaseEraseOp(call->rewriter, call->op);
  return NABLA_RULE_APPLIED;
}
static nabla_rule_outcome erase_and_decline(nabla_dispatch_call *call) {
  mlirRewriterBaseEraseOp(call->rewriter, call->op);
  return NABLA_RULE_DECLINED;
}
static nabla_rule_outcome nothing(nabla_dispatch_call *call) {
  (void)call;
  return NABLA_RULE_REFINED;
}

static nabla_rule_description rule_of(
    nabla_rule_outcome (*f)(nabla_dispatch_call *)) {
  return (nabla_rule_description){.struct_size = sizeof(nabla_rule_description),
                                  .id = "mine",
                                  .op = "nabla.relu",
                                  .lhs = "packed",
                                  .rhs = "",
                                  .apply = f};
}

static void check_rule(nabla_rule_outcome (*f)(nabla_dispatch_call *),
                       nabla_status want, const char *text) {
  nabla_executable *executable;
  nabla_rule_description rule = rule_of(f);
  cr_assert_eq(nabla_add_rule(&rule, &diag), NABLA_OK, "%s", diag.what);
  cr_expect_eq(compile(relu, &executable), want, "%s", said);
  expect_said(text);
  nabla_executable_close(executable);
}

/* A compiler keeps its passes: what it compiled before, failures and rules that
 * come later included, shows in nothing. */
Test(rules, one_compiler_for_many, .timeout = 120) {
  static const char wrong[] = "func.func @f() -> tensor<2xf32> {";
  nabla_compiler_options options = {
      .struct_size = sizeof options, .cache = "", .diagnostic = listen};
  nabla_compiler *compiler = NULL;
  nabla_executable *executable;
  nabla_rule_description rule = rule_of(fail);
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
  const char *const policies[] = {"off", "error", NULL};
  for (unsigned i = 0; i < 8; i++) {
    const int has_rule = i >= 5;
    const char *policy = policies[i % 3];
    nabla_compile_options how = {.struct_size = sizeof how, .policy = policy};
    if (i == 5) cr_assert_eq(nabla_add_rule(&rule, &diag), NABLA_OK);
    said[0] = '\0';
    cr_expect_eq(nabla_compile_text(compiler, wrong, strlen(wrong), "p", &how,
                                    &executable, &diag),
                 NABLA_CORRUPT);
    said[0] = '\0';
    const int refuses = has_rule || (policy && *policy == 'e');
    nabla_status want = refuses ? NABLA_CORRUPT : NABLA_OK;
    nabla_status got = nabla_compile_text(compiler, relu, strlen(relu), "p",
                                          &how, &executable, &diag);
    cr_expect_eq(got, want, "%u: %d, %s", i, (int)got, said);
    if (has_rule) expect_said("rule 'mine': failed");
    if (!got) nabla_executable_close(executable);
  }
  nabla_compiler_destroy(compiler);
}

#define RULE_TEST(function, want, text) \
  Test(rules, function, .timeout = 60) { check_rule(function, want, text); }
RULE_TEST(decline, NABLA_OK, "the rule from C said no")
RULE_TEST(fail, NABLA_CORRUPT, "rule 'mine': failed")
RULE_TEST(change_and_decline, NABLA_CORRUPT,
          "rule 'mine': changed the program and then gave up")
RULE_TEST(again, NABLA_CORRUPT, "rule 'mine': does not come to an end")
RULE_TEST(nothing, NABLA_CORRUPT, "rule 'mine': does not come to an end")
RULE_TEST(wrong_type, NABLA_CORRUPT,
          "rule 'mine': replaces a result by a value of another type")
RULE_TEST(erase, NABLA_CORRUPT,
          "p:3:8: error: rule 'mine': erased an operation whose results are "
          "used: replace it")
RULE_TEST(erase_and_decline, NABLA_CORRUPT,
          "rule 'mine': erased an operation whose results are used")
RULE_TEST(invalid, NABLA_CORRUPT,
          "rule 'mine': built an operation that is not valid")

Test(rules, refused) {
  nabla_rule_description rule = rule_of(decline);
  static const size_t sizes[] = {
      0, 8, sizeof rule - 1, sizeof rule + 1, 2 * sizeof rule, SIZE_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    rule.struct_size = sizes[i];
    cr_expect_eq(nabla_add_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
    cr_expect(strstr(diag.what, "struct_size"), "%s", diag.what);
  }
  rule = rule_of(decline), rule.op = "nabla.rleu";
  cr_expect_eq(nabla_add_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_str_eq(diag.next, "did you mean 'nabla.relu'?");
  rule = rule_of(decline), rule.lhs = "paked";
  cr_expect_eq(nabla_add_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.next, "legal are any, dense, implicit, packed"));
  rule = rule_of(NULL);
  cr_expect_eq(nabla_add_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
  rule = rule_of(decline), rule.id = "dot_packed_rhs";
  cr_expect_eq(nabla_add_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
  expect_said("there is a rule 'dot_packed_rhs' already");
  rule = rule_of(decline);
  cr_expect_eq(nabla_add_rule(&rule, &diag), NABLA_OK);
  cr_expect_eq(nabla_add_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
}

/* One that says as much as a rule of the table is an error; with a higher
 * precedence it is asked first, with a lower one never. */
Test(rules, precedence, .timeout = 60) {
  static const char text[] =
      "!w = !nabla.implicit<4x16xf32, #nabla.nf4<block = 16>>\n"
      "func.func @f(%x: tensor<2x16xf32>, %w: !w) -> tensor<2x4xf32> {\n"
      "  %y = nabla.dot_general %x, %w contracting = [1] x [1] : "
      "tensor<2x16xf32>, !w\n"
      "  return %y : tensor<2x4xf32>\n"
      "}\n";
  nabla_executable *executable;
  nabla_rule_description rule = rule_of(fail);
  rule.op = "nabla.dot_general", rule.lhs = "dense", rule.rhs = "packed";
  rule.precedence = -1;
  cr_assert_eq(nabla_add_rule(&rule, &diag), NABLA_OK);
  cr_expect_eq(compile(text, &executable), NABLA_OK, "%s", said);
  nabla_executable_close(executable);
  rule.id = "tie", rule.precedence = 0;
  cr_assert_eq(nabla_add_rule(&rule, &diag), NABLA_OK);
  cr_expect_eq(compile(text, &executable), NABLA_CORRUPT);
  expect_said(
      "is taken by two rules that say equally much, dot_packed_rhs and "
      "tie: give one a higher precedence");
  rule.id = "first", rule.precedence = 1;
  cr_assert_eq(nabla_add_rule(&rule, &diag), NABLA_OK);
  cr_expect_eq(compile(text, &executable), NABLA_CORRUPT);
  expect_said("rule 'first': failed");
}

/* ---- the cache ---- */

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  cr_assert(file && fputs(text, file) >= 0 && !fclose(file));
}

static int remove_one(const char *name, const struct stat *info, int type,
                      struct FTW *at) {
  (void)info, (void)type, (void)at;
  return remove(name);
}

Test(cache, rules, .timeout = 120) {
  static const char twice[] =
      "func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %y = nabla.add %x, %x : tensor<4xf32>, tensor<4xf32>\n"
      "  return %y : tensor<4xf32>\n}\n";
  static const char rules[] =
      "pdl.pattern @one : benefit(1) {\n"
      "  %x = pdl.operand\n  %t = pdl.type\n"
      "  %root = pdl.operation \"nabla.relu\"(%x : !pdl.value) -> (%t : "
      "!pdl.type)\n"
      "  pdl.rewrite %root { pdl.replace %root with (%x : !pdl.value) }\n}\n";
  temp_folder folder;
  char cache[256], path[256];
  int hit;
  nabla_executable *executable;
  temp_folder_create(&folder);
  temp_folder_path(&folder, "cache", cache);
  temp_folder_path(&folder, "r.pdl.mlir", path);
  write_text(path, rules);
#define COMPILE(rules)                                                 \
  do {                                                                 \
    executable = NULL;                                                 \
    cr_assert_eq(compile_with(cache, rules, twice, &executable, &hit), \
                 NABLA_OK, "%s %s", diag.what, said);                  \
    nabla_executable_close(executable);                                \
  } while (0)
  COMPILE(NULL);
  cr_expect(!hit);
  COMPILE(NULL);
  cr_expect(hit);
  COMPILE(path);
  cr_expect(!hit, "rules are a part of the key");
  COMPILE(path);
  cr_expect(hit);
  char changed[1024];
  snprintf(changed, sizeof changed, "%s// changed\n", rules);
  write_text(path, changed);
  COMPILE(path);
  cr_expect(!hit, "what a file of rules holds is a part of the key");
  nabla_rule_description rule = rule_of(decline);
  rule.version = "1";
  cr_assert_eq(nabla_add_rule(&rule, &diag), NABLA_OK);
  COMPILE(NULL);
  cr_expect(!hit, "rules from C are a part of the key");
  COMPILE(NULL);
  cr_expect(hit);
  rule.id = "other", rule.version = NULL;
  cr_assert_eq(nabla_add_rule(&rule, &diag), NABLA_OK);
  COMPILE(NULL);
  COMPILE(NULL);
  cr_expect(!hit, "a rule without a version keeps programs from the cache");
  executable = NULL;
  cr_expect_eq(compile_with(cache, "no\"such", twice, &executable, &hit),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(compile_with(cache, "missing", twice, &executable, &hit),
               NABLA_IO);
  (void)nftw(cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  temp_folder_destroy(&folder);
}

/* ---- encodings ---- */

static const char *count_one(void *self, const nabla_encoding_storage *of,
                             int64_t *counts) {
  (void)self;
  if (nabla_attribute_tree_integer(of->parameters, "wrong", 0))
    return "the parameter 'wrong' is set";
  counts[0] = (int64_t)of->elements;
  return NULL;
}

static nabla_status decode_text(void *self, const nabla_encoding_storage *of,
                                const char *name, const nabla_sink *to,
                                nabla_diag *why) {
  char text[512];
  (void)of;
  if (!self) return nabla_fail(why, NABLA_UNSUPPORTED, "it cannot be said");
  int length = snprintf(text, sizeof text, self, name);
  return to->write(to->self, text, (size_t)length, why);
}

static nabla_encoding_description encoding_of(const char *text) {
  return (nabla_encoding_description){
      .struct_size = sizeof(nabla_encoding_description),
      .name = "test",
      .component_count = 1,
      .components = {{"codes", NABLA_DTYPE_F32}},
      .count = count_one,
      .decode = decode_text,
      .self = (void *)(uintptr_t)text};
}

static const char decodes[] =
    "!w = !nabla.implicit<4xf32, #nabla.custom<\"test\">>\n"
    "func.func @f(%w: !w {nabla.name = \"w\"}) -> tensor<4xf32> {\n"
    "  %y = nabla.materialize %w : !w\n"
    "  return %y : tensor<4xf32>\n"
    "}\n";

static void check_decode(const char *text, const char *why) {
  nabla_executable *executable;
  nabla_encoding_description encoding = encoding_of(text);
  cr_assert_eq(nabla_add_encoding(&encoding, &diag), NABLA_OK);
  cr_expect_eq(compile(decodes, &executable), why ? NABLA_CORRUPT : NABLA_OK,
               "%s", said);
  if (why) {
    expect_said(why);
    return;
  }
  float codes[4] = {1, 2, 3, 4};
  nabla_dense in = {codes, NABLA_DTYPE_F32, 1, {4}}, out = {0};
  cr_assert_str_eq(nabla_executable_function(executable, 0)->arguments[0].name,
                   "w.codes");
  cr_assert_eq(nabla_executable_run(executable, "f", &in, 1, &out, 1, &diag),
               NABLA_OK, "%s", diag.what);
  cr_expect_arr_eq(out.data, codes, sizeof codes);
  nabla_dense_release(executable, &out);
  nabla_executable_close(executable);
}

#define DECODE_TEST(id, text, why) \
  Test(encodings, id, .timeout = 60) { check_decode(text, why); }
DECODE_TEST(good,
            "func.func private @%s(%%c: tensor<?xf32>, %%i: index) -> f32 {\n"
            "  %%v = tensor.extract %%c[%%i] : tensor<?xf32>\n"
            "  return %%v : f32\n}\n",
            NULL)
DECODE_TEST(fails, NULL,
            "has an encoding whose decode failed: it cannot be said")
DECODE_TEST(garbage, "func.func private @%s(", "wrote what does not parse")
DECODE_TEST(other, "func.func private @other_%s()", "wrote no function")
DECODE_TEST(signature,
            "func.func private @%s(%%c: tensor<?xi8>, %%i: index) -> f32 {\n"
            "  %%v = arith.constant 0.0 : f32\n  return %%v : f32\n}\n",
            "(tensor<?xf32>, index) -> f32, with a body")
DECODE_TEST(no_body, "func.func private @%s(tensor<?xf32>, index) -> f32\n",
            "with a body")

Test(encodings, refused, .timeout = 60) {
  nabla_executable *executable;
  nabla_encoding_description e = encoding_of("");
  static const size_t sizes[] = {
      0, 3, sizeof e - 1, sizeof e + 1, 2 * sizeof e, SIZE_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    e.struct_size = sizes[i];
    cr_expect_eq(nabla_add_encoding(&e, &diag), NABLA_INVALID_ARGUMENT);
    cr_expect(strstr(diag.what, "struct_size"), "%s", diag.what);
  }
  e = encoding_of(""), e.name = "a b";
  cr_expect_eq(nabla_add_encoding(&e, &diag), NABLA_INVALID_ARGUMENT);
  e = encoding_of(""), e.component_count = 5;
  cr_expect_eq(nabla_add_encoding(&e, &diag), NABLA_INVALID_ARGUMENT);
  e = encoding_of(""), e.components[0].dtype = NABLA_DTYPE_C64;
  cr_expect_eq(nabla_add_encoding(&e, &diag), NABLA_INVALID_ARGUMENT);
  e = encoding_of(""), e.decode = NULL;
  cr_expect_eq(nabla_add_encoding(&e, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(compile(decodes, &executable), NABLA_CORRUPT);
  expect_said("nobody has added an encoding 'test'");
  e = encoding_of("");
  cr_expect_eq(nabla_add_encoding(&e, &diag), NABLA_OK);
  cr_expect_eq(nabla_add_encoding(&e, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(compile("func.func private @f(!nabla.implicit<4xf32, "
                       "#nabla.custom<\"test\", {wrong = 1}>>)\n",
                       &executable),
               NABLA_CORRUPT);
  expect_said("#nabla.custom<\"test\">: the parameter 'wrong' is set");
}

/* ---- custom calls ---- */

static int made, freed, calls;
static uint64_t state_type;

static nabla_call_code create(const nabla_call_frame *frame, void **out) {
  if (nabla_attribute_tree_find(frame->attributes, "refuse")) {
    snprintf(frame->message, frame->message_size, "no state today");
    return NABLA_CALL_UNAVAILABLE;
  }
  *out = malloc(1);
  made++;
  return NABLA_CALL_OK;
}
static void destroy(void *self, void *state) {
  (void)self;
  free(state);
  freed++;
}

/* y[0] = the number of arguments, of their elements, and of attributes. */
static nabla_call_code probe(const nabla_call_frame *frame) {
  float *y = frame->results[0].data;
  y[0] = (float)frame->argument_count, y[1] = 0;
  for (uint32_t i = 0; i < frame->argument_count; i++) {
    int64_t count = 1;
    for (uint32_t d = 0; d < frame->arguments[i].rank; d++)
      count *= frame->arguments[i].dims[d];
    y[1] += (float)count;
  }
  y[2] = (float)frame->attributes->count;
  y[3] = (float)(frame->api == NABLA_CALL_API);
  cr_expect(nabla_call_state(frame, state_type) == frame->state);
  cr_expect(nabla_call_state(frame, state_type + 1) == NULL);
  calls++;
  if (!nabla_attribute_tree_find(frame->attributes, "fail"))
    return NABLA_CALL_OK;
  snprintf(frame->message, frame->message_size, "as it was told");
  return (nabla_call_code)nabla_attribute_tree_integer(frame->attributes,
                                                       "fail", 0);
}

static nabla_call_parameter any = {"any", 0, -1, NULL};
static nabla_call_parameter packed = {"w", 0, -1, "nf4"};

static nabla_call_handler handler_of(const nabla_call_parameter *arguments) {
  static nabla_call_parameter y = {"y", NABLA_CALL_DTYPE(F32), 1, NULL};
  state_type = nabla_call_type("test.state");
  return (nabla_call_handler){.struct_size = sizeof(nabla_call_handler),
                              .target = "test.probe",
                              .platform = "cpu",
                              .traits = NABLA_CALL_SERIAL,
                              .arguments = arguments,
                              .argument_count = 1,
                              .is_variadic = 1,
                              .results = &y,
                              .result_count = 1,
                              .takes_any_attributes = 1,
                              .execute = probe,
                              .create = create,
                              .destroy = destroy,
                              .state_type = state_type};
}

/* A function that makes one call with these attributes of these arrays. */
static nabla_status compile_call(const char *attributes, const char *operands,
                                 const char *types, nabla_executable **out) {
  char text[2048];
  snprintf(text, sizeof text,
           "func.func @f(%%x: tensor<2x3xf32>) -> tensor<4xf32> {\n"
           "  %%i = arith.constant dense<1> : tensor<5xi64>\n"
           "  %%w = nabla.quantize %%x : tensor<2x3xf32> -> "
           "!nabla.implicit<2x3xf32, #nabla.nf4<block = 16>>\n"
           "  %%y = nabla.custom_call @test.probe(%s) %s : (%s) -> "
           "tensor<4xf32>\n"
           "  return %%y : tensor<4xf32>\n}\n",
           operands, attributes, types);
  return compile(text, out);
}

static nabla_status run_call(nabla_executable *executable, float y[4]) {
  float x[6] = {1, 2, 3, 4, 5, 6};
  nabla_dense in = {x, NABLA_DTYPE_F32, 2, {2, 3}};
  nabla_dense out = {y, NABLA_DTYPE_F32, 1, {4}};
  return nabla_executable_run(executable, "f", &in, 1, &out, 1, &diag);
}

#define PACKED "!nabla.implicit<2x3xf32, #nabla.nf4<block = 16>>"

Test(calls, run, .timeout = 60) {
  nabla_executable *executable;
  nabla_call_handler handler = handler_of(&any);
  float y[4];
  cr_assert_eq(nabla_add_call_handler(&handler, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(
      compile_call("{a = [1, 2.5, \"x\", {b = true}], c = 3 : i8}",
                   "%x, %i, %w", "tensor<2x3xf32>, tensor<5xi64>, " PACKED,
                   &executable),
      NABLA_OK, "%s", said);
  expect_said("its handler does not take the components");
  cr_expect(made == 1 && freed == 0);
  cr_assert_eq(run_call(executable, y), NABLA_OK, "%s", diag.what);
  cr_assert_eq(run_call(executable, y), NABLA_OK);
  cr_expect(y[0] == 3 && y[1] == 17 && y[2] == 2 && y[3] == 1, "%g %g %g %g",
            (double)y[0], (double)y[1], (double)y[2], (double)y[3]);
  cr_expect(calls == 2 && made == 1);
  nabla_executable_close(executable);
  cr_expect_eq(freed, 1);
}

Test(calls, components, .timeout = 60) {
  nabla_executable *executable;
  nabla_call_handler handler = handler_of(&packed);
  float y[4];
  handler.is_variadic = 0;
  cr_assert_eq(nabla_add_call_handler(&handler, &diag), NABLA_OK);
  cr_assert_eq(compile_call("", "%w", PACKED, &executable), NABLA_OK, "%s",
               said);
  cr_expect_str_eq(said, "", "nothing is materialized");
  cr_assert_eq(run_call(executable, y), NABLA_OK, "%s", diag.what);
  cr_expect(y[0] == 2 && y[1] == 4, "codes of 3 bytes, a scale");
  nabla_executable_close(executable);
  cr_expect_eq(compile_call("", "%x", "tensor<2x3xf32>", &executable),
               NABLA_CORRUPT);
  expect_said(
      "argument 0 ('w') takes an implicit array of nf4 that is no "
      "view; it is a tensor");
}

Test(calls, failures, .timeout = 60) {
  static const struct {
    const char *attributes;
    nabla_status status;
    const char *text;
  } cases[] = {
      {"{fail = 3 : i64}", NABLA_INVALID_ARGUMENT,
       "custom call 'test.probe': as it was told (invalid argument)"},
      {"{fail = 8 : i64}", NABLA_NO_MEMORY, "(resource exhausted)"},
      {"{fail = 1 : i64}", NABLA_CANCELLED, "(cancelled)"},
      {"{fail = 12 : i64}", NABLA_UNSUPPORTED, "(unimplemented)"},
      {"{fail = 15 : i64}", NABLA_CORRUPT, "(data loss)"},
      {"{fail = 99 : i64}", NABLA_INVALID_ARGUMENT, "(no known code)"},
  };
  nabla_executable *executable;
  nabla_call_handler handler = handler_of(&any);
  /* not at a multiple of 64 bytes: results are copied here, after all else */
  _Alignas(64) float memory[8] = {[1] = 7, 7, 7, 7};
  float *y = memory + 1;
  cr_assert_eq(nabla_add_call_handler(&handler, &diag), NABLA_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cr_assert_eq(
        compile_call(cases[i].attributes, "%x", "tensor<2x3xf32>", &executable),
        NABLA_OK, "%s", said);
    cr_expect_eq(run_call(executable, y), cases[i].status);
    expect_said(cases[i].text);
    cr_expect_eq(y[0], 7, "a failed run leaves outputs alone");
    nabla_executable_close(executable);
  }
  cr_expect_eq(
      compile_call("{refuse = 1 : i64}", "%x", "tensor<2x3xf32>", &executable),
      NABLA_UNSUPPORTED);
  expect_said("no state today (unavailable)");
  cr_expect_eq(made, freed);
}

#define LIST_SIZE 400

static int list(void *self, const nabla_call_handler *handler) {
  char *names = self;
  size_t used = strlen(names);
  snprintf(names + used, LIST_SIZE - used, "%s ", handler->target);
  return 1;
}

Test(calls, registry) {
  char names[LIST_SIZE] = "";
  nabla_call_handler h = handler_of(&any);
  cr_expect_eq(nabla_add_call_handler(&h, &diag), NABLA_OK);
  cr_expect_eq(nabla_add_call_handler(&h, &diag), NABLA_INVALID_ARGUMENT);
  expect_said("'test.probe' has a handler for cpu already");
  h.target = "a", h.platform = "tpu";
  cr_expect_eq(nabla_add_call_handler(&h, &diag), NABLA_UNSUPPORTED);
  h = handler_of(&any), h.target = "a b";
  cr_expect_eq(nabla_add_call_handler(&h, &diag), NABLA_INVALID_ARGUMENT);
  h = handler_of(&any), h.target = "a", h.execute = NULL;
  cr_expect_eq(nabla_add_call_handler(&h, &diag), NABLA_INVALID_ARGUMENT);
  h = handler_of(&any), h.target = "a", h.arguments = NULL;
  cr_expect_eq(nabla_add_call_handler(&h, &diag), NABLA_INVALID_ARGUMENT);
  expect_said("the pointer to them is NULL");
  h = handler_of(&any), h.target = "a";
  h.attributes = NULL, h.attribute_count = 2;
  cr_expect_eq(nabla_add_call_handler(&h, &diag), NABLA_INVALID_ARGUMENT);
  expect_said("has 2 attributes, and the pointer to them is NULL");
  h = handler_of(&any), h.target = "a", h.argument_count = 0;
  cr_expect_eq(nabla_add_call_handler(&h, &diag), NABLA_INVALID_ARGUMENT);
  static const size_t sizes[] = {
      0, 1, sizeof h - 1, sizeof h + 1, 2 * sizeof h, SIZE_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    h = handler_of(&any), h.target = "a", h.struct_size = sizes[i];
    cr_expect_eq(nabla_add_call_handler(&h, &diag), NABLA_INVALID_ARGUMENT);
    cr_expect(strstr(diag.what, "struct_size"), "%s", diag.what);
  }
  nabla_call_handlers("cpu", list, names);
  cr_expect_str_eq(
      names,
      "nabla.all_gather nabla.all_reduce nabla.all_slice nabla.all_to_all "
      "nabla.axis_index nabla.broadcast nabla.check_finite nabla.permute "
      "nabla.reduce_scatter nabla.start_all_gather nabla.start_all_reduce "
      "nabla.start_reduce_scatter nabla.wait test.probe ");
  names[0] = '\0';
  nabla_call_handlers("gpu", list, names);
  cr_expect_str_eq(names, "");
  cr_expect_eq(nabla_call_type("x"), nabla_call_type("x"));
  cr_expect_neq(nabla_call_type("x"), nabla_call_type("y"));
  cr_expect_neq(nabla_call_type("x"), 0);
}
