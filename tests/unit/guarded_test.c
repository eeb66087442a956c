/* Models in the modes `guarded` and `copy`, whose files shrink. */
#include <criterion/criterion.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/runtime/program/code.h"
#include "nabla/comm.h"
#include "nabla/matmul.h"
#include "nabla/model.h"
#include "nabla/session.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

enum { N = 64, K = 4096, FILE_LEFT = 3 * 4096 };

static temp_folder folder;
static char path[256], other_path[256];
static nabla_diag diag;
static nabla_model *model;

static void set_up(void) {
  const model_tensor tensors[] = {{"w", NABLA_DTYPE_F32, 2, {N, K}, NULL}};
  temp_folder_create(&folder);
  temp_folder_path(&folder, "m.safetensors", path);
  temp_folder_path(&folder, "other.safetensors", other_path);
  model_write(path, tensors, 1);
  model_write(other_path, tensors, 1);
  diag = (nabla_diag)NABLA_DIAG_INIT;
}

static void tear_down(void) {
  nabla_model_close(model);
  model_remove_tree(folder.path);
}

TestSuite(guarded, .init = set_up, .fini = tear_down);

static nabla_model *open_as(const char *file, nabla_model_mode mode) {
  const nabla_model_options options = {.struct_size = sizeof options,
                                       .mode = mode};
  nabla_model *out = NULL;
  cr_assert_eq(nabla_model_open_with(file, &options, NULL, &out, &diag), 0,
               "%s", diag.what);
  return out;
}

static nabla_weight weight_of(nabla_model *m) {
  nabla_weight weight;
  cr_assert_eq(nabla_model_find(m, "w", &weight, &diag), 0, "%s", diag.what);
  return weight;
}

static void shrink(void) { cr_assert_eq(truncate(path, FILE_LEFT), 0); }

static void expect_spent(nabla_status status) {
  cr_expect_eq(status, NABLA_IO);
  cr_expect(strstr(diag.what, "the model is spent"), "%s", diag.what);
  cr_expect(strstr(diag.file, "m.safetensors"), "%s", diag.file);
}

/* ---- plans and rows ------------------------------------------------------ */

static nabla_matmul_plan *plan_of(const nabla_weight *weight,
                                  nabla_pool *pool) {
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .environment.pool = pool};
  nabla_matmul_plan *plan = NULL;
  cr_assert_eq(nabla_matmul_plan_create(&weight->desc, &options, &plan, &diag),
               0, "%s", diag.what);
  return plan;
}

Test(guarded, plans_of_a_file_that_shrinks_fail_and_others_go_on) {
  static float x[K], y[N], want[N];
  nabla_pool *pool = NULL;
  cr_assert_eq(nabla_pool_create(3, NULL, &pool, &diag), 0);
  nabla_model *other = open_as(other_path, NABLA_MODEL_GUARDED);
  model = open_as(path, NABLA_MODEL_GUARDED);
  const nabla_weight weight = weight_of(model), kept = weight_of(other);
  nabla_matmul_plan *plan = plan_of(&weight, pool);
  nabla_matmul_plan *kept_plan = plan_of(&kept, pool);
  for (int i = 0; i < K; i++) x[i] = (float)(i % 7) - 3;
  void *room = aligned_alloc(64, 1 << 20);
  cr_assert_leq(nabla_matmul_plan_workspace_size(plan, 1), 1 << 20);
  cr_expect_eq(nabla_matmul_plan_run(plan, x, 1, want, room, &diag), 0);
  shrink();
  /* the first run meets the missing page; the next ones are told of it */
  expect_spent(nabla_matmul_plan_run(plan, x, 1, y, room, &diag));
  expect_spent(nabla_matmul_plan_run(plan, x, 1, y, room, &diag));
  expect_spent(nabla_matmul_plan_prepare(plan, x, 1, room, &diag));
  expect_spent(nabla_matmul_plan_run_rows(plan, x, 1, y, 0, N, room, &diag));
  nabla_matmul_plan *late = NULL;
  expect_spent(nabla_matmul_plan_create(&weight.desc, NULL, &late, &diag));
  cr_expect_null(late);
  nabla_weight found;
  expect_spent(nabla_model_find(model, "w", &found, &diag));
  expect_spent(nabla_model_check_unchanged(model, &diag));
  cr_expect_eq(nabla_matmul_plan_run(kept_plan, x, 1, y, room, &diag), 0);
  cr_expect_eq(memcmp(y, want, sizeof y), 0);
  nabla_matmul_plan_destroy(plan);
  /* closed and opened again, it is what the file has: too short */
  nabla_model_close(model);
  model = NULL;
  cr_expect_eq(nabla_matmul_plan_run(kept_plan, x, 1, y, room, &diag), 0);
  nabla_matmul_plan_destroy(kept_plan);
  nabla_model_close(other);
  nabla_pool_destroy(pool);
  free(room);
}

