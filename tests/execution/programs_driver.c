/* Compiles programs and calls their functions for programs_random.py: many in
 * one process. It reads requests, a line followed by bytes, and answers each
 * alike:
 *
 *   compile POLICY NUMERICS FUSION BYTES the program; FUSION: on, off
 *   STATUS 0 BYTES                       messages, if it failed
 *
 *   call FUNCTION COUNT                  COUNT times an array:
 *   DTYPE RANK DIM... BYTES              and its bytes
 *   STATUS RESULTS BYTES                 messages, then RESULTS arrays alike
 *
 * A function runs three times, the last two into arrays of the caller. All runs
 * have to give the same bytes, and the third may allocate its frame alone. With
 * NABLA_PLAN_GUARD=1 in the environment, plans are checked instead of that.
 *
 * A function NAME_s is NAME with states in place of some arguments and of the
 * last results (programs_states.py). It runs three times in a session, after
 * each run of NAME, which is given the results of the run before: both have to
 * give the same bytes, and the third run allocates nothing.
 *
 * usage: programs_driver THREADS */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/dtype.h"
#include "nabla/session.h"

enum { ARRAYS = 512 };

/* An allocator that counts requests. */
static size_t requests;

static void *resize(void *self, void *memory, size_t old_size,
                    size_t new_size) {
  const nabla_allocator *allocator = nabla_allocator_default();
  (void)self;
  requests += new_size > 0;
  return allocator->resize(allocator->self, memory, old_size, new_size);
}

static const nabla_allocator counting = {.resize = resize};

typedef struct driver {
  nabla_environment environment;
  nabla_compiler *compiler;
  int is_guarded;
  nabla_executable *executable;
  char messages[65536];
  size_t length;
} driver;

static void keep_message(void *self, const char *text) {
  driver *d = self;
  int more = snprintf(d->messages + d->length, sizeof d->messages - d->length,
                      "%s\n", text);
  if (more > 0) d->length += (size_t)more;
  if (d->length >= sizeof d->messages) d->length = sizeof d->messages - 1;
}

/* The first line of an answer, and what was said. */
static void answer(driver *d, nabla_status status, const nabla_diag *diag,
                   size_t results) {
  char line[1024];
  if (status) {
    nabla_diag_format(diag, line, sizeof line);
    keep_message(d, line);
  } else {
    d->length = 0;
  }
  printf("%s %zu %zu\n", nabla_status_name(status), status ? 0 : results,
         d->length);
  fwrite(d->messages, 1, d->length, stdout);
}

/* `size` bytes of input in memory of their own; they end the process else. */
static void *read_bytes(size_t size) {
  char *bytes = malloc(size + 1);
  if (!bytes || fread(bytes, 1, size, stdin) != size) exit(3);
  return bytes;
}

static void compile(driver *d, const char *policy, const char *numerics,
                    const char *fusion, size_t size) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_compile_options options = {
      .struct_size = sizeof options,
      .policy = policy,
      .numerics = numerics,
      .no_fusion = strcmp(fusion, "off") ? NULL : "on",
      .plan_guard = d->is_guarded ? "on" : NULL};
  char *text = read_bytes(size);
  nabla_executable_close(d->executable);
  d->executable = NULL;
  d->length = 0;
  const nabla_status status = nabla_compile_text(
      d->compiler, text, size, "program", &options, &d->executable, &diag);
  answer(d, status, &diag, 0);
  free(text);
}

static void read_array(nabla_dense *out) {
  char dtype[16];
  size_t bytes;
  if (scanf("%15s %" SCNu32, dtype, &out->rank) != 2 ||
      out->rank > NABLA_ARRAY_MAX_RANK ||
      nabla_dtype_find(dtype, strlen(dtype), &out->dtype, NULL))
    exit(3);
  for (uint32_t i = 0; i < out->rank; i++)
    if (scanf("%" SCNd64, &out->shape[i]) != 1) exit(3);
  if (scanf("%zu", &bytes) != 1 || getchar() != '\n') exit(3);
  out->data = read_bytes(bytes);
}

static void write_array(const nabla_dense *array) {
  uint64_t bytes = nabla_dtype_bits(array->dtype) / 8;
  printf("%s %" PRIu32, nabla_dtype_name(array->dtype), array->rank);
  for (uint32_t i = 0; i < array->rank; i++) {
    printf(" %" PRId64, array->shape[i]);
    bytes *= (uint64_t)array->shape[i];
  }
  printf(" %" PRIu64 "\n", bytes);
  if (bytes) fwrite(array->data, 1, bytes, stdout);
}

