/* nabla-lower-implicit: splits implicit values into their components at
 * functions, calls and regions. Inside, nabla.pack combines the components
 * again, so that operations keep their meaning until they are lowered. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/encoding/encoding.h"
#include "dialect/ops.h"
#include "transforms/control/carried_buffers.h"
#include "transforms/ir/components.h"
#include "transforms/ir/ir.h"
#include "transforms/passes.h"

/* Operations that pass values across a boundary. All their operands, results
 * and block arguments are plain lists. */
static const char *const carriers[] = {
    "func.call",     "func.return",      "scf.for",
    "scf.if",        "scf.yield",        "scf.while",
    "scf.condition", "scf.index_switch", "nabla.barrier",
};

static bool is_carrier(MlirOperation op) {
  for (size_t i = 0; i < sizeof carriers / sizeof *carriers; i++)
    if (nabla_is(op, carriers[i])) return true;
  return false;
}

static bool is_function(MlirOperation op) { return nabla_is(op, "func.func"); }

/* A growable list of values or types. */
typedef struct list {
  void **items;
  intptr_t count, capacity;
  bool failed;
} list;

static void push(list *l, const void *item) {
  if (l->count == l->capacity) {
    intptr_t capacity = l->capacity ? 2 * l->capacity : 16;
    void **items = realloc(l->items, (size_t)capacity * sizeof *items);
    if (!items) {
      l->failed = true;
      return;
    }
    l->items = items;
    l->capacity = capacity;
  }
  memcpy(&l->items[l->count++], &item, sizeof item);
}

/* Adds the types of the components of `type`; as buffers if a loop carries
 * them. */
static void push_types(list *l, MlirType type, bool buffers) {
  MlirType leaves[NABLA_MAX_LEAVES];
  if (!nablaTypeIsAImplicit(type)) {
    push(l, type.ptr);
    return;
  }
  uint32_t count = nabla_implicit_leaves(type, leaves);
  for (uint32_t i = 0; i < count; i++)
    push(l, (buffers ? nabla_carried_type(leaves[i]) : leaves[i]).ptr);
}

/* Makes a nabla.pack of `type` before `before`. `given` are tensors, or buffers
 * that a loop carries. */
static MlirValue pack(MlirOperation before, MlirType type,
                      const MlirValue *given) {
  MlirType types[NABLA_MAX_LEAVES];
  MlirValue leaves[NABLA_MAX_LEAVES];
  uint32_t count = nabla_implicit_leaves(type, types);
  for (uint32_t i = 0; i < count; i++)
    leaves[i] = mlirTypeIsAMemRef(mlirValueGetType(given[i]))
                    ? nabla_carried_component(given[i], types[i], before)
                    : given[i];
  return nabla_leaves_pack(before, type, leaves);
}

static bool has_implicit(MlirBlock block) {
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
    if (nablaTypeIsAImplicit(mlirValueGetType(mlirBlockGetArgument(block, i))))
      return true;
  return false;
}

/* Makes a block that replaces `old`: it has the operations of `old`, and
 * components in place of implicit arguments. */
static MlirBlock block_of_components(MlirBlock old, bool buffers) {
  MlirBlock made = mlirBlockCreate(0, NULL, NULL);
  mlirRegionInsertOwnedBlockBefore(mlirBlockGetParentRegion(old), old, made);
  MlirOperation op = mlirBlockGetFirstOperation(old), next;
  const MlirLocation location = mlirOperationGetLocation(op);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(old); i++) {
    MlirType leaves[NABLA_MAX_LEAVES];
    const MlirType type = mlirValueGetType(mlirBlockGetArgument(old, i));
    if (!nablaTypeIsAImplicit(type)) {
      mlirBlockAddArgument(made, type, location);
      continue;
    }
    const uint32_t count = nabla_implicit_leaves(type, leaves);
    for (uint32_t p = 0; p < count; p++)
      mlirBlockAddArgument(
          made, buffers ? nabla_carried_type(leaves[p]) : leaves[p], location);
  }
  for (; !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    mlirOperationRemoveFromParent(op);
    mlirBlockAppendOwnedOperation(made, op);
  }
  return made;
}

/* Splits the implicit arguments of a block; returns true if there were any.
 * This makes a new block: to insert and erase arguments one by one would take
 * time quadratic in their number, because each step numbers them again. */
