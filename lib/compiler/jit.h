/* Links objects into this process. */
#ifndef NABLA_COMPILER_JIT_H
#define NABLA_COMPILER_JIT_H

#include <stddef.h>

#include "lib/compiler/target.h"
#include "lib/runtime/program/code.h"

/* Links a copy of an object for `target` that nabla_object_check let pass.
 * `out` owns all that it needs: no compiler has to stay.
 * @return NABLA_CORRUPT (it does not link, or lacks the manifest) */
NABLA_MUST_USE nabla_status nabla_jit_link(const nabla_machine *target,
                                           const void *object, size_t size,
                                           nabla_code *out, nabla_diag *diag);

#endif
