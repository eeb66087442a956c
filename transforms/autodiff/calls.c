/* See calls.h: functions that are called, and what their attributes say. */
#include "transforms/autodiff/calls.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "transforms/autodiff/forward.h"
#include "transforms/autodiff/reverse.h"

MlirType nabla_callee_type(MlirOperation function) {
  return mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type")));
}

MlirAttribute nabla_function_attribute(MlirOperation function,
                                       const char *key) {
  return mlirOperationGetAttributeByName(function, nabla_ref(key));
}

/* Types and name of a function, or of a custom call that has rules. */
static bool is_function(MlirOperation op) { return nabla_is(op, "func.func"); }

static intptr_t input_count(MlirOperation op) {
  return is_function(op) ? mlirFunctionTypeGetNumInputs(nabla_callee_type(op))
                         : mlirOperationGetNumOperands(op);
}
static intptr_t result_count(MlirOperation op) {
  return is_function(op) ? mlirFunctionTypeGetNumResults(nabla_callee_type(op))
                         : mlirOperationGetNumResults(op);
}
static MlirType input(MlirOperation op, intptr_t index) {
  return is_function(op)
             ? mlirFunctionTypeGetInput(nabla_callee_type(op), index)
             : nabla_operand_type(op, index);
}
static MlirType result(MlirOperation op, intptr_t index) {
  return is_function(op)
             ? mlirFunctionTypeGetResult(nabla_callee_type(op), index)
             : nabla_result_type(op, index);
}

static MlirStringRef symbol(MlirOperation op) {
  return mlirStringAttrGetValue(
      nabla_function_attribute(op, is_function(op) ? "sym_name" : "target"));
}

MlirOperation nabla_build_call(MlirOperation before, MlirOperation function,
                               intptr_t count, const MlirValue *operands) {
  MlirContext context = nabla_op_context(before);
  const intptr_t results = result_count(function);
  MlirType *types = calloc((size_t)results + 1, sizeof *types);
  MlirOperation call = {NULL};
  bool good = types != NULL;
  for (intptr_t i = 0; i < count; i++)
    good = good && !mlirValueIsNull(operands[i]);
  if (good) {
    for (intptr_t i = 0; i < results; i++) types[i] = result(function, i);
    MlirNamedAttribute callee = nabla_named(
        context, "callee", mlirFlatSymbolRefAttrGet(context, symbol(function)));
    nabla_op_spec spec = {"func.call", count, operands, results,
                          types,       1,     &callee};
    call = nabla_op_create(before, &spec);
  }
  free(types);
  return call;
}

/* ---- derivatives that were made ---- */

static MlirOperation make(nabla_derived *d, MlirOperation function,
                          const char *kind, const bool *arguments,
                          const bool *results) {
  const bool reverse = !strcmp(kind, "pullback");
  const intptr_t count = input_count(function);
  nabla_wrt *wrt = calloc((size_t)count + 1, sizeof *wrt);
  MlirOperation made = {NULL};
  if (!wrt) return made;
  nabla_derive how = {.function = function,
                      .wrt = wrt,
                      .results = results,
                      .only = reverse,
                      .suffix = kind};
  for (intptr_t i = 0; i < count; i++)
    if (arguments[i]) wrt[how.count++] = (nabla_wrt){i, 0};
  MlirBlock entry =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  if (mlirBlockIsNull(entry) ||
      !mlirBlockIsNull(mlirBlockGetNextInRegion(entry)))
    nabla_error_at(function,
                   "has no derivative: it has %s; give it the attribute "
                   "nabla.vjp or nabla.jvp",
                   mlirBlockIsNull(entry) ? "no body" : "several blocks");
  else
    made = reverse ? nabla_derive_vjp(d, &how) : nabla_derive_jvp(d, &how);
  free(wrt);
  return made;
}

