/* A communicator that takes its time, without using the CPU: each exchange of
 * another communicator takes at least so long. */
#ifndef NABLA_TESTS_SUPPORT_DELAYED_COMM_H
#define NABLA_TESTS_SUPPORT_DELAYED_COMM_H

#include <stdint.h>

#include "nabla/comm.h"

/* Wraps `inner`, which is destroyed with it. Exchanges of at least
 * `least_bytes` take `us` microseconds more, for rank `rank` or for
 * NABLA_COMM_ALL_RANKS. NULL without memory. */
nabla_comm *delayed_comm_create(nabla_comm *inner, uint64_t least_bytes,
                                uint32_t rank, uint32_t us);

/* Changes the delay. */
void delayed_comm_set(nabla_comm *comm, uint32_t us);

/* Exchanges that were delayed, and those of them that were carried out while
 * their rank computed. */
uint32_t delayed_comm_count(const nabla_comm *comm);
uint32_t delayed_comm_count_behind(const nabla_comm *comm);

/* Whether an exchange of the rank is under way. */
int delayed_comm_is_busy(const nabla_comm *comm, uint32_t rank);

#endif
