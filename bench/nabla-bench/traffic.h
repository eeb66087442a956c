/* The limit of programs that compute little: reading their inputs once and
 * writing their results once. */
#ifndef NABLA_BENCH_TRAFFIC_H
#define NABLA_BENCH_TRAFFIC_H

#include "bench/nabla-bench/bench.h"

/* Bytes that one run reads and writes; both areas are at least as large. */
typedef struct bench_traffic {
  const uint8_t *from;
  uint8_t *to;
  uint64_t reads, writes;
  int past_caches; /* stores that do not read the line before */
  nabla_pool *pool;
  uint32_t threads;
  volatile uint64_t sink; /* keeps what is read alive */
} bench_traffic;

/* See contest.h. */
nabla_status bench_traffic_run(void *self, uint64_t first, uint32_t count,
                               double *out, nabla_diag *diag);

#endif
