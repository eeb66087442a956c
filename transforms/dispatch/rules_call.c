/* The rule for custom calls: a handler that takes components of an encoding
 * gets them. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "transforms/abi/calls.h"
#include "transforms/dispatch/rules.h"
#include "transforms/ir/components.h"

/* Whether argument `index` of the handler takes the components of `type`. */
static bool takes(const nabla_call_handler *handler, intptr_t index,
                  MlirType type) {
  const char *encoding;
  if (!nablaTypeIsAImplicit(type) || handler->argument_count == 0) return false;
  if (index >= (intptr_t)handler->argument_count) {
    if (!handler->is_variadic) return false;
    index = (intptr_t)handler->argument_count - 1;
  }
  encoding = handler->arguments[index].encoding;
  nablaImplicit p = nablaImplicitTypeParts(type);
  return encoding && p.storageRank < 0 &&
         nabla_encoding_is_named(p.encoding, encoding);
}

static nabla_rule_outcome unpack(MlirOperation op, const char **why) {
  MlirValue values[NABLA_MAX_OPERANDS * NABLA_MAX_PARTS];
  int64_t parts[NABLA_MAX_OPERANDS];
  intptr_t count = 0, arguments = 0;
  bool any = false;
  const nabla_call_handler *handler = nabla_call_handler_of(op);
  *why = "its handler does not take the components";
  if (!handler || !mlirAttributeIsNull(
                      mlirOperationGetAttributeByName(op, nabla_ref("parts"))))
    return NABLA_RULE_DECLINED;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    bool split = takes(handler, i, mlirValueGetType(value));
    intptr_t own = 1;
    values[count] = value;
    if (split) own = nabla_components_split(value, op, &values[count]);
    if (!mlirTypeIsAIndex(mlirValueGetType(value))) parts[arguments++] = own;
    count += own;
    any |= split;
  }
  if (!any) return NABLA_RULE_DECLINED;
  if (count > NABLA_MAX_OPERANDS) {
    nabla_error_at(op, "has more than %d arrays with the components",
                   NABLA_MAX_OPERANDS);
    return NABLA_RULE_FAILED;
  }
  mlirOperationSetOperands(op, count, values);
  mlirOperationSetAttributeByName(
      op, nabla_ref("parts"),
      mlirDenseI64ArrayGet(nabla_op_context(op), arguments, parts));
  return NABLA_RULE_REFINED;
}

#define UNPACK(id)                                                          \
  nabla_rule_outcome nabla_apply_##id(MlirOperation op, const char **why);  \
  nabla_rule_outcome nabla_apply_##id(MlirOperation op, const char **why) { \
    return unpack(op, why);                                                 \
  }
UNPACK(call_components)
UNPACK(call_component_one)
