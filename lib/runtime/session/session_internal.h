/* What the files of a session share. Functions are defined in session.c. */
#ifndef NABLA_RUNTIME_SESSION_SESSION_INTERNAL_H
#define NABLA_RUNTIME_SESSION_SESSION_INTERNAL_H

#include "lib/runtime/session/memory_trace.h"
#include "lib/runtime/session/run.h"
#include "nabla/session.h"

/* A state: the first port of its name, and its array. */
typedef struct nabla_session_state_slot {
  const nabla_port *port;
  void *data;
  uint64_t bytes;
} nabla_session_state_slot;

struct nabla_session {
  nabla_executable *executable;     /* a reference */
  const nabla_allocator *allocator; /* the executable's */
  nabla_pool *pool;                 /* of its runs */
  nabla_pool *own_pool;             /* NULL: `pool` is another's */
  nabla_call_rank rank;             /* of its runs */
  nabla_session_check check;        /* of its ranks */
  int is_checked;                   /* they were compared */
  nabla_run_arena arena;            /* memory of its runs */
  nabla_memory_trace trace;         /* of them, where a profile is taken */
  nabla_allocations blocks;         /* of the states */
  nabla_session_state_slot *states;
  size_t state_count, state_room;
  void **by_port; /* of each port of the manifest: its state's array, or NULL */
  void *frame;    /* for a run of any function */
  size_t frame_words;
  /* Of a program for several ranks, of each port of the manifest: this rank's
   * piece of what is bound or given to it; NULL: all are whole. */
  nabla_binding *pieces;
  uint64_t piece_bytes; /* of pieces that were copied */
  int is_spent;         /* a run failed in code that writes states */
  int is_sealing;       /* it counts in `seals` of the executable */
  int has_begun;        /* the code of a run */
  atomic_int is_busy;
};

/* Takes the session for the calling thread until nabla_session_leave.
 * @return NABLA_INVALID_ARGUMENT  it is taken */
NABLA_MUST_USE nabla_status nabla_session_enter(nabla_session *session,
                                                nabla_diag *diag);
void nabla_session_leave(nabla_session *session);

/* Finds a state; NABLA_INVALID_ARGUMENT naming the nearest. */
NABLA_MUST_USE nabla_status nabla_session_seek(const nabla_session *session,
                                               const char *name,
                                               nabla_session_state_slot **out,
                                               nabla_diag *diag);

#endif
