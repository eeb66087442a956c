/* Checks of planned memory, a debug mode: with NABLA_PLAN_GUARD=1 in the
 * environment, parts of planned blocks (nabla/services.h, part_begin) that
 * overlap in time and memory end the run with an error, and so do writes to the
 * red zones behind parts, which code compiled with `plan_guard` has. Parts hold
 * NaNs before they are written and after their end, and are poisoned for
 * AddressSanitizer then. */
#ifndef NABLA_RUNTIME_SESSION_PLAN_GUARD_H
#define NABLA_RUNTIME_SESSION_PLAN_GUARD_H

#include "nabla/allocator.h"
#include "nabla/services.h"

typedef struct nabla_guarded_part {
  uint8_t *memory;
  uint64_t bytes; /* without flags */
  uint64_t flags;
} nabla_guarded_part;

/* The parts that live. Zero-initialised is empty. */
typedef struct nabla_plan_guard {
  nabla_guarded_part *parts;
  size_t count, capacity;
} nabla_plan_guard;

/* Whether the environment asks for checks: read once for each process. */
int nabla_plan_guard_is_on(void);

/* Begins and ends a part; `bytes` with its flags. Returns 0 if memory is not as
 * a plan leaves it. A part for which there is no memory to note it is not
 * checked. */
int nabla_plan_guard_begin(nabla_plan_guard *guard,
                           const nabla_allocator *allocator, void *memory,
                           uint64_t bytes);
int nabla_plan_guard_end(nabla_plan_guard *guard, void *memory);

/* Makes memory that is allocated anew readable for AddressSanitizer. */
void nabla_plan_guard_forget(void *memory, uint64_t bytes);

void nabla_plan_guard_deinit(nabla_plan_guard *guard,
                             const nabla_allocator *allocator);

#endif