MlirOperation nabla_derived_find(nabla_derived *d, MlirOperation function,
                                 const char *kind, const bool *arguments,
                                 const bool *results) {
  const size_t in = (size_t)input_count(function);
  const size_t out = (size_t)result_count(function);
  for (size_t i = 0; i < d->count; i++)
    if (mlirOperationEqual(d->rows[i].function, function) &&
        !strcmp(d->rows[i].kind, kind) &&
        !memcmp(d->rows[i].mask, arguments, in) &&
        !memcmp(d->rows[i].mask + in, results, out))
      return d->rows[i].made;
  MlirOperation made = make(d, function, kind, arguments, results);
  if (mlirOperationIsNull(made) ||
      nabla_derived_add(d, function, kind, made, in, arguments, out, results))
    return made;
  return (MlirOperation){NULL};
}

bool nabla_derived_add(nabla_derived *d, MlirOperation function,
                       const char *kind, MlirOperation made, size_t in,
                       const bool *arguments, size_t out, const bool *results) {
  void *rows = realloc(d->rows, (d->count + 1) * sizeof *d->rows);
  bool *mask = calloc(in + out + 1, sizeof *mask);
  if (rows) d->rows = rows;
  if (!rows || !mask) {
    free(mask);
    return false;
  }
  memcpy(mask, arguments, in);
  memcpy(mask + in, results, out);
  d->rows[d->count++] = (struct nabla_derived_row){function, made, kind, mask};
  return true;
}

/* ---- functions that are rules ---- */

/* Function `index` that the attribute `key` of a function names. */
static MlirOperation rule_at(nabla_derived *d, MlirOperation function,
                             const char *key, intptr_t index, intptr_t count,
                             const char *form) {
  MlirAttribute value = nabla_function_attribute(function, key);
  MlirOperation rule = {NULL};
  const bool is_list = count > 1;
  bool good = is_list ? mlirAttributeIsAArray(value) &&
                            mlirArrayAttrGetNumElements(value) == count
                      : true;
  MlirAttribute name =
      good && is_list ? mlirArrayAttrGetElement(value, index) : value;
  if (!good || !mlirAttributeIsAFlatSymbolRef(name)) {
    nabla_error_at(function, "has the attribute %s, which is %s", key, form);
    return rule;
  }
  MlirStringRef text = mlirFlatSymbolRefAttrGetValue(name);
  rule = nabla_function_named(d->module, text);
  if (mlirOperationIsNull(rule))
    nabla_error_at(function, "has %s with @%.*s, which there is not", key,
                   (int)text.length, text.data);
  return rule;
}

static MlirOperation wrong(MlirOperation rule, MlirOperation function,
                           const char *what) {
  MlirStringRef name = symbol(function);
  nabla_error_at(rule, "is a rule for the derivative of @%.*s, but %s",
                 (int)name.length, name.data, what);
  return (MlirOperation){NULL};
}

/* Whether `rule` takes the arguments of `function`, then `more`, and gives its
 * results first. */
static bool begins_alike(MlirOperation rule, MlirOperation function,
                         intptr_t more) {
  const intptr_t in = input_count(function), out = result_count(function);
  bool same =
      (more < 0 ? input_count(rule) == in : input_count(rule) == in + more) &&
      result_count(rule) >= out;
  for (intptr_t i = 0; same && i < in; i++)
    same = mlirTypeEqual(input(rule, i), input(function, i));
  for (intptr_t i = 0; same && i < out; i++)
    same = mlirTypeEqual(result(rule, i), result(function, i));
  return same;
}

#define VJP_FORM "[@forward, @backward]"

MlirOperation nabla_rule_forward(nabla_derived *d, MlirOperation function) {
  MlirOperation rule = rule_at(d, function, NABLA_VJP, 0, 2, VJP_FORM);
  if (mlirOperationIsNull(rule) || begins_alike(rule, function, -1))
    return rule;
  return wrong(rule, function,
               "does not take its arguments and return its results, followed "
               "by what the backward function needs");
}

