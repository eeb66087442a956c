/* transforms/ir/build.h and build_control.h: gather, scatter, convolutions,
 * pools and operations with regions, built, compiled and run. */
#include <criterion/criterion.h>
#include <mlir-c/Diagnostics.h>
#include <stdio.h>
#include <string.h>

#include "dialect/dialect.h"
#include "lib/kernels/builder/text.h"
#include "nabla/compiler.h"
#include "transforms/ir/build_control.h"

/* A program with one function, @f, whose body is built before its return. */
static MlirContext context;
static MlirModule module;
static nabla_builder builder;
static MlirValue arguments[4];
static char said[1024];

static void put(MlirStringRef part, void *data) {
  size_t used = strlen(data);
  (void)snprintf((char *)data + used, sizeof said - used, "%.*s",
                 (int)part.length, part.data);
}

static MlirLogicalResult listen(MlirDiagnostic diagnostic, void *data) {
  mlirDiagnosticPrint(diagnostic, put, data);
  return mlirLogicalResultSuccess();
}

static void open_program(const char *text) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
  context = mlirContextCreateWithRegistry(registry, /*threading=*/false);
  mlirDialectRegistryDestroy(registry);
  mlirContextAttachDiagnosticHandler(context, listen, said, NULL);
  mlirContextLoadAllAvailableDialects(context);
  *said = 0;
  module = mlirModuleCreateParse(context, nabla_ref(text));
  cr_assert_not(mlirModuleIsNull(module), "%s", said);
  MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(
      mlirBlockGetFirstOperation(mlirModuleGetBody(module)), 0));
  builder.before = mlirBlockGetFirstOperation(block);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
    arguments[i] = mlirBlockGetArgument(block, i);
}

static void close_program(void) {
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
}

static void append(MlirStringRef part, void *data) {
  nabla_text_add(data, "%.*s", (int)part.length, part.data);
}

/* Runs @f, which returns `results`, of `inputs`; compares with `want`. */
static void expect(const MlirValue *results, uint32_t count,
                   const nabla_dense *inputs, uint32_t input_count,
                   const float *const *want) {
  nabla_compiler *compiler = NULL;
  nabla_executable *executable = NULL;
  nabla_compiler_options options = {.struct_size = sizeof options, .cache = ""};
  nabla_dense out[2] = {{0}};
  nabla_text text = {0};
  nabla_diag diag;
  for (uint32_t i = 0; i < count; i++) {
    cr_assert_not(mlirValueIsNull(results[i]), "%s", said);
    mlirOperationSetOperand(builder.before, i, results[i]);
  }
  cr_assert(mlirOperationVerify(mlirModuleGetOperation(module)), "%s", said);
  mlirOperationPrint(mlirModuleGetOperation(module), append, &text);
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_compile_text(compiler, text.data, text.size, "f.mlir",
                                  NULL, &executable, &diag),
               NABLA_OK, "%s\n%s", diag.what, text.data);
  cr_assert_eq(nabla_executable_run(executable, "f", inputs, input_count, out,
                                    count, &diag),
               NABLA_OK, "%s", diag.what);
  for (uint32_t i = 0; i < count; i++) {
    size_t size = 1;
    for (uint32_t d = 0; d < out[i].rank; d++) size *= (size_t)out[i].shape[d];
    for (size_t k = 0; k < size; k++)
      cr_expect_eq(((float *)out[i].data)[k], want[i][k], "%u[%zu]: %g, not %g",
                   i, k, (double)((float *)out[i].data)[k], (double)want[i][k]);
    nabla_dense_release(executable, &out[i]);
  }
  nabla_executable_close(executable);
  nabla_compiler_destroy(compiler);
  nabla_text_deinit(&text);
  close_program();
}

TestSuite(build, .timeout = 300);

/* ---- gather and scatter ---- */

