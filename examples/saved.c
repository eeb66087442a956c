/* Runs a saved program, without a compiler in the process:
 *
 *   saved PROGRAM.so [CHECKPOINT NAME=TENSOR...]
 *
 * binds weights, fills every other argument with small numbers (a size that is
 * known at run time only becomes 1), runs the first function and prints the
 * beginning of each result and how long it took from the start.
 *
 *   cc saved.c $(pkg-config --cflags --libs nabla-runtime) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nabla/executable.h"

#define MOST 64 /* inputs and results */

typedef struct state {
  nabla_executable *executable;
  nabla_model *model;
  nabla_dense inputs[MOST], outputs[MOST];
  size_t input_count, output_count;
} state;

static double milliseconds(void) {
  struct timespec now;
  (void)timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static nabla_status bind_all(state *s, int count, char **arguments,
                             nabla_diag *diag) {
  nabla_status status =
      count ? nabla_model_open(arguments[0], NULL, &s->model, diag) : NABLA_OK;
  for (int i = 1; i < count && !status; i++) {
    nabla_weight weight;
    char *tensor = strchr(arguments[i], '=');
    if (!tensor)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "'%s' does not read NAME=TENSOR", arguments[i]);
    *tensor++ = 0;
    status = nabla_model_find(s->model, tensor, &weight, diag);
    if (!status)
      status = nabla_executable_bind(s->executable, arguments[i], &weight.desc,
                                     diag);
  }
  return status;
}

static int is_named(const char *name, int count, char **arguments) {
  for (int i = 1; i < count; i++)
    if (!strcmp(arguments[i], name)) return 1; /* cut at '=' above */
  return 0;
}

/* An array of f32: -1, -.75, ... .75, -1, ... */
static nabla_status make_input(const nabla_port *port, nabla_dense *out,
                               nabla_diag *diag) {
  size_t elements = 1;
  *out = (nabla_dense){.dtype = port->dtype, .rank = port->rank};
  for (uint32_t i = 0; i < port->rank; i++) {
    out->shape[i] = port->shape[i] == NABLA_DYNAMIC ? 1 : port->shape[i];
    elements *= (size_t)out->shape[i];
  }
  if (port->dtype != NABLA_DTYPE_F32)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "argument '%s' is not of f32: bind it", port->name);
  float *values = malloc(elements * sizeof *values + 1);
  if (!values) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  for (size_t i = 0; i < elements; i++) values[i] = (float)(i % 8) * .25F - 1;
  out->data = values;
  return NABLA_OK;
}

static nabla_status run(state *s, int count, char **arguments,
                        nabla_diag *diag) {
  const nabla_signature *f = nabla_executable_function(s->executable, 0);
  if (!f || f->argument_count > MOST || f->result_count > MOST)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "no function that fits here");
  for (size_t i = 0; i < f->argument_count; i++) {
    const nabla_port *port = &f->arguments[i];
    if (*port->encoding_name || is_named(port->name, count, arguments))
      continue;
    const nabla_status status =
        make_input(port, &s->inputs[s->input_count], diag);
    if (status) return status;
    s->input_count++;
  }
  s->output_count = f->result_count;
  return nabla_executable_run(s->executable, f->name, s->inputs, s->input_count,
                              s->outputs, s->output_count, diag);
}

static void print(const nabla_dense *result) {
  uint64_t elements = 1;
  for (uint32_t i = 0; i < result->rank; i++)
    elements *= (uint64_t)result->shape[i];
  printf("%" PRIu64 " of %s:", elements, nabla_dtype_name(result->dtype));
  for (uint64_t i = 0;
       result->dtype == NABLA_DTYPE_F32 && i < elements && i < 4; i++)
    printf(" %.9g", (double)((const float *)result->data)[i]);
  printf("\n");
}

static void finish(state *s) {
  for (size_t i = 0; i < s->input_count; i++) free(s->inputs[i].data);
  for (size_t i = 0; i < s->output_count; i++)
    nabla_dense_release(s->executable, &s->outputs[i]);
  nabla_executable_close(s->executable);
  nabla_model_close(s->model);
}

int main(int argc, char **argv) {
  const double start = milliseconds();
  state s = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  if (argc < 2) {
    fprintf(stderr, "usage: saved PROGRAM.so [CHECKPOINT NAME=TENSOR...]\n");
    return 2;
  }
  nabla_status status =
      nabla_executable_open(argv[1], NULL, &s.executable, &diag);
  if (!status) status = bind_all(&s, argc - 2, argv + 2, &diag);
  if (!status) status = run(&s, argc - 2, argv + 2, &diag);
  if (status) {
    char line[1024];
    nabla_diag_format(&diag, line, sizeof line);
    fprintf(stderr, "saved: %s\n", line);
  }
  for (size_t i = 0; i < s.output_count && !status; i++) print(&s.outputs[i]);
  if (!status) printf("in %.1f ms\n", milliseconds() - start);
  finish(&s);
  return status != NABLA_OK;
}
