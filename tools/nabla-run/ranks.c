/* Ranks of a program that is divided over several devices. --ranks: a session
 * and a thread for each, of which rank 0 is the session of the run. Under
 * mpirun the process is one rank. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/cpus.h"
#include "tools/nabla-run/run.h"

struct run_rank {
  run *r;
  nabla_session *session;
  nabla_dense results[RUN_MAX_PORTS];
  pthread_t thread;
  nabla_status status; /* of its last steps */
  nabla_diag diag;
};

/* ---- processes ---- */

int run_is_process(void) {
  return getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK") ||
         getenv("NABLA_MPI");
}

nabla_status run_open_process(run *r, nabla_diag *diag) {
  if (r->settings->ranks)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--ranks makes threads, but mpirun has started this "
                      "process as a rank: leave it out");
  if (getenv("PMI_RANK")) NABLA_TRY(run_begin_guard(diag));
  NABLA_TRY(nabla_comm_mpi(&r->comm, diag));
  r->rank = nabla_comm_rank(r->comm);
  if (nabla_comm_size(r->comm) > 1) {
    (void)setvbuf(stderr, NULL, _IOLBF, 0); /* lines of ranks stay whole */
    (void)snprintf(r->name, sizeof r->name, "%s: rank %u", r->tool->name,
                   r->rank);
    r->tool->name = r->name;
  }
  return NABLA_OK;
}

nabla_status run_make_pool(run *r, nabla_diag *diag) {
  uint64_t threads = r->settings->threads;
  if (!threads && r->comm) {
    uint32_t cpus = 1;
    NABLA_TRY(nabla_cpus_count("", NULL, &cpus, diag));
    threads = cpus / nabla_comm_local_size(r->comm);
    if (!threads) threads = 1;
  }
  return nabla_pool_create((uint32_t)threads, NULL, &r->environment.pool, diag);
}

/* Other processes would wait for this one. */
void run_abort_ranks(const run *r, int exit_code) {
  if (!r->comm || nabla_comm_rank(r->comm) == NABLA_COMM_ALL_RANKS) return;
  (void)fflush(NULL);
  nabla_comm_abort(r->comm, exit_code);
}

static nabla_status open_process_session(run *r, nabla_diag *diag) {
  const nabla_session_options options = {.struct_size = sizeof options,
                                         .comm = r->comm,
                                         .rank = r->rank,
                                         .check = r->settings->check};
  return nabla_session_create(r->executable, &options, &r->session, diag);
}

/* ---- threads ---- */

static uint64_t others_of(const run *r) {
  return r->settings->ranks ? r->settings->ranks - 1 : 0;
}

/* What mpirun has started are other ranks than the program has. */
static nabla_status fail_processes(uint32_t wanted, uint64_t ranks,
                                   nabla_diag *diag) {
  nabla_status status;
  if (wanted > 1) {
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "the program is for %u ranks, the communicator has "
                        "%llu",
                        wanted, (unsigned long long)ranks);
    nabla_diag_set_next(diag, "start it with mpirun -n %u", wanted);
    return status;
  }
  status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the program is not divided: it is for one rank, the "
                      "communicator has %llu",
                      (unsigned long long)ranks);
  nabla_diag_set_next(diag,
                      "compile it with --mesh, or start it without mpirun");
  return status;
}

nabla_status run_check_ranks(const run *r, nabla_diag *diag) {
  const uint32_t wanted = nabla_executable_ranks(r->executable);
  const uint64_t threads = r->settings->ranks ? r->settings->ranks : 1;
  const uint64_t ranks = r->comm ? nabla_comm_size(r->comm) : threads;
  if (wanted == ranks || (wanted <= 1 && ranks == 1)) return NABLA_OK;
  if (r->comm) return fail_processes(wanted, ranks, diag);
  const nabla_status status =
      wanted > 1 ? nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                              "the program is divided over %u ranks", wanted)
                 : nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                              "the program is not divided: it is for one rank");
  if (wanted > 1)
    nabla_diag_set_next(diag, "run it with --ranks %u", wanted);
  else
    nabla_diag_set_next(diag, "leave --ranks out, or compile with --mesh");
  return status;
}

nabla_status run_open_ranks(run *r, nabla_diag *diag) {
  if (r->comm) return open_process_session(r, diag);
  const uint64_t ranks = r->settings->ranks;
  const uint64_t share = nabla_pool_size(r->environment.pool) / ranks;
  nabla_session_options options = {.struct_size = sizeof options,
                                   .threads = share ? (uint32_t)share : 1,
                                   .check = r->settings->check};
  for (size_t i = 0; i < r->input_count; i++)
    if (r->is_donated[i] && ranks > 1)
      return nabla_fail(diag, NABLA_UNSUPPORTED,
                        "--ranks: input %zu is donated, and several ranks "
                        "would take it",
                        i);
  NABLA_TRY(nabla_comm_threads((uint32_t)ranks, &r->comm, diag));
  if (ranks > 1) options.comm = r->comm;
  NABLA_TRY(nabla_session_create(r->executable, &options, &r->session, diag));
  r->others = calloc(ranks, sizeof *r->others);
  if (!r->others)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for ranks");
  for (uint64_t i = 0; i < others_of(r); i++) {
    options.rank = (uint32_t)i + 1;
    r->others[i].r = r;
    NABLA_TRY(nabla_session_create(r->executable, &options,
                                   &r->others[i].session, diag));
  }
  return NABLA_OK;
}

static void release(run *r, run_rank *rank) {
  for (size_t i = 0; r->function && i < r->function->result_count; i++)
    if (rank->results[i].data)
      nabla_dense_release(r->executable, &rank->results[i]);
  memset(rank->results, 0, sizeof rank->results);
}

void run_close_ranks(run *r) {
  for (uint64_t i = 0; r->others && i < others_of(r); i++) {
    release(r, &r->others[i]);
    nabla_session_close(r->others[i].session);
  }
  free(r->others);
  nabla_comm_destroy(r->comm);
}

static void *run_other(void *self) {
  run_rank *rank = self;
  release(rank->r, rank);
  rank->diag = (nabla_diag)NABLA_DIAG_INIT;
  rank->status = run_reset(rank->r, rank->session, &rank->diag);
  if (!rank->status)
    rank->status =
        run_session_steps(rank->r, rank->session, rank->results, &rank->diag);
  return NULL;
}

nabla_status run_begin_ranks(run *r, nabla_diag *diag) {
  r->begun = 0;
  for (uint64_t i = 0; r->others && i < others_of(r); i++, r->begun++)
    if (pthread_create(&r->others[i].thread, NULL, run_other, &r->others[i])) {
      nabla_comm_fail(r->comm, (uint32_t)i + 1, "no thread");
      return nabla_fail(diag, NABLA_NO_MEMORY, "no thread for a rank");
    }
  return NABLA_OK;
}

/* Ranks that were woken since another failed do not say why. */
nabla_status run_end_ranks(run *r, nabla_status status, nabla_diag *diag) {
  for (uint64_t i = 0; i < r->begun; i++) {
    const run_rank *rank = &r->others[i];
    pthread_join(rank->thread, NULL);
    if (!rank->status || (status && (status != NABLA_CANCELLED ||
                                     rank->status == NABLA_CANCELLED)))
      continue;
    status = rank->status;
    *diag = rank->diag;
  }
  return status;
}
