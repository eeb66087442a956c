/* What the communicator of MPI asks of an MPI library. There are two, whose
 * handles, constants and prototypes differ: mpi_open.c and mpi_mpich.c, which
 * never include mpi.h. Calls only post and test; none waits. Errors are codes
 * of MPI, of which 0 is none. */
#ifndef NABLA_RUNTIME_COLLECTIVES_MPI_ABI_H
#define NABLA_RUNTIME_COLLECTIVES_MPI_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"

/* A library that was opened: its functions, a communicator, and requests. */
typedef struct nabla_mpi nabla_mpi;

/* Requests that are tested together. */
typedef enum nabla_mpi_set {
  NABLA_MPI_EXCHANGE, /* messages of the exchange that is carried out */
  NABLA_MPI_NOTICE,   /* that receives the notice of a failure        */
  NABLA_MPI_SENT,     /* notices of this rank's failure               */
  NABLA_MPI_SETS,
} nabla_mpi_set;

typedef struct nabla_mpi_abi {
  const char *name;          /* "Open MPI" */
  const char *id;            /* of NABLA_MPI: "openmpi" */
  const char *rank_variable; /* that the launcher sets */
  const char *files[4];      /* names of the library, then NULL */
  const char *symbol;        /* that the library alone has */

  /* Finds the functions of a library. NABLA_UNSUPPORTED names one that lacks.
   */
  nabla_status (*open)(void *library, nabla_mpi **out, nabla_diag *diag);
  void (*close)(nabla_mpi *mpi);
  int (*is_initialized)(nabla_mpi *mpi); /* or was, and is finalized */
  int (*is_finalized)(nabla_mpi *mpi);
  /* MPI_Init_thread, which waits for all ranks. */
  int (*initialize)(nabla_mpi *mpi);
  /* Whether threads may call it, one at a time. */
  int (*allows_threads)(nabla_mpi *mpi);
  int (*finalize)(nabla_mpi *mpi);
  /* Begins to make the communicator; it can be used once NABLA_MPI_EXCHANGE is
   * complete. */
  int (*begin)(nabla_mpi *mpi, int *rank, int *size);
  int (*end)(nabla_mpi *mpi); /* frees the communicator */

  int (*send)(nabla_mpi *mpi, nabla_mpi_set set, const void *data, size_t bytes,
              int to, int tag);
  /* `from` -1: any rank. */
  int (*receive)(nabla_mpi *mpi, nabla_mpi_set set, void *data, size_t bytes,
                 int from, int tag);
  /* Whether all requests of a set are complete; the set is empty then. */
  int (*test)(nabla_mpi *mpi, nabla_mpi_set set, int *done);
  /* Whether request `index` of a set is. */
  int (*test_one)(nabla_mpi *mpi, nabla_mpi_set set, size_t index, int *done);
  void (*cancel)(nabla_mpi *mpi, nabla_mpi_set set);
  void (*abort)(nabla_mpi *mpi, int exit_code);
  void (*describe)(nabla_mpi *mpi, int error, char *out, size_t size);
} nabla_mpi_abi;

extern const nabla_mpi_abi nabla_mpi_open, nabla_mpi_mpich;

#endif
