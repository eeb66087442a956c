/* Failures in compiled code: sizes of allocations that wrap, and the early
 * return of functions after a failure. */
#include <stdlib.h>

#include "transforms/abi/services.h"

#define MAX_FACTORS 64 /* depth of a product of dimensions */

/* ---- sizes of allocations ---- */

/* Computes the product `value` again so that it saturates at 2^64 - 1 instead
 * of wrapping, because dimensions come from the caller. */
static MlirValue saturate(nabla_function_walk *w, MlirOperation before,
                          MlirValue value, int depth) {
  MlirOperation product;
  if (depth > MAX_FACTORS ||
      !nabla_value_defined_by(value, "llvm.mul", &product))
    return value;
  MlirValue factors[] = {
      saturate(w, before, mlirOperationGetOperand(product, 0), depth + 1),
      saturate(w, before, mlirOperationGetOperand(product, 1), depth + 1)};
  return nabla_services_call(
      w->l, mlirOperationGetBlock(before), before, "nabla.multiply", 2, factors,
      mlirValueGetType(value), mlirOperationGetLocation(before));
}

/* Returns the bytes of an element of a buffer, rounded up; 0 if unknown. */
static int64_t element_bytes(MlirType type) {
  if (mlirTypeIsAFloat(type)) return (mlirFloatTypeGetWidth(type) + 7) / 8;
  if (mlirTypeIsAInteger(type))
    return ((int64_t)mlirIntegerTypeGetWidth(type) + 7) / 8;
  return 0;
}

static MlirValue constant(nabla_function_walk *w, MlirOperation before,
                          MlirType type, int64_t number) {
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("llvm.mlir.constant"), mlirOperationGetLocation(before));
  MlirNamedAttribute value =
      nabla_named(w->l->context, "value", mlirIntegerAttrGet(type, number));
  mlirOperationStateAddAttributes(&state, 1, &value);
  mlirOperationStateAddResults(&state, 1, &type);
  return mlirOperationGetResult(
      nabla_op_build(mlirOperationGetBlock(before), before, &state), 0);
}

/* Returns whether a number of elements is a constant too small for an overflow.
 */
static int is_small(MlirValue elements, int64_t each) {
  MlirOperation op;
  if (!nabla_value_defined_by(elements, "llvm.mlir.constant", &op)) return 0;
  MlirAttribute value = mlirOperationGetAttributeByName(op, nabla_ref("value"));
  if (!mlirAttributeIsAInteger(value)) return 0;
  int64_t count = mlirIntegerAttrGetValueInt(value);
  return count >= 0 && count <= ((int64_t)1 << 62) / each;
}

/* Finds the number of elements in `bytes`, the size of an allocation in the
 * form of memref.alloc's conversion: getelementptr(null, elements) as an
 * integer. Returns 0 if the size has another form, or cannot wrap. */
static int find_elements(MlirValue bytes, MlirValue *out, int64_t *out_each) {
  MlirOperation cast, gep, other;
  if (!nabla_value_defined_by(bytes, "llvm.ptrtoint", &cast) ||
      !nabla_value_defined_by(mlirOperationGetOperand(cast, 0),
                              "llvm.getelementptr", &gep) ||
      mlirOperationGetNumOperands(gep) != 2 ||
      !nabla_value_defined_by(mlirOperationGetOperand(gep, 0), "llvm.mlir.zero",
                              &other))
    return 0;
  *out = mlirOperationGetOperand(gep, 1);
  *out_each = element_bytes(mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(gep, nabla_ref("elem_type"))));
  return *out_each > 0 && !is_small(*out, *out_each);
}

void nabla_services_check_size(nabla_function_walk *w, MlirOperation call,
                               intptr_t number) {
  MlirOperation sum;
  MlirValue size = mlirOperationGetOperand(call, number), elements;
  int64_t each;
  int has_sum = nabla_value_defined_by(size, "llvm.add", &sum);
  if (!find_elements(has_sum ? mlirOperationGetOperand(sum, 0) : size,
                     &elements, &each)) {
    mlirOperationSetOperand(call, number, saturate(w, call, size, 0));
    return;
  }
  MlirType word = mlirValueGetType(size);
  MlirBlock block = mlirOperationGetBlock(call);
  MlirLocation location = mlirOperationGetLocation(call);
  MlirValue factors[] = {saturate(w, call, elements, 0),
                         constant(w, call, word, each)};
  MlirValue total = nabla_services_call(w->l, block, call, "nabla.multiply", 2,
                                        factors, word, location);
  if (has_sum) { /* the size includes bytes for alignment */
    MlirValue terms[] = {total, mlirOperationGetOperand(sum, 1)};
    total = nabla_services_call(w->l, block, call, "nabla.add", 2, terms, word,
                                location);
  }
  mlirOperationSetOperand(call, number, total);
}

