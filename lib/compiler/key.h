/* What an object in the cache depends on, as a hash. */
#ifndef NABLA_COMPILER_KEY_H
#define NABLA_COMPILER_KEY_H

#include <mlir-c/IR.h>

#include "lib/compiler/cache.h"
#include "lib/compiler/target.h"

/* Hashes the parsed program, what was `asked` for, and what compiles: version
 * and build of this library and of LLVM. */
NABLA_MUST_USE nabla_status nabla_key_make(MlirModule module, const char *asked,
                                           const nabla_machine *target,
                                           nabla_cache_key *out,
                                           nabla_diag *diag);

#endif
