/* Cotangents of what calls take. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>

#include "transforms/autodiff/call_rules.h"
#include "transforms/autodiff/reverse.h"

/* A call in reverse. */
typedef struct pulled {
  nabla_reverse *r;
  MlirOperation op, callee;
  const MlirValue *cotangents;
  intptr_t in, out; /* operands, results */
  nabla_value_list list;
} pulled;

static void add(pulled *p, MlirValue value) {
  nabla_value_list_add(&p->list, value);
}

static MlirValue cotangent_or_zeros(const pulled *p, intptr_t i) {
  if (!mlirValueIsNull(p->cotangents[i])) return p->cotangents[i];
  MlirValue value = mlirOperationGetResult(p->op, i);
  return nabla_build_zeros(&p->r->b, value,
                           nabla_array_element(mlirValueGetType(value)));
}

/* ---- straight through ---- */

static bool same_shape(MlirType a, MlirType b) {
  bool same = nabla_array_rank(a) == nabla_array_rank(b);
  for (intptr_t i = 0; same && i < nabla_array_rank(a); i++) {
    const int64_t x = nabla_array_dim(a, i), y = nabla_array_dim(b, i);
    same = x == y || nabla_is_dynamic(x) || nabla_is_dynamic(y);
  }
  return same;
}

/* Whether a function's first argument and first result have one shape. */
static bool check_straight(MlirOperation op) {
  const bool both = mlirOperationGetNumOperands(op) > 0 &&
                    mlirOperationGetNumResults(op) > 0 &&
                    nabla_diff_has(nabla_operand_type(op, 0)) &&
                    nabla_diff_has(nabla_result_type(op, 0));
  if (both && same_shape(nabla_operand_type(op, 0), nabla_result_type(op, 0)))
    return true;
  nabla_error_at(op,
                 "calls a function with %s, whose first argument and first "
                 "result are not arrays of floats of one shape",
                 NABLA_STRAIGHT_THROUGH);
  return false;
}

static bool straight(pulled *p) {
  if (!check_straight(p->op)) return false;
  MlirValue x = mlirOperationGetOperand(p->op, 0);
  nabla_reverse_add(p->r, x, nabla_diff_narrow(&p->r->b, p->cotangents[0], x));
  return true;
}

/* ---- a rule ---- */

/* Adds the cotangents that the backward function takes; `given` gets, for each
 * of its arguments, whether it is there. */
static void add_cotangents(pulled *p, bool *given) {
  const bool lacks = !mlirAttributeIsNull(
      nabla_function_attribute(p->callee, NABLA_SYMBOLIC_ZEROS));
  size_t at = p->list.count;
  for (size_t i = 0; i < at; i++) given[i] = true;
  for (intptr_t i = 0; i < p->out; i++) {
    MlirType type = nabla_result_type(p->op, i);
    if (!nabla_diff_has(type)) continue;
    given[at] = !lacks || !mlirValueIsNull(p->cotangents[i]) ||
                !nabla_rule_may_lack(nabla_dense_type(type));
    if (given[at++]) add(p, cotangent_or_zeros(p, i));
  }
}

static bool call_backward(pulled *p, MlirOperation backward, bool *given,
                          bool *gives) {
  add_cotangents(p, given);
  MlirOperation rule = nabla_rule_absent(p->r->derived, backward, given, gives);
  if (mlirOperationIsNull(rule)) return false;
  MlirOperation call = nabla_build_call(
      p->r->b.before, rule, (intptr_t)p->list.count, p->list.values);
  if (mlirOperationIsNull(call)) return false;
  for (intptr_t i = 0, at = 0, result = 0; i < p->in; i++) {
    MlirValue x = mlirOperationGetOperand(p->op, i);
    if (nablaTypeIsAImplicit(mlirValueGetType(x)) ||
        !nabla_diff_has(mlirValueGetType(x)))
      continue;
    if (gives[at++])
      nabla_reverse_add(p->r, x, mlirOperationGetResult(call, result++));
  }
  return true;
}

/* The call becomes one of the forward function, whose further results the
 * backward function takes. */
