/* transforms/formula: every row parses, wrong text is refused, and the two
 * emitters agree: code on f64 and operations of the dialect. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <mlir-c/IR.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/dialect.h"
#include "lib/kernels/builder/text.h"
#include "nabla/compiler.h"
#include "transforms/autodiff/partials.h"
#include "transforms/formula/formula_ops.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/formula.h"

TestSuite(formulas, .timeout = 300);

/* ---- parsing ---- */

Test(formulas, every_row_parses) {
  static nabla_formula_tree tree;
  size_t count, at;
  const nabla_formula *rows = nabla_formulas(&count);
  cr_expect_gt(count, 30);
  size_t of_f32;
  cr_assert_eq(nabla_formulas_of_f32(&of_f32), rows + count);
  count += of_f32;
  for (size_t i = 0; i < count; i++) {
    const char *error = nabla_formula_parse(&rows[i], &tree, &at);
    cr_expect_null(error, "%s: %s at %.20s", rows[i].name, error,
                   rows[i].text + at);
    cr_expect_gt(tree.root_count, 0);
  }
}

static const struct {
  const char *text, *error, *rest; /* where it is found */
} wrongs[] = {
    {"", "a number or a name is missing", ""},
    {"x +", "a number or a name is missing", ""},
    {"x + * x", "a number or a name is missing", "* x"},
    {"(x", "')' is missing", ""},
    {"abs(x", "')' is missing", ""},
    {"abs()", "a number or a name is missing", ")"},
    {"abs(x, x)", "wrong number of arguments", ""},
    {"poly(x)", "wrong number of arguments", ""},
    {"pow(x)", "wrong number of arguments", ""},
    {"exp(x, x)", "wrong number of arguments", ""},
    {"no_such(x)", "no function has this name", ""},
    {"y", "nothing has this name", ""},
    {"y = y; y", "nothing has this name", "; y"},
    {"y = x y", "';' is missing", "y"},
    {"y = x;", "a number or a name is missing", ""},
    {"x < 1", "'?' is missing", ""},
    {"x < 1 ? x", "':' is missing", ""},
    {"gelu_0(x, x)", "no function has this name", ""},
    {"x x", "the formula should end here", "x"},
    {"x; x", "the formula should end here", "; x"},
    {"a_name_of_more_than_twenty_four_letters", "a name is too long",
     "a_name_of_more_than_twenty_four_letters"},
};

Test(formulas, wrong_text_is_refused_where_it_is_wrong) {
  static nabla_formula_tree tree;
  size_t at;
  for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
    nabla_formula formula = {"f", "x", wrongs[i].text, NULL};
    const char *error = nabla_formula_parse(&formula, &tree, &at);
    cr_assert_not_null(error, "%s", wrongs[i].text);
    cr_expect_str_eq(error, wrongs[i].error, "%s: %s", wrongs[i].text, error);
    cr_expect_str_eq(wrongs[i].text + at, wrongs[i].rest, "%s: at '%s'",
                     wrongs[i].text, wrongs[i].text + at);
  }
}

/* `count` times `part`, then `end`. */
static const char *error_of(const char *part, int count, const char *end) {
  static nabla_formula_tree tree;
  nabla_text text = {0};
  for (int i = 0; i < count; i++) nabla_text_add(&text, "%s", part);
  nabla_text_add(&text, "%s", end);
  nabla_formula formula = {"f", "x", text.data, NULL};
  const char *error = nabla_formula_parse(&formula, &tree, NULL);
  nabla_text_deinit(&text);
  return error ? error : "none";
}

Test(formulas, long_text_is_refused) {
  cr_expect_str_eq(error_of("x + ", 100, "x"), "none");
  cr_expect_str_eq(error_of("x + ", 200, "x"), "the formula is too long");
  cr_expect_str_eq(error_of("-", 60, "x"), "none");
  cr_expect_str_eq(error_of("-", 100000, "x"),
                   "the formula is nested too deeply");
  cr_expect_str_eq(error_of("(", 100000, "x"),
                   "the formula is nested too deeply");
  cr_expect_str_eq(error_of("x < 1 ? 2 : ", 50, "x"), "none");
  cr_expect_str_eq(error_of("x < 1 ? 2 : ", 100000, "x"),
                   "the formula is nested too deeply");
  cr_expect_str_eq(error_of("y = x; ", 23, "y"), "none");
  cr_expect_str_eq(error_of("y = x; ", 100, "y"),
                   "the formula has too many names");
  cr_expect_str_eq(error_of("poly(x, ", 1,
                            "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
                            "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)"),
                   "a function has too many arguments");
}

