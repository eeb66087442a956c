/* Rules for concatenate and stack: where inference says that the result is
 * implicit, its components are those of the operands, joined. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/cut.h"
#include "transforms/components.h"
#include "transforms/ir.h"
#include "transforms/rules.h"

static MlirNamedAttribute integer_list(MlirContext context, const char *key,
                                       int64_t value) {
  return nabla_named(context, key, mlirDenseI64ArrayGet(context, 1, &value));
}

/* Component `part` of an operand: a piece of its storage's. */
static MlirValue piece(MlirOperation op, intptr_t operand, uint32_t part) {
  MlirValue value = mlirOperationGetOperand(op, operand);
  MlirValue components[NABLA_MAX_PARTS];
  MlirContext context = nabla_context(op);
  nabla_cut cut;
  (void)nabla_cut_read(mlirValueGetType(value), &cut); /* inference has seen */
  nabla_components_split(value, op, components);
  MlirNamedAttribute attributes[] = {
      integer_list(context, "starts", cut.first[part]),
      integer_list(context, "limits", cut.first[part] + cut.size[part])};
  nabla_op_spec spec = {"nabla.slice", 1, &components[part], -1,
                        NULL,          2, attributes};
  if (mlirShapedTypeGetDimSize(mlirValueGetType(components[part]), 0) ==
      cut.size[part])
    return components[part];
  return mlirOperationGetResult(nabla_op_create(op, &spec), 0);
}

/* Component `part` of all operands in one tensor. */
static MlirValue join_part(MlirOperation op, uint32_t part) {
  MlirValue pieces[NABLA_MAX_OPERANDS];
  intptr_t count = mlirOperationGetNumOperands(op);
  for (intptr_t n = 0; n < count; n++) pieces[n] = piece(op, n, part);
  if (count == 1) return pieces[0];
  MlirContext context = nabla_context(op);
  MlirType i64 = mlirIntegerTypeGet(context, 64);
  MlirNamedAttribute dim =
      nabla_named(context, "dim", mlirIntegerAttrGet(i64, 0));
  nabla_op_spec spec = {"nabla.concatenate", count, pieces, -1, NULL, 1, &dim};
  return mlirOperationGetResult(nabla_op_create(op, &spec), 0);
}

static nabla_rule_outcome join(MlirOperation op, const char **why) {
  MlirType type = nabla_result_type(op, 0);
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  MlirValue components[NABLA_MAX_PARTS];
  *why = "its components, joined, are not those of the result";
  if (!nablaTypeIsAImplicit(type)) return NABLA_RULE_DECLINED;
  uint32_t count = nabla_implicit_components(type, parts);
  for (uint32_t i = 0; i < count; i++) components[i] = join_part(op, i);
  nabla_op_spec spec = {"nabla.pack", (intptr_t)count, components, 1, &type, 0,
                        NULL};
  MlirOperation pack = nabla_op_create(op, &spec);
  if (mlirOperationIsNull(pack)) return NABLA_RULE_FAILED;
  MlirValue result = mlirOperationGetResult(pack, 0);
  nabla_op_replace(op, &result);
  return NABLA_RULE_APPLIED;
}

#define JOIN(id)                                                            \
  nabla_rule_outcome nabla_apply_##id(MlirOperation op, const char **why);  \
  nabla_rule_outcome nabla_apply_##id(MlirOperation op, const char **why) { \
    return join(op, why);                                                   \
  }
JOIN(concatenate_join)
JOIN(concatenate_one)
JOIN(stack_join)
JOIN(stack_one)
