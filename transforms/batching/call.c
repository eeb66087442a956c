/* Batches of func.call: the function that is called is batched once for each
 * list of types of its arguments. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "transforms/autodiff/calls.h"
#include "transforms/batching/batching.h"

static MlirOperation function_named(const nabla_batching *s,
                                    MlirStringRef name) {
  MlirOperation none = {NULL};
  for (MlirOperation op =
           mlirBlockGetFirstOperation(nabla_region_block(s->run->module, 0));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    MlirAttribute own =
        mlirOperationGetAttributeByName(op, nabla_ref("sym_name"));
    if (nabla_is(op, "func.func") &&
        mlirStringRefEqual(mlirStringAttrGetValue(own), name))
      return op;
  }
  return none;
}

static MlirOperation callee_of(const nabla_batching *s, MlirOperation call) {
  return function_named(
      s, mlirFlatSymbolRefAttrGetValue(
             mlirOperationGetAttributeByName(call, nabla_ref("callee"))));
}

static bool is_same(const nabla_batched_function *f, MlirOperation callee,
                    intptr_t count, const MlirType *types,
                    const bool *batched) {
  bool same = mlirOperationEqual(f->callee, callee) && f->arguments == count;
  for (intptr_t i = 0; same && i < count; i++)
    same = mlirTypeEqual(f->types[i], types[i]) && f->takes[i] == batched[i];
  return same;
}

/* A function of a batch under a name of its own. `out_batched` receives which
 * results are batched; NULL: all are, repeated where they do not differ. */
static MlirOperation make_function(nabla_batching *s, MlirOperation function,
                                   intptr_t count, const MlirType *types,
                                   const bool *batched, bool *out_batched) {
  char name[160];
  intptr_t axes[NABLA_MAX_OPERANDS], out_axes[NABLA_MAX_RESULTS] = {0};
  MlirStringRef own = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("sym_name")));
  do {
    (void)snprintf(name, sizeof name, "%.*s.vmap.%u",
                   (int)(own.length < 120 ? own.length : 120), own.data,
                   ++s->run->number);
  } while (nabla_module_has(s->b.before, name) ||
           nabla_module_has(function, name));
  for (intptr_t i = 0; i < count; i++)
    axes[i] = batched[i] ? 0 : NABLA_BATCH_NO_AXIS;
  nabla_batch_function how = {.function = function,
                              .name = name,
                              .is_private = true,
                              .has_rules = true,
                              .size = s->size,
                              .in_axes = axes,
                              .types = types,
                              .out_axes = out_batched ? NULL : out_axes,
                              .out_batched = out_batched};
  return nabla_batch_make(s->run, &how);
}

/* ---- functions with rules ---- */

static MlirAttribute attribute(MlirOperation op, const char *key) {
  return mlirOperationGetAttributeByName(op, nabla_ref(key));
}

static bool has_rules(MlirOperation function) {
  return !mlirAttributeIsNull(attribute(function, NABLA_VJP)) ||
         !mlirAttributeIsNull(attribute(function, NABLA_JVP));
}

/* Arguments that have a cotangent. */
static bool is_dense_float(MlirType type) {
  return mlirTypeIsARankedTensor(type) &&
         mlirTypeIsAFloat(nabla_array_element(type));
}

static MlirType type_of(MlirOperation function) {
  return mlirTypeAttrGetValue(attribute(function, "function_type"));
}

/* What a rule takes: types, all of them batched but some of the first. */
typedef struct taken {
  intptr_t count;
  MlirType types[NABLA_MAX_OPERANDS];
  bool batched[NABLA_MAX_OPERANDS];
} taken;

static bool take(taken *t, MlirType type, bool batched) {
  if (t->count == NABLA_MAX_OPERANDS || mlirTypeIsNull(type)) return false;
  t->types[t->count] = type;
  t->batched[t->count++] = batched;
  return true;
}