static float eight[8] = {0, 1, 2, 3, 4, 5, 6, 7};
static int64_t rows[2] = {3, 1};
static const int64_t zero = 0, one = 1;
static const nabla_built_gather rows_of_two = {.offset_count = 1,
                                               .offset_dims = &one,
                                               .collapsed_count = 1,
                                               .collapsed_dims = &zero,
                                               .map_count = 1,
                                               .index_map = &zero,
                                               .vector_dim = 1};

Test(build, gather_takes_rows) {
  open_program(
      "func.func @f(%x: tensor<4x2xf32>, %i: tensor<2x1xi64>, %r: "
      "tensor<2x2xf32>) -> tensor<2x2xf32> { return %r : tensor<2x2xf32> }");
  const int64_t sizes[2] = {1, 2};
  float other[4] = {0};
  MlirValue y = nabla_build_gather(&builder, arguments[0], arguments[1],
                                   &rows_of_two, sizes);
  nabla_dense in[3] = {{eight, NABLA_DTYPE_F32, 2, {4, 2}},
                       {rows, NABLA_DTYPE_I64, 2, {2, 1}},
                       {other, NABLA_DTYPE_F32, 2, {2, 2}}};
  const float want[4] = {6, 7, 2, 3};
  expect(&y, 1, in, 3, (const float *const[]){want});
}

Test(build, scatter_adds_rows) {
  open_program(
      "func.func @f(%x: tensor<4x2xf32>, %i: tensor<2x1xi64>, %u: "
      "tensor<2x2xf32>) -> tensor<4x2xf32> { return %x : tensor<4x2xf32> }");
  float updates[4] = {10, 20, 30, 40};
  MlirValue y =
      nabla_build_scatter(&builder, NABLA_BUILD_ADD, arguments, &rows_of_two);
  nabla_dense in[3] = {{eight, NABLA_DTYPE_F32, 2, {4, 2}},
                       {rows, NABLA_DTYPE_I64, 2, {2, 1}},
                       {updates, NABLA_DTYPE_F32, 2, {2, 2}}};
  const float want[8] = {0, 1, 32, 43, 4, 5, 16, 27};
  expect(&y, 1, in, 3, (const float *const[]){want});
}

Test(build, gather_pairs_batches) {
  open_program(
      "func.func @f(%x: tensor<2x4xf32>, %i: tensor<2x1xi64>, %r: "
      "tensor<2xf32>) -> tensor<2xf32> { return %r : tensor<2xf32> }");
  const int64_t sizes[2] = {1, 1};
  const nabla_built_gather each = {.collapsed_count = 1,
                                   .collapsed_dims = &one,
                                   .batching_count = 1,
                                   .input_batching = &zero,
                                   .indices_batching = &zero,
                                   .map_count = 1,
                                   .index_map = &one,
                                   .vector_dim = 1};
  float other[2] = {0};
  MlirValue y =
      nabla_build_gather(&builder, arguments[0], arguments[1], &each, sizes);
  nabla_dense in[3] = {{eight, NABLA_DTYPE_F32, 2, {2, 4}},
                       {rows, NABLA_DTYPE_I64, 2, {2, 1}},
                       {other, NABLA_DTYPE_F32, 1, {2}}};
  const float want[2] = {3, 5};
  expect(&y, 1, in, 3, (const float *const[]){want});
}

/* ---- windows ---- */

Test(build, conv_has_strides_and_padding) {
  open_program(
      "func.func @f(%x: tensor<1x1x8xf32>, %k: tensor<1x1x3xf32>, %r: "
      "tensor<1x1x4xf32>) -> tensor<1x1x4xf32> { return %r : "
      "tensor<1x1x4xf32> }");
  const int64_t two = 2;
  const nabla_built_conv conv = {
      .windows = {.count = 1, .strides = &two, .low = &one, .high = &zero}};
  float kernel[3] = {1, 10, 100}, other[4] = {0};
  MlirValue y = nabla_build_conv(&builder, arguments[0], arguments[1], &conv);
  nabla_dense in[3] = {{eight, NABLA_DTYPE_F32, 3, {1, 1, 8}},
                       {kernel, NABLA_DTYPE_F32, 3, {1, 1, 3}},
                       {other, NABLA_DTYPE_F32, 3, {1, 1, 4}}};
  const float want[4] = {100, 321, 543, 765};
  expect(&y, 1, in, 3, (const float *const[]){want});
}

