/* The rule that gives attention of dense arrays to a kernel. */
#include <mlir-c/BuiltinAttributes.h>

#include "dialect/verify/checks.h"
#include "transforms/dispatch/rules.h"
#include "transforms/fused/lower_attention.h"
#include "transforms/ir/ir.h"

nabla_rule_outcome nabla_apply_attention_dense(MlirOperation op,
                                               const char **why);

#define OPERANDS_MAX 5

/* The operation as nabla.fused_attention; null when it could not be made. */
static MlirOperation fused(MlirOperation op) {
  static const char *const keys[] = {"scale", "causal"};
  MlirContext context = nabla_op_context(op);
  MlirValue operands[OPERANDS_MAX];
  MlirNamedAttribute attributes[3];
  MlirType result = nabla_result_type(op, 0);
  int32_t segments[OPERANDS_MAX];
  const intptr_t count = mlirOperationGetNumOperands(op);
  intptr_t attribute_count = 1;
  for (intptr_t i = 0; i < count && i < OPERANDS_MAX; i++)
    operands[i] = mlirOperationGetOperand(op, i);
  for (intptr_t i = 0; i < OPERANDS_MAX; i++)
    segments[i] = (int32_t)nabla_op_segment(op, i);
  attributes[0] =
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, OPERANDS_MAX, segments));
  for (int i = 0; i < 2; i++) {
    MlirAttribute value =
        mlirOperationGetAttributeByName(op, nabla_ref(keys[i]));
    if (!mlirAttributeIsNull(value))
      attributes[attribute_count++] = nabla_named(context, keys[i], value);
  }
  nabla_op_spec spec = {
      "nabla.fused_attention", count,     operands, 1, &result,
      attribute_count,         attributes};
  return nabla_op_create(op, &spec);
}

nabla_rule_outcome nabla_apply_attention_dense(MlirOperation op,
                                               const char **why) {
  nabla_attention_spec unused;
  *why = nabla_attention_spec_of(op, 0, &unused);
  if (*why) return NABLA_RULE_DECLINED;
  MlirOperation made = fused(op);
  if (mlirOperationIsNull(made)) return NABLA_RULE_FAILED;
  MlirValue y = mlirOperationGetResult(made, 0);
  nabla_op_replace(op, &y);
  return NABLA_RULE_APPLIED;
}
