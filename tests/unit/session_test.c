/* Sessions of an executable whose compiled code is C: states by name, their own
 * in each session, sealed bindings, failures, memory. */
#include "nabla/session.h"

#include <criterion/criterion.h>
#include <string.h>

#include "lib/runtime/program/code.h"
#include "tests/support/failing_allocator.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- the code ------------------------------------------------------------ */

/* A buffer of rank 1. */
typedef struct buffer {
  float *allocated, *aligned;
  int64_t offset, size, stride;
} buffer;

static nabla_session *outer; /* that a run of "nest" uses */
static nabla_session *bystander;
static unsigned nested; /* bits of the uses that were not refused */

/* total += x; gives the new total. A first x below 0 is a failure after the
 * first element was written. */
static void add(const nabla_services *services, void *const *arguments,
                void *const *results) {
  const buffer *x = arguments[0], *total = arguments[1];
  buffer *out = results[0];
  float *y = services->allocate(services, 3 * sizeof *y);
  if (!y) {
    services->fail(services, NABLA_FAILURE_NO_MEMORY, NULL, 0, 0);
    return;
  }
  for (int i = 0; i < 3; i++) {
    y[i] = total->aligned[i] += x->aligned[i];
    if (x->aligned[0] < 0) {
      services->fail(services, NABLA_FAILURE_SHAPE, "add", 1, 2);
      return;
    }
  }
  *out = (buffer){y, y, 0, 3, 1};
}

/* Reads both states. */
static void sum(const nabla_services *services, void *const *arguments,
                void *const *results) {
  const buffer *total = arguments[0], *other = arguments[1];
  buffer *out = results[0];
  float *y = services->allocate(services, 3 * sizeof *y);
  if (!y) {
    services->fail(services, NABLA_FAILURE_NO_MEMORY, NULL, 0, 0);
    return;
  }
  for (int i = 0; i < 3; i++) y[i] = total->aligned[i] + other->aligned[i];
  *out = (buffer){y, y, 0, 3, 1};
}

static void nest(const nabla_services *services, void *const *arguments,
                 void *const *results) {
  (void)services, (void)arguments, (void)results;
  const float zeros[3] = {0};
  float values[3];
  nabla_diag inner = NABLA_DIAG_INIT;
  nabla_dense array = {
      .data = values, .dtype = NABLA_DTYPE_F32, .rank = 1, .shape = {3}};
  memcpy(values, zeros, sizeof zeros);
  nabla_session_usage usage = {.struct_size = sizeof usage};
  const nabla_status uses[] = {
      nabla_session_run(outer, "nest", NULL, 0, NULL, 0, &inner),
      nabla_session_state_set(outer, "total", &array, &inner),
      nabla_session_state_get(outer, "total", &array, &inner),
      nabla_session_state_zero(outer, "total", &inner),
      nabla_session_state_copy(outer, bystander, "total", &inner),
      nabla_session_state_copy(bystander, outer, "total", &inner),
      nabla_session_memory(outer, &usage, &inner),
  };
  nested = 0;
  for (size_t i = 0; i < COUNT(uses); i++)
    nested |= (unsigned)(uses[i] != NABLA_INVALID_ARGUMENT) << i;
}

/* Has no states, and fails. */
static void give_up(const nabla_services *services, void *const *arguments,
                    void *const *results) {
  (void)arguments, (void)results;
  services->fail(services, NABLA_FAILURE_SHAPE, "give_up", 1, 2);
}

#define PORT(name, rest) \
  "{\"name\":\"" name "\",\"dtype\":\"F32\",\"shape\":[3]" rest "}"
#define FUNCTION(name, arguments, results)                                     \
  "{\"name\":\"" name "\",\"arguments\":[" arguments "],\"results\":[" results \
  "]}"
#define TOTAL PORT("t", ",\"state\":\"total\"")

static const char manifest[] = "{\"abi\":1,\"functions\":["     //
    FUNCTION("add", PORT("x", "") "," TOTAL, PORT("", "")) ","  //
    FUNCTION("sum", TOTAL "," PORT("o", ",\"state\":\"other\""),
             PORT("", "")) ","    //
    FUNCTION("nest", "", "") ","  //
    FUNCTION("give_up", "", "")   //
    "]}";