Test(build, conv_has_groups_and_dimension_numbers) {
  open_program(
      "func.func @f(%x: tensor<1x4x2xf32>, %k: tensor<2x1x3xf32>, %r: "
      "tensor<1x2x2xf32>) -> tensor<1x2x2xf32> { return %r : "
      "tensor<1x2x2xf32> }");
  /* batch, spatial, feature; of the kernel output feature, input feature */
  const int64_t last[3] = {0, 2, 1}, kernel_dims[3] = {0, 1, 2};
  const nabla_built_conv conv = {.windows = {.count = 1},
                                 .groups = 2,
                                 .input_dims = last,
                                 .kernel_dims = kernel_dims,
                                 .output_dims = last};
  float kernel[6] = {1, 1, 1, 1, 10, 100}, other[4] = {0};
  MlirValue y = nabla_build_conv(&builder, arguments[0], arguments[1], &conv);
  nabla_dense in[3] = {{eight, NABLA_DTYPE_F32, 3, {1, 4, 2}},
                       {kernel, NABLA_DTYPE_F32, 3, {2, 1, 3}},
                       {other, NABLA_DTYPE_F32, 3, {1, 2, 2}}};
  const float want[4] = {6, 531, 12, 753};
  expect(&y, 1, in, 3, (const float *const[]){want});
}

Test(build, pool_has_windows) {
  static const float wants[3][4] = {
      {0.5f, 2, 4, 6}, {1.0f / 3, 2, 4, 6}, {1, 3, 5, 7}};
  const int64_t two = 2, three = 3;
  for (int i = 0; i < 3; i++) {
    open_program(
        "func.func @f(%x: tensor<8xf32>, %r: tensor<4xf32>) -> tensor<4xf32> {"
        " return %r : tensor<4xf32> }");
    const nabla_built_pool pool = {
        .kind = i == 2 ? NABLA_BUILD_POOL_MAX : NABLA_BUILD_POOL_AVG,
        .sizes = &three,
        .windows = {.count = 1, .strides = &two, .low = &one, .high = &zero},
        .count_padding = i == 1};
    float other[4] = {0};
    MlirValue y = nabla_build_pool(&builder, arguments[0], &pool);
    nabla_dense in[2] = {{eight, NABLA_DTYPE_F32, 1, {8}},
                         {other, NABLA_DTYPE_F32, 1, {4}}};
    expect(&y, 1, in, 2, (const float *const[]){wants[i]});
  }
}

/* ---- regions ---- */

static void write_sum(const nabla_builder *b, const MlirValue *x,
                      MlirValue *results, void *data) {
  (void)x, (void)data;
  results[0] = nabla_build_two(b, "add", arguments[1], arguments[2]);
}

static void write_negated(const nabla_builder *b, const MlirValue *x,
                          MlirValue *results, void *data) {
  (void)x, (void)data;
  results[0] = nabla_build_one(b, "neg", arguments[1]);
}

Test(build, cond_has_a_region_for_each_number) {
  const nabla_built_region branches[3] = {
      {write_sum, NULL, 1}, {write_negated, NULL, 1}, {write_sum, NULL, 1}};
  static const float wants[2][2] = {{11, 22}, {-1, -2}};
  for (int64_t number = 0; number < 4; number++) {
    open_program(
        "func.func @f(%s: tensor<i64>, %x: tensor<2xf32>, %y: tensor<2xf32>) "
        "-> tensor<2xf32> { return %x : tensor<2xf32> }");
    float x[2] = {1, 2}, y[2] = {10, 20};
    MlirOperation op = nabla_build_cond(&builder, arguments[0], 3, branches);
    MlirValue result = nabla_build_result(op, 0);
    nabla_dense in[3] = {{&number, NABLA_DTYPE_I64, 0, {0}},
                         {x, NABLA_DTYPE_F32, 1, {2}},
                         {y, NABLA_DTYPE_F32, 1, {2}}};
    expect(&result, 1, in, 3, (const float *const[]){wants[number == 1]});
  }
}