Test(formulas, every_partial_derivative_parses) {
  static nabla_formula_tree tree;
  size_t count, at;
  const nabla_formula *rows = nabla_partials(&count);
  cr_expect_gt(count, 20);
  for (size_t i = 0; i < count; i++) {
    const char *error = nabla_formula_parse(&rows[i], &tree, &at);
    cr_expect_null(error, "%s: %s at %.20s", rows[i].name, error,
                   rows[i].text + at);
  }
}

/* ---- both emitters ---- */

/* Formulas that no operations of the dialect can say, and the word. */
static const char *const refused[][2] = {
    {"exp", "scale"},     {"log", "mantissa"},  {"turns", "far_turns"},
    {"rest", "far_rest"}, {"sin", "far_turns"}, {"cos", "far_turns"},
    {"tan", "far_turns"}, {"acos", "head"},     {"erf_far", "head"},
    {"erf", "head"},      {"erfc", "head"},     {"gelu", "head"},
    {"silu", "scale"},
};

static const char *refused_word(const char *name) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (!strcmp(refused[i][0], name)) return refused[i][1];
  return NULL;
}

enum { VALUES = 4096 };

static MlirContext context;

static MlirModule parse(const char *text) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
  context = mlirContextCreateWithRegistry(registry, /*threading=*/false);
  mlirDialectRegistryDestroy(registry);
  mlirContextLoadAllAvailableDialects(context);
  return mlirModuleCreateParse(context, nabla_ref(text));
}

/* A function with an operation in whose place the formula is put. */
static void add_function(nabla_text *text, const char *prefix,
                         const nabla_formula *formula) {
  bool two = nabla_formula_argument_count(formula) == 2;
  nabla_text_add(text,
                 "func.func @%s_%s(%%x: !t%s) -> !t {\n"
                 "  %%z = nabla.%s : !t%s\n  return %%z : !t\n}\n",
                 prefix, formula->name, two ? ", %y: !t" : "",
                 two ? "pow %x, %y" : "exp %x", two ? ", !t" : "");
}

static const nabla_formula *current;

static nabla_ssa by_formula(nabla_template *t, const nabla_element *in,
                            const nabla_ssa *x) {
  (void)in;
  return nabla_formula_emit(t, current, x);
}

static void put_code(MlirOperation op) {
  nabla_template t;
  nabla_features features;
  memset(&features, 0, sizeof features);
  cr_assert(nabla_template_init(&t, op, features));
  cr_assert(nabla_lower_elements(&t, by_formula), "%s", current->name);
  nabla_template_deinit(&t);
}

static void put_operations(MlirOperation op) {
  nabla_builder b = {op};
  nabla_formula_refusal refusal;
  MlirValue x[2];
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    x[i] = mlirOperationGetOperand(op, i);
  MlirValue y = nabla_formula_build(&b, current, x, &refusal);
  cr_assert_not(mlirValueIsNull(y), "%s: %s", current->name, refusal.text);
  nabla_op_replace(op, &y);
}

static void collect(MlirStringRef part, void *data) {
  nabla_text_add(data, "%.*s", (int)part.length, part.data);
}

/* The program of both functions of each formula that operations can say. */
static void write_program(nabla_text *out) {
  nabla_text text = {0};
  size_t count;
  const nabla_formula *rows = nabla_formulas(&count);
  nabla_text_add(&text, "!t = tensor<%dxf64>\n", VALUES);
  for (size_t i = 0; i < count; i++)
    if (!refused_word(rows[i].name)) {
      add_function(&text, "code", &rows[i]);
      add_function(&text, "ops", &rows[i]);
    }
  MlirModule module = parse(text.data);
  cr_assert_not(mlirModuleIsNull(module), "%s", text.data);
  MlirOperation function =
      mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  for (size_t i = 0; i < count; i++) {
    if (refused_word(rows[i].name)) continue;
    current = &rows[i];
    for (int emitter = 0; emitter < 2; emitter++) {
      MlirOperation next = mlirOperationGetNextInBlock(function);
      MlirBlock block =
          mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
      (emitter ? put_operations : put_code)(mlirBlockGetFirstOperation(block));
      function = next;
    }
  }
  cr_assert(mlirOperationVerify(mlirModuleGetOperation(module)));
  mlirOperationPrint(mlirModuleGetOperation(module), collect, out);
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
  nabla_text_deinit(&text);
}

