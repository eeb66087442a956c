/* The chart of docs/BENCHMARKS.md: shares of the limit by M, as SVG. */
#ifndef NABLA_BENCH_CHART_H
#define NABLA_BENCH_CHART_H

#include "nabla/status.h"

#define CHART_MAX_POINTS 32

typedef struct chart_line {
  char name[64];
  unsigned count;
  unsigned m[CHART_MAX_POINTS];   /* rising, from 1 to 512 */
  double share[CHART_MAX_POINTS]; /* 0 .. 1, or more */
} chart_line;

/* Writes the file anew.
 * @return NABLA_IO when it cannot be written */
NABLA_MUST_USE nabla_status chart_write(const char *path,
                                        const chart_line *lines, unsigned count,
                                        nabla_diag *diag);

#endif
