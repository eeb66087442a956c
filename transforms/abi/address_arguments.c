/* nabla-address-arguments: private functions take buffers of known sizes and
 * strides by the address of their first element; nabla-address-buffers builds
 * the descriptors, from constants. A descriptor is 3 + 2 rank arguments in
 * LLVM: the calls of a derivative passed hundreds, and took most of the time of
 * compiling it. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "transforms/abi/argument_table.h"
#include "transforms/abi/known_buffer.h"
#include "transforms/abi/services.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/ir/values.h"
#include "transforms/passes.h"

/* Of functions while the pass runs: another operation than a call names it, or
 * the arguments that are addresses now. */
#define NAMED "nabla.named"
#define TAKEN "nabla.addresses"

static MlirBlock entry_of(MlirOperation function) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
}

/* ---- functions ---- */

/* A private function with a body, of one block, which calls alone name. */
static bool is_candidate(MlirOperation op) {
  if (!nabla_is(op, "func.func") || !nabla_function_has_body(op) ||
      nabla_op_has(op, NAMED) || nabla_op_has(op, NABLA_KERNEL_MARK))
    return false;
  return nabla_is_private(op) &&
         mlirBlockIsNull(mlirBlockGetNextInRegion(entry_of(op)));
}

/* Whether a function may return `argument`, or a view of it: a caller compares
 * the allocations of two descriptors before it releases one, so that this one
 * stays a descriptor. */
static bool may_return(MlirOperation end, MlirValue argument) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
    MlirValue value = mlirOperationGetOperand(end, i), root;
    if (mlirTypeIsAMemRef(mlirValueGetType(value)) &&
        (!nabla_buffer_root(value, &root) || mlirValueEqual(root, argument)))
      return true;
  }
  return false;
}

static bool take_addresses(MlirOperation function, void *self) {
  (void)self;
  MlirContext context = nabla_op_context(function);
  MlirBlock entry = entry_of(function);
  MlirOperation end = mlirBlockGetTerminator(entry);
  MlirOperation first = mlirBlockGetFirstOperation(entry);
  const intptr_t count = mlirBlockGetNumArguments(entry);
  int64_t *taken = calloc((size_t)count + 1, sizeof *taken);
  intptr_t taken_count = 0;
  bool good = taken != NULL;
  for (intptr_t i = 0; good && i < count; i++) {
    MlirValue old = mlirBlockGetArgument(entry, i);
    MlirType type = mlirValueGetType(old);
    if (!nabla_known_buffer(type) || may_return(end, old)) continue;
    MlirValue address =
        mlirBlockInsertArgument(entry, i, nabla_table_pointer(context),
                                mlirOperationGetLocation(function));
    old = mlirBlockGetArgument(entry, i + 1);
    mlirValueReplaceAllUsesOfWith(
        old, nabla_table_op(first, NABLA_CAST, address, type));
    mlirBlockEraseArgument(entry, (unsigned)i + 1);
    taken[taken_count++] = i;
  }
  if (good && taken_count) {
    mlirOperationSetDiscardableAttributeByName(
        function, nabla_ref(TAKEN),
        mlirDenseI64ArrayGet(context, taken_count, taken));
    good = nabla_function_update_type(function);
  }
  free(taken);
  if (!good) nabla_error_at(function, "nabla-address-arguments: out of memory");
  return good;
}

/* ---- calls ---- */

static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

static bool pass_addresses(MlirOperation call, void *self) {
  MlirOperation callee = nabla_call_callee(*(MlirSymbolTable *)self, call);
  if (mlirOperationIsNull(callee)) return true;
  MlirAttribute taken =
      mlirOperationGetAttributeByName(callee, nabla_ref(TAKEN));
  for (intptr_t i = 0;
       !mlirAttributeIsNull(taken) && i < mlirDenseArrayGetNumElements(taken);
       i++) {
    const intptr_t number = (intptr_t)mlirDenseI64ArrayGetElement(taken, i);
    mlirOperationSetOperand(call, number,
                            nabla_known_buffer_address(
                                call, mlirOperationGetOperand(call, number)));
  }
  return true;
}

/* ---- the pass ---- */

/* Operations that name functions, and how. */
static const struct {
  const char *op, *attribute;
} namers[] = {{"llvm.mlir.addressof", "global_name"},
              {"func.constant", "value"},
              {"llvm.call", "callee"}};
#define NAMERS (sizeof namers / sizeof *namers)

static bool names_function(MlirOperation op) {
  for (size_t i = 0; i < NAMERS; i++)
    if (nabla_is(op, namers[i].op)) return true;
  return false;
}

static bool mark_named(MlirOperation op, void *self) {
  MlirSymbolTable *symbols = self;
  for (size_t i = 0; i < NAMERS; i++) {
    if (!nabla_is(op, namers[i].op)) continue;
    MlirAttribute name =
        mlirOperationGetAttributeByName(op, nabla_ref(namers[i].attribute));
    if (mlirAttributeIsNull(name)) continue;
    MlirOperation function =
        mlirSymbolTableLookup(*symbols, mlirFlatSymbolRefAttrGetValue(name));
    if (!mlirOperationIsNull(function)) nabla_op_mark(function, NAMED);
  }
  return true;
}

static bool is_function(MlirOperation op) {
  return nabla_is(op, "func.func") || nabla_is(op, "llvm.func");
}

static bool unmark(MlirOperation function, void *self) {
  (void)self;
  mlirOperationRemoveDiscardableAttributeByName(function, nabla_ref(TAKEN));
  mlirOperationRemoveDiscardableAttributeByName(function, nabla_ref(NAMED));
  return true;
}

MlirLogicalResult nabla_run_address_arguments(MlirOperation module,
                                              const nablaPassValue *values,
                                              void *prepared) {
  (void)values, (void)prepared;
  static const struct {
    bool (*want)(MlirOperation);
    bool (*change)(MlirOperation, void *);
  } steps[] = {{names_function, mark_named},
               {is_candidate, take_addresses},
               {is_call, pass_addresses},
               {is_function, unmark}};
  MlirSymbolTable symbols = mlirSymbolTableCreate(module);
  MlirLogicalResult result = mlirLogicalResultSuccess();
  for (size_t i = 0;
       i < sizeof steps / sizeof *steps && mlirLogicalResultIsSuccess(result);
       i++)
    result = nabla_ops_each(module, steps[i].want, steps[i].change, &symbols);
  mlirSymbolTableDestroy(symbols);
  return result;
}
