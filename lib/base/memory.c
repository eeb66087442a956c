/* The default allocator, checked allocation, and buffers that grow to a limit.
 */
#include "lib/base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/checked.h"

#define SMALLEST_CAPACITY 64
#define HUGE_PAGE         ((uintptr_t)2 << 20) /* bytes; of x86-64 */

/* Asks for huge pages in a block of at least eight of them; in smaller ones
 * they would double the peak of nabla-quant, which touches parts of its
 * buffers. Kernels that read a weight at memory speed wait for page walks
 * otherwise: with pages of 4 KiB a virtual machine was seen to read half as
 * fast. The system need not follow. */
static void advise(void *block, size_t size) {
#ifdef MADV_HUGEPAGE
  if (size < 8 * HUGE_PAGE) return;
  const uintptr_t begin = (uintptr_t)block;
  const size_t skip = (size_t)(-begin % HUGE_PAGE);
  (void)madvise((char *)block + skip, (size - skip) / HUGE_PAGE * HUGE_PAGE,
                MADV_HUGEPAGE);
#else
  (void)block, (void)size;
#endif
}

static void *default_resize(void *self, void *block, size_t old_size,
                            size_t new_size) {
  (void)self, (void)old_size;
  if (new_size > 0) {
    void *moved = realloc(block, new_size);
    if (moved) advise(moved, new_size);
    return moved;
  }
  free(block);
  return NULL;
}

const nabla_allocator *nabla_allocator_default(void) {
  static const nabla_allocator standard = {NULL, default_resize};
  return &standard;
}

static void *resize(const nabla_allocator *allocator, void *block,
                    size_t old_size, size_t new_size) {
  if (!allocator) allocator = nabla_allocator_default();
  return allocator->resize(allocator->self, block, old_size, new_size);
}

nabla_status nabla_alloc_raw(const nabla_allocator *allocator, size_t count,
                             size_t size, void **out, nabla_diag *diag) {
  size_t bytes;
  if (!nabla_mul_size(count, size, &bytes))
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%zu elements of %zu bytes overflow the address space",
                      count, size);
  if (bytes == 0) {
    *out = NULL;
    return NABLA_OK;
  }
  void *block = resize(allocator, NULL, 0, bytes);
  if (!block)
    return nabla_fail(diag, NABLA_NO_MEMORY, "cannot allocate %zu bytes",
                      bytes);
  *out = block;
  return NABLA_OK;
}

nabla_status nabla_alloc(const nabla_allocator *allocator, size_t count,
                         size_t size, void **out, nabla_diag *diag) {
  void *block = NULL;
  NABLA_TRY(nabla_alloc_raw(allocator, count, size, &block, diag));
  if (block) memset(block, 0, count * size); /* which did not overflow */
  *out = block;
  return NABLA_OK;
}

void nabla_free(const nabla_allocator *allocator, void *block, size_t count,
                size_t size) {
  /* The product did not overflow when the block was allocated. */
  if (block) resize(allocator, block, count * size, 0);
}

void nabla_buffer_init(nabla_buffer *buffer, const nabla_allocator *allocator,
                       const char *what, size_t limit) {
  *buffer =
      (nabla_buffer){.allocator = allocator, .what = what, .limit = limit};
}

void nabla_buffer_deinit(nabla_buffer *buffer) {
  if (buffer->data)
    resize(buffer->allocator, buffer->data, buffer->capacity, 0);
  buffer->data = NULL;
  buffer->size = buffer->capacity = 0;
}

/* Makes the capacity at least `needed`, which is within the limit. */
static nabla_status grow(nabla_buffer *buffer, size_t needed,
                         nabla_diag *diag) {
  size_t capacity;
  if (!nabla_add_size(buffer->capacity, buffer->capacity / 2, &capacity))
    capacity = buffer->limit;
  if (capacity < SMALLEST_CAPACITY) capacity = SMALLEST_CAPACITY;
  if (capacity < needed) capacity = needed;
  if (capacity > buffer->limit) capacity = buffer->limit;
  uint8_t *data =
      resize(buffer->allocator, buffer->data, buffer->capacity, capacity);
  if (!data)
    return nabla_fail(diag, NABLA_NO_MEMORY, "cannot allocate %zu bytes for %s",
                      capacity, buffer->what);
  buffer->data = data;
  buffer->capacity = capacity;
  return NABLA_OK;
}

nabla_status nabla_buffer_extend(nabla_buffer *buffer, const void *data,
                                 size_t size, nabla_diag *diag) {
  if (size == 0) return NABLA_OK;
  size_t needed;
  if (!nabla_add_size(buffer->size, size, &needed) || needed > buffer->limit)
    return nabla_fail(diag, NABLA_TOO_LARGE, "%s take more than %zu bytes",
                      buffer->what, buffer->limit);
  if (needed > buffer->capacity) NABLA_TRY(grow(buffer, needed, diag));
  if (data)
    memcpy(buffer->data + buffer->size, data, size);
  else
    memset(buffer->data + buffer->size, 0, size);
  buffer->size = needed;
  return NABLA_OK;
}
