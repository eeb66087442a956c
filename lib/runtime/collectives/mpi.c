/* nabla_comm_mpi: ranks are processes, which exchange messages by an MPI
 * library that is opened when the communicator is made. Exchanges only post and
 * test; waits yield the CPU. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/cpus.h"
#include "lib/base/require.h"
#include "lib/runtime/collectives/mpi_internal.h"

enum { NOTICE_TAG = 2 };

#define CHECKED_EVERY                                                         \
  64                      /* tests between looks at the clock and for notices \
                           */
#define SPINS        1000 /* tests before a yield where each rank has a CPU */
#define SPINS_BEHIND 100  /* tests before a nap, where the rank computes */
#define NAP   20000 /* ns, which are 70 us or more by the kernel's timers */
#define GRACE 100   /* ms that messages of a failure are given */

static nabla_mpi_comm *of(nabla_comm *comm) { return (nabla_mpi_comm *)comm; }

/* ---- MPI of the process ---- */

/* How many communicators use MPI, and whether it is ended with the last. */
static struct {
  pthread_mutex_t lock;
  uint32_t users;
  int is_ours;
  nabla_mpi_comm *last; /* that was made; NULL: closed */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Some launchers call a job successful whose process left with 0 while others
 * wait for it. */
static void abort_at_exit(void) {
  nabla_mpi_comm *comm = process.last;
  if (!comm || comm->abi->is_finalized(comm->mpi)) return;
  (void)fprintf(stderr,
                "nabla: rank %u left before its communicator was closed\n",
                comm->base.rank);
  comm->abi->abort(comm->mpi, NABLA_MPI_EXIT);
}

/* ---- failing ---- */

/* Keeps the first reason; 0 where there is one already. */
static int spend(nabla_mpi_comm *comm, uint32_t rank, const char *why) {
  pthread_mutex_lock(&comm->why_lock);
  const int is_first = !atomic_load(&comm->is_spent);
  if (is_first) {
    comm->why.rank = rank;
    (void)snprintf(comm->why.why, sizeof comm->why.why, "%.150s", why);
    atomic_store(&comm->is_spent, 1);
  }
  pthread_mutex_unlock(&comm->why_lock);
  return is_first;
}

static nabla_status take_status(nabla_comm *base, nabla_diag *diag) {
  nabla_mpi_comm *comm = of(base);
  if (!atomic_load(&comm->is_spent)) return NABLA_OK;
  return nabla_fail(diag, NABLA_CANCELLED,
                    "the communicator is spent: rank %u: %s", comm->why.rank,
                    comm->why.why);
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Tests a set until it is complete, or GRACE has passed. */
static void drain(nabla_mpi_comm *comm, nabla_mpi_set set) {
  int done = 0;
  for (const int64_t end = now_ms() + GRACE; !done && now_ms() < end;
       sched_yield())
    if (comm->abi->test(comm->mpi, set, &done)) return;
}

/* Tells all others why, and gives messages that are under way up. */
static void notify(nabla_mpi_comm *comm) {
  for (uint32_t r = 0; r < comm->base.ranks; r++)
    if (r != comm->base.rank)
      (void)comm->abi->send(comm->mpi, NABLA_MPI_SENT, &comm->why,
                            sizeof comm->why, (int)r, NOTICE_TAG);
  drain(comm, NABLA_MPI_SENT);
}

static void fail(nabla_comm *base, uint32_t rank, const char *why) {
  nabla_mpi_comm *comm = of(base);
  if (!spend(comm, rank, why)) return;
  pthread_mutex_lock(&comm->lock);
  notify(comm);
  pthread_mutex_unlock(&comm->lock);
}

nabla_status nabla_mpi_give_up(nabla_mpi_comm *comm, const char *why,
                               nabla_diag *diag) {
  if (spend(comm, comm->base.rank, why)) notify(comm);
  return take_status(&comm->base, diag);
}

nabla_status nabla_mpi_fail(nabla_mpi_comm *comm, int error, nabla_diag *diag) {
  char text[160];
  comm->abi->describe(comm->mpi, error, text, sizeof text);
  return nabla_mpi_give_up(comm, text, diag);
}

static nabla_status fail_late(nabla_mpi_comm *comm, nabla_diag *diag) {
  char text[160];
  uint32_t missing = comm->base.rank;
  for (size_t i = 0; i < comm->peer_count; i++) {
    int done = 0;
    if (comm->abi->test_one(comm->mpi, NABLA_MPI_EXCHANGE, i, &done) || done)
      continue;
    missing = comm->peers[i];
    break;
  }
  (void)snprintf(text, sizeof text,
                 "rank %u did not come in NABLA_RANK_TIMEOUT (%lld s)", missing,
                 (long long)comm->base.timeout);
  return nabla_mpi_give_up(comm, text, diag);
}

/* ---- waiting ---- */

/* Whether another rank has failed, or none came in time. */
static nabla_status look_around(nabla_mpi_comm *comm, int64_t end,
                                nabla_diag *diag) {
  int heard = 0;
  const int error = comm->abi->test(comm->mpi, NABLA_MPI_NOTICE, &heard);
  if (error) return nabla_mpi_fail(comm, error, diag);
  comm->heard.why[sizeof comm->heard.why - 1] = 0;
  if (heard && comm->base.ranks > 1)
    (void)spend(comm, comm->heard.rank, comm->heard.why);
  NABLA_TRY(take_status(&comm->base, diag));
  return now_ms() > end ? fail_late(comm, diag) : NABLA_OK;
}

nabla_status nabla_mpi_wait(nabla_mpi_comm *comm, nabla_diag *diag) {
  int64_t end = 0;
  for (uint64_t i = 1;; i++) {
    int done = 0;
    const int error = comm->abi->test(comm->mpi, NABLA_MPI_EXCHANGE, &done);
    if (error) return nabla_mpi_fail(comm, error, diag);
    if (done) return NABLA_OK;
    if (i % CHECKED_EVERY == 0) {
      if (!end) end = now_ms() + (int64_t)comm->base.timeout * 1000;
      NABLA_TRY(look_around(comm, end, diag));
    }
    if (comm->is_behind && i > SPINS_BEHIND)
      (void)nanosleep(&(struct timespec){0, NAP}, NULL);
    else if (i > comm->spins)
      sched_yield();
  }
}

static nabla_status run(nabla_comm *base, const nabla_collective *c,
                        nabla_diag *diag) {
  nabla_mpi_comm *comm = of(base);
  if (c->rank != base->rank)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the process is rank %u of the communicator, not %u",
                      base->rank, c->rank);
  pthread_mutex_lock(&comm->lock);
  nabla_status status = take_status(base, diag);
  comm->is_behind = c->is_behind;
  if (!status) status = nabla_mpi_exchange(comm, c, diag);
  if (status) {
    if (spend(comm, base->rank, "no memory for an exchange")) notify(comm);
    comm->abi->cancel(comm->mpi, NABLA_MPI_EXCHANGE);
    drain(comm, NABLA_MPI_EXCHANGE);
  }
  pthread_mutex_unlock(&comm->lock);
  return status;
}

static void abort_job(nabla_comm *base, int exit_code) {
  of(base)->abi->abort(of(base)->mpi, exit_code);
}

/* ---- ending ---- */

static void release(nabla_mpi_comm *comm) {
  if (comm->mpi) comm->abi->close(comm->mpi);
  pthread_mutex_destroy(&comm->lock);
  pthread_mutex_destroy(&comm->why_lock);
  free(comm->peers);
  free(comm->slots);
  free(comm->scratch);
  free(comm);
}

/* The last user ends MPI, which waits for all ranks; where the communicator is
 * spent they may never come, and the process leaves without. */
static void leave_process(nabla_mpi_comm *comm, int is_spent) {
  pthread_mutex_lock(&process.lock);
  const int is_last = --process.users == 0;
  if (process.last == comm) process.last = NULL;
  if (is_last && process.is_ours && !is_spent) {
    char what[64];
    (void)snprintf(what, sizeof what, "rank %u waits in MPI_Finalize",
                   comm->base.rank);
    nabla_mpi_watch *watch = nabla_mpi_watch_begin(comm->base.timeout, what);
    (void)comm->abi->finalize(comm->mpi);
    nabla_mpi_watch_end(watch);
  }
  pthread_mutex_unlock(&process.lock);
}

static void destroy(nabla_comm *base) {
  nabla_mpi_comm *comm = of(base);
  const int is_spent = atomic_load(&comm->is_spent);
  if (!comm->abi->is_finalized(comm->mpi) && !is_spent) {
    comm->abi->cancel(comm->mpi, NABLA_MPI_NOTICE);
    drain(comm, NABLA_MPI_NOTICE);
    (void)comm->abi->end(comm->mpi);
  }
  leave_process(comm, is_spent || comm->abi->is_finalized(comm->mpi));
  release(comm);
}

static const nabla_comm_class mpi_class = {.destroy = destroy,
                                           .fail = fail,
                                           .status = take_status,
                                           .run = run,
                                           .abort = abort_job};

/* ---- making ---- */

/* Initializes MPI unless the process has done that. */
static nabla_status enter_process(nabla_mpi_comm *comm, nabla_diag *diag) {
  const nabla_mpi_abi *abi = comm->abi;
  char what[96];
  if (abi->is_finalized(comm->mpi))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "MPI was ended in this process and cannot begin again");
  if (abi->is_initialized(comm->mpi)) return NABLA_OK;
  const char *rank = getenv(abi->rank_variable);
  (void)snprintf(what, sizeof what,
                 "rank %.20s waits in MPI_Init for other ranks",
                 rank ? rank : "0");
  nabla_mpi_watch *watch = nabla_mpi_watch_begin(comm->base.timeout, what);
  if (!watch) return nabla_fail(diag, NABLA_NO_MEMORY, "no thread for a watch");
  const int error = abi->initialize(comm->mpi);
  nabla_mpi_watch_end(watch);
  if (error)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "%s: MPI_Init: error %d",
                      abi->name, error);
  process.is_ours = 1;
  (void)atexit(abort_at_exit);
  return NABLA_OK;
}

