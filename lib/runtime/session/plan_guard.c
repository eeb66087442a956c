/* See the header. */
#include "lib/runtime/session/plan_guard.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/memory.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) \
  ((void)(memory), (void)(bytes))
#endif

#define UNWRITTEN 0xff /* NaNs */
#define RED       0xa5

int nabla_plan_guard_is_on(void) {
  static atomic_int known; /* 0: not yet; 1: off; 2: on */
  int is = atomic_load(&known);
  if (is == 0) {
    const char *value = getenv("NABLA_PLAN_GUARD");
    is = value && !strcmp(value, "1") ? 2 : 1;
    atomic_store(&known, is);
  }
  return is == 2;
}

static uint64_t red_bytes(uint64_t flags) {
  return flags & NABLA_PART_HAS_RED_ZONE ? NABLA_SERVICES_ALIGNMENT : 0;
}

/* Whether two parts may live at one time: apart, or one in the other, which a
 * function that was called places its own parts in. */
static int agree(const nabla_guarded_part *old, const nabla_guarded_part *new) {
  const uintptr_t a = (uintptr_t)old->memory, b = (uintptr_t)new->memory;
  const uint64_t a_bytes = old->bytes + red_bytes(old->flags);
  const uint64_t b_bytes = new->bytes + red_bytes(new->flags);
  if (a + a_bytes <= b || b + b_bytes <= a) return 1;
  return (old->flags & NABLA_PART_IS_OF_CALL) != 0 && a <= b &&
         b + b_bytes <= a + old->bytes;
}

static int add(nabla_plan_guard *guard, const nabla_allocator *allocator,
               const nabla_guarded_part *part) {
  if (guard->count == guard->capacity) {
    const size_t capacity = guard->capacity ? 2 * guard->capacity : 64;
    void *parts = NULL;
    if (nabla_alloc(allocator, capacity, sizeof *guard->parts, &parts, NULL))
      return 0;
    if (guard->count)
      memcpy(parts, guard->parts, guard->count * sizeof *guard->parts);
    nabla_free(allocator, guard->parts, guard->capacity, sizeof *guard->parts);
    guard->parts = parts;
    guard->capacity = capacity;
  }
  guard->parts[guard->count++] = *part;
  return 1;
}

int nabla_plan_guard_begin(nabla_plan_guard *guard,
                           const nabla_allocator *allocator, void *memory,
                           uint64_t bytes) {
  const uint64_t mask = NABLA_SERVICES_ALIGNMENT - 1;
  const nabla_guarded_part part = {memory, bytes & ~mask, bytes & mask};
  for (size_t i = 0; i < guard->count; i++)
    if (!agree(&guard->parts[i], &part)) return 0;
  if (!add(guard, allocator, &part)) return 1;
  ASAN_UNPOISON_MEMORY_REGION(memory, part.bytes + red_bytes(part.flags));
  memset(part.memory, UNWRITTEN, part.bytes);
  memset(part.memory + part.bytes, RED, red_bytes(part.flags));
  return 1;
}

/* The last part that began at an address: a part of a call may begin where the
 * first part in it does. */
static size_t find(const nabla_plan_guard *guard, const void *memory) {
  for (size_t i = guard->count; i-- > 0;)
    if (guard->parts[i].memory == memory) return i;
  return SIZE_MAX;
}

int nabla_plan_guard_end(nabla_plan_guard *guard, void *memory) {
  const size_t at = find(guard, memory);
  if (at == SIZE_MAX) return 1;
  const nabla_guarded_part part = guard->parts[at];
  memmove(&guard->parts[at], &guard->parts[at + 1],
          (--guard->count - at) * sizeof *guard->parts);
  int is_good = 1;
  for (uint64_t i = 0; i < red_bytes(part.flags); i++)
    is_good = is_good && part.memory[part.bytes + i] == RED;
  /* parts in that of a call are poisoned when they end, before it does */
  ASAN_UNPOISON_MEMORY_REGION(part.memory, part.bytes);
  memset(part.memory, UNWRITTEN, part.bytes);
  if (!(part.flags & NABLA_PART_IS_OF_CALL))
    ASAN_POISON_MEMORY_REGION(part.memory, part.bytes + red_bytes(part.flags));
  return is_good;
}

void nabla_plan_guard_forget(void *memory, uint64_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
}

void nabla_plan_guard_deinit(nabla_plan_guard *guard,
                             const nabla_allocator *allocator) {
  nabla_free(allocator, guard->parts, guard->capacity, sizeof *guard->parts);
  *guard = (nabla_plan_guard){0};
}