Test(guarded, rows_of_a_file_that_shrinks_are_refused) {
  static float out[N * K];
  model = open_as(path, NABLA_MODEL_GUARDED);
  const nabla_weight weight = weight_of(model);
  cr_expect_eq(nabla_weight_read(&weight.desc, 0, N, out, &diag), 0);
  shrink();
  expect_spent(nabla_weight_read(&weight.desc, 0, N, out, &diag));
  cr_expect_eq(out[N * K - 1], 0);
}

/* ---- runs ---------------------------------------------------------------- */

typedef struct buffer {
  float *allocated, *aligned;
  int64_t offset, size, stride; /* of one dimension */
} buffer;

/* y[0] = the sum of w; the state counts runs */
static void entry(const nabla_services *services, void *const *arguments,
                  void *const *results) {
  const buffer *w = arguments[0], *state = arguments[1];
  buffer *y = results[0];
  float *data = services->allocate(services, sizeof *data);
  if (!data) {
    services->fail(services, NABLA_FAILURE_NO_MEMORY, NULL, 0, 0);
    return;
  }
  *data = 0;
  for (int i = 0; i < N * K; i++) *data += w->aligned[i];
  state->aligned[0] += 1;
  *y = (buffer){data, data, 0, 1, 1};
}

static nabla_entry_function look_up(void *self, const char *symbol) {
  (void)self;
  return strcmp(symbol, "nabla_entry_f") ? NULL : entry;
}

#define PORT(name, shape, rest) \
  "{\"name\":\"" name "\",\"dtype\":\"F32\",\"shape\":[" shape "]" rest "}"

static const char manifest[] =
    "{\"abi\":1,\"functions\":[{\"name\":\"f\",\"arguments\":[" PORT(
        "w", "64,4096", "") "," PORT("s", "1",
                                     ",\"state\":\"s\"") "],\"results\":"
                                                         "[" PORT("", "1",
                                                                  "") "]}]}";

static nabla_session *session_of(nabla_executable **out, int is_bound) {
  const nabla_code code = {NULL, manifest, look_up, NULL, 0};
  nabla_session *session = NULL;
  cr_assert_eq(nabla_executable_create(&code, NULL, out, &diag), 0);
  if (is_bound)
    cr_assert_eq(nabla_executable_bind_model(*out, model, NULL, NULL, &diag), 0,
                 "%s", diag.what);
  cr_assert_eq(nabla_session_create(*out, NULL, &session, &diag), 0);
  return session;
}

Test(guarded, a_session_of_a_file_that_shrinks_fails_with_its_states) {
  nabla_executable *executable = NULL;
  float sum = 0;
  nabla_dense y = {&sum, NABLA_DTYPE_F32, 1, {1}};
  model = open_as(path, NABLA_MODEL_GUARDED);
  nabla_session *session = session_of(&executable, 1);
  cr_expect_eq(nabla_session_run(session, "f", NULL, 0, &y, 1, &diag), 0, "%s",
               diag.what);
  shrink();
  expect_spent(nabla_session_run(session, "f", NULL, 0, &y, 1, &diag));
  cr_expect_eq(nabla_session_run(session, "f", NULL, 0, &y, 1, &diag),
               NABLA_INVALID_ARGUMENT); /* its states are of a failed run */
  cr_assert_eq(nabla_session_state_zero(session, NULL, &diag), 0);
  expect_spent(nabla_session_run(session, "f", NULL, 0, &y, 1, &diag));
  nabla_session_close(session);
  nabla_executable_close(executable);
}

Test(guarded, an_input_in_a_file_that_shrinks_fails_too) {
  nabla_executable *executable = NULL;
  float sum = 0;
  nabla_dense y = {&sum, NABLA_DTYPE_F32, 1, {1}};
  model = open_as(path, NABLA_MODEL_GUARDED);
  const nabla_weight weight = weight_of(model);
  const nabla_dense w = {(void *)(uintptr_t)weight.desc.components[0].data,
                         NABLA_DTYPE_F32,
                         2,
                         {N, K}};
  nabla_session *session = session_of(&executable, 0);
  shrink();
  expect_spent(nabla_session_run(session, "f", &w, 1, &y, 1, &diag));
  nabla_session_close(session);
  nabla_executable_close(executable);
}

