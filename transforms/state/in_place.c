/* Finds the values that are in the memory of a state when bufferization writes
 * in place, and inserts stores into this memory for those that are not. The
 * result of a loop over a state is stored inside the loop: upstream refuses a
 * store of the loop's result to its initial value. */
#include "transforms/state/in_place.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#define DEPTH_MAX 64 /* of loops, branches and calls */

static MlirBlock block_of(MlirOperation op, intptr_t region) {
  MlirRegion at = mlirOperationGetRegion(op, region);
  return mlirRegionIsNull(at) ? (MlirBlock){NULL} : mlirRegionGetFirstBlock(at);
}

static bool is_of(MlirOperation op, const char *dialect) {
  MlirStringRef name = nabla_name(op);
  return name.length > strlen(dialect) &&
         !memcmp(name.data, dialect, strlen(dialect));
}

/* Finds the called function, if it has a body that ends in a return. */
static bool find_callee(const nabla_in_place *p, MlirOperation call,
                        MlirBlock *out_body, MlirOperation *out_end) {
  MlirOperation callee = mlirSymbolTableLookup(
      p->symbols, mlirFlatSymbolRefAttrGetValue(mlirOperationGetAttributeByName(
                      call, nabla_ref("callee"))));
  if (mlirOperationIsNull(callee) || !nabla_is(callee, "func.func"))
    return false;
  *out_body = block_of(callee, 0);
  if (mlirBlockIsNull(*out_body)) return false;
  *out_end = mlirBlockGetTerminator(*out_body);
  return !mlirOperationIsNull(*out_end) && nabla_is(*out_end, "func.return");
}

static bool is_in(const nabla_in_place *p, MlirValue value, MlirValue to,
                  int depth);

/* The operand of a call in whose memory result `index` is, or -1. */
static intptr_t passed_on(const nabla_in_place *p, MlirOperation call,
                          intptr_t index, int depth) {
  MlirBlock body;
  MlirOperation end;
  if (!find_callee(p, call, &body, &end)) return -1;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
    if (mlirTypeEqual(mlirValueGetType(mlirBlockGetArgument(body, i)),
                      nabla_result_type(call, index)) &&
        is_in(p, mlirOperationGetOperand(end, index),
              mlirBlockGetArgument(body, i), depth + 1))
      return i;
  return -1;
}

/* The carry of a while that its condition passes on as result `index`, or -1.
 */
static intptr_t carry_of(MlirOperation loop, intptr_t index) {
  MlirBlock block = block_of(loop, 0);
  MlirValue value =
      mlirOperationGetOperand(mlirBlockGetTerminator(block), 1 + index);
  return mlirValueIsABlockArgument(value) &&
                 mlirBlockEqual(mlirBlockArgumentGetOwner(value), block)
             ? mlirBlockArgumentGetArgNumber(value)
             : -1;
}

/* The operand in whose memory the result of an operation without regions, or of
 * a loop, is; -1 if there is none. */
static intptr_t operand_of(const nabla_in_place *p, MlirOperation op,
                           intptr_t result, int depth) {
  if (nabla_is(op, "tensor.insert_slice") || nabla_is(op, "tensor.insert") ||
      nabla_is(op, "bufferization.materialize_in_destination"))
    return 1;
  if (nabla_is(op, "tensor.cast")) return 0;
  if (is_of(op, "linalg."))
    return mlirOperationGetNumOperands(op) - mlirOperationGetNumResults(op) +
           result;
  if (nabla_is(op, "scf.for")) return 3 + result;
  if (nabla_is(op, "scf.while")) return carry_of(op, result);
  if (nabla_is(op, "func.call")) return passed_on(p, op, result, depth);
  return -1;
}

/* Whether a branch of an scf.if may yield a value in the memory of `to`. */
static bool is_in_branch(const nabla_in_place *p, MlirOperation op,
                         intptr_t result, MlirValue to, int depth) {
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
    MlirBlock block = block_of(op, r);
    if (!mlirBlockIsNull(block) &&
        is_in(p, mlirOperationGetOperand(mlirBlockGetTerminator(block), result),
              to, depth + 1))
      return true;
  }
  return false;
}

