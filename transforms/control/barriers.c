/* nabla-barriers: replaces the results of nabla.barrier by its operands. It
 * runs behind the last pass that merges equal operations of tensors, or moves
 * them: until then a barrier keeps what is computed again behind a cotangent
 * apart from what was computed before. */
#include "transforms/lower/list.h"
#include "transforms/passes.h"

/* It stays: it is no computation. */
bool nabla_lower_barrier(nabla_template *t) {
  (void)t;
  return true;
}

static bool is_barrier(MlirOperation op) {
  return nabla_is(op, "nabla.barrier");
}

static bool open_barrier(MlirOperation op, void *unused) {
  (void)unused;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i),
                                  mlirOperationGetOperand(op, i));
  nabla_op_erase(op);
  return true;
}

MlirLogicalResult nabla_run_barriers(MlirOperation op,
                                     const nablaPassValue *values,
                                     void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(op, is_barrier, open_barrier, NULL);
}
