/* Donated arguments, state.h: attributes, and the checks that need no order. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/state/state.h"

static intptr_t count_of(MlirOperation function) {
  return mlirFunctionTypeGetNumInputs(mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type"))));
}

bool nabla_donated_is(MlirOperation function, intptr_t index) {
  return !mlirAttributeIsNull(
      nabla_state_attribute(function, NABLA_ARGUMENTS, index, NABLA_DONATED));
}

bool nabla_donated_has(MlirOperation function) {
  for (intptr_t i = 0; i < count_of(function); i++)
    if (nabla_donated_is(function, i)) return true;
  return false;
}

/* ---- checks ---- */

static bool fail(MlirOperation function, intptr_t index, const char *what) {
  char fallback[32];
  MlirStringRef name = nabla_argument_name(function, index, fallback);
  nabla_error_at(function, "has the donated argument '%.*s', #%d, %s",
                 name.length < 100 ? (int)name.length : 100, name.data,
                 (int)index, what);
  return false;
}

static bool check_one(MlirOperation function, intptr_t index, bool is_private) {
  MlirAttribute given =
      nabla_state_attribute(function, NABLA_ARGUMENTS, index, NABLA_DONATED);
  if (mlirAttributeIsNull(given)) return true;
  MlirType type = mlirFunctionTypeGetInput(
      mlirTypeAttrGetValue(mlirOperationGetAttributeByName(
          function, nabla_ref("function_type"))),
      index);
  if (!mlirAttributeIsAUnit(given))
    return fail(function, index, "with a value: write {nabla.donated}");
  if (!mlirTypeIsARankedTensor(type))
    return fail(function, index,
                "which is no dense tensor: only the memory of dense arrays is "
                "given to results");
  if (nabla_state_name(function, NABLA_ARGUMENTS, index).data)
    return fail(function, index,
                "which is a state: states are written in place already");
  if (is_private)
    return fail(function, index,
                "and is private: only callers of public functions donate "
                "arrays");
  return true;
}

/* Results have no such attribute. */
static bool check_results(MlirOperation function) {
  const intptr_t count = mlirFunctionTypeGetNumResults(mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type"))));
  for (intptr_t i = 0; i < count; i++) {
    if (mlirAttributeIsNull(
            nabla_state_attribute(function, NABLA_RESULTS, i, NABLA_DONATED)))
      continue;
    nabla_error_at(function,
                   "has nabla.donated on result #%d: donate the argument whose "
                   "memory it may take",
                   (int)i);
    return false;
  }
  return true;
}

bool nabla_donated_check(MlirOperation module, MlirOperation function) {
  MlirAttribute seen =
      mlirOperationGetAttributeByName(function, nabla_ref("sym_visibility"));
  const bool is_private =
      !mlirAttributeIsNull(seen) &&
      nabla_state_same(mlirStringAttrGetValue(seen), nabla_ref("private"));
  if (!check_results(function)) return false;
  for (intptr_t i = 0; i < count_of(function); i++)
    if (!check_one(function, i, is_private)) return false;
  MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  if (!nabla_donated_has(function) || mlirBlockIsNull(body)) return true;
  if (!mlirBlockIsNull(mlirBlockGetNextInRegion(body)) ||
      !nabla_is(mlirBlockGetTerminator(body), "func.return")) {
    nabla_error_at(function,
                   "has donated arguments and more than one block: write its "
                   "control flow as nabla.cond, while or scan");
    return false;
  }
  for (intptr_t i = 0; i < count_of(function); i++)
    if (nabla_donated_is(function, i) &&
        !nabla_donated_check_order(module, function, i))
      return false;
  return true;
}