/* Whether `value` may be in the memory of `to`. */
static bool is_in(const nabla_in_place *p, MlirValue value, MlirValue to,
                  int depth) {
  while (depth < DEPTH_MAX && !mlirValueEqual(value, to)) {
    MlirOperation op = nabla_defining_op(value);
    if (mlirOperationIsNull(op)) return false;
    const intptr_t result = mlirOpResultGetResultNumber(value);
    if (nabla_is(op, "scf.if")) return is_in_branch(p, op, result, to, depth);
    const intptr_t operand = operand_of(p, op, result, depth);
    if (operand < 0) return false;
    value = mlirOperationGetOperand(op, operand);
  }
  return depth < DEPTH_MAX;
}

/* Stores operand `index` of `end` in the memory of `to`, unless it is there. */
static void settle(const nabla_in_place *p, MlirOperation end, intptr_t index,
                   MlirValue to, int depth);

/* Settles the results of loops, branches and calls between `value` and `to`. */
static void settle_inside(const nabla_in_place *p, MlirValue value,
                          MlirValue to, int depth) {
  while (depth < DEPTH_MAX && !mlirValueEqual(value, to)) {
    MlirOperation op = nabla_defining_op(value), end;
    const intptr_t result = mlirOpResultGetResultNumber(value);
    MlirBlock body;
    if (nabla_is(op, "scf.if")) {
      for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
        settle(p, mlirBlockGetTerminator(block_of(op, r)), result, to,
               depth + 1);
      return;
    }
    const intptr_t operand = operand_of(p, op, result, depth);
    if (nabla_is(op, "scf.for")) {
      body = block_of(op, 0);
      settle(p, mlirBlockGetTerminator(body), result,
             mlirBlockGetArgument(body, 1 + result), depth + 1);
    } else if (nabla_is(op, "scf.while")) {
      body = block_of(op, 1);
      settle(p, mlirBlockGetTerminator(body), operand,
             mlirBlockGetArgument(body, result), depth + 1);
    } else if (nabla_is(op, "func.call") && find_callee(p, op, &body, &end)) {
      settle(p, end, result, mlirBlockGetArgument(body, operand), depth + 1);
    }
    value = mlirOperationGetOperand(op, operand);
  }
}

static void settle(const nabla_in_place *p, MlirOperation end, intptr_t index,
                   MlirValue to, int depth) {
  MlirValue value = mlirOperationGetOperand(end, index);
  if (depth >= DEPTH_MAX) return;
  if (is_in(p, value, to, depth)) {
    settle_inside(p, value, to, depth);
    return;
  }
  MlirValue operands[] = {value, to};
  MlirType type = mlirValueGetType(to);
  nabla_op_spec spec = {"bufferization.materialize_in_destination",
                        2,
                        operands,
                        1,
                        &type,
                        0,
                        NULL};
  mlirOperationSetOperand(
      end, index, mlirOperationGetResult(nabla_op_create(end, &spec), 0));
}

void nabla_in_place_settle(const nabla_in_place *p, MlirOperation end,
                           intptr_t index, MlirValue to) {
  settle(p, end, index, to, 0);
}

bool nabla_in_place_is(const nabla_in_place *p, MlirValue value, MlirValue to) {
  return is_in(p, value, to, 0);
}

MlirOperation nabla_in_place_writer(const nabla_in_place *p, MlirValue value,
                                    MlirValue to) {
  MlirOperation writer = {NULL};
  while (!mlirValueEqual(value, to)) {
    MlirOperation op = nabla_defining_op(value);
    if (mlirOperationIsNull(op)) return writer;
    writer = op;
    if (nabla_is(op, "scf.if")) return writer;
    const intptr_t operand =
        operand_of(p, op, mlirOpResultGetResultNumber(value), 0);
    if (operand < 0) return writer;
    value = mlirOperationGetOperand(op, operand);
  }
  return writer;
}