static nabla_entry_function look_up(void *self, const char *symbol) {
  (void)self;
  return !strcmp(symbol, "nabla_entry_add")       ? add
         : !strcmp(symbol, "nabla_entry_sum")     ? sum
         : !strcmp(symbol, "nabla_entry_give_up") ? give_up
                                                  : nest;
}

static void destroy(void *self) { ++*(int *)self; }

/* ---- the tests ----------------------------------------------------------- */

static nabla_diag diag;
static failing_allocator memory;
static nabla_environment environment;
static nabla_executable *executable;
static nabla_session *session;
static int destroyed;

static nabla_status create(const char *text) {
  const nabla_code code = {&destroyed, text, look_up, destroy, 0};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_executable_create(&code, &environment, &executable, &diag);
}

static nabla_session *make(void) {
  nabla_session *made = NULL;
  cr_assert_eq(nabla_session_create(executable, NULL, &made, &diag), NABLA_OK,
               "%s", diag.what);
  return made;
}

static void set_up(void) {
  failing_allocator_init(&memory, 0);
  environment = (nabla_environment){.allocator = &memory.allocator};
  cr_assert_eq(create(manifest), NABLA_OK, "%s", diag.what);
  session = make();
}

static void tear_down(void) {
  nabla_session_close(session);
  nabla_executable_close(executable);
  cr_expect_eq(destroyed, 1);
  cr_expect(failing_allocator_is_clean(&memory));
}

TestSuite(session, .init = set_up, .fini = tear_down);

static nabla_dense array_of(const float *data) {
  return (nabla_dense){.data = (void *)(uintptr_t)data,
                       .dtype = NABLA_DTYPE_F32,
                       .rank = 1,
                       .shape = {3}};
}

/* Adds x, x + 1, x + 2. */
static nabla_status add_to(nabla_session *to, float x, float out[3]) {
  const float values[3] = {x, x + 1, x + 2};
  const nabla_dense input = array_of(values);
  nabla_dense output = array_of(out);
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_session_run(to, "add", &input, 1, &output, 1, &diag);
}

static void expect_state(nabla_session *of, const char *name, float first,
                         float step) {
  float got[3];
  nabla_dense output = array_of(got);
  cr_assert_eq(nabla_session_state_get(of, name, &output, &diag), NABLA_OK,
               "%s", diag.what);
  for (int i = 0; i < 3; i++)
    cr_expect_eq(got[i], first + step * (float)i, "%s[%d] is %g", name, i,
                 (double)got[i]);
}

Test(session, keeps_states_from_run_to_run) {
  float out[3];
  cr_assert_eq(nabla_session_state_count(session), 2);
  cr_expect_str_eq(nabla_session_state(session, 0)->state_name, "total");
  cr_expect_str_eq(nabla_session_state(session, 1)->state_name, "other");
  cr_expect_null(nabla_session_state(session, 2));
  expect_state(session, "total", 0, 0);
  cr_assert_eq(add_to(session, 1, out), NABLA_OK, "%s", diag.what);
  cr_assert_eq(add_to(session, 10, out), NABLA_OK, "%s", diag.what);
  cr_expect_eq(out[2], 15);
  expect_state(session, "total", 11, 2);
}

Test(session, states_are_of_their_session_and_shared_by_functions) {
  const float values[3] = {100, 100, 100};
  float out[3];
  nabla_session *second = make();
  const nabla_dense value = array_of(values);
  cr_assert_eq(nabla_session_state_set(session, "other", &value, &diag),
               NABLA_OK);
  cr_assert_eq(add_to(session, 1, out), NABLA_OK);
  expect_state(second, "total", 0, 0);
  nabla_dense output = array_of(out);
  cr_assert_eq(nabla_session_run(session, "sum", NULL, 0, &output, 1, &diag),
               NABLA_OK, "%s", diag.what);
  cr_expect_eq(out[2], 103);
  cr_assert_eq(nabla_session_state_copy(second, session, "total", &diag),
               NABLA_OK);
  expect_state(second, "total", 1, 1);
  expect_state(second, "other", 0, 0);
  cr_assert_eq(nabla_session_state_copy(second, session, NULL, &diag),
               NABLA_OK);
  expect_state(second, "other", 100, 0);
  cr_assert_eq(nabla_session_state_zero(second, "total", &diag), NABLA_OK);
  expect_state(second, "total", 0, 0);
  expect_state(second, "other", 100, 0);
  cr_assert_eq(nabla_session_state_zero(second, NULL, &diag), NABLA_OK);
  expect_state(second, "other", 0, 0);
  nabla_session_close(second);
}

