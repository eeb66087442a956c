/* Partitioners of custom calls that answer with text that is none, with
 * shardings of other meshes and shapes, and that add partitioners and compile
 * while they run: an error, or the whole call, and never a crash. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/custom_call.h"
#include "nabla/executable.h"
#include "nabla/shard.h"

static nabla_diag diag;
static nabla_compiler *compiler;

/* What the partitioner answers; NULL: nothing. */
static const char *operand, *result, *lines;
static size_t index_of;

static int answer(const nabla_partition_call *call) {
  if (operand)
    (void)nabla_partition_set(call, NABLA_PARTITION_OPERAND, index_of, operand);
  if (result)
    (void)nabla_partition_set(call, NABLA_PARTITION_RESULT, 0, result);
  if (lines) (void)nabla_partition_set(call, NABLA_PARTITION_PROGRAM, 9, lines);
  return 1;
}

static nabla_call_code copy(const nabla_call_frame *frame) {
  const nabla_call_buffer *x = &frame->arguments[0];
  memcpy(frame->results[0].data, x->data,
         (size_t)(x->dims[0] * x->dims[1]) * sizeof(float));
  return NABLA_CALL_OK;
}

static int rows = 4;

/* Compiles a call of the target; NULL, or why that failed. */
static const char *compile(const char *target) {
  static char text[1024], why[sizeof diag.what];
  nabla_executable *executable = NULL;
  const nabla_compile_options options = {.struct_size = sizeof options};
  (void)snprintf(
      text, sizeof text,
      "nabla.mesh @m <[\"a\"=2, \"b\"=3]>\n"
      "func.func @f(%%x: tensor<%dx6xf32> {nabla.sharding = "
      "#nabla.sharding<@m, [{\"a\"}, {}]>}) -> tensor<%dx6xf32> {\n"
      "  %%y = nabla.custom_call @%s(%%x) pure : (tensor<%dx6xf32>) -> "
      "tensor<%dx6xf32>\n"
      "  return %%y : tensor<%dx6xf32>\n}\n",
      rows, rows, target, rows, rows, rows);
  diag = (nabla_diag)NABLA_DIAG_INIT;
  const nabla_status status = nabla_compile_text(
      compiler, text, strlen(text), "garbage", &options, &executable, &diag);
  cr_expect_eq(!status, executable != NULL);
  nabla_executable_close(executable);
  (void)snprintf(why, sizeof why, "%s", status ? diag.what : "");
  return status ? why : NULL;
}

static void add_with(const char *target,
                     const nabla_call_partitioner *partitioner) {
  static const nabla_call_parameter in[] = {
      {"x", NABLA_CALL_DTYPE(F32), 2, NULL}};
  const nabla_call_handler handler = {.struct_size = sizeof handler,
                                      .target = target,
                                      .platform = "cpu",
                                      .traits = NABLA_CALL_PURE,
                                      .arguments = in,
                                      .argument_count = 1,
                                      .results = in,
                                      .result_count = 1,
                                      .execute = copy};
  cr_assert_eq(nabla_add_call_handler(&handler, &diag), 0, "%s", diag.what);
  cr_assert_eq(nabla_add_call_partitioner(target, partitioner, &diag), 0);
}

static void add(const char *target, int partitions) {
  const nabla_call_partitioner partitioner = {
      .struct_size = sizeof partitioner,
      .propagate = partitions ? NULL : answer,
      .infer = partitions ? NULL : answer,
      .partition = partitions ? answer : NULL};
  add_with(target, &partitioner);
}

static void begin(void) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag), 0);
  add("strict", 1);
  add("lenient", 0);
}
static void end(void) { nabla_compiler_destroy(compiler); }

TestSuite(garbage, .init = begin, .fini = end, .timeout = 120);

#define ROWS_CUT "#nabla.sharding<@m, [{\"a\"}, {}]>"

static const char *const shardings[] = {
    "",
    " ",
    "@m",
    "#nabla.sharding<>",
    "#nabla.sharding<@m>",
    "#nabla.sharding<@m, [",
    "#nabla.sharding<@m, [{\"a\"}, {}]",
    "#nabla.sharding<@m, [{\"a\"}, {}]> x",
    "#nabla.sharding<@m, [{\"a\"}]>",
    "#nabla.sharding<@m, [{\"a\"}, {}, {}]>",
    "#nabla.sharding<@m, [{\"a\"}, {\"a\"}]>",
    "#nabla.sharding<@m, [{\"z\"}, {}]>",
    "#nabla.sharding<@other, [{\"a\"}, {}]>",
    "#nabla.sharding<@m, [{\"a\":(1)7}, {}]>",
    "#nabla.sharding<@m, [{\"a\":(99999999999999999999)2}, {}]>",
    "#nabla.sharding<@m, [{}, {}], partial = {\"a\": sum}>",
    "#nabla.sharding<@m, [{}, {}], partial = {\"a\": nonsense}>",
    "#nabla.encoding<@m>",
    "tensor<4x6xf32>",
    "\"text\"",
    "5 : i64",
    "[[[[[[[[",
    "\"unterminated",
    "\xff\xfe\x01",
    "#nabla.sharding<@m, [{\"b\"}, {\"a\"}]>", /* 4 rows on 3 devices */
    "#nabla.sharding<@m, [{\"a\", ?}, {?}]>",
    "#nabla.sharding<@m, [{\"a\"}p3, {}p99]>",
    "#nabla.sharding<@m, [{}, {}], replicated = {\"a\"}>"};

