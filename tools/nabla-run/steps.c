/* Steps of a function (--steps): the session, the initial values of states, and
 * inputs that differ from step to step. */
#include <stdlib.h>
#include <string.h>

#include "tools/nabla-run/npy.h"
#include "tools/nabla-run/run.h"

static int has_states(const nabla_signature *function) {
  for (size_t i = 0; i < function->argument_count; i++)
    if (*function->arguments[i].state_name) return 1;
  return 0;
}

/* ---- states ---- */

static const nabla_port *find_state(const run *r, const char *name) {
  for (size_t i = 0; i < nabla_session_state_count(r->session); i++)
    if (!strcmp(nabla_session_state(r->session, i)->state_name, name))
      return nabla_session_state(r->session, i);
  return NULL;
}

/* Whether a session has but a piece of the state. */
static int is_divided(const run *r, const nabla_port *state) {
  for (size_t i = 0; i < r->function->argument_count; i++) {
    const nabla_port *whole = &r->function->arguments[i];
    if (strcmp(whole->state_name, state->state_name)) continue;
    for (uint32_t d = 0; d < whole->rank && d < state->rank; d++)
      if (whole->shape[d] != state->shape[d]) return 1;
  }
  return 0;
}

/* A file holds whole arrays. */
static nabla_status check_whole(const run *r, const char *option,
                                const run_pair *pairs, size_t count,
                                nabla_diag *diag) {
  for (size_t i = 0; i < count; i++) {
    const nabla_port *port = find_state(r, pairs[i].name);
    if (!port || !is_divided(r, port)) continue;
    const nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED,
                   "--%s %s: the state is divided, each rank has a piece of it",
                   option, pairs[i].name);
    nabla_diag_set_next(diag,
                        "return it as a result, or run the program on one "
                        "device");
    return status;
  }
  return NABLA_OK;
}

static nabla_status check_states(const run *r, nabla_diag *diag) {
  const run_settings *s = r->settings;
  NABLA_TRY(check_whole(r, "state", s->states, s->state_count, diag));
  return check_whole(r, "keep-state", s->kept_states, s->kept_state_count,
                     diag);
}

static nabla_status read_states(run *r, nabla_diag *diag) {
  for (size_t i = 0; i < r->settings->state_count; i++) {
    const run_pair *pair = &r->settings->states[i];
    const nabla_port *port = find_state(r, pair->name);
    if (port && run_is_random(pair->rest))
      NABLA_TRY(run_make_random(pair->rest, port, i, &r->environment,
                                &r->states[i], diag));
    else
      NABLA_TRY(npy_read(pair->rest, &r->environment, &r->states[i], diag));
  }
  return NABLA_OK;
}

nabla_status run_open_session(run *r, nabla_diag *diag) {
  const run_settings *s = r->settings;
  if (!has_states(r->function) && (s->state_count || s->kept_state_count)) {
    const nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT, "function '%s' has no states",
                   r->function->name);
    nabla_diag_set_next(diag, "leave --state and --keep-state out");
    return status;
  }
  const int has_ranks = s->ranks || r->comm;
  if (!has_states(r->function) && !run_is_profiled(r) && !s->again &&
      !has_ranks)
    return NABLA_OK;
  NABLA_TRY(has_ranks
                ? run_open_ranks(r, diag)
                : nabla_session_create(r->executable, NULL, &r->session, diag));
  NABLA_TRY(check_states(r, diag));
  return read_states(r, diag);
}

nabla_status run_reset(run *r, nabla_session *session, nabla_diag *diag) {
  if (!session) return NABLA_OK;
  NABLA_TRY(nabla_session_state_zero(session, NULL, diag));
  for (size_t i = 0; i < r->settings->state_count; i++)
    NABLA_TRY(nabla_session_state_set(session, r->settings->states[i].name,
                                      &r->states[i], diag));
  return NABLA_OK;
}

nabla_status run_keep_states(run *r, nabla_diag *diag) {
  for (size_t i = 0; i < r->settings->kept_state_count; i++) {
    const run_pair *pair = &r->settings->kept_states[i];
    nabla_dense value = {0};
    NABLA_TRY(nabla_session_state_get(r->session, pair->name, &value, diag));
    const nabla_status status =
        npy_write(pair->rest, &value, 1, &r->environment, diag);
    nabla_dense_release(r->executable, &value);
    if (status) return status;
  }
  return NABLA_OK;
}

