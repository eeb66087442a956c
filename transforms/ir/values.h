/* Where values come from. */
#ifndef NABLA_TRANSFORMS_IR_VALUES_H
#define NABLA_TRANSFORMS_IR_VALUES_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Whether a value is defined in a region of `op`. */
bool nabla_value_is_inside(MlirValue value, MlirOperation op);

/* Whether the memory of a buffer is known: that of an argument of a block, of
 * an allocation, of a global array, or behind an address (NABLA_CAST), of which
 * the buffer is a view. *out: that value, or where the search ended. */
bool nabla_buffer_root(MlirValue buffer, MlirValue *out);

#endif