static MlirAttribute make_rule(nabla_batching *s, MlirAttribute symbol,
                               const taken *t, MlirOperation *out) {
  MlirAttribute none = {NULL};
  if (!mlirAttributeIsAFlatSymbolRef(symbol)) return none;
  MlirOperation rule = function_named(s, mlirFlatSymbolRefAttrGetValue(symbol));
  if (mlirOperationIsNull(rule) ||
      mlirFunctionTypeGetNumInputs(type_of(rule)) != t->count)
    return none;
  *out = make_function(s, rule, t->count, t->types, t->batched, NULL);
  if (mlirOperationIsNull(*out)) return none;
  return mlirFlatSymbolRefAttrGet(
      nabla_op_context(rule),
      mlirStringAttrGetValue(attribute(*out, "sym_name")));
}

static bool batch_vjp(nabla_batching *s, const nabla_batched_function *f,
                      MlirAttribute pair) {
  MlirAttribute names[2];
  MlirOperation forward, backward;
  taken first = {0}, second = {0};
  bool good =
      mlirAttributeIsAArray(pair) && mlirArrayAttrGetNumElements(pair) == 2;
  for (intptr_t i = 0; good && i < f->arguments; i++)
    good = take(&first, f->types[i], f->takes[i]);
  if (!good) return false;
  names[0] = make_rule(s, mlirArrayAttrGetElement(pair, 0), &first, &forward);
  if (mlirAttributeIsNull(names[0])) return false;
  const MlirType type = type_of(f->callee), saves = type_of(forward);
  const intptr_t results = mlirFunctionTypeGetNumResults(type);
  for (intptr_t i = results; good && i < mlirFunctionTypeGetNumResults(saves);
       i++)
    good = take(&second, mlirFunctionTypeGetResult(saves, i), true);
  for (intptr_t i = 0; good && i < results; i++) {
    MlirType dense = nabla_dense_type(mlirFunctionTypeGetResult(type, i));
    if (is_dense_float(dense))
      good = take(&second, nabla_batch_type(s, dense), true);
  }
  if (!good) return false;
  names[1] = make_rule(s, mlirArrayAttrGetElement(pair, 1), &second, &backward);
  if (mlirAttributeIsNull(names[1])) return false;
  mlirOperationSetAttributeByName(
      f->made, nabla_ref(NABLA_VJP),
      mlirArrayAttrGet(nabla_op_context(f->made), 2, names));
  return true;
}

static bool batch_jvp(nabla_batching *s, const nabla_batched_function *f,
                      MlirAttribute symbol) {
  MlirOperation made;
  taken t = {0};
  bool good = true;
  for (intptr_t i = 0; good && i < f->arguments; i++)
    good = take(&t, f->types[i], f->takes[i]);
  for (intptr_t i = 0; good && i < f->arguments; i++)
    if (is_dense_float(f->types[i])) good = take(&t, f->types[i], true);
  if (!good) return false;
  MlirAttribute name = make_rule(s, symbol, &t, &made);
  if (mlirAttributeIsNull(name)) return false;
  mlirOperationSetAttributeByName(f->made, nabla_ref(NABLA_JVP), name);
  return true;
}

/* The rules of a batch are batches of the rules. */
static bool batch_rules(nabla_batching *s, nabla_batched_function *f) {
  static const char *const kept[] = {"no_inline", NABLA_SYMBOLIC_ZEROS};
  MlirAttribute vjp = attribute(f->callee, NABLA_VJP);
  MlirAttribute jvp = attribute(f->callee, NABLA_JVP);
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (!mlirAttributeIsNull(attribute(f->callee, kept[i])))
      mlirOperationSetAttributeByName(f->made, nabla_ref(kept[i]),
                                      attribute(f->callee, kept[i]));
  for (intptr_t i = 0; i < NABLA_MAX_RESULTS; i++) f->batched[i] = true;
  if ((mlirAttributeIsNull(vjp) || batch_vjp(s, f, vjp)) &&
      (mlirAttributeIsNull(jvp) || batch_jvp(s, f, jvp)))
    return true;
  nabla_error_at(f->callee,
                 "nabla-vmap: has a derivative of its own, whose functions "
                 "cannot be batched: run nabla-vjp (nabla-jvp) before");
  return false;
}