static nabla_status make_slots(nabla_mpi_comm *comm, nabla_diag *diag) {
  const size_t bytes = (size_t)2 * comm->base.ranks * NABLA_MPI_SLOT;
  comm->slots = aligned_alloc(64, bytes);
  if (!comm->slots)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for messages");
  memset(comm->slots, 0, bytes);
  return NABLA_OK;
}

/* The communicator of MPI, and the receive of notices. */
static nabla_status make_comm(nabla_mpi_comm *comm, nabla_diag *diag) {
  int rank = 0, size = 0;
  int error = comm->abi->begin(comm->mpi, &rank, &size);
  if (error) return nabla_mpi_fail(comm, error, diag);
  if (size > (int)NABLA_COMM_MAX_RANKS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%d ranks; from 1 to %u are possible", size,
                      NABLA_COMM_MAX_RANKS);
  comm->base.rank = (uint32_t)rank;
  NABLA_TRY(nabla_mpi_wait(comm, diag));
  comm->base.ranks = (uint32_t)size;
  NABLA_TRY(make_slots(comm, diag));
  error = comm->abi->receive(comm->mpi, NABLA_MPI_NOTICE, &comm->heard,
                             sizeof comm->heard, -1, NOTICE_TAG);
  return error ? nabla_mpi_fail(comm, error, diag) : NABLA_OK;
}

