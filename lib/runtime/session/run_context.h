/* What a run of compiled code needs: the services table, and the memory that
 * the code allocated and has not released. */
#ifndef NABLA_RUNTIME_SESSION_RUN_CONTEXT_H
#define NABLA_RUNTIME_SESSION_RUN_CONTEXT_H

#include "lib/runtime/program/calls.h"
#include "lib/runtime/session/memory_trace.h"
#include "lib/runtime/session/plan_guard.h"
#include "lib/runtime/session/profile.h"
#include "lib/runtime/session/run_arena.h"
#include "nabla/environment.h"
#include "nabla/services.h"

/* Memory of the caller's in which a result may be computed: `bytes` at
 * NABLA_SERVICES_ALIGNMENT that overlap nothing else of the run. `data` is NULL
 * where there is none, or once the code has asked for it. */
typedef struct nabla_result_block {
  void *data;
  uint64_t bytes;
} nabla_result_block;

typedef struct nabla_run_context {
  nabla_services services;
  const nabla_allocator *allocator;
  nabla_pool *pool;
  nabla_run_arena *arena;      /* outlives the run             */
  nabla_result_block *results; /* `result_count`; NULL is none */
  size_t result_count;
  /* Of results that are given to the caller; NULL: they come from `arena`. */
  const nabla_allocator *result_allocator;
  nabla_allocations given; /* from it */
  nabla_plan_guard guard;
  nabla_memory_trace *trace; /* of the session; NULL: none is made */
  uint64_t refused; /* bytes of the allocation that failed, or UINT64_MAX */
  uint32_t failed;
  uint32_t failure; /* the first that was reported, and its details */
  const char *where;
  int64_t first, second;
  nabla_profiler *profiler; /* of the executable; NULL: none is taken */
  const char *profiled;     /* what runs, since when */
  double profiled_since;
  nabla_calls *calls;       /* of the executable */
  nabla_call_rank rank;     /* of the session */
  nabla_status call_status; /* of a custom call that failed */
  char call_what[sizeof((nabla_diag *)0)->what];
} nabla_run_context;

/* Begins a run, which allocates from `arena`. `context` must stay where it is
 * until the end. */
void nabla_run_context_begin(nabla_run_context *context,
                             const nabla_environment *environment,
                             nabla_run_arena *arena);

/* Memory for a result that the caller will own; NULL when there is none. */
void *nabla_run_context_allocate_result(nabla_run_context *context,
                                        uint64_t bytes);

/* The blocks of which the caller can own one, and that which it owns from here
 * on. */
const nabla_allocations *nabla_run_context_result_blocks(
    const nabla_run_context *context);
void nabla_run_context_take_result(nabla_run_context *context, void *memory);

/* Adds what the code does from here on to `profiler`; NULL is allowed. */
void nabla_run_context_profile(nabla_run_context *context,
                               nabla_profiler *profiler);

/* Checks parts of planned blocks from here on (plan_guard.h), or does not; a
 * run begins as the environment says. */
void nabla_run_context_guard(nabla_run_context *context, int is_on);

/* Adds the arrays that the code says it holds to `trace`; NULL is allowed. */
void nabla_run_context_trace(nabla_run_context *context,
                             nabla_memory_trace *trace);

/* NABLA_OK, or what the code has reported. */
NABLA_MUST_USE nabla_status
nabla_run_context_status(const nabla_run_context *context, nabla_diag *diag);

/* Keeps memory that is left in the arena, for the next run, and frees results
 * that nobody took. */
void nabla_run_context_end(nabla_run_context *context);

#endif