void run_close_session(run *r) {
  nabla_session_close(r->session);
  run_close_ranks(r);
  for (size_t i = 0; i < r->settings->state_count; i++)
    if (r->states[i].data) npy_release(&r->environment, &r->states[i]);
}

/* ---- inputs ---- */

nabla_status run_take_stack(run *r, const nabla_port *port, size_t input,
                            nabla_diag *diag) {
  const nabla_dense *array = &r->inputs[input];
  if (!r->settings->steps || array->rank != port->rank + 1) return NABLA_OK;
  if (array->shape[0] != (int64_t)r->settings->steps)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--input %s has parts for %lld steps; --steps is %llu",
                      port->name, (long long)array->shape[0],
                      (unsigned long long)r->settings->steps);
  r->is_stacked[input] = 1;
  return NABLA_OK;
}

size_t run_bytes_of(const nabla_dense *array) {
  size_t bytes = nabla_dtype_bits(array->dtype) / 8;
  for (uint32_t i = 0; i < array->rank; i++) bytes *= (size_t)array->shape[i];
  return bytes;
}

/* Makes a donated input the copy of it that the next run may overwrite. */
static nabla_status give(run *r, size_t number, nabla_dense *input,
                         nabla_diag *diag) {
  const size_t bytes = run_bytes_of(input);
  if (!r->given[number]) r->given[number] = malloc(bytes ? bytes : 1);
  if (!r->given[number])
    return nabla_fail(diag, NABLA_NO_MEMORY,
                      "no memory for a copy of input %zu", number);
  if (bytes) memcpy(r->given[number], input->data, bytes);
  input->data = r->given[number];
  return NABLA_OK;
}

/* Part `step` of a stack, as an array of its own. */
static nabla_dense part_of(const nabla_dense *stack, uint64_t step) {
  nabla_dense part = {.dtype = stack->dtype, .rank = stack->rank - 1};
  for (uint32_t i = 0; i < part.rank; i++) part.shape[i] = stack->shape[i + 1];
  part.data = (char *)stack->data + step * run_bytes_of(&part);
  return part;
}

/* ---- runs ---- */

static void release(const run *r, nabla_dense *results) {
  for (size_t i = 0; i < r->function->result_count; i++)
    if (results[i].data) nabla_dense_release(r->executable, &results[i]);
  memset(results, 0, r->function->result_count * sizeof *results);
}

int run_gives_any_size(const nabla_signature *f) {
  for (size_t i = 0; i < f->result_count; i++)
    for (uint32_t d = 0; d < f->results[i].rank; d++)
      if (f->results[i].shape[d] == NABLA_DYNAMIC) return 1;
  return 0;
}

static nabla_status run_step(const run *r, nabla_session *session,
                             const nabla_dense *inputs, nabla_dense *results,
                             nabla_diag *diag) {
  const nabla_signature *f = r->function;
  if (session)
    return nabla_session_run(session, f->name, inputs, r->input_count, results,
                             f->result_count, diag);
  return nabla_executable_run(r->executable, f->name, inputs, r->input_count,
                              results, f->result_count, diag);
}

nabla_status run_session_steps(run *r, nabla_session *session,
                               nabla_dense *results, nabla_diag *diag) {
  const uint64_t steps = r->settings->steps ? r->settings->steps : 1;
  const int is_released = steps > 1 && run_gives_any_size(r->function);
  nabla_dense inputs[RUN_MAX_PORTS];
  for (uint64_t step = 0; step < steps; step++) {
    for (size_t i = 0; i < r->input_count; i++) {
      inputs[i] =
          r->is_stacked[i] ? part_of(&r->inputs[i], step) : r->inputs[i];
      if (r->is_donated[i]) NABLA_TRY(give(r, i, &inputs[i], diag));
    }
    if (is_released) release(r, results);
    NABLA_TRY(run_step(r, session, inputs, results, diag));
  }
  return NABLA_OK;
}

nabla_status run_steps_into(run *r, nabla_diag *diag) {
  NABLA_TRY(run_reset(r, r->session, diag));
  const double start = run_milliseconds();
  nabla_status status = run_begin_ranks(r, diag);
  if (!status) status = run_session_steps(r, r->session, r->results, diag);
  status = run_end_ranks(r, status, diag);
  r->run_ms = run_milliseconds() - start;
  return status;
}

nabla_status run_steps(run *r, nabla_diag *diag) {
  release(r, r->results);
  return run_steps_into(r, diag);
}
