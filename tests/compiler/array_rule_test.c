/* nabla/array_rule.h: rules that are recorded with arrays. Every test is a
 * process of its own: what it adds is gone with it. */
#include "nabla/array_rule.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nabla/custom_encoding.h"
#include "nabla/encoding.h"
#include "nabla/function.h"
#include "tests/support/temp_folder.h"

static nabla_engine *engine;
static nabla_scope *scope;
static nabla_diag diag;
static char said[8192];

static void listen(void *self, const char *text) {
  const size_t used = strlen(said);
  (void)self;
  snprintf(said + used, sizeof said - used, "%s\n", text);
}

static void open_engine(const char *policy) {
  const nabla_compiler_options compiler = {
      .struct_size = sizeof compiler, .cache = "", .diagnostic = listen};
  const nabla_compile_options compile = {.struct_size = sizeof compile,
                                         .policy = policy};
  const nabla_engine_options options = {.struct_size = sizeof options,
                                        .compiler = &compiler,
                                        .compile = &compile};
  *said = '\0';
  cr_assert_eq(nabla_engine_create(&options, NULL, &engine, &diag), NABLA_OK);
  cr_assert_eq(nabla_scope_create(engine, &scope, &diag), NABLA_OK);
}

static void set_up(void) { open_engine("error"); }

static void tear_down(void) {
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
}

/* Another engine: its programs were not compiled before a rule was added. */
static void open_again(const char *policy) {
  tear_down();
  open_engine(policy);
}

TestSuite(array_rule, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- arrays ---- */

#define ROWS    4
#define COLUMNS 128

static float value_at(size_t i) {
  return (float)((int)(i * 37 % 101) - 50) / 25;
}

static nabla_array *matrix(int64_t rows, int64_t columns) {
  static float values[64 * COLUMNS];
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    values[i] = value_at(i);
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {rows, columns}};
  return nabla_array_of(scope, &dense);
}

static nabla_array *nf4(nabla_array *x) {
  const nabla_storage layout = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  return nabla_quantize(x, &layout);
}

static size_t count_of(const nabla_dense *dense) {
  size_t count = 1;
  for (uint32_t d = 0; d < dense->rank; d++) count *= (size_t)dense->shape[d];
  return count;
}

static void expect_near(nabla_array *got, nabla_array *want, double most) {
  nabla_dense a = {0}, b = {0};
  cr_assert_eq(nabla_array_read(want, &b, &diag), NABLA_OK, "%s %s", diag.what,
               said);
  cr_assert_eq(nabla_array_read(got, &a, &diag), NABLA_OK, "%s %s", diag.what,
               said);
  cr_assert_eq(count_of(&a), count_of(&b));
  for (size_t i = 0; i < count_of(&a); i++) {
    const double x = ((const float *)a.data)[i], y = ((const float *)b.data)[i];
    cr_assert(fabs(x - y) <= most, "%zu: %g, not %g", i, x, y);
  }
}

static void expect_refused(nabla_array *array, const char *text) {
  nabla_dense out;
  *said = '\0';
  cr_expect_neq(nabla_array_read(array, &out, &diag), NABLA_OK);
  cr_expect(strstr(said, text), "'%s' is not in '%s' (%s)", text, said,
            diag.what);
  nabla_scope_clear(scope);
}

static void add(const nabla_array_rule *rule) {
  cr_assert_eq(nabla_add_array_rule(rule, &diag), NABLA_OK, "%s", diag.what);
}

#define RULE(name, op, left, right, callback) \
  RULE_OF(name, op, left, right, 10, callback)
#define RULE_OF(name, op, left, right, before, callback) \
  static const char *const name##_operations[] = {op};   \
  static const nabla_array_rule name = {                 \
      .struct_size = sizeof(nabla_array_rule),           \
      .id = #name,                                       \
      .operations = name##_operations,                   \
      .operation_count = 1,                              \
      .lhs = left,                                       \
      .rhs = right,                                      \
      .version = "1",                                    \
      .precedence = before,                              \
      .record = callback}

static int called;

/* ---- results ---- */

/* sin(x) = x, so that it can be seen that the rule was applied. */
static nabla_array_rule_outcome take_operand(nabla_scope *in,
                                             nabla_array_rule_call *call,
                                             nabla_array **results) {
  called++;
  cr_expect_eq(call->operand_count, 1);
  cr_expect_eq(call->result_count, 1);
  cr_expect_str_eq(call->op, "nabla.sin");
  cr_expect(nabla_array_is_packed(call->operands[0]));
  cr_expect_eq(call->results[0].shape[1], COLUMNS);
  results[0] =
      nabla_add(nabla_materialize(call->operands[0]), nabla_scalar(in, 0.5));
  return NABLA_ARRAY_RULE_TAKES;
}
RULE(sin_is_x, "nabla.sin", "packed", "", take_operand);

