/* Batches of func.call: the function that is called is batched once for each
 * list of types of its arguments. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "transforms/batching/batching.h"

static MlirOperation callee_of(const nabla_batching *s, MlirOperation call) {
  MlirOperation none = {NULL};
  MlirAttribute name =
      mlirOperationGetAttributeByName(call, nabla_ref("callee"));
  for (MlirOperation op =
           mlirBlockGetFirstOperation(nabla_region_block(s->run->module, 0));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    MlirAttribute own =
        mlirOperationGetAttributeByName(op, nabla_ref("sym_name"));
    if (nabla_is(op, "func.func") &&
        mlirStringRefEqual(mlirStringAttrGetValue(own),
                           mlirFlatSymbolRefAttrGetValue(name)))
      return op;
  }
  return none;
}

static bool is_same(const nabla_batched_function *f, MlirOperation callee,
                    intptr_t count, const MlirType *types,
                    const bool *batched) {
  bool same = mlirOperationEqual(f->callee, callee) && f->arguments == count;
  for (intptr_t i = 0; same && i < count; i++)
    same = mlirTypeEqual(f->types[i], types[i]) && f->takes[i] == batched[i];
  return same;
}

/* Makes the function of a batch; NULL after an error. */
static nabla_batched_function *make(nabla_batching *s, MlirOperation callee,
                                    intptr_t count, const MlirType *types,
                                    const bool *batched) {
  char name[160];
  intptr_t axes[NABLA_MAX_OPERANDS];
  MlirStringRef own = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(callee, nabla_ref("sym_name")));
  do {
    (void)snprintf(name, sizeof name, "%.*s.vmap.%u",
                   (int)(own.length < 120 ? own.length : 120), own.data,
                   ++s->run->number);
  } while (nabla_module_has(s->b.before, name) ||
           nabla_module_has(callee, name));
  nabla_batched_function *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  *f = (nabla_batched_function){.callee = callee, .arguments = count};
  for (intptr_t i = 0; i < count; i++) {
    f->types[i] = types[i];
    f->takes[i] = batched[i];
    axes[i] = batched[i] ? 0 : NABLA_BATCH_NO_AXIS;
  }
  nabla_batch_function how = {.function = callee,
                              .name = name,
                              .is_private = true,
                              .size = s->size,
                              .in_axes = axes,
                              .types = f->types,
                              .out_batched = f->batched};
  f->made = nabla_batch_make(s->run, &how);
  if (mlirOperationIsNull(f->made)) {
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
    types[i] = mlirValueGetType(to.value);
    batched[i] = to.batched;
  }
  nabla_batched_function *f = s->run->functions;
  while (f && !is_same(f, callee, count, types, batched)) f = f->next;
  if (!f) f = make(s, callee, count, types, batched);
  return f && call(s, op, f, operands);
}
