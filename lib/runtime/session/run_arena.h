/* An arena: an allocator for compiled code that keeps released blocks from run
 * to run, so that a run after the first of its sizes allocates nothing. Sizes
 * are rounded up to one of eight classes for each power of two, and a released
 * block serves the next request of its class. */
#ifndef NABLA_RUNTIME_SESSION_RUN_ARENA_H
#define NABLA_RUNTIME_SESSION_RUN_ARENA_H

#include "lib/runtime/program/allocations.h"

/* Kept blocks that were not used in this number of runs are freed. */
#define NABLA_RUN_ARENA_IDLE_RUNS 64u

#define NABLA_RUN_ARENA_CLASSES 464 /* of 64 bytes to 2^63 */

/* A zero-initialised arena is empty. One thread at a time. */
typedef struct nabla_run_arena {
  nabla_allocations live;                          /* allocated, not released */
  nabla_allocations kept[NABLA_RUN_ARENA_CLASSES]; /* released, by class      */
  uint64_t runs;
  uint64_t live_bytes, kept_bytes; /* in these lists         */
  uint64_t peak_bytes;             /* the most of live_bytes */
} nabla_run_arena;

/* Allocates as nabla_allocations_allocate. Where memory is short, kept blocks
 * are freed first. @return NULL when there is none */
void *nabla_run_arena_allocate(nabla_run_arena *arena,
                               const nabla_allocator *allocator,
                               uint64_t bytes);

/* Keeps a block for another request. NULL memory is allowed. */
void nabla_run_arena_release(nabla_run_arena *arena,
                             const nabla_allocator *allocator, void *memory);

/* Takes a live block out of the arena: the caller owns it, and frees it with
 * nabla_allocations_free. */
void nabla_run_arena_take(nabla_run_arena *arena, void *memory);

/* Keeps a block that was taken from an arena; frees one of another size. */
void nabla_run_arena_give(nabla_run_arena *arena,
                          const nabla_allocator *allocator, void *memory);

/* Ends a run: what is live is kept, what was not used for long is freed. */
void nabla_run_arena_end_run(nabla_run_arena *arena,
                             const nabla_allocator *allocator);

/* The bytes that the allocator gave for all that an arena holds. */
uint64_t nabla_run_arena_size(const nabla_run_arena *arena);

/* Frees what an arena holds, which is empty then. */
void nabla_run_arena_clear(nabla_run_arena *arena,
                           const nabla_allocator *allocator);

/* The same for one from nabla_alloc, and frees the arena. NULL is allowed. */
void nabla_run_arena_destroy(nabla_run_arena *arena,
                             const nabla_allocator *allocator);

#endif
