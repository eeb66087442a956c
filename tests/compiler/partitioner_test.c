/* Partitioners of custom calls: an RMSNorm with each kind of partitioner, with
 * a handler that exchanges values, and with none, on ranks of threads; a
 * collective of a user; what is refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <mlir-c/Diagnostics.h>
#include <mlir-c/Pass.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "dialect/dialect.h"
#include "lib/kernels/builder/text.h"
#include "nabla/compiler.h"
#include "nabla/custom_call.h"
#include "nabla/function.h"
#include "nabla/operation.h"
#include "nabla/session.h"
#include "nabla/shard.h"
#include "tests/support/array_scope.h"
#include "transforms/ir/build.h"

enum { ROWS = 4, COLUMNS = 8, RANKS = 4 };

/* ---- the handler ---- */

static atomic_int calls_of_pairs; /* those in groups of 2 */

/* y = x / sqrt(mean(x^2)) * w, whose columns are divided over the group. */
static nabla_call_code norm(const nabla_call_frame *frame) {
  const nabla_call_buffer *x = &frame->arguments[0];
  const nabla_call_buffer *w = &frame->arguments[1];
  const int64_t rows = x->dims[0], columns = x->dims[1];
  float sums[ROWS] = {0}, joined[ROWS];
  const float *in = x->data;
  float *out = frame->results[0].data;
  nabla_call_group group = {.struct_size = sizeof group};
  if (rows > ROWS) return NABLA_CALL_INVALID_ARGUMENT;
  for (int64_t i = 0; i < rows * columns; i++)
    sums[i / columns] += in[i] * in[i];
  const nabla_call_buffer from = {sizeof from, NABLA_DTYPE_F32, 1, &rows, sums};
  const nabla_call_buffer to = {sizeof to, NABLA_DTYPE_F32, 1, &rows, joined};
  const nabla_call_exchange exchange = {.struct_size = sizeof exchange,
                                        .collective = "all_reduce",
                                        .join = "sum",
                                        .x = &from,
                                        .y = &to};
  nabla_call_code code = nabla_call_group_of(frame, &group);
  if (group.count == 2) atomic_fetch_add(&calls_of_pairs, 1);
  if (!code) code = nabla_call_run_exchange(frame, &exchange);
  for (int64_t i = 0; !code && i < rows * columns; i++)
    out[i] = in[i] /
             sqrtf(joined[i / columns] / (float)(columns * group.count)) *
             ((const float *)w->data)[i % columns];
  return code;
}

static nabla_status add_handler(const char *target, uint32_t traits) {
  static const nabla_call_parameter in[] = {
      {"x", NABLA_CALL_DTYPE(F32), 2, NULL},
      {"w", NABLA_CALL_DTYPE(F32), 1, NULL}};
  static const nabla_call_parameter out[] = {
      {"y", NABLA_CALL_DTYPE(F32), 2, NULL}};
  static const nabla_call_attribute axes[] = {
      {"axes", NABLA_ATTRIBUTE_ARRAY, 1}};
  const nabla_call_handler handler = {.struct_size = sizeof handler,
                                      .target = target,
                                      .platform = "cpu",
                                      .traits = traits,
                                      .arguments = in,
                                      .argument_count = 2,
                                      .results = out,
                                      .result_count = 1,
                                      .attributes = axes,
                                      .attribute_count = 1,
                                      .execute = norm};
  return nabla_add_call_handler(&handler, &diag);
}

/* ---- partitioners ---- */

#define ROWS_CUT "#nabla.sharding<@m, [{\"data\"}, {}]>"
#define ALL_CUT  "#nabla.sharding<@m, [{\"data\"}, {\"model\"}]>"

/* Rows of x and of the result are divided alike. */
static int to_operands(const nabla_partition_call *call) {
  return !strstr(call->results[0], "model") &&
         nabla_partition_set(call, NABLA_PARTITION_OPERAND, 0,
                             call->results[0]);
}
static int to_results(const nabla_partition_call *call) {
  return !strstr(call->operands[0], "model") &&
         nabla_partition_set(call, NABLA_PARTITION_RESULT, 0,
                             call->operands[0]);
}