/* Values of every size, sign and kind; `salt` makes another order of them. */
static void fill(double *x, uint64_t salt) {
  static const double some[] = {
      0,        -0.0,      1,       -1,         0.5,      -0.5,
      2,        -2,        3,       -3,         1.5,      -1.5,
      INFINITY, -INFINITY, NAN,     DBL_MAX,    -DBL_MAX, DBL_MIN,
      5e-324,   -5e-324,   0x1p52,  0x1p53 - 1, -0x1p52,  27,
      28,       -40,       0.84375, 1.25,       100,      -700};
  enum { SOME = sizeof some / sizeof *some };
  uint64_t state = salt * UINT64_C(0x9E3779B97F4A7C15) + 1;
  for (int i = 0; i < VALUES; i++) {
    state =
        state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    double unit = (double)(state >> 11) * 0x1p-53;
    int power = (int)(state % 40) - 30;
    x[i] = ldexp(2 * unit - 1, power);
  }
  for (int i = 0; i < SOME * SOME; i++) x[i] = some[salt ? i / SOME : i % SOME];
}

static bool same(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b && signbit(a) == signbit(b);
}

static void run(nabla_executable *executable, const char *prefix,
                const nabla_formula *formula, double *const x[2],
                nabla_dense *y) {
  char name[64];
  nabla_diag diag;
  nabla_dense in[2] = {{x[0], NABLA_DTYPE_F64, 1, {VALUES}},
                       {x[1], NABLA_DTYPE_F64, 1, {VALUES}}};
  (void)snprintf(name, sizeof name, "%s_%s", prefix, formula->name);
  cr_assert_eq(
      nabla_executable_run(executable, name, in,
                           (uint32_t)nabla_formula_argument_count(formula), y,
                           1, &diag),
      NABLA_OK, "%s: %s", name, diag.what);
}

static void compare(nabla_executable *executable, const nabla_formula *formula,
                    double *const x[2]) {
  nabla_dense code = {0}, ops = {0};
  run(executable, "code", formula, x, &code);
  run(executable, "ops", formula, x, &ops);
  const double *a = code.data, *b = ops.data;
  int differ = 0;
  for (int i = 0; i < VALUES; i++)
    if (!same(a[i], b[i]) && !differ++)
      cr_expect(false, "%s(%a, %a): code %a, operations %a", formula->name,
                x[0][i], x[1][i], a[i], b[i]);
  cr_expect_eq(differ, 0, "%s: %d differ", formula->name, differ);
  nabla_dense_release(executable, &code);
  nabla_dense_release(executable, &ops);
}

/* Operations with the name of a formula are computed by it, and no product and
 * sum are fused: not an ulp lies between the two. */
Test(formulas, both_emitters_give_the_same) {
  static double values[2][VALUES];
  double *const x[2] = {values[0], values[1]};
  nabla_compiler *compiler = NULL;
  nabla_executable *executable = NULL;
  nabla_compiler_options options = {.struct_size = sizeof options, .cache = ""};
  nabla_text program = {0};
  nabla_diag diag;
  size_t count, compared = 0;
  const nabla_formula *rows = nabla_formulas(&count);
  write_program(&program);
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_compile_text(compiler, program.data, program.size,
                                  "formulas.mlir", NULL, &executable, &diag),
               NABLA_OK, "%s\n%s", diag.what, program.data);
  fill(values[0], 0);
  fill(values[1], 1);
  for (size_t i = 0; i < count; i++) {
    if (refused_word(rows[i].name)) continue;
    compare(executable, &rows[i], x);
    compared++;
  }
  cr_expect_gt(compared, 20);
  nabla_executable_close(executable);
  nabla_compiler_destroy(compiler);
  nabla_text_deinit(&program);
}

Test(formulas, words_that_read_bits_are_refused) {
  size_t count;
  const nabla_formula *rows = nabla_formulas(&count);
  MlirModule module = parse(
      "func.func @f(%x: tensor<2xf64>) -> tensor<2xf64> {\n"
      "  return %x : tensor<2xf64>\n}\n");
  MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(
      mlirBlockGetFirstOperation(mlirModuleGetBody(module)), 0));
  nabla_builder b = {mlirBlockGetFirstOperation(block)};
  MlirValue argument = mlirBlockGetArgument(block, 0);
  const MlirValue x[2] = {argument, argument};
  for (size_t i = 0; i < count; i++) {
    const char *word = refused_word(rows[i].name);
    char want[200] = "";
    nabla_formula_refusal refusal;
    if (!word) continue;
    cr_expect(mlirValueIsNull(nabla_formula_build(&b, &rows[i], x, &refusal)));
    (void)snprintf(want, sizeof want, "the formula of %s uses '%s', which ",
                   rows[i].name, word);
    cr_expect(!strncmp(refusal.text, want, strlen(want)), "%s", refusal.text);
    cr_expect(strstr(refusal.text, ": no operation of the dialect does"));
  }
  /* nothing was made */
  cr_expect(mlirOperationEqual(b.before, mlirBlockGetFirstOperation(block)));
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
}
