/* Custom calls at run time: the handlers of this process, and the calls of
 * one executable. Functions are defined in call_registry.c too. */
#ifndef NABLA_RUNTIME_PROGRAM_CALLS_H
#define NABLA_RUNTIME_PROGRAM_CALLS_H

#include "lib/base/attribute_tree.h"
#include "nabla/custom_call.h"

#define NABLA_CALL_MAX_BUFFERS 64u /* arguments, and results, of a call */
#define NABLA_CALL_MAX_RANK    16u

/* NULL when there is none. It stays. */
const nabla_call_handler *nabla_call_find(const char *target,
                                          const char *platform);
/* The error that there is none, with the nearest name. */
NABLA_MUST_USE nabla_status nabla_call_fail_unknown(const char *target,
                                                    const char *platform,
                                                    nabla_diag *diag);

/* What an argument or result is. */
typedef struct nabla_call_type_of {
  const char *encoding; /* NULL: a tensor */
  nabla_dtype dtype;
  uint32_t rank;
} nabla_call_type_of;

/* Whether a call fits a handler: the error names the first parameter that does
 * not. */
NABLA_MUST_USE nabla_status
nabla_call_check(const nabla_call_handler *handler,
                 const nabla_call_type_of *arguments, size_t argument_count,
                 const nabla_call_type_of *results, size_t result_count,
                 const nabla_attribute_tree *attributes, nabla_diag *diag);

/* A custom call of the program: all with one target and equal attributes. */
typedef struct nabla_call_site {
  const char *target, *attributes; /* text of nabla_attribute_tree_write */
} nabla_call_site;

typedef struct nabla_calls nabla_calls;

/* Finds the handlers, reads attributes, makes the states.
 * @return NABLA_UNSUPPORTED  a target has no handler in this process
 *         NABLA_CORRUPT, NABLA_NO_MEMORY, and what `create` said */
NABLA_MUST_USE nabla_status nabla_calls_open(const nabla_call_site *sites,
                                             size_t count, nabla_calls **out,
                                             nabla_diag *diag);
void nabla_calls_close(nabla_calls *calls); /* NULL is allowed */

/* Who runs: a rank of a communicator, or nobody's (NULL, 0), and its place in
 * the mesh of the program. */
typedef struct nabla_call_rank {
  nabla_comm *comm;
  uint32_t rank, place;
  const uint32_t *ranks; /* by place; NULL: place i is rank i */
} nabla_call_rank;

/* Makes call `site`. `words`: the numbers of arguments and of results, then for
 * each its dtype, rank, address and dimensions. */
NABLA_MUST_USE nabla_status nabla_calls_run(nabla_calls *calls, uint64_t site,
                                            const uint64_t *words,
                                            nabla_call_rank rank,
                                            nabla_diag *diag);

#endif
