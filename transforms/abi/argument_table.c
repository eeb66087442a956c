/* See argument_table.h. */
#include "transforms/abi/argument_table.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Dialect/LLVM.h>
#include <stdio.h>

#include "dialect/encoding/encoding.h"
#include "transforms/ir/llvm_ops.h"

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

/* Whether functions have one type and the same attributes for LLVM, as those of
 * programs have not. */
static bool are_alike(MlirOperation a, MlirOperation b) {
  static const char *const keys[] = {"function_type", "passthrough"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!mlirAttributeEqual(
            mlirOperationGetAttributeByName(a, nabla_ref(keys[i])),
            mlirOperationGetAttributeByName(b, nabla_ref(keys[i]))))
      return false;
  return true;
}

/* Adds a function to the module, under the first name that no other has, unless
 * it is there. Returns the name. */
static MlirAttribute add_function(MlirOperation module, MlirOperation function,
                                  const char *prefix) {
  MlirContext context = nabla_op_context(module);
  MlirSymbolTable symbols = mlirSymbolTableCreate(module);
  MlirOperation had = {NULL};
  char name[64];
  for (int i = 0; i == 0 || !mlirOperationIsNull(had); i++) {
    (void)(i ? snprintf(name, sizeof name, "%s_%d", prefix, i)
             : snprintf(name, sizeof name, "%s", prefix));
    had = mlirSymbolTableLookup(symbols, nabla_ref(name));
    if (!mlirOperationIsNull(had) && are_alike(had, function)) break;
  }
  mlirSymbolTableDestroy(symbols);
  if (mlirOperationIsNull(had)) {
    nabla_op_set(function, "sym_name",
                 mlirStringAttrGet(context, nabla_ref(name)));
    mlirBlockAppendOwnedOperation(
        mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0)), function);
  } else {
    mlirOperationDestroy(function);
  }
  return mlirFlatSymbolRefAttrGet(context, nabla_ref(name));
}

/* The function of the module that stores a descriptor of this rank. */
static MlirAttribute storing_function(MlirOperation module, intptr_t rank) {
  static const char *const sizes[] = {"", ", array<%d x i64>, array<%d x i64>"};
  char name[48], fields[64], text[512];
  (void)snprintf(name, sizeof name, "nabla_store_descriptor_%d", (int)rank);
  (void)snprintf(fields, sizeof fields, sizes[rank > 0], (int)rank, (int)rank);
  (void)snprintf(text, sizeof text,
                 "func.func private @%s(%%descriptor: !llvm.struct<(ptr, ptr, "
                 "i64%s)>, %%place: !llvm.ptr) attributes {passthrough = "
                 "[\"noinline\"]} {\n"
                 "  llvm.store %%descriptor, %%place : !llvm.struct<(ptr, ptr, "
                 "i64%s)>, !llvm.ptr\n"
                 "  return\n}\n",
                 name, fields, fields);
  return add_function(
      module,
      mlirOperationCreateParse(nabla_op_context(module), nabla_ref(text),
                               nabla_ref("argument-table")),
      name);
}

void nabla_table_store(MlirOperation module, MlirOperation before,
                       MlirValue buffer, MlirValue place) {
  MlirContext context = nabla_op_context(before);
  const intptr_t rank = mlirShapedTypeGetRank(mlirValueGetType(buffer));
  MlirValue descriptor = nabla_table_op(before, NABLA_CAST, buffer,
                                        nabla_table_descriptor(context, rank));
  MlirValue operands[] = {descriptor, place};
  MlirNamedAttribute callee =
      nabla_named(context, "callee", storing_function(module, rank));
  nabla_op_spec store = {"func.call", 2, operands, 0, NULL, 1, &callee};
  nabla_op_create(before, &store);
}