Test(array_rule, a_rule_gives_a_dense_result) {
  add(&sin_is_x);
  nabla_array *w = nf4(matrix(ROWS, COLUMNS));
  expect_near(nabla_sin(w),
              nabla_add(nabla_materialize(w), nabla_scalar(scope, 0.5)), 1e-6);
  cr_expect_eq(called, 1);
}

/* A product of many rows is packed. */
static nabla_array_rule_outcome packed_product(nabla_scope *in,
                                               nabla_array_rule_call *call,
                                               nabla_array **results) {
  (void)in;
  called++;
  const nabla_dense *x = nabla_array_dense(call->operands[0]);
  const nabla_attribute_tree *dims =
      nabla_attribute_tree_find(call->attributes, "rhs_contracting");
  cr_assert(dims && dims->kind == NABLA_ATTRIBUTE_ARRAY && dims->count == 1);
  if (x->shape[0] < 8) {
    call->why = "few rows";
    return NABLA_ARRAY_RULE_DECLINES;
  }
  nabla_array *dense;
  nabla_default(call, NULL, &dense);
  results[0] = nf4(dense);
  return NABLA_ARRAY_RULE_TAKES;
}
RULE(product_in_nf4, "nabla.dot_general", "dense", "packed", packed_product);

/* relu of an nf4 array is one. */
static nabla_array_rule_outcome relu_of_nf4(nabla_scope *in,
                                            nabla_array_rule_call *call,
                                            nabla_array **results) {
  (void)in;
  called += 100;
  results[0] = nf4(nabla_relu(nabla_materialize(call->operands[0])));
  return NABLA_ARRAY_RULE_TAKES;
}
RULE(relu_in_nf4, "nabla.relu", "packed", "", relu_of_nf4);

static nabla_array *product(nabla_array *x, nabla_array *w) {
  return nabla_matmul(x, nabla_transpose(w, 0, NULL));
}

Test(array_rule, an_implicit_result_goes_on_to_rules) {
  nabla_array *w = nf4(matrix(64, COLUMNS)), *x = matrix(16, COLUMNS);
  add(&product_in_nf4);
  add(&relu_in_nf4);
  nabla_array *dense = product(x, nabla_materialize(w));
  nabla_array *rounded = nabla_materialize(nf4(dense));
  nabla_array *want = nabla_materialize(nf4(nabla_relu(rounded)));
  nabla_array *got = nabla_relu(product(x, w));
  expect_near(got, want, 1e-3);
  cr_expect_eq(called, 101);
  /* given out, it is decoded */
  expect_near(product(x, w), rounded, 1e-3);
}

Test(array_rule, a_rule_declines_small_sizes) {
  nabla_array *w = nf4(matrix(64, COLUMNS)), *x = matrix(4, COLUMNS);
  add(&product_in_nf4);
  expect_near(product(x, w), product(x, nabla_materialize(w)), 1e-3);
  cr_expect_eq(called, 1);
}

/* Views of the result stay packed, operations without a rule decode it. */
Test(array_rule, an_implicit_result_is_viewed_and_decoded) {
  nabla_array *w = nf4(matrix(64, COLUMNS)), *x = matrix(16, COLUMNS);
  open_again("off");
  w = nf4(matrix(64, COLUMNS)), x = matrix(16, COLUMNS);
  add(&product_in_nf4);
  nabla_array *rounded =
      nabla_materialize(nf4(product(x, nabla_materialize(w))));
  nabla_array *y = product(x, w);
  nabla_array *got[5] = {nabla_abs(nabla_transpose(y, 0, NULL)),
                         nabla_sum(y, NABLA_DIMS(0), 0), nabla_mul(y, y),
                         nabla_abs(nabla_flatten(y, 0, -1)),
                         nabla_concatenate(2, (nabla_array *[]){y, y}, 0)};
  nabla_array *want[5] = {
      nabla_abs(nabla_transpose(rounded, 0, NULL)),
      nabla_sum(rounded, NABLA_DIMS(0), 0), nabla_mul(rounded, rounded),
      nabla_abs(nabla_flatten(rounded, 0, -1)),
      nabla_concatenate(2, (nabla_array *[]){rounded, rounded}, 0)};
  for (int i = 0; i < 5; i++) {
    nabla_dense dense;
    cr_assert_eq(nabla_array_read(want[i], &dense, &diag), NABLA_OK);
    double most = 0;
    for (size_t k = 0; k < count_of(&dense); k++)
      most = fmax(most, fabs((double)((const float *)dense.data)[k]));
    expect_near(got[i], want[i], 2e-5 * most);
  }
}

/* ---- default ---- */

