/* Exchanges that are started, computed beside, and waited for: their results
 * are those of exchanges that are waited for at once, and a rank that fails
 * between start and wait leaves none that uses its arrays. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/custom_call.h"
#include "nabla/session.h"
#include "tests/support/delayed_comm.h"
#include "tests/support/model.h"

enum { RANKS = 4, SIZE = 128, MOST = 3 };

static nabla_diag diag;
static nabla_compiler *compiler;
static float x[SIZE * SIZE], w[SIZE * SIZE];

static uint32_t rank_that_fails = UINT32_MAX;

/* Adds some elements. On one rank it fails, while an exchange is under way. */

static nabla_call_code sum_or_fail(const nabla_call_frame *frame) {
  const float *from = frame->arguments[0].data;
  float sum = 0;
  if (frame->rank == rank_that_fails) {
    while (!delayed_comm_is_busy(frame->comm, frame->rank)) sched_yield();
    return NABLA_CALL_ABORTED;
  }
  for (int64_t i = 0; i < SIZE; i++) sum += from[i];
  *(float *)frame->results[0].data = sum;
  return NABLA_CALL_OK;
}

static void set_up(void) {
  static const nabla_call_parameter in = {"x", NABLA_CALL_DTYPE(F32), 2, NULL};
  static const nabla_call_parameter out = {"y", NABLA_CALL_DTYPE(F32), 0, NULL};
  static const nabla_call_handler handler = {.struct_size = sizeof handler,
                                             .target = "sum_or_fail",
                                             .platform = "cpu",
                                             .arguments = &in,
                                             .argument_count = 1,
                                             .results = &out,
                                             .result_count = 1,
                                             .execute = sum_or_fail};
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag), 0);
  cr_assert_eq(nabla_add_call_handler(&handler, &diag), 0, "%s", diag.what);
  model_fill(x, SIZE * SIZE, 1);
  model_fill(w, SIZE * SIZE, 2);
  rank_that_fails = UINT32_MAX;
}

static void tear_down(void) { nabla_compiler_destroy(compiler); }

TestSuite(overlap, .init = set_up, .fini = tear_down, .timeout = 120);

/* ---- ranks ---- */

typedef struct rank {
  nabla_session *session;
  pthread_t thread;
  nabla_status status;
  nabla_diag diag;
  nabla_comm *comm;
  uint32_t number;
  int is_busy; /* an exchange uses its arrays after its run */
  size_t out_count;
  nabla_dense out[MOST];
} rank;

static const nabla_dense in[] = {{x, NABLA_DTYPE_F32, 2, {SIZE, SIZE}},
                                 {w, NABLA_DTYPE_F32, 2, {SIZE, SIZE}}};

static void *run_rank(void *self) {
  rank *r = self;
  r->diag = (nabla_diag)NABLA_DIAG_INIT;
  r->status =
      nabla_session_run(r->session, "f", in, 2, r->out, r->out_count, &r->diag);
  r->is_busy = delayed_comm_is_busy(r->comm, r->number);
  return NULL;
}

static void run_all(rank ranks[RANKS]) {
  for (uint32_t i = 0; i < RANKS; i++)
    cr_assert_eq(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]),
                 0);
  for (uint32_t i = 0; i < RANKS; i++) pthread_join(ranks[i].thread, NULL);
}

static void run_well(rank ranks[RANKS]) {
  run_all(ranks);
  for (uint32_t i = 0; i < RANKS; i++)
    cr_assert_eq(ranks[i].status, 0, "%s", ranks[i].diag.what);
}

static void release_all(rank ranks[RANKS], nabla_executable *executable) {
  for (uint32_t i = 0; i < RANKS; i++)
    for (size_t k = 0; k < ranks[i].out_count; k++)
      nabla_dense_release(executable, &ranks[i].out[k]);
}

static nabla_comm *open_ranks(const char *text, rank ranks[RANKS],
                              size_t out_count, nabla_executable **out) {
  nabla_comm *inner;
  cr_assert_eq(
      nabla_compile_text(compiler, text, strlen(text), "f", NULL, out, &diag),
      0, "%s", diag.what);
  cr_assert_eq(nabla_comm_threads(RANKS, &inner, &diag), 0);
  nabla_comm *comm =
      delayed_comm_create(inner, 16384, NABLA_COMM_ALL_RANKS, 2000);
  cr_assert(comm);
  for (uint32_t i = 0; i < RANKS; i++) {
    const nabla_session_options options = {
        .struct_size = sizeof options, .threads = 1, .comm = comm, .rank = i};
    ranks[i] = (rank){.comm = comm, .number = i, .out_count = out_count};
    cr_assert_eq(nabla_session_create(*out, &options, &ranks[i].session, &diag),
                 0, "%s", diag.what);
  }
  return comm;
}

static void close_ranks(nabla_comm *comm, rank ranks[RANKS],
                        nabla_executable *executable) {
  for (uint32_t i = 0; i < RANKS; i++) nabla_session_close(ranks[i].session);
  nabla_comm_destroy(comm);
  nabla_executable_close(executable);
}

/* ---- results ---- */

#define HEAD                                            \
  "!a = tensor<128x128xf32>\n!p = tensor<32x128xf32>\n" \
  "#rows = #nabla.sharding<@m, [{\"data\"}, {}]>\n"     \
  "#whole = #nabla.sharding<@m, [{}, {}]>\n"            \
  "nabla.mesh @m <[\"data\"=4]>\n"                      \
  "func.func @f(%x: !a, %w: !a) -> "

