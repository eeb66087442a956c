/* A top-down merge sort, so that small runs are merged in the cache. The depth
 * of the recursion is the logarithm of the count. */
#include "lib/base/sort.h"

#include <stdint.h>
#include <string.h>

#include "lib/base/memory.h"

enum { SMALL_RUN = 8, MAX_ITEM = 256 };

typedef struct sorter {
  nabla_sort_order *compare;
  const void *context;
  size_t size;
  uint8_t *scratch; /* space for half of the items */
} sorter;

/* Copies one item, without a call for the usual sizes. The two do not overlap.
 */
static inline void copy_item(uint8_t *to, const uint8_t *from, size_t size) {
  if (size == 32)
    memcpy(to, from, 32);
  else if (size == 16)
    memcpy(to, from, 16);
  else if (size == 8)
    memcpy(to, from, 8);
  else
    memcpy(to, from, size);
}

static int after(const sorter *s, const uint8_t *a, const uint8_t *b) {
  return s->compare(a, b, s->context) > 0;
}

static int in_order(const sorter *s, const uint8_t *items, size_t count) {
  for (size_t i = 1; i < count; i++) {
    const uint8_t *item = items + i * s->size;
    if (after(s, item - s->size, item)) return 0;
  }
  return 1;
}

static void insertion_sort(const sorter *s, uint8_t *items, size_t count) {
  uint8_t item[MAX_ITEM];
  for (size_t i = 1; i < count; i++) {
    uint8_t *at = items + i * s->size;
    if (!after(s, at - s->size, at)) continue;
    copy_item(item, at, s->size);
    do {
      copy_item(at, at - s->size, s->size);
      at -= s->size;
    } while (at > items && after(s, at - s->size, item));
    copy_item(at, item, s->size);
  }
}

/* Merges two adjacent sorted runs. */
static void merge(const sorter *s, uint8_t *items, size_t left, size_t count) {
  size_t size = s->size;
  uint8_t *middle = items + left * size, *end = items + count * size;
  if (!after(s, middle - size, middle)) return;
  memcpy(s->scratch, items, left * size);
  if (after(s, items, end - size)) { /* all right items first */
    size_t right = (count - left) * size;
    memmove(items, middle, right);
    memcpy(items + right, s->scratch, left * size);
    return;
  }
  const uint8_t *from = s->scratch, *stop = from + left * size;
  uint8_t *out = items;
  while (from < stop && middle < end) {
    int take_right = after(s, from, middle);
    copy_item(out, take_right ? middle : from, size);
    if (take_right) {
      middle += size;
    } else {
      from += size;
    }
    out += size;
  }
  memcpy(out, from, (size_t)(stop - from)); /* the remaining right items are in
                                             * place */
}

static void sort_run(const sorter *s, uint8_t *items, size_t count) {
  if (count <= SMALL_RUN) {
    insertion_sort(s, items, count);
    return;
  }
  size_t left = count / 2;
  sort_run(s, items, left);
  sort_run(s, items + left * s->size, count - left);
  merge(s, items, left, count);
}

nabla_status nabla_sort(const nabla_allocator *allocator, void *items,
                        size_t count, size_t size, nabla_sort_order *compare,
                        const void *context, nabla_diag *diag) {
  sorter s = {compare, context, size, NULL};
  if (size == 0 || size > MAX_ITEM) {
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "items of %zu bytes; at most %d can be sorted", size,
                      MAX_ITEM);
  }
  if (count < 2 || in_order(&s, items, count)) return NABLA_OK;
  void *scratch;
  NABLA_TRY(nabla_alloc(allocator, count / 2, size, &scratch, diag));
  s.scratch = scratch;
  sort_run(&s, items, count);
  nabla_free(allocator, scratch, count / 2, size);
  return NABLA_OK;
}
