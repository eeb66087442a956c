/* Operations with regions that are made for a batch. */
#ifndef NABLA_TRANSFORMS_BATCHING_REGIONS_H
#define NABLA_TRANSFORMS_BATCHING_REGIONS_H

#include "transforms/batching/batching.h"

/* Makes an operation with the operands, result types and `changes` of `copy`
 * as its attributes, and `count` regions of one empty block each, before
 * `b.before`. `types` has the arguments of all blocks, one after the other.
 * Null after an error. */
enum { NABLA_BATCH_MAX_REGIONS = 64 };
MlirOperation nabla_batch_open(const nabla_batching *s, const char *name,
                               const nabla_batch_copy *copy, intptr_t count,
                               const intptr_t *arguments,
                               const MlirType *types);

/* Begins the block of a region: operations go into it until nabla_batch_end,
 * which makes its terminator from `values` and gives back the place of before.
 * False after an error, also for a null value. */
typedef struct nabla_batch_place {
  nabla_builder outside;
  MlirOperation last;
} nabla_batch_place;
nabla_batch_place nabla_batch_begin(nabla_batching *s, MlirOperation op,
                                    intptr_t region);
bool nabla_batch_end(nabla_batching *s, nabla_batch_place place,
                     const char *name, intptr_t count, const MlirValue *values);

/* What stands for a value, as a tensor of the type `type` with the batch in
 * front if `batched`, else as it is. */
MlirValue nabla_batch_as(const nabla_batching *s, MlirValue value,
                         bool batched);

/* Whether running an operation where the program would not is harmless: no
 * effects, and nothing that can fail. */
typedef enum nabla_batch_harm {
  NABLA_BATCH_HARMLESS,
  NABLA_BATCH_CAN_FAIL, /* an integer division by zero */
  NABLA_BATCH_HAS_EFFECTS,
} nabla_batch_harm;
nabla_batch_harm nabla_batch_harm_of(const nabla_batching *s, MlirOperation op,
                                     MlirOperation *out_culprit);

#endif