/* A number of this machine since it was started, and of the CPUs on which the
 * process may run: launchers bind ranks to CPUs of their own. */
static int64_t cpus_key(void) {
  char host[256] = "", boot[41] = "";
  uint64_t key = 0xcbf29ce484222325u;
  if (gethostname(host, sizeof host - 1)) host[0] = 0;
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (file) {
    if (fread(boot, 1, sizeof boot - 1, file) < 1) boot[0] = 0;
    (void)fclose(file);
  }
  for (const char *c = host; *c; c++)
    key = (key ^ (uint8_t)*c) * 0x100000001b3u;
  for (const char *c = boot; *c; c++)
    key = (key ^ (uint8_t)*c) * 0x100000001b3u;
  uint8_t mask[1024] = {0}; /* of 8,192 CPUs */
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  for (long i = 0; i < bytes; i++) key = (key ^ mask[i]) * 0x100000001b3u;
  return (int64_t)key;
}

/* Counts the ranks on the CPUs of this one; waits spin where each has one. */
static nabla_status count_local(nabla_mpi_comm *comm, nabla_diag *diag) {
  int64_t own = cpus_key(), all[NABLA_COMM_MAX_RANKS];
  uint32_t cpus = 1;
  nabla_collective c = {.kind = NABLA_COLLECTIVE_ALL_GATHER,
                        .dtype = NABLA_DTYPE_I64,
                        .rank = comm->base.rank,
                        .index = comm->base.rank,
                        .count = comm->base.ranks,
                        .in = &own,
                        .out = all,
                        .outer = 1,
                        .rows = 1,
                        .inner = 1,
                        .is_check = 1};
  for (uint32_t i = 0; i < comm->base.ranks; i++) c.members[i] = i;
  NABLA_TRY(run(&comm->base, &c, diag));
  comm->base.local_ranks = 0;
  for (uint32_t i = 0; i < comm->base.ranks; i++)
    comm->base.local_ranks += all[i] == own;
  NABLA_TRY(nabla_cpus_count("", NULL, &cpus, diag));
  comm->spins = comm->base.local_ranks <= cpus ? SPINS : 0;
  return NABLA_OK;
}

static nabla_status fill(nabla_mpi_comm *comm, nabla_diag *diag) {
  void *library;
  comm->base.class = &mpi_class;
  comm->base.ranks = comm->base.local_ranks = 1;
  comm->base.timeout = nabla_comm_timeout();
  comm->chunk = NABLA_MPI_CHUNK;
  NABLA_TRY(nabla_mpi_choose(&comm->abi, &library, diag));
  NABLA_TRY(comm->abi->open(library, &comm->mpi, diag));
  NABLA_TRY(enter_process(comm, diag));
  comm->base.is_sequential = !comm->abi->allows_threads(comm->mpi);
  NABLA_TRY(make_comm(comm, diag));
  return count_local(comm, diag);
}

nabla_status nabla_comm_mpi(nabla_comm **out, nabla_diag *diag) {
  NABLA_REQUIRE(out, diag);
  nabla_mpi_comm *comm = calloc(1, sizeof *comm);
  if (!comm)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a communicator");
  pthread_mutex_init(&comm->lock, NULL);
  pthread_mutex_init(&comm->why_lock, NULL);
  pthread_mutex_lock(&process.lock);
  const nabla_status status = fill(comm, diag);
  if (!status) {
    process.users++;
    process.last = comm;
  }
  pthread_mutex_unlock(&process.lock);
  if (status) {
    release(comm);
    return status;
  }
  *out = &comm->base;
  return NABLA_OK;
}
