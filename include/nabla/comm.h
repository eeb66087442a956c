/* Communicators: how the ranks of a partitioned program exchange values. Part
 * of libnabla-runtime. docs/SHARDING.md. */
#ifndef NABLA_COMM_H
#define NABLA_COMM_H

#include <stdint.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communicator: all ranks of one process, a thread each. */
typedef struct nabla_comm nabla_comm;

/* The most ranks of nabla_comm_threads. */
#define NABLA_COMM_MAX_RANKS 64u

/* Makes a communicator for `ranks` threads of this process: a session for each
 * rank (nabla_session_options), run by a thread of its own. All ranks make the
 * same runs in the same order. A rank that waits for others longer than
 * NABLA_RANK_TIMEOUT seconds (60 unless the environment says otherwise) fails,
 * and all others with it.
 * @return NABLA_OK, NABLA_NO_MEMORY, or NABLA_INVALID_ARGUMENT: no rank, or
 * more than NABLA_COMM_MAX_RANKS */
NABLA_API NABLA_MUST_USE nabla_status nabla_comm_threads(uint32_t ranks,
                                                         nabla_comm **out,
                                                         nabla_diag *diag);

/* Frees it, once the sessions that use it are closed. NULL is allowed. */
NABLA_API void nabla_comm_destroy(nabla_comm *comm);

/* Number of ranks. */
NABLA_API uint32_t nabla_comm_size(const nabla_comm *comm);

/* Marks the communicator spent: ranks that wait and all later exchanges fail
 * with NABLA_CANCELLED and `why`. A run that fails does this for its rank, so
 * that no other waits for it. The first reason is kept. Thread-safe. */
NABLA_API void nabla_comm_fail(nabla_comm *comm, uint32_t rank,
                               const char *why);

/* NABLA_OK, or why the communicator is spent. Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_comm_status(nabla_comm *comm,
                                                        nabla_diag *diag);

/* Bytes that a rank took from others until now, as the transport counts them.
 * Thread-safe. */
NABLA_API uint64_t nabla_comm_bytes(nabla_comm *comm, uint32_t rank);

#ifdef __cplusplus
}
#endif

#endif
