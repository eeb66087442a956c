/* nabla.shard_map on ranks of threads, against values by hand, and callbacks of
 * nabla.inspect_sharding. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/session.h"
#include "nabla/shard.h"
#include "tests/support/compiler_scope.h"

enum { RANKS = 4 };

TestSuite(shard_map, .init = set_up, .fini = tear_down, .timeout = 300);

static nabla_executable *compile(const char *text) {
  nabla_executable *out = NULL;
  cr_assert_eq(nabla_compile_text(compiler, text, strlen(text), "map", NULL,
                                  &out, &diag),
               0, "%s", diag.what);
  return out;
}

/* ---- ranks ---- */

typedef struct rank {
  nabla_session *session;
  pthread_t thread;
  nabla_status status;
  nabla_diag diag;
  const nabla_dense *in;
  size_t in_count;
  nabla_dense out;
} rank;

static void *run_rank(void *self) {
  rank *r = self;
  r->status = nabla_session_run(r->session, "f", r->in, r->in_count, &r->out, 1,
                                &r->diag);
  return NULL;
}

/* Runs @f on all ranks; each must give `want`. Returns the bytes that rank 0
 * took from others. */
static uint64_t check(nabla_executable *executable, const nabla_dense *in,
                      size_t in_count, size_t count, const float *want) {
  rank ranks[RANKS];
  nabla_comm *comm;
  cr_assert_eq(nabla_comm_threads(RANKS, &comm, &diag), 0);
  for (uint32_t i = 0; i < RANKS; i++) {
    const nabla_session_options options = {
        .struct_size = sizeof options, .threads = 1, .comm = comm, .rank = i};
    ranks[i] = (rank){.diag = NABLA_DIAG_INIT, .in = in, .in_count = in_count};
    cr_assert_eq(
        nabla_session_create(executable, &options, &ranks[i].session, &diag), 0,
        "%s", diag.what);
    cr_assert_eq(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]),
                 0);
  }
  for (uint32_t i = 0; i < RANKS; i++) {
    pthread_join(ranks[i].thread, NULL);
    cr_assert_eq(ranks[i].status, 0, "%s", ranks[i].diag.what);
    for (size_t k = 0; k < count; k++)
      cr_expect_eq(((const float *)ranks[i].out.data)[k], want[k],
                   "rank %u, element %zu is %g, not %g", i, k,
                   (double)((const float *)ranks[i].out.data)[k],
                   (double)want[k]);
  }
  const uint64_t bytes = nabla_comm_bytes(comm, 0);
  for (uint32_t i = 0; i < RANKS; i++) {
    nabla_dense_release(executable, &ranks[i].out);
    nabla_session_close(ranks[i].session);
  }
  nabla_comm_destroy(comm);
  return bytes;
}

/* Row sums of x, of which each device has a quarter, times the number of the
 * device among "data", plus a whole array from outside. */
Test(shard_map, pieces) {
  nabla_executable *executable = compile(
      "nabla.mesh @m <[\"data\"=2, \"model\"=2]>\n"
      "func.func @f(%x: tensor<4x8xf32>, %z: tensor<2xf32>) -> tensor<4xf32> "
      "{\n"
      "  %y = nabla.shard_map(%x : tensor<4x8xf32>)\n"
      "      in = [#nabla.sharding<@m, [{\"data\"}, {\"model\"}]>]\n"
      "      out = [#nabla.sharding<@m, [{\"data\"}]>] -> tensor<4xf32> {\n"
      "  ^bb0(%piece: tensor<2x4xf32>):\n"
      "    %s = nabla.reduce sum %piece dims = [1] : tensor<2x4xf32>\n"
      "    %r = nabla.all_reduce sum %s axes = [\"model\"] : tensor<2xf32>\n"
      "    %i = nabla.axis_index axes = [\"data\"] : tensor<i64>\n"
      "    %n = nabla.convert %i : tensor<i64> -> tensor<f32>\n"
      "    %w = nabla.broadcast_in_dim %n dims = [] : tensor<f32> -> "
      "tensor<2xf32>\n"
      "    %p = nabla.mul %r, %w : tensor<2xf32>, tensor<2xf32>\n"
      "    %q = nabla.add %p, %z : tensor<2xf32>, tensor<2xf32>\n"
      "    nabla.yield %q : tensor<2xf32>\n"
      "  }\n"
      "  return %y : tensor<4xf32>\n}\n");
  float x[32], z[2] = {0.5f, 0.25f}, want[4];
  for (int i = 0; i < 32; i++) x[i] = (float)(i * i % 13);
  for (int i = 0; i < 4; i++) {
    float sum = 0;
    for (int j = 0; j < 8; j++) sum += x[8 * i + j];
    want[i] = sum * (float)(i / 2) + z[i % 2];
  }
  const nabla_dense in[] = {{x, NABLA_DTYPE_F32, 2, {4, 8}},
                            {z, NABLA_DTYPE_F32, 1, {2}}};
  /* 2 floats joined with one other, 2 taken from one other */
  cr_expect_eq(check(executable, in, 2, 4, want), 2 * 4 + 2 * 4);
  nabla_executable_close(executable);
}

