/* Calls of the service `hold` (nabla/services.h), which say which operation an
 * array is of, where it begins to have memory: a part of a planned block, a
 * result, or an allocation of its own. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "transforms/abi/part_ops.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/profile/profile_texts.h"

/* The first place of a file in a location: "step.mlir:12:8", or "line 12" of a
 * program without a file. */
static bool find_place(MlirLocation location, char *out, size_t room) {
  if (mlirLocationIsAName(location))
    return find_place(mlirLocationNameGetChildLoc(location), out, room);
  if (mlirLocationIsACallSite(location))
    return find_place(mlirLocationCallSiteGetCallee(location), out, room);
  if (mlirLocationIsAFused(location)) {
    MlirLocation all[64];
    const unsigned count = mlirLocationFusedGetNumLocations(location);
    if (count > 64) return false;
    mlirLocationFusedGetLocations(location, all);
    for (unsigned i = 0; i < count; i++)
      if (find_place(all[i], out, room)) return true;
    return false;
  }
  if (!mlirLocationIsAFileLineColRange(location)) return false;
  const MlirStringRef file =
      mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(location));
  const int line = mlirLocationFileLineColRangeGetStartLine(location);
  if (nabla_text_is(file, "-"))
    (void)snprintf(out, room, "line %d", line);
  else
    (void)snprintf(out, room, "%.*s:%d:%d", (int)file.length, file.data, line,
                   mlirLocationFileLineColRangeGetStartColumn(location));
  return true;
}

/* "nabla.add at step.mlir:12:8", or the function that the compiler made. */
static void describe(MlirOperation op, MlirOperation function,
                     char out[NABLA_PROFILE_TEXT]) {
  char names[NABLA_PROFILE_NAMES] = "", place[128] = "";
  nabla_profile_add_names(names, mlirOperationGetLocation(op));
  if (*names && find_place(mlirOperationGetLocation(op), place, sizeof place)) {
    (void)snprintf(out, NABLA_PROFILE_TEXT, "%s at %s", names, place);
    return;
  }
  const MlirStringRef symbol = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("sym_name")));
  (void)snprintf(out, NABLA_PROFILE_TEXT, "%s%swork space of @%.*s", names,
                 *names ? ", " : "", (int)symbol.length, symbol.data);
}

/* Says before `before` that the `bytes` at `address` hold the array of `op`. */
static void hold(MlirOperation before, MlirOperation op, MlirOperation function,
                 MlirValue address, MlirValue bytes, nabla_profile_texts *p) {
  char what[NABLA_PROFILE_TEXT];
  describe(op, function, what);
  const size_t number = nabla_profile_text(p, what);
  if (p->failed) return;
  const MlirContext context = nabla_op_context(before);
  const MlirValue operands[] = {address, bytes,
                                nabla_profile_address(before, number)};
  const MlirNamedAttribute callee =
      nabla_named(context, "callee",
                  mlirFlatSymbolRefAttrGet(context, nabla_ref("nabla_hold")));
  (void)nabla_op_create(before, &(nabla_op_spec){.name = "func.call",
                                                 .operand_count = 3,
                                                 .operands = operands,
                                                 .attribute_count = 1,
                                                 .attributes = &callee});
}

/* The operand of a call of a service that gives memory that is its size, or -1.
 */
static intptr_t size_operand(MlirOperation op) {
  if (!nabla_is(op, "func.call")) return -1;
  const MlirStringRef callee = mlirFlatSymbolRefAttrGetValue(
      mlirOperationGetAttributeByName(op, nabla_ref("callee")));
  return nabla_text_is(callee, "nabla_part_begin") ? 2
         : nabla_text_is(callee, "nabla_result")   ? 1
                                                   : -1;
}

/* An array that plan and results have left to the arena. */
static bool is_allocation(MlirOperation op) {
  return nabla_is(op, "memref.alloc") && !nabla_op_has(op, NABLA_PART_MANUAL) &&
         nabla_part_is_plain(nabla_result_type(op, 0));
}

static void visit(MlirOperation op, MlirOperation function,
                  nabla_profile_texts *p) {
  const MlirOperation next = mlirOperationGetNextInBlock(op);
  const intptr_t size = size_operand(op);
  if (size >= 0) {
    hold(next, op, function, mlirOperationGetResult(op, 0),
         mlirOperationGetOperand(op, size), p);
  } else if (is_allocation(op)) {
    const MlirValue address =
        nabla_part_address(next, mlirOperationGetResult(op, 0));
    hold(next, op, function, address, nabla_part_bytes(next, op), p);
  }
}

static void visit_block(MlirBlock block, MlirOperation function,
                        nabla_profile_texts *p) {
  MlirOperation op = mlirBlockGetFirstOperation(block), next;
  for (; !mlirOperationIsNull(op) && !p->failed; op = next) {
    next = mlirOperationGetNextInBlock(op);
    visit(op, function, p);
    for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
      MlirBlock in = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
      for (; !mlirBlockIsNull(in); in = mlirBlockGetNextInRegion(in))
        visit_block(in, function, p);
    }
  }
}

void nabla_profile_memory(MlirOperation module, nabla_profile_texts *p) {
  MlirOperation op = mlirBlockGetFirstOperation(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0)));
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!nabla_is(op, "func.func")) continue;
    MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0));
    for (; !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
      visit_block(block, op, p);
  }
}
