/* The ABI that MPICH 3.1 and later shares with Intel MPI and MVAPICH2: handles
 * are numbers. */
typedef struct constants {
  char none;
} constants;

static int find_constants(void *library, constants *out) {
  (void)library, (void)out;
  return 1;
}

#define COMM            int
#define REQUEST         int
#define DATATYPE        int
#define ERRHANDLER      int
#define WORLD           0x44000000
#define BYTE            0x4c00010d
#define ERRORS_RETURN   0x54000001
#define REQUEST_NULL    0x2c000000
#define ANY_SOURCE      (-2)
#define STATUSES_IGNORE ((void *)1)
#define FIND_CONSTANTS  find_constants
#define ABI             nabla_mpi_mpich
#define ABI_NAMES                                              \
  .name = "MPICH", .id = "mpich", .rank_variable = "PMI_RANK", \
  .files = {"libmpich.so.12", "libmpi.so.12"}, .symbol = "MPI_Init_thread"
#include "lib/runtime/collectives/mpi_calls.h"
