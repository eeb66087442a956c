/* Canonical forms of operations with regions, for --canonicalize and
 * nabla-simplify: a cond with a constant condition becomes its branch, carried
 * values that never change are replaced by their initial values, and unused
 * results are removed. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "dialect/verify/checks.h"

static bool is(MlirOperation op, const char *name) {
  return nabla_text_equals(mlirIdentifierStr(mlirOperationGetName(op)), name);
}

static bool is_used(MlirValue value) {
  return !mlirOpOperandIsNull(mlirValueGetFirstUse(value));
}

intptr_t nablaCondChoice(MlirAttribute selector, intptr_t count) {
  if (mlirAttributeIsNull(selector)) return -1;
  if (mlirAttributeIsADenseElements(selector) &&
      mlirDenseElementsAttrIsSplat(selector))
    selector = mlirDenseElementsAttrGetSplatValue(selector);
  if (mlirAttributeIsABool(selector))
    return mlirBoolAttrGetValue(selector) ? 0 : 1;
  if (!mlirAttributeIsAInteger(selector)) return -1;
  int64_t value = mlirIntegerAttrGetValueInt(selector);
  return value < 0 || value >= count ? count - 1 : (intptr_t)value;
}

/* Returns the attribute of a constant, null for any other value. */
static MlirAttribute constant_of(MlirValue value) {
  MlirAttribute none = {NULL};
  if (!mlirValueIsAOpResult(value)) return none;
  MlirOperation op = mlirOpResultGetOwner(value);
  if (!is(op, "arith.constant") && !is(op, "nabla.constant")) return none;
  return mlirOperationGetAttributeByName(
      op, mlirStringRefCreateFromCString("value"));
}

/* In unreachable code an operation may use its own results. */
static bool is_result_of(MlirOperation op, MlirValue value) {
  return mlirValueIsAOpResult(value) &&
         mlirOperationEqual(mlirOpResultGetOwner(value), op);
}

static bool inline_branch(MlirOperation op, MlirRewriterBase rewriter) {
  intptr_t regions = mlirOperationGetNumRegions(op);
  intptr_t choice =
      nablaCondChoice(constant_of(mlirOperationGetOperand(op, 0)), regions);
  if (choice < 0) return false;
  MlirBlock block = nabla_region_block(op, choice);
  MlirOperation end = nabla_block_end(block);
  intptr_t count = mlirOperationGetNumOperands(end);
  MlirValue *values = calloc((size_t)count + 1, sizeof *values);
  if (!values) return false;
  bool good = true;
  for (intptr_t i = 0; i < count; i++) {
    values[i] = mlirOperationGetOperand(end, i);
    good = good && !is_result_of(op, values[i]);
  }
  if (good) {
    mlirRewriterBaseInlineBlockBefore(rewriter, block, op, 0, NULL);
    mlirRewriterBaseReplaceOpWithValues(rewriter, op, count, values);
    mlirRewriterBaseEraseOp(rewriter, end);
  }
  free(values);
  return good;
}

static bool is_inside(MlirOperation op, MlirValue value) {
  MlirOperation at =
      mlirValueIsAOpResult(value)
          ? mlirOpResultGetOwner(value)
          : mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(value));
  if (mlirOperationEqual(at, op)) return mlirValueIsABlockArgument(value);
  while (!mlirOperationIsNull(at)) {
    if (mlirOperationEqual(at, op)) return true;
    at = mlirOperationGetParentOperation(at);
  }
  return false;
}

/* Finds the value from outside of `op` that all branches yield as result
 * `index`. */
static bool same_everywhere(MlirOperation op, intptr_t index, MlirValue *out) {
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
    MlirValue value = mlirOperationGetOperand(
        nabla_block_end(nabla_region_block(op, r)), index);
    if (r > 0 ? !mlirValueEqual(value, *out) : is_inside(op, value))
      return false;
    *out = value;
  }
  return true;
}

static bool share_results(MlirOperation op, MlirRewriterBase rewriter) {
  bool changed = false;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    MlirValue value, result = mlirOperationGetResult(op, i);
    if (!is_used(result) || !same_everywhere(op, i, &value) ||
        is_result_of(op, value))
      continue;
    mlirRewriterBaseReplaceAllUsesWith(rewriter, result, value);
    changed = true;
  }
  return changed;
}

