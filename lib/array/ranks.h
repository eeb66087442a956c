/* Ranks of a program that is divided over a mesh: a session of each rank of
 * this process, run by a thread of its own, in one communicator. */
#ifndef NABLA_ARRAY_RANKS_H
#define NABLA_ARRAY_RANKS_H

#include "nabla/session.h"

typedef struct nabla_ranks nabla_ranks;

/* The number of ranks that an executable is for, 0 if it has no mesh. */
uint32_t nabla_ranks_count(const nabla_executable *executable);

/* Opens the sessions: of the rank that this process is in `comm`, or, where
 * that is NULL or one of threads, of all ranks. `allocator` NULL: malloc. */
NABLA_MUST_USE nabla_status nabla_ranks_open(nabla_executable *executable,
                                             nabla_comm *comm,
                                             const nabla_allocator *allocator,
                                             nabla_ranks **out,
                                             nabla_diag *diag);
/* NULL is allowed. */
void nabla_ranks_close(nabla_ranks *ranks);

/* The ranks of this process: how many, and the communicator, if it is one of
 * processes, else NULL. */
uint32_t nabla_ranks_held(const nabla_ranks *ranks);
nabla_comm *nabla_ranks_processes(const nabla_ranks *ranks);

/* Runs "main" on the ranks of this process: `arrays` has those of each, as
 * nabla_session_call takes them. After a failure the ranks can be closed alone.
 * One thread at a time. */
NABLA_MUST_USE nabla_status nabla_ranks_run(nabla_ranks *ranks,
                                            const nabla_session_arrays *arrays,
                                            nabla_diag *diag);

#endif
