/* large.c under mpirun -n 2: one `all_reduce` and one `all_gather` of arrays
 * above 2^31 bytes, which no count of MPI-3 holds. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/runtime/collectives/collective.h"

#define BYTES ((1ull << 31) + 12345)

enum { RANKS = 2 };

/* Element `i` of a rank; sums of two wrap. */
static uint8_t element(uint64_t i, uint32_t rank) {
  return (uint8_t)(i * 7 + (i >> 20) + rank);
}

static int report(const char *kind, uint32_t rank, uint64_t wrong) {
  printf("%s rank %u wrong %llu\n", kind, rank, (unsigned long long)wrong);
  return wrong != 0;
}

static int reduce(nabla_comm *comm, nabla_collective *c, const uint8_t *in) {
  uint8_t *out = malloc(BYTES);
  uint64_t wrong = 0;
  c->kind = NABLA_COLLECTIVE_ALL_REDUCE;
  c->in = in;
  c->out = out;
  if (!out || nabla_comm_run(comm, c, NULL)) return 2;
  for (uint64_t i = 0; i < BYTES; i++)
    wrong += out[i] != (uint8_t)(element(i, 0) + element(i, 1));
  free(out);
  return report("all_reduce", c->rank, wrong);
}

static int gather(nabla_comm *comm, nabla_collective *c, const uint8_t *in) {
  uint8_t *out = malloc(RANKS * BYTES);
  uint64_t wrong = 0;
  c->kind = NABLA_COLLECTIVE_ALL_GATHER;
  c->in = in;
  c->out = out;
  if (!out || nabla_comm_run(comm, c, NULL)) return 2;
  for (uint32_t m = 0; m < RANKS; m++)
    for (uint64_t i = 0; i < BYTES; i++)
      wrong += out[m * BYTES + i] != element(i, m);
  free(out);
  return report("all_gather", c->rank, wrong);
}

int main(void) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_comm *comm;
  if (nabla_comm_mpi(&comm, &diag)) {
    printf("%s\n", diag.what);
    return 2;
  }
  const uint32_t rank = nabla_comm_rank(comm);
  uint8_t *in = malloc(BYTES);
  if (!in) return 2;
  for (uint64_t i = 0; i < BYTES; i++) in[i] = element(i, rank);
  nabla_collective c = {.dtype = NABLA_DTYPE_I8,
                        .rank = rank,
                        .index = rank,
                        .count = RANKS,
                        .members = {0, 1},
                        .outer = 1,
                        .rows = BYTES,
                        .inner = 1};
  const int failed = reduce(comm, &c, in) | gather(comm, &c, in);
  free(in);
  nabla_comm_destroy(comm);
  return failed;
}
