/* Inside the libraries: how compiled code becomes an executable. Whoever made
 * or loaded the code (the compiler's JIT today) hands it over here. */
#ifndef NABLA_RUNTIME_PROGRAM_CODE_H
#define NABLA_RUNTIME_PROGRAM_CODE_H

#include "nabla/executable.h"
#include "nabla/services.h"

typedef struct nabla_code {
  void *self;
  const char *manifest; /* NUL-terminated JSON, lives as long as `self` */
  /* Address of an entry point (NABLA_ENTRY_PREFIX and a name), or NULL. */
  nabla_entry_function (*lookup)(void *self, const char *symbol);
  void (*destroy)(void *self);
  uint64_t key; /* equal code has an equal one */
} nabla_code;

/* Reads the manifest, looks every function up. Takes `code`: it is destroyed
 * on failure, and with the executable. `environment` (pool, allocator) is
 * copied; what it points to must outlive the executable.
 * @return NABLA_CORRUPT (manifest, missing symbol), NABLA_UNSUPPORTED (ABI),
 *         NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_executable_create(
    const nabla_code *take_code, const nabla_environment *environment,
    nabla_executable **out, nabla_diag *diag);

#endif
