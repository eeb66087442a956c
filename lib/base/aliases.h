/* Aliases of attributes and types in MLIR's text, by name, with the depth and
 * length of their values. */
#ifndef NABLA_BASE_ALIASES_H
#define NABLA_BASE_ALIASES_H

#include <stddef.h>

#include "nabla/status.h"

typedef struct nabla_alias {
  const char *name; /* borrowed from the text, `#` or `!` included */
  size_t length;
  size_t depth; /* brackets open at the same time in the value */
  size_t bytes; /* bytes of the value, with its aliases expanded */
} nabla_alias;

/* Zero-initialised is valid: no aliases. */
typedef struct nabla_aliases {
  nabla_alias *table; /* open addressing; a free row has no name */
  size_t count, capacity;
} nabla_aliases;

void nabla_aliases_deinit(nabla_aliases *aliases);

/* Returns NULL if there is no alias of that name. */
const nabla_alias *nabla_aliases_find(const nabla_aliases *aliases,
                                      const char *name, size_t length);

/* Adds an alias, or replaces the one of that name. */
NABLA_MUST_USE nabla_status nabla_aliases_add(nabla_aliases *aliases,
                                              const nabla_alias *alias,
                                              nabla_diag *diag);

#endif
