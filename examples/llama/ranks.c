/* The sessions of a model: one, or with --mesh one for each rank that the model
 * is divided among. Ranks are threads of this process, or under mpirun
 * processes, of which this is one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

struct rank {
  engine *of;
  nabla_session *session;
  float *logits;
  pthread_t thread;
  nabla_status status;
  nabla_diag diag;
};

static uint32_t count_devices(const char *mesh) {
  uint64_t count = 1;
  while (count <= NABLA_COMM_MAX_RANKS && (mesh = strchr(mesh, '=')) != NULL)
    count *= strtoull(++mesh, NULL, 10) % UINT32_MAX;
  return count <= UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

nabla_status ranks_connect(engine *e, const char *mesh, nabla_diag *diag) {
  e->rank_count = 1;
  if (!mesh) return NABLA_OK;
  if (!getenv("OMPI_COMM_WORLD_RANK") && !getenv("PMI_RANK")) {
    e->rank_count = count_devices(mesh);
    return nabla_comm_threads(e->rank_count, &e->comm, diag);
  }
  NABLA_TRY(nabla_comm_mpi(&e->comm, diag));
  e->first_rank = nabla_comm_rank(e->comm); /* and the first rank prints */
  return !e->first_rank || freopen("/dev/null", "w", stdout)
             ? NABLA_OK
             : nabla_fail(diag, NABLA_IO, "cannot open /dev/null");
}

nabla_status ranks_open(engine *e, nabla_diag *diag) {
  nabla_session_usage usage = {.struct_size = sizeof usage};
  nabla_session_options options = {.struct_size = sizeof options,
                                   .comm = e->comm};
  if (e->comm) { /* else the pool of the executable */
    options.threads =
        nabla_pool_size(e->environment.pool) / nabla_comm_local_size(e->comm);
    options.threads += !options.threads;
  }
  e->ranks = calloc(e->rank_count, sizeof *e->ranks);
  for (uint32_t i = 0; i < e->rank_count; i++) {
    rank *r = e->ranks ? &e->ranks[i] : NULL;
    if (!r || !(r->logits = calloc(e->limits.vocabulary, sizeof *r->logits)))
      return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for logits");
    r->of = e;
    options.rank = e->first_rank + i;
    NABLA_TRY(nabla_session_create(e->executable, &options, &r->session, diag));
    NABLA_TRY(nabla_session_memory(r->session, &usage, diag));
    e->cache_bytes += usage.state_bytes;
  }
  e->session = e->ranks->session;
  e->logits = e->ranks->logits;
  return NABLA_OK;
}

static void *feed(void *self) {
  rank *r = self;
  r->diag = (nabla_diag)NABLA_DIAG_INIT;
  r->status =
      nabla_decoder_run(r->session, r->of->ids, r->of->count, r->of->position,
                        r->logits, r->of->limits.vocabulary, &r->diag);
  return NULL;
}

nabla_status engine_feed(engine *e, const int64_t *ids, size_t count,
                         nabla_diag *diag) {
  uint32_t begun = 1;
  e->ids = ids, e->count = count;
  for (; begun < e->rank_count; begun++)
    if (pthread_create(&e->ranks[begun].thread, NULL, feed, &e->ranks[begun])) {
      nabla_comm_fail(e->comm, begun, "no thread");
      break;
    }
  (void)feed(e->ranks);
  const rank *failed = e->ranks->status ? e->ranks : NULL;
  for (uint32_t i = 1; i < begun; i++) {
    const rank *r = &e->ranks[i];
    pthread_join(r->thread, NULL);
    if (r->status && (!failed || failed->status == NABLA_CANCELLED)) failed = r;
  }
  e->position += failed ? 0 : count;
  if (failed) *diag = failed->diag; /* others were woken, and do not say why */
  return failed ? failed->status : NABLA_OK;
}

void ranks_close(engine *e) {
  for (uint32_t i = 0; e->ranks && i < e->rank_count; i++) {
    nabla_session_close(e->ranks[i].session);
    free(e->ranks[i].logits);
  }
  free(e->ranks);
  nabla_comm_destroy(e->comm);
}