static nabla_array_rule_outcome defaults(nabla_scope *in,
                                         nabla_array_rule_call *call,
                                         nabla_array **results) {
  (void)in;
  called++;
  nabla_default(call, NULL, results);
  return NABLA_ARRAY_RULE_TAKES;
}
RULE(add_defaults, "nabla.add", "packed", "any", defaults);
RULE_OF(exp_defaults, "nabla.exp", "implicit", "", 5, defaults);
static nabla_array_rule_outcome exp_dense(nabla_scope *in,
                                          nabla_array_rule_call *call,
                                          nabla_array **results) {
  (void)in;
  called += 10;
  nabla_array *x = nabla_materialize(call->operands[0]);
  nabla_default(call, &x, results);
  return NABLA_ARRAY_RULE_TAKES;
}
RULE_OF(exp_materializes, "nabla.exp", "implicit", "", 1, exp_dense);

/* The default of one rule is taken by the next, each asked once. */
Test(array_rule, a_default_goes_to_other_rules) {
  add(&exp_defaults);
  add(&exp_materializes);
  nabla_array *w = nf4(matrix(ROWS, COLUMNS));
  expect_near(nabla_exp(w), nabla_exp(nabla_materialize(w)), 1e-6);
  cr_expect_eq(called, 11);
}

Test(array_rule, a_default_without_another_rule_is_reported) {
  add(&add_defaults);
  nabla_array *w = nf4(matrix(ROWS, COLUMNS));
  expect_refused(nabla_add(w, matrix(ROWS, COLUMNS)), "nabla.add");
  cr_expect(strstr(said, "would materialize"), "%s", said);
  cr_expect_eq(called, 1);
}

/* ---- both orders ---- */

static int swaps;
static nabla_array_rule_outcome minus_one(nabla_scope *in,
                                          nabla_array_rule_call *call,
                                          nabla_array **results) {
  (void)in;
  cr_expect(nabla_array_is_packed(call->operands[0]));
  cr_expect_not(nabla_array_is_packed(call->operands[1]));
  swaps += call->is_swapped;
  called++;
  nabla_array *const operands[2] = {nabla_materialize(call->operands[0]),
                                    call->operands[1]};
  nabla_default(call, operands, results);
  return NABLA_ARRAY_RULE_TAKES;
}
static const char *const pairs[] = {"nabla.add", "nabla.mul", "nabla.compare"};
static const nabla_array_rule both = {.struct_size = sizeof both,
                                      .id = "both",
                                      .operations = pairs,
                                      .operation_count = 3,
                                      .lhs = "packed",
                                      .rhs = "dense",
                                      .commutes = 1,
                                      .version = "1",
                                      .record = minus_one};

Test(array_rule, commutes_serves_both_orders) {
  add(&both);
  nabla_array *w = nf4(matrix(ROWS, COLUMNS)), *d = nabla_materialize(w);
  nabla_array *x = nabla_add(matrix(ROWS, COLUMNS), nabla_scalar(scope, 3));
  expect_near(nabla_add(w, x), nabla_add(d, x), 0);
  cr_expect_eq(swaps, 0);
  expect_near(nabla_add(x, w), nabla_add(x, d), 0);
  cr_expect_eq(swaps, 1);
  expect_near(nabla_convert(nabla_equal(x, w), NABLA_DTYPE_F32),
              nabla_convert(nabla_equal(x, d), NABLA_DTYPE_F32), 0);
  cr_expect_eq(swaps, 2);
  /* less is not what it is in the other order */
  expect_refused(nabla_less(x, w), "nabla.compare");
}

Test(array_rule, without_commutes_one_order_alone) {
  nabla_array_rule one = both;
  one.commutes = 0;
  add(&one);
  nabla_array *w = nf4(matrix(ROWS, COLUMNS)), *x = matrix(ROWS, COLUMNS);
  expect_near(nabla_mul(w, x), nabla_mul(nabla_materialize(w), x), 0);
  expect_refused(nabla_mul(x, w), "nabla.mul");
}

/* ---- failures ---- */

static nabla_array_rule_outcome wrong_shape(nabla_scope *in,
                                            nabla_array_rule_call *call,
                                            nabla_array **results) {
  results[0] = nabla_ones(in, NABLA_DTYPE_F32, NABLA_DIMS(3));
  (void)call;
  return NABLA_ARRAY_RULE_TAKES;
}
RULE(wrong, "nabla.abs", "packed", "", wrong_shape);

static nabla_array_rule_outcome fails(nabla_scope *in,
                                      nabla_array_rule_call *call,
                                      nabla_array **results) {
  results[0] = nabla_matmul(call->operands[0],
                            nabla_ones(in, NABLA_DTYPE_F32, NABLA_DIMS(3, 3)));
  return NABLA_ARRAY_RULE_TAKES;
}
RULE(failing, "nabla.floor", "packed", "", fails);

