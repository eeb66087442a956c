/* Rules for a contraction with an identity: the other operand, its dimensions
 * in the order of the result. */
#include "dialect/verify/checks.h"
#include "transforms/dispatch/rules.h"
#include "transforms/ir/ir.h"

nabla_rule_outcome nabla_apply_dot_identity_lhs(MlirOperation op,
                                                const char **why);
nabla_rule_outcome nabla_apply_dot_identity_rhs(MlirOperation op,
                                                const char **why);

/* NULL, or why the identity does not give the other operand back. */
static const char *objection(MlirOperation op, intptr_t identity,
                             const char *key, int64_t *dim) {
  MlirType eye = nabla_operand_type(op, identity);
  MlirType other = nabla_operand_type(op, 1 - identity);
  int64_t unused[NABLA_MAX_RANK], dims[NABLA_MAX_RANK];
  if (nabla_array_dim(eye, 0) != nabla_array_dim(eye, 1))
    return "the identity is not square";
  if (nabla_op_integers(op, "lhs_batching", unused) != 0 ||
      nabla_op_integers(op, key, dims) != 1)
    return "more than one dimension, or less, of the identity is contracted";
  *dim = dims[0];
  return nabla_is_dynamic(nabla_array_dim(other, (intptr_t)*dim))
             ? "a size has to be compared with the identity's at run time"
             : NULL;
}

static nabla_rule_outcome dot_identity(MlirOperation op, intptr_t identity,
                                       const char **why) {
  int64_t dim, order[NABLA_MAX_RANK];
  *why = objection(op, identity,
                   identity ? "lhs_contracting" : "rhs_contracting", &dim);
  if (*why) return NABLA_RULE_DECLINED;
  MlirValue value = mlirOperationGetOperand(op, 1 - identity);
  intptr_t rank = nabla_array_rank(mlirValueGetType(value)), at = 0;
  if (!identity) order[at++] = dim;
  for (intptr_t i = 0; i < rank; i++)
    if (i != dim) order[at++] = i;
  if (identity) order[at++] = dim;
  value = nabla_value_transpose(op, value, rank, order);
  if (nablaTypeIsAImplicit(mlirValueGetType(value))) {
    nabla_op_spec spec = {"nabla.materialize", 1, &value, -1, NULL, 0, NULL};
    value = mlirOperationGetResult(nabla_op_create(op, &spec), 0);
  }
  nabla_op_replace(op, &value);
  return NABLA_RULE_APPLIED;
}

nabla_rule_outcome nabla_apply_dot_identity_lhs(MlirOperation op,
                                                const char **why) {
  return dot_identity(op, 0, why);
}
nabla_rule_outcome nabla_apply_dot_identity_rhs(MlirOperation op,
                                                const char **why) {
  return dot_identity(op, 1, why);
}
