/* The parts of a function with a derivative of its own, once they are traced
 * (ruled.c), and the functions that they become (ruled_emit.c). */
#ifndef NABLA_ARRAY_DERIVATIVE_RULED_TRACE_H
#define NABLA_ARRAY_DERIVATIVE_RULED_TRACE_H

#include "lib/array/derivative/ruled.h"

/* Parts that were traced. All functions have the same arguments: those of the
 * function, then what any part captures. */
typedef struct nabla_ruled_trace {
  const nabla_ruled *ruled;
  nabla_body bodies[NABLA_PARTS]; /* site NULL: there is none */
  nabla_buffer leaves;   /* nabla_array *: of the arguments            */
  nabla_buffer captures; /* nabla_array *: of all parts, each once      */
  size_t argument_count, result_count;
} nabla_ruled_trace;

/* The number of a part's capture among all. */
size_t nabla_ruled_capture(const nabla_ruled_trace *trace,
                           const nabla_array *array);

/* Records the call of the function that the parts become. */
bool nabla_ruled_call(const nabla_ruled_trace *trace, nabla_array **out);

#endif