static nabla_array_rule_outcome nothing(nabla_scope *in,
                                        nabla_array_rule_call *call,
                                        nabla_array **results) {
  (void)in, (void)call, (void)results;
  return NABLA_ARRAY_RULE_TAKES;
}
RULE(empty, "nabla.cos", "packed", "", nothing);

static nabla_array_rule_outcome reads(nabla_scope *in,
                                      nabla_array_rule_call *call,
                                      nabla_array **results) {
  nabla_dense out;
  (void)in;
  (void)!nabla_array_read(call->operands[0], &out, NULL);
  results[0] = nabla_materialize(call->operands[0]);
  (void)!nabla_array_read(results[0], &out, NULL);
  return NABLA_ARRAY_RULE_TAKES;
}
RULE(reading, "nabla.tan", "packed", "", reads);

Test(array_rule, failures_name_rule_and_cause) {
  add(&wrong);
  add(&failing);
  add(&empty);
  add(&reading);
  nabla_array *w = nf4(matrix(ROWS, COLUMNS));
  expect_refused(nabla_abs(w), "rule 'wrong'");
  cr_expect(strstr(said, "another dtype or shape"), "%s", said);
  expect_refused(nabla_floor(w), "rule 'failing': nabla_matmul(");
  expect_refused(nabla_cos(w), "rule 'empty': the callback left result 0 NULL");
  expect_refused(nabla_tan(w), "rule 'reading'");
  cr_expect(strstr(said, "is being traced"), "%s", said);
  /* the scope still works */
  expect_near(nabla_materialize(w), nabla_materialize(w), 0);
}

Test(array_rule, what_cannot_be_added) {
  nabla_array_rule rule = sin_is_x;
  rule.id = "";
  cr_expect_eq(nabla_add_array_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
  rule = sin_is_x;
  rule.commutes = 1;
  cr_expect_eq(nabla_add_array_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "commute"), "%s", diag.what);
  rule = sin_is_x;
  rule.lhs = "pakced";
  cr_expect_eq(nabla_add_array_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
  rule = sin_is_x;
  rule.operation_count = 0;
  cr_expect_eq(nabla_add_array_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "encoding"), "%s", diag.what);
  static const char *const unknown[] = {"nabla.abs", "nabla.sinn"};
  rule = sin_is_x;
  rule.operations = unknown;
  rule.operation_count = 2;
  cr_expect_eq(nabla_add_array_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_add_array_rule(NULL, &diag), NABLA_INVALID_ARGUMENT);
  rule.struct_size--;
  cr_expect_eq(nabla_add_array_rule(&rule, &diag), NABLA_INVALID_ARGUMENT);
  /* nothing was added before: both names are free */
  add(&sin_is_x);
  cr_expect_eq(nabla_add_array_rule(&sin_is_x, &diag), NABLA_INVALID_ARGUMENT);
  nabla_default(NULL, NULL, NULL);
}

/* ---- encodings ---- */

static const char *count_pairs(void *self, const nabla_encoding_storage *of,
                               int64_t counts[NABLA_ENCODING_MAX_COMPONENTS]) {
  (void)self;
  counts[0] = (int64_t)of->elements;
  return NULL;
}

static nabla_status decode_halves(void *self, const nabla_encoding_storage *of,
                                  const char *name, const nabla_sink *to,
                                  nabla_diag *out) {
  char text[400];
  (void)self, (void)of, (void)out;
  const int length = snprintf(
      text, sizeof text,
      "func.func private @%s(%%codes: tensor<?xi8>, %%at: index) -> f32 {\n"
      "  %%code = tensor.extract %%codes[%%at] : tensor<?xi8>\n"
      "  %%f = arith.sitofp %%code : i8 to f32\n"
      "  %%half = arith.constant 0.5 : f32\n"
      "  %%value = arith.mulf %%f, %%half : f32\n"
      "  return %%value : f32\n}\n",
      name);
  return to->write(to->self, text, (size_t)length, out);
}

static void add_halves(const char *name, nabla_encoding_fallback fallback) {
  const nabla_encoding_description halves = {
      .struct_size = sizeof halves,
      .name = name,
      .component_count = 1,
      .components = {{"codes", NABLA_DTYPE_I8}},
      .fallback = fallback,
      .count = count_pairs,
      .decode = decode_halves,
      .version = "1"};
  cr_assert_eq(nabla_add_encoding(&halves, &diag), NABLA_OK, "%s", diag.what);
}

static nabla_array *halves(const char *name) {
  char text[64];
  int8_t codes[8] = {-4, -3, -2, -1, 0, 1, 2, 3};
  const nabla_dense dense = {codes, NABLA_DTYPE_I8, 1, {8}};
  nabla_array *components = nabla_array_of(scope, &dense);
  snprintf(text, sizeof text, "#nabla.custom<\"%s\">", name);
  return nabla_pack_as(1, &components, text, NABLA_DIMS(2, 4));
}