static int all_cut(const nabla_partition_call *call) {
  return strstr(call->mesh, "@m <[\"data\"=2, \"model\"=2]>") &&
         !strcmp(call->operand_types[1], "tensor<8xf32>") &&
         nabla_partition_set(call, NABLA_PARTITION_OPERAND, 0, ALL_CUT) &&
         nabla_partition_set(call, NABLA_PARTITION_OPERAND, 1,
                             "#nabla.sharding<@m, [{\"model\"}]>") &&
         nabla_partition_set(call, NABLA_PARTITION_RESULT, 0, ALL_CUT);
}

static int as_program(const nabla_partition_call *call) {
  return all_cut(call) &&
         nabla_partition_set(
             call, NABLA_PARTITION_PROGRAM, 0,
             "%a = nabla.mul %x0, %x0 : !x0, !x0\n"
             "%b = nabla.reduce sum %a dims = [1] : !x0\n"
             "%c = nabla.all_reduce sum %b axes = [\"model\"] : tensor<2xf32>\n"
             "%n = nabla.full 8.0 : f32 -> tensor<2xf32>\n"
             "%d = nabla.div %c, %n : tensor<2xf32>, tensor<2xf32>\n"
             "%e = nabla.rsqrt %d : tensor<2xf32>\n"
             "%f = nabla.broadcast_in_dim %e dims = [0] : tensor<2xf32> -> "
             "!x0\n"
             "%g = nabla.broadcast_in_dim %x1 dims = [1] : !x1 -> !x0\n"
             "%h = nabla.mul %x0, %f : !x0, !x0\n"
             "%y = nabla.mul %h, %g : !x0, !x0\n"
             "nabla.yield %y : !y0");
}

static int as_exchange(const nabla_partition_call *call) {
  return all_cut(call) &&
         nabla_partition_set(
             call, NABLA_PARTITION_PROGRAM, 0,
             "%y = nabla.custom_call @norm.exchange(%x0, %x1) pure "
             "{axes = [\"model\"]} : (!x0, !x1) -> !y0\n"
             "nabla.yield %y : !y0");
}

/* The same on the mesh of arrays. */
static int as_collective(const nabla_partition_call *call) {
  static const char cut[] =
      "#nabla.sharding<@mesh.data.2.model.2, [{\"data\"}, {\"model\"}]>";
  return nabla_partition_set(call, NABLA_PARTITION_OPERAND, 0, cut) &&
         nabla_partition_set(
             call, NABLA_PARTITION_OPERAND, 1,
             "#nabla.sharding<@mesh.data.2.model.2, [{\"model\"}]>") &&
         nabla_partition_set(call, NABLA_PARTITION_RESULT, 0, cut) &&
         nabla_partition_set(
             call, NABLA_PARTITION_PROGRAM, 0,
             "%y = nabla.custom_call @norm.collective(%x0, %x1) pure "
             "{axes = [\"model\"]} : (!x0, !x1) -> !y0\n"
             "nabla.yield %y : !y0");
}

static int wrong_sharding(const nabla_partition_call *call) {
  return nabla_partition_set(call, NABLA_PARTITION_OPERAND, 0,
                             "#nabla.sharding<@m, [{\"data\"}]>");
}
static int wrong_program(const nabla_partition_call *call) {
  return nabla_partition_set(call, NABLA_PARTITION_PROGRAM, 0,
                             "nabla.yield %x9 : !y0");
}
/* Parts of sums are not joined. */
static int varying_result(const nabla_partition_call *call) {
  return nabla_partition_set(call, NABLA_PARTITION_OPERAND, 0, ALL_CUT) &&
         nabla_partition_set(call, NABLA_PARTITION_RESULT, 0, ROWS_CUT) &&
         nabla_partition_set(
             call, NABLA_PARTITION_PROGRAM, 0,
             "%y = nabla.concatenate %x0, %x0 dim = 1 : !x0, !x0\n"
             "nabla.yield %y : !y0");
}
static int refuses(const nabla_partition_call *call) {
  (void)call;
  return 0;
}

