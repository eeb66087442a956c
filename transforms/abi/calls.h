/* Custom calls: what their handlers take, and their numbers. */
#ifndef NABLA_TRANSFORMS_ABI_CALLS_H
#define NABLA_TRANSFORMS_ABI_CALLS_H

#include "lib/runtime/program/calls.h"
#include "transforms/ir/ir.h"

/* The attribute with the number of a call, set by nabla-calls. */
#define NABLA_CALL_SITE "nabla.site"
/* How nabla-vmap applies it to a batch: transforms/batching. */
#define NABLA_CALL_BATCH "nabla.batch"

/* The handler that a custom_call names; NULL when there is none. */
const nabla_call_handler *nabla_call_handler_of(MlirOperation op);

/* The dtype of elements; false for a type that no array has. */
bool nabla_call_dtype(MlirType element, nabla_dtype *out);

/* What of the handlers belongs into a key of the object cache. */
void nabla_call_handlers_describe(nabla_text *out);

#endif