Test(session, a_state_is_read_into_a_new_array) {
  nabla_dense got = {0};
  cr_assert_eq(nabla_session_state_get(session, "total", &got, &diag),
               NABLA_OK);
  cr_expect_eq(got.rank, 1);
  cr_expect_eq(got.shape[0], 3);
  cr_expect_eq(((float *)got.data)[2], 0);
  nabla_dense_release(executable, &got);
}

Test(session, the_executable_lives_as_long_as_its_sessions) {
  float out[3];
  nabla_executable_close(executable);
  cr_expect_eq(destroyed, 0);
  cr_expect_eq(add_to(session, 1, out), NABLA_OK, "%s", diag.what);
  nabla_session_close(session);
  cr_expect_eq(destroyed, 1);
  session = NULL, executable = NULL;
}

/* ---- refusals ------------------------------------------------------------ */

static void expect_refused(nabla_status status, const char *what) {
  cr_expect_eq(status, NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, what), "'%s' says not '%s'", diag.what, what);
  diag = (nabla_diag)NABLA_DIAG_INIT;
}

Test(session, a_function_with_states_needs_a_session) {
  const float values[3] = {0};
  const nabla_dense x = array_of(values);
  nabla_dense y = {0};
  expect_refused(nabla_executable_run(executable, "add", &x, 1, &y, 1, &diag),
                 "'add' has the state 'total', which lives in a session");
}

Test(session, states_are_checked) {
  const float values[3] = {0};
  nabla_dense x = array_of(values);
  expect_refused(nabla_session_state_set(session, "totals", &x, &diag),
                 "there is no state 'totals'");
  x.shape[0] = 2;
  expect_refused(nabla_session_state_set(session, "total", &x, &diag),
                 "the state 'total' is F32 [3]; the array is F32 [2]");
  x.shape[0] = 3;
  x.data = NULL;
  expect_refused(nabla_session_state_set(session, "total", &x, &diag),
                 "has no data");
  expect_refused(nabla_session_state_zero(session, "x", &diag),
                 "there is no state 'x'");
}

static nabla_status bind_x(const float *values) {
  const nabla_weight_desc weight = {
      .name = "w",
      .dtype = NABLA_DTYPE_F32,
      .rank = 1,
      .shape = {3},
      .component_count = 1,
      .components = {{.data = values, .bytes = 3 * sizeof *values}}};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_executable_bind(executable, "x", &weight, &diag);
}

static const char sealed[] =
    "nothing can be bound: the program has a session, or has run in one";

Test(session, nothing_is_bound_while_there_is_one) {
  const float values[3] = {0};
  expect_refused(bind_x(values), sealed);
  nabla_session *second = make();
  nabla_session_close(session);
  session = second;
  expect_refused(bind_x(values), sealed);
}

/* A run that is refused leaves the program as it was, for weights too. */
Test(session, weights_are_bound_after_a_refused_run) {
  const float ones[3] = {1, 1, 1}, twos[3] = {2, 2, 2};
  float out[3];
  nabla_dense output = array_of(out);
  cr_assert_eq(nabla_session_run(session, "add", NULL, 0, &output, 1, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.next, "bind_model"), "%s", diag.next);
  nabla_session_close(session);
  cr_assert_eq(bind_x(twos), NABLA_OK, "%s", diag.what);
  cr_assert_eq(bind_x(ones), NABLA_OK, "%s", diag.what);
  session = make();
  cr_assert_eq(nabla_session_run(session, "add", NULL, 0, &output, 1, &diag),
               NABLA_OK, "%s", diag.what);
  cr_expect_eq(out[2], 1);
  nabla_session_close(session);
  session = make();
  nabla_session_close(session); /* that it did not run changes nothing */
  expect_refused(bind_x(twos), sealed);
  session = make();
}

