/* Several ways to do the same, measured in turns. */
#ifndef NABLA_BENCH_CONTEST_H
#define NABLA_BENCH_CONTEST_H

#include "bench/nabla-bench/bench.h"

#define CONTEST_MAX_RUNS 256 /* in one turn */

/* One of those that take turns. */
typedef struct contestant {
  char name[64];
  /* Runs `count` times, the first with the weight `first` of those that rotate,
   * and stores how many seconds each run took. */
  nabla_status (*run)(void *self, uint64_t first, uint32_t count, double *out,
                      nabla_diag *diag);
  void *self;
  double bytes, flops; /* of one run; 0: they do not count */

  /* Runs in a turn: 0 for as many as take some time, 1 where a run is long
   * enough to be a turn. */
  uint32_t fixed;

  /* It stopped, or the caller left it out; its figures mean nothing. */
  int failed;
  char why[256];

  /* by contest_run */
  uint32_t turns;                 /* 1 where one run takes seconds */
  uint32_t count;                 /* runs in a turn */
  uint64_t next;                  /* weight to begin with */
  double *medians;                /* of each turn */
  double median, spread, fastest; /* seconds, over all runs; the spread is the
                                     interquartile range, of the median */
  double *all;
  size_t all_count;
} contestant;

/* Lets all take `turns` turns. One that fails is left out from then on; one
 * whose first run takes seconds counts with that run alone. */
NABLA_MUST_USE nabla_status contest_run(contestant *all, size_t count,
                                        uint32_t turns, nabla_diag *diag);

/* The median over all turns of a's time / b's time in the same turn. */
double contest_ratio(const contestant *a, const contestant *b, uint32_t turns);

void contest_deinit(contestant *all, size_t count);

#endif
