/* Short forms over mlir-c; see llvm_ops.h. */
#include "transforms/ir/llvm_ops.h"

#include <string.h>

int nabla_text_is(MlirStringRef a, const char *b) {
  return a.length == strlen(b) && !memcmp(a.data, b, a.length);
}

int nabla_text_starts(MlirStringRef a, const char *prefix) {
  size_t length = strlen(prefix);
  return a.length >= length && !memcmp(a.data, prefix, length);
}

int nabla_op_has(MlirOperation op, const char *attribute) {
  return !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(op, nabla_ref(attribute)));
}

void nabla_op_mark(MlirOperation op, const char *attribute) {
  mlirOperationSetDiscardableAttributeByName(
      op, nabla_ref(attribute), mlirUnitAttrGet(mlirOperationGetContext(op)));
}

void nabla_op_set(MlirOperation op, const char *name, MlirAttribute value) {
  mlirOperationSetInherentAttributeByName(op, nabla_ref(name), value);
}

MlirOperation nabla_op_build(MlirBlock block, MlirOperation before,
                             MlirOperationState *state) {
  MlirOperation op = mlirOperationCreate(state);
  if (mlirOperationIsNull(before))
    mlirBlockAppendOwnedOperation(block, op);
  else
    mlirBlockInsertOwnedOperationBefore(block, before, op);
  return op;
}

int nabla_value_defined_by(MlirValue value, const char *name,
                           MlirOperation *out) {
  if (!mlirValueIsAOpResult(value)) return 0;
  *out = mlirOpResultGetOwner(value);
  return nabla_is(*out, name);
}

MlirStringRef nabla_symbol_name(MlirOperation symbol) {
  return mlirStringAttrGetValue(mlirOperationGetAttributeByName(
      symbol, mlirSymbolTableGetSymbolAttributeName()));
}

int nabla_function_has_body(MlirOperation function) {
  return !mlirBlockIsNull(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0)));
}

MlirType nabla_function_type(MlirOperation function) {
  return mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type")));
}

MlirAttribute nabla_attribute_integers(MlirContext context, intptr_t count,
                                       const int32_t *values) {
  return mlirDenseI32ArrayGet(context, count, values);
}
