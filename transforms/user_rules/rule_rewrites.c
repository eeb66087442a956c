/* Checks what the rewrite of a rule may build. MLIR compiles more constructs
 * than it can run, and ends the process at one that it cannot run. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/Dialect/PDL.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "transforms/ir/ir.h"
#include "transforms/user_rules/user_rules.h"

static bool is_in_rewrite(MlirOperation op) {
  while (!mlirOperationIsNull(op) && !nabla_is(op, "pdl.rewrite"))
    op = mlirOperationGetParentOperation(op);
  return !mlirOperationIsNull(op);
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

static bool is_ours(MlirOperation op) {
  MlirAttribute name = mlirOperationGetAttributeByName(op, nabla_ref("opName"));
  if (mlirAttributeIsNull(name)) return false;
  MlirStringRef text = mlirStringAttrGetValue(name);
  return text.length > 6 && !memcmp(text.data, "nabla.", 6);
}

/* Checks that the result types of an operation can be inferred, which only
 * works for operations of the dialect; for others MLIR goes on with an
 * operation that does not exist. */
static bool check_operation(MlirOperation op) {
  if (!is_in_rewrite(op)) return true;
  if (type_count(op) < 0) {
    nabla_error_at(op, "has a list of result types: give each on its own");
    return false;
  }
  if (type_count(op) > 0 || is_ours(op)) return true;
  nabla_error_at(op,
                 "is of another dialect: give the types of its results, "
                 "-> (%%t : !pdl.type)");
  return false;
}

static bool check_result(MlirOperation op) {
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
