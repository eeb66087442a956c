/* Tangents of what calls return. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>

#include "transforms/autodiff/forward.h"

typedef struct pushed {
  nabla_forward *f;
  nabla_builder b; /* before the call */
  MlirOperation op, callee;
  intptr_t in, out; /* operands, results */
  nabla_value_list list;
} pushed;

static void add(pushed *p, MlirValue value) {
  nabla_value_list_add(&p->list, value);
}

/* Replaces the call by one of `function`, which returns tangents behind the
 * results: those of results for which `has` is true. */
static bool replace(pushed *p, MlirOperation function, const bool *has) {
  if (mlirOperationIsNull(function)) return false;
  MlirOperation call = nabla_build_call(
      p->op, function, (intptr_t)p->list.count, p->list.values);
  if (mlirOperationIsNull(call)) return false;
  p->list.count = 0;
  for (intptr_t i = 0, at = p->out; i < p->out; i++) {
    MlirValue value = mlirOperationGetResult(call, i);
    add(p, value);
    if (!has[i]) continue;
    nabla_varied_add(p->f->varied, value);
    nabla_value_map_set(&p->f->tangents, value,
                        mlirOperationGetResult(call, at++));
  }
  nabla_derived_replace(p->f->derived, p->op, p->list.values);
  return true;
}

/* The identity, as for the cotangent. */
static bool straight(pushed *p) {
  MlirValue y = mlirOperationGetResult(p->op, 0);
  MlirValue tangent =
      nabla_value_map_get(&p->f->tangents, mlirOperationGetOperand(p->op, 0));
  nabla_builder b = {mlirOperationGetNextInBlock(p->op)};
  if (mlirValueIsNull(tangent)) return true;
  tangent = nabla_diff_narrow(&b, tangent, y);
  nabla_value_map_set(&p->f->tangents, y, tangent);
  return !mlirValueIsNull(tangent);
}

static bool by_rule(pushed *p, bool *has) {
  for (intptr_t i = 0; i < p->in; i++)
    add(p, mlirOperationGetOperand(p->op, i));
  for (intptr_t i = 0; i < p->in; i++) {
    MlirType type = nabla_operand_type(p->op, i);
    if (!nablaTypeIsAImplicit(type) && nabla_diff_has(type))
      add(p, nabla_forward_or_zeros(p->f, &p->b, p->list.values[i]));
  }
  for (intptr_t i = 0; i < p->out; i++)
    has[i] = nabla_diff_has(nabla_result_type(p->op, i));
  return replace(p, nabla_rule_jvp(p->f->derived, p->callee), has);
}

static bool by_derivative(pushed *p, bool *arguments, bool *results) {
  for (intptr_t i = 0; i < p->in; i++)
    add(p, mlirOperationGetOperand(p->op, i));
  for (intptr_t i = 0; i < p->in; i++) {
    MlirValue tangent = nabla_value_map_get(&p->f->tangents, p->list.values[i]);
    arguments[i] = !mlirValueIsNull(tangent);
    if (arguments[i]) add(p, tangent);
  }
  for (intptr_t i = 0; i < p->out; i++)
    results[i] = nabla_diff_has(nabla_result_type(p->op, i));
  return replace(
      p,
      nabla_derived_find(p->f->derived, p->callee, "jvp", arguments, results),
      results);
}

static bool run(pushed *p) {
  if (!mlirAttributeIsNull(
          nabla_function_attribute(p->callee, NABLA_STRAIGHT_THROUGH)))
    return straight(p);
  bool *masks = calloc((size_t)(p->in + p->out) + 1, sizeof *masks);
  bool good = masks != NULL;
  if (good &&
      !mlirAttributeIsNull(nabla_function_attribute(p->callee, NABLA_JVP))) {
    good = by_rule(p, masks);
  } else if (good && !mlirAttributeIsNull(
                         nabla_function_attribute(p->callee, NABLA_VJP))) {
    nabla_error_at(p->op,
                   "calls a function with nabla.vjp alone, which nabla-jvp "
                   "cannot use: give it nabla.jvp too");
    good = false;
  } else if (good) {
    good = by_derivative(p, masks, masks + p->in);
  }
  free(masks);
  return good;
}

bool nabla_forward_call(nabla_forward *f, MlirOperation op) {
  pushed p = {.f = f,
              .b = {op},
              .op = op,
              .callee = nabla_callee(f->derived->module, op),
              .in = mlirOperationGetNumOperands(op),
              .out = mlirOperationGetNumResults(op)};
  if (mlirOperationIsNull(p.callee)) {
    nabla_error_at(op, "calls a function that is not in the module");
    return false;
  }
  const bool good = run(&p) && !p.list.failed;
  nabla_value_list_deinit(&p.list);
  return good;
}