/* Makes the function of a batch; NULL after an error. */
static nabla_batched_function *make(nabla_batching *s, MlirOperation callee,
                                    intptr_t count, const MlirType *types,
                                    const bool *batched) {
  nabla_batched_function *f = calloc(1, sizeof *f);
  const bool rules = has_rules(callee);
  if (!f) return NULL;
  *f = (nabla_batched_function){.callee = callee, .arguments = count};
  for (intptr_t i = 0; i < count; i++) {
    f->types[i] = types[i];
    f->takes[i] = batched[i];
  }
  f->made = make_function(s, callee, count, f->types, f->takes,
                          rules ? NULL : f->batched);
  if (mlirOperationIsNull(f->made) || (rules && !batch_rules(s, f))) {
    free(f);
    return NULL;
  }
  f->next = s->run->functions;
  s->run->functions = f;
  return f;
}

static bool call(nabla_batching *s, MlirOperation op,
                 const nabla_batched_function *f, const MlirValue *operands) {
  MlirType results[NABLA_MAX_RESULTS];
  MlirAttribute type =
      mlirOperationGetAttributeByName(f->made, nabla_ref("function_type"));
  MlirAttribute name =
      mlirOperationGetAttributeByName(f->made, nabla_ref("sym_name"));
  intptr_t count = mlirOperationGetNumResults(op);
  for (intptr_t i = 0; i < count; i++)
    results[i] = mlirFunctionTypeGetResult(mlirTypeAttrGetValue(type), i);
  MlirNamedAttribute callee =
      nabla_named(nabla_op_context(op), "callee",
                  mlirFlatSymbolRefAttrGet(nabla_op_context(op),
                                           mlirStringAttrGetValue(name)));
  nabla_batch_copy copy = {.op = op,
                           .operand_count = f->arguments,
                           .operands = operands,
                           .result_count = count,
                           .results = results,
                           .change_count = 1,
                           .changes = &callee};
  MlirOperation made = nabla_batch_copied(s, &copy);
  bool good = !mlirOperationIsNull(made);
  for (intptr_t i = 0; good && i < count; i++)
    good = nabla_batch_set(
        s, mlirOperationGetResult(op, i),
        (nabla_batched){mlirOperationGetResult(made, i), f->batched[i]});
  return good;
}

bool nabla_batch_call(nabla_batching *s, MlirOperation op) {
  MlirValue operands[NABLA_MAX_OPERANDS];
  MlirType types[NABLA_MAX_OPERANDS];
  bool batched[NABLA_MAX_OPERANDS];
  intptr_t count = mlirOperationGetNumOperands(op);
  MlirOperation callee = callee_of(s, op);
  if (mlirOperationIsNull(callee) || count > NABLA_MAX_OPERANDS ||
      mlirOperationGetNumResults(op) > NABLA_MAX_RESULTS) {
    nabla_error_at(op,
                   "nabla-vmap: calls no function of the module, or one with "
                   "more than %d arguments or results",
                   NABLA_MAX_OPERANDS);
    return false;
  }
  for (intptr_t i = 0; i < count; i++) {
    nabla_batched to = nabla_batch_get(s, mlirOperationGetOperand(op, i));
    operands[i] = to.value;
    batched[i] = to.batched;
    if (has_rules(callee) && is_dense_float(nabla_operand_type(op, i))) {
      /* each example has its cotangent */
      operands[i] = nabla_batch_full(s, mlirOperationGetOperand(op, i));
      batched[i] = true;
    }
    if (mlirValueIsNull(operands[i])) return false;
    types[i] = mlirValueGetType(operands[i]);
  }
  nabla_batched_function *f = s->run->functions;
  while (f && !is_same(f, callee, count, types, batched)) f = f->next;
  if (!f) f = make(s, callee, count, types, batched);
  return f && call(s, op, f, operands);
}
