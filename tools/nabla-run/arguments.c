/* Where the arguments of the function come from: checkpoints and .npy files. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/edit_distance.h"
#include "tools/nabla-quant/cli.h"
#include "tools/nabla-run/npy.h"
#include "tools/nabla-run/run.h"

/* The model at a path of `length` bytes, opened once. */
static nabla_status open_model(run *r, const char *path, size_t length,
                               nabla_model **out, nabla_diag *diag) {
  for (size_t i = 0; i < r->model_count; i++)
    if (strlen(r->models[i].path) == length &&
        !memcmp(r->models[i].path, path, length))
      return *out = r->models[i].model, NABLA_OK;
  char *copy = strndup(path, length);
  if (!copy) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a path");
  const nabla_status status =
      nabla_model_open(copy, &r->environment, out, diag);
  if (status)
    free(copy);
  else
    r->models[r->model_count++] = (run_model){copy, *out};
  return status;
}

/* Where FILE ends in "FILE:TENSOR": both may hold ':'. At the first ':' behind
 * a path that exists, else at the last. */
static const char *end_of_file(const char *rest) {
  for (const char *colon = strchr(rest, ':'); colon;
       colon = strchr(colon + 1, ':')) {
    char *path = strndup(rest, (size_t)(colon - rest));
    const int is_there = path && !access(path, F_OK);
    free(path);
    if (is_there && colon[1]) return colon;
  }
  return strrchr(rest, ':');
}

static nabla_status find_weight(run *r, const run_pair *bind, nabla_weight *out,
                                nabla_diag *diag) {
  const char *colon = end_of_file(bind->rest);
  if (!colon || colon == bind->rest || !colon[1]) {
    nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                     "--bind '%s=%s' does not say which tensor",
                                     bind->name, bind->rest);
    nabla_diag_set_next(diag, "write --bind NAME=FILE:TENSOR");
    return status;
  }
  nabla_model *model;
  NABLA_TRY(
      open_model(r, bind->rest, (size_t)(colon - bind->rest), &model, diag));
  return nabla_model_find(model, colon + 1, out, diag);
}

/* Digits only: the place of an argument. */
static int is_number(const char *text, size_t number) {
  char digits[24];
  snprintf(digits, sizeof digits, "%zu", number);
  return !strcmp(text, digits);
}

/* The argument that `name` means: a name counts before a place. */
static const char *argument_of(const run *r, const char *name) {
  const nabla_signature *f = r->function;
  for (size_t i = 0; i < f->argument_count; i++)
    if (!strcmp(f->arguments[i].name, name)) return name;
  for (size_t i = 0; i < f->argument_count; i++)
    if (is_number(name, i)) return f->arguments[i].name;
  return name;
}

static nabla_status bind_pairs(run *r, nabla_diag *diag) {
  for (size_t i = 0; i < r->settings->bind_count; i++) {
    const run_pair *bind = &r->settings->binds[i];
    nabla_weight weight;
    NABLA_TRY(find_weight(r, bind, &weight, diag));
    NABLA_TRY(nabla_executable_bind(r->executable, argument_of(r, bind->name),
                                    &weight.desc, diag));
    r->bound_bytes += weight.tensor.stored_bytes;
    r->copied_bytes += weight.copied_bytes;
  }
  return NABLA_OK;
}

#define MOST_UNUSED 8 /* tensors that are named one by one */

/* What does not fit, and tensors that no argument is named like. */
static void report(void *self, nabla_bind_kind kind, const char *name,
                   size_t length, const char *what) {
  run *r = self;
  char line[400];
  if (kind == NABLA_BIND_MISSING)
    (void)snprintf(line, sizeof line, "argument '%.200s' has no tensor", name);
  else if (kind == NABLA_BIND_DIFFERS)
    (void)snprintf(line, sizeof line, "%.300s", what);
  else if (kind == NABLA_BIND_UNUSED && r->unused_named++ < MOST_UNUSED)
    (void)snprintf(line, sizeof line, "note: tensor '%.*s' is not used",
                   (int)(length < 200 ? length : 200), name);
  else
    return;
  tool_say(r->tool, line);
}

/* Arguments of --bind before, so that they are not missing, and after, so that
 * they count. */
static nabla_status bind_all(run *r, nabla_diag *diag) {
  const char *path = r->settings->bind_all;
  const nabla_bind_options options = {
      .struct_size = sizeof options, .report = report, .self = r};
  nabla_bind_summary found;
  NABLA_TRY(bind_pairs(r, diag));
  if (!path) return NABLA_OK;
  NABLA_TRY(open_model(r, path, strlen(path), &r->all, diag));
  NABLA_TRY(nabla_executable_bind_model(r->executable, r->all, &options, &found,
                                        diag));
  if (r->unused_named > MOST_UNUSED) {
    char line[80];
    (void)snprintf(line, sizeof line, "note: and %zu more tensors",
                   r->unused_named - MOST_UNUSED);
    tool_say(r->tool, line);
  }
  r->bound_bytes = found.bound_bytes;
  r->copied_bytes = found.copied_bytes;
  return bind_pairs(r, diag);
}

