/* The graph of a walk as a program. */
#ifndef NABLA_ARRAY_EMIT_H
#define NABLA_ARRAY_EMIT_H

#include "lib/array/walk.h"

/* Appends the bytecode of a module with the function "main", of the leaves of
 * `walk`, which is a nabla_walk, to its results: a nabla_program_writer. */
NABLA_MUST_USE nabla_status nabla_walk_emit(void *walk, nabla_buffer *bytecode,
                                            nabla_diag *diag);

#endif