static nabla_array *half_values(void) {
  float values[8];
  for (int i = 0; i < 8; i++) values[i] = (float)(i - 4) / 2;
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {2, 4}};
  return nabla_array_of(scope, &dense);
}

Test(array_rule, an_encoding_says_what_happens_without_a_rule) {
  add_halves("loud", NABLA_FALLBACK_REPORT);
  add_halves("silent", NABLA_FALLBACK_SILENT);
  add_halves("never", NABLA_FALLBACK_NEVER);
  expect_near(nabla_materialize(halves("loud")), half_values(), 0);
  expect_refused(nabla_exp(halves("loud")), "would materialize");
  expect_near(nabla_exp(halves("silent")), nabla_exp(half_values()), 1e-6);
  expect_refused(nabla_exp(halves("never")), "never materialized");
  expect_near(nabla_materialize(halves("never")), half_values(), 0);
  open_again("off");
  expect_refused(nabla_exp(halves("never")), "never materialized");
  expect_near(nabla_exp(halves("loud")), nabla_exp(half_values()), 1e-6);
}

static int fallbacks;
static nabla_array_rule_outcome take_anything(nabla_scope *in,
                                              nabla_array_rule_call *call,
                                              nabla_array **results) {
  nabla_array *operands[8];
  (void)in;
  fallbacks++;
  for (size_t i = 0; i < call->operand_count; i++)
    operands[i] = nabla_materialize(call->operands[i]);
  nabla_default(call, operands, results);
  return NABLA_ARRAY_RULE_TAKES;
}

Test(array_rule, an_encoding_has_a_rule_for_whatever_no_other_takes) {
  const nabla_array_rule rule = {.struct_size = sizeof rule,
                                 .id = "never.anything",
                                 .encoding = "never",
                                 .version = "1",
                                 .record = take_anything};
  add_halves("never", NABLA_FALLBACK_NEVER);
  add_halves("other", NABLA_FALLBACK_NEVER);
  add(&rule);
  nabla_array *x = half_values();
  expect_near(nabla_exp(halves("never")), nabla_exp(x), 1e-6);
  expect_near(nabla_sub(x, halves("never")), nabla_sub(x, x), 1e-6);
  nabla_array *parts[2];
  nabla_array *rows[2];
  nabla_chunk(halves("never"), 0, 2, parts);
  nabla_chunk(x, 0, 2, rows);
  expect_near(nabla_exp(parts[1]), nabla_exp(rows[1]), 1e-6);
  cr_expect_eq(fallbacks, 3);
  expect_refused(nabla_exp(halves("other")), "never materialized");
}

/* ---- a low-rank change of a dense weight ---- */

static const char *count_lora(void *self, const nabla_encoding_storage *of,
                              int64_t counts[NABLA_ENCODING_MAX_COMPONENTS]) {
  (void)self;
  const int64_t rank = nabla_attribute_tree_integer(of->parameters, "rank", 0);
  if (of->rank != 2 || rank < 1) return "a matrix, and a rank";
  counts[0] = (int64_t)of->elements;
  counts[1] = rank * of->shape[1];
  counts[2] = of->shape[0] * rank;
  return NULL;
}

static nabla_status decode_lora(void *self, const nabla_encoding_storage *of,
                                const char *name, const nabla_sink *to,
                                nabla_diag *out) {
  char text[1400];
  (void)self, (void)out;
  const int length = snprintf(
      text, sizeof text,
      "func.func private @%s(%%base: tensor<?xf32>, %%a: tensor<?xf32>, "
      "%%b: tensor<?xf32>, %%at: index) -> f32 {\n"
      "  %%c0 = arith.constant 0 : index\n"
      "  %%c1 = arith.constant 1 : index\n"
      "  %%rank = arith.constant %lld : index\n"
      "  %%columns = arith.constant %lld : index\n"
      "  %%row = arith.divui %%at, %%columns : index\n"
      "  %%column = arith.remui %%at, %%columns : index\n"
      "  %%first = tensor.extract %%base[%%at] : tensor<?xf32>\n"
      "  %%y = scf.for %%i = %%c0 to %%rank step %%c1 "
      "iter_args(%%sum = %%first) -> f32 {\n"
      "    %%p0 = arith.muli %%row, %%rank : index\n"
      "    %%p1 = arith.addi %%p0, %%i : index\n"
      "    %%q0 = arith.muli %%i, %%columns : index\n"
      "    %%q1 = arith.addi %%q0, %%column : index\n"
      "    %%u = tensor.extract %%b[%%p1] : tensor<?xf32>\n"
      "    %%v = tensor.extract %%a[%%q1] : tensor<?xf32>\n"
      "    %%uv = arith.mulf %%u, %%v : f32\n"
      "    %%next = arith.addf %%sum, %%uv : f32\n"
      "    scf.yield %%next : f32\n"
      "  }\n"
      "  return %%y : f32\n}\n",
      name, (long long)nabla_attribute_tree_integer(of->parameters, "rank", 0),
      (long long)of->shape[1]);
  return to->write(to->self, text, (size_t)length, out);
}