/* ---- pieces of ranks ----------------------------------------------------- */

/* y[0] = the sum of the piece of w: half of each row */
static void sum_piece(const nabla_services *services, void *const *arguments,
                      void *const *results) {
  const buffer *w = arguments[0];
  buffer *y = results[0];
  float *data = services->allocate(services, sizeof *data);
  if (!data) {
    services->fail(services, NABLA_FAILURE_NO_MEMORY, NULL, 0, 0);
    return;
  }
  *data = 0;
  for (int i = 0; i < N * K / 2; i++) *data += w->aligned[i];
  *y = (buffer){data, data, 0, 1, 1};
}

static nabla_entry_function find_sum_piece(void *self, const char *symbol) {
  (void)self;
  return strcmp(symbol, "nabla_entry_f") ? NULL : sum_piece;
}

static const char for_two_ranks[] =
    "{\"abi\":1,\"functions\":[{\"name\":\"f\",\"arguments\":[" PORT(
        "w", "64,4096", ",\"cut\":[1,1,2]") "],\"results\":[" PORT("", "1",
                                                                 "") "]}],"
                                                                     "\"ranks"
                                                                     "\":2}";

static nabla_executable *open_for_two_ranks(void) {
  const nabla_code code = {NULL, for_two_ranks, find_sum_piece, NULL, 0};
  nabla_executable *out = NULL;
  cr_assert_eq(nabla_executable_create(&code, NULL, &out, &diag), 0, "%s",
               diag.what);
  return out;
}

/* The second rank of two. */
static nabla_session_options second_of(nabla_comm **out) {
  cr_assert_eq(nabla_comm_threads(2, out, &diag), 0);
  return (nabla_session_options){.struct_size = sizeof(nabla_session_options),
                                 .comm = *out,
                                 .rank = 1,
                                 .check = NABLA_CHECK_NEVER};
}

Test(guarded, pieces_copied_of_a_file_that_shrinks_are_refused) {
  nabla_executable *executable = open_for_two_ranks();
  nabla_session *session = NULL;
  nabla_comm *comm;
  const nabla_session_options options = second_of(&comm);
  model = open_as(path, NABLA_MODEL_GUARDED);
  cr_assert_eq(
      nabla_executable_bind_model(executable, model, NULL, NULL, &diag), 0);
  shrink();
  expect_spent(nabla_session_create(executable, &options, &session, &diag));
  cr_expect_null(session);
  nabla_executable_close(executable);
  nabla_comm_destroy(comm);
}

Test(guarded, pieces_of_inputs_in_a_file_that_shrinks_fail_too) {
  nabla_executable *executable = open_for_two_ranks();
  nabla_session *session = NULL;
  nabla_comm *comm;
  float sum = 0;
  nabla_dense y = {&sum, NABLA_DTYPE_F32, 1, {1}};
  const nabla_session_options options = second_of(&comm);
  model = open_as(path, NABLA_MODEL_GUARDED);
  const nabla_weight weight = weight_of(model);
  const nabla_dense w = {(void *)(uintptr_t)weight.desc.components[0].data,
                         NABLA_DTYPE_F32,
                         2,
                         {N, K}};
  cr_assert_eq(nabla_session_create(executable, &options, &session, &diag), 0,
               "%s", diag.what);
  cr_expect_eq(nabla_session_run(session, "f", &w, 1, &y, 1, &diag), 0, "%s",
               diag.what);
  shrink();
  expect_spent(nabla_session_run(session, "f", &w, 1, &y, 1, &diag));
  nabla_session_close(session);
  nabla_executable_close(executable);
  nabla_comm_destroy(comm);
}

/* ---- the handler --------------------------------------------------------- */

static sigjmp_buf back;
static volatile sig_atomic_t own_calls;

static void own_handler(int number) {
  (void)number;
  own_calls++;
  siglongjmp(back, 1);
}

/* A fault that is nobody's: a page behind the end of an empty file. */
static void fault(void) {
  FILE *file = tmpfile();
  cr_assert(file);
  volatile char *page =
      mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
  if (!sigsetjmp(back, 1)) (void)page[0];
  (void)fclose(file);
  munmap((void *)(uintptr_t)page, 4096);
}

