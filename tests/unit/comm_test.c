/* Exchanges between ranks of threads: joins of every dtype against a tree in
 * double and in integers, and what ends a communicator. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/floats.h"
#include "lib/runtime/collectives/collective.h"
#include "nabla/custom_call.h"
#include "tests/support/delayed_comm.h"

enum { RANKS = 7, COUNT = 1003 };

static nabla_diag diag = NABLA_DIAG_INIT;

/* ---- joins --------------------------------------------------------------- */

static float value_at(int rank, int i) {
  return (float)((i * 37 + rank * 101) % 200 - 100) / 8;
}

/* The tree that docs/SHARDING.md states, in f32. */
static float tree(int from, int end, int i) {
  const int middle = from + (end - from + 1) / 2;
  if (end - from == 1) return value_at(from, i) * 1.00001f;
  return tree(from, middle, i) + tree(middle, end, i);
}

Test(comm, sums_in_f32_are_those_of_the_tree) {
  static float in[RANKS][COUNT], out[COUNT];
  const void *arrays[RANKS];
  for (int r = 0; r < RANKS; r++) {
    arrays[r] = in[r];
    for (int i = 0; i < COUNT; i++) in[r][i] = value_at(r, i) * 1.00001f;
  }
  for (int i = 0; i < COUNT; i++) out[i] = NAN;
  nabla_collective_join(NABLA_JOIN_SUM, NABLA_DTYPE_F32, arrays, RANKS, 0, 500,
                        out);
  nabla_collective_join(NABLA_JOIN_SUM, NABLA_DTYPE_F32, arrays, RANKS, 500,
                        COUNT - 500, out);
  for (int i = 0; i < COUNT; i++) cr_assert_eq(out[i], tree(0, RANKS, i));
}

/* Sums of 16-bit floats that are exact in f32 are rounded once. */
Test(comm, halves_are_rounded_once) {
  static uint16_t in[RANKS][COUNT], out[COUNT];
  const void *arrays[RANKS];
  for (int bf16 = 0; bf16 < 2; bf16++) {
    for (int r = 0; r < RANKS; r++) {
      arrays[r] = in[r];
      for (int i = 0; i < COUNT; i++)
        in[r][i] = bf16 ? nabla_f32_to_bf16(value_at(r, i))
                        : nabla_f32_to_f16(value_at(r, i));
    }
    nabla_collective_join(NABLA_JOIN_SUM,
                          bf16 ? NABLA_DTYPE_BF16 : NABLA_DTYPE_F16, arrays,
                          RANKS, 0, COUNT, out);
    for (int i = 0; i < COUNT; i++) {
      float sum = 0;
      for (int r = 0; r < RANKS; r++)
        sum += bf16 ? nabla_bf16_to_f32(in[r][i]) : nabla_f16_to_f32(in[r][i]);
      cr_assert_eq(out[i],
                   bf16 ? nabla_f32_to_bf16(sum) : nabla_f32_to_f16(sum));
    }
  }
}

#define CHECK_INTEGERS(type, dtype)                                       \
  do {                                                                    \
    static type in[RANKS][COUNT], out[COUNT];                             \
    const void *arrays[RANKS];                                            \
    for (int r = 0; r < RANKS; r++) {                                     \
      arrays[r] = in[r];                                                  \
      for (int i = 0; i < COUNT; i++) in[r][i] = (type)(i * 91 + r * 57); \
    }                                                                     \
    nabla_collective_join(NABLA_JOIN_SUM, dtype, arrays, RANKS, 0, COUNT, \
                          out);                                           \
    for (int i = 0; i < COUNT; i++) {                                     \
      type sum = 0;                                                       \
      for (int r = 0; r < RANKS; r++) sum = (type)(sum + in[r][i]);       \
      cr_assert_eq(out[i], sum);                                          \
    }                                                                     \
    nabla_collective_join(NABLA_JOIN_MIN, dtype, arrays, RANKS, 0, COUNT, \
                          out);                                           \
    for (int i = 0; i < COUNT; i++) {                                     \
      type least = in[0][i];                                              \
      for (int r = 1; r < RANKS; r++)                                     \
        least = in[r][i] < least ? in[r][i] : least;                      \
      cr_assert_eq(out[i], least);                                        \
    }                                                                     \
  } while (0)

