/* Results of private functions that become arguments: the caller allocates
 * them, so that it can plan them. */
#ifndef NABLA_TRANSFORMS_MEMORY_RESULT_ARGUMENTS_H
#define NABLA_TRANSFORMS_MEMORY_RESULT_ARGUMENTS_H

#include "transforms/ir/ir.h"

/* Changes the signature of `function`, which is private and has one block: each
 * result that is an allocation of static size, or all of one in another shape,
 * becomes an argument behind all others. Returns false if out of memory, which
 * was reported. */
bool nabla_result_arguments_make(MlirOperation function);

/* Makes `call`, of a function that was changed, allocate its results. */
bool nabla_result_arguments_pass(MlirOperation call, MlirOperation callee);

/* Removes the marks of the module that both leave. */
void nabla_result_arguments_finish(MlirOperation function);

/* Adds an argument behind the others, and returns it. */
MlirValue nabla_function_add_argument(MlirOperation function, MlirType type);

/* The allocation of the block `entry` that a returned buffer is, or all of
 * which it is in another shape, both plain; null if there is none. */
MlirOperation nabla_result_allocation(MlirBlock entry, MlirValue value);

#endif
