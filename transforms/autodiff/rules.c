/* The table of rules, made from dialect/ops.def, and rules for words: formula,
 * linear, product. */
#include "transforms/autodiff/rules.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/ops.h"
#include "transforms/autodiff/partials.h"
#include "transforms/composite/decompositions.h"
#include "transforms/formula/formula_ops.h"

static const struct {
  const char *op;
  nabla_vjp_rule *vjp;
  nabla_jvp_rule *jvp;
} table[] = {
#define OP(id, columns) {.op = "nabla." #id, columns},
#define LINEAR_BY(name) .vjp = nabla_vjp_##name,
#define DIFF_BY(name)   .vjp = nabla_vjp_##name, .jvp = nabla_jvp_##name,
#include "dialect/ops.def"
};

static const struct {
  const char *op, *why;
} refusals[] = {
#define REFUSAL(op, why) {"nabla." #op, why},
#include "transforms/autodiff/refusals.def"
#undef REFUSAL
};

/* ---- values ---- */

bool nabla_diff_has(MlirType type) {
  if (!nablaTypeIsAImplicit(type) && !mlirTypeIsARankedTensor(type))
    return false;
  return mlirTypeIsAFloat(nabla_array_element(type));
}

MlirValue nabla_diff_operand(MlirOperation op, intptr_t index) {
  return mlirOperationGetOperand(op, index);
}

MlirValue nabla_diff_widen(const nabla_builder *b, MlirValue x) {
  x = nabla_build_dense(b, x);
  if (mlirValueIsNull(x)) return x;
  return nabla_build_convert(
      b, x, nabla_parts_work(nabla_array_element(mlirValueGetType(x))));
}

MlirValue nabla_diff_narrow(const nabla_builder *b, MlirValue x,
                            MlirValue like) {
  if (mlirValueIsNull(x)) return x;
  MlirType type = nabla_dense_type(mlirValueGetType(like));
  x = nabla_build_convert(b, x, nabla_array_element(type));
  return nabla_build_cast(b, x, type);
}

MlirValue nabla_diff_repeat(const nabla_builder *b, MlirValue x, intptr_t count,
                            const int64_t *dims, bool kept, MlirValue like) {
  int64_t order[NABLA_MAX_RANK];
  if (mlirValueIsNull(x)) return x;
  nabla_built_shape shape = nabla_build_shape_of(b, like);
  intptr_t rank = 0;
  for (intptr_t i = 0; i < shape.rank; i++) {
    bool gone = false;
    for (intptr_t j = 0; j < count; j++) gone = gone || dims[j] == i;
    if (!gone || kept) order[rank++] = i;
  }
  return nabla_build_broadcast(b, x, order, &shape);
}

/* ---- formula ---- */

/* The name of an operation's rows in partials.def. */
static const char *partial_name(MlirOperation op, char out[48]) {
  MlirStringRef name = nabla_name(op);
  const size_t skip = strlen("nabla.");
  const char *variant =
      nabla_is(op, "nabla.gelu") && nabla_parts_integer(op, "approximate", 0)
          ? "_tanh"
          : "";
  (void)snprintf(out, 48, "%.*s%s", (int)(name.length - skip), name.data + skip,
                 variant);
  return out;
}

/* The partial derivative to an operand, in the type that it is computed in;
 * null after an error. */
static MlirValue partial(const nabla_builder *b, MlirOperation op,
                         intptr_t operand) {
  char name[48];
  MlirValue x[4];
  nabla_formula_refusal refusal;
  const nabla_formula *row =
      nabla_partial_find(partial_name(op, name), (int)operand);
  if (!row) {
    nabla_error_at(op,
                   "has no derivative to operand %d: transforms/autodiff/"
                   "partials.def has no row PARTIAL(%s, %d, ...)",
                   (int)operand, name, (int)operand);
    return (MlirValue){NULL};
  }
  const intptr_t count = mlirOperationGetNumOperands(op);
  for (intptr_t i = 0; i < 3; i++)
    x[i] = nabla_diff_widen(b, nabla_diff_operand(op, i < count ? i : 0));
  x[3] = nabla_diff_widen(b, mlirOperationGetResult(op, 0));
  MlirValue value = nabla_formula_build(b, row, x, &refusal);
  if (mlirValueIsNull(value) && *refusal.text)
    nabla_error_at(op, "has no derivative: %s", refusal.text);
  return value;
}

static bool vjp_formula(const nabla_pullback *p) {
  MlirValue cotangent = nabla_diff_widen(&p->b, p->cotangents[0]);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(p->op); i++) {
    if (!p->wanted[i]) continue;
    p->out[i] = nabla_diff_narrow(
        &p->b,
        nabla_build_two(&p->b, "mul", cotangent, partial(&p->b, p->op, i)),
        nabla_diff_operand(p->op, i));
    if (mlirValueIsNull(p->out[i])) return false;
  }
  return true;
}