Test(comm, integers_wrap) {
  CHECK_INTEGERS(int8_t, NABLA_DTYPE_I8);
  CHECK_INTEGERS(uint8_t, NABLA_DTYPE_U8);
  CHECK_INTEGERS(int32_t, NABLA_DTYPE_I32);
  CHECK_INTEGERS(int64_t, NABLA_DTYPE_I64);
}

Test(comm, maxima_and_truth) {
  const double a[] = {1, NAN, 3, -0.5}, b[] = {2, 5, NAN, -1};
  const void *arrays[] = {a, b};
  double most[4];
  nabla_collective_join(NABLA_JOIN_MAX, NABLA_DTYPE_F64, arrays, 2, 0, 4, most);
  cr_expect(most[0] == 2 && isnan(most[1]) && isnan(most[2]) &&
            most[3] == -0.5);
  const uint8_t c[] = {0, 0, 1, 1}, d[] = {0, 1, 0, 1};
  const void *truths[] = {c, d};
  uint8_t out[4];
  nabla_collective_join(NABLA_JOIN_ANY, NABLA_DTYPE_BOOL, truths, 2, 0, 4, out);
  cr_expect(!memcmp(out, (uint8_t[]){0, 1, 1, 1}, 4));
  nabla_collective_join(NABLA_JOIN_ALL, NABLA_DTYPE_BOOL, truths, 2, 0, 4, out);
  cr_expect(!memcmp(out, (uint8_t[]){0, 0, 0, 1}, 4));
  const void *three[] = {c, d, d};
  nabla_collective_join(NABLA_JOIN_SUM, NABLA_DTYPE_BOOL, truths, 2, 0, 4, out);
  cr_expect(!memcmp(out, (uint8_t[]){0, 1, 1, 0}, 4));
  nabla_collective_join(NABLA_JOIN_SUM, NABLA_DTYPE_BOOL, three, 3, 0, 4, out);
  cr_expect(!memcmp(out, (uint8_t[]){0, 0, 1, 1}, 4));
  nabla_collective_join(NABLA_JOIN_PROD, NABLA_DTYPE_BOOL, truths, 2, 0, 4,
                        out);
  cr_expect(!memcmp(out, (uint8_t[]){0, 0, 0, 1}, 4));
  cr_expect(nabla_collective_can_join(NABLA_JOIN_SUM, NABLA_DTYPE_BOOL));
  cr_expect_not(nabla_collective_can_join(NABLA_JOIN_ANY, NABLA_DTYPE_F32));
}

/* ---- failing ------------------------------------------------------------- */

typedef struct rank {
  nabla_comm *comm;
  nabla_collective c;
  float in, out;
  nabla_status status;
  nabla_diag diag;
} rank;

static void *run(void *self) {
  rank *r = self;
  r->status = nabla_comm_run(r->comm, &r->c, &r->diag);
  return NULL;
}

static rank make_rank(nabla_comm *comm, uint32_t number, uint64_t rows) {
  return (rank){.comm = comm,
                .c = {.kind = NABLA_COLLECTIVE_ALL_REDUCE,
                      .dtype = NABLA_DTYPE_F32,
                      .rank = number,
                      .index = number,
                      .count = 2,
                      .members = {0, 1},
                      .outer = 1,
                      .rows = rows,
                      .inner = 1},
                .diag = NABLA_DIAG_INIT};
}

