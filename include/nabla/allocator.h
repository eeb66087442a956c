/* Where memory comes from. Every `create` and `open` takes one. */
#ifndef NABLA_ALLOCATOR_H
#define NABLA_ALLOCATOR_H

#include <stddef.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One function does everything, as in Lua:
 *   resize(self, NULL, 0, n)   allocates n > 0 bytes
 *   resize(self, p, old, n)    resizes, keeping the first min(old, n) bytes
 *   resize(self, p, old, 0)    frees and returns NULL; never fails
 * NULL with n > 0 means out of memory, and p is then still valid. Memory is
 * aligned for max_align_t. The function may be called from several threads. */
typedef struct nabla_allocator {
  void *self;
  void *(*resize)(void *self, void *block, size_t old_size, size_t new_size);
} nabla_allocator;

/* Returns the allocator that stands behind NULL: malloc, realloc and free. */
NABLA_API const nabla_allocator *nabla_allocator_default(void);

#ifdef __cplusplus
}
#endif

#endif
