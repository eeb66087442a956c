/* nabla-sink-empties: a tensor.empty that the body of a loop uses is made in
 * the body. CSE merges those of bodies with equal ones before the loop;
 * bufferization would then write each iteration's value to one buffer, which
 * the carry of the iteration before may be. */
#include <mlir-c/IR.h>

#include "transforms/ir/ir.h"
#include "transforms/passes.h"

static bool is_empty(MlirOperation op) { return nabla_is(op, "tensor.empty"); }

static bool is_loop(MlirOperation op) {
  return nabla_is(op, "scf.for") || nabla_is(op, "scf.while");
}

/* Whether a loop lies between `user` and the operations beside `op`. */
static bool is_in_loop(MlirOperation op, MlirOperation user) {
  MlirBlock block = mlirOperationGetBlock(op);
  while (!mlirBlockEqual(mlirOperationGetBlock(user), block)) {
    user = mlirOperationGetParentOperation(user);
    if (is_loop(user)) return true;
  }
  return false;
}

/* The first use in a loop; null. */
static MlirOpOperand find(MlirOperation op) {
  MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(op, 0));
  while (!mlirOpOperandIsNull(use) &&
         !is_in_loop(op, mlirOpOperandGetOwner(use)))
    use = mlirOpOperandGetNextUse(use);
  return use;
}

static bool sink(MlirOperation op, void *self) {
  (void)self;
  for (MlirOpOperand use = find(op); !mlirOpOperandIsNull(use);
       use = find(op)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    MlirOperation copy = mlirOperationClone(op);
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(user), user,
                                        copy);
    mlirOperationSetOperand(user, mlirOpOperandGetOperandNumber(use),
                            mlirOperationGetResult(copy, 0));
  }
  return true;
}

MlirLogicalResult nabla_run_sink_empties(MlirOperation op,
                                         const nablaPassValue *values,
                                         void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(op, is_empty, sink, NULL);
}