/* ---- loops ---- */

/* Returns the index of carried value `index` among the operands of the
 * terminator of `region`. */
static intptr_t handed_on(MlirOperation op, intptr_t region, intptr_t index) {
  return index + (is(op, "nabla.while") && region == 0 ? 1 : 0);
}

/* Returns whether every region yields carried value `index` unchanged. */
static bool never_changes(MlirOperation op, intptr_t index) {
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
    MlirBlock block = nabla_region_block(op, r);
    MlirValue next = mlirOperationGetOperand(nabla_block_end(block),
                                             handed_on(op, r, index));
    if (!mlirValueEqual(next, mlirBlockGetArgument(block, index)) &&
        !mlirValueEqual(next, mlirOperationGetOperand(op, index)))
      return false;
  }
  return true;
}

/* Replaces carried values that never change by their initial values. */
static bool capture_carries(MlirOperation op, intptr_t carries,
                            MlirRewriterBase rewriter) {
  bool changed = false;
  for (intptr_t i = 0; i < carries; i++) {
    if (!never_changes(op, i)) continue;
    MlirValue initial = mlirOperationGetOperand(op, i);
    MlirValue result = mlirOperationGetResult(op, i);
    if (is_result_of(op, initial)) continue;
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
      MlirValue inner = mlirBlockGetArgument(nabla_region_block(op, r), i);
      if (!is_used(inner)) continue;
      mlirRewriterBaseReplaceAllUsesWith(rewriter, inner, initial);
      changed = true;
    }
    if (!is_used(result)) continue;
    mlirRewriterBaseReplaceAllUsesWith(rewriter, result, initial);
    changed = true;
  }
  return changed;
}

/* ---- unused results ---- */

/* Returns whether result `index` is unused; a carried value must be unused in
 * the regions too. */
static bool is_idle(MlirOperation op, intptr_t index, intptr_t carries) {
  if (is_used(mlirOperationGetResult(op, index))) return false;
  for (intptr_t r = 0; index < carries && r < mlirOperationGetNumRegions(op);
       r++)
    if (is_used(mlirBlockGetArgument(nabla_region_block(op, r), index)))
      return false;
  return true;
}

/* Removes one operand. `values` has space for all operands of `op`. */
static void drop_operand(MlirOperation op, intptr_t index, MlirValue *values) {
  intptr_t count = mlirOperationGetNumOperands(op), kept = 0;
  for (intptr_t i = 0; i < count; i++)
    if (i != index) values[kept++] = mlirOperationGetOperand(op, i);
  mlirOperationSetOperands(op, kept, values);
}

/* A range of operands that serve one result only, and their operand group. */
typedef struct span {
  intptr_t from, to;
  int group;
} span;

/* Returns the operands of a result: the initial value of a carried value, the
 * sizes of an output of a scan. */
static span operands_of(MlirOperation op, intptr_t index, intptr_t carries) {
  span none = {0, 0, 0};
  if (index < carries) return (span){index, index + 1, 0};
  if (!is(op, "nabla.scan")) return none;
  nabla_scan_parts s = nabla_scan_read(op);
  MlirOperation end = nabla_block_end(nabla_region_block(op, 0));
  span sizes = {s.carries + s.inputs + s.lengths, 0, 3};
  for (intptr_t i = carries; i <= index; i++) {
    MlirType slice = mlirValueGetType(mlirOperationGetOperand(end, i));
    intptr_t unknown = 0;
    for (intptr_t d = 0; d < nabla_array_rank(slice); d++)
      unknown += nabla_is_dynamic(nabla_array_dim(slice, d));
    sizes.to = sizes.from + unknown;
    if (i < index) sizes.from = sizes.to;
  }
  return sizes;
}

/* A list with an element for each result, without that of result `index`. */
static MlirAttribute drop_element(MlirAttribute list, intptr_t index) {
  MlirAttribute kept[2 * NABLA_MAX_RESULTS];
  const intptr_t count = mlirArrayAttrGetNumElements(list);
  if (index >= count || count > 2 * NABLA_MAX_RESULTS) return list;
  for (intptr_t i = 0, at = 0; i < count; i++)
    if (i != index) kept[at++] = mlirArrayAttrGetElement(list, i);
  return mlirArrayAttrGet(mlirAttributeGetContext(list), count - 1, kept);
}