static bool split_arguments(MlirBlock old, bool buffers) {
  if (!has_implicit(old)) return false;
  MlirBlock made = block_of_components(old, buffers);
  const MlirOperation first = mlirBlockGetFirstOperation(made);
  intptr_t at = mlirBlockGetNumArguments(made);
  for (intptr_t i = mlirBlockGetNumArguments(old); i-- > 0;) {
    const MlirValue whole = mlirBlockGetArgument(old, i);
    const MlirType type = mlirValueGetType(whole);
    MlirType leaves[NABLA_MAX_LEAVES];
    MlirValue values[NABLA_MAX_LEAVES];
    const bool implicit = nablaTypeIsAImplicit(type);
    const uint32_t count = implicit ? nabla_implicit_leaves(type, leaves) : 1;
    at -= (intptr_t)count;
    for (uint32_t p = 0; p < count; p++)
      values[p] = mlirBlockGetArgument(made, at + (intptr_t)p);
    mlirValueReplaceAllUsesOfWith(
        whole, implicit ? pack(first, type, values) : values[0]);
  }
  mlirBlockDetach(old);
  mlirBlockDestroy(old);
  return true;
}

static MlirAttribute attribute(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nabla_ref(name));
}

/* Repeats the attributes of each implicit argument (or result) for all its
 * components. */
static void split_attributes(MlirOperation function, const char *key,
                             intptr_t count, MlirType type,
                             MlirType (*get)(MlirType, intptr_t)) {
  MlirAttribute old = attribute(function, key);
  if (mlirAttributeIsNull(old)) return;
  list all = {0};
  for (intptr_t i = 0; i < count; i++) {
    list parts = {0};
    push_types(&parts, get(type, i), false);
    for (intptr_t p = 0; p < parts.count; p++)
      push(&all, mlirArrayAttrGetElement(old, i).ptr);
    free(parts.items);
  }
  MlirAttribute *attributes = (MlirAttribute *)(void *)all.items;
  mlirOperationSetAttributeByName(
      function, nabla_ref(key),
      mlirArrayAttrGet(nabla_op_context(function), all.count, attributes));
  free(all.items);
}

/* Gives the components that a private function takes a layout with an offset:
 * they may be slices of larger arrays, since callers do not copy slices.
 * Components of a public function begin where their memory begins. */
static bool allow_offsets(MlirOperation function, MlirType type) {
  MlirAttribute seen = attribute(function, "sym_visibility");
  if (mlirAttributeIsNull(seen) ||
      !mlirStringRefEqual(mlirStringAttrGetValue(seen), nabla_ref("private")))
    return true;
  const MlirType split =
      mlirTypeAttrGetValue(attribute(function, "function_type"));
  MlirAttribute *layouts =
      calloc((size_t)mlirFunctionTypeGetNumInputs(split) + 1, sizeof *layouts);
  if (!layouts) return false;
  intptr_t at = 0;
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumInputs(type); i++) {
    MlirType input = mlirFunctionTypeGetInput(type, i);
    MlirType leaves[NABLA_MAX_LEAVES];
    intptr_t count = 1;
    bool implicit = nablaTypeIsAImplicit(input);
    if (implicit) count = (intptr_t)nabla_implicit_leaves(input, leaves);
    for (intptr_t p = 0; implicit && p < count; p++)
      layouts[at + p] = nabla_carried_layout(leaves[p]);
    at += count;
  }
  nabla_arguments_set(function, "bufferization.buffer_layout", layouts);
  free(layouts);
  return true;
}

static bool split_function(MlirOperation function) {
  MlirType type = mlirTypeAttrGetValue(attribute(function, "function_type"));
  intptr_t inputs = mlirFunctionTypeGetNumInputs(type);
  intptr_t results = mlirFunctionTypeGetNumResults(type);
  list in = {0}, out = {0};
  for (intptr_t i = 0; i < inputs; i++)
    push_types(&in, mlirFunctionTypeGetInput(type, i), false);
  for (intptr_t i = 0; i < results; i++)
    push_types(&out, mlirFunctionTypeGetResult(type, i), false);
  bool failed = in.failed || out.failed;
  if (!failed) {
    split_attributes(function, "arg_attrs", inputs, type,
                     mlirFunctionTypeGetInput);
    split_attributes(function, "res_attrs", results, type,
                     mlirFunctionTypeGetResult);
    MlirType split = mlirFunctionTypeGet(
        nabla_op_context(function), in.count, (MlirType *)(void *)in.items,
        out.count, (MlirType *)(void *)out.items);
    mlirOperationSetAttributeByName(function, nabla_ref("function_type"),
                                    mlirTypeAttrGet(split));
  }
  free(in.items);
  free(out.items);
  MlirBlock entry =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  if (failed || mlirBlockIsNull(entry)) return !failed;
  if (!split_arguments(entry, false)) return true;
  entry = mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  nabla_arguments_protect(function, 0, mlirBlockGetNumArguments(entry));
  return allow_offsets(function, type);
}

