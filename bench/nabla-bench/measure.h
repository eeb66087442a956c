/* One problem: limits, the kernel, and the peers that know it, in turns. */
#ifndef NABLA_BENCH_MEASURE_H
#define NABLA_BENCH_MEASURE_H

#include "bench/nabla-bench/contest.h"
#include "bench/nabla-bench/kernel.h"
#include "bench/nabla-bench/peer.h"

#define BENCH_MAX_ROWS 16

typedef struct bench_measured {
  bench_problem problem;
  uint32_t turns;
  bench_kernel *kernel;
  bench_limit limit;
  contestant rows[BENCH_MAX_ROWS];
  bench_peer *peers[BENCH_MAX_ROWS]; /* of a row, or NULL */
  uint32_t count;
  /* numbers of rows, or -1 where there is none */
  int read_row, peak_row, kernel_row, limit_row, copy_row, prepack_row;
  struct {
    char name[64], why[256];
  } skipped[BENCH_MAX_ROWS];
  uint32_t skipped_count;
} bench_measured;

/* @param peers see bench_peer_is_wanted
 * @param bytes of weights that take turns */
NABLA_MUST_USE nabla_status bench_measure(const bench_problem *problem,
                                          const char *peers, uint64_t bytes,
                                          uint32_t turns, bench_measured *out,
                                          nabla_diag *diag);
void bench_measured_free(bench_measured *self);

/* The limit's time / a row's; 0 for one that failed. */
double bench_measured_share(const bench_measured *self, int row);
/* A row's time / the kernel's: how many times faster the kernel is; 0 without
 * one. */
double bench_measured_ratio(const bench_measured *self, int row);

#endif
