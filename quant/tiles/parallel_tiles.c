/* See parallel_tiles.h. */
#include "quant/tiles/parallel_tiles.h"

#include <pthread.h>

#include "quant/tiles/tiling.h"

typedef struct region {
  nabla_run *run;
  _Atomic uint64_t next;
  _Atomic int stop;
  pthread_mutex_t lock; /* guards the three below */
  nabla_status status;
  uint64_t failed_tile;
  nabla_diag *diag;
} region;

uint32_t nabla_run_workers(const nabla_environment *environment) {
  return environment && environment->pool ? nabla_pool_size(environment->pool)
                                          : 1;
}

uint32_t nabla_run_fixed_workers(const nabla_environment *environment) {
  const uint32_t workers = nabla_run_workers(environment);
  return workers < NABLA_FIXED_WORKERS ? workers : NABLA_FIXED_WORKERS;
}

nabla_status nabla_run_report(const nabla_environment *environment,
                              const nabla_progress *progress,
                              nabla_diag *diag) {
  if (environment && environment->progress &&
      environment->progress(environment->progress_self, progress))
    return nabla_fail(diag, NABLA_CANCELLED, "stopped on request");
  return NABLA_OK;
}

static void record(region *r, uint64_t tile, nabla_status status,
                   const nabla_diag *diag) {
  pthread_mutex_lock(&r->lock);
  if (!r->status || tile < r->failed_tile) {
    r->status = status;
    r->failed_tile = tile;
    if (r->diag) *r->diag = *diag;
  }
  pthread_mutex_unlock(&r->lock);
  atomic_store(&r->stop, 1);
}

static nabla_status report(nabla_run *run, uint64_t tile, nabla_diag *diag) {
  nabla_progress progress = {
      .phase = run->phase,
      .bytes_done = atomic_load(&run->bytes_done),
      .bytes_total = run->bytes_total,
      .tensors_total = run->tensors_total,
  };
  progress.tensors_done = run->locate(run, tile, &progress.tensor);
  return nabla_run_report(run->environment, &progress, diag);
}

static void run_tiles(region *r, uint32_t worker) {
  nabla_diag diag = NABLA_DIAG_INIT;
  while (!atomic_load(&r->stop)) {
    const uint64_t tile = atomic_fetch_add(&r->next, 1);
    if (tile >= r->run->tiles) return;
    nabla_status status = r->run->tile(r->run, worker, tile, &diag);
    if (!status && worker == 0) status = report(r->run, tile, &diag);
    if (status) record(r, tile, status, &diag);
  }
}

static void work(void *context, uint32_t worker, uint32_t workers) {
  region *r = context;
  nabla_diag diag = NABLA_DIAG_INIT;
  uint64_t tile = 0;
  (void)workers;
  if (r->run->workers && worker >= r->run->workers) return;
  run_tiles(r, worker);
  if (!r->run->finish) return;
  nabla_status status = r->run->finish(r->run, worker, &tile, &diag);
  if (status) record(r, tile, status, &diag);
}

nabla_status nabla_run_tiles(nabla_run *run, nabla_diag *diag) {
  region r = {.run = run, .lock = PTHREAD_MUTEX_INITIALIZER, .diag = diag};
  /* one tile has no use for workers, who cost more than a small one takes: a
   * header of 100 MB holds two million */
  nabla_pool *pool = run->environment ? run->environment->pool : NULL;
  nabla_pool_run(run->tiles > 1 ? pool : NULL, work, &r);
  pthread_mutex_destroy(&r.lock);
  return r.status;
}

uint64_t nabla_tile_owner(const uint64_t *first, uint64_t tensors,
                          uint64_t tile) {
  uint64_t low = 0, high = tensors; /* first[low] <= tile < first[high] */
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    if (first[middle] <= tile)
      low = middle;
    else
      high = middle;
  }
  return low;
}
