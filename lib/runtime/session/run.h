/* Inside the library: one run of a function, in the memory of a session. */
#ifndef NABLA_RUNTIME_SESSION_RUN_H
#define NABLA_RUNTIME_SESSION_RUN_H

#include "lib/runtime/program/executable_internal.h"
#include "lib/runtime/session/run_context.h"
#include "nabla/session.h"

/* What a run works with. */
typedef struct nabla_run_room {
  nabla_run_arena *arena;
  nabla_pool *pool; /* NULL: the calling thread */
  /* Per port of the manifest: the state that it is, or NULL. NULL: there is no
   * session, and functions with states are refused. */
  void *const *states;
  nabla_memory_trace *trace; /* of the session; NULL: there is none */
  void *frame;          /* nabla_run_frame_words of the function, or more */
  int *began;           /* set to 1 when the code is called */
  nabla_call_rank rank; /* of the session */
  /* Per port: pieces.h. NULL: the program is not divided. */
  nabla_binding *pieces;
  nabla_allocations *blocks; /* for pieces of unknown size */
  const nabla_allocator *allocator;
  /* Whose ranks compare what they run; NULL: none do. */
  nabla_session *compared;
} nabla_run_room;

/* The arrays of a run: dense ones, or those of nabla_session_call. */
typedef struct nabla_run_arrays {
  const nabla_dense *inputs;
  size_t input_count;
  nabla_dense *outputs;
  size_t output_count;
  const nabla_session_arrays *call; /* NULL: those above */
} nabla_run_arrays;

/* Words of 8 bytes that a run of the function needs as its frame. */
size_t nabla_run_frame_words(const nabla_signature *function);

/* compare_ranks.c: compares what the ranks of a session run, where its options
 * say so. @return NABLA_INVALID_ARGUMENT where they differ, NABLA_CANCELLED */
NABLA_MUST_USE nabla_status
nabla_session_compare_ranks(nabla_session *session, size_t function,
                            const nabla_run_arrays *arrays, nabla_diag *diag);

/* Runs function `index` in `room`; else as nabla_executable_run, or as
 * nabla_session_call. */
NABLA_MUST_USE nabla_status
nabla_run_function(const nabla_executable *executable, size_t index,
                   const nabla_run_room *room, const nabla_run_arrays *arrays,
                   nabla_diag *diag);

#endif
