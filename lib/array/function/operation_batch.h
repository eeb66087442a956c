/* Batches of operations of users with a handler. */
#ifndef NABLA_ARRAY_OPERATION_BATCH_H
#define NABLA_ARRAY_OPERATION_BATCH_H

#include "nabla/operation.h"

/* Adds the rule of the handler's custom calls, if the operation has `batch`.
 * NABLA_INVALID_ARGUMENT where the target has rules. */
NABLA_MUST_USE nabla_status
nabla_operation_batch_add(const nabla_operation *operation, nabla_diag *diag);

#endif
