/* See ties.h. */
#include "transforms/shard/ties.h"

#include <mlir-c/BuiltinAttributes.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/verify/checks.h"

static MlirBlock block_of(MlirOperation op, intptr_t region) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, region));
}

bool nabla_ties_has(MlirOperation op) {
  return nabla_is(op, "nabla.cond") || nabla_is(op, "nabla.while") ||
         nabla_is(op, "nabla.scan") || nabla_is(op, "nabla.remat") ||
         nabla_is(op, "nabla.barrier");
}

bool nabla_ties_ends(MlirOperation op) {
  return nabla_is(op, "nabla.yield") || nabla_is(op, "nabla.condition");
}

typedef struct visiting {
  void (*visit)(void *self, nabla_tie tie);
  void *self;
} visiting;

static void visit_tie(const visiting *v, nabla_tie tie) {
  if (nabla_layout_takes(mlirValueGetType(tie.leader)) &&
      nabla_layout_takes(mlirValueGetType(tie.other)))
    v->visit(v->self, tie);
}

static void tie(const visiting *v, MlirValue leader, MlirValue other,
                int slices) {
  visit_tie(v, (nabla_tie){leader, other, slices, false});
}

static void tie_argument(const visiting *v, MlirOperation op, intptr_t region,
                         intptr_t index) {
  visit_tie(v, (nabla_tie){mlirOperationGetResult(op, index),
                           mlirBlockGetArgument(block_of(op, region), index), 0,
                           true});
}

static MlirValue ended(MlirOperation op, intptr_t region, intptr_t index) {
  return mlirOperationGetOperand(mlirBlockGetTerminator(block_of(op, region)),
                                 index);
}

static void ties_of_while(const visiting *v, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    MlirValue result = mlirOperationGetResult(op, i);
    tie(v, result, mlirOperationGetOperand(op, i), 0);
    tie_argument(v, op, 0, i);
    tie_argument(v, op, 1, i);
    tie(v, result, ended(op, 0, i + 1), 0);
    tie(v, result, ended(op, 1, i), 0);
  }
}

/* Whether sizes but the first are known: `sizes` of a scan are of the whole. */
static bool is_known(MlirValue value) {
  MlirType type = mlirValueGetType(value);
  for (intptr_t i = 1; i < nabla_array_rank(type); i++)
    if (nabla_is_dynamic(nabla_array_dim(type, i))) return false;
  return true;
}

static void ties_of_scan(const visiting *v, MlirOperation op) {
  const nabla_scan_parts scan = nabla_scan_read(op);
  MlirBlock body = block_of(op, 0);
  for (intptr_t i = 0; i < scan.carries; i++) {
    MlirValue result = mlirOperationGetResult(op, i);
    tie(v, result, mlirOperationGetOperand(op, i), 0);
    tie_argument(v, op, 0, i);
    tie(v, result, ended(op, 0, i), 0);
  }
  for (intptr_t i = scan.carries; i < scan.carries + scan.inputs; i++)
    tie(v, mlirBlockGetArgument(body, i), mlirOperationGetOperand(op, i), 1);
  for (intptr_t i = scan.carries; i < scan.carries + scan.outputs; i++)
    if (is_known(mlirOperationGetResult(op, i)))
      tie(v, mlirOperationGetResult(op, i), ended(op, 0, i), -1);
}

void nabla_ties_of(MlirOperation op, void (*visit)(void *self, nabla_tie tie),
                   void *self) {
  const visiting v = {visit, self};
  if (nabla_is(op, "nabla.while")) ties_of_while(&v, op);
  if (nabla_is(op, "nabla.scan")) ties_of_scan(&v, op);
  if (nabla_is(op, "nabla.barrier"))
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
      tie(&v, mlirOperationGetResult(op, i), mlirOperationGetOperand(op, i), 0);
  if (!nabla_is(op, "nabla.cond") && !nabla_is(op, "nabla.remat")) return;
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
      tie(&v, mlirOperationGetResult(op, i), ended(op, r, i), 0);
}

/* `layout` with a dimension less or more in front. */
static nabla_division moved(const nabla_division *layout, int by) {
  nabla_division out;
  memset(&out, 0, sizeof out);
  out.rank = layout->rank + by;
  for (intptr_t i = by < 0; i < layout->rank; i++)
    if (i + by >= 0 && i + by < NABLA_MAX_RANK)
      out.dims[i + by] = layout->dims[i];
  return out;
}

nabla_division nabla_tie_follow(nabla_tie tie, const nabla_division *leader) {
  return moved(leader, tie.slices);
}

nabla_division nabla_tie_lead(nabla_tie tie, const nabla_division *other) {
  return moved(other, -tie.slices);
}

/* ---- functions ---- */

MlirBlock nabla_function_body(MlirOperation function) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
}

MlirOperation nabla_called(MlirOperation call) {
  const MlirOperation none = {NULL};
  MlirOperation module = call;
  if (!nabla_is(call, "func.call")) return none;
  while (!mlirOperationIsNull(module) && !nabla_is(module, "builtin.module"))
    module = mlirOperationGetParentOperation(module);
  MlirAttribute callee =
      mlirOperationGetAttributeByName(call, nabla_ref("callee"));
  if (mlirOperationIsNull(module) || mlirAttributeIsNull(callee)) return none;
  MlirStringRef name = mlirFlatSymbolRefAttrGetValue(callee);
  MlirOperation op = mlirBlockGetFirstOperation(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0)));
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!nabla_is(op, "func.func")) continue;
    MlirStringRef own = mlirStringAttrGetValue(
        mlirOperationGetAttributeByName(op, nabla_ref("sym_name")));
    if (own.length == name.length && !memcmp(own.data, name.data, own.length))
      return mlirBlockIsNull(nabla_function_body(op)) ? none : op;
  }
  return none;
}
