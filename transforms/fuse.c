/* nabla-fuse: what follows a fused operation, and only it, becomes a step of
 * its epilogue: bias, activation, residual addition. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/bridge.h"
#include "dialect/checks.h"
#include "transforms/ir.h"
#include "transforms/kernels/fused.h"
#include "transforms/passes.h"

/* A user of a fused_dot that can become its step. `operand` is null for steps
 * that have none. */
typedef struct step {
  const char *name;
  MlirValue operand;
} step;

/* The one user of `value`, the result of an op, if it stands in the same block:
 * a product is not moved into a loop. */
static MlirOperation only_user(MlirValue value) {
  MlirOperation none = {NULL};
  if (nabla_use_count(value) != 1) return none;
  MlirOperation user = mlirOpOperandGetOwner(mlirValueGetFirstUse(value));
  return mlirBlockEqual(mlirOperationGetBlock(user),
                        mlirOperationGetBlock(nabla_defining_op(value)))
             ? user
             : none;
}

/* The vector that `value` repeats along all dimensions but the last; null when
 * it does not. */
static MlirValue bias_of(MlirValue value, int64_t columns) {
  MlirOperation op = nabla_defining_op(value);
  int64_t dims[NABLA_MAX_RANK];
  MlirValue none = {NULL};
  if (!nabla_is(op, "nabla.broadcast_in_dim")) return none;
  MlirValue vector = mlirOperationGetOperand(op, 0);
  MlirType type = mlirValueGetType(vector);
  intptr_t rank = nabla_array_rank(mlirValueGetType(value));
  if (nablaTypeIsAImplicit(type) || nabla_array_rank(type) != 1 ||
      nabla_op_integers(op, "dims", dims) != 1 || dims[0] != rank - 1 ||
      nabla_array_dim(type, 0) != columns)
    return none;
  return vector;
}

/* What `user` does with `value`, if it can be a step. `shaped` is whether
 * `value` has the shape of the matrix that the kernel writes. */
static bool read_step(MlirOperation user, MlirValue value, bool shaped,
                      step *out) {
  *out = (step){NULL, {NULL}};
  MlirType type = mlirValueGetType(value);
  if (mlirOperationIsNull(user) || mlirOperationGetNumResults(user) != 1 ||
      !mlirTypeEqual(nabla_result_type(user, 0), type))
    return false;
  if (nabla_is(user, "nabla.relu")) out->name = "relu";
  if (nabla_is(user, "nabla.silu")) out->name = "silu";
  if (out->name) return true;
  if (!nabla_is(user, "nabla.add")) return false;
  MlirValue lhs = mlirOperationGetOperand(user, 0);
  MlirValue other =
      mlirValueEqual(lhs, value) ? mlirOperationGetOperand(user, 1) : lhs;
  if (nablaTypeIsAImplicit(mlirValueGetType(other))) return false;
  out->operand =
      bias_of(other, nabla_array_dim(type, nabla_array_rank(type) - 1));
  out->name = "bias";
  if (!mlirValueIsNull(out->operand)) return true;
  out->operand = other;
  out->name = "add";
  return shaped && mlirTypeEqual(mlirValueGetType(other), type);
}

/* A fused_dot with one more step, before `before`. */
static MlirOperation extend(MlirOperation fused, const step *more,
                            MlirOperation before) {
  MlirContext context = nabla_context(fused);
  MlirValue operands[NABLA_FUSED_WORDS];
  MlirAttribute names[NABLA_FUSED_MAX_STEPS];
  intptr_t count = mlirOperationGetNumOperands(fused), steps = 0;
  for (intptr_t i = 0; i < count; i++)
    operands[i] = mlirOperationGetOperand(fused, i);
  if (!mlirValueIsNull(more->operand)) operands[count++] = more->operand;
  MlirAttribute old =
      mlirOperationGetAttributeByName(fused, nabla_ref("epilogue"));
  if (!mlirAttributeIsNull(old)) steps = mlirArrayAttrGetNumElements(old);
  if (steps >= NABLA_FUSED_MAX_STEPS) return (MlirOperation){NULL};
  for (intptr_t i = 0; i < steps; i++)
    names[i] = mlirArrayAttrGetElement(old, i);
  names[steps++] = mlirStringAttrGet(context, nabla_ref(more->name));
  MlirNamedAttribute epilogue =
      nabla_named(context, "epilogue", mlirArrayAttrGet(context, steps, names));
  nabla_op_spec spec = {"nabla.fused_dot", count, operands, -1, NULL, 1,
                        &epilogue};
  return nabla_op_create(before, &spec);
}

/* A copy of the reshape `op` with another operand, before `before`. */
static MlirValue reshape_again(MlirOperation op, MlirValue value,
                               MlirOperation before) {
  MlirValue operands[NABLA_MAX_RANK + 1] = {value};
  MlirType type = nabla_result_type(op, 0);
  intptr_t count = mlirOperationGetNumOperands(op);
  for (intptr_t i = 1; i < count; i++)
    operands[i] = mlirOperationGetOperand(op, i);
  nabla_op_spec spec = {"nabla.reshape", count, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* Does the reshape keep the columns, so that what works on the last dimension
 * works on the matrix too? */
static bool keeps_columns(MlirOperation reshape) {
  MlirType from = nabla_operand_type(reshape, 0);
  MlirType to = nabla_result_type(reshape, 0);
  intptr_t rank = nabla_array_rank(to);
  return rank > 0 && nabla_array_dim(from, 1) == nabla_array_dim(to, rank - 1);
}

/* Takes one user into the epilogue; the new fused_dot, or null. */
static MlirOperation take_user(MlirOperation fused) {
  MlirOperation none = {NULL}, reshape = none;
  MlirValue value = mlirOperationGetResult(fused, 0);
  MlirOperation user = only_user(value);
  if (nabla_is(user, "nabla.reshape") && keeps_columns(user)) {
    reshape = user;
    value = mlirOperationGetResult(reshape, 0);
    user = only_user(value);
  }
  step next;
  if (!read_step(user, value, mlirOperationIsNull(reshape), &next)) return none;
  MlirOperation extended = extend(fused, &next, user);
  if (mlirOperationIsNull(extended)) return none;
  nablaOptimizationRemark(mlirOperationGetLocation(user), false, "Fused",
                          "nabla-fuse", next.name);
  MlirValue result = mlirOperationGetResult(extended, 0);
  if (!mlirOperationIsNull(reshape))
    result = reshape_again(reshape, result, user);
  nabla_op_replace(user, &result);
  if (!mlirOperationIsNull(reshape)) nabla_op_erase(reshape);
  nabla_op_erase(fused);
  return extended;
}

static bool is_fused(MlirOperation op) {
  return nabla_is(op, "nabla.fused_dot");
}

MlirLogicalResult nabla_run_fuse(MlirOperation op, const nablaPassValue *values,
                                 void *prepared) {
  (void)values, (void)prepared;
  nabla_op_list all = nabla_ops_collect(op, is_fused);
  for (size_t i = 0; i < all.count; i++)
    for (MlirOperation at = all.ops[i]; !mlirOperationIsNull(at);)
      at = take_user(at);
  bool failed = all.failed;
  nabla_op_list_deinit(&all);
  return failed ? mlirLogicalResultFailure() : mlirLogicalResultSuccess();
}
