/* Aliases of attributes and types in MLIR's text, by name: how deep and how
 * long what they stand for is. */
#ifndef NABLA_BASE_ALIASES_H
#define NABLA_BASE_ALIASES_H

#include <stddef.h>

#include "nabla/status.h"

typedef struct nabla_alias {
  const char *name; /* borrowed from the text, `#` or `!` included */
  size_t length;
  size_t depth; /* brackets that are open at once in it */
  size_t bytes; /* written out */
} nabla_alias;

/* Zero-initialised is valid: no aliases. */
typedef struct nabla_aliases {
  nabla_alias *table; /* open addressing; a free row has no name */
  size_t count, capacity;
} nabla_aliases;

void nabla_aliases_deinit(nabla_aliases *aliases);

/* NULL: there is none of that name. */
const nabla_alias *nabla_aliases_find(const nabla_aliases *aliases,
                                      const char *name, size_t length);

/* Adds one, or gives that of the name new values. */
NABLA_MUST_USE nabla_status nabla_aliases_add(nabla_aliases *aliases,
                                              const nabla_alias *alias,
                                              nabla_diag *diag);

#endif