static int is_own(void) {
  struct sigaction now;
  cr_assert_eq(sigaction(SIGBUS, NULL, &now), 0);
  return now.sa_handler == own_handler;
}

Test(guarded, other_faults_go_to_the_handler_that_was_there) {
  static float out[N * K];
  const struct sigaction own = {.sa_handler = own_handler};
  cr_assert_eq(sigaction(SIGBUS, &own, NULL), 0);
  model = open_as(path, NABLA_MODEL_GUARDED);
  nabla_model *other = open_as(other_path, NABLA_MODEL_GUARDED);
  const nabla_weight weight = weight_of(model);
  cr_expect_not(is_own());
  fault();
  cr_expect_eq(own_calls, 1);
  shrink();
  expect_spent(nabla_weight_read(&weight.desc, 0, N, out, &diag));
  cr_expect_eq(own_calls, 1);
  nabla_model_close(model);
  model = NULL;
  fault();
  cr_expect_eq(own_calls, 2);
  nabla_model_close(other);
  cr_expect(is_own(), "the handler is back");
  fault();
  cr_expect_eq(own_calls, 3);
  /* a plain model leaves it alone */
  model = open_as(other_path, NABLA_MODEL_MAP);
  cr_expect(is_own());
}

Test(guarded, a_handler_over_the_guard_is_left_there) {
  const struct sigaction own = {.sa_handler = own_handler};
  model = open_as(path, NABLA_MODEL_GUARDED);
  cr_assert_eq(sigaction(SIGBUS, &own, NULL), 0);
  nabla_model_close(model);
  cr_expect(is_own());
  model = open_as(path, NABLA_MODEL_GUARDED);
  cr_expect(is_own());
}

Test(guarded, a_guard_that_somebody_took_away_is_there_for_the_next_model) {
  static float out[N * K];
  const struct sigaction none = {.sa_handler = SIG_DFL};
  nabla_model *other = open_as(other_path, NABLA_MODEL_GUARDED);
  cr_assert_eq(sigaction(SIGBUS, &none, NULL), 0);
  model = open_as(path, NABLA_MODEL_GUARDED);
  const nabla_weight weight = weight_of(model);
  shrink();
  expect_spent(nabla_weight_read(&weight.desc, 0, N, out, &diag));
  nabla_model_close(other);
}

/* Whether a process that does `what` with a guarded model is ended. */
static int ends(void (*what)(void)) {
  int status = 0;
  const pid_t child = fork();
  cr_assert_geq(child, 0);
  if (!child) {
    const struct sigaction none = {.sa_handler = SIG_DFL};
    (void)sigaction(SIGBUS, &none, NULL);
    model = open_as(path, NABLA_MODEL_GUARDED);
    what();
    _exit(0);
  }
  cr_assert_eq(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

static void send_signal(void) { (void)raise(SIGBUS); }
static void do_nothing(void) {}

Test(guarded, without_a_handler_other_faults_end_the_process) {
  cr_expect(ends(fault));
  cr_expect(ends(send_signal));
  cr_expect_not(ends(do_nothing));
}

/* ---- copies and refusals ------------------------------------------------- */

Test(guarded, a_copy_does_not_mind_what_happens_to_the_file) {
  static float before[N * K], after[N * K];
  model = open_as(path, NABLA_MODEL_COPY);
  nabla_model *late = open_as(path, NABLA_MODEL_COPY);
  const nabla_weight weight = weight_of(model);
  cr_expect_eq(weight.copied_bytes, sizeof before);
  cr_expect_eq(nabla_weight_read(&weight.desc, 0, N, before, &diag), 0);
  shrink();
  cr_expect_eq(nabla_weight_read(&weight.desc, 0, N, after, &diag), 0);
  cr_expect_eq(memcmp(before, after, sizeof before), 0);
  /* what was not read before, is not there */
  nabla_weight none;
  cr_expect_neq(nabla_model_find(late, "w", &none, &diag), 0);
  nabla_model_close(late);
}

Test(guarded, modes_that_there_are_not_are_refused) {
  nabla_model_options options = {.struct_size = sizeof options,
                                 .mode = NABLA_MODEL_MODES};
  cr_expect_eq(nabla_model_open_with(path, &options, NULL, &model, &diag),
               NABLA_INVALID_ARGUMENT);
  options = (nabla_model_options){.struct_size = 1};
  cr_expect_eq(nabla_model_open_with(path, &options, NULL, &model, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_null(model);
}
