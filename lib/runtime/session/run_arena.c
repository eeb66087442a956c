/* The arena of a session's runs: blocks by size classes; see run_arena.h. */
#include "lib/runtime/session/run_arena.h"

#include "lib/base/memory.h"

#define LEAST 64u /* bytes of the smallest class */

/* Returns the class of a size, at most 2^62, and stores the bytes of a block of
 * this class. */
static unsigned class_of(uint64_t bytes, uint64_t *out_bytes) {
  if (bytes < LEAST) bytes = LEAST;
  const unsigned power = 63u - (unsigned)__builtin_clzll(bytes);
  const uint64_t step = (uint64_t)1 << (power - 3);
  const uint64_t steps = (bytes + step - 1) / step; /* 8 to 16 */
  *out_bytes = steps * step;
  return (power - 6) * 8 + (unsigned)(steps - 8);
}

static void free_kept(nabla_run_arena *arena, const nabla_allocator *allocator,
                      unsigned class, void *memory) {
  arena->kept_bytes -= nabla_allocations_bytes(memory);
  nabla_allocations_free(&arena->kept[class], allocator, memory);
}

/* Frees kept blocks that were released at run `last` or before. */
static void trim(nabla_run_arena *arena, const nabla_allocator *allocator,
                 uint64_t last) {
  for (unsigned c = 0; c < NABLA_RUN_ARENA_CLASSES && arena->kept_bytes; c++) {
    void *before, *memory = nabla_allocations_last(&arena->kept[c]);
    for (; memory; memory = before) {
      before = nabla_allocations_before(memory);
      if (*nabla_allocations_stamp(memory) <= last)
        free_kept(arena, allocator, c, memory);
    }
  }
}

void *nabla_run_arena_allocate(nabla_run_arena *arena,
                               const nabla_allocator *allocator,
                               uint64_t bytes) {
  if (bytes > (uint64_t)1 << 62) return NULL;
  const unsigned class = class_of(bytes, &bytes);
  void *memory = nabla_allocations_last(&arena->kept[class]);
  if (memory) {
    nabla_allocations_take(&arena->kept[class], memory);
    nabla_allocations_add(&arena->live, memory);
    arena->kept_bytes -= bytes;
  } else {
    memory = nabla_allocations_allocate(&arena->live, allocator, bytes);
    if (!memory && arena->kept_bytes) {
      trim(arena, allocator, UINT64_MAX);
      memory = nabla_allocations_allocate(&arena->live, allocator, bytes);
    }
    if (!memory) return NULL;
  }
  arena->live_bytes += bytes;
  if (arena->live_bytes > arena->peak_bytes)
    arena->peak_bytes = arena->live_bytes;
  return memory;
}

void nabla_run_arena_take(nabla_run_arena *arena, void *memory) {
  nabla_allocations_take(&arena->live, memory);
  arena->live_bytes -= nabla_allocations_bytes(memory);
}

void nabla_run_arena_give(nabla_run_arena *arena,
                          const nabla_allocator *allocator, void *memory) {
  if (!memory) return;
  uint64_t bytes = 0;
  const unsigned class = class_of(nabla_allocations_bytes(memory), &bytes);
  if (bytes != nabla_allocations_bytes(memory)) {
    nabla_allocations_free(NULL, allocator, memory);
    return;
  }
  *nabla_allocations_stamp(memory) = arena->runs;
  nabla_allocations_add(&arena->kept[class], memory);
  arena->kept_bytes += bytes;
}

void nabla_run_arena_release(nabla_run_arena *arena,
                             const nabla_allocator *allocator, void *memory) {
  if (!memory) return;
  nabla_run_arena_take(arena, memory);
  nabla_run_arena_give(arena, allocator, memory);
}

void nabla_run_arena_end_run(nabla_run_arena *arena,
                             const nabla_allocator *allocator) {
  while (arena->live.first)
    nabla_run_arena_release(arena, allocator,
                            nabla_allocations_last(&arena->live));
  arena->runs++;
  if (arena->kept_bytes && arena->runs % NABLA_RUN_ARENA_IDLE_RUNS == 0)
    trim(arena, allocator, arena->runs - NABLA_RUN_ARENA_IDLE_RUNS);
}

static uint64_t size_of(const nabla_allocations *blocks) {
  uint64_t sum = 0;
  for (void *memory = nabla_allocations_last(blocks); memory;
       memory = nabla_allocations_before(memory))
    sum += nabla_allocations_size(memory);
  return sum;
}

uint64_t nabla_run_arena_size(const nabla_run_arena *arena) {
  uint64_t sum = size_of(&arena->live);
  for (unsigned c = 0; c < NABLA_RUN_ARENA_CLASSES; c++)
    sum += size_of(&arena->kept[c]);
  return sum;
}

void nabla_run_arena_clear(nabla_run_arena *arena,
                           const nabla_allocator *allocator) {
  nabla_allocations_clear(&arena->live, allocator);
  arena->live_bytes = 0;
  trim(arena, allocator, UINT64_MAX);
}

void nabla_run_arena_destroy(nabla_run_arena *arena,
                             const nabla_allocator *allocator) {
  if (!arena) return;
  nabla_run_arena_clear(arena, allocator);
  nabla_free(allocator, arena, 1, sizeof *arena);
}
