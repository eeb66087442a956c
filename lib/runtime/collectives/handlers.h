/* Handlers of the custom calls that collectives become. */
#ifndef NABLA_RUNTIME_COLLECTIVES_HANDLERS_H
#define NABLA_RUNTIME_COLLECTIVES_HANDLERS_H

#include "nabla/custom_call.h"

/* Live as long as the process. */
const nabla_call_handler *nabla_collective_handlers(size_t *out_count);

#endif
