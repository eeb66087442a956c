/* Runs numbered tiles on the workers of an environment, with progress,
 * cancellation, and the error of the lowest tile. */
#ifndef NABLA_QUANT_TILES_PARALLEL_TILES_H
#define NABLA_QUANT_TILES_PARALLEL_TILES_H

#include <stdatomic.h>
#include <stdint.h>

#include "nabla/environment.h"

typedef struct nabla_run nabla_run;

struct nabla_run {
  const nabla_environment *environment;
  const char *phase;
  uint64_t tiles;
  uint64_t bytes_total, tensors_total;
  uint32_t workers; /* at most so many take part; 0: all */
  /* One tile; `worker` < nabla_run_workers(). */
  nabla_status (*tile)(nabla_run *run, uint32_t worker, uint64_t tile,
                       nabla_diag *diag);
  /* What `worker` has put off while tiles ran; once for each, also after a
   * failure. Sets the tile that a failure belongs to. May be NULL. */
  nabla_status (*finish)(nabla_run *run, uint32_t worker, uint64_t *out_tile,
                         nabla_diag *diag);
  /* For progress: the ordinal of a tile's tensor, and its name. */
  uint64_t (*locate)(const nabla_run *run, uint64_t tile,
                     const char **out_name);
  void *self;
  _Atomic uint64_t bytes_done; /* tile() adds what it has read */
};

/* Workers that `environment` (may be NULL) has. */
uint32_t nabla_run_workers(const nabla_environment *environment);

/* The same, but at most NABLA_FIXED_WORKERS: for nabla_run.workers. */
uint32_t nabla_run_fixed_workers(const nabla_environment *environment);

/* Runs every tile once, in rising order of their start. After a failure no
 * further tile starts; of several failures the one of the lowest tile is
 * returned, which does not depend on the number of workers. */
NABLA_MUST_USE nabla_status nabla_run_tiles(nabla_run *run, nabla_diag *diag);

/* Where the tiles of each of several tensors begin: first[i] .. first[i+1]. */
uint64_t nabla_tile_owner(const uint64_t *first, uint64_t tensors,
                          uint64_t tile);

/* Calls the progress function outside of tiles; NABLA_CANCELLED if it says
 * so. */
NABLA_MUST_USE nabla_status
nabla_run_report(const nabla_environment *environment,
                 const nabla_progress *progress, nabla_diag *diag);

#endif