/* x (base + b a) = x base + (x b) a. */
static nabla_array_rule_outcome product_of_lora(nabla_scope *in,
                                                nabla_array_rule_call *call,
                                                nabla_array **results) {
  (void)in;
  nabla_array *parts[3];
  const nabla_dense *w = nabla_array_dense(call->operands[1]);
  const nabla_attribute_tree *dims =
      nabla_attribute_tree_find(call->attributes, "rhs_contracting");
  if (w->rank != 2 || dims->count != 1 || dims->elements[0].integer != 0)
    return NABLA_ARRAY_RULE_DECLINES;
  called++;
  nabla_unpack(call->operands[1], 3, parts);
  const int64_t rows = w->shape[0], columns = w->shape[1];
  const int64_t rank = nabla_array_dense(parts[2])->shape[0] / rows;
  nabla_array *x = call->operands[0];
  nabla_array *b = nabla_reshape(parts[2], NABLA_DIMS(rows, rank));
  nabla_array *a = nabla_reshape(parts[1], NABLA_DIMS(rank, columns));
  nabla_array *base = nabla_reshape(parts[0], NABLA_DIMS(rows, columns));
  results[0] =
      nabla_add(nabla_matmul(x, base), nabla_matmul(nabla_matmul(x, b), a));
  return NABLA_ARRAY_RULE_TAKES;
}

Test(array_rule, lora_over_a_dense_base_is_an_encoding) {
  const nabla_encoding_description lora = {
      .struct_size = sizeof lora,
      .name = "lora.dense",
      .component_count = 3,
      .components = {{"base", NABLA_DTYPE_F32},
                     {"a", NABLA_DTYPE_F32},
                     {"b", NABLA_DTYPE_F32}},
      .count = count_lora,
      .decode = decode_lora,
      .version = "1"};
  static const char *const operations[] = {"nabla.dot_general"};
  const nabla_array_rule rule = {.struct_size = sizeof rule,
                                 .id = "product_of_dense_lora",
                                 .operations = operations,
                                 .operation_count = 1,
                                 .lhs = "dense",
                                 .rhs = "custom",
                                 .encoding = "lora.dense",
                                 .version = "1",
                                 .record = product_of_lora};
  cr_assert_eq(nabla_add_encoding(&lora, &diag), NABLA_OK);
  add(&rule);
  nabla_array *base = matrix(12, 20), *x = matrix(3, 12);
  nabla_array *a = nabla_mul(matrix(2, 20), nabla_scalar(scope, 0.5));
  nabla_array *b = nabla_add(matrix(12, 2), nabla_scalar(scope, 1));
  nabla_array *parts[3] = {nabla_flatten(base, 0, -1), nabla_flatten(a, 0, -1),
                           nabla_flatten(b, 0, -1)};
  nabla_array *w =
      nabla_pack_as(3, parts, "#nabla.custom<\"lora.dense\", {rank = 2}>",
                    NABLA_DIMS(12, 20));
  nabla_array *dense = nabla_add(base, nabla_matmul(b, a));
  expect_near(nabla_materialize(w), dense, 1e-5);
  expect_near(nabla_matmul(x, w), nabla_matmul(x, dense), 1e-4);
  cr_expect_eq(called, 1);
}

Test(array_rule, encodings_as_text_are_checked) {
  nabla_array *x = matrix(2, 4);
  static const char *const bad[] = {
      "",  "f32", "#nabla.nf5", "#nabla.nf4>, x", "#nabla.custom<\"unknown\">",
      NULL};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cr_expect_null(nabla_pack_as(1, &x, bad[i], NABLA_DIMS(2, 4)));
    cr_expect_neq(nabla_scope_status(scope, &diag), NABLA_OK);
    cr_expect(strstr(diag.what, "nabla_pack_as"), "%s", diag.what);
    nabla_scope_clear(scope);
  }
}

/* ---- functions ---- */

/* The array outside that is captured is packed. */
static void record_product(nabla_scope *in, const nabla_tree *arguments,
                           nabla_tree *results, void *self) {
  (void)in;
  results->array = product(arguments->items[0].array, self);
}

/* Unknown sizes: the rule sees a number for each. */
static nabla_array_rule_outcome doubled(nabla_scope *in,
                                        nabla_array_rule_call *call,
                                        nabla_array **results) {
  called++;
  cr_expect_lt(call->results[0].shape[0], 0);
  nabla_array *y;
  nabla_array *const operands[2] = {call->operands[0],
                                    nabla_materialize(call->operands[1])};
  nabla_default(call, operands, &y);
  results[0] = nabla_mul(y, nabla_scalar(in, 2));
  return NABLA_ARRAY_RULE_TAKES;
}
RULE(doubling, "nabla.dot_general", "dense", "packed", doubled);

