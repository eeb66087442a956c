/* Names of functions and arguments that a manifest may have. */
#ifndef NABLA_TRANSFORMS_ABI_MANIFEST_NAMES_H
#define NABLA_TRANSFORMS_ABI_MANIFEST_NAMES_H

#include "transforms/ir/ir.h"

/* Whether a func.func has a name that compiled code can have; reported. */
bool nabla_manifest_check_function(MlirOperation function);

/* Whether each argument of a func.func has a name of its own, which is text;
 * reported. */
bool nabla_manifest_check_arguments(MlirOperation function);

#endif
