/* nabla-lower-switch: replaces scf.index_switch with few cases by nested
 * scf.if; the regions of one with more cases yield copies of their tensors.
 * Upstream's bufferization does not know that a result of scf.index_switch
 * aliases the values that its regions yield: another value may be written into
 * its buffer while it is read. The time of bufferization grows with the fourth
 * power of the depth of scf.if. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "transforms/ir/ir.h"
#include "transforms/passes.h"

#define NESTED_CASES 16 /* with more, compiling takes longer than copies */

/* A switch and its cases; region 0 is the default. */
typedef struct cases {
  MlirOperation op;
  MlirAttribute numbers;
  intptr_t count, results;
  MlirType *types;
} cases;

static bool is_switch(MlirOperation op) {
  return nabla_is(op, "scf.index_switch") && mlirOperationGetNumResults(op) > 0;
}

/* Replaces a switch without cases by the operations of region 0. */
static void inline_default(const cases *c, MlirValue *values) {
  MlirBlock block = nabla_region_block(c->op, 0);
  MlirOperation end = nabla_block_end(block);
  for (MlirOperation next = mlirBlockGetFirstOperation(block);
       !mlirOperationEqual(next, end); next = mlirBlockGetFirstOperation(block))
    mlirOperationMoveBefore(next, c->op);
  for (intptr_t i = 0; i < c->results; i++)
    values[i] = mlirOperationGetOperand(end, i);
}

static MlirValue is_case(const cases *c, intptr_t number) {
  MlirContext context = nabla_op_context(c->op);
  MlirType index = mlirIndexTypeGet(context);
  int64_t wanted = mlirDenseI64ArrayGetElement(c->numbers, number);
  MlirNamedAttribute value =
      nabla_named(context, "value", mlirIntegerAttrGet(index, wanted));
  nabla_op_spec constant = {"arith.constant", 0, NULL, 1, &index, 1, &value};
  MlirValue both[] = {
      mlirOperationGetOperand(c->op, 0),
      mlirOperationGetResult(nabla_op_create(c->op, &constant), 0)};
  MlirType truth = mlirIntegerTypeGet(context, 1);
  MlirNamedAttribute equal = nabla_named(
      context, "predicate",
      mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), 0 /* eq */));
  nabla_op_spec compare = {"arith.cmpi", 2, both, 1, &truth, 1, &equal};
  return mlirOperationGetResult(nabla_op_create(c->op, &compare), 0);
}

/* Makes a region that contains `op` and yields its results. */
static MlirRegion region_around(const cases *c, MlirOperation op) {
  MlirRegion region = mlirRegionCreate();
  MlirBlock block = mlirBlockCreate(0, NULL, NULL);
  mlirRegionAppendOwnedBlock(region, block);
  mlirBlockAppendOwnedOperation(block, op);
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("scf.yield"), mlirOperationGetLocation(op));
  for (intptr_t i = 0; i < c->results; i++) {
    MlirValue value = mlirOperationGetResult(op, i);
    mlirOperationStateAddOperands(&state, 1, &value);
  }
  mlirBlockAppendOwnedOperation(block, mlirOperationCreate(&state));
  return region;
}

/* Makes the scf.if of a case; `others` is its second region. */
static MlirOperation choose(const cases *c, intptr_t number,
                            MlirRegion others) {
  MlirValue condition = is_case(c, number);
  MlirRegion regions[] = {mlirRegionCreate(), others};
  mlirRegionTakeBody(regions[0], mlirOperationGetRegion(c->op, number + 1));
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("scf.if"), mlirOperationGetLocation(c->op));
  mlirOperationStateAddOperands(&state, 1, &condition);
  mlirOperationStateAddResults(&state, c->results, c->types);
  mlirOperationStateAddOwnedRegions(&state, 2, regions);
  return mlirOperationCreate(&state);
}

/* Nests one scf.if per case, with the last case innermost; all conditions are
 * computed before. */
static void nest(const cases *c, MlirValue *values) {
  MlirRegion others = mlirRegionCreate();
  mlirRegionTakeBody(others, mlirOperationGetRegion(c->op, 0));
  MlirOperation outer = {NULL};
  for (intptr_t i = c->count; i-- > 0;) {
    outer = choose(c, i, others);
    if (i > 0) others = region_around(c, outer);
  }
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(c->op), c->op,
                                      outer);
  for (intptr_t i = 0; i < c->results; i++)
    values[i] = mlirOperationGetResult(outer, i);
}

/* Replaces each tensor that `end` yields by a copy. */
static void copy_yields(MlirOperation end) {
  const int32_t sizes[3] = {0, 1, 0};
  MlirNamedAttribute segments =
      nabla_named(nabla_op_context(end), "operandSegmentSizes",
                  mlirDenseI32ArrayGet(nabla_op_context(end), 3, sizes));
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
    MlirValue value = mlirOperationGetOperand(end, i);
    MlirType type = mlirValueGetType(value);
    if (!mlirTypeIsARankedTensor(type)) continue;
    nabla_op_spec copy = {
        "bufferization.alloc_tensor", 1, &value, 1, &type, 1, &segments};
    mlirOperationSetOperand(
        end, i, mlirOperationGetResult(nabla_op_create(end, &copy), 0));
  }
}

static bool lower(MlirOperation op, void *unused) {
  (void)unused;
  if (mlirOperationGetNumRegions(op) > NESTED_CASES + 1) {
    for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++)
      copy_yields(nabla_block_end(nabla_region_block(op, i)));
    return true;
  }
  MlirAttribute numbers =
      mlirOperationGetAttributeByName(op, nabla_ref("cases"));
  intptr_t results = mlirOperationGetNumResults(op);
  cases c = {op, numbers, mlirDenseArrayGetNumElements(numbers), results,
             calloc((size_t)results, sizeof *c.types)};
  MlirValue *values = calloc((size_t)results, sizeof *values);
  bool good = c.types && values;
  for (intptr_t i = 0; good && i < results; i++)
    c.types[i] = nabla_result_type(op, i);
  if (good && c.count) nest(&c, values);
  if (good && !c.count) inline_default(&c, values);
  if (good)
    nabla_op_replace(op, values);
  else
    nabla_error_at(op, "needs more memory than there is");
  free(c.types);
  free(values);
  return good;
}

MlirLogicalResult nabla_run_lower_switch(MlirOperation op,
                                         const nablaPassValue *values,
                                         void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(op, is_switch, lower, NULL);
}
