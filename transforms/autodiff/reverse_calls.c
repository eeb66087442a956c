/* Cotangents of what calls take. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>

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
  p->list.count = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(forward); i++)
    add(p, mlirOperationGetResult(forward, i));
  nabla_derived_replace(d, p->op, p->list.values);
  p->list.count = 0;
  for (intptr_t i = p->out; i < mlirOperationGetNumResults(forward); i++)
    add(p, mlirOperationGetResult(forward, i));
  for (intptr_t i = 0; i < p->out; i++)
    if (nabla_diff_has(nabla_result_type(p->op, i)))
      add(p, cotangent_or_zeros(p, i));
  MlirOperation call = nabla_build_call(
      p->r->b.before, backward, (intptr_t)p->list.count, p->list.values);
  if (mlirOperationIsNull(call)) return false;
  for (intptr_t i = 0, at = 0; i < p->in; i++) {
    MlirValue x = mlirOperationGetOperand(p->op, i);
    if (nablaTypeIsAImplicit(mlirValueGetType(x)) ||
        !nabla_diff_has(mlirValueGetType(x)))
      continue;
    nabla_reverse_add(p->r, x, mlirOperationGetResult(call, at++));
  }
  return true;
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
