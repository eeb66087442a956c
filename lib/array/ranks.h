/* Runs of a program that is divided over a mesh: a session of each rank, on a
 * thread of its own, in one communicator. */
#ifndef NABLA_ARRAY_RANKS_H
#define NABLA_ARRAY_RANKS_H

#include "nabla/session.h"

typedef struct nabla_ranks nabla_ranks;

/* The number of ranks that an executable is for, 1 if it is not divided. */
uint32_t nabla_ranks_count(const nabla_executable *executable);

/* Opens the sessions. `allocator` NULL: malloc. */
NABLA_MUST_USE nabla_status nabla_ranks_open(nabla_executable *executable,
                                             const nabla_allocator *allocator,
                                             nabla_ranks **out,
                                             nabla_diag *diag);
/* NULL is allowed. */
void nabla_ranks_close(nabla_ranks *ranks);

/* Runs "main" on all ranks, with whole inputs; the outputs, as those of
 * nabla_session_run, are rank 0's, which has them whole. After a failure the
 * ranks can be closed alone. One thread at a time. */
NABLA_MUST_USE nabla_status nabla_ranks_run(
    nabla_ranks *ranks, const nabla_dense *inputs, size_t input_count,
    nabla_dense *outputs, size_t output_count, nabla_diag *diag);

#endif
