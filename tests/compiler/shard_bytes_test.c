/* Bytes of a step, forward and backward, counted in the transport, against
 * those that a ring takes: data-parallel, ZeRO (weights and their gradients are
 * divided) and Megatron layouts, whose gradients equal those of one rank. */
#include <criterion/criterion.h>
#include <mlir-c/IR.h>
#include <mlir-c/Pass.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/dialect.h"
#include "nabla/compiler.h"
#include "nabla/session.h"
#include "tests/support/compiler_scope.h"
#include "tests/support/model.h"
#include "transforms/ir/ir.h"

enum { RANKS = 4, MOST = 6 };

TestSuite(shard_bytes, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- programs ---- */

static void add_text(MlirStringRef part, void *self) {
  nabla_text_add(self, "%.*s", (int)part.length, part.data);
}

/* The program with the function @f.vjp beside @f. */
static nabla_text derive(const char *text) {
  nabla_text out = {0};
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirContextLoadAllAvailableDialects(context);
  MlirModule module = mlirModuleCreateParse(context, nabla_ref(text));
  cr_assert(!mlirModuleIsNull(module));
  MlirPassManager manager = mlirPassManagerCreate(context);
  cr_assert(mlirLogicalResultIsSuccess(mlirOpPassManagerAddPipeline(
      mlirPassManagerGetAsOpPassManager(manager),
      nabla_ref("nabla-vjp{function=f}"), add_text, &out)));
  cr_assert(mlirLogicalResultIsSuccess(
      mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(module))));
  mlirOperationPrint(mlirModuleGetOperation(module), add_text, &out);
  mlirPassManagerDestroy(manager);
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
  mlirDialectRegistryDestroy(registry);
  cr_assert(!out.failed);
  return out;
}

typedef struct rank {
  nabla_session *session;
  pthread_t thread;
  nabla_status status;
  nabla_diag diag;
  const nabla_dense *in;
  size_t in_count, out_count;
  nabla_dense out[MOST];
} rank;

static void *run_rank(void *self) {
  rank *r = self;
  r->status = nabla_session_run(r->session, "f.vjp", r->in, r->in_count, r->out,
                                r->out_count, &r->diag);
  return NULL;
}

/* One step on all ranks: the bytes that each took from others. All ranks give
 * the same; `check` gets those of the first. */
static uint64_t step(const char *text, const nabla_dense *in, size_t in_count,
                     size_t out_count, rank ranks[RANKS],
                     nabla_executable **out) {
  nabla_comm *comm;
  nabla_text derived = derive(text);
  cr_assert_eq(nabla_compile_text(compiler, derived.data, strlen(derived.data),
                                  "step", NULL, out, &diag),
               0, "%s", diag.what);
  nabla_text_deinit(&derived);
  cr_assert_eq(nabla_comm_threads(RANKS, &comm, &diag), 0);
  for (uint32_t i = 0; i < RANKS; i++) {
    const nabla_session_options options = {
        .struct_size = sizeof options, .threads = 1, .comm = comm, .rank = i};
    ranks[i] = (rank){.diag = NABLA_DIAG_INIT,
                      .in = in,
                      .in_count = in_count,
                      .out_count = out_count};
    cr_assert_eq(nabla_session_create(*out, &options, &ranks[i].session, &diag),
                 0, "%s", diag.what);
    cr_assert_eq(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]),
                 0);
  }
  for (uint32_t i = 0; i < RANKS; i++) {
    pthread_join(ranks[i].thread, NULL);
    cr_assert_eq(ranks[i].status, 0, "%s", ranks[i].diag.what);
  }
  const uint64_t bytes = nabla_comm_bytes(comm, 0);
  for (uint32_t i = 1; i < RANKS; i++)
    cr_expect_eq(nabla_comm_bytes(comm, i), bytes);
  for (uint32_t i = 0; i < RANKS; i++) nabla_session_close(ranks[i].session);
  nabla_comm_destroy(comm);
  return bytes;
}

static void finish(rank ranks[RANKS], nabla_executable *executable) {
  for (uint32_t i = 0; i < RANKS; i++)
    for (size_t k = 0; k < ranks[i].out_count; k++)
      nabla_dense_release(executable, &ranks[i].out[k]);
  nabla_executable_close(executable);
}

