/* Ranks as threads: exchanges of all kinds, in groups that overlap, with
 * results that are checked. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/runtime/collectives/collective.h"

enum { RANKS = 4, ROUNDS = 500, COUNT = 64 };

typedef struct rank {
  nabla_comm *comm;
  uint32_t number;
  int wrong;
  pthread_t thread;
} rank;

/* All ranks, or the pair of the rank. */
static void set_group(nabla_collective *c, uint32_t number, int is_pair) {
  c->rank = number;
  c->count = is_pair ? 2 : RANKS;
  c->index = is_pair ? number % 2 : number;
  for (uint32_t i = 0; i < c->count; i++)
    c->members[i] = is_pair ? number / 2 * 2 + i : i;
}

static void reduce(rank *r, int is_pair, float base) {
  float in[COUNT], out[COUNT];
  nabla_collective c = {.kind = NABLA_COLLECTIVE_ALL_REDUCE,
                        .dtype = NABLA_DTYPE_F32,
                        .in = in,
                        .out = out,
                        .outer = 1,
                        .rows = COUNT,
                        .inner = 1};
  float sum = 0;
  set_group(&c, r->number, is_pair);
  for (uint32_t i = 0; i < c.count; i++) sum += base + (float)c.members[i];
  for (int i = 0; i < COUNT; i++) in[i] = base + (float)r->number;
  if (nabla_comm_run(r->comm, &c, NULL)) r->wrong++;
  for (int i = 0; i < COUNT; i++) r->wrong += out[i] != sum;
}

static void gather(rank *r, int is_pair, float base) {
  float in[COUNT], out[RANKS * COUNT];
  nabla_collective c = {.kind = NABLA_COLLECTIVE_ALL_GATHER,
                        .dtype = NABLA_DTYPE_F32,
                        .in = in,
                        .out = out,
                        .outer = 1,
                        .rows = COUNT,
                        .inner = 1};
  set_group(&c, r->number, is_pair);
  for (int i = 0; i < COUNT; i++) in[i] = base + (float)r->number;
  if (nabla_comm_run(r->comm, &c, NULL)) r->wrong++;
  for (uint32_t i = 0; i < c.count * COUNT; i++)
    r->wrong += out[i] != base + (float)c.members[i / COUNT];
}

static void *run(void *self) {
  rank *r = self;
  for (int i = 0; i < ROUNDS; i++) {
    reduce(r, i % 2, (float)i);
    gather(r, i % 3 == 0, (float)i);
  }
  return NULL;
}

int main(void) {
  nabla_comm *comm;
  rank ranks[RANKS];
  int wrong = 0;
  if (nabla_comm_threads(RANKS, &comm, NULL)) return 1;
  for (uint32_t i = 0; i < RANKS; i++) {
    ranks[i] = (rank){.comm = comm, .number = i};
    if (pthread_create(&ranks[i].thread, NULL, run, &ranks[i])) return 1;
  }
  for (uint32_t i = 0; i < RANKS; i++) {
    pthread_join(ranks[i].thread, NULL);
    wrong += ranks[i].wrong;
  }
  nabla_comm_destroy(comm);
  printf("%d wrong values\n", wrong);
  return wrong != 0;
}
