/* Trees of nabla/attribute_tree.h: their memory, and a text form that keeps
 * every value: for the manifests of compiled code. */
#ifndef NABLA_BASE_ATTRIBUTE_TREE_H
#define NABLA_BASE_ATTRIBUTE_TREE_H

#include <stddef.h>

#include "lib/base/memory.h"
#include "nabla/attribute_tree.h"

/* Memory of trees, freed at once. Zero-initialised is valid. */
typedef struct nabla_arena {
  struct nabla_arena_block *blocks;
} nabla_arena;
void nabla_arena_clear(nabla_arena *arena);
/* Zeroed; NULL without memory. */
void *nabla_arena_take(nabla_arena *arena, size_t count, size_t size);
/* A copy with a NUL behind it. */
char *nabla_arena_copy(nabla_arena *arena, const char *text, size_t length);

/* Appends a tree as text of letters, digits and ".:;+-". */
NABLA_MUST_USE nabla_status nabla_attribute_tree_write(
    const nabla_attribute_tree *from, nabla_buffer *to, nabla_diag *diag);

/* Reads what was written. Whatever the text is, within the limits of
 * nabla/attribute_tree.h. @return NABLA_CORRUPT, NABLA_TOO_LARGE,
 * NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_attribute_tree_read(const char *text,
                                                      nabla_arena *arena,
                                                      nabla_attribute_tree *out,
                                                      nabla_diag *diag);

#endif
