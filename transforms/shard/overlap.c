/* See overlap.h. */
#include "transforms/shard/overlap.h"

#include <mlir-c/BuiltinAttributes.h>
#include <string.h>

#include "dialect/ops.h"
#include "dialect/verify/checks.h"
#include "transforms/cost/cost_count.h"
#include "transforms/shard/varying.h"

/* Exchanges of less take a few microseconds: handing them to a thread and back
 * would take longer. Sizes that are not known count as UNKNOWN. */
#define LEAST_BYTES 16384
#define UNKNOWN     1024

/* Work that is worth it, in scalar operations and bytes moved, of which a core
 * does 5 to 30 in a nanosecond. */
#define LEAST_WORK 1000000

static bool is_same_block(MlirOperation op, MlirBlock block) {
  return mlirBlockEqual(mlirOperationGetBlock(op), block);
}

/* The operation of `block` in which `op` lies; null if it lies elsewhere. */
static MlirOperation in_block(MlirOperation op, MlirBlock block) {
  while (!mlirOperationIsNull(op) && !is_same_block(op, block))
    op = mlirOperationGetParentOperation(op);
  return op;
}

/* Calls of the runtime, which exchange. */
static bool is_exchange(MlirOperation op) {
  const MlirStringRef target = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(op, nabla_ref("target")));
  return target.length > 6 && !memcmp(target.data, "nabla.", 6);
}

/* Regions and calls count as work: layers are functions. */
static uint64_t work_of(MlirOperation op) {
  nabla_cost cost = {0};
  if (mlirOperationGetNumRegions(op) || nabla_is(op, "func.call"))
    return LEAST_WORK;
  if (nabla_is(op, "nabla.custom_call"))
    return is_exchange(op) ? 0 : LEAST_WORK;
  if (nabla_is_collective(op) || !nabla_op_find(op) ||
      !nabla_cost_of(op, UNKNOWN, &cost))
    return 0;
  return nabla_cost_add(cost.operations,
                        nabla_cost_add(cost.read, cost.written));
}

/* The first operation of the block that uses the result; the terminator, where
 * the block does not use it. */
static MlirOperation first_use(MlirOperation op) {
  const MlirBlock block = mlirOperationGetBlock(op);
  MlirOperation first = mlirBlockGetTerminator(block);
  for (MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(op, 0));
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    const MlirOperation at = in_block(mlirOpOperandGetOwner(use), block);
    if (!mlirOperationIsNull(at) && mlirOperationIsBeforeInBlock(at, first))
      first = at;
  }
  return first;
}

/* The first operation of the block of `op` behind all of its operands. */
static MlirOperation first_place(MlirOperation op) {
  const MlirBlock block = mlirOperationGetBlock(op);
  MlirOperation first = mlirBlockGetFirstOperation(block);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const MlirValue operand = mlirOperationGetOperand(op, i);
    if (mlirValueIsABlockArgument(operand)) continue;
    const MlirOperation from = mlirOpResultGetOwner(operand);
    if (is_same_block(from, block) &&
        !mlirOperationIsBeforeInBlock(from, first))
      first = mlirOperationGetNextInBlock(from);
  }
  return first;
}

/* The operation that makes the operand, if it may be moved: gradients of
 * weights are computed before those of inputs then. Null if not. */
static MlirOperation producer_of(MlirOperation op) {
  const MlirValue operand = mlirOperationGetOperand(op, 0);
  const MlirOperation none = {NULL};
  if (mlirValueIsABlockArgument(operand)) return none;
  const MlirOperation from = mlirOpResultGetOwner(operand);
  return is_same_block(from, mlirOperationGetBlock(op)) &&
                 nabla_op_find(from) && !nabla_is_collective(from) &&
                 !nabla_is(from, "nabla.custom_call") &&
                 mlirOperationGetNumRegions(from) == 0
             ? from
             : none;
}

bool nabla_overlap_find(MlirOperation op, MlirOperation *out_wait) {
  if (!nabla_is(op, "nabla.all_reduce") &&
      !nabla_is(op, "nabla.reduce_scatter") &&
      !nabla_is(op, "nabla.all_gather"))
    return false;
  if (nabla_cost_array_bytes(nabla_operand_type(op, 0), UNKNOWN) < LEAST_BYTES)
    return false;
  const MlirOperation producer = producer_of(op);
  const bool moves = !mlirOperationIsNull(producer);
  MlirOperation first = first_place(moves ? producer : op);
  const MlirOperation last = first_use(op);
  uint64_t work = 0;
  for (MlirOperation at = first;
       work < LEAST_WORK && !mlirOperationEqual(at, last);
       at = mlirOperationGetNextInBlock(at))
    if (!mlirOperationEqual(at, op) && !mlirOperationEqual(at, producer))
      work = nabla_cost_add(work, work_of(at));
  if (work < LEAST_WORK) return false;
  if (moves && !mlirOperationEqual(first, producer))
    mlirOperationMoveBefore(producer, first);
  if (moves) first = mlirOperationGetNextInBlock(producer);
  if (!mlirOperationEqual(first, op)) mlirOperationMoveBefore(op, first);
  *out_wait = last;
  return true;
}