Test(array_rule, unknown_sizes) {
  add(&doubling);
  nabla_array *w = nf4(matrix(64, COLUMNS));
  const nabla_function_dim dim = {"0", 0, "batch"};
  const nabla_function_options options = {
      .struct_size = sizeof options, .self = w, .dims = &dim, .dim_count = 1};
  nabla_function *function;
  cr_assert_eq(nabla_realize(scope, 1, &w, &diag), NABLA_OK, "%s %s", diag.what,
               said);
  cr_assert_eq(
      nabla_function_create(engine, record_product, &options, &function, &diag),
      NABLA_OK);
  for (int64_t rows = 5; rows < 7; rows++) {
    nabla_tree leaf = nabla_tree_of_array(matrix(rows, COLUMNS));
    const nabla_tree in = nabla_tree_of_list(1, &leaf);
    nabla_tree out = nabla_tree_of_array(NULL);
    cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK,
                 "%s %s", diag.what, said);
    nabla_array *want = product(leaf.array, nabla_materialize(w));
    expect_near(out.array, nabla_mul(want, nabla_scalar(scope, 2)), 1e-3);
  }
  cr_expect_eq(called, 1);
  nabla_function_destroy(function);
}

/* ---- policies and counts ---- */

static nabla_function_statistics count_function(nabla_function *function) {
  nabla_function_statistics counts = {.struct_size = sizeof counts};
  cr_assert_eq(nabla_function_count(function, &counts, &diag), NABLA_OK);
  return counts;
}

static void record_mixed(nabla_scope *in, const nabla_tree *arguments,
                         nabla_tree *results, void *self) {
  (void)in, (void)self;
  nabla_array *w = arguments->items[1].array;
  nabla_array *y = product(arguments->items[0].array, w);
  results->array = nabla_add(nabla_sum(y, NABLA_ALL_DIMS, 0),
                             nabla_sum(nabla_exp(w), NABLA_ALL_DIMS, 0));
}

static nabla_status call_mixed(const char *policy,
                               nabla_function_statistics *counts) {
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .policy = policy};
  nabla_function *function;
  nabla_tree items[2] = {nabla_tree_of_array(matrix(3, COLUMNS)),
                         nabla_tree_of_array(nf4(matrix(64, COLUMNS)))};
  const nabla_tree in = nabla_tree_of_list(2, items);
  nabla_tree out = nabla_tree_of_array(NULL);
  *said = '\0';
  cr_assert_eq(
      nabla_function_create(engine, record_mixed, &options, &function, &diag),
      NABLA_OK);
  const nabla_status status = nabla_function_call(function, &in, &out, &diag);
  *counts = count_function(function);
  nabla_function_destroy(function);
  nabla_scope_clear(scope);
  return status;
}

