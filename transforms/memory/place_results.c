/* nabla-place-results: an allocation that a public function returns is a
 * donated argument where this can be; others ask the runtime for the memory of
 * that result, which may be the caller's array. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/abi/part_ops.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/memory/donated_results.h"
#include "transforms/passes.h"
#include "transforms/state/state.h"

/* Of a function that others of the module call: its results are not those that
 * a caller of the program asked for. */
#define CALLED "nabla.called"

static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

static bool is_entry(MlirOperation op) {
  MlirAttribute visibility =
      mlirOperationGetAttributeByName(op, nabla_ref("sym_visibility"));
  return nabla_is(op, "func.func") && nabla_function_has_body(op) &&
         (mlirAttributeIsNull(visibility) ||
          nabla_text_is(mlirStringAttrGetValue(visibility), "public"));
}

static bool mark(MlirOperation call, void *self) {
  MlirSymbolTable *symbols = self;
  MlirOperation callee = nabla_call_callee(*symbols, call);
  if (!mlirOperationIsNull(callee)) nabla_op_mark(callee, CALLED);
  return true;
}

/* Whether the runtime may give the memory of `value`, operand `number` of the
 * return `end`: an allocation of the function's block that is returned once,
 * and never released. */
static bool is_result(MlirValue value, MlirOperation end, intptr_t number) {
  MlirOperation op = nabla_defining_op(value);
  if (mlirOperationIsNull(op) || !nabla_is(op, "memref.alloc") ||
      nabla_op_has(op, NABLA_PART_MANUAL) ||
      !mlirBlockEqual(mlirOperationGetBlock(op), mlirOperationGetBlock(end)) ||
      !nabla_part_is_plain(mlirValueGetType(value)))
    return false;
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (nabla_is(user, "memref.dealloc") ||
        (mlirOperationEqual(user, end) &&
         mlirOpOperandGetOperandNumber(use) != (unsigned)number))
      return false;
  }
  return true;
}

/* The module and its functions. */
typedef struct scope {
  MlirOperation module;
  MlirSymbolTable symbols;
} scope;

static bool place_results(MlirOperation function, void *self) {
  const scope *in = self;
  MlirBlock entry =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  if (nabla_op_has(function, CALLED) ||
      !mlirBlockIsNull(mlirBlockGetNextInRegion(entry)))
    return true;
  if (!nabla_donated_results_place(in->symbols, function)) return false;
  MlirOperation end = mlirBlockGetTerminator(entry);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
    MlirValue value = mlirOperationGetOperand(end, i);
    if (!is_result(value, end, i)) continue;
    MlirOperation alloc = nabla_defining_op(value);
    nabla_part_declare(in->module);
    mlirValueReplaceAllUsesOfWith(
        value,
        nabla_part_buffer(alloc, nabla_part_result(alloc, (uint64_t)i), alloc));
    nabla_op_erase(alloc);
  }
  return true;
}

static bool unmark(MlirOperation function, void *self) {
  (void)self;
  mlirOperationRemoveDiscardableAttributeByName(function, nabla_ref(CALLED));
  nabla_state_strip(function, NABLA_ARGUMENTS, NABLA_DONATED);
  return true;
}

MlirLogicalResult nabla_run_place_results(MlirOperation module,
                                          const nablaPassValue *values,
                                          void *prepared) {
  (void)values, (void)prepared;
  scope in = {module, mlirSymbolTableCreate(module)};
  const bool good = mlirLogicalResultIsSuccess(
                        nabla_ops_each(module, is_call, mark, &in.symbols)) &&
                    mlirLogicalResultIsSuccess(
                        nabla_ops_each(module, is_entry, place_results, &in)) &&
                    mlirLogicalResultIsSuccess(
                        nabla_ops_each(module, is_entry, unmark, NULL));
  mlirSymbolTableDestroy(in.symbols);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
