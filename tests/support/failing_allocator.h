/* An allocator for tests: fails when told to, checks every size it is given,
 * and knows what was not freed. */
#ifndef NABLA_TESTS_FAILING_ALLOCATOR_H
#define NABLA_TESTS_FAILING_ALLOCATOR_H

#include <pthread.h>
#include <stddef.h>

#include "nabla/allocator.h"

/* Pass &failing.allocator to the code under test. It must stay where it was
 * initialised. Fields may be read while no other thread allocates. */
typedef struct failing_allocator {
  nabla_allocator allocator;
  pthread_mutex_t lock;
  size_t fail_at;     /* which request for memory fails, from 1; 0: none */
  size_t requests;    /* calls that asked for memory, failed ones too    */
  size_t failures;    /* requests that got NULL on purpose               */
  size_t live_blocks; /* blocks not freed                                */
  size_t live_bytes, peak_bytes;
  size_t misuses; /* wrong old_size, unknown block, bytes written past
                     the end of a block; each also printed to stderr     */
} failing_allocator;

/* Request number `fail_at` and no other will fail; 0 for none. Fresh memory
 * holds a pattern, so that reading it before writing it shows. */
void failing_allocator_init(failing_allocator *failing, size_t fail_at);

/* Returns 1 when every block was freed and no call was wrong; else prints why
 * to stderr and returns 0. Call once, at the end. */
int failing_allocator_is_clean(failing_allocator *failing);

#endif
