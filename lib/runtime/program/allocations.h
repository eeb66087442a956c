/* Memory for compiled code and for copies of weights: aligned to a cache line,
 * which the allocators of callers are not, and linked in a list, so that
 * whoever owns the list can free what is left. */
#ifndef NABLA_RUNTIME_PROGRAM_ALLOCATIONS_H
#define NABLA_RUNTIME_PROGRAM_ALLOCATIONS_H

#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/services.h"

/* A list; zero-initialised is empty. One thread at a time. */
typedef struct nabla_allocations {
  struct nabla_allocation *first;
} nabla_allocations;

/* Allocates `bytes` (0 is allowed) at NABLA_SERVICES_ALIGNMENT and adds them
 * to `blocks`. The memory is not zeroed. @return NULL when there is none */
void *nabla_allocations_allocate(nabla_allocations *blocks,
                                 const nabla_allocator *allocator,
                                 uint64_t bytes);

/* Frees what nabla_allocations_allocate gave for the same list, or what was
 * taken from it (`blocks` NULL). NULL memory is allowed. */
void nabla_allocations_free(nabla_allocations *blocks,
                            const nabla_allocator *allocator, void *memory);

/* 1 when `memory` is the start of a block of the list. Reads nothing there. */
int nabla_allocations_hold(const nabla_allocations *blocks, const void *memory);

/* Takes a block out of the list: the caller owns it now. */
void nabla_allocations_take(nabla_allocations *blocks, void *memory);

/* Adds a block that is in no list. */
void nabla_allocations_add(nabla_allocations *blocks, void *memory);

/* The block that was added last; NULL when the list is empty. */
void *nabla_allocations_last(const nabla_allocations *blocks);

/* The block that was added to its list just before `memory`, or NULL. */
void *nabla_allocations_before(const void *memory);

/* The bytes that were asked for, and a number that the owner of the list keeps
 * with a block, 0 at first. */
uint64_t nabla_allocations_bytes(const void *memory);
uint64_t *nabla_allocations_stamp(void *memory);

/* The bytes that the allocator gave for a block. */
uint64_t nabla_allocations_size(const void *memory);

/* Frees all that is in the list. */
void nabla_allocations_clear(nabla_allocations *blocks,
                             const nabla_allocator *allocator);

#endif
