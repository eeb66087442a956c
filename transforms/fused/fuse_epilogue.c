/* nabla-fuse: what follows a fused operation, and only it, becomes a step of
 * its epilogue: bias, activation, residual addition. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/bridge.h"
#include "dialect/verify/checks.h"
#include "lib/kernels/fused_kernel.h"
#include "transforms/fused/fused_dense.h"
#include "transforms/ir/ir.h"
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

/* Where a size comes from: dimension `dim` of an array, or an index (-1). */
typedef struct size {
  MlirValue from;
  int64_t dim;
} size;

/* The array and dimension that a tensor.dim asks for; false for others. */
static bool read_dim(MlirOperation op, size *out) {
  if (!nabla_is(op, "tensor.dim")) return false;
  MlirOperation index = nabla_defining_op(mlirOperationGetOperand(op, 1));
  if (!nabla_is(index, "arith.constant")) return false;
  MlirAttribute value =
      mlirOperationGetAttributeByName(index, nabla_ref("value"));
  if (!mlirAttributeIsAInteger(value)) return false;
  MlirValue array = mlirOperationGetOperand(op, 0);
  MlirType type = mlirValueGetType(array);
  int64_t dim = mlirIntegerAttrGetValueInt(value);
  if (!mlirTypeIsARankedTensor(type) || dim < 0 ||
      dim >= nabla_array_rank(type) || dim >= NABLA_MAX_RANK)
    return false;
  *out = (size){array, dim};
  return true;
}

/* The operand of `op`, a reshape or broadcast_in_dim, that gives dimension
 * `dim` of its result; null when none does. */
static MlirValue size_operand(MlirOperation op, int64_t dim) {
  MlirType type = nabla_result_type(op, 0);
  intptr_t at = 1;
  if (!nabla_is_dynamic(nabla_array_dim(type, dim)) ||
      mlirOperationGetNumOperands(op) < 2)
    return (MlirValue){NULL};
  for (intptr_t i = 0; i < dim; i++)
    at += nabla_is_dynamic(nabla_array_dim(type, i));
  return mlirOperationGetOperand(op, at);
}

/* From a dimension of a product to that of x, where it is one of x. */
static bool step_to_x(MlirOperation fused, size *s) {
  nabla_fused_dims dims = nabla_fused_dims_of(fused);
  if (s->dim > dims.batches) return false;
  s->from = mlirOperationGetOperand(fused, 0);
  s->dim = s->dim < dims.batches ? dims.x_batch[s->dim] : dims.x_free;
  return true;
}

/* One step back from `s`; false at the end. */
static bool step_back(size *s) {
  int64_t order[NABLA_MAX_RANK];
  MlirOperation op = nabla_defining_op(s->from);
  if (mlirOperationIsNull(op)) return false;
  if (s->dim < 0) return read_dim(op, s);
  if (nabla_is(op, "nabla.fused_dot")) return step_to_x(op, s);
  if (nabla_is(op, "nabla.relu") || nabla_is(op, "nabla.silu")) {
    s->from = mlirOperationGetOperand(op, 0);
    return true;
  }
  if (nabla_is(op, "nabla.transpose")) {
    nabla_op_integers(op, "permutation", order);
    *s = (size){mlirOperationGetOperand(op, 0), order[s->dim]};
    return true;
  }
  if (!nabla_is(op, "nabla.reshape") && !nabla_is(op, "nabla.broadcast_in_dim"))
    return false;
  MlirValue given = size_operand(op, s->dim);
  if (mlirValueIsNull(given)) return false;
  *s = (size){given, -1};
  return true;
}

/* Steps that are followed: code that is never reached may go round. */
#define MAX_STEPS_BACK 64

/* Are dimension `dim` of `a` and of `b` one and the same? */
static bool same_size(MlirValue a, MlirValue b, int64_t dim) {
  size x = {a, dim}, y = {b, dim};
  for (int i = 0; i < MAX_STEPS_BACK && step_back(&x);) i++;
  for (int i = 0; i < MAX_STEPS_BACK && step_back(&y);) i++;
  return x.dim == y.dim && mlirValueEqual(x.from, y.from);
}

/* The vector that `repeated` has in each of its rows; null when it is no such
 * array, or when its rows may be more or fewer than those of `value`, which an
 * addition would find out at run time. */
static MlirValue bias_of(MlirValue repeated, MlirValue value) {
  MlirOperation op = nabla_defining_op(repeated);
  int64_t dims[NABLA_MAX_RANK];
  MlirValue none = {NULL};
  if (!nabla_is(op, "nabla.broadcast_in_dim")) return none;
  MlirValue vector = mlirOperationGetOperand(op, 0);
  MlirType type = mlirValueGetType(vector), wide = mlirValueGetType(repeated);
  intptr_t last = nabla_array_rank(wide) - 1;
  if (nablaTypeIsAImplicit(type) || nabla_array_rank(type) != 1 ||
      nabla_is_dynamic(nabla_array_dim(type, 0)) ||
      nabla_op_integers(op, "dims", dims) != 1 || dims[0] != last ||
      nabla_array_dim(type, 0) !=
          nabla_array_dim(mlirValueGetType(value), last))
    return none;
  for (intptr_t i = 0; i < last; i++)
    if (nabla_is_dynamic(nabla_array_dim(wide, i)) &&
        !same_size(repeated, value, i))
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
  out->operand = bias_of(other, value);
  out->name = "bias";
  if (!mlirValueIsNull(out->operand)) return true;
  out->operand = other;
  out->name = "add";
  return shaped && mlirTypeEqual(mlirValueGetType(other), type);
}

/* The attributes of a fused_dot but its epilogue. */
static intptr_t attributes_of(MlirOperation fused, MlirNamedAttribute *out) {
  static const char *const keys[] = {"lhs_batching", "rhs_batching",
                                     "lhs_contracting", "rhs_contracting"};
  intptr_t count = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    MlirAttribute value =
        mlirOperationGetAttributeByName(fused, nabla_ref(keys[i]));
    if (!mlirAttributeIsNull(value))
      out[count++] = nabla_named(nabla_op_context(fused), keys[i], value);
  }
  return count;
}

/* A fused_dot with one more step, before `before`. */
static MlirOperation extend(MlirOperation fused, const step *more,
                            MlirOperation before) {
  MlirContext context = nabla_op_context(fused);
  MlirValue operands[NABLA_KERNEL_ARGS];
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
  MlirNamedAttribute list[5];
  intptr_t attributes = attributes_of(fused, list);
  list[attributes++] =
      nabla_named(context, "epilogue", mlirArrayAttrGet(context, steps, names));
  nabla_op_spec spec = {"nabla.fused_dot", count, operands, -1, NULL,
                        attributes,        list};
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
  intptr_t rank = nabla_array_rank(to), last = nabla_array_rank(from) - 1;
  return rank > 0 &&
         nabla_array_dim(from, last) == nabla_array_dim(to, rank - 1);
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