/* ---- which calls may fail ---- */

static MlirWalkResult visit(MlirOperation op, void *self) {
  nabla_function_walk *w = self;
  MlirStringRef name;
  if (!nabla_is(op, "llvm.call")) return MlirWalkResultAdvance;
  MlirOperation callee = nabla_services_target(w->l, op, "callee", &name);
  if (!mlirOperationIsNull(callee) &&
      nabla_op_has(callee, NABLA_MAY_FAIL_MARK) &&
      !nabla_op_has(op, NABLA_MAY_FAIL_MARK))
    nabla_op_mark(op, NABLA_MAY_FAIL_MARK);
  if (nabla_op_has(op, NABLA_MAY_FAIL_MARK) &&
      !nabla_op_has(w->function, NABLA_MAY_FAIL_MARK)) {
    nabla_op_mark(w->function, NABLA_MAY_FAIL_MARK);
    w->l->changed = 1;
  }
  return MlirWalkResultAdvance;
}

static void mark_failing(nabla_lowering *l, MlirOperation function) {
  if (!nabla_services_taken_by(function)) return;
  nabla_function_walk w = {.l = l, .function = function};
  mlirOperationWalk(function, visit, &w, MlirWalkPreOrder);
}

/* ---- leaving a function after a failure ---- */

/* Keeps the block from being folded into the branches that end in it. LLVM
 * folds a block that does nothing, and each value that the function returns
 * would then have one incoming edge for each call that may fail: 100 results
 * compiled for seconds. llvm.sideeffect makes no code. */
static void keep_block(nabla_function_walk *w) {
  static const int32_t segments[] = {0, 0};
  MlirContext context = w->l->context;
  MlirOperation none = {NULL};
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("llvm.call_intrinsic"), mlirOperationGetLocation(w->function));
  MlirNamedAttribute attributes[] = {
      nabla_named(context, "intrin",
                  mlirStringAttrGet(context, nabla_ref("llvm.sideeffect"))),
      nabla_named(context, "operandSegmentSizes",
                  nabla_attribute_integers(context, 2, segments)),
      nabla_named(context, "op_bundle_sizes",
                  nabla_attribute_integers(context, 0, segments))};
  mlirOperationStateAddAttributes(&state, 3, attributes);
  nabla_op_build(w->fail, none, &state);
}

/* Makes a block at the end of the function that returns zero. */
static MlirBlock fail_block(nabla_function_walk *w) {
  if (!mlirBlockIsNull(w->fail)) return w->fail;
  MlirLocation location = mlirOperationGetLocation(w->function);
  MlirType result =
      mlirLLVMFunctionTypeGetReturnType(nabla_function_type(w->function));
  MlirOperation none = {NULL};
  w->fail = mlirBlockCreate(0, NULL, NULL);
  mlirRegionAppendOwnedBlock(mlirOperationGetRegion(w->function, 0), w->fail);
  MlirOperationState end =
      mlirOperationStateGet(nabla_ref("llvm.return"), location);
  if (!mlirTypeEqual(result, mlirLLVMVoidTypeGet(w->l->context))) {
    keep_block(w);
    MlirOperationState state =
        mlirOperationStateGet(nabla_ref("llvm.mlir.zero"), location);
    mlirOperationStateAddResults(&state, 1, &result);
    MlirValue zero =
        mlirOperationGetResult(nabla_op_build(w->fail, none, &state), 0);
    mlirOperationStateAddOperands(&end, 1, &zero);
  }
  nabla_op_build(w->fail, none, &end);
  return w->fail;
}