enum { ILLEGAL = 25 }; /* the others are legal */

Test(garbage, shardings_of_a_program) {
  for (int i = 0; i < ILLEGAL; i++)
    for (int of_result = 0; of_result < 2; of_result++) {
      operand = of_result ? NULL : shardings[i];
      result = of_result ? shardings[i] : NULL;
      cr_expect(compile("strict"), "%s: compiled", shardings[i]);
    }
}

/* One that is none is as if nothing was offered: the call is whole. Of those
 * that are legal, an operand alone is no answer. */
Test(garbage, shardings_that_are_offered) {
  for (int i = 0; i < (int)(sizeof shardings / sizeof *shardings); i++)
    for (int of_result = 0; of_result < 2; of_result++) {
      operand = of_result ? NULL : shardings[i];
      result = of_result ? shardings[i] : NULL;
      const char *why = compile("lenient");
      cr_expect(!why || i >= ILLEGAL, "%s: %s", shardings[i], why);
    }
  operand = shardings[5], result = NULL, index_of = SIZE_MAX;
  cr_expect_null(compile("lenient"));
}

/* 5 rows on 2 devices would be padded. */
Test(garbage, arrays_that_are_not_divided_evenly) {
  rows = 5;
  operand = result = ROWS_CUT;
  const char *why = compile("lenient");
  cr_expect_null(why, "%s", why);
  cr_expect(compile("strict"));
  operand = result = NULL;
  why = compile("strict"); /* it says nothing: the call is whole */
  cr_expect_null(why, "%s", why);
  lines = "nabla.yield %x0 : !y0";
  why = compile("strict");
  cr_expect_null(why, "%s", why);
}

Test(garbage, programs) {
  static const char *const bad[] = {
      "",
      "}",
      "{",
      "}}",
      "nabla.yield",
      "nabla.yield %x0",
      "nabla.yield %x1 : !y0",
      "nabla.yield %x0, %x0 : !y0, !y0",
      "nabla.yield %x0 : !none",
      "%a = nabla.exp %x0 : !x0",
      "nabla.yield %x0 : !y0\nnabla.yield %x0 : !y0",
      "nabla.yield %x0 : !y0\n}\nfunc.func @t() {",
      "nabla.yield %x0 : !y0 //",
      "return %x0 : !y0",
      "func.func @t() { return }\nnabla.yield %x0 : !y0",
      "%a = nabla.custom_call @strict(%x0) pure : (!x0) -> !x0\n"
      "nabla.yield %a : !y0",
      "%a = nabla.custom_call @nobody(%x0) pure : (!x0) -> !x0\n"
      "nabla.yield %a : !y0",
      "%a = nabla.all_reduce sum %x0 axes = [\"z\"] : !x0\n"
      "nabla.yield %a : !y0",
      "%a = nabla.shard_map(%x0 : !x0) in = [] out = [] -> !x0 {\n"
      "^bb0(%b: !x0):\nnabla.yield %b : !x0\n}\nnabla.yield %a : !y0",
      "%a = \"nabla.exp\"(%a) : (!x0) -> !x0\nnabla.yield %a : !y0",
      "\"unregistered.op\"() : () -> ()\nnabla.yield %x0 : !y0",
      "\xff"};
  operand = result = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    lines = bad[i];
    cr_expect(compile("strict"), "%s: compiled", bad[i]);
  }
}

/* A partitioner that adds another, and compiles, while it runs. */
static int again(const nabla_partition_call *call) {
  static int depth;
  const nabla_call_partitioner other = {.struct_size = sizeof other,
                                        .infer = answer};
  char name[32];
  (void)snprintf(name, sizeof name, "made.%d", depth);
  if (nabla_add_call_partitioner(name, &other, NULL)) return 0;
  if (depth++ < 3 && compile("again")) return 0;
  return nabla_partition_set(call, NABLA_PARTITION_RESULT, 0,
                             call->operands[0]);
}

Test(garbage, partitioners_that_compile) {
  const nabla_call_partitioner one = {.struct_size = sizeof one,
                                      .partition = again};
  add_with("again", &one);
  const char *why = compile("again");
  cr_expect_null(why, "%s", why);
}
