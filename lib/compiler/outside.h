/* Dependencies of programs beside themselves: files that compile options name,
 * and what C programs have added to this process. */
#ifndef NABLA_COMPILER_OUTSIDE_H
#define NABLA_COMPILER_OUTSIDE_H

#include <stdbool.h>

#include "lib/kernels/builder/text.h"
#include "nabla/compiler.h"
#include "nabla/status.h"

/* Appends what belongs into a key of the object cache. `*out_known` is false
 * when something has no version: nothing may be cached. */
NABLA_MUST_USE nabla_status
nabla_outside_describe(const nabla_compile_options *options, nabla_text *out,
                       bool *out_known, nabla_diag *diag);

#endif