/* Adds the operands and attributes of `op` to `state`, except the operands
 * `without` and what belongs to result `index`. */
static void copy_operands(MlirOperationState *state, MlirOperation op,
                          intptr_t index, span without) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    if (i < without.from || i >= without.to)
      mlirOperationStateAddOperands(state, 1, &value);
  }
  MlirStringRef segments =
      mlirStringRefCreateFromCString("operandSegmentSizes");
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute named = mlirOperationGetAttribute(op, i);
    if (mlirStringRefEqual(mlirIdentifierStr(named.name), segments)) {
      nabla_scan_parts s = nabla_scan_read(op);
      int32_t sizes[4] = {(int32_t)s.carries, (int32_t)s.inputs,
                          (int32_t)s.lengths, (int32_t)s.sizes};
      sizes[without.group] -= (int32_t)(without.to - without.from);
      named.attribute =
          mlirDenseI32ArrayGet(mlirOperationGetContext(op), 4, sizes);
    } else if (nabla_text_equals(mlirIdentifierStr(named.name),
                                 "nabla.shardings") &&
               mlirAttributeIsAArray(named.attribute)) {
      named.attribute = drop_element(named.attribute, index);
    }
    mlirOperationStateAddAttributes(state, 1, &named);
  }
}

/* Replaces `op` by a copy without result `index` and without the operands that
 * only this result needs. */
static bool drop_result(MlirOperation op, intptr_t index, intptr_t carries,
                        MlirRewriterBase rewriter) {
  intptr_t results = mlirOperationGetNumResults(op);
  intptr_t regions = mlirOperationGetNumRegions(op);
  bool carried = index < carries;
  MlirValue *scratch = calloc((size_t)results + 2, sizeof *scratch);
  if (!scratch) return false; /* `op` stays unchanged */
  MlirOperationState state =
      mlirOperationStateGet(mlirIdentifierStr(mlirOperationGetName(op)),
                            mlirOperationGetLocation(op));
  copy_operands(&state, op, index, operands_of(op, index, carries));
  for (intptr_t i = 0; i < results; i++) {
    MlirType type = mlirValueGetType(mlirOperationGetResult(op, i));
    if (i != index) mlirOperationStateAddResults(&state, 1, &type);
  }
  for (intptr_t r = 0; r < regions; r++) {
    MlirBlock block = nabla_region_block(op, r);
    drop_operand(nabla_block_end(block), handed_on(op, r, index), scratch);
    if (carried) mlirBlockEraseArgument(block, (unsigned)index);
    MlirRegion region = mlirRegionCreate();
    mlirRegionTakeBody(region, mlirOperationGetRegion(op, r));
    mlirOperationStateAddOwnedRegions(&state, 1, &region);
  }
  MlirOperation made = mlirOperationCreate(&state);
  mlirRewriterBaseSetInsertionPointBefore(rewriter, op);
  mlirRewriterBaseInsert(rewriter, made);
  for (intptr_t i = 0, at = 0; i < results; i++)
    if (i != index)
      mlirRewriterBaseReplaceAllUsesWith(rewriter,
                                         mlirOperationGetResult(op, i),
                                         mlirOperationGetResult(made, at++));
  mlirRewriterBaseEraseOp(rewriter, op);
  free(scratch);
  return true;
}

bool nablaFoldControl(MlirOperation op, MlirRewriterBase rewriter) {
  intptr_t carries = 0;
  if (is(op, "nabla.remat")) return false;
  if (is(op, "nabla.cond")) {
    if (inline_branch(op, rewriter)) return true;
    if (share_results(op, rewriter)) return true;
  } else {
    carries = is(op, "nabla.while") ? mlirOperationGetNumOperands(op)
                                    : nabla_scan_read(op).carries;
    if (capture_carries(op, carries, rewriter)) return true;
  }
  /* an op without used results is erased as a whole, or has effects */
  intptr_t results = mlirOperationGetNumResults(op);
  for (intptr_t i = results; results > 1 && i-- > 0;) {
    if (!is_idle(op, i, carries)) continue;
    return drop_result(op, i, carries, rewriter);
  }
  return false;
}
