/* Allocation helpers over nabla_allocator: checked sizes, bounded growth. */
#ifndef NABLA_BASE_MEMORY_H
#define NABLA_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "nabla/allocator.h"
#include "nabla/status.h"

/* Allocates `count` elements of `size` bytes, zeroed. If either is 0, the
 * result is NULL and NABLA_OK. An overflow is NABLA_TOO_LARGE, a failed
 * allocation NABLA_NO_MEMORY. `allocator` NULL means the default, here and
 * below. */
NABLA_MUST_USE nabla_status nabla_alloc(const nabla_allocator *allocator,
                                        size_t count, size_t size, void **out,
                                        nabla_diag *diag);

/* Allocates without zeroing, for large buffers that are read only where they
 * were written. Pages that are never touched take no memory. */
NABLA_MUST_USE nabla_status nabla_alloc_raw(const nabla_allocator *allocator,
                                            size_t count, size_t size,
                                            void **out, nabla_diag *diag);

/* Frees memory from nabla_alloc with the same count and size; NULL is allowed.
 */
void nabla_free(const nabla_allocator *allocator, void *block, size_t count,
                size_t size);

/* A growable array with a limit of `limit` bytes: growth beyond it fails with
 * NABLA_TOO_LARGE, and the message names `what`. */
typedef struct nabla_buffer {
  const nabla_allocator *allocator;
  const char *what; /* static text for the error: "tensor names" */
  uint8_t *data;
  size_t size, capacity, limit;
} nabla_buffer;

void nabla_buffer_init(nabla_buffer *buffer, const nabla_allocator *allocator,
                       const char *what, size_t limit);
void nabla_buffer_deinit(nabla_buffer *buffer);

/* The part of nabla_buffer_append for buffers that have to grow and for bytes
 * that are zeroed. */
NABLA_MUST_USE nabla_status nabla_buffer_extend(nabla_buffer *buffer,
                                                const void *data, size_t size,
                                                nabla_diag *diag);

/* Appends `size` bytes (copied from `data`, or zeroed when `data` is NULL);
 * on failure the buffer is unchanged. Growth is by half, so that 100 MB of
 * content never holds more than 250 MB during a copy. */
NABLA_MUST_USE static inline nabla_status nabla_buffer_append(
    nabla_buffer *buffer, const void *data, size_t size, nabla_diag *diag) {
  if (!data || !size || size > buffer->capacity - buffer->size)
    return nabla_buffer_extend(buffer, data, size, diag);
  memcpy(buffer->data + buffer->size, data, size);
  buffer->size += size;
  return NABLA_OK;
}

#endif
