/* See the header. A block's description stands in the line before it. */
#include "lib/runtime/program/allocations.h"

#include <stddef.h>

#include "lib/base/checked.h"

#define LINE NABLA_SERVICES_ALIGNMENT

typedef struct nabla_allocation {
  struct nabla_allocation *next, *previous;
  void *base;     /* what the allocator gave */
  size_t bytes;   /* that it gave            */
  uint64_t stamp; /* the owner's             */
} nabla_allocation;

_Static_assert(sizeof(nabla_allocation) <= LINE,
               "a description fits in a line");

static nabla_allocation *block_of(void *memory) {
  return (nabla_allocation *)(void *)((char *)memory - LINE);
}

static void *memory_of(nabla_allocation *block) { return (char *)block + LINE; }

static const nabla_allocation *described(const void *memory) {
  return (const nabla_allocation *)(const void *)((const char *)memory - LINE);
}

static const nabla_allocator *or_default(const nabla_allocator *allocator) {
  return allocator ? allocator : nabla_allocator_default();
}

void *nabla_allocations_allocate(nabla_allocations *blocks,
                                 const nabla_allocator *allocator,
                                 uint64_t bytes) {
  uint64_t sum;
  size_t total;
  if (!nabla_add_u64(bytes, 2 * LINE - 1, &sum) ||
      !nabla_cast_size(sum, &total) || sum > INT64_MAX)
    return NULL;
  allocator = or_default(allocator);
  char *base = allocator->resize(allocator->self, NULL, 0, total);
  if (!base) return NULL;
  const size_t above = (size_t)((uintptr_t)base % LINE);
  nabla_allocation *block =
      (nabla_allocation *)(void *)(base + (above ? LINE - above : 0));
  *block = (nabla_allocation){.base = base, .bytes = total};
  nabla_allocations_add(blocks, memory_of(block));
  return memory_of(block);
}

void nabla_allocations_add(nabla_allocations *blocks, void *memory) {
  nabla_allocation *block = block_of(memory);
  block->next = blocks->first;
  block->previous = NULL;
  if (blocks->first) blocks->first->previous = block;
  blocks->first = block;
}

void *nabla_allocations_last(const nabla_allocations *blocks) {
  return blocks->first ? memory_of(blocks->first) : NULL;
}

void *nabla_allocations_before(const void *memory) {
  nabla_allocation *next = described(memory)->next;
  return next ? memory_of(next) : NULL;
}

uint64_t nabla_allocations_bytes(const void *memory) {
  return described(memory)->bytes - (2 * LINE - 1);
}

uint64_t nabla_allocations_size(const void *memory) {
  return described(memory)->bytes;
}

uint64_t *nabla_allocations_stamp(void *memory) {
  return &block_of(memory)->stamp;
}

static void unlink_block(nabla_allocations *blocks, nabla_allocation *block) {
  if (block->next) block->next->previous = block->previous;
  if (block->previous)
    block->previous->next = block->next;
  else
    blocks->first = block->next;
  block->next = block->previous = NULL;
}

void nabla_allocations_free(nabla_allocations *blocks,
                            const nabla_allocator *allocator, void *memory) {
  if (!memory) return;
  nabla_allocation *block = block_of(memory);
  if (blocks) unlink_block(blocks, block);
  allocator = or_default(allocator);
  allocator->resize(allocator->self, block->base, block->bytes, 0);
}

int nabla_allocations_hold(const nabla_allocations *blocks,
                           const void *memory) {
  for (nabla_allocation *block = blocks->first; block; block = block->next)
    if (memory_of(block) == memory) return 1;
  return 0;
}

void nabla_allocations_take(nabla_allocations *blocks, void *memory) {
  unlink_block(blocks, block_of(memory));
}

void nabla_allocations_clear(nabla_allocations *blocks,
                             const nabla_allocator *allocator) {
  while (blocks->first)
    nabla_allocations_free(blocks, allocator, memory_of(blocks->first));
}
