/* See the header. Control flow is scf here, and operands are lowered before
 * users. */
#include "transforms/state/views.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
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

/* ---- calls ---- */

/* How the elements of a slice lie in the buffer of its array: by the strides of
 * the array; one after the other; and so that the type of the buffer says it.
 */
typedef enum lie { STRIDED, CONTIGUOUS, IN_ORDER } lie;

/* Whether an array may be a view of a part of another one. */
static bool is_part(MlirValue array) {
  static const char *const shapes[] = {
      "tensor.collapse_shape", "tensor.expand_shape", "tensor.reshape",
      "tensor.cast",           "nabla.reshape",       "nabla.squeeze"};
  const size_t count = sizeof shapes / sizeof *shapes;
  for (int depth = 0; depth < DEPTH_MAX; depth++) {
    const MlirOperation made = nabla_defining_op(array);
    if (mlirOperationIsNull(made) || !gives_view(made)) return false;
    size_t i = 0;
    while (i < count && !nabla_is(made, shapes[i])) i++;
    if (i == count) return true;
    array = mlirOperationGetOperand(made, 0);
  }
  return true;
}

/* How those of a slice lie whose steps are 1. */
static lie lie_of(MlirOperation slice) {
  const MlirValue array = mlirOperationGetOperand(slice, 0);
  const MlirType from = mlirValueGetType(array);
  const MlirType to = nabla_result_type(slice, 0);
  int64_t from_stride = 1, to_stride = 1; /* 0: not known, or too large */
  lie out = IN_ORDER;
  if (is_part(array)) return STRIDED;
  for (intptr_t d = nabla_array_rank(to); d-- > 0;) {
    const int64_t a = nabla_array_dim(from, d), b = nabla_array_dim(to, d);
    if (from_stride != to_stride || !from_stride) {
      if (b != 1) return STRIDED;
      out = CONTIGUOUS;
    }
    if (nabla_is_dynamic(a) ||
        __builtin_mul_overflow(from_stride, a, &from_stride))
      from_stride = 0;
    if (nabla_is_dynamic(b) || __builtin_mul_overflow(to_stride, b, &to_stride))
      to_stride = 0;
  }
  return out;
}

/* The layout that the callee asks for operand `index`, or null. */
static MlirAttribute layout_taken(MlirOperation call, intptr_t index) {
  MlirOperation module = call;
  while (!nabla_is(module, "builtin.module"))
    module = mlirOperationGetParentOperation(module);
  MlirSymbolTable symbols = mlirSymbolTableCreate(module);
  MlirOperation callee = mlirSymbolTableLookup(
      symbols, mlirFlatSymbolRefAttrGetValue(attribute(call, "callee")));
  mlirSymbolTableDestroy(symbols);
  if (mlirOperationIsNull(callee)) return (MlirAttribute){NULL};
  return nabla_state_attribute(callee, NABLA_ARGUMENTS, index,
                               "bufferization.buffer_layout");
}

/* Whether a layout leaves all strides open but that of the last dimension. */
static bool is_open(MlirAttribute layout) {
  if (!mlirAttributeIsAStridedLayout(layout)) return false;
  const intptr_t rank = mlirStridedLayoutAttrGetNumStrides(layout);
  for (intptr_t i = 0; i + 1 < rank; i++)
    if (mlirStridedLayoutAttrGetStride(layout, i) !=
        mlirShapedTypeGetDynamicStrideOrOffset())
      return false;
  return true;
}

/* Whether a call reads operand `index` where it lies; `without`: without a
 * layout, which bufferization makes a copy for. */
static bool reads(MlirOperation call, intptr_t index, lie lies, lie least,
                  bool without) {
  const MlirAttribute layout = layout_taken(call, index);
  if (mlirAttributeIsNull(layout)) return without;
  return lies >= least || is_open(layout);
}

static bool is_taken(MlirValue value, lie lies, lie least) {
  MlirOpOperand use = mlirValueGetFirstUse(value);
  if (mlirOpOperandIsNull(use)) return false;
  for (; !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    const intptr_t index = mlirOpOperandGetOperandNumber(use);
    const bool good =
        is_call(user)
            ? reads(user, index, lies, least, false)
            : nabla_is(user, "nabla.reshape") && index == 0 &&
                  is_taken(mlirOperationGetResult(user, 0), lies, CONTIGUOUS);
    if (!good) return false;
  }
  return true;
}

bool nabla_view_is_taken(MlirOperation slice) {
  return is_taken(mlirOperationGetResult(slice, 0), lie_of(slice), IN_ORDER);
}

/* Whether a call reads `value`, also behind a reshape, in another order. */
static bool is_refused(MlirValue value, lie lies, lie least) {
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    const intptr_t index = mlirOpOperandGetOperandNumber(use);
    if (is_call(user)
            ? !reads(user, index, lies, least, true)
            : nabla_is(user, "nabla.reshape") && index == 0 &&
                  is_refused(mlirOperationGetResult(user, 0), lies, CONTIGUOUS))
      return true;
  }
  return false;
}

bool nabla_view_is_of_state(MlirOperation slice) {
  MlirValue array = mlirOperationGetOperand(slice, 0);
  MlirValue value = mlirOperationGetResult(slice, 0);
  bool is_inner = false;
  if (!find_state(array, 0, &is_inner) ||
      is_refused(value, lie_of(slice), IN_ORDER))
    return false;
  return !is_inner || (!leaves(value, 0) && !is_used_behind(slice, array));
}
