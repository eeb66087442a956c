/* Communicators: how the ranks of a partitioned program exchange values. Part
 * of libnabla-runtime. docs/SHARDING.md. */
#ifndef NABLA_COMM_H
#define NABLA_COMM_H

#include <stdint.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communicator: the ranks are threads of one process (nabla_comm_threads), or
 * one rank is this process and the others are other processes (nabla_comm_mpi).
 */
typedef struct nabla_comm nabla_comm;

/* The most ranks of a communicator. */
#define NABLA_COMM_MAX_RANKS 64u

/* nabla_comm_rank of a communicator whose ranks are all of this process. */
#define NABLA_COMM_ALL_RANKS UINT32_MAX

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

/* Makes a communicator for the processes that a launcher of MPI started
 * (`mpirun -n N PROGRAM`): this process is one rank, and all of them call it.
 * The library of MPI is opened here: the one that the process has loaded, else
 * that of the launcher (OMPI_COMM_WORLD_RANK: Open MPI, PMI_RANK: MPICH), else
 * that of the variable NABLA_MPI, `openmpi` or `mpich`. It is initialized
 * unless the process has done that, and ended with the last communicator, after
 * which none can be made. Exchanges post messages and test them; no call of MPI
 * blocks, but for MPI_Init and MPI_Finalize, out of which the process leaves
 * with exit code 7 after NABLA_RANK_TIMEOUT seconds. Of a host with other
 * threads that call MPI at the same time, MPI_THREAD_MULTIPLE is needed.
 *
 * A rank that fails tells the others, whose runs return NABLA_CANCELLED. A
 * communicator that was spent leaves without MPI_Finalize: end the job then
 * (nabla_comm_abort, or an exit code other than 0). A process that calls exit
 * before its communicator is destroyed aborts the job.
 * @return NABLA_OK, NABLA_NO_MEMORY
 *         NABLA_INVALID_ARGUMENT  no launcher and no NABLA_MPI, two libraries
 *                                 are loaded, or one that is not the
 *                                 launcher's; too many ranks; MPI was ended
 *         NABLA_UNSUPPORTED       the library is not installed, or lacks a
 *                                 function
 *         NABLA_CANCELLED         another rank failed or did not come */
NABLA_API NABLA_MUST_USE nabla_status nabla_comm_mpi(nabla_comm **out,
                                                     nabla_diag *diag);

/* Frees it, once the sessions that use it are closed. NULL is allowed. */
NABLA_API void nabla_comm_destroy(nabla_comm *comm);

/* Number of ranks. */
NABLA_API uint32_t nabla_comm_size(const nabla_comm *comm);

/* The rank that this process is, which the sessions of the communicator have;
 * NABLA_COMM_ALL_RANKS of nabla_comm_threads. */
NABLA_API uint32_t nabla_comm_rank(const nabla_comm *comm);

/* Number of ranks that run on the CPUs of this one: on its machine, and not
 * bound to others. A rank computes well with (usable CPUs / this number)
 * threads. */
NABLA_API uint32_t nabla_comm_local_size(const nabla_comm *comm);

/* Ends all processes of the communicator, this one too, with this exit code
 * (MPI_Abort). Returns where all ranks are threads, whose process is the
 * caller's to end. */
NABLA_API void nabla_comm_abort(nabla_comm *comm, int exit_code);

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