static nabla_status add(const char *target,
                        int (*partition)(const nabla_partition_call *),
                        uint32_t traits, int may_replicate) {
  const nabla_call_partitioner partitioner = {
      .struct_size = sizeof partitioner,
      .propagate = to_operands,
      .infer = to_results,
      .partition = partition,
      .may_replicate_side_effects = may_replicate};
  const nabla_status status = add_handler(target, traits);
  return status ? status
                : nabla_add_call_partitioner(target, &partitioner, &diag);
}

static void add_all(void) {
  diag = (nabla_diag)NABLA_DIAG_INIT;
  const uint32_t pure = NABLA_CALL_PURE;
  if (add("norm.rows", NULL, pure, 0) || add_handler("norm.batch", pure) ||
      nabla_call_is_batch_partitionable("norm.batch", 1, &diag) ||
      add("norm.program", as_program, pure, 0) ||
      add("norm.exchange", as_exchange, pure, 0) ||
      add("norm.collective", as_collective, pure, 0) ||
      add_handler("norm.none", pure) ||
      add("norm.sharding", wrong_sharding, pure, 0) ||
      add("norm.text", wrong_program, pure, 0) ||
      add("norm.varying", varying_result, pure, 0) ||
      add("norm.refused", refuses, pure, 0) || add("norm.once", NULL, 0, 0) ||
      add("norm.twice", NULL, 0, 1))
    cr_assert_fail("%s", diag.what);
}

TestSuite(partitioner, .init = add_all, .timeout = 60);

/* ---- text ---- */

static char said[2048];

static void put(MlirStringRef part, void *data) {
  const size_t used = strlen(data);
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

static void program(char out[2048], const char *target, const char *how) {
  (void)snprintf(
      out, 2048,
      "nabla.mesh @m <[\"data\"=2, \"model\"=2]>\n"
      "func.func @f(%%x: tensor<4x8xf32> {nabla.sharding = " ROWS_CUT
      "},\n"
      "    %%w: tensor<8xf32>) -> tensor<4x8xf32> {\n"
      "  %%a = nabla.neg %%x : tensor<4x8xf32>\n"
      "  %%b = nabla.custom_call @%s(%%a, %%w)%s : (tensor<4x8xf32>, "
      "tensor<8xf32>) -> tensor<4x8xf32>\n"
      "  %%c = nabla.custom_call @%s(%%b, %%w)%s : (tensor<4x8xf32>, "
      "tensor<8xf32>) -> tensor<4x8xf32>\n"
      "  %%d = nabla.neg %%c : tensor<4x8xf32>\n"
      "  return %%d : tensor<4x8xf32>\n}\n",
      target, how, target, how);
}

/* The divided program; an empty text where it is refused. */
static nabla_text divided(const char *target, const char *how) {
  nabla_text out = {0};
  char text[2048];
  program(text, target, how);
  *said = 0;
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
  mlirContextAttachDiagnosticHandler(context, listen, said, NULL);
  mlirContextLoadAllAvailableDialects(context);
  MlirModule module = mlirModuleCreateParse(context, nabla_ref(text));
  cr_assert_not(mlirModuleIsNull(module), "%s", said);
  MlirPassManager manager = mlirPassManagerCreate(context);
  cr_assert(
      mlirLogicalResultIsSuccess(mlirOpPassManagerAddPipeline(
          mlirPassManagerGetAsOpPassManager(manager),
          nabla_ref("nabla-propagate-sharding,nabla-partition"), put, said)),
      "%s", said);
  if (mlirLogicalResultIsSuccess(
          mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(module))))
    mlirOperationPrint(mlirModuleGetOperation(module), append, &out);
  mlirPassManagerDestroy(manager);
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
  return out;
}

/* What the text has, how often; and what it has not. */
static void expect_text(const char *target, const char *has, int times,
                        const char *lacks) {
  nabla_text text = divided(target, " pure");
  int found = 0;
  cr_assert_not_null(text.data, "%s: %s", target, said);
  for (const char *at = text.data; (at = strstr(at, has)); at++) found++;
  cr_expect_eq(found, times, "%s: %d times '%s' in\n%s", target, found, has,
               text.data);
  cr_expect_null(strstr(text.data, lacks), "%s:\n%s", target, text.data);
  nabla_text_deinit(&text);
}

