/* Communicators of any kind: nabla/comm.h. */
#include <stdlib.h>

#include "lib/base/require.h"
#include "lib/runtime/collectives/comm_internal.h"

#define DEFAULT_TIMEOUT 60 /* seconds */

time_t nabla_comm_timeout(void) {
  const char *text = getenv("NABLA_RANK_TIMEOUT");
  char *end = NULL;
  const long seconds = text ? strtol(text, &end, 10) : 0;
  return text && end > text && !*end && seconds > 0 ? (time_t)seconds
                                                    : DEFAULT_TIMEOUT;
}

void nabla_comm_destroy(nabla_comm *comm) {
  if (!comm) return;
  for (uint32_t r = 0; r < NABLA_COMM_MAX_RANKS; r++)
    nabla_exchange_queue_destroy(comm->queues[r]);
  comm->class->destroy(comm);
}

uint32_t nabla_comm_size(const nabla_comm *comm) { return comm->ranks; }

uint32_t nabla_comm_rank(const nabla_comm *comm) { return comm->rank; }

uint32_t nabla_comm_local_size(const nabla_comm *comm) {
  return comm->local_ranks;
}

uint64_t nabla_comm_bytes(nabla_comm *comm, uint32_t rank) {
  return rank < comm->ranks ? atomic_load(&comm->bytes[rank]) : 0;
}

void nabla_comm_fail(nabla_comm *comm, uint32_t rank, const char *why) {
  comm->class->fail(comm, rank, why);
}

nabla_status nabla_comm_status(nabla_comm *comm, nabla_diag *diag) {
  NABLA_REQUIRE(comm, diag);
  return comm->class->status(comm, diag);
}

void nabla_comm_abort(nabla_comm *comm, int exit_code) {
  if (comm->class->abort) comm->class->abort(comm, exit_code);
}

nabla_status nabla_comm_run(nabla_comm *comm, const nabla_collective *c,
                            nabla_diag *diag) {
  nabla_comm_settle(comm, c->rank);
  return comm->class->run(comm, c, diag);
}

/* Two multiplications: exchanges of a few bytes take half a microsecond. */
static uint64_t mix(uint64_t key, uint64_t word) {
  key = (key ^ word) * 0x9e3779b97f4a7c15u;
  return (key ^ key >> 32) * 0xd6e8feb86659fd93u;
}

uint64_t nabla_collective_key(const nabla_collective *c) {
  uint64_t key = 0xcbf29ce484222325u;
  key = mix(key, (uint64_t)c->kind << 32 | (uint64_t)c->join << 16 | c->dtype);
  key = mix(key, c->outer);
  key = mix(key, c->rows);
  key = mix(key, c->inner);
  key = mix(key, (uint64_t)c->split << 32 | c->concat);
  for (uint32_t i = 0; i < c->dim_count; i++)
    key = mix(key, (uint64_t)c->dims[i]);
  return key;
}
