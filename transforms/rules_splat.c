/* Rules for splats: a constant array is folded away, or becomes a constant that
 * the passes behind know. */
#include <mlir-c/BuiltinAttributes.h>

#include "dialect/encoding.h"
#include "transforms/ir.h"
#include "transforms/rules.h"

nabla_rule_outcome nabla_apply_mul_one_lhs(MlirOperation op, const char **why);
nabla_rule_outcome nabla_apply_mul_one_rhs(MlirOperation op, const char **why);

static bool is_splat(MlirType type) {
  return nablaTypeIsAImplicit(type) &&
         nabla_implicit_encoding(type).kind == NABLA_KIND_SPLAT;
}

/* Replaces every splat operand by a constant. */
static nabla_rule_outcome to_constants(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirType type = nabla_operand_type(op, i);
    if (!is_splat(type)) continue;
    double value = nabla_implicit_encoding(type).value;
    MlirType dense = nabla_dense_type(type);
    MlirAttribute splat = mlirDenseElementsAttrSplatGet(
        dense, mlirFloatAttrDoubleGet(nabla_context(op),
                                      nabla_array_element(type), value));
    MlirNamedAttribute attribute =
        nabla_named(nabla_context(op), "value", splat);
    nabla_op_spec spec = {"nabla.constant", 0, NULL, -1, NULL, 1, &attribute};
    MlirOperation constant = nabla_op_create(op, &spec);
    if (mlirOperationIsNull(constant)) return NABLA_RULE_FAILED;
    mlirOperationSetOperand(op, i, mlirOperationGetResult(constant, 0));
  }
  return NABLA_RULE_REFINED;
}

#define TO_CONSTANTS(id)                                                    \
  nabla_rule_outcome nabla_apply_##id(MlirOperation op, const char **why);  \
  nabla_rule_outcome nabla_apply_##id(MlirOperation op, const char **why) { \
    (void)why;                                                              \
    return to_constants(op);                                                \
  }
TO_CONSTANTS(dot_splat_lhs)
TO_CONSTANTS(dot_splat_rhs)
TO_CONSTANTS(add_splat_lhs)
TO_CONSTANTS(add_splat_rhs)
TO_CONSTANTS(mul_splat_lhs)
TO_CONSTANTS(mul_splat_rhs)
TO_CONSTANTS(relu_splat)
TO_CONSTANTS(silu_splat)
TO_CONSTANTS(reduce_splat)
TO_CONSTANTS(dynamic_slice_splat)
TO_CONSTANTS(update_splat_lhs)
TO_CONSTANTS(update_splat_rhs)
TO_CONSTANTS(pad_splat)
TO_CONSTANTS(flip_splat)
TO_CONSTANTS(gather_splat)
TO_CONSTANTS(scatter_splat)
TO_CONSTANTS(conv_splat_lhs)
TO_CONSTANTS(conv_splat_rhs)
TO_CONSTANTS(pool_splat)

/* x where the other operand is all ones and the types agree. */
static nabla_rule_outcome mul_one(MlirOperation op, intptr_t splat,
                                  const char **why) {
  MlirValue other = mlirOperationGetOperand(op, 1 - splat);
  if (nabla_implicit_encoding(nabla_operand_type(op, splat)).value != 1.0 ||
      !mlirTypeEqual(mlirValueGetType(other), nabla_result_type(op, 0))) {
    *why = "the splat is not 1, or a shape is not known";
    return NABLA_RULE_DECLINED;
  }
  nabla_op_replace(op, &other);
  return NABLA_RULE_APPLIED;
}

nabla_rule_outcome nabla_apply_mul_one_lhs(MlirOperation op, const char **why) {
  return mul_one(op, 0, why);
}
nabla_rule_outcome nabla_apply_mul_one_rhs(MlirOperation op, const char **why) {
  return mul_one(op, 1, why);
}