static bool jvp_formula(const nabla_pushforward *p) {
  MlirValue sum = {NULL};
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(p->op); i++) {
    if (mlirValueIsNull(p->tangents[i])) continue;
    MlirValue term =
        nabla_build_two(&p->b, "mul", nabla_diff_widen(&p->b, p->tangents[i]),
                        partial(&p->b, p->op, i));
    if (mlirValueIsNull(term)) return false;
    sum =
        mlirValueIsNull(sum) ? term : nabla_build_two(&p->b, "add", sum, term);
  }
  p->out[0] = nabla_diff_narrow(&p->b, sum, mlirOperationGetResult(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

/* ---- linear, product ---- */

/* The operation of other operands: a clone whose results are dense. */
static MlirOperation apply(const nabla_pushforward *p,
                           const MlirValue *operands) {
  MlirType types[NABLA_MAX_RESULTS];
  MlirNamedAttribute list[32];
  const intptr_t results = mlirOperationGetNumResults(p->op);
  const intptr_t inherent = mlirOperationGetNumAttributes(p->op);
  for (intptr_t i = 0; i < results; i++)
    types[i] = nabla_dense_type(nabla_result_type(p->op, i));
  intptr_t count = inherent < 32 ? inherent : 32;
  for (intptr_t i = 0; i < count; i++)
    list[i] = mlirOperationGetAttribute(p->op, i);
  nabla_op_spec spec = {mlirIdentifierStr(mlirOperationGetName(p->op)).data,
                        mlirOperationGetNumOperands(p->op),
                        operands,
                        results,
                        types,
                        count,
                        list};
  for (intptr_t i = 0; i < spec.operand_count; i++)
    if (mlirValueIsNull(operands[i])) return (MlirOperation){NULL};
  return nabla_op_create(p->b.before, &spec);
}

static bool jvp_linear(const nabla_pushforward *p) {
  const intptr_t count = mlirOperationGetNumOperands(p->op);
  MlirValue *operands = calloc((size_t)count + 1, sizeof *operands);
  if (!operands) return false;
  for (intptr_t i = 0; i < count; i++) {
    operands[i] = nabla_diff_operand(p->op, i);
    MlirType type = mlirValueGetType(operands[i]);
    if (!mlirValueIsNull(p->tangents[i]))
      operands[i] = p->tangents[i];
    else if (nabla_diff_has(type))
      operands[i] =
          nabla_build_zeros(&p->b, operands[i], nabla_array_element(type));
  }
  MlirOperation made = apply(p, operands);
  free(operands);
  if (mlirOperationIsNull(made)) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(p->op); i++)
    p->out[i] = mlirOperationGetResult(made, i);
  return true;
}

static bool jvp_product(const nabla_pushforward *p) {
  MlirValue sum = {NULL};
  for (intptr_t i = 0; i < 2; i++) {
    if (mlirValueIsNull(p->tangents[i])) continue;
    MlirValue operands[2] = {nabla_diff_operand(p->op, 0),
                             nabla_diff_operand(p->op, 1)};
    operands[i] = p->tangents[i];
    MlirOperation made = apply(p, operands);
    if (mlirOperationIsNull(made)) return false;
    MlirValue term = mlirOperationGetResult(made, 0);
    sum = mlirValueIsNull(sum)
              ? term
              : nabla_build_two(&p->b, "add", nabla_diff_widen(&p->b, sum),
                                nabla_diff_widen(&p->b, term));
  }
  p->out[0] = nabla_diff_narrow(&p->b, sum, mlirOperationGetResult(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

/* ---- the table ---- */

static bool vjp_cast(const nabla_pullback *p) {
  p->out[0] = p->cotangents[0];
  return true;
}

static bool jvp_cast(const nabla_pushforward *p) {
  p->out[0] =
      nabla_build_cast(&p->b, p->tangents[0], nabla_result_type(p->op, 0));
  return true;
}

nabla_diff_row nabla_diff_find(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  if (nabla_is(op, "tensor.cast")) return (nabla_diff_row){vjp_cast, jvp_cast};
  if (!row) return (nabla_diff_row){NULL, NULL};
  if (row->diff == NABLA_DIFF_formula)
    return (nabla_diff_row){vjp_formula, jvp_formula};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].op, row->name) != 0) continue;
    nabla_diff_row out = {table[i].vjp, table[i].jvp};
    if (row->diff == NABLA_DIFF_linear) out.jvp = jvp_linear;
    if (row->diff == NABLA_DIFF_product) out.jvp = jvp_product;
    return out;
  }
  return (nabla_diff_row){NULL, NULL};
}

bool nabla_diff_is_zero(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  if (row) return row->diff == NABLA_DIFF_zero;
  if (nabla_is(op, "func.call") || mlirOperationGetNumRegions(op)) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    MlirType type = nabla_result_type(op, i);
    if (nabla_diff_has(type) || mlirTypeIsAFloat(type)) return false;
  }
  return true;
}

bool nabla_diff_refuse(MlirOperation op) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    if (!nabla_is(op, refusals[i].op)) continue;
    nabla_error_at(op, "has no derivative: %s", refusals[i].why);
    return false;
  }
  if (nabla_op_find(op))
    nabla_error_at(op,
                   "has no derivative: its row of dialect/ops.def has no word "
                   "in the column DIFF");
  else
    nabla_error_at(op,
                   "has no derivative: operations of other dialects have none, "
                   "but for tensor.cast and func.call; use the operations of "
                   "the nabla dialect");
  return false;
}
