/* See the header. */
#include "lib/runtime/session/memory_trace.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/memory.h"

/* Makes room for `count` elements; 0 if there is no memory. */
static int reserve(const nabla_allocator *allocator, void **items, size_t size,
                   size_t used, size_t *capacity, size_t count) {
  if (count <= *capacity) return 1;
  size_t room = *capacity ? 2 * *capacity : 64;
  while (room < count) room *= 2;
  void *grown = NULL;
  if (nabla_alloc(allocator, room, size, &grown, NULL)) return 0;
  if (used) memcpy(grown, *items, used * size);
  nabla_free(allocator, *items, *capacity, size);
  *items = grown;
  *capacity = room;
  return 1;
}

/* Adds an array to the peak, which has room. Texts are static: the same address
 * is the same operation. */
static void add(nabla_memory_trace *trace, const nabla_held_array *array) {
  for (size_t i = 0; i < trace->peak_count; i++)
    if (trace->peak[i].what == array->what) {
      trace->peak[i].bytes += array->bytes;
      trace->peak[i].arrays++;
      return;
    }
  trace->peak[trace->peak_count++] =
      (nabla_session_holder){array->what, array->bytes, 1};
}

/* Makes what is held now the peak. */
static void take(nabla_memory_trace *trace, const nabla_allocator *allocator) {
  void *peak = trace->peak;
  if (!reserve(allocator, &peak, sizeof *trace->peak, 0, &trace->peak_capacity,
               trace->count)) {
    trace->has_failed = 1;
    return;
  }
  trace->peak = peak;
  trace->peak_count = 0;
  trace->peak_bytes = trace->bytes;
  for (size_t i = 0; i < trace->count; i++) add(trace, &trace->held[i]);
}

void nabla_memory_trace_hold(nabla_memory_trace *trace,
                             const nabla_allocator *allocator,
                             const void *memory, uint64_t bytes,
                             const char *what) {
  void *held = trace->held;
  if (!reserve(allocator, &held, sizeof *trace->held, trace->count,
               &trace->capacity, trace->count + 1)) {
    trace->has_failed = 1;
    return;
  }
  trace->held = held;
  trace->held[trace->count++] = (nabla_held_array){memory, bytes, what};
  trace->bytes += bytes;
  if (trace->bytes > trace->peak_bytes) take(trace, allocator);
}

void nabla_memory_trace_drop(nabla_memory_trace *trace, const void *memory) {
  for (size_t i = trace->count; i-- > 0;) {
    if (trace->held[i].memory != memory) continue;
    trace->bytes -= trace->held[i].bytes;
    memmove(&trace->held[i], &trace->held[i + 1],
            (--trace->count - i) * sizeof *trace->held);
    return;
  }
}

void nabla_memory_trace_end_run(nabla_memory_trace *trace) {
  trace->count = 0;
  trace->bytes = 0;
}

static int by_bytes(const void *a, const void *b) {
  const nabla_session_holder *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return strcmp(x->what, y->what);
}

void nabla_memory_trace_sort(nabla_memory_trace *trace) {
  if (trace->peak_count)
    qsort(trace->peak, trace->peak_count, sizeof *trace->peak, by_bytes);
}

void nabla_memory_trace_deinit(nabla_memory_trace *trace,
                               const nabla_allocator *allocator) {
  nabla_free(allocator, trace->held, trace->capacity, sizeof *trace->held);
  nabla_free(allocator, trace->peak, trace->peak_capacity, sizeof *trace->peak);
  *trace = (nabla_memory_trace){.held = NULL};
}