static int is_bound(const run *r, const nabla_port *port) {
  for (size_t i = 0; i < r->settings->bind_count; i++)
    if (!strcmp(argument_of(r, r->settings->binds[i].name), port->name))
      return 1;
  return r->all && !port->is_donated &&
         nabla_checkpoint_find(nabla_model_borrow_checkpoint(r->all),
                               port->name, strlen(port->name)) != SIZE_MAX;
}

/* Index of the --input for an argument, or the number of inputs: its name
 * counts before its place. */
static size_t find_input(const run *r, size_t argument) {
  const run_settings *s = r->settings;
  const char *name = r->function->arguments[argument].name;
  for (size_t i = 0; i < s->input_count; i++)
    if (!strcmp(s->inputs[i].name, name)) return i;
  for (size_t i = 0; i < s->input_count; i++)
    if (is_number(s->inputs[i].name, argument)) return i;
  return s->input_count;
}

static nabla_status fail_missing(const nabla_port *port, nabla_diag *diag) {
  nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                   "argument '%s' is not given", port->name);
  if (port->component_count)
    nabla_diag_set_next(diag, "--bind %s=FILE:TENSOR, or --bind-all MODEL",
                        port->name);
  else
    nabla_diag_set_next(diag, "--input %s=FILE.npy", port->name);
  return status;
}

/* An --input that names no argument which takes one. */
static nabla_status fail_unused(const run *r, const char *name,
                                nabla_diag *diag) {
  nabla_nearest near = nabla_nearest_begin(name, strlen(name));
  for (size_t i = 0; i < r->function->argument_count; i++) {
    const nabla_port *port = &r->function->arguments[i];
    if (!strcmp(name, port->name) || is_number(name, i))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "--input %s: argument '%s' takes no input%s", name,
                        port->name,
                        is_bound(r, port)   ? ", it is bound"
                        : *port->state_name ? ", it is a state: use --state"
                                            : "");
    nabla_nearest_offer(&near, port->name, strlen(port->name));
  }
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "--input %s: function '%s' has no such argument", name,
                 r->function->name);
  if (near.best) nabla_diag_set_next(diag, "did you mean '%s'?", near.best);
  return status;
}

static nabla_status read_inputs(run *r, nabla_diag *diag) {
  const run_settings *s = r->settings;
  uint8_t used[RUN_MAX_PORTS] = {0};
  for (size_t i = 0; i < r->function->argument_count; i++) {
    const nabla_port *port = &r->function->arguments[i];
    int dense = !*port->encoding_name;
    if (is_bound(r, port) || *port->state_name ||
        (!dense && !port->component_count))
      continue;
    size_t input = dense ? find_input(r, i) : s->input_count;
    if (!dense && find_input(r, i) < s->input_count) {
      nabla_status status =
          nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                     "--input %s: the argument is packed (%s)", port->name,
                     port->encoding_name);
      nabla_diag_set_next(diag, "--bind %s=FILE:TENSOR", port->name);
      return status;
    }
    if (input == s->input_count) return fail_missing(port, diag);
    used[input] = 1;
    const char *rest = s->inputs[input].rest;
    nabla_dense *to = &r->inputs[r->input_count];
    NABLA_TRY(run_is_random(rest)
                  ? run_make_random(rest, port, i, &r->environment, to, diag)
                  : npy_read(rest, &r->environment, to, diag));
    r->is_donated[r->input_count++] = (uint8_t)port->is_donated;
    NABLA_TRY(run_take_stack(r, port, r->input_count - 1, diag));
  }
  for (size_t i = 0; i < s->input_count; i++)
    if (!used[i]) return fail_unused(r, s->inputs[i].name, diag);
  return NABLA_OK;
}

nabla_status run_take_arguments(run *r, nabla_diag *diag) {
  if (r->function->argument_count > RUN_MAX_PORTS ||
      r->function->result_count > RUN_MAX_PORTS)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "function '%s' has more than %d arguments or results",
                      r->function->name, RUN_MAX_PORTS);
  NABLA_TRY(bind_all(r, diag));
  return read_inputs(r, diag);
}

void run_release(run *r) {
  for (size_t i = 0;
       r->function && i < r->function->result_count && i < RUN_MAX_PORTS; i++)
    if (r->results[i].data) nabla_dense_release(r->executable, &r->results[i]);
  run_close_session(r);
  for (size_t i = 0; i < r->input_count; i++) {
    npy_release(&r->environment, &r->inputs[i]);
    free(r->given[i]);
  }
  run_release_program(r);
  for (size_t i = 0; i < r->model_count; i++) {
    nabla_model_close(r->models[i].model);
    free((char *)r->models[i].path);
  }
  nabla_pool_destroy(r->environment.pool);
}
