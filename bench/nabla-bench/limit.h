/* What no kernel can beat: reading the weights, and multiplying as fast as the
 * CPU can. */
#ifndef NABLA_BENCH_LIMIT_H
#define NABLA_BENCH_LIMIT_H

#include "bench/nabla-bench/bench.h"

#define BENCH_MAX_AREAS 6

/* Copies of a weight: part `i` of copy `c` is at areas[i].base + c *
 * areas[i].stride. */
typedef struct bench_weights {
  struct {
    uint8_t *base;
    size_t bytes, stride;
  } areas[BENCH_MAX_AREAS];
  uint32_t area_count, copies;
  size_t bytes; /* of one copy */
} bench_weights;

/* Zeroed memory at a page, in huge pages where there are some; NULL without. */
void *bench_pages(size_t bytes);
void bench_unmap(void *data, size_t bytes);

/* What one thread of `threads` reads or computes. */
typedef struct bench_limit {
  const bench_weights *weights;
  nabla_pool *pool; /* NULL: this thread */
  uint32_t threads;
  nabla_numerics numerics;
  const char *isa;
  double flops;           /* of the problem */
  uint64_t copy, repeats; /* of the region that runs */
  volatile uint64_t sink; /* keeps what is read alive */
} bench_limit;

/* Reads one copy of the weight; see contest.h. */
nabla_status bench_limit_read(void *self, uint64_t first, uint32_t count,
                              double *out, nabla_diag *diag);

/* Does as many multiplications and additions as the problem has in the fastest
 * instructions that `numerics` may use, in registers. */
nabla_status bench_limit_peak(void *self, uint64_t first, uint32_t count,
                              double *out, nabla_diag *diag);

/* The instruction of the peak: "vfmadd zmm"; NULL when there is none. */
const char *bench_limit_instruction(nabla_numerics numerics, const char *isa);

#endif
