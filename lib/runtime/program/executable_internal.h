/* What the files of an executable share. */
#ifndef NABLA_RUNTIME_PROGRAM_EXECUTABLE_INTERNAL_H
#define NABLA_RUNTIME_PROGRAM_EXECUTABLE_INTERNAL_H

#include <stdatomic.h>

#include "lib/runtime/program/calls.h"
#include "lib/runtime/program/code.h"
#include "lib/runtime/program/manifest.h"

/* What is bound to an argument. */
typedef struct nabla_binding {
  int is_bound;
  const void *data[NABLA_WEIGHT_MAX_COMPONENTS];
  int64_t shape[NABLA_ARRAY_MAX_RANK];
} nabla_binding;

struct nabla_run_arena;

/* Nothing here but `idle` and the references changes during a run. */
struct nabla_executable {
  nabla_environment environment;
  nabla_code code;
  nabla_manifest manifest;
  nabla_entry_function *entries;   /* one per function             */
  nabla_binding *bindings;         /* one per port of the manifest */
  nabla_calls *calls;              /* of the manifest              */
  struct nabla_profiler *profiler; /* NULL: no profile is taken    */
  /* Memory of the last run, which the next one takes; NULL while it is taken */
  _Atomic(struct nabla_run_arena *) idle;
  atomic_size_t references; /* the owner's and each session's */
  /* Sessions that are open or have begun a run: with any, nothing is bound. */
  atomic_size_t seals;
  uint64_t weights_key; /* of all that was bound: bound_key.h */
};

/* The executable is freed when the last reference is given up:
 * nabla_executable_close. */
static inline void nabla_executable_retain(nabla_executable *executable) {
  atomic_fetch_add_explicit(&executable->references, 1, memory_order_relaxed);
}

static inline nabla_binding *nabla_executable_binding(
    const nabla_executable *executable, const nabla_port *port) {
  return executable->bindings + (port - executable->manifest.ports);
}

/* NABLA_INVALID_ARGUMENT when the executable has a session, or has run in one:
 * nothing is bound then. */
NABLA_MUST_USE nabla_status nabla_executable_check_open(
    const nabla_executable *executable, nabla_diag *diag);

/* Finds a function; NABLA_INVALID_ARGUMENT naming the nearest. */
NABLA_MUST_USE nabla_status
nabla_executable_seek(const nabla_executable *executable, const char *name,
                      size_t *out_index, nabla_diag *diag);

/* 1 when a weight has the layout and shape of a port, and its dtype where it is
 * dense. */
int nabla_executable_fits(const nabla_port *port,
                          const nabla_weight_desc *weight);

/* Whether a weight fits the argument, as nabla_executable_bind says, and its
 * binding without more checks. */
NABLA_MUST_USE nabla_status nabla_executable_check_fit(
    const nabla_port *port, const nabla_weight_desc *weight, nabla_diag *diag);
void nabla_executable_take(nabla_binding *binding,
                           const nabla_weight_desc *weight);

/* Bytes of one element of a port, whose dtype the manifest has checked. */
static inline size_t nabla_element_size(nabla_dtype dtype) {
  return nabla_dtype_bits(dtype) / 8;
}

#endif
