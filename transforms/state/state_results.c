/* nabla-state-results: removes the results that are states, after bufferization
 * has put them into the memory of their arguments. Refuses the program where it
 * has not, or where it copies a state: that is never what a program asks for.
 */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "transforms/passes.h"
#include "transforms/state/state.h"

static MlirAttribute attribute(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nabla_ref(name));
}

static MlirOperation return_of(MlirOperation function) {
  return mlirBlockGetTerminator(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0)));
}

#define DEPTH_MAX 64 /* of loops and branches */

static MlirValue buffer_of(MlirValue value, int depth);

/* What a terminator in region `region` of `op` hands on as result `index`. */
static MlirValue handed_on(MlirOperation op, intptr_t region, intptr_t index,
                           int depth) {
  MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, region));
  return buffer_of(
      mlirOperationGetOperand(mlirBlockGetTerminator(block), index), depth + 1);
}

/* The buffer that a loop or a branch gives, if it is one from outside. */
static MlirValue buffer_from(MlirOperation op, MlirValue result, int depth) {
  const intptr_t index = mlirOpResultGetResultNumber(result);
  if (nabla_is(op, "scf.for")) {
    MlirValue first = buffer_of(mlirOperationGetOperand(op, 3 + index), depth);
    return mlirValueEqual(handed_on(op, 0, index, depth), first) ? first
                                                                 : result;
  }
  if (nabla_is(op, "scf.while")) {
    MlirValue first = handed_on(op, 0, 1 + index, depth);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
      if (mlirValueEqual(buffer_of(mlirOperationGetOperand(op, i), depth + 1),
                         first) &&
          mlirValueEqual(handed_on(op, 1, i, depth), first))
        return first;
    return result;
  }
  MlirValue yes = handed_on(op, 0, index, depth);
  return mlirValueEqual(yes, handed_on(op, 1, index, depth)) ? yes : result;
}

/* What argument `index` of a block of a while begins as: the body's are what
 * the condition hands on. */
static MlirValue begun_as(MlirOperation loop, MlirBlock block, intptr_t index) {
  MlirBlock first = mlirRegionGetFirstBlock(mlirOperationGetRegion(loop, 0));
  if (mlirBlockEqual(block, first)) return mlirOperationGetOperand(loop, index);
  return mlirOperationGetOperand(mlirBlockGetTerminator(first), 1 + index);
}

/* The buffer that `value` is another name or type of. */
static MlirValue buffer_of(MlirValue value, int depth) {
  for (; depth < DEPTH_MAX; depth++) {
    MlirOperation op = nabla_defining_op(value);
    if (mlirOperationIsNull(op)) { /* what a loop carries began outside */
      MlirOperation loop =
          mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(value));
      const intptr_t index = mlirBlockArgumentGetArgNumber(value);
      if (nabla_is(loop, "scf.for") && index > 0)
        value = mlirOperationGetOperand(loop, 2 + index);
      else if (nabla_is(loop, "scf.while"))
        value = begun_as(loop, mlirBlockArgumentGetOwner(value), index);
      else
        return value;
    } else if (nabla_is(op, "memref.cast")) {
      value = mlirOperationGetOperand(op, 0);
    } else if (nabla_is(op, "scf.for") || nabla_is(op, "scf.if") ||
               nabla_is(op, "scf.while")) {
      return buffer_from(op, value, depth + 1);
    } else {
      return value;
    }
  }
  return value;
}

static MlirValue origin(MlirValue value) { return buffer_of(value, 0); }

/* Whether a buffer came with an argument, of its own or in a table. */
static bool is_argument(MlirValue value) {
  value = origin(value);
  return mlirValueIsABlockArgument(value) ||
         nabla_is(nabla_defining_op(value), NABLA_CAST);
}

/* ---- copies ---- */

static bool is_copy(MlirOperation op) { return nabla_is(op, "memref.copy"); }

/* The name of the state whose memory `value` is, as an argument of the function
 * or in its table; data is NULL for other memory. */
static MlirStringRef state_of(MlirOperation function, MlirValue value) {
  const MlirStringRef none = {NULL, 0};
  MlirAttribute name;
  value = origin(value);
  if (!mlirValueIsABlockArgument(value)) {
    name = attribute(nabla_defining_op(value), NABLA_STATE);
    return mlirAttributeIsNull(name) ? none : mlirStringAttrGetValue(name);
  }
  MlirBlock block = mlirBlockArgumentGetOwner(value);
  if (!mlirOperationEqual(mlirBlockGetParentOperation(block), function))
    return none;
  return nabla_state_name(function, NABLA_ARGUMENTS,
                          mlirBlockArgumentGetArgNumber(value));
}

/* Refuses copies of a whole state to memory that was allocated for it. */
static bool check_copies(MlirOperation function) {
  nabla_op_list copies = nabla_ops_collect(function, is_copy);
  bool good = !copies.failed;
  for (size_t i = 0; good && i < copies.count; i++) {
    MlirOperation op = copies.ops[i];
    MlirValue to = origin(mlirOperationGetOperand(op, 1));
    MlirStringRef name = state_of(function, mlirOperationGetOperand(op, 0));
    if (!name.data || !nabla_is(nabla_defining_op(to), "memref.alloc"))
      continue;
    nabla_error_at(op,
                   "would copy the state '%.*s': something reads its old value "
                   "after this operation writes a part of it; read it before",
                   name.length < 100 ? (int)name.length : 100, name.data);
    good = false;
  }
  nabla_op_list_deinit(&copies);
  return good;
}

