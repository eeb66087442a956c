/* Batches of while, and what batches of control flow have in common, which is
 * in control.c. */
#ifndef NABLA_TRANSFORMS_BATCHING_CONTROL_WHILE_H
#define NABLA_TRANSFORMS_BATCHING_CONTROL_WHILE_H

#include "transforms/batching/batching.h"

bool nabla_batch_while(nabla_batching *s, MlirOperation op);

/* The type of a value that is batched, as a tensor, or is not. */
MlirType nabla_batch_as_type(const nabla_batching *s, MlirType type,
                             bool batched);
/* Makes the operations of the block `from` for arguments of the block `to`;
 * NULL: none is batched. */
bool nabla_batch_region(nabla_batching *s, MlirBlock from, MlirBlock to,
                        const bool *batched);
/* `yes` for examples for which `condition` (of B elements) is true. */
MlirValue nabla_batch_choose(const nabla_batching *s, MlirValue condition,
                             MlirValue yes, MlirValue no);

#endif
