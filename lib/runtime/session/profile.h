/* The profile of an executable; nabla/profile.h. Runs on several threads add to
 * one. */
#ifndef NABLA_RUNTIME_SESSION_PROFILE_H
#define NABLA_RUNTIME_SESSION_PROFILE_H

#include "nabla/allocator.h"
#include "nabla/profile.h"

typedef struct nabla_profiler nabla_profiler;

/* NULL without memory. */
nabla_profiler *nabla_profiler_create(const nabla_allocator *allocator);
/* NULL is allowed. */
void nabla_profiler_destroy(nabla_profiler *self);

/* Adds a call to the row of `what`. Without memory for a row, it has none. */
void nabla_profiler_add(nabla_profiler *self, const char *what, double seconds,
                        uint64_t bytes, uint64_t flops);
void nabla_profiler_add_run(nabla_profiler *self, double seconds);

/* Seconds of a clock. */
double nabla_profiler_now(void);

nabla_profile nabla_profiler_get(const nabla_profiler *self);

#endif
