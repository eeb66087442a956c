/* Rules for contractions with a lora: x . (base + b . a)^T is computed as
 * x . base^T + (x . a^T) . b^T, so that the base stays packed and nothing of
 * the size of the weight is made. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/dispatch/rules.h"
#include "transforms/ir/components.h"
#include "transforms/ir/ir.h"

nabla_rule_outcome nabla_apply_dot_lora_lhs(MlirOperation op, const char **why);
nabla_rule_outcome nabla_apply_dot_lora_rhs(MlirOperation op, const char **why);

/* The dimension of the storage that dimension `logical` of the weight is, which
 * must be the whole storage, as it is or transposed; -1 of other views. */
static int64_t storage_dim(MlirType type, int64_t logical) {
  nablaImplicit p = nablaImplicitTypeParts(type);
  if (p.storageRank < 0) return logical;
  if (p.rank != 2 || p.offset != 0) return -1;
  nabla_strided view = nabla_implicit_strided(type), whole = view;
  for (int transposed = 0; transposed < 2; transposed++) {
    for (int i = 0; i < 2; i++)
      whole.shape[i] = p.storage[transposed ? 1 - i : i];
    whole.strides[transposed] = p.storage[1];
    whole.strides[1 - transposed] = 1;
    if (mlirTypeEqual(nabla_implicit_with_view(type, &whole), type))
      return transposed ? 1 - logical : logical;
  }
  return -1;
}

/* dot_general of `weight` and `other`, the weight being operand `place`, over
 * one dimension of each. */
static MlirValue dot(MlirOperation op, intptr_t place, MlirValue weight,
                     int64_t weight_dim, MlirValue other, int64_t other_dim) {
  MlirContext context = nabla_op_context(op);
  MlirValue operands[2] = {other, other};
  int64_t dims[2] = {other_dim, other_dim};
  operands[place] = weight;
  dims[place] = weight_dim;
  MlirNamedAttribute attributes[] = {
      nabla_named(context, "lhs_contracting",
                  mlirDenseI64ArrayGet(context, 1, &dims[0])),
      nabla_named(context, "rhs_contracting",
                  mlirDenseI64ArrayGet(context, 1, &dims[1]))};
  nabla_op_spec spec = {"nabla.dot_general", 2, operands, -1, NULL, 2,
                        attributes};
  return mlirOperationGetResult(nabla_op_create(op, &spec), 0);
}

static nabla_rule_outcome apply(MlirOperation op, intptr_t place,
                                const char **why) {
  int64_t dims[2][NABLA_MAX_RANK];
  intptr_t count = nabla_op_integers(op, "lhs_contracting", dims[0]);
  (void)nabla_op_integers(op, "rhs_contracting", dims[1]);
  int64_t unused[NABLA_MAX_RANK];
  MlirType type = nabla_operand_type(op, place);
  MlirValue other = mlirOperationGetOperand(op, 1 - place);
  *why = "one dimension of a lora is contracted, without batches";
  if (count != 1 || nabla_array_rank(type) != 2 ||
      nabla_op_integers(op, "lhs_batching", unused))
    return NABLA_RULE_DECLINED;
  int64_t dim = storage_dim(type, dims[place][0]), at = dims[1 - place][0];
  *why = "its view is neither the weight nor its transpose";
  if (dim < 0) return NABLA_RULE_DECLINED;
  MlirValue parts[NABLA_MAX_PARTS];
  nabla_components_split(mlirOperationGetOperand(op, place), op, parts);
  MlirValue first = parts[dim == 1 ? 1 : 2], second = parts[dim == 1 ? 2 : 1];
  MlirValue whole = dot(op, place, parts[0], dim, other, at);
  MlirValue few = dot(op, place, first, dim, other, at);
  int64_t rank = place ? nabla_array_rank(mlirValueGetType(few)) - 1 : 0;
  MlirValue terms[2] = {whole, dot(op, place, second, dim, few, rank)};
  nabla_op_spec add = {"nabla.add", 2, terms, -1, NULL, 0, NULL};
  MlirOperation sum = nabla_op_create(op, &add);
  if (mlirOperationIsNull(sum)) return NABLA_RULE_FAILED;
  MlirValue result = mlirOperationGetResult(sum, 0);
  nabla_op_replace(op, &result);
  return NABLA_RULE_APPLIED;
}

nabla_rule_outcome nabla_apply_dot_lora_lhs(MlirOperation op,
                                            const char **why) {
  return apply(op, 0, why);
}
nabla_rule_outcome nabla_apply_dot_lora_rhs(MlirOperation op,
                                            const char **why) {
  return apply(op, 1, why);
}
