/* The pool: regions back to back, after pauses of any length, from several
 * callers at once, and destroyed at any moment. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "nabla/pool.h"

enum { CALLERS = 4, CALLS = 2000, PAUSES = 300, POOLS = 100 };

static unsigned long runs[NABLA_POOL_MAX_THREADS]; /* per worker; no atomics:
                                  a region must order what its workers do */

static void count(void *context, uint32_t worker, uint32_t workers) {
  (void)context;
  (void)workers;
  runs[worker]++;
}

static void *call_often(void *pool) {
  for (int i = 0; i < CALLS; i++) nabla_pool_run(pool, count, NULL);
  return NULL;
}

static int create_and_destroy(void) {
  for (int i = 0; i < POOLS; i++) {
    nabla_pool *pool;
    if (nabla_pool_create(3, NULL, &pool, NULL)) return 1;
    usleep((useconds_t)i * 3);
    nabla_pool_destroy(pool);
  }
  return 0;
}

static int stress(uint32_t threads, unsigned long regions) {
  nabla_pool *pool;
  pthread_t callers[CALLERS];
  if (nabla_pool_create(threads, NULL, &pool, NULL)) return 1;
  for (uint32_t w = 0; w < threads; w++) runs[w] = 0;
  for (unsigned long i = 0; i < regions; i++) nabla_pool_run(pool, count, NULL);
  for (int i = 0; i < PAUSES; i++) {
    usleep((useconds_t)i);
    nabla_pool_run(pool, count, NULL);
  }
  for (int i = 0; i < CALLERS; i++)
    if (pthread_create(&callers[i], NULL, call_often, pool)) return 1;
  for (int i = 0; i < CALLERS; i++) pthread_join(callers[i], NULL);
  nabla_pool_destroy(pool);
  const unsigned long expected = regions + PAUSES + CALLERS * CALLS;
  for (uint32_t w = 0; w < threads; w++) {
    if (runs[w] == expected) continue;
    printf("%u threads: worker %u ran %lu times, not %lu\n", threads, w,
           runs[w], expected);
    return 1;
  }
  return 0;
}

int main(void) {
  return stress(1, 20000) || stress(2, 5000) || stress(7, 500) ||
         create_and_destroy();
}
