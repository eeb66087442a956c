/* See delayed_comm.h. */
#include "tests/support/delayed_comm.h"

#include <stdlib.h>
#include <time.h>

#include "lib/runtime/collectives/comm_internal.h"

typedef struct delayed_comm {
  nabla_comm base;
  nabla_comm *inner;
  uint64_t least_bytes;
  uint32_t rank;
  _Atomic int busy[NABLA_COMM_MAX_RANKS];
  _Atomic uint32_t us, count, count_behind;
} delayed_comm;

static void destroy(nabla_comm *comm) {
  nabla_comm_destroy(((delayed_comm *)comm)->inner);
  free(comm);
}

static void fail(nabla_comm *comm, uint32_t rank, const char *why) {
  nabla_comm_fail(((delayed_comm *)comm)->inner, rank, why);
}

static nabla_status take_status(nabla_comm *comm, nabla_diag *diag) {
  return nabla_comm_status(((delayed_comm *)comm)->inner, diag);
}

static nabla_status run(nabla_comm *comm, const nabla_collective *c,
                        nabla_diag *diag) {
  delayed_comm *d = (delayed_comm *)comm;
  const uint64_t bytes =
      c->outer * c->rows * c->inner * (nabla_dtype_bits(c->dtype) / 8);
  const int is_delayed =
      bytes >= d->least_bytes &&
      (d->rank == NABLA_COMM_ALL_RANKS || d->rank == c->rank);
  const uint32_t us = is_delayed ? atomic_load(&d->us) : 0;
  atomic_fetch_add(&d->busy[c->rank], 1);
  if (is_delayed) {
    atomic_fetch_add(&d->count, 1);
    atomic_fetch_add(&d->count_behind, (uint32_t)c->is_behind);
  }
  (void)nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000L}, NULL);
  const nabla_status status = nabla_comm_run(d->inner, c, diag);
  atomic_fetch_sub(&d->busy[c->rank], 1);
  return status;
}

nabla_comm *delayed_comm_create(nabla_comm *inner, uint64_t least_bytes,
                                uint32_t rank, uint32_t us) {
  static const nabla_comm_class class = {
      .destroy = destroy, .fail = fail, .status = take_status, .run = run};
  delayed_comm *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  d->base.class = &class;
  d->base.ranks = d->base.local_ranks = nabla_comm_size(inner);
  d->base.rank = nabla_comm_rank(inner);
  d->base.timeout = inner->timeout;
  d->inner = inner;
  d->least_bytes = least_bytes;
  d->rank = rank;
  atomic_store(&d->us, us);
  return &d->base;
}

void delayed_comm_set(nabla_comm *comm, uint32_t us) {
  atomic_store(&((delayed_comm *)comm)->us, us);
}

uint32_t delayed_comm_count(const nabla_comm *comm) {
  return atomic_load(&((const delayed_comm *)comm)->count);
}

uint32_t delayed_comm_count_behind(const nabla_comm *comm) {
  return atomic_load(&((const delayed_comm *)comm)->count_behind);
}

int delayed_comm_is_busy(const nabla_comm *comm, uint32_t rank) {
  return atomic_load(&((const delayed_comm *)comm)->busy[rank]) > 0;
}
