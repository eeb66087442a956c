/* See carried_buffers.h. Bufferization does not see the later reads of a
 * buffer, so that the value from which the buffer is made must never be
 * written. */
#include "transforms/control/carried_buffers.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/ir/components.h"

bool nabla_carries_buffers(MlirOperation op) {
  if (nabla_is(op, "scf.yield")) op = mlirOperationGetParentOperation(op);
  return nabla_is(op, "scf.for") || nabla_is(op, "scf.while") ||
         nabla_is(op, "scf.condition");
}

MlirAttribute nabla_carried_layout(MlirType component) {
  int64_t strides[NABLA_MAX_RANK], stride = 1;
  intptr_t rank = mlirShapedTypeGetRank(component);
  for (intptr_t i = rank; i-- > 0;) {
    strides[i] = stride;
    stride *= mlirShapedTypeGetDimSize(component, i);
  }
  return mlirStridedLayoutAttrGet(mlirTypeGetContext(component),
                                  mlirShapedTypeGetDynamicStrideOrOffset(),
                                  rank, strides);
}

MlirType nabla_carried_type(MlirType component) {
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank = mlirShapedTypeGetRank(component);
  for (intptr_t i = 0; i < rank; i++)
    shape[i] = mlirShapedTypeGetDimSize(component, i);
  return mlirMemRefTypeGet(mlirShapedTypeGetElementType(component), rank, shape,
                           nabla_carried_layout(component),
                           mlirAttributeGetNull());
}

/* Returns whether the argument of a function is marked as not writable. */
static bool is_protected(MlirValue value) {
  MlirOperation function =
      mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(value));
  MlirAttribute all =
      mlirOperationGetAttributeByName(function, nabla_ref("arg_attrs"));
  intptr_t index = mlirBlockArgumentGetArgNumber(value);
  if (!nabla_is(function, "func.func") || mlirAttributeIsNull(all))
    return false;
  MlirAttribute writable = mlirDictionaryAttrGetElementByName(
      mlirArrayAttrGetElement(all, index), nabla_ref("bufferization.writable"));
  return !mlirAttributeIsNull(writable) && !mlirBoolAttrGetValue(writable);
}

#define MAX_DEPTH 64 /* of slices and views; unreachable code may be cyclic */

/* Returns whether all users of `value` and of its slices are operations that
 * only read. */
static bool is_only_read(MlirValue value, int depth) {
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    if (nabla_is(op, "nabla.pack") || nabla_is(op, "bufferization.to_buffer"))
      continue;
    if (nabla_is(op, "tensor.insert_slice") &&
        mlirOpOperandGetOperandNumber(use) == 0)
      continue;
    if (depth == MAX_DEPTH || !nabla_is(op, "tensor.extract_slice") ||
        !is_only_read(mlirOperationGetResult(op, 0), depth + 1))
      return false;
  }
  return true;
}

/* As is_only_read, for all components of an implicit value. */
static bool is_packed_only_read(MlirValue packed, int depth) {
  bool good = depth < MAX_DEPTH;
  for (MlirOpOperand use = mlirValueGetFirstUse(packed);
       good && !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    bool apart = nabla_is(op, "nabla.unpack");
    for (intptr_t i = 0; good && i < mlirOperationGetNumResults(op); i++) {
      MlirValue result = mlirOperationGetResult(op, i);
      if (nablaTypeIsAImplicit(mlirValueGetType(result)))
        good = is_packed_only_read(result, depth + 1);
      else if (apart)
        good = is_only_read(result, 0);
    }
  }
  return good;
}

/* Replaces the result `value` of an unpack by the component itself; returns
 * false if this is not known here. */
static bool find_component(MlirOperation unpack, MlirValue *value) {
  MlirValue parts[NABLA_MAX_PARTS];
  intptr_t index = mlirOpResultGetResultNumber(*value);
  if (nabla_components_find(mlirOperationGetOperand(unpack, 0), parts) < 0)
    return false;
  *value = parts[index];
  return true;
}

/* Returns whether an implicit value, or the one that it is a view of, is
 * computed here: later passes may compute another one in the same memory, since
 * they do not see that a buffer of it is read. */
static bool is_computed(MlirValue packed) {
  for (int depth = 0; depth < MAX_DEPTH; depth++) {
    MlirOperation op = nabla_defining_op(packed);
    if (mlirOperationIsNull(op)) return false;
    if (nabla_is(op, "nabla.quantize")) return true;
    if (mlirOperationGetNumOperands(op) == 0) return false;
    packed = mlirOperationGetOperand(op, 0);
    if (!nablaTypeIsAImplicit(mlirValueGetType(packed))) return false;
  }
  return true;
}

/* Returns whether the array that `value` is a part of is never written. */
static bool is_safe(MlirValue value) {
  for (int depth = 0; depth < MAX_DEPTH; depth++) {
    MlirOperation op = nabla_defining_op(value);
    if (mlirOperationIsNull(op)) return is_protected(value);
    if (nabla_is(op, "bufferization.to_tensor"))
      return mlirAttributeIsNull(
          mlirOperationGetAttributeByName(op, nabla_ref("writable")));
    if (!is_only_read(value, 0)) return false;
    if (nabla_is(op, "tensor.extract_slice"))
      value = mlirOperationGetOperand(op, 0);
    else if (!nabla_is(op, "nabla.unpack"))
      return false;
    else if (!find_component(op, &value))
      return !is_computed(mlirOperationGetOperand(op, 0)) &&
             is_packed_only_read(mlirOperationGetOperand(op, 0), 0);
  }
  return false;
}

static MlirValue create(MlirOperation before, const char *name, MlirValue from,
                        MlirType type, const char *key, MlirAttribute value) {
  MlirNamedAttribute attribute =
      nabla_named(nabla_op_context(before), key, value);
  nabla_op_spec spec = {name, 1, &from, 1, &type, 1, &attribute};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

MlirValue nabla_carried_buffer(MlirValue component, MlirOperation before) {
  MlirContext context = nabla_op_context(before);
  MlirType type = mlirValueGetType(component);
  int32_t segments[] = {0, 1, 0}; /* sizes, copy, size hint */
  if (!is_safe(component))
    component = create(before, "bufferization.alloc_tensor", component, type,
                       "operandSegmentSizes",
                       mlirDenseI32ArrayGet(context, 3, segments));
  return create(before, "bufferization.to_buffer", component,
                nabla_carried_type(type), "read_only",
                mlirUnitAttrGet(context));
}

MlirValue nabla_carried_component(MlirValue buffer, MlirType component,
                                  MlirOperation before) {
  return create(before, "bufferization.to_tensor", buffer, component,
                "restrict", mlirUnitAttrGet(nabla_op_context(before)));
}
