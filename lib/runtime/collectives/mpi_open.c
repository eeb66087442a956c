/* The ABI of Open MPI 2 to 5: handles are addresses of objects. */
#include <dlfcn.h>

typedef void *handle;

typedef struct constants {
  handle world, byte, errors_return, request_null;
} constants;

static int find_constants(void *library, constants *out) {
  out->world = dlsym(library, "ompi_mpi_comm_world");
  out->byte = dlsym(library, "ompi_mpi_byte");
  out->errors_return = dlsym(library, "ompi_mpi_errors_return");
  out->request_null = dlsym(library, "ompi_request_null");
  return out->world && out->byte && out->errors_return && out->request_null;
}

#define COMM            handle
#define REQUEST         handle
#define DATATYPE        handle
#define ERRHANDLER      handle
#define WORLD           (mpi->at.world)
#define BYTE            (mpi->at.byte)
#define ERRORS_RETURN   (mpi->at.errors_return)
#define REQUEST_NULL    (mpi->at.request_null)
#define ANY_SOURCE      (-1)
#define STATUSES_IGNORE ((void *)0)
#define FIND_CONSTANTS  find_constants
#define ABI             nabla_mpi_open
#define ABI_NAMES                                            \
  .name = "Open MPI", .id = "openmpi",                       \
  .rank_variable = "OMPI_COMM_WORLD_RANK",                   \
  .files = {"libmpi.so.40", "libmpi.so.80", "libmpi.so.20"}, \
  .symbol = "ompi_mpi_comm_world"
#include "lib/runtime/collectives/mpi_calls.h"
