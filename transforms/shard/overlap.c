/* See overlap.h. */
#include "transforms/shard/overlap.h"

#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>
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

/* Work that hides an exchange, for each byte of it: about 2 bytes arrive in a
 * nanosecond (`nabla-bench collectives` of threads, docs/BENCHMARKS.md). */
#define WORK_OF_BYTE 16

/* Waits that an all_gather is started before, at most: where products are
 * short, the links are the bound, and more arrays would wait in memory. */
#define MOST_OVERTAKEN 2

static bool is_same_block(MlirOperation op, MlirBlock block) {
  return mlirBlockEqual(mlirOperationGetBlock(op), block);
}

/* The operation of `block` in which `op` lies; null if it lies elsewhere. */
static MlirOperation in_block(MlirOperation op, MlirBlock block) {
  while (!mlirOperationIsNull(op) && !is_same_block(op, block))
    op = mlirOperationGetParentOperation(op);
  return op;
}

static MlirStringRef target_of(MlirOperation call) {
  return mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(call, nabla_ref("target")));
}

/* Calls of the runtime, which exchange. */
static bool is_exchange(MlirOperation op) {
  const MlirStringRef target = target_of(op);
  return target.length > 6 && !memcmp(target.data, "nabla.", 6);
}

static bool is_wait(MlirOperation op) {
  return nabla_is(op, "nabla.custom_call") &&
         mlirStringRefEqual(target_of(op), nabla_ref("nabla.wait"));
}

/* Whether an exchange begins here. */
static bool begins(MlirOperation op) {
  return nabla_is(op, "nabla.custom_call") ? is_exchange(op) && !is_wait(op)
                                           : nabla_is_collective(op);
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

/* A stretch of a block, and two operations in it that do not count as work. */
typedef struct stretch {
  MlirOperation first, last; /* `last` is behind its end */
  MlirOperation op, producer;
} stretch;

static uint64_t work_at(const stretch *s, MlirOperation at) {
  return mlirOperationEqual(at, s->op) || mlirOperationEqual(at, s->producer)
             ? 0
             : work_of(at);
}

/* Whether enough is computed there. */
static bool hides(const stretch *s) {
  uint64_t work = 0;
  for (MlirOperation at = s->first;
       work < LEAST_WORK && !mlirOperationEqual(at, s->last);
       at = mlirOperationGetNextInBlock(at))
    work = nabla_cost_add(work, work_at(s, at));
  return work >= LEAST_WORK;
}

/* Finds the last operation before which a gather can start and still be hidden:
 * its result takes memory from there on. Gathers keep their order. False: too
 * little is computed behind the start. */
static bool last_place(const stretch *s, MlirOperation *out) {
  const uint64_t bytes =
      nabla_cost_array_bytes(nabla_result_type(s->op, 0), UNKNOWN);
  const uint64_t needed =
      nabla_cost_add(LEAST_WORK, nabla_cost_times(bytes, WORK_OF_BYTE));
  size_t count = 0, i = 0;
  for (MlirOperation at = s->first; !mlirOperationEqual(at, s->last);
       at = mlirOperationGetNextInBlock(at))
    count++;
  /* MLIR's C interface has no predecessor of an operation. */
  MlirOperation *all = calloc(count + 1, sizeof *all);
  if (!all) return false;
  for (MlirOperation at = s->first; i < count;
       at = mlirOperationGetNextInBlock(at))
    all[i++] = at;
  uint64_t work = 0;
  for (int overtaken = 0; i > 0 && work < needed;) {
    MlirOperation at = all[--i];
    if (begins(at) && mlirOperationIsBeforeInBlock(at, s->op)) break;
    overtaken += is_wait(at);
    if (overtaken > MOST_OVERTAKEN) break;
    *out = at;
    work = nabla_cost_add(work, work_at(s, at));
  }
  free(all);
  return work >= LEAST_WORK;
}

bool nabla_overlap_find(MlirOperation op, MlirOperation *out_wait) {
  if (!nabla_is(op, "nabla.all_reduce") &&
      !nabla_is(op, "nabla.reduce_scatter") &&
      !nabla_is(op, "nabla.all_gather"))
    return false;
  if (nabla_cost_array_bytes(nabla_operand_type(op, 0), UNKNOWN) < LEAST_BYTES)
    return false;
  const MlirOperation producer = producer_of(op);
  bool moves = !mlirOperationIsNull(producer);
  const stretch s = {.first = first_place(moves ? producer : op),
                     .last = first_use(op),
                     .op = op,
                     .producer = producer};
  const MlirOperation last = s.last;
  MlirOperation first = s.first;
  if (!hides(&s)) return false;
  if (nabla_is(op, "nabla.all_gather")) {
    if (!last_place(&s, &first)) return false;
    moves = moves && !mlirOperationIsBeforeInBlock(producer, first);
  }
  if (moves && !mlirOperationEqual(first, producer))
    mlirOperationMoveBefore(producer, first);
  if (moves) first = mlirOperationGetNextInBlock(producer);
  if (!mlirOperationEqual(first, op)) mlirOperationMoveBefore(op, first);
  *out_wait = last;
  return true;
}