static bool by_rule(pulled *p) {
  nabla_derived *d = p->r->derived;
  MlirOperation backward = nabla_rule_backward(d, p->callee);
  if (mlirOperationIsNull(backward)) return false;
  for (intptr_t i = 0; i < p->in; i++)
    add(p, mlirOperationGetOperand(p->op, i));
  MlirOperation forward = nabla_build_call(
      p->op, nabla_rule_forward(d, p->callee), p->in, p->list.values);
  if (mlirOperationIsNull(forward)) return false;
  const intptr_t count = mlirOperationGetNumResults(forward);
  p->list.count = 0;
  for (intptr_t i = 0; i < count; i++)
    add(p, mlirOperationGetResult(forward, i));
  nabla_derived_replace(d, p->op, p->list.values);
  p->list.count = 0;
  for (intptr_t i = p->out; i < count; i++)
    add(p, mlirOperationGetResult(forward, i));
  bool *masks = calloc((size_t)(count + p->out + p->in) + 1, sizeof *masks);
  const bool good = masks && !p->list.failed &&
                    call_backward(p, backward, masks, masks + count + p->out);
  free(masks);
  return good;
}

/* ---- the function's own derivative ---- */

static bool by_derivative(pulled *p, bool *arguments, bool *results) {
  if (nabla_has_effects(p->r->derived->module, p->op)) {
    nabla_error_at(p->op,
                   "calls a function with effects, which its derivative would "
                   "run again: declare its custom calls pure, or give it the "
                   "attribute nabla.vjp");
    return false;
  }
  for (intptr_t i = 0; i < p->in; i++) {
    add(p, mlirOperationGetOperand(p->op, i));
    arguments[i] = nabla_value_map_has(p->r->varied, p->list.values[i]);
  }
  for (intptr_t i = 0; i < p->out; i++) {
    results[i] = !mlirValueIsNull(p->cotangents[i]);
    if (results[i]) add(p, p->cotangents[i]);
  }
  MlirOperation function = nabla_derived_find(p->r->derived, p->callee,
                                              "pullback", arguments, results);
  if (mlirOperationIsNull(function)) return false;
  MlirOperation call = nabla_build_call(
      p->r->b.before, function, (intptr_t)p->list.count, p->list.values);
  if (mlirOperationIsNull(call)) return false;
  for (intptr_t i = 0, at = 0; i < p->in; i++)
    if (arguments[i])
      nabla_reverse_add(p->r, mlirOperationGetOperand(p->op, i),
                        mlirOperationGetResult(call, at++));
  return true;
}

static bool run(pulled *p) {
  if (!mlirAttributeIsNull(
          nabla_function_attribute(p->callee, NABLA_STRAIGHT_THROUGH)))
    return mlirValueIsNull(p->cotangents[0]) || straight(p);
  if (!mlirAttributeIsNull(nabla_function_attribute(p->callee, NABLA_VJP)))
    return by_rule(p);
  if (!mlirAttributeIsNull(nabla_function_attribute(p->callee, NABLA_JVP))) {
    nabla_error_at(p->op,
                   "calls a function with nabla.jvp alone, which nabla-vjp "
                   "cannot transpose: give it nabla.vjp too");
    return false;
  }
  bool *masks = calloc((size_t)(p->in + p->out) + 1, sizeof *masks);
  const bool good = masks && by_derivative(p, masks, masks + p->in);
  free(masks);
  return good;
}

/* ---- custom calls ---- */

/* The rule forward takes the place of the call; `saved` gets what it saves. */
static bool run_forward(pulled *p, const nabla_call_rules *rules,
                        MlirValue *saved, size_t *count) {
  MlirValue operands[NABLA_MAX_OPERANDS], results[NABLA_MAX_RESULTS] = {{NULL}};
  nabla_call_rule rule = {.rules = rules,
                          .op = p->op,
                          .name = "forward",
                          .apply = rules->forward,
                          .frame = {.operands = operands,
                                    .out = results,
                                    .save = saved,
                                    .save_most = NABLA_CALL_SAVED_MAX}};
  for (intptr_t i = 0; i < p->in; i++)
    operands[i] = mlirOperationGetOperand(p->op, i);
  if (!nabla_call_rule_run(&rule, p->op)) return false;
  for (intptr_t i = 0; i < p->out; i++)
    if (!nabla_call_rule_gives(&rule, (size_t)i, "result",
                               nabla_result_type(p->op, i), false))
      return false;
  *count = rule.frame.out_count;
  for (size_t i = 0; i < *count; i++)
    if (*count > NABLA_CALL_SAVED_MAX || mlirValueIsNull(saved[i])) {
      nabla_error_at(p->op,
                     "the rule forward of custom calls of '%s' saves %zu "
                     "values, at most %d, none of them null",
                     rules->target, *count, NABLA_CALL_SAVED_MAX);
      return false;
    }
  nabla_derived_replace(p->r->derived, p->op, results);
  return true;
}

