/* What a run of compiled code needs: the services table, and the memory that
 * the code allocated and has not released. */
#ifndef NABLA_RUNTIME_SESSION_RUN_CONTEXT_H
#define NABLA_RUNTIME_SESSION_RUN_CONTEXT_H

#include "lib/runtime/program/allocations.h"
#include "lib/runtime/program/calls.h"
#include "lib/runtime/session/profile.h"
#include "nabla/environment.h"
#include "nabla/services.h"

typedef struct nabla_session {
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
} nabla_session;

/* Begins a run. `session` must stay where it is until the end. */
void nabla_session_begin(nabla_session *session,
                         const nabla_environment *environment);

/* Adds what the code does from here on to `profiler`; NULL is allowed. */
void nabla_session_profile(nabla_session *session, nabla_profiler *profiler);

/* NABLA_OK, or what the code has reported. */
NABLA_MUST_USE nabla_status nabla_session_status(const nabla_session *session,
                                                 nabla_diag *diag);

/* Frees what is left. */
void nabla_session_end(nabla_session *session);

#endif