/* A store of a state to its own memory, where it is already. */
static bool is_self_copy(MlirOperation op) {
  return is_copy(op) && mlirValueEqual(origin(mlirOperationGetOperand(op, 0)),
                                       origin(mlirOperationGetOperand(op, 1)));
}

static bool erase(MlirOperation op, void *unused) {
  (void)unused;
  nabla_op_erase(op);
  return true;
}

/* ---- results ---- */

/* The type of a function without the results that are states. */
static MlirType type_without(MlirOperation function, MlirType type) {
  const intptr_t inputs = mlirFunctionTypeGetNumInputs(type);
  const intptr_t results = mlirFunctionTypeGetNumResults(type);
  MlirType *types = calloc((size_t)(inputs + results) + 1, sizeof *types);
  MlirType made = {NULL};
  intptr_t kept = 0;
  if (!types) return made;
  for (intptr_t i = 0; i < inputs; i++)
    types[i] = mlirFunctionTypeGetInput(type, i);
  for (intptr_t i = 0; i < results; i++)
    if (!nabla_state_name(function, NABLA_RESULTS, i).data)
      types[inputs + kept++] = mlirFunctionTypeGetResult(type, i);
  made = mlirFunctionTypeGet(nabla_op_context(function), inputs, types, kept,
                             types + inputs);
  free(types);
  return made;
}

/* Removes the states from the operands of the return. */
static bool drop_operands(MlirOperation function, MlirOperation end) {
  const intptr_t count = mlirOperationGetNumOperands(end);
  MlirValue *kept = calloc((size_t)count + 1, sizeof *kept);
  intptr_t used = 0;
  if (!kept) return false;
  for (intptr_t i = 0; i < count; i++)
    if (!nabla_state_name(function, NABLA_RESULTS, i).data)
      kept[used++] = mlirOperationGetOperand(end, i);
  mlirOperationSetOperands(end, used, kept);
  free(kept);
  return true;
}

/* Keeps the attributes of the other results. */
static bool drop_attributes(MlirOperation function) {
  MlirAttribute old = attribute(function, NABLA_RESULTS);
  const intptr_t count = mlirArrayAttrGetNumElements(old);
  MlirAttribute *kept = calloc((size_t)count + 1, sizeof *kept);
  intptr_t used = 0;
  if (!kept) return false;
  for (intptr_t i = 0; i < count; i++)
    if (!nabla_state_name(function, NABLA_RESULTS, i).data)
      kept[used++] = mlirArrayAttrGetElement(old, i);
  mlirOperationSetAttributeByName(
      function, nabla_ref(NABLA_RESULTS),
      mlirArrayAttrGet(nabla_op_context(function), used, kept));
  free(kept);
  return true;
}

static bool has_state_result(MlirOperation op) {
  MlirAttribute all = nabla_is(op, "func.func") ? attribute(op, NABLA_RESULTS)
                                                : mlirAttributeGetNull();
  if (mlirAttributeIsNull(all)) return false;
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(all); i++)
    if (nabla_state_name(op, NABLA_RESULTS, i).data) return true;
  return false;
}

static bool check_results(MlirOperation function, MlirOperation end) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
    MlirStringRef name = nabla_state_name(function, NABLA_RESULTS, i);
    if (!name.data || is_argument(mlirOperationGetOperand(end, i))) continue;
    nabla_error_at(function,
                   "would not write the state '%.*s' in place: something reads "
                   "its old value after it is written; read it before",
                   name.length < 100 ? (int)name.length : 100, name.data);
    return false;
  }
  return true;
}

static bool drop_results(MlirOperation function, void *unused) {
  (void)unused;
  MlirOperation end = return_of(function);
  MlirType type = mlirTypeAttrGetValue(attribute(function, "function_type"));
  if (!check_results(function, end) || !check_copies(function)) return false;
  MlirType made = type_without(function, type);
  if (mlirTypeIsNull(made) || !drop_operands(function, end) ||
      !drop_attributes(function)) {
    nabla_error_at(function, "nabla-state-results: out of memory");
    return false;
  }
  mlirOperationSetAttributeByName(function, nabla_ref("function_type"),
                                  mlirTypeAttrGet(made));
  return true;
}

static bool is_function(MlirOperation op) { return nabla_is(op, "func.func"); }

static bool strip(MlirOperation function, void *unused) {
  (void)unused;
  nabla_state_strip(function, NABLA_ARGUMENTS, NABLA_STATE);
  return true;
}

MlirLogicalResult nabla_run_state_results(MlirOperation module,
                                          const nablaPassValue *values,
                                          void *prepared) {
  (void)values, (void)prepared;
  if (mlirLogicalResultIsFailure(
          nabla_ops_each(module, is_self_copy, erase, NULL)) ||
      mlirLogicalResultIsFailure(
          nabla_ops_each(module, has_state_result, drop_results, NULL)))
    return mlirLogicalResultFailure();
  return nabla_ops_each(module, is_function, strip, NULL);
}