static void write_below(const nabla_builder *b, const MlirValue *x,
                        MlirValue *results, void *data) {
  enum { LT = 2 }; /* of Nabla_CompareKind */
  results[0] = nabla_build_compare(b, LT, x[0], *(const MlirValue *)data);
  results[1] = x[0];
}

static void write_twice(const nabla_builder *b, const MlirValue *x,
                        MlirValue *results, void *data) {
  (void)data;
  results[0] = nabla_build_two(b, "add", x[0], x[0]);
}

Test(build, while_goes_on_while_its_condition_holds) {
  open_program(
      "func.func @f(%x: tensor<f32>, %limit: tensor<f32>) -> tensor<f32> { "
      "return %x : tensor<f32> }");
  const nabla_built_region condition = {write_below, &arguments[1], 2};
  const nabla_built_region body = {write_twice, NULL, 1};
  float x = 1, limit = 100;
  MlirOperation op =
      nabla_build_while(&builder, 1, arguments, &condition, &body);
  MlirValue result = nabla_build_result(op, 0);
  nabla_dense in[2] = {{&x, NABLA_DTYPE_F32, 0, {0}},
                       {&limit, NABLA_DTYPE_F32, 0, {0}}};
  const float want = 128;
  expect(&result, 1, in, 2, (const float *const[]){&want});
}

static void write_running_sum(const nabla_builder *b, const MlirValue *x,
                              MlirValue *results, void *data) {
  (void)data;
  results[0] = results[1] = nabla_build_two(b, "add", x[0], x[1]);
}

Test(build, scan_carries_and_stacks) {
  static const float wants[2][8] = {{0, 1, 2, 4, 6, 9, 12, 16},
                                    {12, 16, 12, 15, 10, 12, 6, 7}};
  static const float last[2] = {12, 16};
  for (int reverse = 0; reverse < 2; reverse++) {
    open_program(
        "func.func @f(%h: tensor<2xf32>, %x: tensor<4x2xf32>) -> "
        "(tensor<2xf32>, tensor<4x2xf32>) { return %h, %x : tensor<2xf32>, "
        "tensor<4x2xf32> }");
    const nabla_built_region body = {write_running_sum, NULL, 2};
    const nabla_built_scan scan = {.carry_count = 1,
                                   .carries = &arguments[0],
                                   .input_count = 1,
                                   .inputs = &arguments[1],
                                   .reverse = reverse};
    float start[2] = {0};
    MlirOperation op = nabla_build_scan(&builder, &scan, &body);
    const MlirValue results[2] = {nabla_build_result(op, 0),
                                  nabla_build_result(op, 1)};
    nabla_dense in[2] = {{start, NABLA_DTYPE_F32, 1, {2}},
                         {eight, NABLA_DTYPE_F32, 2, {4, 2}}};
    expect(results, 2, in, 2, (const float *const[]){last, wants[reverse]});
  }
}

static void write_constant_slice(const nabla_builder *b, const MlirValue *x,
                                 MlirValue *results, void *data) {
  (void)b, (void)data;
  results[0] = nabla_build_two(b, "add", x[0], x[0]);
  results[1] = x[0];
}

/* A length that only the run knows, and no input. */
Test(build, scan_takes_a_length) {
  open_program(
      "func.func @f(%h: tensor<2xf32>, %x: tensor<?x2xf32>) -> (tensor<2xf32>, "
      "tensor<?x2xf32>) { return %h, %x : tensor<2xf32>, tensor<?x2xf32> }");
  nabla_built_shape shape = nabla_build_shape_of(&builder, arguments[1]);
  const nabla_built_region body = {write_constant_slice, NULL, 2};
  const nabla_built_scan scan = {
      .carry_count = 1, .carries = &arguments[0], .length = shape.sizes[0]};
  float start[2] = {1, 3};
  MlirOperation op = nabla_build_scan(&builder, &scan, &body);
  const MlirValue results[2] = {nabla_build_result(op, 0),
                                nabla_build_result(op, 1)};
  nabla_dense in[2] = {{start, NABLA_DTYPE_F32, 1, {2}},
                       {eight, NABLA_DTYPE_F32, 2, {3, 2}}};
  const float last[2] = {8, 24}, stacked[6] = {1, 3, 2, 6, 4, 12};
  expect(results, 2, in, 2, (const float *const[]){last, stacked});
}

