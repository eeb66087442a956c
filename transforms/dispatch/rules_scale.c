/* Rules that act on the scales of a packed array, or on nothing of it: what is
 * negated, scaled by a splat or read as another type stays packed. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/encoding/scale.h"
#include "transforms/dispatch/rules.h"
#include "transforms/ir/components.h"
#include "transforms/ir/ir.h"

nabla_rule_outcome nabla_apply_neg_packed(MlirOperation op, const char **why);
nabla_rule_outcome nabla_apply_mul_scales_lhs(MlirOperation op,
                                              const char **why);
nabla_rule_outcome nabla_apply_mul_scales_rhs(MlirOperation op,
                                              const char **why);
nabla_rule_outcome nabla_apply_convert_packed(MlirOperation op,
                                              const char **why);

/* The op's result, of these components. */
static nabla_rule_outcome pack(MlirOperation op, intptr_t count,
                               const MlirValue *components) {
  MlirType type = nabla_result_type(op, 0);
  nabla_op_spec spec = {"nabla.pack", count, components, 1, &type, 0, NULL};
  MlirOperation made = nabla_op_create(op, &spec);
  if (mlirOperationIsNull(made)) return NABLA_RULE_FAILED;
  MlirValue result = mlirOperationGetResult(made, 0);
  nabla_op_replace(op, &result);
  return NABLA_RULE_APPLIED;
}

nabla_rule_outcome nabla_apply_neg_packed(MlirOperation op, const char **why) {
  MlirValue whole = mlirOperationGetOperand(op, 0), parts[NABLA_MAX_PARTS];
  int at = nabla_scales_find(mlirValueGetType(whole));
  *why = "its scales have no sign, or are packed";
  if (at < 0) return NABLA_RULE_DECLINED;
  intptr_t count = nabla_components_split(whole, op, parts);
  nabla_op_spec spec = {"nabla.neg", 1, &parts[at], -1, NULL, 0, NULL};
  parts[at] = mlirOperationGetResult(nabla_op_create(op, &spec), 0);
  return pack(op, count, parts);
}

/* A tensor of `type`, all `number`. */
static MlirValue constant(MlirOperation op, MlirType type, double number) {
  MlirAttribute all = mlirDenseElementsAttrSplatGet(
      type, mlirFloatAttrDoubleGet(nabla_op_context(op),
                                   mlirShapedTypeGetElementType(type), number));
  MlirNamedAttribute value = nabla_named(nabla_op_context(op), "value", all);
  nabla_op_spec spec = {"nabla.constant", 0, NULL, -1, NULL, 1, &value};
  return mlirOperationGetResult(nabla_op_create(op, &spec), 0);
}

static nabla_rule_outcome mul_scales(MlirOperation op, intptr_t splat,
                                     const char **why) {
  MlirValue whole = mlirOperationGetOperand(op, 1 - splat);
  MlirValue parts[NABLA_MAX_PARTS];
  MlirType type = mlirValueGetType(whole);
  double number = nabla_splat_number(nabla_operand_type(op, splat));
  *why =
      "its scales do not hold the products: f32 of f32 takes any factor, bf16 "
      "powers of two";
  if (!nabla_scales_multiply(type, number)) return NABLA_RULE_DECLINED;
  if (number == 1.0) {
    nabla_op_replace(op, &whole);
    return NABLA_RULE_APPLIED;
  }
  int at = nabla_scales_find(type);
  intptr_t count = nabla_components_split(whole, op, parts);
  MlirValue factors[2] = {parts[at],
                          constant(op, mlirValueGetType(parts[at]), number)};
  nabla_op_spec spec = {"nabla.mul", 2, factors, -1, NULL, 0, NULL};
  parts[at] = mlirOperationGetResult(nabla_op_create(op, &spec), 0);
  return pack(op, count, parts);
}

nabla_rule_outcome nabla_apply_mul_scales_lhs(MlirOperation op,
                                              const char **why) {
  return mul_scales(op, 0, why);
}
nabla_rule_outcome nabla_apply_mul_scales_rhs(MlirOperation op,
                                              const char **why) {
  return mul_scales(op, 1, why);
}

nabla_rule_outcome nabla_apply_convert_packed(MlirOperation op,
                                              const char **why) {
  MlirValue parts[NABLA_MAX_PARTS];
  *why = "the result is a tensor";
  if (!nablaTypeIsAImplicit(nabla_result_type(op, 0)))
    return NABLA_RULE_DECLINED;
  MlirValue whole = mlirOperationGetOperand(op, 0);
  return pack(op, nabla_components_split(whole, op, parts), parts);
}
