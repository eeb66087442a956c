/* A stable sort with a worst case of O(n log n) and a bounded stack. */
#ifndef NABLA_BASE_SORT_H
#define NABLA_BASE_SORT_H

#include <stddef.h>

#include "nabla/allocator.h"
#include "nabla/status.h"

/* < 0, 0 or > 0 as `a` sorts before, with or after `b`. */
typedef int nabla_sort_order(const void *a, const void *b, const void *context);

/* Sorts `count` items of `size` bytes (1 to 256). Items already in order cost
 * count - 1 comparisons and no memory; otherwise half of them are copied.
 * @return NABLA_OK; NABLA_NO_MEMORY with the items untouched */
NABLA_MUST_USE nabla_status nabla_sort(const nabla_allocator *allocator,
                                       void *items, size_t count, size_t size,
                                       nabla_sort_order *compare,
                                       const void *context, nabla_diag *diag);

#endif