Test(comm, numbers_of_ranks) {
  nabla_comm *comm = NULL;
  cr_expect_eq(nabla_comm_threads(0, &comm, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_comm_threads(65, &comm, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "65 ranks; from 1 to 64"), "%s", diag.what);
  cr_assert_eq(nabla_comm_threads(64, &comm, &diag), NABLA_OK);
  cr_expect_eq(nabla_comm_size(comm), 64);
  nabla_comm_destroy(comm);
}

Test(comm, exchanges_that_differ, .timeout = 20) {
  nabla_comm *comm;
  pthread_t thread;
  cr_assert_eq(nabla_comm_threads(2, &comm, &diag), 0);
  rank a = make_rank(comm, 0, 1), b = make_rank(comm, 1, 2);
  a.c.in = &a.in, a.c.out = &a.out, b.c.in = &b.in, b.c.out = &b.out;
  cr_assert_eq(pthread_create(&thread, NULL, run, &b), 0);
  run(&a);
  pthread_join(thread, NULL);
  cr_expect_eq(a.status, NABLA_CANCELLED);
  cr_expect_eq(b.status, NABLA_CANCELLED);
  cr_expect(strstr(a.diag.what, "different types or sizes"), "%s", a.diag.what);
  cr_expect_eq(nabla_comm_status(comm, &diag), NABLA_CANCELLED);
  nabla_comm_destroy(comm);
}

Test(comm, a_rank_that_never_comes, .timeout = 20) {
  nabla_comm *comm;
  setenv("NABLA_RANK_TIMEOUT", "1", 1);
  cr_assert_eq(nabla_comm_threads(2, &comm, &diag), 0);
  rank a = make_rank(comm, 0, 1);
  a.c.in = &a.in, a.c.out = &a.out;
  run(&a);
  cr_expect_eq(a.status, NABLA_CANCELLED);
  cr_expect(strstr(a.diag.what, "rank 1 did not come in NABLA_RANK_TIMEOUT"),
            "%s", a.diag.what);
  run(&a); /* at once */
  cr_expect_eq(a.status, NABLA_CANCELLED);
  nabla_comm_destroy(comm);
}

Test(comm, a_rank_that_fails, .timeout = 20) {
  nabla_comm *comm;
  pthread_t thread;
  cr_assert_eq(nabla_comm_threads(2, &comm, &diag), 0);
  rank a = make_rank(comm, 0, 1);
  a.c.in = &a.in, a.c.out = &a.out;
  cr_assert_eq(pthread_create(&thread, NULL, run, &a), 0);
  nabla_comm_fail(comm, 1, "out of luck");
  nabla_comm_fail(comm, 0, "another reason");
  pthread_join(thread, NULL);
  cr_expect_eq(a.status, NABLA_CANCELLED);
  cr_expect(strstr(a.diag.what, "rank 1: out of luck"), "%s", a.diag.what);
  nabla_comm_destroy(comm);
}

/* ---- starting and waiting ------------------------------------------------ */

enum { STARTED = 3 };

/* Starts three exchanges, makes a fourth at once, and waits for the three from
 * the last to the first. */
static void *start_and_wait(void *self) {
  rank *r = self;
  float in[STARTED + 1], out[STARTED + 1];
  nabla_collective c = r->c;
  for (int i = 0; i <= STARTED; i++) {
    in[i] = (float)(10 * i) + r->in;
    c.in = &in[i], c.out = &out[i];
    r->status = i < STARTED ? nabla_comm_start(r->comm, &c, &r->diag)
                            : nabla_comm_run(r->comm, &c, &r->diag);
    if (r->status) return NULL;
  }
  for (int i = STARTED; i-- > 0;) {
    r->status = nabla_comm_wait(r->comm, c.rank, &out[i], &r->diag);
    if (r->status) return NULL;
  }
  r->out = 0;
  for (int i = 0; i <= STARTED; i++) r->out += out[i] == 20 * (float)i + 3;
  return NULL;
}

Test(comm, exchanges_that_are_started, .timeout = 20) {
  nabla_comm *comm;
  pthread_t thread;
  cr_assert_eq(nabla_comm_threads(2, &comm, &diag), 0);
  rank a = make_rank(comm, 0, 1), b = make_rank(comm, 1, 1);
  a.in = 1, b.in = 2;
  cr_assert_eq(pthread_create(&thread, NULL, start_and_wait, &b), 0);
  start_and_wait(&a);
  pthread_join(thread, NULL);
  cr_expect_eq(a.status, NABLA_OK, "%s", a.diag.what);
  cr_expect_eq(b.status, NABLA_OK, "%s", b.diag.what);
  cr_expect_eq(a.out, STARTED + 1);
  cr_expect_eq(b.out, STARTED + 1);
  cr_expect_eq(nabla_comm_wait(comm, 0, &a.out, &diag), NABLA_CORRUPT);
  cr_expect(strstr(diag.what, "that was not started"), "%s", diag.what);
  nabla_comm_destroy(comm);
}

/* Starts an exchange that the other rank does not make, and behind it one that
 * it does. */
static void *start_another_first(void *self) {
  rank *r = self;
  float in[2] = {1, 1}, out[2], last;
  nabla_collective c = r->c;
  c.in = in, c.out = out, c.rows = 2;
  r->status = nabla_comm_start(r->comm, &c, &r->diag);
  c.out = &last, c.rows = 1;
  if (!r->status) r->status = nabla_comm_start(r->comm, &c, &r->diag);
  nabla_diag first = NABLA_DIAG_INIT;
  if (nabla_comm_wait(r->comm, c.rank, out, &first) == NABLA_CANCELLED)
    r->status = nabla_comm_wait(r->comm, c.rank, &last, &r->diag);
  return NULL;
}

/* The exchange behind is not taken for the one before: both ranks find that
 * they differ, whichever looks first. */
Test(comm, exchanges_behind_one_that_differs, .timeout = 60) {
  for (int turn = 0; turn < 300; turn++) {
    nabla_comm *comm;
    pthread_t thread;
    cr_assert_eq(nabla_comm_threads(2, &comm, &diag), 0);
    rank a = make_rank(comm, 0, 1), b = make_rank(comm, 1, 1);
    a.c.in = &a.in, a.c.out = &a.out;
    cr_assert_eq(pthread_create(&thread, NULL, start_another_first, &b), 0);
    run(&a);
    pthread_join(thread, NULL);
    cr_assert_eq(a.status, NABLA_CANCELLED);
    cr_assert_eq(b.status, NABLA_CANCELLED);
    nabla_comm_destroy(comm);
  }
}

/* A rank that is late with what it started does not make a later exchange
 * before it: the other rank would take one for the other. */
static void *start_and_run(void *self) {
  rank *r = self;
  float in[2] = {r->in, 1}, out[2];
  nabla_collective c = r->c;
  c.in = in, c.out = out, c.rows = 2;
  r->status = nabla_comm_start(r->comm, &c, &r->diag);
  c.in = &in[1], c.out = &r->out, c.rows = 1;
  if (!r->status) r->status = nabla_comm_run(r->comm, &c, &r->diag);
  if (!r->status) r->status = nabla_comm_wait(r->comm, c.rank, out, &r->diag);
  if (!r->status && out[0] == 3) r->out += 1;
  return NULL;
}

Test(comm, exchanges_keep_their_order, .timeout = 20) {
  nabla_comm *inner;
  pthread_t thread;
  cr_assert_eq(nabla_comm_threads(2, &inner, &diag), 0);
  nabla_comm *comm = delayed_comm_create(inner, 8, 0, 20000);
  cr_assert(comm);
  rank a = make_rank(comm, 0, 1), b = make_rank(comm, 1, 1);
  a.in = 1, b.in = 2;
  cr_assert_eq(pthread_create(&thread, NULL, start_and_run, &b), 0);
  start_and_run(&a);
  pthread_join(thread, NULL);
  cr_expect_eq(a.status, NABLA_OK, "%s", a.diag.what);
  cr_expect_eq(b.status, NABLA_OK, "%s", b.diag.what);
  cr_expect_eq(a.out, 3);
  cr_expect_eq(b.out, 3);
  nabla_comm_destroy(comm);
}

/* No other rank comes: a run that fails gives the exchange up, at once. */
Test(comm, a_run_that_leaves_started_exchanges, .timeout = 20) {
  nabla_comm *comm;
  cr_assert_eq(nabla_comm_threads(2, &comm, &diag), 0);
  rank a = make_rank(comm, 0, 1);
  a.c.in = &a.in, a.c.out = &a.out;
  cr_assert_eq(nabla_comm_start(comm, &a.c, &diag), 0);
  nabla_comm_leave(comm, 0, "an operation failed");
  cr_expect_eq(nabla_comm_status(comm, &diag), NABLA_CANCELLED);
  cr_expect(strstr(diag.what, "rank 0: an operation failed"), "%s", diag.what);
  cr_expect_eq(nabla_comm_wait(comm, 0, &a.out, &diag), NABLA_CORRUPT);
  nabla_comm_destroy(comm);
}

/* ---- exchanges of handlers ------------------------------------------------
 */

static nabla_call_code group_of(nabla_comm *comm, nabla_attribute_tree axes) {
  char message[200] = "";
  axes.name = "axes";
  const nabla_attribute_tree attributes = {.name = "",
                                           .kind = NABLA_ATTRIBUTE_DICTIONARY,
                                           .count = 1,
                                           .elements = &axes};
  const nabla_call_frame frame = {.struct_size = sizeof frame,
                                  .api = NABLA_CALL_API,
                                  .attributes = &attributes,
                                  .message = message,
                                  .message_size = sizeof message,
                                  .comm = comm};
  nabla_call_group group = {.struct_size = sizeof group};
  const nabla_call_code code = nabla_call_group_of(&frame, &group);
  cr_expect(!code == !*message, "%s", message);
  return code;
}

/* An attribute `axes` may be the handler's own: a text, names, other numbers.
 */
Test(comm, axes_of_a_call_that_are_no_places) {
  nabla_comm *comm;
  cr_assert_eq(nabla_comm_threads(2, &comm, &diag), 0);
  nabla_attribute_tree parts[2] = {
      {.name = "", .kind = NABLA_ATTRIBUTE_INTEGER, .integer = 1},
      {.name = "", .kind = NABLA_ATTRIBUTE_INTEGER, .integer = 2}};
  const nabla_attribute_tree list = {
      .kind = NABLA_ATTRIBUTE_ARRAY, .count = 2, .elements = parts};
  cr_expect_eq(group_of(comm, list), NABLA_CALL_OK);
  cr_expect_eq(
      group_of(comm,
               (nabla_attribute_tree){
                   .kind = NABLA_ATTRIBUTE_STRING, .text = "rows", .count = 4}),
      NABLA_CALL_INVALID_ARGUMENT);
  cr_expect_eq(
      group_of(comm, (nabla_attribute_tree){.kind = NABLA_ATTRIBUTE_INTEGER,
                                            .integer = 2}),
      NABLA_CALL_INVALID_ARGUMENT);
  static const int64_t bad[] = {0, -1, 3, INT64_MAX};
  for (int i = 0; i < 4; i++) {
    parts[1].integer = bad[i];
    cr_expect_eq(group_of(comm, list), NABLA_CALL_INVALID_ARGUMENT);
  }
  parts[1] = (nabla_attribute_tree){
      .name = "", .kind = NABLA_ATTRIBUTE_STRING, .text = "b", .count = 1};
  cr_expect_eq(group_of(comm, list), NABLA_CALL_INVALID_ARGUMENT);
  nabla_comm_destroy(comm);
}
