/* nabla-lower-control: replaces operations with regions by those of scf and
 * keeps their bodies; nabla-lower-implicit then splits the implicit values that
 * they carry. A program whose functions call themselves is refused here. */
#include <assert.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "dialect/verify/checks.h"
#include "transforms/control/lower_scan.h"
#include "transforms/ir/build.h"
#include "transforms/ir/build_control.h"
#include "transforms/ir/call_graph.h"
#include "transforms/passes.h"

/* Replaces the terminator of a block by `name`, with these operands. */
static void end_with(MlirOperation end, const char *name, intptr_t count,
                     const MlirValue *operands) {
  nabla_op_spec spec = {name, count, operands, 0, NULL, 0, NULL};
  nabla_op_create(end, &spec);
  nabla_op_erase(end);
}

static MlirValue convert(MlirOperation before, const char *name,
                         MlirValue value, MlirType type) {
  nabla_op_spec spec = {name, 1, &value, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* Returns a selector or predicate as a scalar. */
static MlirValue scalar(MlirOperation before, MlirValue value) {
  MlirType type = mlirValueGetType(value);
  if (!mlirTypeIsARankedTensor(type)) return value;
  return convert(before, "tensor.extract", value,
                 mlirShapedTypeGetElementType(type));
}

/* Replaces the terminator of `region` by `name` of scf, with the same operands.
 */
static bool end_region(MlirOperation op, intptr_t region, const char *name) {
  MlirOperation end = nabla_block_end(nabla_region_block(op, region));
  intptr_t count = mlirOperationGetNumOperands(end);
  MlirValue *values = calloc((size_t)count + 1, sizeof *values);
  if (!values) return false;
  for (intptr_t i = 0; i < count; i++)
    values[i] = mlirOperationGetOperand(end, i);
  if (nabla_is(end, "nabla.condition")) values[0] = scalar(end, values[0]);
  end_with(end, name, count, values);
  free(values);
  return true;
}

/* Replaces `op` by `name`, with its result types and its regions, region number
 * `first` first. */
static void replace(MlirOperation op, const char *name, intptr_t count,
                    const MlirValue *operands, intptr_t first,
                    const MlirNamedAttribute *attribute) {
  intptr_t results = mlirOperationGetNumResults(op);
  intptr_t regions = mlirOperationGetNumRegions(op);
  assert(results >= 0);
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref(name), mlirOperationGetLocation(op));
  mlirOperationStateAddOperands(&state, count, operands);
  if (attribute) mlirOperationStateAddAttributes(&state, 1, attribute);
  for (intptr_t i = 0; i < results; i++) {
    MlirType type = nabla_result_type(op, i);
    mlirOperationStateAddResults(&state, 1, &type);
  }
  for (intptr_t i = results; nabla_is(op, "nabla.while") && i < count; i++) {
    MlirType type = mlirValueGetType(operands[i]);
    mlirOperationStateAddResults(&state, 1, &type);
  }
  for (intptr_t i = 0; i < regions; i++) {
    MlirRegion region = mlirRegionCreate();
    mlirRegionTakeBody(region,
                       mlirOperationGetRegion(op, (first + i) % regions));
    mlirOperationStateAddOwnedRegions(&state, 1, &region);
  }
  MlirOperation made = mlirOperationCreate(&state);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(op), op, made);
  for (intptr_t i = 0; i < results; i++)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i),
                                  mlirOperationGetResult(made, i));
  nabla_op_erase(op);
}

/* Replaces a cond with an i1 by scf.if, any other by scf.index_switch, whose
 * default is the last region. */
static bool lower_cond(MlirOperation op) {
  intptr_t regions = mlirOperationGetNumRegions(op);
  for (intptr_t r = 0; r < regions; r++)
    if (!end_region(op, r, "scf.yield")) return false;
  MlirValue selector = scalar(op, mlirOperationGetOperand(op, 0));
  MlirType type = mlirValueGetType(selector);
  if (mlirTypeIsAInteger(type) && mlirIntegerTypeGetWidth(type) == 1) {
    replace(op, "scf.if", 1, &selector, 0, NULL);
    return true;
  }
  MlirContext context = nabla_op_context(op);
  if (mlirTypeIsAInteger(type))
    selector =
        convert(op, "arith.index_cast", selector, mlirIndexTypeGet(context));
  int64_t *numbers = calloc((size_t)regions, sizeof *numbers);
  if (!numbers) return false;
  for (intptr_t i = 0; i < regions; i++) numbers[i] = i;
  MlirNamedAttribute cases = nabla_named(
      context, "cases", mlirDenseI64ArrayGet(context, regions - 1, numbers));
  free(numbers);
  replace(op, "scf.index_switch", 1, &selector, regions - 1, &cases);
  return true;
}

