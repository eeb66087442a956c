/* Calls of an MPI library: the code, compiled once for each ABI by the files
 * that include this and define
 *   ABI                                what they define
 *   ABI_NAMES                          its names: members of nabla_mpi_abi
 *   COMM, REQUEST, DATATYPE, ERRHANDLER  types of handles
 *   WORLD, BYTE, ERRORS_RETURN, REQUEST_NULL  handles, of `mpi`
 *   ANY_SOURCE, STATUSES_IGNORE        constants
 *   FIND_CONSTANTS                     finds the handles in a library: 0 if not
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/runtime/collectives/mpi_abi.h"

#define THREAD_SERIALIZED 2 /* in both */
#define ERROR_TEXT        1024

typedef struct requests {
  REQUEST *handles;
  size_t count, room;
} requests;

struct nabla_mpi {
#define FUNCTION(name, parameters) int(*name) parameters;
#include "lib/runtime/collectives/mpi_functions.def"
#undef FUNCTION
  constants at; /* of an ABI whose handles are addresses */
  COMM comm;
  int has_comm;
  requests sets[NABLA_MPI_SETS];
};

/* ---- the library ---- */

static nabla_status open_library(void *library, nabla_mpi **out,
                                 nabla_diag *diag) {
  const char *missing = NULL;
  nabla_mpi *mpi = calloc(1, sizeof *mpi);
  if (!mpi) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for MPI");
#define FUNCTION(name, parameters)                    \
  {                                                   \
    void *const found = dlsym(library, "MPI_" #name); \
    memcpy(&mpi->name, &found, sizeof found);         \
    if (!found) missing = "MPI_" #name;               \
  }
#include "lib/runtime/collectives/mpi_functions.def"
#undef FUNCTION
  if (!FIND_CONSTANTS(library, &mpi->at)) missing = "a constant of its ABI";
  if (missing) {
    free(mpi);
    return nabla_fail(diag, NABLA_UNSUPPORTED, "the library of %s lacks %s",
                      ABI.name, missing);
  }
  *out = mpi;
  return NABLA_OK;
}

static void close_library(nabla_mpi *mpi) {
  for (int i = 0; i < NABLA_MPI_SETS; i++) free(mpi->sets[i].handles);
  free(mpi);
}

static int is_initialized(nabla_mpi *mpi) {
  int yes = 0;
  return !mpi->Initialized(&yes) && yes;
}

static int is_finalized(nabla_mpi *mpi) {
  int yes = 0;
  return !mpi->Finalized(&yes) && yes;
}

static int initialize(nabla_mpi *mpi) {
  int provided = 0;
  return mpi->Init_thread(NULL, NULL, THREAD_SERIALIZED, &provided);
}

static int allows_threads(nabla_mpi *mpi) {
  int provided = 0;
  return !mpi->Query_thread(&provided) && provided >= THREAD_SERIALIZED;
}

static int finalize(nabla_mpi *mpi) { return mpi->Finalize(); }

static void describe(nabla_mpi *mpi, int error, char *out, size_t size) {
  char text[ERROR_TEXT] = "";
  int length = 0;
  if (mpi->Error_string(error, text, &length)) text[0] = 0;
  (void)snprintf(out, size, "%s: error %d: %.100s", ABI.name, error, text);
}

static void abort_job(nabla_mpi *mpi, int exit_code) {
  (void)mpi->Abort(WORLD, exit_code);
}

/* ---- requests ---- */

/* A place for one more; NULL without memory. */
static REQUEST *add(nabla_mpi *mpi, nabla_mpi_set set) {
  requests *r = &mpi->sets[set];
  if (r->count == r->room) {
    const size_t room = r->room ? 2 * r->room : 64;
    REQUEST *grown = realloc(r->handles, room * sizeof *grown);
    if (!grown) return NULL;
    r->handles = grown;
    r->room = room;
  }
  r->handles[r->count] = REQUEST_NULL;
  return &r->handles[r->count++];
}

#define NO_MEMORY                                             \
  16 /* MPI_ERR_OTHER or MPI_ERR_INTERN; only its text counts \
      */

static int begin(nabla_mpi *mpi, int *rank, int *size) {
  REQUEST *request = add(mpi, NABLA_MPI_EXCHANGE);
  if (!request) return NO_MEMORY;
  int error = mpi->Comm_rank(WORLD, rank);
  if (!error) error = mpi->Comm_size(WORLD, size);
  if (!error) error = mpi->Comm_idup(WORLD, &mpi->comm, request);
  return error;
}

/* Errors are codes: by default a library ends the process. The communicator has
 * this once it is complete. */
static int take_comm(nabla_mpi *mpi) {
  mpi->has_comm = 1;
  return mpi->Comm_set_errhandler(mpi->comm, ERRORS_RETURN);
}

static int end(nabla_mpi *mpi) {
  if (!mpi->has_comm) return 0;
  mpi->has_comm = 0;
  return mpi->Comm_free(&mpi->comm);
}

static int send_to(nabla_mpi *mpi, nabla_mpi_set set, const void *data,
                   size_t bytes, int to, int tag) {
  REQUEST *request = add(mpi, set);
  if (!request) return NO_MEMORY;
  return mpi->Isend(data, (int)bytes, BYTE, to, tag, mpi->comm, request);
}

static int receive(nabla_mpi *mpi, nabla_mpi_set set, void *data, size_t bytes,
                   int from, int tag) {
  REQUEST *request = add(mpi, set);
  if (!request) return NO_MEMORY;
  return mpi->Irecv(data, (int)bytes, BYTE, from < 0 ? ANY_SOURCE : from, tag,
                    mpi->comm, request);
}

static int test(nabla_mpi *mpi, nabla_mpi_set set, int *done) {
  requests *r = &mpi->sets[set];
  const int error =
      mpi->Testall((int)r->count, r->handles, done, STATUSES_IGNORE);
  if (error || !*done) return error;
  r->count = 0;
  return mpi->has_comm || set != NABLA_MPI_EXCHANGE ? 0 : take_comm(mpi);
}

static int test_one(nabla_mpi *mpi, nabla_mpi_set set, size_t index,
                    int *done) {
  return mpi->Testall(1, &mpi->sets[set].handles[index], done, STATUSES_IGNORE);
}

static void cancel(nabla_mpi *mpi, nabla_mpi_set set) {
  requests *r = &mpi->sets[set];
  for (size_t i = 0; i < r->count; i++)
    if (r->handles[i] != REQUEST_NULL) (void)mpi->Cancel(&r->handles[i]);
}

const nabla_mpi_abi ABI = {
    ABI_NAMES,
    .open = open_library,
    .close = close_library,
    .is_initialized = is_initialized,
    .is_finalized = is_finalized,
    .initialize = initialize,
    .allows_threads = allows_threads,
    .finalize = finalize,
    .begin = begin,
    .end = end,
    .send = send_to,
    .receive = receive,
    .test = test,
    .test_one = test_one,
    .cancel = cancel,
    .abort = abort_job,
    .describe = describe,
};
