/* The verb collectives: exchanges between ranks, along each axis of a mesh. */
#ifndef NABLA_BENCH_COLLECTIVES_COLLECTIVES_H
#define NABLA_BENCH_COLLECTIVES_COLLECTIVES_H

#include "bench/nabla-bench/bench.h"
#include "nabla/comm.h"

enum {
  BENCH_MAX_AXES = 4,
  BENCH_COLLECTIVE_KINDS = 6,
  BENCH_COLLECTIVE_SIZES = 5,
};

/* Names of kinds, and sizes in bytes of the whole array, ascending. */
extern const char *const bench_collective_names[BENCH_COLLECTIVE_KINDS];
extern const uint64_t bench_collective_sizes[BENCH_COLLECTIVE_SIZES];

typedef struct bench_axis {
  char name[64];
  uint32_t size;
  uint32_t stride; /* ranks between neighbours along the axis */
  double seconds[BENCH_COLLECTIVE_KINDS][BENCH_COLLECTIVE_SIZES]; /* median */
} bench_axis;

typedef struct bench_mesh {
  bench_axis axes[BENCH_MAX_AXES];
  uint32_t axis_count, ranks;
  uint32_t first_rank; /* of this process, which keeps what it measures */
  uint64_t turns;
  nabla_comm *comm;
  /* Of one rank, while all work: products of f32, and copies in memory. */
  double operations_per_second, bytes_per_second;
} bench_mesh;

/* Bytes that a rank receives of a collective of n ranks by the ring model. */
double bench_ring_bytes(size_t kind, uint64_t bytes, uint32_t n);

/* Does all exchanges of `rank`, which all ranks do at once, and writes what it
 * measured to the mesh if it is the first of the process. */
NABLA_MUST_USE nabla_status bench_measure_rank(bench_mesh *mesh, uint32_t rank,
                                               nabla_diag *diag);

#endif
