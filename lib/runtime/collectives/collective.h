/* One exchange between ranks, as transports carry it out. Functions are defined
 * in join.c and take.c, nabla_comm_run in comm.c. */
#ifndef NABLA_RUNTIME_COLLECTIVES_COLLECTIVE_H
#define NABLA_RUNTIME_COLLECTIVES_COLLECTIVE_H

#include "nabla/comm.h"
#include "nabla/dtype.h"

typedef enum nabla_collective_kind {
  NABLA_COLLECTIVE_ALL_REDUCE,
  NABLA_COLLECTIVE_REDUCE_SCATTER,
  NABLA_COLLECTIVE_ALL_GATHER,
  NABLA_COLLECTIVE_ALL_TO_ALL,
  NABLA_COLLECTIVE_PERMUTE,
  NABLA_COLLECTIVE_BROADCAST,
} nabla_collective_kind;

/* How elements are joined: numbers of Nabla_ReduceKind. */
typedef enum nabla_join {
  NABLA_JOIN_SUM = 0,
  NABLA_JOIN_MAX = 1,
  NABLA_JOIN_PROD = 2,
  NABLA_JOIN_MIN = 3,
  NABLA_JOIN_ANY = 5,
  NABLA_JOIN_ALL = 6,
} nabla_join;

/* `count` members exchange; `in` and `out` are those of member `index`. Arrays
 * are seen as [outer, ROWS, inner] in elements:
 *   REDUCE_SCATTER  in has ROWS = count * rows, out has rows
 *   ALL_GATHER      in has ROWS = rows, out has count * rows
 *   others          in and out have outer * rows * inner elements
 *   ALL_TO_ALL      `dims`: the shape of `in`, divided along `split`, joined
 *                   along `concat`; outer, rows and inner are not used */
typedef struct nabla_collective {
  nabla_collective_kind kind;
  nabla_join join;
  nabla_dtype dtype;
  uint32_t rank; /* of the communicator */
  uint32_t index, count;
  uint32_t members[NABLA_COMM_MAX_RANKS]; /* ranks */
  const void *in;
  void *out;
  uint64_t outer, rows, inner;
  uint32_t dim_count, split, concat;
  const int64_t *dims;
  uint32_t source; /* PERMUTE: the member that sends here, or UINT32_MAX;
                      BROADCAST: the member that has the value */
  int is_check;    /* 1: nabla_comm_bytes does not count it */
  int is_behind;   /* 1: the rank computes meanwhile, and waits leave the CPU */
} nabla_collective;

/* Joins elements [first, first + count) of `member_count` arrays into `out`, by
 * a balanced tree over members, the same for any `first` and `count`. f16 and
 * bf16 are joined in f32 and rounded once, integers wrap. False for a dtype
 * that cannot be joined so. */
int nabla_collective_can_join(nabla_join join, nabla_dtype dtype);
void nabla_collective_join(nabla_join join, nabla_dtype dtype,
                           const void *const *arrays, uint32_t member_count,
                           uint64_t first, uint64_t count, void *out);

/* Writes the part of `out` that comes from member `from`, whose input is `in`:
 * for all kinds that join nothing. Returns the bytes. */
uint64_t nabla_collective_take(const nabla_collective *c, uint32_t from,
                               const void *in);

/* Bytes of what member `from` gives this one, and what this one gives to `to`;
 * 0 for itself. Of kinds that join, for each outer one's own rows. */
uint64_t nabla_collective_piece(const nabla_collective *c);

/* Copies what member `to` takes of this member's input, without gaps; and
 * writes the part of `out` that comes from member `from`, which packed it. */
void nabla_collective_pack(const nabla_collective *c, uint32_t to,
                           void *packed);
void nabla_collective_unpack(const nabla_collective *c, uint32_t from,
                             const void *packed);

/* Carries it out, behind all that the rank started. NABLA_CANCELLED where the
 * communicator is spent. */
NABLA_MUST_USE nabla_status nabla_comm_run(nabla_comm *comm,
                                           const nabla_collective *c,
                                           nabla_diag *diag);

/* queue.c: has it carried out by a thread of the rank; `in` and `out` are the
 * exchange's until nabla_comm_wait of `out` returns. One thread at a time calls
 * these functions for a rank. @return NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_comm_start(nabla_comm *comm,
                                             const nabla_collective *c,
                                             nabla_diag *diag);
/* @return the status of the exchange; NABLA_CORRUPT: none was started */
NABLA_MUST_USE nabla_status nabla_comm_wait(nabla_comm *comm, uint32_t rank,
                                            const void *out, nabla_diag *diag);
/* Waits until all that the rank started is over. */
void nabla_comm_settle(nabla_comm *comm, uint32_t rank);
/* Ends a run of the rank: no exchange uses its arrays any more. `why`: why the
 * run failed, or NULL; exchanges that were started are given up then. */
void nabla_comm_leave(nabla_comm *comm, uint32_t rank, const char *why);

#endif