Test(partitioner, text) {
#define PIECES "(tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>"
  expect_text("norm.rows", PIECES, 2, "nabla.factors");
  cr_expect_str_eq(said, "");
  expect_text("norm.batch", PIECES, 2, "nabla.factors");
  cr_expect_str_eq(said, "");
  /* from rows to pieces of rows without an exchange; sums are joined */
  expect_text("norm.program", "all_reduce sum", 2, "custom_call");
  cr_expect_str_eq(said, "");
  expect_text("norm.exchange",
              "axes = [\"model\"]} : (tensor<2x4xf32>, tensor<4xf32>) -> "
              "tensor<2x4xf32>",
              2, "all_reduce");
  cr_expect_str_eq(said, "");
  /* every device does all of it: one warning, with the number of calls */
  expect_text("norm.none",
              "(tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>", 2,
              "shard_map");
  cr_expect_str_eq(said,
                   "2 custom calls are done whole by every device: "
                   "nabla.factors says how a call is divided");
}

/* ---- runs ---- */

typedef struct rank {
  nabla_session *session;
  pthread_t thread;
  nabla_status status;
  nabla_diag diag;
  nabla_dense in[2], out;
} rank;

static void *run(void *self) {
  rank *r = self;
  r->status =
      nabla_session_run(r->session, "f", r->in, 2, &r->out, 1, &r->diag);
  return NULL;
}

static float x[ROWS * COLUMNS], w[COLUMNS];

static void fill(void) {
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i * 7 % 11 - 5);
  for (int i = 0; i < COLUMNS; i++) w[i] = (float)(i + 1) / 4;
}

/* The norm of x, and `again` the norm of that. */
static void expect_norm(const float *out, const char *of, int again) {
  float want[ROWS * COLUMNS];
  memcpy(want, x, sizeof want);
  for (int turn = 0; turn <= again; turn++)
    for (int r = 0; r < ROWS; r++) {
      float sum = 0;
      for (int i = 0; i < COLUMNS; i++)
        sum += want[r * COLUMNS + i] * want[r * COLUMNS + i];
      for (int i = 0; i < COLUMNS; i++)
        want[r * COLUMNS + i] *= w[i] / sqrtf(sum / (float)COLUMNS);
    }
  for (int i = 0; i < ROWS * COLUMNS; i++)
    cr_assert_float_eq(out[i], want[i], 1e-5f, "%s: %d is %g, not %g", of, i,
                       (double)out[i], (double)want[i]);
}

static void run_on_ranks(nabla_compiler *compiler, const char *target) {
  static rank ranks[RANKS];
  char text[2048];
  nabla_comm *comm;
  nabla_executable *executable;
  const nabla_compile_options options = {.struct_size = sizeof options};
  program(text, target, " pure");
  cr_assert_eq(nabla_compile_text(compiler, text, strlen(text), "norm",
                                  &options, &executable, &diag),
               0, "%s: %s", target, diag.what);
  cr_assert_eq(nabla_comm_threads(RANKS, &comm, &diag), 0);
  for (uint32_t i = 0; i < RANKS; i++) {
    const nabla_session_options session = {
        .struct_size = sizeof session, .threads = 1, .comm = comm, .rank = i};
    ranks[i] = (rank){.diag = NABLA_DIAG_INIT,
                      .in = {{x, NABLA_DTYPE_F32, 2, {ROWS, COLUMNS}},
                             {w, NABLA_DTYPE_F32, 1, {COLUMNS}}}};
    cr_assert_eq(
        nabla_session_create(executable, &session, &ranks[i].session, &diag), 0,
        "%s", diag.what);
    cr_assert_eq(pthread_create(&ranks[i].thread, NULL, run, &ranks[i]), 0);
  }
  for (uint32_t i = 0; i < RANKS; i++) pthread_join(ranks[i].thread, NULL);
  for (uint32_t i = 0; i < RANKS; i++) {
    cr_assert_eq(ranks[i].status, 0, "%s: %s", target, ranks[i].diag.what);
    expect_norm(ranks[i].out.data, target, 1);
    nabla_dense_release(executable, &ranks[i].out);
    nabla_session_close(ranks[i].session);
  }
  nabla_comm_destroy(comm);
  nabla_executable_close(executable);
}

