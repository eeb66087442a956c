/* What the kinds of communicators share. Functions are defined in comm.c. */
#ifndef NABLA_RUNTIME_COLLECTIVES_COMM_INTERNAL_H
#define NABLA_RUNTIME_COLLECTIVES_COMM_INTERNAL_H

#include <stdatomic.h>
#include <time.h>

#include "lib/runtime/collectives/collective.h"

/* A kind of communicator: what the functions of nabla/comm.h do. */
typedef struct nabla_comm_class {
  void (*destroy)(nabla_comm *comm);
  void (*fail)(nabla_comm *comm, uint32_t rank, const char *why);
  nabla_status (*status)(nabla_comm *comm, nabla_diag *diag);
  nabla_status (*run)(nabla_comm *comm, const nabla_collective *c,
                      nabla_diag *diag);
  void (*abort)(nabla_comm *comm, int exit_code); /* NULL: one process */
} nabla_comm_class;

typedef struct nabla_exchange_queue nabla_exchange_queue;

/* The first member of each kind. */
struct nabla_comm {
  const nabla_comm_class *class;
  uint32_t ranks;
  uint32_t rank;        /* of this process; NABLA_COMM_ALL_RANKS: all are its */
  uint32_t local_ranks; /* ranks on the CPUs of this one */
  time_t timeout;       /* seconds: NABLA_RANK_TIMEOUT */
  int is_sequential;    /* exchanges are not carried out by other threads */
  _Atomic uint64_t bytes[NABLA_COMM_MAX_RANKS];
  /* of each rank, used by its thread alone; NULL until it starts an exchange */
  nabla_exchange_queue *queues[NABLA_COMM_MAX_RANKS];
};

/* queue.c: ends its thread, once nothing is left to do. NULL is allowed. */
void nabla_exchange_queue_destroy(nabla_exchange_queue *queue);

/* NABLA_RANK_TIMEOUT, or 60 where it is no number of seconds. */
time_t nabla_comm_timeout(void);

/* A number that is equal where two members bring parts of one exchange. */
uint64_t nabla_collective_key(const nabla_collective *c);

#endif
