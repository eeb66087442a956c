/* Traces: recordings whose arguments have no data, from which a function or a
 * region of an operation is made. A scope that is opened within a trace is part
 * of it, and a trace within a trace is one of its regions. */
#ifndef NABLA_ARRAY_TRACE_H
#define NABLA_ARRAY_TRACE_H

#include "lib/array/record.h"

/* A trace on the stack of the thread that records. */
typedef struct nabla_trace {
  uint64_t number; /* not 0; no other trace of the process has it */
  struct nabla_trace *outer, *root;
  unsigned depth;
  const char *what;   /* is being traced: for messages    */
  nabla_scope *scope; /* NULL before begin, and after end */
  nabla_buffer sizes; /* of the root: unknown sizes       */
} nabla_trace;

#define NABLA_TRACE_MAX_DEPTH 64

/* Opens a scope of `engine`, in which the trace is recorded. */
NABLA_MUST_USE nabla_status nabla_trace_begin(nabla_trace *trace,
                                              nabla_engine *engine,
                                              const char *what,
                                              nabla_diag *diag);
/* Ends the scope; does nothing before begin. */
void nabla_trace_end(nabla_trace *trace);

/* A new argument. Its sizes below 0 are numbers of unknown sizes; NABLA_DYNAMIC
 * gets a number of its own. NULL after a failure of the scope. */
nabla_array *nabla_trace_argument(nabla_trace *trace,
                                  const nabla_array_type *type, bool is_weak);

/* Whether the trace of this number is being recorded by this thread. */
bool nabla_trace_is_open(uint64_t number);

/* ---- unknown sizes ----
 *
 * In the shape of an array an unknown size is a number below NABLA_DYNAMIC.
 * Equal numbers are equal sizes. */

/* The number of the size called `name`, which lives as long as the trace, in
 * dimension `dim` of `array`. */
NABLA_MUST_USE nabla_status nabla_trace_name_size(nabla_trace *trace,
                                                  const char *name,
                                                  nabla_array *array,
                                                  uint32_t dim, int64_t *out,
                                                  nabla_diag *diag);
/* Gives a number to every NABLA_DYNAMIC of a new array. False after a failure
 * of its scope. */
bool nabla_trace_number_sizes(nabla_scope *scope, nabla_array *array);
/* The array that has an unknown size, and in which dimension; or NULL. */
const nabla_array *nabla_trace_size_array(const nabla_trace *trace,
                                          int64_t size, uint32_t *out_dim);
/* The name of a size, or "?". */
const char *nabla_trace_size_name(const nabla_trace *trace, int64_t size);

/* Whether dimensions of these sizes may be one: equal, or unknown, so that they
 * are compared at run time, unless they have different names. `out` gets what
 * is known. */
bool nabla_size_join(const nabla_scope *scope, int64_t a, int64_t b,
                     int64_t *out);

/* Appends to `operands` the unknown sizes of `type`, in order, each as an array
 * of dtype NABLA_DTYPE_INDEX that is recorded for it. False after a failure. */
bool nabla_trace_add_sizes(const nabla_array_call *site, nabla_scope *scope,
                           const nabla_array_type *type, uint32_t *count,
                           nabla_array **operands, uint32_t capacity);

#endif