static MlirValue truth(MlirOperation before, const char *name, MlirValue a,
                       MlirValue b, intptr_t attributes,
                       const MlirNamedAttribute *attribute) {
  MlirValue operands[2] = {a, b};
  MlirType type = mlirIntegerTypeGet(nabla_op_context(before), 1);
  nabla_op_spec spec = {name, 2, operands, 1, &type, attributes, attribute};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* Replaces a terminator by one with another operand behind its own. */
static void hand_on(MlirOperation end, const char *name, MlirValue value) {
  MlirValue operands[NABLA_MAX_OPERANDS + 2];
  const intptr_t count = mlirOperationGetNumOperands(end);
  for (intptr_t i = 0; i < count; i++)
    operands[i] = mlirOperationGetOperand(end, i);
  operands[count] = value;
  end_with(end, name, count + 1, operands);
}

/* Carries the number of the step behind the other carries: where it is `most`,
 * the loop ends. Returns its initial value. */
static MlirValue count_steps(MlirOperation op, int64_t most) {
  const int64_t less = 2; /* slt of arith.cmpi */
  const nabla_builder b = {op};
  const MlirContext context = nabla_op_context(op);
  const MlirType type = mlirIndexTypeGet(context);
  MlirValue limit = nabla_build_index(&b, most), step[2];
  MlirValue one = nabla_build_index(&b, 1);
  for (intptr_t r = 0; r < 2; r++)
    step[r] = mlirBlockAddArgument(nabla_region_block(op, r), type,
                                   mlirOperationGetLocation(op));
  MlirOperation test = nabla_block_end(nabla_region_block(op, 0));
  MlirOperation body = nabla_block_end(nabla_region_block(op, 1));
  const MlirNamedAttribute predicate =
      nabla_named(context, "predicate",
                  mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), less));
  MlirValue more = truth(test, "arith.cmpi", step[0], limit, 1, &predicate);
  mlirOperationSetOperand(
      test, 0,
      truth(test, "arith.andi", mlirOperationGetOperand(test, 0), more, 0,
            NULL));
  hand_on(test, "scf.condition", step[0]);
  const nabla_builder inside = {body};
  hand_on(body, "scf.yield", nabla_build_arith(&inside, "addi", step[1], one));
  return nabla_build_index(&b, 0);
}

static bool lower_while(MlirOperation op) {
  if (!end_region(op, 0, "scf.condition") || !end_region(op, 1, "scf.yield"))
    return false;
  intptr_t count = mlirOperationGetNumOperands(op);
  const int64_t most = nabla_op_integer(op, "max_steps", -1);
  MlirValue *values = calloc((size_t)count + 1, sizeof *values);
  if (!values) return false;
  for (intptr_t i = 0; i < count; i++)
    values[i] = mlirOperationGetOperand(op, i);
  if (most >= 0) values[count++] = count_steps(op, most);
  replace(op, "scf.while", count, values, 0, NULL);
  free(values);
  return true;
}

static const struct {
  const char *name;
  bool (*lower)(MlirOperation op);
} rows[] = {
    {"nabla.cond", lower_cond},
    {"nabla.while", lower_while},
    {"nabla.scan", nabla_lower_scan},
    {"nabla.remat", nabla_remat_open},
};
#define ROWS (sizeof rows / sizeof *rows)

static bool is_control(MlirOperation op) {
  for (size_t i = 0; i < ROWS; i++)
    if (nabla_is(op, rows[i].name)) return true;
  return false;
}

static bool lower(MlirOperation op, void *unused) {
  (void)unused;
  for (size_t i = 0; i < ROWS; i++)
    if (nabla_is(op, rows[i].name)) return rows[i].lower(op);
  return false;
}

MlirLogicalResult nabla_run_lower_control(MlirOperation op,
                                          const nablaPassValue *values,
                                          void *prepared) {
  (void)values, (void)prepared;
  if (!nabla_call_graph_check(op)) return mlirLogicalResultFailure();
  return nabla_ops_each(op, is_control, lower, NULL);
}
