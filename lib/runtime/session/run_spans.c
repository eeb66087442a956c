/* See run_spans.h. The sort is a heap sort: it needs no memory. */
#include "lib/runtime/session/run_spans.h"

void nabla_run_spans_add(nabla_run_spans *spans, const void *data,
                         uint64_t bytes, size_t number) {
  const uintptr_t begin = (uintptr_t)data;
  if (bytes)
    spans->at[spans->count++] =
        (nabla_run_span){begin, begin + bytes, 0, number};
}

static int is_less(const nabla_run_span *a, const nabla_run_span *b) {
  return a->begin != b->begin ? a->begin < b->begin : a->number < b->number;
}

/* Moves span `root` down in the heap of the first `count`. */
static void sift(nabla_run_span *at, size_t root, size_t count) {
  for (size_t child; (child = 2 * root + 1) < count; root = child) {
    if (child + 1 < count && is_less(&at[child], &at[child + 1])) child++;
    if (!is_less(&at[root], &at[child])) return;
    const nabla_run_span moved = at[root];
    at[root] = at[child];
    at[child] = moved;
  }
}

void nabla_run_spans_sort(nabla_run_spans *spans) {
  nabla_run_span *at = spans->at;
  for (size_t i = spans->count / 2; i > 0; i--) sift(at, i - 1, spans->count);
  for (size_t left = spans->count; left > 1; left--) {
    const nabla_run_span most = at[0];
    at[0] = at[left - 1];
    at[left - 1] = most;
    sift(at, 0, left - 1);
  }
  uintptr_t reach = 0;
  for (size_t i = 0; i < spans->count; i++) {
    if (at[i].end > reach) reach = at[i].end;
    at[i].reach = reach;
  }
}

size_t nabla_run_spans_before(const nabla_run_spans *spans, uintptr_t address) {
  size_t low = 0, high = spans->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (spans->at[middle].begin < address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

int nabla_run_spans_overlap(const nabla_run_spans *spans, const void *data,
                            uint64_t bytes) {
  const uintptr_t begin = (uintptr_t)data;
  const size_t before = nabla_run_spans_before(spans, begin + bytes);
  return before > 0 && spans->at[before - 1].reach > begin;
}

int nabla_run_spans_overlap_other(const nabla_run_spans *spans, size_t index) {
  const nabla_run_span *span = &spans->at[index];
  return (index > 0 && span[-1].reach > span->begin) ||
         (index + 1 < spans->count && span[1].begin < span->end);
}