/* The product of the device's rows with themselves, which is joined. */
#define PRODUCT                                                          \
  "  ^bb0(%p: !p, %v: !a):\n"                                            \
  "    %g = nabla.dot_general %p, %p contracting = [0] x [0] : !p, !p\n" \
  "    %r = nabla.all_reduce sum %g axes = [\"data\"] : !a\n"

/* One of each kind, between which products are computed. */
static const char exchanges[] = HEAD
    "(!a, !a, !a) {\n"
    "  %a, %b, %c = nabla.shard_map(%x, %w : !a, !a) in = [#rows, #whole] "
    "out = [#whole, #rows, #whole] -> !a, !a, !a {\n" PRODUCT
    "    %s = nabla.reduce_scatter sum %g dim = 0 axes = [\"data\"] : !a -> "
    "!p\n"
    "    %e = nabla.linear %p, %v : !p, !a\n"
    "    %t = nabla.all_gather %e dim = 0 axes = [\"data\"] : !p -> !a\n"
    "    %h = nabla.linear %e, %v : !p, !a\n"
    "    %i = nabla.linear %h, %v : !p, !a\n"
    "    %u = nabla.add %s, %i : !p, !p\n"
    "    nabla.yield %r, %u, %t : !a, !p, !a\n  }\n"
    "  return %a, %b, %c : !a, !a, !a\n}\n";

static void multiply(const double *a, const double *b, int transposed_a,
                     double *out) {
  for (int i = 0; i < SIZE; i++)
    for (int k = 0; k < SIZE; k++) {
      double sum = 0;
      for (int n = 0; n < SIZE; n++)
        sum += transposed_a ? a[n * SIZE + i] * b[n * SIZE + k]
                            : a[i * SIZE + n] * b[k * SIZE + n];
      out[i * SIZE + k] = sum;
    }
}

static void check(const nabla_dense *got, const double *want) {
  for (int i = 0; i < SIZE * SIZE; i++)
    cr_assert_float_eq(((float *)got->data)[i], want[i],
                       1e-4 + 1e-5 * (want[i] < 0 ? -want[i] : want[i]),
                       "element %d: %g, not %g", i,
                       (double)((float *)got->data)[i], want[i]);
}

Test(overlap, results) {
  static double dx[SIZE * SIZE], dw[SIZE * SIZE], g[SIZE * SIZE],
      e[SIZE * SIZE], h[SIZE * SIZE], u[SIZE * SIZE];
  rank ranks[RANKS];
  nabla_executable *executable;
  nabla_comm *comm = open_ranks(exchanges, ranks, 3, &executable);
  for (int i = 0; i < SIZE * SIZE; i++) dx[i] = x[i], dw[i] = w[i];
  multiply(dx, dx, 1, g);
  multiply(dx, dw, 0, e);
  multiply(e, dw, 0, h);
  multiply(h, dw, 0, u);
  for (int i = 0; i < SIZE * SIZE; i++) u[i] += g[i];
  for (int turn = 0; turn < 3; turn++) {
    run_well(ranks);
    for (uint32_t i = 0; i < RANKS; i++) {
      check(&ranks[i].out[0], g);
      check(&ranks[i].out[1], u);
      check(&ranks[i].out[2], e);
    }
    release_all(ranks, executable);
  }
  /* by each rank, in each turn: all_reduce, reduce_scatter, all_gather */
  cr_expect_geq(delayed_comm_count_behind(comm), 3 * RANKS * 3,
                "%u of %u exchanges", delayed_comm_count_behind(comm),
                delayed_comm_count(comm));
  close_ranks(comm, ranks, executable);
}

/* ---- failing ---- */

static const char fails[] = HEAD
    "(!a, tensor<f32>) {\n"
    "  %a, %b = nabla.shard_map(%x, %w : !a, !a) in = [#rows, #whole] "
    "out = [#whole, #nabla.sharding<@m, []>] -> !a, tensor<f32> {\n" PRODUCT
    "    %s = nabla.custom_call @sum_or_fail(%v) : (!a) -> tensor<f32>\n"
    "    nabla.yield %r, %s : !a, tensor<f32>\n  }\n"
    "  return %a, %b : !a, tensor<f32>\n}\n";

/* The exchange has been started, and waits for its delay, when the rank fails;
 * the arrays are gone when its run returns. */
Test(overlap, a_rank_fails_between_start_and_wait) {
  rank ranks[RANKS];
  nabla_executable *executable;
  nabla_comm *comm = open_ranks(fails, ranks, 2, &executable);
  run_well(ranks);
  release_all(ranks, executable);
  cr_expect_eq(delayed_comm_count_behind(comm), RANKS);
  rank_that_fails = 2;
  run_all(ranks);
  for (uint32_t i = 0; i < RANKS; i++) {
    cr_expect_neq(ranks[i].status, 0);
    cr_expect_not(ranks[i].is_busy, "rank %u", i);
  }
  cr_expect(strstr(ranks[2].diag.what, "sum_or_fail"), "%s",
            ranks[2].diag.what);
  cr_expect(strstr(ranks[0].diag.what, "rank 2"), "%s", ranks[0].diag.what);
  close_ranks(comm, ranks, executable);
}
