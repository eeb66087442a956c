/* nabla-address-buffers: buffers of known sizes that are casts of addresses get
 * descriptors, right before the conversion to LLVM. The passes before it see
 * one operation in place of up to fifty. */
#include <mlir-c/Dialect/LLVM.h>

#include "transforms/abi/known_buffer.h"
#include "transforms/passes.h"

static bool is_address(MlirOperation op) {
  return nabla_is(op, NABLA_CAST) && mlirOperationGetNumOperands(op) == 1 &&
         mlirOperationGetNumResults(op) == 1 &&
         mlirTypeIsALLVMPointerType(nabla_operand_type(op, 0)) &&
         nabla_known_buffer(nabla_result_type(op, 0));
}

static bool describe(MlirOperation cast, void *self) {
  (void)self;
  MlirValue address = mlirOperationGetOperand(cast, 0);
  MlirValue buffer =
      nabla_known_buffer_at(cast, address, address, nabla_result_type(cast, 0));
  nabla_op_replace(cast, &buffer);
  return true;
}

MlirLogicalResult nabla_run_address_buffers(MlirOperation module,
                                            const nablaPassValue *values,
                                            void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(module, is_address, describe, NULL);
}
