/* Forward mode: tangents of the values of a block, beside its operations. */
#ifndef NABLA_TRANSFORMS_AUTODIFF_FORWARD_H
#define NABLA_TRANSFORMS_AUTODIFF_FORWARD_H

#include "transforms/autodiff/calls.h"
#include "transforms/autodiff/rules.h"
#include "transforms/autodiff/varied.h"

typedef struct nabla_forward {
  nabla_value_map *varied;  /* values that may have a tangent */
  nabla_value_map tangents; /* of values; absent: 0 */
  nabla_derived *derived;
} nabla_forward;

/* Makes the tangents of what the operations of a block give. False after an
 * error. */
bool nabla_forward_block(nabla_forward *f, MlirBlock block);

/* The tangent of a value, in its type; zeros where it has none. */
MlirValue nabla_forward_or_zeros(nabla_forward *f, const nabla_builder *b,
                                 MlirValue value);

/* Control flow (forward_control.c), calls (calls.c): before `op`, which they
 * replace. */
bool nabla_forward_cond(nabla_forward *f, MlirOperation op);
bool nabla_forward_scan(nabla_forward *f, MlirOperation op);
bool nabla_forward_while(nabla_forward *f, MlirOperation op);
bool nabla_forward_custom_call(nabla_forward *f, MlirOperation op);
bool nabla_forward_call(nabla_forward *f, MlirOperation op);

#endif