/* Packed arguments have no cotangent. */
static bool is_dense_float(MlirType type) {
  return !nablaTypeIsAImplicit(type) && nabla_diff_has(type);
}

MlirOperation nabla_rule_backward(nabla_derived *d, MlirOperation function) {
  MlirOperation forward = nabla_rule_forward(d, function);
  if (mlirOperationIsNull(forward)) return forward;
  MlirOperation rule = rule_at(d, function, NABLA_VJP, 1, 2, VJP_FORM);
  if (mlirOperationIsNull(rule)) return rule;
  const intptr_t out = result_count(function);
  intptr_t at = 0;
  bool same = true;
  for (intptr_t i = out; same && i < result_count(forward); i++, at++)
    same = at < input_count(rule) &&
           mlirTypeEqual(input(rule, at), result(forward, i));
  if (!same)
    return wrong(rule, function,
                 "does not take first what the forward function saves");
  for (intptr_t i = 0; same && i < out; i++) {
    if (!nabla_diff_has(result(function, i))) continue;
    same =
        at < input_count(rule) &&
        mlirTypeEqual(input(rule, at++), nabla_dense_type(result(function, i)));
  }
  if (!same || at != input_count(rule))
    return wrong(rule, function,
                 "does not take a cotangent for each result that is an array "
                 "of floats behind what is saved");
  at = 0;
  for (intptr_t i = 0; same && i < input_count(function); i++) {
    if (!is_dense_float(input(function, i))) continue;
    same = at < result_count(rule) &&
           mlirTypeEqual(result(rule, at++), input(function, i));
  }
  if (same && at == result_count(rule)) return rule;
  return wrong(rule, function,
               "does not return a cotangent of the type of each argument that "
               "is a tensor of floats");
}

MlirOperation nabla_rule_jvp(nabla_derived *d, MlirOperation function) {
  MlirOperation rule = rule_at(d, function, NABLA_JVP, 0, 1, "@function");
  if (mlirOperationIsNull(rule)) return rule;
  const intptr_t in = input_count(function), out = result_count(function);
  intptr_t tangents = 0, at = out;
  for (intptr_t i = 0; i < in; i++)
    tangents += is_dense_float(input(function, i));
  bool same = begins_alike(rule, function, tangents);
  for (intptr_t i = 0, j = in; same && i < in; i++)
    if (is_dense_float(input(function, i)))
      same = mlirTypeEqual(input(rule, j++), input(function, i));
  for (intptr_t i = 0; same && i < out; i++) {
    if (!nabla_diff_has(result(function, i))) continue;
    same = at < result_count(rule) &&
           mlirTypeEqual(result(rule, at++),
                         nabla_dense_type(result(function, i)));
  }
  if (same && at == result_count(rule)) return rule;
  return wrong(rule, function,
               "does not take its arguments and a tangent for each that is a "
               "tensor of floats, and return its results and a tangent for "
               "each that is an array of floats");
}

typedef struct checking {
  nabla_derived *d;
  bool good;
} checking;

static MlirWalkResult check_rules(MlirOperation op, void *self) {
  checking *c = self;
  if (!is_function(op) && !nabla_is(op, "nabla.custom_call"))
    return MlirWalkResultAdvance;
  if (!mlirAttributeIsNull(nabla_function_attribute(op, NABLA_VJP)))
    c->good = !mlirOperationIsNull(nabla_rule_backward(c->d, op)) && c->good;
  if (!mlirAttributeIsNull(nabla_function_attribute(op, NABLA_JVP)))
    c->good = !mlirOperationIsNull(nabla_rule_jvp(c->d, op)) && c->good;
  return MlirWalkResultAdvance;
}

bool nabla_rules_check(nabla_derived *d) {
  checking c = {d, true};
  mlirOperationWalk(d->module, check_rules, &c, MlirWalkPreOrder);
  return c.good;
}