static bool carries_implicit(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nablaTypeIsAImplicit(nabla_operand_type(op, i))) return true;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (nablaTypeIsAImplicit(nabla_result_type(op, i))) return true;
  return false;
}

/* Packs the results again, before the operation that follows `made`. */
static void pack_results(MlirOperation op, MlirOperation made) {
  intptr_t at = 0;
  /* `op` itself if it is the last: the body of a module has no terminator */
  MlirOperation next = mlirOperationGetNextInBlock(op);
  if (mlirOperationIsNull(next)) next = op;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    MlirValue whole = mlirOperationGetResult(op, i);
    MlirType type = mlirValueGetType(whole);
    MlirValue values[NABLA_MAX_LEAVES];
    MlirType leaves[NABLA_MAX_LEAVES];
    intptr_t count = nablaTypeIsAImplicit(type)
                         ? (intptr_t)nabla_implicit_leaves(type, leaves)
                         : 1;
    for (intptr_t p = 0; p < count; p++)
      values[p] = mlirOperationGetResult(made, at++);
    mlirValueReplaceAllUsesOfWith(whole, nablaTypeIsAImplicit(type)
                                             ? pack(next, type, values)
                                             : values[0]);
  }
}

static void push_operands(list *to, MlirOperation op) {
  bool buffers = nabla_carries_buffers(op);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i), parts[NABLA_MAX_LEAVES];
    if (!nablaTypeIsAImplicit(mlirValueGetType(value))) {
      push(to, value.ptr);
      continue;
    }
    intptr_t count = nabla_leaves_split(value, op, parts);
    for (intptr_t p = 0; p < count; p++)
      push(to, (buffers ? nabla_carried_buffer(parts[p], op) : parts[p]).ptr);
  }
}

/* Makes a copy of `op` with these operands and result types, and moves its
 * regions to the copy; null on failure. */
static MlirOperation remake(MlirOperation op, const list *operands,
                            const list *results) {
  MlirOperationState state =
      mlirOperationStateGet(nabla_name(op), mlirOperationGetLocation(op));
  mlirOperationStateAddOperands(&state, operands->count,
                                (MlirValue *)(void *)operands->items);
  mlirOperationStateAddResults(&state, results->count,
                               (MlirType *)(void *)results->items);
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute named = mlirOperationGetAttribute(op, i);
    mlirOperationStateAddAttributes(&state, 1, &named);
  }
  for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
    MlirRegion region = mlirRegionCreate();
    mlirRegionTakeBody(region, mlirOperationGetRegion(op, i));
    mlirOperationStateAddOwnedRegions(&state, 1, &region);
  }
  MlirOperation made = mlirOperationCreate(&state);
  if (!mlirOperationIsNull(made))
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(op), op, made);
  return made;
}

/* Splits the block arguments of the regions of `op`. */
static void split_regions(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
    MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
    if (!mlirBlockIsNull(block))
      split_arguments(block, nabla_carries_buffers(op));
  }
}

/* Replaces `op` by one whose implicit operands and results are split into
 * components. */
static bool split_carrier(MlirOperation op) {
  list operands = {0}, results = {0};
  MlirOperation made = {NULL};
  push_operands(&operands, op);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    push_types(&results, nabla_result_type(op, i), nabla_carries_buffers(op));
  if (!operands.failed && !results.failed)
    made = remake(op, &operands, &results);
  free(operands.items);
  free(results.items);
  if (mlirOperationIsNull(made)) return false;
  if (mlirOperationGetNumResults(op)) pack_results(op, made);
  nabla_op_erase(op);
  return true;
}

static bool is_split_carrier(MlirOperation op) {
  return is_carrier(op) && carries_implicit(op);
}