static nabla_status run(driver *d, const char *name, const nabla_dense *inputs,
                        size_t count, nabla_dense *outputs, size_t *results,
                        nabla_diag *diag) {
  const nabla_signature *function =
      d->executable ? nabla_executable_find(d->executable, name) : NULL;
  if (!function || function->result_count > ARRAYS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "no function '%s'", name);
  *results = function->result_count;
  return nabla_executable_run(d->executable, name, inputs, count, outputs,
                              *results, diag);
}

static size_t bytes_of(const nabla_dense *array) {
  size_t bytes = nabla_dtype_bits(array->dtype) / 8;
  for (uint32_t i = 0; i < array->rank; i++) bytes *= (size_t)array->shape[i];
  return bytes;
}

/* Runs a function twice more, into arrays like `outputs`. */
static nabla_status run_again(driver *d, const char *name,
                              const nabla_dense *inputs, size_t count,
                              const nabla_dense *outputs, nabla_diag *diag) {
  static nabla_dense again[ARRAYS];
  const nabla_signature *function = nabla_executable_find(d->executable, name);
  nabla_status status = NABLA_OK;
  size_t results = function->result_count, before = 0;
  for (size_t i = 0; i < results; i++) {
    again[i] = outputs[i];
    again[i].data = aligned_alloc(64, (bytes_of(&outputs[i]) / 64 + 1) * 64);
    if (!again[i].data) exit(3);
  }
  for (int number = 2; number <= 3 && !status; number++) {
    before = requests;
    for (size_t i = 0; i < results; i++)
      memset(again[i].data, 0xcc, bytes_of(&again[i]));
    status = run(d, name, inputs, count, again, &results, diag);
    for (size_t i = 0; i < results && !status; i++)
      if (bytes_of(&again[i]) &&
          memcmp(again[i].data, outputs[i].data, bytes_of(&again[i])))
        status = nabla_fail(diag, NABLA_CORRUPT,
                            "run %d gives another result %zu", number, i);
  }
  if (!status && !d->is_guarded && requests - before != 1)
    status = nabla_fail(diag, NABLA_CORRUPT,
                        "the third run allocates %zu times beside its frame",
                        requests - before - 1);
  for (size_t i = 0; i < results; i++) free(again[i].data);
  return status;
}

/* ---- states ---- */

/* An array of the same shape, with memory of its own. */
static nabla_dense copy_of(const nabla_dense *array) {
  nabla_dense out = *array;
  out.data = aligned_alloc(64, (bytes_of(array) / 64 + 1) * 64);
  if (!out.data) exit(3);
  if (bytes_of(array)) memcpy(out.data, array->data, bytes_of(array));
  return out;
}

static int same(const nabla_dense *a, const nabla_dense *b) {
  return bytes_of(a) == bytes_of(b) &&
         (!bytes_of(a) || !memcmp(a->data, b->data, bytes_of(a)));
}

/* The functions NAME and NAME_s, and what they were given. */
typedef struct twins {
  driver *d;
  const nabla_signature *plain, *stated;
  nabla_session *session;
  nabla_dense inputs[ARRAYS];    /* of NAME   */
  nabla_dense arguments[ARRAYS]; /* of NAME_s */
  nabla_dense wanted[ARRAYS], given[ARRAYS];
  size_t states[ARRAYS], state_count; /* arguments that are states */
  size_t argument_count;
} twins;

static const char *state_name(const twins *t, size_t number) {
  return t->stated->arguments[t->states[number]].state_name;
}

/* Compares all outputs and states with what NAME gave, and gives NAME its last
 * results for the next step. */
static nabla_status compare_step(twins *t, int step, nabla_diag *diag) {
  const size_t outputs = t->stated->result_count;
  for (size_t i = 0; i < outputs; i++)
    if (!same(&t->wanted[i], &t->given[i]))
      return nabla_fail(diag, NABLA_CORRUPT,
                        "step %d with states gives another result %zu", step,
                        i);
  for (size_t i = 0; i < t->state_count; i++) {
    nabla_dense state = copy_of(&t->inputs[t->states[i]]);
    nabla_status status =
        nabla_session_state_get(t->session, state_name(t, i), &state, diag);
    if (!status && !same(&state, &t->wanted[outputs + i]))
      status =
          nabla_fail(diag, NABLA_CORRUPT, "step %d leaves another state '%s'",
                     step, state_name(t, i));
    free(state.data);
    if (status) return status;
    if (bytes_of(&state))
      memcpy(t->inputs[t->states[i]].data, t->wanted[outputs + i].data,
             bytes_of(&state));
  }
  return NABLA_OK;
}

