/* Each block has its size and a mark before it and a guard behind it. */
#include "tests/support/failing_allocator.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE       0x6e61626c614c4956u
#define DEAD       0x6e61626c61446561u
#define GUARD      16
#define GUARD_BYTE 0xfd
#define FRESH_BYTE 0xa5

typedef struct header {
  _Alignas(max_align_t) uint64_t mark;
  size_t size;
} header;

static void misuse(failing_allocator *failing, const char *what, size_t was,
                   size_t given) {
  failing->misuses++;
  fprintf(stderr, "allocator misuse: %s (block of %zu bytes, given %zu)\n",
          what, was, given);
}

/* Returns the header of a block after checking it, or NULL when it is none
 * that can be touched. */
static header *check(failing_allocator *failing, void *block, size_t old_size) {
  header *head = (header *)block - 1;
  if (head->mark != LIVE) {
    misuse(failing, "not a live block", 0, old_size);
    return NULL;
  }
  if (head->size != old_size)
    misuse(failing, "wrong old size", head->size, old_size);
  const uint8_t *guard = (const uint8_t *)block + head->size;
  for (size_t i = 0; i < GUARD; i++) {
    if (guard[i] == GUARD_BYTE) continue;
    misuse(failing, "written past the end", head->size, old_size);
    break;
  }
  return head;
}

static void *new_block(failing_allocator *failing, size_t size) {
  if (size > SIZE_MAX - sizeof(header) - GUARD) return NULL;
  header *head = malloc(sizeof(header) + size + GUARD);
  if (!head) return NULL;
  *head = (header){.mark = LIVE, .size = size};
  uint8_t *bytes = (uint8_t *)(head + 1);
  memset(bytes, FRESH_BYTE, size);
  memset(bytes + size, GUARD_BYTE, GUARD);
  failing->live_blocks++;
  failing->live_bytes += size;
  if (failing->live_bytes > failing->peak_bytes)
    failing->peak_bytes = failing->live_bytes;
  return bytes;
}

static void free_block(failing_allocator *failing, header *head) {
  failing->live_blocks--;
  failing->live_bytes -= head->size;
  head->mark = DEAD;
  free(head);
}

/* Always moves, so that a kept pointer to the old place shows. */
static void *resize_locked(failing_allocator *failing, void *block,
                           size_t old_size, size_t new_size) {
  header *head = block ? check(failing, block, old_size) : NULL;
  if (!block && old_size != 0)
    misuse(failing, "no block with a size", 0, old_size);
  if (block && !head) return NULL;
  if (new_size == 0) {
    if (head) free_block(failing, head);
    return NULL;
  }
  failing->requests++;
  if (failing->requests == failing->fail_at) {
    failing->failures++;
    return NULL;
  }
  void *moved = new_block(failing, new_size);
  if (moved && head) {
    memcpy(moved, block, head->size < new_size ? head->size : new_size);
    free_block(failing, head);
  }
  return moved;
}

static void *resize(void *self, void *block, size_t old_size, size_t new_size) {
  failing_allocator *failing = self;
  pthread_mutex_lock(&failing->lock);
  void *out = resize_locked(failing, block, old_size, new_size);
  pthread_mutex_unlock(&failing->lock);
  return out;
}

void failing_allocator_init(failing_allocator *failing, size_t fail_at) {
  *failing = (failing_allocator){.fail_at = fail_at};
  failing->allocator = (nabla_allocator){failing, resize};
  pthread_mutex_init(&failing->lock, NULL);
}

int failing_allocator_is_clean(failing_allocator *failing) {
  pthread_mutex_destroy(&failing->lock);
  if (failing->live_blocks > 0)
    fprintf(stderr, "leaked: %zu blocks, %zu bytes\n", failing->live_blocks,
            failing->live_bytes);
  return failing->live_blocks == 0 && failing->misuses == 0;
}
