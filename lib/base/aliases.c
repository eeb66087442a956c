/* See aliases.h. */
#include "lib/base/aliases.h"

#include <stdint.h>
#include <string.h>

#include "lib/base/memory.h"

#define FIRST_CAPACITY 64 /* a power of two */

void nabla_aliases_deinit(nabla_aliases *aliases) {
  nabla_free(NULL, aliases->table, aliases->capacity, sizeof *aliases->table);
  *aliases = (nabla_aliases){0};
}

/* FNV-1a, whose high bits are mixed into the low ones. */
static uint64_t hash_of(const char *name, size_t length) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
  return hash ^ hash >> 32;
}

/* The row of a name, or the free one where it belongs. */
static nabla_alias *row_of(nabla_alias *table, size_t capacity,
                           const char *name, size_t length) {
  size_t at = (size_t)hash_of(name, length) & (capacity - 1);
  while (table[at].name && (table[at].length != length ||
                            memcmp(table[at].name, name, length) != 0))
    at = (at + 1) & (capacity - 1);
  return &table[at];
}

const nabla_alias *nabla_aliases_find(const nabla_aliases *aliases,
                                      const char *name, size_t length) {
  if (!aliases->capacity) return NULL;
  const nabla_alias *row =
      row_of(aliases->table, aliases->capacity, name, length);
  return row->name ? row : NULL;
}

static nabla_status grow(nabla_aliases *aliases, nabla_diag *diag) {
  const size_t capacity =
      aliases->capacity ? aliases->capacity * 2 : FIRST_CAPACITY;
  void *table;
  NABLA_TRY(nabla_alloc(NULL, capacity, sizeof *aliases->table, &table, diag));
  for (size_t i = 0; i < aliases->capacity; i++) {
    const nabla_alias *old = &aliases->table[i];
    if (old->name) *row_of(table, capacity, old->name, old->length) = *old;
  }
  nabla_free(NULL, aliases->table, aliases->capacity, sizeof *aliases->table);
  aliases->table = table;
  aliases->capacity = capacity;
  return NABLA_OK;
}

nabla_status nabla_aliases_add(nabla_aliases *aliases, const nabla_alias *alias,
                               nabla_diag *diag) {
  if (aliases->count >= aliases->capacity / 2) NABLA_TRY(grow(aliases, diag));
  nabla_alias *row =
      row_of(aliases->table, aliases->capacity, alias->name, alias->length);
  aliases->count += !row->name;
  *row = *alias;
  return NABLA_OK;
}