Test(session, one_run_at_a_time) {
  outer = session;
  bystander = make();
  cr_assert_eq(nabla_session_run(session, "nest", NULL, 0, NULL, 0, &diag),
               NABLA_OK, "%s", diag.what);
  cr_expect_eq(nested, 0, "uses %#x were not refused", nested);
  /* and what was refused has left both for use */
  cr_expect_eq(nabla_session_state_copy(bystander, session, NULL, &diag),
               NABLA_OK, "%s", diag.what);
  nabla_session_close(bystander);
}

Test(session, a_failed_run_spends_it) {
  float out[3];
  cr_assert_eq(add_to(session, 1, out), NABLA_OK);
  expect_refused(add_to(session, -1, out), "add");
  expect_refused(add_to(session, 1, out), "the session is spent");
  cr_assert_eq(nabla_session_run(session, "nest", NULL, 0, NULL, 0, &diag),
               NABLA_OK, "it has no states");
  nabla_session *second = make();
  expect_refused(nabla_session_state_copy(second, session, NULL, &diag),
                 "the session to copy from is spent");
  /* one state does not make the others whole */
  cr_assert_eq(nabla_session_state_zero(session, "total", &diag), NABLA_OK);
  expect_refused(add_to(session, 1, out), "the session is spent");
  cr_assert_eq(nabla_session_state_copy(session, second, "total", &diag),
               NABLA_OK);
  expect_refused(add_to(session, 1, out), "the session is spent");
  cr_assert_eq(nabla_session_state_copy(session, second, NULL, &diag),
               NABLA_OK);
  cr_expect_eq(add_to(session, 1, out), NABLA_OK, "%s", diag.what);
  expect_state(session, "total", 1, 1);
  nabla_session_close(second);
}

Test(session, a_failure_without_states_does_not_spend_it) {
  float out[3];
  expect_refused(nabla_session_run(session, "give_up", NULL, 0, NULL, 0, &diag),
                 "give_up");
  cr_expect_eq(add_to(session, 1, out), NABLA_OK, "%s", diag.what);
}

/* Of another program, whose second state has another type. */
Test(session, a_refused_copy_leaves_all_states) {
  static const char wider[] = "{\"abi\":1,\"functions\":[" FUNCTION(
      "add",
      PORT("x", "") "," TOTAL
                    ",{\"name\":\"o\",\"dtype\":\"F32\",\"shape\":[4],"
                    "\"state\":\"other\"}",
      "") "]}";
  float out[3];
  nabla_executable *const first = executable;
  cr_assert_eq(add_to(session, 1, out), NABLA_OK);
  cr_assert_eq(create(wider), NABLA_OK, "%s", diag.what);
  nabla_session *second = make();
  expect_refused(nabla_session_state_copy(second, session, NULL, &diag),
                 "the state 'other' is F32 [4]; the array is F32 [3]");
  expect_state(second, "total", 0, 0);
  cr_assert_eq(nabla_session_state_copy(second, session, "total", &diag),
               NABLA_OK);
  expect_state(second, "total", 1, 1);
  nabla_session_close(second);
  nabla_executable_close(executable);
  executable = first;
  cr_expect_eq(destroyed, 1);
  destroyed = 0;
}

Test(session, a_refused_run_leaves_states) {
  float out[3];
  nabla_dense output = array_of(out);
  cr_assert_eq(add_to(session, 1, out), NABLA_OK);
  expect_refused(nabla_session_run(session, "add", NULL, 0, &output, 1, &diag),
                 "'add' takes 1 inputs (x); 0 were given");
  cr_expect_eq(add_to(session, 1, out), NABLA_OK, "%s", diag.what);
  expect_state(session, "total", 2, 2);
}

Test(session, options_are_checked) {
  nabla_session *made = NULL;
  nabla_pool *pool = NULL;
  nabla_session_options options = {.struct_size = 3};
  expect_refused(nabla_session_create(executable, &options, &made, &diag),
                 "session options of 3 bytes");
  cr_assert_eq(nabla_pool_create(2, NULL, &pool, &diag), NABLA_OK);
  options = (nabla_session_options){
      .struct_size = sizeof options, .pool = pool, .threads = 2};
  expect_refused(nabla_session_create(executable, &options, &made, &diag),
                 "a pool and a number of threads");
  options.pool = NULL;
  cr_assert_eq(nabla_session_create(executable, &options, &made, &diag),
               NABLA_OK);
  nabla_session_close(made);
  options =
      (nabla_session_options){.struct_size = sizeof options, .pool = pool};
  cr_assert_eq(nabla_session_create(executable, &options, &made, &diag),
               NABLA_OK);
  nabla_session_close(made);
  nabla_pool_destroy(pool);
}

