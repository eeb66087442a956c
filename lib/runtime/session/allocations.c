/* See the header. A block's description stands in the line before it. */
#include "lib/runtime/session/allocations.h"

#include <stddef.h>

#include "lib/base/checked.h"

#define LINE NABLA_SERVICES_ALIGNMENT

typedef struct nabla_block {
  struct nabla_block *next, *previous;
  void *base;   /* what the allocator gave */
  size_t bytes; /* that it gave            */
} nabla_block;

_Static_assert(sizeof(nabla_block) <= LINE, "a description fits in a line");

static nabla_block *block_of(void *memory) {
  return (nabla_block *)(void *)((char *)memory - LINE);
}

static void *memory_of(nabla_block *block) { return (char *)block + LINE; }

static const nabla_allocator *or_default(const nabla_allocator *allocator) {
  return allocator ? allocator : nabla_allocator_default();
}

void *nabla_blocks_allocate(nabla_blocks *blocks,
                            const nabla_allocator *allocator, uint64_t bytes) {
  uint64_t sum;
  size_t total;
  if (!nabla_add_u64(bytes, 2 * LINE - 1, &sum) ||
      !nabla_cast_size(sum, &total) || sum > INT64_MAX)
    return NULL;
  allocator = or_default(allocator);
  char *base = allocator->resize(allocator->self, NULL, 0, total);
  if (!base) return NULL;
  const size_t above = (size_t)((uintptr_t)base % LINE);
  nabla_block *block =
      (nabla_block *)(void *)(base + (above ? LINE - above : 0));
  *block = (nabla_block){.next = blocks->first, .base = base, .bytes = total};
  if (blocks->first) blocks->first->previous = block;
  blocks->first = block;
  return memory_of(block);
}

static void unlink_block(nabla_blocks *blocks, nabla_block *block) {
  if (block->next) block->next->previous = block->previous;
  if (block->previous)
    block->previous->next = block->next;
  else
    blocks->first = block->next;
  block->next = block->previous = NULL;
}

void nabla_blocks_free(nabla_blocks *blocks, const nabla_allocator *allocator,
                       void *memory) {
  if (!memory) return;
  nabla_block *block = block_of(memory);
  if (blocks) unlink_block(blocks, block);
  allocator = or_default(allocator);
  allocator->resize(allocator->self, block->base, block->bytes, 0);
}

int nabla_blocks_hold(const nabla_blocks *blocks, const void *memory) {
  for (nabla_block *block = blocks->first; block; block = block->next)
    if (memory_of(block) == memory) return 1;
  return 0;
}

void nabla_blocks_take(nabla_blocks *blocks, void *memory) {
  unlink_block(blocks, block_of(memory));
}

void nabla_blocks_clear(nabla_blocks *blocks,
                        const nabla_allocator *allocator) {
  while (blocks->first)
    nabla_blocks_free(blocks, allocator, memory_of(blocks->first));
}
