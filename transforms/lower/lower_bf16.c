/* nabla-lower-bf16: loads and stores of bf16 move 16 bits. Left to LLVM, a
 * value that crosses a basic block is extended to f32 and rounded back, by a
 * call that compiled code does not have, or by an instruction that flushes
 * subnormals. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/ir/ir.h"
#include "transforms/passes.h"

static bool is_bf16_move(MlirOperation op) {
  return (nabla_is(op, "llvm.load") &&
          mlirTypeIsABF16(nabla_result_type(op, 0))) ||
         (nabla_is(op, "llvm.store") &&
          mlirTypeIsABF16(nabla_operand_type(op, 0)));
}

static MlirValue bitcast(MlirOperation before, MlirValue value, MlirType to) {
  nabla_op_spec spec = {"llvm.bitcast", 1, &value, 1, &to, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* A copy of `op` before it, with these operands and results. */
static MlirOperation remake(MlirOperation op, intptr_t operands,
                            const MlirValue *values, intptr_t results,
                            const MlirType *types) {
  MlirNamedAttribute attributes[16];
  intptr_t count = mlirOperationGetNumAttributes(op);
  if (count > 16) count = 16;
  for (intptr_t i = 0; i < count; i++)
    attributes[i] = mlirOperationGetAttribute(op, i);
  const char *name = results ? "llvm.load" : "llvm.store";
  nabla_op_spec spec = {name,  operands, values,    results,
                        types, count,    attributes};
  return nabla_op_create(op, &spec);
}

static bool lower(MlirOperation op, void *unused) {
  (void)unused;
  MlirContext context = nabla_op_context(op);
  MlirType bits = mlirIntegerTypeGet(context, 16);
  MlirValue operands[2] = {mlirOperationGetOperand(op, 0)};
  if (nabla_is(op, "llvm.load")) {
    MlirOperation load = remake(op, 1, operands, 1, &bits);
    if (mlirOperationIsNull(load)) return false;
    MlirValue value =
        bitcast(op, mlirOperationGetResult(load, 0), mlirBF16TypeGet(context));
    nabla_op_replace(op, &value);
    return true;
  }
  operands[0] = bitcast(op, operands[0], bits);
  operands[1] = mlirOperationGetOperand(op, 1);
  if (mlirOperationIsNull(remake(op, 2, operands, 0, NULL))) return false;
  nabla_op_erase(op);
  return true;
}

MlirLogicalResult nabla_run_lower_bf16(MlirOperation op,
                                       const nablaPassValue *values,
                                       void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(op, is_bf16_move, lower, NULL);
}
