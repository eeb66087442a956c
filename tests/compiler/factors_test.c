/* Factors of operations as text: what the column SHARD of dialect/ops.def gives
 * to each, and text that is read. */
#include "transforms/shard/factors.h"

#include <criterion/criterion.h>
#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/dialect.h"
#include "dialect/ops.h"
#include "nabla/status.h"

/* Arguments of a function, an operation of them, and its factors: names in the
 * order of a rule. */
static const struct {
  const char *arguments, *op, *factors;
} rows[] = {
#define ROW(arguments, op, factors) {arguments, op, factors},
#include "tests/compiler/factors_rows.def"
#undef ROW
};
#define ROWS (sizeof rows / sizeof *rows)

static MlirContext context;

static void set_up(void) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
  context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
}

static void tear_down(void) { mlirContextDestroy(context); }

TestSuite(factors, .init = set_up, .fini = tear_down);

/* The first operation of the dialect in the first function. */
static MlirOperation find(MlirModule module) {
  MlirOperation function =
      mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  MlirOperation op = mlirBlockGetFirstOperation(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0)));
  while (!nabla_op_find(op)) op = mlirOperationGetNextInBlock(op);
  return op;
}

/* A module with a function of `arguments`, and its operation. */
static MlirModule parse(const char *arguments, const char *line,
                        MlirOperation *out) {
  char text[2048];
  snprintf(text, sizeof text, "func.func @f(%s) {\n  %s\n  return\n}\n",
           arguments, line);
  MlirModule module =
      mlirModuleCreateParse(context, mlirStringRefCreateFromCString(text));
  if (mlirModuleIsNull(module)) abort();
  *out = find(module);
  return module;
}

Test(factors, of_operations) {
  for (size_t i = 0; i < ROWS; i++) {
    MlirOperation op;
    nabla_factors factors;
    nabla_text text = {0};
    MlirModule module = parse(rows[i].arguments, rows[i].op, &op);
    const bool has = nabla_op_factors(op, &factors);
    if (has) nabla_factors_print(&factors, &text);
    cr_expect_str_eq(text.data ? text.data : "", rows[i].factors, "%s",
                     rows[i].op);
    nabla_text_deinit(&text);
    mlirModuleDestroy(module);
  }
}

/* Each operation that is divided has a row here. */
Test(factors, of_all_operations) {
  size_t count;
  const nabla_op_row *ops = nabla_op_rows(&count);
  for (size_t i = 0; i < count; i++) {
    bool found = ops[i].shard == NABLA_SHARD_elementwise ||
                 ops[i].shard == NABLA_SHARD_none ||
                 ops[i].shard == NABLA_SHARD_control ||
                 ops[i].shard == NABLA_SHARD_late;
    for (size_t r = 0; r < ROWS && !found; r++) {
      const char *at = strstr(rows[r].op, ops[i].name);
      found = at && at[strlen(ops[i].name)] == ' ';
    }
    cr_expect(found, "no factors of %s", ops[i].name);
  }
}

#define CALL                                                                 \
  "%r = nabla.custom_call @t(%a, %b) : (tensor<2x6x8xf32>, tensor<8x4xf32>)" \
  " -> tensor<2x6x4xf32>"

/* Text that is read and printed again, or why it is not. */
static const struct {
  const char *text, *printed, *message;
} texts[] = {
    {"..., m k, k n -> ..., m n {k: sum}", "a b c, c d -> a b d {c: sum}", ""},
    {"... m k, k n -> ... m n {k: max, m: whole}",
     "a b c, c d -> a b d {b: whole, c: max}", ""},
    {"b (g m) k, k n -> b (g m) n {k: sum}", NULL,
     "the size of factor 'g' is not known"},
    {"b m k, (g h) g -> b m h {k: sum, g: sum}", NULL,
     "the factors of a dimension of 8 have the product 16"},
    {"b m k, (h g) g -> b m g {h: moved, k: sum}",
     "a b c, (d e) e -> a b e {c: sum, d: moved}", ""},
    {"b m k, k n -> b m", NULL, "expected a dimension, found ''"},
    {"b m k, k n -> b m m", NULL, "factor 'm' has the sizes 6 and 4"},
    {"b m k -> b m n", NULL, "expected ',' and one more array"},
    {"b m k, k n b m n", NULL, "expected '->' behind the operands"},
    {"b m k, k n -> b m n {k: mean}", NULL,
     "'mean' is none of sum, max, prod, min, any, all, moved, whole"},
    {"b m k, k n -> b m n {x: sum}", NULL, "factor 'x' is of no array"},
    {"b m k, k n -> b m n {k sum}", NULL, "expected 'factor: word' in braces"},
    {"b m k, k n -> b m n", NULL,
     "factor 'k' is of no result: say how it is joined"},
    {"b m k, k n -> b m n {k: sum, n: max}", NULL,
     "factor 'n' is joined, and of a result"},
    {"b m k, k j -> b m n {k: sum, j: sum}", NULL,
     "factor 'n' is of no operand: it is whole"},
    {"b m k, k n -> b m n x", NULL, "'x' is left over"},
    {"b m 1, k n -> b m n", NULL,
     "dimension 2 is written 1, and has another size"},
};

Test(factors, read) {
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    MlirOperation op;
    nabla_factors factors;
    nabla_text out = {0};
    char message[NABLA_MESSAGE_SIZE] = "";
    MlirModule module =
        parse("%a: tensor<2x6x8xf32>, %b: tensor<8x4xf32>", CALL, &op);
    const bool good = nabla_factors_read(texts[i].text, strlen(texts[i].text),
                                         op, &factors, message);
    cr_expect_eq(good, texts[i].printed != NULL, "%s: %s", texts[i].text,
                 message);
    if (good) nabla_factors_print(&factors, &out);
    if (good) cr_expect_str_eq(out.data, texts[i].printed);
    if (!good) cr_expect_str_eq(message, texts[i].message);
    nabla_text_deinit(&out);
    mlirModuleDestroy(module);
  }
}
