/* Checks what the rewrite of a rule may build. MLIR compiles more constructs
 * than it can run, and ends the process at one that it cannot run. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/Dialect/PDL.h>

#include "dialect/infer/infer.h"
#include "dialect/verify/checks.h"
#include "transforms/ir/ir.h"
#include "transforms/user_rules/user_rules.h"

/* The pdl.rewrite that contains `op`; null if none does. */
static MlirOperation rewrite_of(MlirOperation op) {
  while (!mlirOperationIsNull(op) && !nabla_is(op, "pdl.rewrite"))
    op = mlirOperationGetParentOperation(op);
  return op;
}

static bool is_in_rewrite(MlirOperation op) {
  return !mlirOperationIsNull(rewrite_of(op));
}

/* Whether `value` is the operation that the rewrite replaces. */
static bool is_replaced(MlirOperation rewrite, MlirValue value) {
  return !mlirOperationIsNull(rewrite) &&
         mlirOperationGetNumOperands(rewrite) > 0 &&
         mlirValueEqual(value, mlirOperationGetOperand(rewrite, 0));
}

/* Returns how many result types a pdl.operation lists; -1 if they are a list
 * value. */
static intptr_t type_count(MlirOperation op) {
  intptr_t count = nabla_op_segment(op, 2);
  intptr_t all = mlirOperationGetNumOperands(op);
  for (intptr_t i = all - count; i < all; i++)
    if (!mlirTypeIsAPDLTypeType(nabla_operand_type(op, i))) return -1;
  return count;
}

/* Whether the result types of an operation without listed ones are inferred. */
static bool is_inferred(MlirOperation op) {
  MlirAttribute name = mlirOperationGetAttributeByName(op, nabla_ref("opName"));
  return !mlirAttributeIsNull(name) &&
         nabla_infer_knows(mlirStringAttrGetValue(name));
}

/* Checks that the result types of an operation can be inferred, which only
 * works for operations of the dialect; for others MLIR goes on with an
 * operation that does not exist, or reads operands that do not. */
static bool check_operation(MlirOperation op) {
  if (!is_in_rewrite(op)) return true;
  if (type_count(op) < 0) {
    nabla_error_at(op, "has a list of result types: give each on its own");
    return false;
  }
  if (type_count(op) > 0 || is_inferred(op)) return true;
  nabla_error_at(op,
                 "does not infer the types of its results: give them, "
                 "-> (%%t : !pdl.type)");
  return false;
}

static bool check_result(MlirOperation op) {
  if (is_replaced(rewrite_of(op), mlirOperationGetOperand(op, 0))) {
    nabla_error_at(op, "takes a result of the operation that is replaced");
    return false;
  }
  MlirOperation from = nabla_defining_op(mlirOperationGetOperand(op, 0));
  MlirAttribute index = mlirOperationGetAttributeByName(op, nabla_ref("index"));
  if (mlirOperationIsNull(from) || !nabla_is(from, "pdl.operation") ||
      mlirAttributeIsNull(index))
    return true;
  intptr_t types = type_count(from);
  int64_t at = mlirIntegerAttrGetValueInt(index);
  if (types == 0 && is_in_rewrite(from)) types = 1; /* inferred */
  if (at >= 0 && at < types) return true;
  nabla_error_at(op, "takes result %lld of an operation for which %d %s given",
                 (long long)at, (int)(types < 0 ? 0 : types),
                 types == 1 ? "type is" : "types are");
  return false;
}

/* Checks that a rewrite replaces the operation that it names, once, when
 * everything is built: MLIR goes on with an operation that is gone. */
static bool check_replace(MlirOperation op) {
  MlirOperation rewrite = mlirOperationGetParentOperation(op);
  MlirValue old = mlirOperationGetOperand(op, 0);
  if (!nabla_is(rewrite, "pdl.rewrite") ||
      mlirOperationGetNumOperands(rewrite) == 0)
    return true; /* reported elsewhere */
  if (!is_replaced(rewrite, old)) {
    nabla_error_at(op,
                   "replaces another operation than pdl.rewrite names: the "
                   "others are removed when nothing uses their results");
    return false;
  }
  if (!mlirOperationIsNull(mlirOperationGetNextInBlock(op))) {
    nabla_error_at(op, "is not the last operation of the rewrite");
    return false;
  }
  if (mlirOperationGetNumOperands(op) > 1 &&
      mlirValueEqual(old, mlirOperationGetOperand(op, 1))) {
    nabla_error_at(op, "replaces an operation by itself");
    return false;
  }
  return true;
}

/* Returns the name of the pattern that contains `op`. */
static MlirStringRef rule_of(MlirOperation op) {
  while (!nabla_is(op, "pdl.pattern")) {
    op = mlirOperationGetParentOperation(op);
    if (mlirOperationIsNull(op)) return nabla_ref("");
  }
  MlirAttribute name =
      mlirOperationGetAttributeByName(op, nabla_ref("sym_name"));
  return mlirAttributeIsNull(name) ? nabla_ref("")
                                   : mlirStringAttrGetValue(name);
}

bool nabla_rule_op_check(MlirOperation op) {
  if (nabla_is(op, "pdl.operation")) return check_operation(op);
  if (nabla_is(op, "pdl.result")) return check_result(op);
  if (nabla_is(op, "pdl.replace")) return check_replace(op);
  if (nabla_is(op, "pdl.results") && is_in_rewrite(op)) {
    nabla_error_at(op, "takes all results: take each, pdl.result 0 of %%op");
    return false;
  }
  if (nabla_is(op, "pdl.erase")) {
    MlirStringRef id = rule_of(op);
    nabla_error_at(op,
                   "in rule '%.*s' erases what may have users: pdl.replace the "
                   "operation; those without users are removed anyway",
                   (int)(id.length < 100 ? id.length : 100), id.data);
    return false;
  }
  return nabla_rule_natives_check(op);
}
