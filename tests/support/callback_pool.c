/* See callback_pool.h. */
#include "tests/support/callback_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_uint regions;

typedef struct share {
  nabla_pool_task task;
  void *context;
  uint32_t worker, workers;
} share;

static void *run_share(void *self) {
  const share *s = self;
  s->task(s->context, s->worker, s->workers);
  return NULL;
}

static void run_threads(nabla_pool_task task, void *context, uint32_t workers) {
  static pthread_t threads[NABLA_POOL_MAX_THREADS];
  static share shares[NABLA_POOL_MAX_THREADS];
  for (uint32_t i = 0; i < workers; i++)
    shares[i] = (share){task, context, i, workers};
  for (uint32_t i = 1; i < workers; i++)
    if (pthread_create(&threads[i], NULL, run_share, &shares[i])) abort();
  (void)run_share(&shares[0]);
  for (uint32_t i = 1; i < workers; i++) pthread_join(threads[i], NULL);
}

static void run(void *self, nabla_pool_task task, void *context,
                uint32_t workers) {
  const callback_order order = *(const callback_order *)self;
  const uint32_t step = order == CALLBACK_HALF ? 2 : 1;
  atomic_fetch_add(&regions, 1);
  if (order == CALLBACK_THREADS) {
    run_threads(task, context, workers);
    return;
  }
  for (int i = 0; i < (order == CALLBACK_TWICE ? 2 : 1); i++)
    for (uint32_t w = 0; w < workers; w += step)
      task(context, order == CALLBACK_BACKWARDS ? workers - 1 - w : w, workers);
}

nabla_pool *callback_pool_create(callback_order order, uint32_t workers) {
  static callback_order orders[] = {CALLBACK_IN_ORDER, CALLBACK_BACKWARDS,
                                    CALLBACK_THREADS, CALLBACK_TWICE,
                                    CALLBACK_HALF};
  nabla_pool *pool;
  const nabla_pool_callbacks callbacks = {.struct_size = sizeof callbacks,
                                          .workers = workers,
                                          .run = run,
                                          .self = &orders[order]};
  if (nabla_pool_from_callbacks(&callbacks, NULL, &pool, NULL)) abort();
  return pool;
}

unsigned callback_pool_regions(void) { return atomic_load(&regions); }
