/* A trace of the memory of a session's runs: which arrays were held when they
 * were most, and of which operations they are. The code says so where it was
 * compiled for a profile (nabla/services.h, hold). Functions are defined in
 * memory_trace.c. */
#ifndef NABLA_RUNTIME_SESSION_MEMORY_TRACE_H
#define NABLA_RUNTIME_SESSION_MEMORY_TRACE_H

#include "nabla/environment.h"
#include "nabla/session.h"

/* An array that is held. */
typedef struct nabla_held_array {
  const void *memory;
  uint64_t bytes;
  const char *what;
} nabla_held_array;

/* A zero-initialised trace is empty. One thread at a time. */
typedef struct nabla_memory_trace {
  nabla_held_array *held; /* now, in the order in which they began */
  size_t count, capacity;
  uint64_t bytes; /* of these */
  /* Of the peak: one for each operation, the most bytes first once
   * nabla_memory_trace_sort was called. */
  nabla_session_holder *peak;
  size_t peak_count, peak_capacity;
  uint64_t peak_bytes;
  int has_failed; /* an array is missing for want of memory */
} nabla_memory_trace;

/* An array begins to be held; what begins again at its address is another. */
void nabla_memory_trace_hold(nabla_memory_trace *trace,
                             const nabla_allocator *allocator,
                             const void *memory, uint64_t bytes,
                             const char *what);

/* The last array that began at an address is held no longer, if there is one.
 */
void nabla_memory_trace_drop(nabla_memory_trace *trace, const void *memory);

/* Ends a run: nothing is held. The peak stays. */
void nabla_memory_trace_end_run(nabla_memory_trace *trace);

/* Sorts the peak, the most bytes first, then by name. */
void nabla_memory_trace_sort(nabla_memory_trace *trace);

void nabla_memory_trace_deinit(nabla_memory_trace *trace,
                               const nabla_allocator *allocator);

#endif