/* ---- memory -------------------------------------------------------------- */

Test(session, memory_is_what_the_allocator_gave) {
  float out[3];
  cr_assert_eq(add_to(session, 1, out), NABLA_OK);
  const size_t before = memory.live_bytes;
  nabla_session *second = make();
  cr_assert_eq(add_to(second, 1, out), NABLA_OK);
  nabla_session_usage usage = {.struct_size = sizeof usage};
  cr_assert_eq(nabla_session_memory(second, &usage, &diag), NABLA_OK);
  cr_expect_eq(usage.state_bytes + usage.run_bytes + usage.other_bytes,
               memory.live_bytes - before);
  cr_expect(usage.state_bytes >= 2 * 3 * sizeof(float));
  nabla_session_close(second);
}

Test(session, later_runs_allocate_nothing) {
  float out[3];
  cr_assert_eq(add_to(session, 1, out), NABLA_OK);
  const size_t requests = memory.requests;
  for (int i = 0; i < 10; i++) cr_assert_eq(add_to(session, 1, out), NABLA_OK);
  cr_expect_eq(memory.requests, requests);
}

/* Each allocation of a session and its first run fails once. */
Test(session, no_memory) {
  int failures = 0;
  for (size_t fail = 1;; fail++) {
    nabla_session *made = NULL;
    float out[3];
    memory.fail_at = memory.requests + fail;
    nabla_status status = nabla_session_create(executable, NULL, &made, &diag);
    const int was_made = !status;
    if (!status) status = add_to(made, 1, out);
    memory.fail_at = 0;
    if (status) {
      failures++;
      cr_expect_eq(status, NABLA_NO_MEMORY);
    }
    if (was_made && status) { /* spent, or as it was */
      cr_assert_eq(nabla_session_state_zero(made, NULL, &diag), NABLA_OK);
      cr_expect_eq(add_to(made, 1, out), NABLA_OK, "%s", diag.what);
      expect_state(made, "total", 1, 1);
    }
    nabla_session_close(made);
    if (!status) break;
  }
  cr_expect(failures > 3, "%d allocations failed", failures);
}

/* ---- manifests ----------------------------------------------------------- */

Test(session_manifest, hostile) {
  static const char *const bad[] = {
      "{\"abi\":1,\"functions\":[" FUNCTION("f", PORT("t", ",\"state\":\"\""),
                                            "") "]}",
      "{\"abi\":1,\"functions\":[" FUNCTION("f", "",
                                            PORT("t", ",\"state\":\"k\"")) "]}",
      "{\"abi\":1,\"functions\":[" FUNCTION("f",
                                            "{\"name\":\"t\",\"dtype\":\"F32\","
                                            "\"shape\":[null],\"state\":\"k\"}",
                                            "") "]}",
  };
  environment = (nabla_environment){0};
  for (size_t i = 0; i < COUNT(bad); i++)
    cr_expect_eq(create(bad[i]), NABLA_CORRUPT, "%zu: %s", i, diag.what);
}

Test(session_manifest, two_types_of_one_state) {
#define WITH(type)                       \
  "{\"abi\":1,\"functions\":[" FUNCTION( \
      "f", TOTAL ",{\"name\":\"u\"," type ",\"state\":\"total\"}", "") "]}"
  static const char *const bad[] = {
      WITH("\"dtype\":\"F32\",\"shape\":[4]"),
      WITH("\"dtype\":\"I32\",\"shape\":[3]"),
      WITH("\"dtype\":\"F32\",\"shape\":[3,1]"),
  };
#undef WITH
  environment = (nabla_environment){0};
  for (size_t i = 0; i < COUNT(bad); i++) {
    cr_assert_eq(create(bad[i]), NABLA_OK, "%zu: %s", i, diag.what);
    cr_expect_eq(nabla_session_create(executable, NULL, &session, &diag),
                 NABLA_CORRUPT, "%zu", i);
    nabla_executable_close(executable);
  }
}
