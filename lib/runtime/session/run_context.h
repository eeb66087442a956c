/* What a run of compiled code needs: the services table, and the memory that
 * the code allocated and has not released. */
#ifndef NABLA_RUNTIME_SESSION_RUN_CONTEXT_H
#define NABLA_RUNTIME_SESSION_RUN_CONTEXT_H

#include "lib/runtime/program/allocations.h"
#include "lib/runtime/program/calls.h"
#include "lib/runtime/session/profile.h"
#include "nabla/environment.h"
#include "nabla/services.h"

typedef struct nabla_run_context {
  nabla_services services;
  const nabla_allocator *allocator;
  nabla_pool *pool;
  nabla_allocations blocks;
  uint64_t refused; /* bytes of the allocation that failed, or UINT64_MAX */
  uint32_t failed;
  uint32_t failure; /* the first that was reported, and its details */
  const char *where;
  int64_t first, second;
  nabla_profiler *profiler; /* of the executable; NULL: none is taken */
  const char *profiled;     /* what runs, since when */
  double profiled_since;
  nabla_calls *calls;       /* of the executable */
  nabla_status call_status; /* of a custom call that failed */
  char call_what[sizeof((nabla_diag *)0)->what];
} nabla_run_context;

/* Begins a run. `context` must stay where it is until the end. */
void nabla_run_context_begin(nabla_run_context *context,
                             const nabla_environment *environment);

/* Adds what the code does from here on to `profiler`; NULL is allowed. */
void nabla_run_context_profile(nabla_run_context *context,
                               nabla_profiler *profiler);

/* NABLA_OK, or what the code has reported. */
NABLA_MUST_USE nabla_status
nabla_run_context_status(const nabla_run_context *context, nabla_diag *diag);

/* Frees what is left. */
void nabla_run_context_end(nabla_run_context *context);

#endif
