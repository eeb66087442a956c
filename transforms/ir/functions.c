/* See the header. */
#include "transforms/ir/functions.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "transforms/ir/llvm_ops.h"

MlirOperation nabla_call_callee(MlirSymbolTable symbols, MlirOperation call) {
  return mlirSymbolTableLookup(
      symbols, mlirFlatSymbolRefAttrGetValue(
                   mlirOperationGetAttributeByName(call, nabla_ref("callee"))));
}

bool nabla_is_private(MlirOperation function) {
  MlirAttribute seen =
      mlirOperationGetAttributeByName(function, nabla_ref("sym_visibility"));
  return !mlirAttributeIsNull(seen) &&
         nabla_text_is(mlirStringAttrGetValue(seen), "private");
}

bool nabla_function_update_type(MlirOperation function) {
  MlirBlock entry =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  MlirOperation end = mlirBlockGetTerminator(entry);
  const intptr_t inputs = mlirBlockGetNumArguments(entry);
  const intptr_t results = mlirOperationGetNumOperands(end);
  MlirType *types = calloc((size_t)(inputs + results) + 1, sizeof *types);
  if (!types) return false;
  for (intptr_t i = 0; i < inputs; i++)
    types[i] = mlirValueGetType(mlirBlockGetArgument(entry, i));
  for (intptr_t i = 0; i < results; i++)
    types[inputs + i] = nabla_operand_type(end, i);
  nabla_op_set(
      function, "function_type",
      mlirTypeAttrGet(mlirFunctionTypeGet(nabla_op_context(function), inputs,
                                          types, results, types + inputs)));
  free(types);
  return true;
}
