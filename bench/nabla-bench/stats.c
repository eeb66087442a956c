/* Medians and clocks. */
#include <stdlib.h>
#include <time.h>

#include "bench/nabla-bench/bench.h"

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_quantile(double *values, size_t count, double share) {
  if (!count) return 0;
  qsort(values, count, sizeof *values, ascending);
  const double at = share * (double)(count - 1);
  const size_t below = (size_t)at;
  const size_t above = below + 1 < count ? below + 1 : below;
  return values[below] + (at - (double)below) * (values[above] - values[below]);
}

double bench_now(uint32_t threads) {
  struct timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
