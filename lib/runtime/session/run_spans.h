/* Spans of memory, sorted by where they begin: which of the arrays of a run
 * overlap, also among thousands, without comparing each with each. */
#ifndef NABLA_RUNTIME_SESSION_RUN_SPANS_H
#define NABLA_RUNTIME_SESSION_RUN_SPANS_H

#include <stddef.h>
#include <stdint.h>

/* The bytes [begin, end) of array `number`; not empty. */
typedef struct nabla_run_span {
  uintptr_t begin, end;
  uintptr_t reach; /* the largest end of this one and of those before it */
  size_t number;
} nabla_run_span;

/* A list in the memory of its owner; zero-initialised is empty. */
typedef struct nabla_run_spans {
  nabla_run_span *at;
  size_t count;
} nabla_run_spans;

/* Adds the span of `bytes` at `data`, or nothing if there are none. The list
 * has room, and is sorted afterwards. */
void nabla_run_spans_add(nabla_run_spans *spans, const void *data,
                         uint64_t bytes, size_t number);

/* Sorts a list by begin, then by number, without memory of its own. */
void nabla_run_spans_sort(nabla_run_spans *spans);

/* The number of spans that begin before `address`. */
size_t nabla_run_spans_before(const nabla_run_spans *spans, uintptr_t address);

/* 1 when a span overlaps the `bytes` at `data`, of which there are some. */
int nabla_run_spans_overlap(const nabla_run_spans *spans, const void *data,
                            uint64_t bytes);

/* 1 when span `index` of the sorted list overlaps another one of it. */
int nabla_run_spans_overlap_other(const nabla_run_spans *spans, size_t index);

#endif
