/* A pool of worker threads that stay warm between short parallel regions. */
#ifndef NABLA_POOL_H
#define NABLA_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NABLA_POOL_MAX_THREADS 256

typedef struct nabla_pool nabla_pool;

/* One worker's share of a region. Called once per worker, with `worker` from 0
 * to `workers` - 1; worker 0 is the thread that called nabla_pool_run, which
 * may be called for others too. Shares must not wait for each other. */
typedef void (*nabla_pool_task)(void *context, uint32_t worker,
                                uint32_t workers);

/* Creates a pool of `threads` workers, the caller included; 0 means one per
 * CPU that this process may use (at most NABLA_POOL_MAX_THREADS): those of its
 * affinity mask, or the quota of its control groups, rounded up, where that is
 * less. Workers spin for about 100 us after a region, then sleep on a futex.
 *
 * After fork() the child has no workers: there the pools of the parent, and the
 * executables and plans that use them, work on the calling thread alone, with
 * the same results. A child that wants threads makes a pool of its own. What
 * other threads of the parent were doing when it forked stays undone there.
 * @param allocator  NULL for malloc
 * @param out_pool   owned by the caller; nabla_pool_destroy
 * @return NABLA_OK, NABLA_INVALID_ARGUMENT (too many threads),
 *         NABLA_NO_MEMORY (also when a thread cannot be started) */
NABLA_API NABLA_MUST_USE nabla_status
nabla_pool_create(uint32_t threads, const nabla_allocator *allocator,
                  nabla_pool **out_pool, nabla_diag *diag);

/* Threads of the caller, as a pool. */
typedef struct nabla_pool_callbacks {
  size_t struct_size; /* sizeof(nabla_pool_callbacks) */
  uint32_t workers;   /* at least 1, at most NABLA_POOL_MAX_THREADS */
  /* Calls `task` once for each worker from 0 to `workers` - 1, number 0 on the
   * thread that it is called on, others on any threads, at once or one behind
   * another, and returns when all calls have. Workers that it left out are
   * called by nabla_pool_run afterwards; a second call of one does nothing. A
   * pool of one worker never calls `run`. */
  void (*run)(void *self, nabla_pool_task task, void *context,
              uint32_t workers);
  void *self;
} nabla_pool_callbacks;

/* Makes a pool of threads that are not Nabla's, for environments, plans and
 * executables. Regions come one at a time. In a child made by fork() they run
 * on the calling thread alone, and `run` is not called.
 * @param callbacks  copied; `self` outlives the pool
 * @param out_pool   owned by the caller; nabla_pool_destroy, which ends no
 *                   thread
 * @return NABLA_OK, NABLA_INVALID_ARGUMENT (no workers or too many, no `run`, a
 *         struct_size of another version), NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status nabla_pool_from_callbacks(
    const nabla_pool_callbacks *callbacks, const nabla_allocator *allocator,
    nabla_pool **out_pool, nabla_diag *diag);

/* Stops and joins the workers; in a forked child, frees its memory. NULL is
 * allowed. */
NABLA_API void nabla_pool_destroy(nabla_pool *pool);

/* Returns the number of workers, the caller included; of NULL 1. */
NABLA_API uint32_t nabla_pool_size(const nabla_pool *pool);

/* Runs `task` once for every worker and returns when all have ended. The caller
 * also does the shares of workers that have not begun when its own is done, so
 * that it does not wait for threads that other processes keep from running. One
 * region at a time per pool: a second thread that calls waits. A NULL pool runs
 * the task once, as worker 0 of 1. Not to be called from inside a task. */
NABLA_API void nabla_pool_run(nabla_pool *pool, nabla_pool_task task,
                              void *context);

/* Cuts [0, count) into `parts` ranges that differ by at most one element and
 * stores the range of `part`. Depends on nothing else, so that results can be
 * independent of timing. */
NABLA_API void nabla_pool_split(uint64_t count, uint32_t parts, uint32_t part,
                                uint64_t *out_begin, uint64_t *out_end);

#ifdef __cplusplus
}
#endif

#endif