/* Checks what the rule gave, and adds it. */
static bool take_cotangents(const pulled *p, const nabla_call_rule *rule) {
  if (rule->frame.out_count != (size_t)p->in) {
    nabla_error_at(p->op,
                   "the rule vjp of custom calls of '%s' gives %zu cotangents, "
                   "not one for each of %d operands",
                   rule->rules->target, rule->frame.out_count, (int)p->in);
    return false;
  }
  for (intptr_t i = 0; i < p->in; i++) {
    MlirValue x = mlirOperationGetOperand(p->op, i);
    if (!nabla_value_map_has(p->r->varied, x)) continue;
    if (!nabla_call_rule_gives(rule, (size_t)i, "cotangent",
                               mlirValueGetType(x), true))
      return false;
    nabla_reverse_add(p->r, x, rule->frame.out[i]);
  }
  return true;
}

static bool run_vjp(pulled *p, const nabla_call_rules *rules, size_t count,
                    const MlirValue *saved) {
  MlirValue given[NABLA_MAX_RESULTS], out[NABLA_MAX_OPERANDS] = {{NULL}};
  nabla_call_rule rule = {
      .rules = rules,
      .op = p->op,
      .name = "vjp",
      .apply = rules->vjp,
      .frame = {
          .given = given, .saved_count = count, .saved = saved, .out = out}};
  for (intptr_t i = 0; i < p->out; i++) {
    given[i] = p->cotangents[i];
    if (!rules->symbolic_zeros && nabla_diff_has(nabla_result_type(p->op, i)))
      given[i] = cotangent_or_zeros(p, i);
  }
  MlirOperation mark = nabla_defining_op(nabla_build_index(&p->r->b, 0));
  const bool good = nabla_call_rule_run(&rule, p->r->b.before) &&
                    nabla_call_rule_is_closed(&rule, mark, p->r->b.before) &&
                    take_cotangents(p, &rule);
  nabla_op_erase(mark);
  return good;
}

static bool by_call_rules(pulled *p, const nabla_call_rules *rules) {
  MlirValue saved[NABLA_MAX_OPERANDS + NABLA_MAX_RESULTS];
  size_t count = 0;
  if (rules->forward) {
    if (!run_forward(p, rules, saved, &count)) return false;
  } else {
    for (intptr_t i = 0; i < p->in; i++)
      saved[count++] = mlirOperationGetOperand(p->op, i);
    for (intptr_t i = 0; i < p->out; i++)
      saved[count++] = mlirOperationGetResult(p->op, i);
  }
  return run_vjp(p, rules, count, saved);
}

bool nabla_reverse_custom_call(nabla_reverse *r, MlirOperation op,
                               const MlirValue *cotangents) {
  pulled p = {.r = r,
              .op = op,
              .callee = op,
              .cotangents = cotangents,
              .in = mlirOperationGetNumOperands(op),
              .out = mlirOperationGetNumResults(op)};
  const nabla_call_rules *rules = nabla_call_rules_find(op);
  bool good = false;
  if (!mlirAttributeIsNull(nabla_function_attribute(op, NABLA_VJP)))
    good = by_rule(&p) && !p.list.failed;
  else if (rules && rules->vjp)
    good = by_call_rules(&p, rules);
  else
    nabla_diff_refuse(op);
  nabla_value_list_deinit(&p.list);
  return good;
}

bool nabla_reverse_call(nabla_reverse *r, MlirOperation op,
                        const MlirValue *cotangents) {
  pulled p = {.r = r,
              .op = op,
              .callee = nabla_callee(r->derived->module, op),
              .cotangents = cotangents,
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
