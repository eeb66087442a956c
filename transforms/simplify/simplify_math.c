/* See simplify_math.h. All folds are exact, bit for bit. */
#include "transforms/simplify/simplify_math.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/encoding/encoding.h"
#include "transforms/ir/ir.h"

/* Replaces `op` by a value of the same type. */
static bool replace(MlirOperation op, MlirValue value) {
  if (!mlirTypeEqual(mlirValueGetType(value), nabla_result_type(op, 0)))
    return false;
  nabla_op_replace(op, &value);
  return true;
}

/* Returns the op that defines the operand if it has the same name as `op`; else
 * null. */
static MlirOperation same_inside(MlirOperation op) {
  MlirOperation inner = nabla_defining_op(mlirOperationGetOperand(op, 0));
  bool same = !mlirOperationIsNull(inner) &&
              mlirStringRefEqual(nabla_name(inner), nabla_name(op));
  return same ? inner : (MlirOperation){NULL};
}

bool nabla_fold_inverse(MlirOperation op) {
  MlirOperation inner = same_inside(op);
  return !mlirOperationIsNull(inner) &&
         replace(op, mlirOperationGetOperand(inner, 0));
}

bool nabla_fold_idempotent(MlirOperation op) {
  return !mlirOperationIsNull(same_inside(op)) &&
         replace(op, mlirOperationGetOperand(op, 0));
}

bool nabla_fold_convert(MlirOperation op) {
  return replace(op, mlirOperationGetOperand(op, 0));
}

bool nabla_fold_select(MlirOperation op) {
  MlirType condition = nabla_operand_type(op, 0);
  for (intptr_t i = 0; i < nabla_array_rank(condition); i++)
    if (nabla_is_dynamic(nabla_array_dim(condition, i)))
      return false; /* its size is compared at run time */
  MlirValue yes = mlirOperationGetOperand(op, 1);
  return mlirValueEqual(yes, mlirOperationGetOperand(op, 2)) &&
         replace(op, yes);
}

bool nabla_fold_same(MlirOperation op) {
  MlirValue lhs = mlirOperationGetOperand(op, 0);
  return mlirValueEqual(lhs, mlirOperationGetOperand(op, 1)) &&
         replace(op, lhs);
}