Test(partitioner, runs) {
  static const char *const targets[] = {
      "norm.rows", "norm.batch", "norm.program", "norm.exchange", "norm.none"};
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  nabla_compiler *compiler;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag), 0);
  fill();
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    run_on_ranks(compiler, targets[i]);
  nabla_compiler_destroy(compiler);
}

/* ---- a collective of a user ---- */

static nabla_status infer_norm(const nabla_operation_frame *frame,
                               nabla_dense *results, nabla_diag *why) {
  (void)why;
  results[0] = frame->types[0];
  return NABLA_OK;
}

/* Its handler is called for the whole where the program is not divided, and
 * exchanges sums on each of four devices where it is. */
Test(partitioner, collective) {
  static const nabla_operation operation = {.struct_size = sizeof operation,
                                            .name = "norm",
                                            .kind = NABLA_OPERATION_COLLECTIVE,
                                            .infer = infer_norm,
                                            .handler = "norm.collective"};
  nabla_operation other = operation;
  fill();
  other.handler = "norm.none";
  cr_expect_eq(nabla_add_operation(&other, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "for which a partitioner was added"), "%s",
            diag.what);
  cr_assert_eq(nabla_add_operation(&operation, &diag), 0, "%s", diag.what);
  set_up();
  const nabla_dense dense[] = {{x, NABLA_DTYPE_F32, 2, {ROWS, COLUMNS}},
                               {w, NABLA_DTYPE_F32, 1, {COLUMNS}}};
  nabla_array *operands[] = {nabla_array_of(scope, &dense[0]),
                             nabla_array_of(scope, &dense[1])};
  nabla_array *y = nabla_apply(&operation, 2, operands, NULL);
  nabla_dense out;
  cr_assert_eq(nabla_array_read(y, &out, &diag), 0, "%s", diag.what);
  expect_norm(out.data, "one device", 0);
  cr_expect_eq(atomic_load(&calls_of_pairs), 0);
  nabla_mesh *mesh = NULL;
  cr_assert_eq(nabla_mesh_create("data=2,model=2", NULL, &mesh, &diag), 0);
  operands[0] =
      nabla_shard(operands[0], nabla_partition_spec(mesh, "data", NULL));
  y = nabla_apply(&operation, 2, operands, NULL);
  cr_assert_eq(nabla_array_read(y, &out, &diag), 0, "%s", diag.what);
  expect_norm(out.data, "a mesh", 0);
  cr_expect_eq(atomic_load(&calls_of_pairs), RANKS);
  tear_down();
  nabla_mesh_destroy(mesh);
}

/* ---- refusals ---- */

static void expect_refused(const char *target, const char *how,
                           const char *why) {
  nabla_text text = divided(target, how);
  cr_expect_null(text.data, "%s:\n%s", target, text.data);
  cr_expect(strstr(said, why), "%s: '%s', not '%s'", target, said, why);
  nabla_text_deinit(&text);
}

Test(partitioner, refused) {
  expect_refused("norm.sharding", " pure",
                 "the partitioner of 'norm.sharding' says '#nabla.sharding<@m, "
                 "[{\"data\"}]>' does not divide the array");
  expect_refused("norm.text", " pure", "gave a program that is not one");
  expect_refused("norm.varying", " pure", "varies along axis \"model\"");
  expect_refused("norm.refused", " pure",
                 "the partitioner of 'norm.refused' refused");
  expect_refused("norm.once", "", "several devices would repeat");
  nabla_text text = divided("norm.twice", "");
  cr_expect_not_null(text.data, "%s", said);
  nabla_text_deinit(&text);
}

Test(partitioner, arguments) {
  const nabla_call_partitioner none = {.struct_size = sizeof none};
  const nabla_call_partitioner some = {.struct_size = sizeof some,
                                       .infer = to_results};
  cr_expect_eq(nabla_add_call_partitioner("a", &none, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_add_call_partitioner("", &some, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_add_call_partitioner("norm.rows", &some, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_call_is_batch_partitionable("a", 0, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_call_is_batch_partitionable("norm.rows", 1, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_not(nabla_partition_set(NULL, NABLA_PARTITION_PROGRAM, 0, ""));
}
