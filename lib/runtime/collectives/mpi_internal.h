/* What the files of nabla_comm_mpi share. */
#ifndef NABLA_RUNTIME_COLLECTIVES_MPI_INTERNAL_H
#define NABLA_RUNTIME_COLLECTIVES_MPI_INTERNAL_H

#include <pthread.h>

#include "lib/runtime/collectives/comm_internal.h"
#include "lib/runtime/collectives/mpi_abi.h"

#define NABLA_MPI_SMALL 4096u /* bytes that go along with a header */
#define NABLA_MPI_SLOT  (NABLA_MPI_SMALL + 64u)
#define NABLA_MPI_CHUNK (UINT64_C(1) << 30) /* bytes of one message, an int */
#define NABLA_MPI_EXIT  7 /* of a process that its watchdog ends */

/* The first message of a member to each other one in an exchange. */
typedef struct nabla_mpi_header {
  uint64_t key;    /* nabla_collective_key */
  uint32_t source; /* of the exchange: who sends to this member */
  uint32_t bytes;  /* that follow in the same message */
} nabla_mpi_header;

/* Why a communicator is spent, as it is told to others. */
typedef struct nabla_mpi_notice {
  uint32_t rank;
  char why[160];
} nabla_mpi_notice;

typedef struct nabla_mpi_comm {
  nabla_comm base;
  const nabla_mpi_abi *abi;
  nabla_mpi *mpi;
  uint32_t spins;       /* tests before a wait yields */
  int is_behind;        /* of the exchange */
  uint64_t chunk;       /* NABLA_MPI_CHUNK, less in tests */
  pthread_mutex_t lock; /* of calls of MPI, and of what follows */
  uint32_t *peers;      /* of each request of an exchange: the rank that is
                           waited for */
  size_t peer_count, peer_room;
  uint8_t *slots;   /* of headers: to send, then received, for each rank */
  uint8_t *scratch; /* of pieces: kept, as large as any exchange needed it */
  size_t scratch_size;
  nabla_mpi_notice heard; /* what NABLA_MPI_NOTICE receives */
  _Atomic int is_spent;
  pthread_mutex_t why_lock;
  nabla_mpi_notice why; /* of the first failure */
} nabla_mpi_comm;

/* mpi_library.c: which library this process uses, and its handle of dlopen,
 * which stays open. @return NABLA_UNSUPPORTED, NABLA_INVALID_ARGUMENT */
NABLA_MUST_USE nabla_status nabla_mpi_choose(const nabla_mpi_abi **out,
                                             void **library, nabla_diag *diag);

/* mpi_watch.c: ends the process with NABLA_MPI_EXIT unless the watch is ended
 * within `seconds`: of calls of MPI that may wait for ever. `what` is said
 * then. */
typedef struct nabla_mpi_watch nabla_mpi_watch;
NABLA_MUST_USE nabla_mpi_watch *nabla_mpi_watch_begin(time_t seconds,
                                                      const char *what);
void nabla_mpi_watch_end(nabla_mpi_watch *watch); /* NULL is allowed */

/* mpi_exchange.c: carries an exchange out. With the lock. */
NABLA_MUST_USE nabla_status nabla_mpi_exchange(nabla_mpi_comm *comm,
                                               const nabla_collective *c,
                                               nabla_diag *diag);

/* mpi.c: waits until NABLA_MPI_EXCHANGE is complete. With the lock.
 * @return NABLA_CANCELLED where the communicator is spent */
NABLA_MUST_USE nabla_status nabla_mpi_wait(nabla_mpi_comm *comm,
                                           nabla_diag *diag);
/* Spends the communicator for a reason of this rank, and tells others. With the
 * lock. */
NABLA_MUST_USE nabla_status nabla_mpi_give_up(nabla_mpi_comm *comm,
                                              const char *why,
                                              nabla_diag *diag);
NABLA_MUST_USE nabla_status nabla_mpi_fail(nabla_mpi_comm *comm, int error,
                                           nabla_diag *diag);

#endif
