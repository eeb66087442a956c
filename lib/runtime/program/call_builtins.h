/* Handlers of custom calls that are always there. */
#ifndef NABLA_RUNTIME_PROGRAM_CALL_BUILTINS_H
#define NABLA_RUNTIME_PROGRAM_CALL_BUILTINS_H

#include "nabla/custom_call.h"

const nabla_call_handler *nabla_call_builtins(size_t *out_count);

#endif
