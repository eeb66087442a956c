/* See argument_table.h. */
#include "transforms/abi/argument_table.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Dialect/LLVM.h>

MlirType nabla_table_pointer(MlirContext context) {
  return mlirLLVMPointerTypeGet(context, 0);
}

MlirType nabla_table_descriptor(MlirContext context, intptr_t rank) {
  MlirType pointer = nabla_table_pointer(context);
  MlirType word = mlirIntegerTypeGet(context, 64);
  MlirType sizes = mlirLLVMArrayTypeGet(word, (unsigned)rank);
  MlirType fields[] = {pointer, pointer, word, sizes, sizes};
  return mlirLLVMStructTypeLiteralGet(context, rank ? 5 : 3, fields, false);
}

MlirValue nabla_table_op(MlirOperation before, const char *name,
                         MlirValue operand, MlirType result) {
  nabla_op_spec spec = {name, 1, &operand, 1, &result, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

MlirValue nabla_table_address(MlirOperation before, MlirValue base,
                              int64_t offset) {
  MlirContext context = nabla_op_context(before);
  MlirType pointer = nabla_table_pointer(context);
  const int32_t index = (int32_t)offset;
  MlirNamedAttribute attributes[] = {
      nabla_named(context, "elem_type",
                  mlirTypeAttrGet(mlirIntegerTypeGet(context, 8))),
      nabla_named(context, "rawConstantIndices",
                  mlirDenseI32ArrayGet(context, 1, &index)),
  };
  nabla_op_spec spec = {
      "llvm.getelementptr", 1, &base, 1, &pointer, 2, attributes};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}