/* What a ring takes of an array of `bytes`. */
static uint64_t gathered(uint64_t bytes) { return bytes * (RANKS - 1) / RANKS; }
static uint64_t scattered(uint64_t bytes) { return gathered(bytes); }
static uint64_t reduced(uint64_t bytes) { return 2 * gathered(bytes); }

/* ---- layouts ---- */

enum { ROWS = 8, WIDTH = 32 };
static const uint64_t w_bytes = WIDTH * WIDTH * sizeof(float);
static const uint64_t x_bytes = ROWS * WIDTH * sizeof(float);

static float x[ROWS * WIDTH], w[WIDTH * WIDTH], v[WIDTH * WIDTH],
    g[ROWS * WIDTH];

static void fill(void) {
  model_fill(x, ROWS * WIDTH, 1);
  model_fill(w, WIDTH * WIDTH, 2);
  model_fill(v, WIDTH * WIDTH, 3);
  model_fill(g, ROWS * WIDTH, 4);
}

/* y = x w^T: dx = g w, dw = g^T x. */
static void check_product(const rank *r) {
  for (int i = 0; i < ROWS; i++)
    for (int k = 0; k < WIDTH; k++) {
      double sum = 0;
      for (int n = 0; n < WIDTH; n++)
        sum += (double)g[i * WIDTH + n] * w[n * WIDTH + k];
      cr_assert_float_eq(((float *)r->out[1].data)[i * WIDTH + k], sum, 1e-3);
    }
  for (int n = 0; n < WIDTH; n++)
    for (int k = 0; k < WIDTH; k++) {
      double sum = 0;
      for (int i = 0; i < ROWS; i++)
        sum += (double)g[i * WIDTH + n] * x[i * WIDTH + k];
      cr_assert_float_eq(((float *)r->out[2].data)[n * WIDTH + k], sum, 1e-3);
    }
}

static const nabla_dense product_in[] = {
    {x, NABLA_DTYPE_F32, 2, {ROWS, WIDTH}},
    {w, NABLA_DTYPE_F32, 2, {WIDTH, WIDTH}},
    {g, NABLA_DTYPE_F32, 2, {ROWS, WIDTH}}};

/* Rows on all devices, the weight on each: its gradient is joined. Results are
 * gathered: y and dx. */
static void check_data_parallel(const char *text) {
  rank ranks[RANKS];
  nabla_executable *executable;
  fill();
  const uint64_t bytes = step(text, product_in, 3, 3, ranks, &executable);
  check_product(&ranks[0]);
  cr_expect_eq(bytes, reduced(w_bytes) + 2 * gathered(x_bytes), "%d bytes",
               (int)bytes);
  finish(ranks, executable);
}

Test(shard_bytes, data_parallel) {
  check_data_parallel(
      "nabla.mesh @m <[\"data\"=4]>\n"
      "func.func @f(%x: tensor<8x32xf32> {nabla.sharding = "
      "#nabla.sharding<@m, [{\"data\"}, {}]>}, %w: tensor<32x32xf32>) -> "
      "tensor<8x32xf32> {\n"
      "  %y = nabla.shard_map(%x, %w : tensor<8x32xf32>, tensor<32x32xf32>) "
      "in = [#nabla.sharding<@m, [{\"data\"}, {}]>, #nabla.sharding<@m, [{}, "
      "{}]>] out = [#nabla.sharding<@m, [{\"data\"}, {}]>] -> "
      "tensor<8x32xf32> {\n"
      "  ^bb0(%a: tensor<2x32xf32>, %b: tensor<32x32xf32>):\n"
      "    %r = nabla.linear %a, %b : tensor<2x32xf32>, tensor<32x32xf32>\n"
      "    nabla.yield %r : tensor<2x32xf32>\n  }\n"
      "  return %y : tensor<8x32xf32>\n}\n");
}

/* The same from an annotation alone. */
Test(shard_bytes, data_parallel_by_propagation) {
  check_data_parallel(
      "nabla.mesh @m <[\"data\"=4]>\n"
      "func.func @f(%x: tensor<8x32xf32> {nabla.sharding = "
      "#nabla.sharding<@m, [{\"data\"}, {}]>}, %w: tensor<32x32xf32> "
      "{nabla.sharding = #nabla.sharding<@m, [{}, {}]>}) -> "
      "tensor<8x32xf32> {\n"
      "  %y = nabla.linear %x, %w : tensor<8x32xf32>, tensor<32x32xf32>\n"
      "  return %y : tensor<8x32xf32>\n}\n");
}

