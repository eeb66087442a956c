/* Tangents of what calls return. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>

#include "transforms/autodiff/call_rules.h"
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

/* Adds the tangents that the rule takes; `given` gets, for each of its
 * arguments, whether it is there. */
static void add_tangents(pushed *p, bool *given) {
  const bool lacks = !mlirAttributeIsNull(
      nabla_function_attribute(p->callee, NABLA_SYMBOLIC_ZEROS));
  intptr_t at = p->in;
  for (intptr_t i = 0; i < p->in; i++) {
    MlirType type = nabla_operand_type(p->op, i);
    given[i] = true;
    if (nablaTypeIsAImplicit(type) || !nabla_diff_has(type)) continue;
    MlirValue x = p->list.values[i];
    given[at] = !lacks || nabla_value_map_has(&p->f->tangents, x) ||
                !nabla_rule_may_lack(type);
    if (given[at++]) add(p, nabla_forward_or_zeros(p->f, &p->b, x));
  }
}

static bool by_rule(pushed *p, bool *has) {
  nabla_derived *d = p->f->derived;
  MlirOperation rule = nabla_rule_jvp(d, p->callee);
  bool *masks = calloc(2 * (size_t)(p->in + p->out) + 1, sizeof *masks);
  bool *gives = masks ? masks + 2 * p->in : NULL, good = masks != NULL;
  if (mlirOperationIsNull(rule)) good = false;
  for (intptr_t i = 0; good && i < p->in; i++)
    add(p, mlirOperationGetOperand(p->op, i));
  if (good) {
    add_tangents(p, masks);
    rule = nabla_rule_absent(d, rule, masks, gives);
  }
  for (intptr_t i = 0, at = p->out; good && i < p->out; i++)
    has[i] = nabla_diff_has(nabla_result_type(p->op, i)) && gives[at++];
  good = good && replace(p, rule, has);
  free(masks);
  return good;
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

/* ---- custom calls ---- */

static bool by_call_rules(pushed *p, const nabla_call_rules *rules) {
  MlirValue operands[NABLA_MAX_OPERANDS], tangents[NABLA_MAX_OPERANDS];
  MlirValue out[NABLA_MAX_RESULTS] = {{NULL}};
  const nabla_builder behind = {mlirOperationGetNextInBlock(p->op)};
  nabla_call_rule rule = {
      .rules = rules,
      .op = p->op,
      .name = "jvp",
      .apply = rules->jvp,
      .frame = {.operands = operands, .given = tangents, .out = out}};
  for (intptr_t i = 0; i < p->in; i++) {
    operands[i] = mlirOperationGetOperand(p->op, i);
    tangents[i] = nabla_value_map_get(&p->f->tangents, operands[i]);
    const bool has = nabla_diff_has(mlirValueGetType(operands[i]));
    if (has && (!rules->symbolic_zeros || !mlirValueIsNull(tangents[i])))
      tangents[i] = nabla_forward_or_zeros(p->f, &behind, operands[i]);
  }
  if (!nabla_call_rule_run(&rule, behind.before)) return false;
  for (intptr_t i = 0; i < p->out; i++) {
    MlirValue y = mlirOperationGetResult(p->op, i);
    if (!nabla_diff_has(mlirValueGetType(y))) continue;
    if (!nabla_call_rule_gives(&rule, (size_t)i, "tangent", mlirValueGetType(y),
                               true))
      return false;
    if (!mlirValueIsNull(out[i]))
      nabla_value_map_set(&p->f->tangents, y, out[i]);
  }
  return true;
}

bool nabla_forward_custom_call(nabla_forward *f, MlirOperation op) {
  bool has[NABLA_MAX_RESULTS] = {false}, good = false;
  pushed p = {.f = f,
              .b = {op},
              .op = op,
              .callee = op,
              .in = mlirOperationGetNumOperands(op),
              .out = mlirOperationGetNumResults(op)};
  const nabla_call_rules *rules = nabla_call_rules_find(op);
  if (!mlirAttributeIsNull(nabla_function_attribute(op, NABLA_JVP)))
    good = by_rule(&p, has) && !p.list.failed;
  else if (rules && rules->jvp)
    good = by_call_rules(&p, rules);
  else
    nabla_diff_refuse(op);
  nabla_value_list_deinit(&p.list);
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