/* ---- what cannot be made ---- */

static void write_null(const nabla_builder *b, const MlirValue *x,
                       MlirValue *results, void *data) {
  (void)b, (void)x, (void)data;
  results[0] = (MlirValue){NULL};
}

static void write_wrong(const nabla_builder *b, const MlirValue *x,
                        MlirValue *results, void *data) {
  (void)x, (void)data;
  results[0] = nabla_build_two(b, "add", arguments[0], arguments[1]);
}

static bool is_null(MlirOperation op) { return mlirOperationIsNull(op); }

Test(build, null_values_are_carried_on) {
  open_program(
      "func.func @f(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> { "
      "return %x : tensor<2xf32> }");
  const MlirValue none = {NULL};
  const int64_t sizes[1] = {1};
  const MlirValue three[3] = {arguments[0], none, none};
  const nabla_built_conv conv = {.windows = {.count = 1}};
  const nabla_built_pool pool = {.sizes = sizes};
  cr_expect(mlirValueIsNull(
      nabla_build_gather(&builder, none, none, &rows_of_two, sizes)));
  cr_expect(mlirValueIsNull(
      nabla_build_scatter(&builder, NABLA_BUILD_SET, three, &rows_of_two)));
  cr_expect(mlirValueIsNull(nabla_build_conv(&builder, none, none, &conv)));
  cr_expect(mlirValueIsNull(nabla_build_pool(&builder, none, &pool)));
  const nabla_built_region null = {write_null, NULL, 1};
  const nabla_built_scan scan = {.carry_count = 1, .carries = arguments};
  cr_expect(is_null(nabla_build_cond(&builder, arguments[0], 1, &null)));
  cr_expect(is_null(
      nabla_build_while(&builder, 1, arguments,
                        &(nabla_built_region){write_null, NULL, 2}, &null)));
  cr_expect(is_null(nabla_build_scan(&builder, &scan, &null)));
  cr_expect(mlirValueIsNull(nabla_build_result((MlirOperation){NULL}, 0)));
  cr_expect_str_eq(said, "", "%s", said);
  close_program();
}

Test(build, what_is_refused_is_reported) {
  open_program(
      "func.func @f(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> { "
      "return %x : tensor<2xf32> }");
  const nabla_built_region many = {write_null, NULL,
                                   NABLA_BUILD_MAX_CARRIES + 1};
  const nabla_built_region wrong = {write_wrong, NULL, 1};
  const nabla_built_region uneven[2] = {{write_negated, NULL, 1},
                                        {write_negated, NULL, 2}};
  const nabla_built_scan scan = {.carry_count = 1, .carries = arguments};
  cr_expect(is_null(nabla_build_cond(&builder, arguments[0], 1, &many)));
  cr_expect(strstr(said, "1 to 32 regions"), "%s", said);
  *said = 0;
  cr_expect(is_null(nabla_build_cond(&builder, arguments[0], 2, uneven)));
  cr_expect(strstr(said, "yield as many values"), "%s", said);
  *said = 0;
  cr_expect(is_null(nabla_build_while(&builder, 1, arguments, &wrong, &wrong)));
  cr_expect(strstr(said, "hand on"), "%s", said);
  *said = 0;
  cr_expect(is_null(nabla_build_scan(&builder, &scan, &many)));
  cr_expect(strstr(said, "at most 64 carries"), "%s", said);
  *said = 0;
  cr_expect(is_null(nabla_build_cond(&builder, arguments[0], 1, &wrong)));
  cr_expect(strstr(said, "'nabla.add'"), "%s", said);
  close_program();
}
