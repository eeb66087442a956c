/* See ranks.h. */
#include "lib/array/ranks.h"

#include <stdbool.h>
#include <string.h>

#include "lib/base/memory.h"
#include "lib/base/thread.h"
#include "lib/runtime/program/executable_internal.h"
#include "nabla/comm.h"

/* A rank, and what it runs. */
typedef struct ranks_rank {
  nabla_session *session;
  const nabla_session_arrays *arrays; /* of a run */
  pthread_t thread;
  int is_started;
  nabla_status status;
  nabla_diag diag;
} ranks_rank;

struct nabla_ranks {
  const nabla_allocator *allocator;
  nabla_executable *executable;
  nabla_comm *comm;
  bool is_threads; /* `comm` is its own; else this process is one rank */
  uint32_t held;   /* ranks of this process: all of them, or one       */
  ranks_rank at[];
};

uint32_t nabla_ranks_count(const nabla_executable *executable) {
  return executable->manifest.ranks;
}

/* ---- life ---- */

/* Opens the session of each rank of this process. */
static nabla_status open_sessions(nabla_ranks *ranks, nabla_diag *diag) {
  for (uint32_t i = 0; i < ranks->held; i++) {
    /* threads are given the same arrays: nothing to compare */
    const nabla_session_options options = {
        .struct_size = sizeof options,
        .threads = ranks->is_threads ? 1 : 0,
        .comm = ranks->comm,
        .rank = ranks->is_threads ? i : nabla_comm_rank(ranks->comm),
        .check = ranks->is_threads ? NABLA_CHECK_NEVER : NABLA_CHECK_START};
    NABLA_TRY(nabla_session_create(ranks->executable, &options,
                                   &ranks->at[i].session, diag));
  }
  return NABLA_OK;
}

nabla_status nabla_ranks_open(nabla_executable *executable, nabla_comm *comm,
                              const nabla_allocator *allocator,
                              nabla_ranks **out, nabla_diag *diag) {
  void *memory;
  nabla_status status = NABLA_OK;
  const bool is_threads =
      !comm || nabla_comm_rank(comm) == NABLA_COMM_ALL_RANKS;
  const uint32_t held = is_threads ? nabla_ranks_count(executable) : 1;
  NABLA_TRY(nabla_alloc(allocator, 1,
                        sizeof(nabla_ranks) + held * sizeof(ranks_rank),
                        &memory, diag));
  nabla_ranks *ranks = memory;
  ranks->allocator = allocator;
  ranks->executable = executable;
  ranks->comm = comm;
  ranks->is_threads = is_threads;
  ranks->held = held;
  if (is_threads) {
    ranks->comm = NULL;
    status = nabla_comm_threads(held, &ranks->comm, diag);
  }
  if (!status) status = open_sessions(ranks, diag);
  if (status)
    nabla_ranks_close(ranks);
  else
    *out = ranks;
  return status;
}

void nabla_ranks_close(nabla_ranks *ranks) {
  if (!ranks) return;
  for (uint32_t i = 0; i < ranks->held; i++)
    nabla_session_close(ranks->at[i].session);
  if (ranks->is_threads) nabla_comm_destroy(ranks->comm);
  nabla_free(ranks->allocator, ranks, 1,
             sizeof(nabla_ranks) + ranks->held * sizeof(ranks_rank));
}

/* ---- runs ---- */

static void *run_rank(void *self) {
  ranks_rank *rank = self;
  rank->status =
      nabla_session_call(rank->session, "main", rank->arrays, &rank->diag);
  return NULL;
}

/* The failure that made the others fail is not NABLA_CANCELLED. */
static nabla_status take_status(const nabla_ranks *ranks, nabla_diag *diag) {
  const ranks_rank *first = NULL;
  for (uint32_t i = 0; i < ranks->held; i++) {
    const ranks_rank *rank = &ranks->at[i];
    if (rank->status && (!first || (first->status == NABLA_CANCELLED &&
                                    rank->status != NABLA_CANCELLED)))
      first = rank;
  }
  if (first && diag) *diag = first->diag;
  return first ? first->status : NABLA_OK;
}

/* Starts the other ranks of this process, is its first, and waits for all. */
static void run_all(nabla_ranks *ranks) {
  for (uint32_t i = 1; i < ranks->held; i++) {
    ranks_rank *rank = &ranks->at[i];
    rank->is_started = !nabla_thread_start(&rank->thread, NULL, run_rank, rank);
    if (rank->is_started) continue;
    rank->status = nabla_fail(&rank->diag, NABLA_NO_MEMORY,
                              "rank %u: no thread can be started", i);
    nabla_comm_fail(ranks->comm, i, rank->diag.what);
  }
  run_rank(&ranks->at[0]);
  for (uint32_t i = 1; i < ranks->held; i++)
    if (ranks->at[i].is_started) pthread_join(ranks->at[i].thread, NULL);
}

nabla_status nabla_ranks_run(nabla_ranks *ranks,
                             const nabla_session_arrays *arrays,
                             nabla_diag *diag) {
  for (uint32_t i = 0; i < ranks->held; i++) {
    ranks->at[i].arrays = &arrays[i];
    ranks->at[i].status = NABLA_OK;
    ranks->at[i].diag = (nabla_diag)NABLA_DIAG_INIT;
  }
  run_all(ranks);
  return take_status(ranks, diag);
}

uint32_t nabla_ranks_held(const nabla_ranks *ranks) { return ranks->held; }

nabla_comm *nabla_ranks_processes(const nabla_ranks *ranks) {
  return ranks->is_threads ? NULL : ranks->comm;
}
