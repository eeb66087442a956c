/* Handing implicit values to operations that used a decoded one. */
#ifndef NABLA_TRANSFORMS_IMPLICIT_IMPLICITIZE_USES_H
#define NABLA_TRANSFORMS_IMPLICIT_IMPLICITIZE_USES_H

#include "transforms/ir/ir.h"

/* `dense` is a nabla.materialize. Each operation that uses it, and can, takes
 * its operand instead; views of it become views of that, and so on. A warning
 * names each operation that keeps using the dense one. Erases what nothing
 * uses. False when out of memory. */
bool nabla_implicitize_uses(MlirOperation dense);

#endif
