/* See the header. Control flow is scf here, and operands are lowered before
 * users. */
#include "transforms/state/views.h"

#include <mlir-c/BuiltinAttributes.h>

#include "transforms/state/state.h"

#define DEPTH_MAX 16 /* of loops and calls */

static MlirAttribute attribute(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nabla_ref(name));
}

static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

/* ---- states ---- */

static bool is_state(MlirValue value, int depth);

/* Whether every call of a private function gives a state as argument `index`,
 * and there is one. */
static bool is_given_states(MlirOperation function, intptr_t index, int depth) {
  MlirOperation module = mlirOperationGetParentOperation(function);
  MlirAttribute seen = attribute(function, "sym_visibility");
  if (mlirAttributeIsNull(seen) ||
      !nabla_state_same(mlirStringAttrGetValue(seen), nabla_ref("private")))
    return false;
  MlirStringRef name = mlirStringAttrGetValue(attribute(function, "sym_name"));
  nabla_op_list calls = nabla_ops_collect(module, is_call);
  size_t found = 0;
  bool good = !calls.failed;
  for (size_t i = 0; good && i < calls.count; i++) {
    if (!nabla_state_same(
            mlirFlatSymbolRefAttrGetValue(attribute(calls.ops[i], "callee")),
            name))
      continue;
    good = is_state(mlirOperationGetOperand(calls.ops[i], index), depth + 1);
    found++;
  }
  nabla_op_list_deinit(&calls);
  return good && found > 0;
}

/* What an argument of a block of a loop begins as: null where that is not
 * known. */
static MlirValue begun_as(MlirOperation loop, MlirBlock block, intptr_t index) {
  const MlirValue none = {NULL};
  if (nabla_is(loop, "scf.for"))
    return index > 0 ? mlirOperationGetOperand(loop, 2 + index) : none;
  if (!nabla_is(loop, "scf.while")) return none;
  MlirBlock first = mlirRegionGetFirstBlock(mlirOperationGetRegion(loop, 0));
  return mlirBlockEqual(block, first)
             ? mlirOperationGetOperand(loop, index)
             : mlirOperationGetOperand(mlirBlockGetTerminator(first),
                                       1 + index);
}

/* The array that `op` has written a part of as `value`, or null. */
static MlirValue written_array(MlirOperation op) {
  if (nabla_is(op, "tensor.insert_slice") || nabla_is(op, "tensor.insert"))
    return mlirOperationGetOperand(op, 1);
  if (nabla_is(op, "nabla.dynamic_update_slice"))
    return mlirOperationGetOperand(op, 0);
  return (MlirValue){NULL};
}

/* `out_is_inner`: it came through a loop or a call. */
static bool find_state(MlirValue value, int depth, bool *out_is_inner) {
  for (; depth < DEPTH_MAX; depth++) {
    MlirOperation op = nabla_defining_op(value);
    for (; !mlirOperationIsNull(op); op = nabla_defining_op(value)) {
      value = written_array(op);
      if (mlirValueIsNull(value)) return false;
    }
    MlirBlock block = mlirBlockArgumentGetOwner(value);
    MlirOperation owner = mlirBlockGetParentOperation(block);
    const intptr_t index = mlirBlockArgumentGetArgNumber(value);
    if (nabla_is(owner, "func.func")) {
      if (nabla_state_name(owner, NABLA_ARGUMENTS, index).data) return true;
      *out_is_inner = true;
      return is_given_states(owner, index, depth);
    }
    *out_is_inner = true;
    value = begun_as(owner, block, index);
    if (mlirValueIsNull(value)) return false;
  }
  return false;
}

static bool is_state(MlirValue value, int depth) {
  bool unused = false;
  return find_state(value, depth, &unused);
}

static bool is_terminator(MlirOperation op) {
  return mlirOperationIsNull(mlirOperationGetNextInBlock(op));
}

/* Whether an operation gives another view of its first operand. */
static bool gives_view(MlirOperation op) {
  static const char *const names[] = {
      "nabla.reshape",         "nabla.slice",           "nabla.dynamic_slice",
      "nabla.squeeze",         "nabla.transpose",       "tensor.cast",
      "tensor.collapse_shape", "tensor.expand_shape",   "tensor.extract_slice",
      "tensor.reshape",        "nabla.broadcast_in_dim"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (nabla_is(op, names[i])) return true;
  return false;
}

/* Whether a view of `value` may leave its block, or go to a function. */
static bool leaves(MlirValue value, int depth) {
  if (depth >= DEPTH_MAX) return true;
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (is_terminator(user) || mlirOperationGetNumRegions(user)) return true;
    if (gives_view(user) && leaves(mlirOperationGetResult(user, 0), depth + 1))
      return true;
  }
  return false;
}

/* Whether something behind `slice` in its block may write to `array`, or stands
 * in another one. */
static bool is_used_behind(MlirOperation slice, MlirValue array) {
  for (MlirOpOperand use = mlirValueGetFirstUse(array);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (mlirOperationEqual(user, slice)) continue;
    if (!mlirBlockEqual(mlirOperationGetBlock(user),
                        mlirOperationGetBlock(slice)))
      return true;
    if (!is_terminator(user) && mlirOperationIsBeforeInBlock(slice, user) &&
        !nabla_is(user, "nabla.dynamic_slice") &&
        !nabla_is(user, "tensor.extract_slice") &&
        !nabla_is(user, "tensor.dim"))
      return true;
  }
  return false;
}

bool nabla_view_is_of_state(MlirOperation slice) {
  MlirValue array = mlirOperationGetOperand(slice, 0);
  bool is_inner = false;
  if (!find_state(array, 0, &is_inner)) return false;
  return !is_inner || (!leaves(mlirOperationGetResult(slice, 0), 0) &&
                       !is_used_behind(slice, array));
}

/* ---- calls ---- */

/* Whether the callee takes operand `index` by strides. */
static bool takes_strides(MlirOperation call, intptr_t index) {
  MlirOperation module = call;
  while (!nabla_is(module, "builtin.module"))
    module = mlirOperationGetParentOperation(module);
  MlirSymbolTable symbols = mlirSymbolTableCreate(module);
  MlirOperation callee = mlirSymbolTableLookup(
      symbols, mlirFlatSymbolRefAttrGetValue(attribute(call, "callee")));
  mlirSymbolTableDestroy(symbols);
  return !mlirOperationIsNull(callee) &&
         !mlirAttributeIsNull(nabla_state_attribute(
             callee, NABLA_ARGUMENTS, index, "bufferization.buffer_layout"));
}

bool nabla_view_is_taken(MlirValue value) {
  MlirOpOperand use = mlirValueGetFirstUse(value);
  if (mlirOpOperandIsNull(use)) return false;
  for (; !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    const bool good =
        is_call(user)
            ? takes_strides(user, mlirOpOperandGetOperandNumber(use))
            : nabla_is(user, "nabla.reshape") &&
                  mlirOpOperandGetOperandNumber(use) == 0 &&
                  nabla_view_is_taken(mlirOperationGetResult(user, 0));
    if (!good) return false;
  }
  return true;
}