/* The weight is divided, gathered where it is used, and its gradient is
 * scattered: forward and backward gather it (dx needs it), and the results y,
 * dx and dw are gathered. */
Test(shard_bytes, zero) {
  rank ranks[RANKS];
  nabla_executable *executable;
  fill();
  const uint64_t bytes = step(
      "nabla.mesh @m <[\"data\"=4]>\n"
      "func.func @f(%x: tensor<8x32xf32> {nabla.sharding = "
      "#nabla.sharding<@m, [{\"data\"}, {}]>}, %w: tensor<32x32xf32> "
      "{nabla.sharding = #nabla.sharding<@m, [{\"data\"}, {}]>}) -> "
      "tensor<8x32xf32> {\n"
      "  %y = nabla.shard_map(%x, %w : tensor<8x32xf32>, tensor<32x32xf32>) "
      "in = [#nabla.sharding<@m, [{\"data\"}, {}]>, #nabla.sharding<@m, "
      "[{\"data\"}, {}]>] out = [#nabla.sharding<@m, [{\"data\"}, {}]>] -> "
      "tensor<8x32xf32> {\n"
      "  ^bb0(%a: tensor<2x32xf32>, %b: tensor<8x32xf32>):\n"
      "    %c = nabla.all_gather %b dim = 0 axes = [\"data\"] : "
      "tensor<8x32xf32> -> tensor<32x32xf32>\n"
      "    %r = nabla.linear %a, %c : tensor<2x32xf32>, tensor<32x32xf32>\n"
      "    nabla.yield %r : tensor<2x32xf32>\n  }\n"
      "  return %y : tensor<8x32xf32>\n}\n",
      product_in, 3, 3, ranks, &executable);
  check_product(&ranks[0]);
  cr_expect_eq(bytes,
               2 * gathered(w_bytes) + scattered(w_bytes) +
                   2 * gathered(x_bytes) + gathered(w_bytes),
               "%d bytes", (int)bytes);
  finish(ranks, executable);
}

/* Columns of the first weight, rows of the second: one exchange forward, one
 * backward; gradients of weights are divided as they are, and are gathered as
 * results. */
Test(shard_bytes, megatron) {
  rank ranks[RANKS];
  nabla_executable *executable;
  fill();
  const nabla_dense in[] = {product_in[0],
                            product_in[1],
                            {v, NABLA_DTYPE_F32, 2, {WIDTH, WIDTH}},
                            product_in[2]};
  const uint64_t bytes = step(
      "nabla.mesh @m <[\"model\"=4]>\n"
      "func.func @f(%x: tensor<8x32xf32>, %u: tensor<32x32xf32> "
      "{nabla.sharding = #nabla.sharding<@m, [{\"model\"}, {}]>}, %d: "
      "tensor<32x32xf32>) -> tensor<8x32xf32> {\n"
      "  %y = nabla.shard_map(%x, %u, %d : tensor<8x32xf32>, "
      "tensor<32x32xf32>, tensor<32x32xf32>) in = [#nabla.sharding<@m, [{}, "
      "{}]>, #nabla.sharding<@m, [{\"model\"}, {}]>, #nabla.sharding<@m, [{}, "
      "{\"model\"}]>] out = [#nabla.sharding<@m, [{}, {}]>] -> "
      "tensor<8x32xf32> {\n"
      "  ^bb0(%a: tensor<8x32xf32>, %b: tensor<8x32xf32>, %c: "
      "tensor<32x8xf32>):\n"
      "    %h = nabla.linear %a, %b : tensor<8x32xf32>, tensor<8x32xf32>\n"
      "    %s = nabla.silu %h : tensor<8x8xf32>\n"
      "    %p = nabla.linear %s, %c : tensor<8x8xf32>, tensor<32x8xf32>\n"
      "    %r = nabla.all_reduce sum %p axes = [\"model\"] : "
      "tensor<8x32xf32>\n"
      "    nabla.yield %r : tensor<8x32xf32>\n  }\n"
      "  return %y : tensor<8x32xf32>\n}\n",
      in, 4, 4, ranks, &executable);
  cr_expect_eq(bytes, 2 * reduced(x_bytes) + 2 * gathered(w_bytes), "%d bytes",
               (int)bytes);
  finish(ranks, executable);
}
