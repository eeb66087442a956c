/* See the header. */
#include "lib/runtime/session/strided.h"

#include <string.h>

#include "nabla/executable.h"

static int is_empty(const nabla_strided_array *array) {
  for (uint32_t i = 0; i < array->rank; i++)
    if (array->sizes[i] == 0) return 1;
  return 0;
}

/* How many leading dimensions are left when those that lie together are one
 * run; its length, in elements, is stored. */
static uint32_t outer_rank(const nabla_strided_array *array, int64_t *out_run) {
  uint32_t rank = array->rank;
  int64_t run = 1;
  for (; rank > 0; rank--) {
    if (array->sizes[rank - 1] == 1) continue;
    if (array->strides[rank - 1] != run) break;
    run *= array->sizes[rank - 1];
  }
  *out_run = run;
  return rank;
}

int nabla_strided_is_dense(const nabla_strided_array *array) {
  int64_t run;
  return is_empty(array) || outer_rank(array, &run) == 0;
}

/* Copies `count` runs of `bytes` that are `step` bytes apart. */
static void copy_runs(char *to, const char *from, int64_t count, int64_t step,
                      size_t bytes) {
  for (int64_t i = 0; i < count; i++, from += step, to += bytes)
    memcpy(to, from, bytes);
}

/* The same for single elements: a memcpy of constant size is one move. */
static void copy_line(char *to, const char *from, int64_t count, int64_t step,
                      size_t bytes) {
  if (bytes == 1)
    copy_runs(to, from, count, step, 1);
  else if (bytes == 2)
    copy_runs(to, from, count, step, 2);
  else if (bytes == 4)
    copy_runs(to, from, count, step, 4);
  else if (bytes == 8)
    copy_runs(to, from, count, step, 8);
  else
    copy_runs(to, from, count, step, bytes);
}

void nabla_strided_copy(const nabla_strided_array *array, void *out) {
  if (is_empty(array)) return;
  int64_t run, at[NABLA_ARRAY_MAX_RANK] = {0};
  const uint32_t rank = outer_rank(array, &run);
  const size_t bytes = (size_t)run * array->element;
  const int64_t element = (int64_t)array->element;
  const char *from = array->data;
  char *to = out;
  if (rank == 0) {
    memcpy(to, from, bytes);
    return;
  }
  const uint32_t last = rank - 1;
  for (;;) {
    copy_line(to, from, array->sizes[last], array->strides[last] * element,
              bytes);
    to += (size_t)array->sizes[last] * bytes;
    uint32_t d = last; /* the next index, the last dimension apart */
    while (d > 0 && ++at[d - 1] == array->sizes[d - 1]) {
      d--;
      at[d] = 0;
      from -= (array->sizes[d] - 1) * array->strides[d] * element;
    }
    if (d == 0) return;
    from += array->strides[d - 1] * element;
  }
}