/* Packed weights stay packed in the region: each device multiplies by its rows.
 */
Test(shard_map, packed) {
  nabla_executable *executable = compile(
      "nabla.mesh @m <[\"model\"=4]>\n"
      "func.func @f(%x: tensor<1x64xf32>, %v: tensor<8x64xf32>) -> "
      "tensor<1x8xf32> {\n"
      "  %w = nabla.quantize %v : tensor<8x64xf32> -> "
      "!nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>\n"
      "  %y = nabla.shard_map(%x, %w : tensor<1x64xf32>, "
      "!nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>)\n"
      "      in = [#nabla.sharding<@m, [{}, {}]>, #nabla.sharding<@m, [{}, "
      "{}]>]\n"
      "      out = [#nabla.sharding<@m, [{}, {}]>] -> tensor<1x8xf32> {\n"
      "  ^bb0(%a: tensor<1x64xf32>, %b: !nabla.implicit<8x64xf32, "
      "#nabla.nf4<block = 64>>):\n"
      "    %r = nabla.linear %a, %b : tensor<1x64xf32>, "
      "!nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>\n"
      "    nabla.yield %r : tensor<1x8xf32>\n"
      "  }\n"
      "  return %y : tensor<1x8xf32>\n}\n");
  float x[64] = {0}, v[512], want[8];
  x[3] = 1;
  for (int i = 0; i < 512; i++) v[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? -1 : 0;
  for (int i = 0; i < 8; i++) want[i] = v[64 * i + 3];
  const nabla_dense in[] = {{x, NABLA_DTYPE_F32, 2, {1, 64}},
                            {v, NABLA_DTYPE_F32, 2, {8, 64}}};
  cr_expect_eq(check(executable, in, 2, 8, want), 0);
  nabla_executable_close(executable);
}

/* ---- callbacks ---- */

static char seen[256];
static int calls;

static void note(void *self, const nabla_sharding_report *report) {
  cr_expect_eq(report->struct_size, sizeof *report);
  cr_expect_eq(self, &calls);
  calls++;
  (void)snprintf(seen, sizeof seen, "%s|%s|%s|%s|%u", report->name,
                 report->sharding, report->type, report->piece,
                 report->devices);
}

static const char inspected[] =
    "nabla.mesh @m <[\"a\"=4]>\n"
    "func.func @f(%x: tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, "
    "[{\"a\"}]>}) -> tensor<8xf32> {\n"
    "  %y = nabla.neg %x : tensor<8xf32>\n"
    "  nabla.inspect_sharding @seen %y : tensor<8xf32>\n"
    "  return %y : tensor<8xf32>\n}\n";

Test(shard_map, callbacks) {
  /* without a callback nothing happens */
  nabla_executable_close(compile(inspected));
  cr_expect_eq(calls, 0);
  cr_expect_eq(nabla_add_sharding_callback("seen", note, &calls, &diag), 0);
  nabla_executable_close(compile(inspected));
  cr_expect_eq(calls, 1);
  cr_expect_str_eq(seen, "seen|@m, [{\"a\"}]|tensor<8xf32>|tensor<2xf32>|4",
                   "%s", seen);
  /* without a mesh */
  nabla_executable_close(
      compile("func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
              "  nabla.inspect_sharding @seen %x : tensor<8xf32>\n"
              "  return %x : tensor<8xf32>\n}\n"));
  cr_expect_str_eq(seen, "seen||tensor<8xf32>|tensor<8xf32>|0", "%s", seen);
  cr_expect_eq(nabla_add_sharding_callback("seen", note, NULL, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "there is a callback 'seen' already"), "%s",
            diag.what);
  cr_expect_eq(nabla_add_sharding_callback("a b", note, NULL, &diag),
               NABLA_INVALID_ARGUMENT);
}
