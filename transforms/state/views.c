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

static bool is_state(MlirValue value, int depth) {
  for (; depth < DEPTH_MAX; depth++) {
    MlirOperation op = nabla_defining_op(value);
    for (; !mlirOperationIsNull(op); op = nabla_defining_op(value)) {
      value = written_array(op);
      if (mlirValueIsNull(value)) return false;
    }
    MlirBlock block = mlirBlockArgumentGetOwner(value);
    MlirOperation owner = mlirBlockGetParentOperation(block);
    const intptr_t index = mlirBlockArgumentGetArgNumber(value);
    if (nabla_is(owner, "func.func"))
      return nabla_state_name(owner, NABLA_ARGUMENTS, index).data ||
             is_given_states(owner, index, depth);
    value = begun_as(owner, block, index);
    if (mlirValueIsNull(value)) return false;
  }
  return false;
}

bool nabla_view_is_of_state(MlirValue value) { return is_state(value, 0); }

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