Test(array_rule, a_function_has_a_policy_and_counts) {
  nabla_function_statistics counts;
  /* the engine's is "error" */
  cr_expect_neq(call_mixed(NULL, &counts), NABLA_OK);
  cr_expect(strstr(said, "would materialize"), "%s", said);
  cr_expect_eq(call_mixed("off", &counts), NABLA_OK, "%s", diag.what);
  cr_expect_str_empty(said);
  cr_expect_eq(counts.materializations, 1);
  cr_expect_eq(counts.fused, 1);
  cr_expect_geq(counts.rules, 1);
  cr_expect_eq(call_mixed("warn", &counts), NABLA_OK);
  cr_expect(strstr(said, "'nabla.exp' op materializes 1 operand"), "%s", said);
  cr_expect_eq(counts.materializations, 1);
  cr_expect_eq(nabla_scope_set_policy(scope, "loud", &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_scope_set_policy(scope, "off", &diag), NABLA_OK);
  cr_expect_eq(call_mixed(NULL, &counts), NABLA_OK);
  nabla_array *w = nf4(matrix(ROWS, COLUMNS));
  expect_near(nabla_exp(w), nabla_exp(nabla_materialize(w)), 0);
  cr_expect_eq(nabla_scope_set_policy(scope, "error", &diag), NABLA_OK);
  expect_refused(nabla_exp(w), "would materialize");
  const nabla_function_options bad = {.struct_size = sizeof bad,
                                      .policy = "none"};
  nabla_function *function;
  cr_expect_eq(
      nabla_function_create(engine, record_mixed, &bad, &function, &diag),
      NABLA_INVALID_ARGUMENT);
}

Test(array_rule, the_environment_has_the_default_policy) {
  nabla_function_statistics counts;
  cr_assert_eq(setenv("NABLA_POLICY", "error", 1), 0);
  open_again(NULL);
  cr_expect_neq(call_mixed(NULL, &counts), NABLA_OK);
  cr_expect(strstr(said, "would materialize"), "%s", said);
  cr_expect_eq(call_mixed("off", &counts), NABLA_OK);
  cr_assert_eq(setenv("NABLA_POLICY", "quiet", 1), 0);
  nabla_array *w = nf4(matrix(ROWS, COLUMNS));
  nabla_dense out;
  cr_expect_neq(nabla_array_read(nabla_exp(w), &out, &diag), NABLA_OK);
  cr_expect(strstr(diag.what, "unknown policy 'quiet' in NABLA_POLICY"), "%s",
            diag.what);
}

static int remove_entry(const char *path, const struct stat *status, int kind,
                        struct FTW *place) {
  (void)status, (void)kind, (void)place;
  return remove(path);
}

/* Objects of the cache have the counts of the compilation that stored them. */
Test(array_rule, counts_come_from_the_cache) {
  temp_folder folder;
  char path[256];
  temp_folder_create(&folder);
  temp_folder_path(&folder, "cache", path);
  static const char text[] =
      "!w = !nabla.implicit<4x64xf32, #nabla.nf4<block = 64>>\n"
      "func.func @f(%w: !w) -> tensor<4x64xf32> {\n"
      "  %y = nabla.exp %w : !w\n"
      "  return %y : tensor<4x64xf32>\n"
      "}\n";
  const nabla_compiler_options options = {
      .struct_size = sizeof options, .cache = path, .diagnostic = listen};
  for (int i = 0; i < 2; i++) {
    nabla_compiler *compiler;
    nabla_executable *executable;
    cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
                 NABLA_OK);
    cr_assert_eq(nabla_compile_text(compiler, text, sizeof text - 1, "f", NULL,
                                    &executable, &diag),
                 NABLA_OK);
    const nabla_compile_report report = nabla_compiler_last_report(compiler);
    cr_expect_eq(report.from_cache, i);
    cr_expect_eq(report.materializations, 1);
    cr_expect_eq(report.fused, 0);
    nabla_executable_close(executable);
    nabla_compiler_destroy(compiler);
  }
  cr_expect_eq(nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
  temp_folder_destroy(&folder);
}

static nabla_array_rule_outcome decline(nabla_scope *in,
                                        nabla_array_rule_call *call,
                                        nabla_array **results) {
  (void)in, (void)results;
  call->why = "of the test";
  return NABLA_ARRAY_RULE_DECLINES;
}

/* Compiles in a process of its own, which has the rule alone; whether the
 * object came from the cache. */
static int is_cached_with(const char *cache, const nabla_array_rule *rule) {
  static const char text[] =
      "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %y = nabla.exp %x : tensor<4xf32>\n"
      "  return %y : tensor<4xf32>\n"
      "}\n";
  const nabla_compiler_options options = {
      .struct_size = sizeof options, .cache = cache, .diagnostic = listen};
  fflush(NULL);
  const pid_t child = fork();
  if (!child) {
    nabla_compiler *compiler;
    nabla_executable *executable;
    if (nabla_add_array_rule(rule, &diag) ||
        nabla_compiler_create(&options, NULL, &compiler, &diag) ||
        nabla_compile_text(compiler, text, sizeof text - 1, "f", NULL,
                           &executable, &diag))
      _exit(9);
    _exit(nabla_compiler_last_report(compiler).from_cache);
  }
  int status;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_assert(WIFEXITED(status) && WEXITSTATUS(status) <= 1, "%d", status);
  return WEXITSTATUS(status);
}

/* Each member that says when a rule is asked is in the key of the cache. */
Test(array_rule, the_cache_knows_all_members) {
  static const char *const exp_alone[] = {"nabla.exp"};
  static const char *const abs_alone[] = {"nabla.abs"};
  temp_folder folder;
  char path[256];
  temp_folder_create(&folder);
  temp_folder_path(&folder, "cache", path);
  const nabla_array_rule first = {.struct_size = sizeof first,
                                  .id = "keyed",
                                  .operations = exp_alone,
                                  .operation_count = 1,
                                  .lhs = "packed",
                                  .encoding = "nf4",
                                  .version = "1",
                                  .record = decline};
  nabla_array_rule others[5];
  for (size_t i = 0; i < 5; i++) others[i] = first;
  others[0].encoding = "int8";
  others[1].lhs = "implicit";
  others[2].operations = abs_alone;
  others[3].precedence = 1;
  others[4].version = "2";
  cr_expect_not(is_cached_with(path, &first));
  cr_expect(is_cached_with(path, &first));
  for (size_t i = 0; i < 5; i++)
    cr_expect_not(is_cached_with(path, &others[i]), "%zu", i);
  cr_expect_eq(nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
  temp_folder_destroy(&folder);
}
