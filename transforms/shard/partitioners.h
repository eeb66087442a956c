/* Partitioners of custom calls, which programs add by nabla/shard.h. Functions
 * are defined in partitioners.c, those of a call in partitioner_run.c. */
#ifndef NABLA_TRANSFORMS_SHARD_PARTITIONERS_H
#define NABLA_TRANSFORMS_SHARD_PARTITIONERS_H

#include "nabla/shard.h"
#include "transforms/shard/factors.h"

typedef struct nabla_partitioner {
  const char *target;
  nabla_call_partitioner functions;
  uint32_t batch_dims; /* of nabla_call_is_batch_partitionable; else 0 */
} nabla_partitioner;

/* The partitioner of a custom call without nabla.factors whose operands and
 * results are all arrays; NULL. */
const nabla_partitioner *nabla_partitioner_of(MlirOperation op);
/* Whether a target has one. */
bool nabla_partitioner_is_added(const char *target);
/* Whether there are any: what is compiled then is not cached. */
bool nabla_partitioners_are_used(void);

/* A call with the layouts of its arrays. */
typedef struct nabla_divided_call nabla_divided_call;
struct nabla_divided_call {
  nabla_divided_call *next; /* in a list of the user's */
  const nabla_grid *grid;
  const nabla_partitioner *partitioner;
  MlirOperation op;
  nabla_division operands[NABLA_FACTOR_ARRAYS], results[NABLA_FACTOR_ARRAYS];
  nabla_text program;
};

/* Runs one of its functions, which changes the layouts of `call` and writes the
 * program. False: it refused, or gave a sharding that is none, which is
 * reported if `is_strict`. */
bool nabla_partitioner_run(nabla_divided_call *call,
                           int (*function)(const nabla_partition_call *call),
                           bool is_strict);

/* Makes a nabla.shard_map of a call whose partitioner has divided it. */
bool nabla_divided_call_replace(nabla_divided_call *call);

/* Factors of a call of a target that is batch-partitionable. */
bool nabla_partitioner_factors(MlirOperation op, nabla_factors *out);

#endif