static bool has_implicit_arguments(MlirOperation op) {
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
    for (MlirBlock block =
             mlirRegionGetFirstBlock(mlirOperationGetRegion(op, r));
         !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
      if (has_implicit(block)) return true;
  return false;
}

/* Any other operation that carries an implicit value and is not of this
 * dialect. */
static bool is_stranger(MlirOperation op) {
  MlirStringRef name = nabla_name(op);
  bool ours = name.length > 6 && !memcmp(name.data, "nabla.", 6);
  return !ours && (carries_implicit(op) || has_implicit_arguments(op));
}

/* An operation that nabla-lower-control replaces by a carrier. */
static bool is_early(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  return row && row->implicit == NABLA_IMPLICIT_flows && !is_carrier(op) &&
         carries_implicit(op);
}

static bool check_control(MlirOperation op) {
  nabla_op_list early = nabla_ops_collect(op, is_early);
  bool good = !early.failed && early.count == 0;
  for (size_t i = 0; i < early.count; i++)
    nabla_error_at(early.ops[i],
                   "carries an implicit value: run --nabla-lower-control "
                   "first");
  nabla_op_list_deinit(&early);
  return good;
}

/* ---- selections, which upstream passes make from scf.if ---- */

static bool is_selection(MlirOperation op) {
  return nabla_is(op, "arith.select") && carries_implicit(op);
}

static MlirRegion yield_region(MlirOperation op, MlirValue value) {
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("scf.yield"), mlirOperationGetLocation(op));
  mlirOperationStateAddOperands(&state, 1, &value);
  MlirBlock block = mlirBlockCreate(0, NULL, NULL);
  mlirBlockAppendOwnedOperation(block, mlirOperationCreate(&state));
  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, block);
  return region;
}

/* Turns a selection back into an scf.if, which is then split like any other. */
static bool unselect(MlirOperation op, void *self) {
  (void)self;
  MlirValue condition = mlirOperationGetOperand(op, 0);
  MlirType type = nabla_result_type(op, 0);
  MlirRegion regions[2] = {yield_region(op, mlirOperationGetOperand(op, 1)),
                           yield_region(op, mlirOperationGetOperand(op, 2))};
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("scf.if"), mlirOperationGetLocation(op));
  mlirOperationStateAddOperands(&state, 1, &condition);
  mlirOperationStateAddResults(&state, 1, &type);
  mlirOperationStateAddOwnedRegions(&state, 2, regions);
  MlirOperation made = mlirOperationCreate(&state);
  if (mlirOperationIsNull(made)) return false;
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(op), op, made);
  MlirValue result = mlirOperationGetResult(made, 0);
  nabla_op_replace(op, &result);
  return true;
}

static bool is_branch(MlirOperation op) {
  return mlirOperationGetNumSuccessors(op) > 0;
}

/* Reports an operation that cannot pass implicit values, and how to replace it.
 */
static void refuse(MlirOperation op) {
  if (is_branch(op))
    nabla_error_at(op,
                   "gives an implicit value to a block: make regions of "
                   "branches (nabla-opt --lift-cf-to-scf), or materialize "
                   "the value before (nabla.materialize)");
  else
    nabla_error_at(op,
                   "carries an implicit value, which is split at functions, "
                   "calls and scf regions only: materialize it before "
                   "(nabla.materialize)");
}

/* Reports each of `strangers`. A function whose blocks have implicit arguments
 * is not reported if a branch to them was. */
static void refuse_all(const nabla_op_list *strangers) {
  bool branches = false;
  for (size_t i = 0; i < strangers->count; i++)
    branches = branches || is_branch(strangers->ops[i]);
  for (size_t i = 0; i < strangers->count; i++)
    if (!branches || !is_function(strangers->ops[i])) refuse(strangers->ops[i]);
}

MlirLogicalResult nabla_run_lower_implicit(MlirOperation op,
                                           const nablaPassValue *values,
                                           void *prepared) {
  (void)values, (void)prepared;
  if (!check_control(op)) return mlirLogicalResultFailure();
  bool good = mlirLogicalResultIsSuccess(
      nabla_ops_each(op, is_selection, unselect, NULL));
  nabla_op_list functions = nabla_ops_collect(op, is_function);
  for (size_t i = 0; good && i < functions.count; i++)
    good = split_function(functions.ops[i]);
  nabla_op_list_deinit(&functions);
  nabla_op_list carried = nabla_ops_collect(op, is_split_carrier);
  /* arguments first, so that yielded values find their components */
  for (size_t i = 0; good && i < carried.count; i++)
    split_regions(carried.ops[i]);
  for (size_t i = 0; good && i < carried.count; i++)
    good = split_carrier(carried.ops[i]);
  nabla_op_list_deinit(&carried);
  if (!good) return nabla_error_at(op, "could not be split: out of memory");
  nabla_op_list strangers = nabla_ops_collect(op, is_stranger);
  refuse_all(&strangers);
  good = strangers.count == 0;
  nabla_op_list_deinit(&strangers);
  nabla_components_clean(op);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
