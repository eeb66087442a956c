/* Short forms of frequent calls in passes on the LLVM dialect. */
#ifndef NABLA_TRANSFORMS_IR_LLVM_OPS_H
#define NABLA_TRANSFORMS_IR_LLVM_OPS_H

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Dialect/LLVM.h>
#include <mlir-c/IR.h>

#include "transforms/ir/ir.h"

int nabla_text_is(MlirStringRef a, const char *b);
int nabla_text_starts(MlirStringRef a, const char *prefix);

int nabla_op_has(MlirOperation op, const char *attribute);
/* Sets a discardable unit attribute. */
void nabla_op_mark(MlirOperation op, const char *attribute);
/* Sets an inherent attribute. */
void nabla_op_set(MlirOperation op, const char *name, MlirAttribute value);
/* Creates an op before `before`, or at the end of `block` if that is null. */
MlirOperation nabla_op_build(MlirBlock block, MlirOperation before,
                             MlirOperationState *state);
/* Returns 1 if `value` is a result of an op of that name, and stores the op in
 * `out`. */
int nabla_value_defined_by(MlirValue value, const char *name,
                           MlirOperation *out);

MlirStringRef nabla_symbol_name(MlirOperation symbol);
int nabla_function_has_body(MlirOperation function);
MlirType nabla_function_type(MlirOperation function);

MlirAttribute nabla_attribute_integers(MlirContext context, intptr_t count,
                                       const int32_t *values);

#endif
