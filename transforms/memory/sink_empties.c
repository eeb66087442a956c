/* nabla-sink-empties: a tensor.empty that the body of a loop uses is made in
 * the body. CSE merges those of bodies with equal ones before the loop;
 * bufferization would then write each iteration's value to one buffer, which
 * the carry of the iteration before may be.
 *
 * A tensor.empty in which a value is made that is both returned and inserted
 * into a slice becomes an allocation: upstream would make the value in the
 * slice, and the caller, which is returned a part of an array that the function
 * writes, would give it a copy of a state. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/IR.h>

#include "dialect/encoding/encoding.h"
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

/* ---- values that are returned, and inserted into slices ---- */

/* Reshapes and casts through which a use is looked for. */
#define VIEWS_MAX 8

/* Whether `value`, or a view of it, is operand `number` of an operation of this
 * name. */
static bool is_used_by(MlirValue value, const char *name, int number,
                       int views) {
  static const char *const view_ops[] = {"tensor.cast", "tensor.expand_shape",
                                         "tensor.collapse_shape"};
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    const int at = (int)mlirOpOperandGetOperandNumber(use);
    if (nabla_is(user, name) && (number < 0 || at == number)) return true;
    for (size_t i = 0;
         views && at == 0 && i < sizeof view_ops / sizeof *view_ops; i++)
      if (nabla_is(user, view_ops[i]) &&
          is_used_by(mlirOperationGetResult(user, 0), name, number, views - 1))
        return true;
  }
  return false;
}

static bool is_returned_and_inserted(MlirOperation op) {
  if (!is_empty(op)) return false;
  MlirValue made = mlirOperationGetResult(op, 0);
  for (MlirOpOperand use = mlirValueGetFirstUse(made);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    for (intptr_t i = 0; i < mlirOperationGetNumResults(user); i++) {
      MlirValue value = mlirOperationGetResult(user, i);
      if (mlirTypeEqual(mlirValueGetType(value), mlirValueGetType(made)) &&
          is_used_by(value, "func.return", -1, VIEWS_MAX) &&
          is_used_by(value, "tensor.insert_slice", 0, VIEWS_MAX))
        return true;
    }
  }
  return false;
}

static bool allocate(MlirOperation op, void *self) {
  (void)self;
  MlirContext context = nabla_op_context(op);
  const intptr_t count = mlirOperationGetNumOperands(op);
  MlirValue sizes[NABLA_MAX_RANK];
  if (count > NABLA_MAX_RANK) return true;
  for (intptr_t i = 0; i < count; i++)
    sizes[i] = mlirOperationGetOperand(op, i);
  const int32_t segments[] = {(int32_t)count, 0, 0};
  MlirNamedAttribute attribute =
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, 3, segments));
  MlirType type = nabla_result_type(op, 0);
  nabla_op_spec spec = {
      "bufferization.alloc_tensor", count, sizes, 1, &type, 1, &attribute};
  MlirValue made = mlirOperationGetResult(nabla_op_create(op, &spec), 0);
  nabla_op_replace(op, &made);
  return true;
}

MlirLogicalResult nabla_run_sink_empties(MlirOperation op,
                                         const nablaPassValue *values,
                                         void *prepared) {
  (void)values, (void)prepared;
  if (mlirLogicalResultIsFailure(
          nabla_ops_each(op, is_returned_and_inserted, allocate, NULL)))
    return mlirLogicalResultFailure();
  return nabla_ops_each(op, is_empty, sink, NULL);
}