static nabla_status run_step(twins *t, int step, nabla_diag *diag) {
  const size_t outputs = t->stated->result_count;
  nabla_status status = nabla_executable_run(
      t->d->executable, t->plain->name, t->inputs, t->plain->argument_count,
      t->wanted, t->plain->result_count, diag);
  if (status) return status;
  for (size_t i = 0; i < outputs; i++) {
    t->given[i] = copy_of(&t->wanted[i]);
    memset(t->given[i].data, 0xcc, bytes_of(&t->given[i]));
  }
  const size_t before = requests;
  status = nabla_session_run(t->session, t->stated->name, t->arguments,
                             t->argument_count, t->given, outputs, diag);
  const size_t asked = requests - before;
  if (!status) status = compare_step(t, step, diag);
  if (!status && step == 3 && asked && !t->d->is_guarded)
    status =
        nabla_fail(diag, NABLA_CORRUPT,
                   "the third step in a session allocates %zu times", asked);
  for (size_t i = 0; i < outputs; i++) free(t->given[i].data);
  for (size_t i = 0; i < t->plain->result_count; i++)
    nabla_dense_release(t->d->executable, &t->wanted[i]);
  return status;
}

static nabla_status run_twins(twins *t, nabla_diag *diag) {
  nabla_status status =
      nabla_session_create(t->d->executable, NULL, &t->session, diag);
  for (size_t i = 0; i < t->state_count && !status; i++)
    status = nabla_session_state_set(t->session, state_name(t, i),
                                     &t->inputs[t->states[i]], diag);
  for (int step = 1; step <= 3 && !status; step++) {
    memset(t->wanted, 0, sizeof t->wanted);
    status = run_step(t, step, diag);
  }
  nabla_session_close(t->session);
  return status;
}

/* Runs NAME_s, if there is one, beside NAME. */
static nabla_status run_states(driver *d, const char *name,
                               const nabla_dense *inputs, nabla_diag *diag) {
  static twins t;
  char stated[80];
  (void)snprintf(stated, sizeof stated, "%s_s", name);
  t = (twins){.d = d,
              .plain = nabla_executable_find(d->executable, name),
              .stated = nabla_executable_find(d->executable, stated)};
  if (!t.stated) return NABLA_OK;
  for (size_t i = 0; i < t.plain->argument_count; i++) {
    t.inputs[i] = copy_of(&inputs[i]);
    if (*t.stated->arguments[i].state_name)
      t.states[t.state_count++] = i;
    else
      t.arguments[t.argument_count++] = t.inputs[i];
  }
  const nabla_status status = run_twins(&t, diag);
  for (size_t i = 0; i < t.plain->argument_count; i++) free(t.inputs[i].data);
  return status;
}

static void call(driver *d, const char *name, size_t count) {
  static nabla_dense inputs[ARRAYS], outputs[ARRAYS];
  nabla_diag diag = NABLA_DIAG_INIT;
  size_t results = 0;
  if (count > ARRAYS) exit(3);
  for (size_t i = 0; i < count; i++) read_array(&inputs[i]);
  memset(outputs, 0, sizeof outputs);
  d->length = 0;
  nabla_status status = run(d, name, inputs, count, outputs, &results, &diag);
  if (!status) status = run_again(d, name, inputs, count, outputs, &diag);
  if (!status) status = run_states(d, name, inputs, &diag);
  answer(d, status, &diag, results);
  for (size_t i = 0; i < results; i++) {
    if (!status) write_array(&outputs[i]);
    nabla_dense_release(d->executable, &outputs[i]);
  }
  for (size_t i = 0; i < count; i++) free(inputs[i].data);
}

int main(int count, char **arguments) {
  static driver d;
  char line[256], first[64], second[64], fusion[8];
  size_t size;
  nabla_diag diag = NABLA_DIAG_INIT;
  const uint32_t threads =
      count > 1 ? (uint32_t)strtoul(arguments[1], NULL, 10) : 1;
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = "",
                                          .diagnostic = keep_message,
                                          .diagnostic_self = &d};
  const char *guard = getenv("NABLA_PLAN_GUARD");
  d.is_guarded = guard && !strcmp(guard, "1");
  d.environment.allocator = &counting;
  if (nabla_pool_create(threads, NULL, &d.environment.pool, &diag) ||
      nabla_compiler_create(&options, &d.environment, &d.compiler, &diag))
    return 2;
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "compile %63s %63s %7s %zu", first, second, fusion,
               &size) == 4)
      compile(&d, first, second, fusion, size);
    else if (sscanf(line, "call %63s %zu", first, &size) == 2)
      call(&d, first, size);
    else
      return 3;
    fflush(stdout);
  }
  nabla_executable_close(d.executable);
  nabla_compiler_destroy(d.compiler);
  nabla_pool_destroy(d.environment.pool);
  return 0;
}