/* Moves the operations after `call` to a new block. */
static MlirBlock cut_after(nabla_function_walk *w, MlirOperation call) {
  MlirBlock rest = mlirBlockCreate(0, NULL, NULL);
  mlirRegionInsertOwnedBlockAfter(mlirOperationGetRegion(w->function, 0),
                                  mlirOperationGetBlock(call), rest);
  MlirOperation op = mlirOperationGetNextInBlock(call), next;
  for (; !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    mlirOperationRemoveFromParent(op);
    mlirBlockAppendOwnedOperation(rest, op);
  }
  return rest;
}

static void leave_after(nabla_function_walk *w, MlirOperation call) {
  static const int32_t segments[] = {1, 0, 0}, weights[] = {1, 1048575};
  nabla_lowering *l = w->l;
  MlirOperation none = {NULL};
  MlirBlock block = mlirOperationGetBlock(call);
  MlirLocation location = mlirOperationGetLocation(call);
  MlirBlock rest = cut_after(w, call);
  MlirValue failed = nabla_services_call(l, block, none, "nabla.failed", 1,
                                         &w->services, l->boolean, location);
  MlirNamedAttribute attributes[] = {
      nabla_named(l->context, "operandSegmentSizes",
                  nabla_attribute_integers(l->context, 3, segments)),
      nabla_named(l->context, "branch_weights",
                  nabla_attribute_integers(l->context, 2, weights))};
  MlirBlock successors[] = {fail_block(w), rest};
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("llvm.cond_br"), location);
  mlirOperationStateAddOperands(&state, 1, &failed);
  mlirOperationStateAddAttributes(&state, 2, attributes);
  mlirOperationStateAddSuccessors(&state, 2, successors);
  nabla_op_build(block, none, &state);
}

static void move_first(MlirBlock block, MlirOperation op) {
  MlirOperation first = mlirBlockGetFirstOperation(block);
  if (!mlirOperationEqual(op, first)) mlirOperationMoveBefore(op, first);
}

/* Moves stack allocations of constant size to the beginning of the entry block,
 * since after a branch they would count as dynamic. The constant of the size is
 * moved before each of them, and so ends before all that use it. */
static void hoist_stack(MlirBlock entry) {
  MlirOperation op = mlirBlockGetFirstOperation(entry), next, size;
  for (; !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    if (!nabla_is(op, "llvm.alloca") ||
        !nabla_value_defined_by(mlirOperationGetOperand(op, 0),
                                "llvm.mlir.constant", &size))
      continue;
    move_first(entry, op);
    move_first(entry, size);
  }
}

/* Splits a block at its calls that may fail, the last call first, so that each
 * operation moves once. */
static void cut_block(nabla_function_walk *w, MlirBlock block) {
  MlirOperation op = mlirBlockGetFirstOperation(block), *marked = NULL;
  size_t count = 0, room = 0;
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!nabla_op_has(op, NABLA_MAY_FAIL_MARK)) continue;
    if (count == room) {
      room = room ? 2 * room : 16;
      MlirOperation *more = realloc(marked, room * sizeof *more);
      if (!more) {
        w->l->failed = 1;
        break;
      }
      marked = more;
    }
    mlirOperationRemoveDiscardableAttributeByName(
        op, nabla_ref(NABLA_MAY_FAIL_MARK));
    marked[count++] = op;
  }
  while (count && !w->l->failed) leave_after(w, marked[--count]);
  free(marked);
}

static void check_function(nabla_lowering *l, MlirOperation function) {
  if (!nabla_op_has(function, NABLA_MAY_FAIL_MARK)) return;
  MlirBlock block =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  nabla_function_walk w = {.l = l, .function = function};
  w.services = mlirBlockGetArgument(block, 0);
  hoist_stack(block);
  while (!mlirBlockIsNull(block)) {
    MlirBlock next = mlirBlockGetNextInRegion(block);
    cut_block(&w, block);
    block = next;
  }
  mlirOperationRemoveDiscardableAttributeByName(function,
                                                nabla_ref(NABLA_MAY_FAIL_MARK));
}

void nabla_services_check_failures(nabla_lowering *l) {
  do {
    l->changed = 0;
    nabla_services_each_function(l, mark_failing);
  } while (l->changed && !l->failed);
  nabla_services_each_function(l, check_function);
}
