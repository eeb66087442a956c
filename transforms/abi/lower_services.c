/* nabla-lower-services, the last pass, makes compiled code self-contained.
 * Functions that the code needs at run time are called through the table of
 * nabla/services.h, which every function but the kernels takes as its first
 * argument. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/services.h"
#include "transforms/abi/services.h"
#include "transforms/passes.h"

/* services_helpers.mlir */
#include "nabla_services_helpers.inc"

_Static_assert(offsetof(nabla_services, failed) == 16, "services_helpers.mlir");
_Static_assert(offsetof(nabla_services, allocate) == 24,
               "services_helpers.mlir");
_Static_assert(offsetof(nabla_services, release) == 32,
               "services_helpers.mlir");
_Static_assert(offsetof(nabla_services, parallel) == 40,
               "services_helpers.mlir");
_Static_assert(offsetof(nabla_services, fail) == 48, "services_helpers.mlir");
_Static_assert(offsetof(nabla_services, call) == 56, "services_helpers.mlir");
_Static_assert(offsetof(nabla_services, profile) == 64 &&
                   offsetof(nabla_services, size) == 4,
               "services_helpers.mlir");
_Static_assert(offsetof(nabla_services, result) == 72 &&
                   offsetof(nabla_services, part_begin) == 80 &&
                   offsetof(nabla_services, part_end) == 88 &&
                   offsetof(nabla_services, hold) == 96 &&
                   sizeof(nabla_services) == 104,
               "services_helpers.mlir");
_Static_assert(NABLA_SERVICES_ALIGNMENT == 64, "services_helpers.mlir");

#define MAX_OPERANDS 65536 /* operands of a function or call */

/* The function that replaces calls of a declared function. If `may_fail`,
 * services->failed is checked after the call. `size`: the operand that is the
 * size of an allocation, the table being the first; 0: none. */
static const struct {
  const char *declared, *helper;
  int may_fail, size;
} calls[] = {
    {"malloc", "nabla.allocate", 1, 1},
    {"free", "nabla.release", 0, 0},
    {"nabla_parallel", "nabla.parallel", 0, 0},
    {"nabla_require_equal", "nabla.require_equal", 1, 0},
    {"nabla_require_divisors", "nabla.require_divisors", 1, 0},
    {"nabla_custom_call", "nabla.call", 1, 0},
    {"nabla_profile", "nabla.profile", 0, 0},
    {"nabla_hold", "nabla.hold", 0, 0},
    {"nabla_result", "nabla.result", 1, 2},
    {"nabla_part_begin", "nabla.part_begin", 0, 0},
    {"nabla_part_end", "nabla.part_end", 0, 0},
    {"nabla_part_require", "nabla.part_require", 1, 0},
    {"nabla_fill_table", "nabla.fill_table", 0, 0},
};

void nabla_services_refuse(nabla_lowering *l, MlirOperation op,
                           const char *what, MlirStringRef name) {
  char text[512];
  int length = name.length < 256 ? (int)name.length : 256;
  snprintf(text, sizeof text, "'%.*s' %s", length, name.data, what);
  mlirEmitError(mlirOperationGetLocation(op), text);
  l->failed = 1;
}

int nabla_services_taken_by(MlirOperation function) {
  return nabla_is(function, "llvm.func") && nabla_function_has_body(function) &&
         !nabla_op_has(function, NABLA_KERNEL_MARK) &&
         !nabla_op_has(function, NABLA_ENTRY_MARK) &&
         !nabla_op_has(function, NABLA_HELPER_MARK);
}

MlirOperation nabla_services_target(const nabla_lowering *l, MlirOperation op,
                                    const char *attribute,
                                    MlirStringRef *out_name) {
  MlirAttribute symbol =
      mlirOperationGetAttributeByName(op, nabla_ref(attribute));
  if (mlirAttributeIsNull(symbol) || !mlirAttributeIsAFlatSymbolRef(symbol))
    return (MlirOperation){NULL};
  *out_name = mlirFlatSymbolRefAttrGetValue(symbol);
  return mlirSymbolTableLookup(l->symbols, *out_name);
}

MlirValue nabla_services_call(nabla_lowering *l, MlirBlock block,
                              MlirOperation before, const char *helper,
                              intptr_t count, const MlirValue *operands,
                              MlirType result, MlirLocation location) {
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("llvm.call"), location);
  int32_t segments[] = {(int32_t)count, 0};
  MlirContext context = l->context;
  MlirNamedAttribute attributes[] = {
      nabla_named(context, "callee",
                  mlirFlatSymbolRefAttrGet(context, nabla_ref(helper))),
      nabla_named(context, "operandSegmentSizes",
                  nabla_attribute_integers(context, 2, segments)),
      nabla_named(context, "op_bundle_sizes",
                  nabla_attribute_integers(context, 0, NULL)),
  };
  mlirOperationStateAddOperands(&state, count, operands);
  mlirOperationStateAddAttributes(&state, 3, attributes);
  mlirOperationStateAddResults(&state, 1, &result);
  return mlirOperationGetResult(nabla_op_build(block, before, &state), 0);
}

void nabla_services_each_function(nabla_lowering *l,
                                  void (*visit)(nabla_lowering *,
                                                MlirOperation)) {
  MlirOperation op = mlirBlockGetFirstOperation(l->body), next;
  for (; !mlirOperationIsNull(op) && !l->failed; op = next) {
    next = mlirOperationGetNextInBlock(op);
    if (nabla_is(op, "llvm.func")) visit(l, op);
  }
}

/* ---- the services argument ---- */

/* Prepends an empty entry to the attributes of the arguments. */
static void shift_attributes(nabla_lowering *l, MlirOperation op) {
  MlirAttribute old =
      mlirOperationGetAttributeByName(op, nabla_ref("arg_attrs"));
  if (mlirAttributeIsNull(old) || !mlirAttributeIsAArray(old)) return;
  intptr_t count = mlirArrayAttrGetNumElements(old);
  MlirAttribute *all = malloc(((size_t)count + 1) * sizeof *all);
  if (!all) {
    l->failed = 1;
    return;
  }
  all[0] = mlirDictionaryAttrGet(l->context, 0, NULL);
  for (intptr_t i = 0; i < count; i++)
    all[i + 1] = mlirArrayAttrGetElement(old, i);
  nabla_op_set(op, "arg_attrs", mlirArrayAttrGet(l->context, count + 1, all));
  free(all);
}

static void add_services(nabla_lowering *l, MlirOperation function) {
  if (!nabla_services_taken_by(function)) return;
  MlirType old = nabla_function_type(function);
  intptr_t count = mlirLLVMFunctionTypeGetNumInputs(old);
  MlirType *inputs = malloc(((size_t)count + 1) * sizeof *inputs);
  if (!inputs) {
    l->failed = 1;
    return;
  }
  inputs[0] = l->pointer;
  for (intptr_t i = 0; i < count; i++)
    inputs[i + 1] = mlirLLVMFunctionTypeGetInput(old, i);
  MlirType type = mlirLLVMFunctionTypeGet(
      mlirLLVMFunctionTypeGetReturnType(old), count + 1, inputs, false);
  free(inputs);
  shift_attributes(l, function);
  nabla_op_set(function, "function_type", mlirTypeAttrGet(type));
  mlirBlockInsertArgument(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0)), 0,
      l->pointer, mlirOperationGetLocation(function));
}

/* Makes `call` pass the services table first, and call `callee`. */
static void pass_services(nabla_function_walk *w, MlirOperation call,
                          MlirStringRef callee) {
  nabla_lowering *l = w->l;
  intptr_t count = mlirOperationGetNumOperands(call);
  if (mlirValueIsNull(w->services)) {
    nabla_services_refuse(l, call, "cannot be called by a kernel", callee);
    return;
  }
  MlirValue *operands = NULL;
  if (count < MAX_OPERANDS)
    operands = malloc(((size_t)count + 1) * sizeof *operands);
  if (!operands) {
    nabla_services_refuse(l, call, "has too many operands", callee);
    return;
  }
  operands[0] = w->services;
  for (intptr_t i = 0; i < count; i++)
    operands[i + 1] = mlirOperationGetOperand(call, i);
  int32_t segments[] = {(int32_t)count + 1, 0};
  shift_attributes(l, call);
  mlirOperationSetOperands(call, count + 1, operands);
  nabla_op_set(call, "operandSegmentSizes",
               nabla_attribute_integers(l->context, 2, segments));
  nabla_op_set(call, "callee", mlirFlatSymbolRefAttrGet(l->context, callee));
  free(operands);
}

/* Removes an empty list of attributes of results: the translation to LLVM IR
 * reads its first entry in functions without results. */
static void drop_empty_list(nabla_lowering *l, MlirOperation function) {
  (void)l;
  MlirAttribute list =
      mlirOperationGetAttributeByName(function, nabla_ref("res_attrs"));
  if (!mlirAttributeIsNull(list) && mlirAttributeIsAArray(list) &&
      !mlirArrayAttrGetNumElements(list))
    mlirOperationRemoveAttributeByName(function, nabla_ref("res_attrs"));
}

/* ---- calls ---- */

static void lower_call(nabla_function_walk *w, MlirOperation call) {
  nabla_lowering *l = w->l;
  MlirStringRef name;
  if (!nabla_op_has(call, "callee")) {
    nabla_services_refuse(l, call, "through a pointer cannot be compiled",
                          nabla_ref("llvm.call"));
    return;
  }
  MlirOperation function = nabla_services_target(l, call, "callee", &name);
  if (mlirOperationIsNull(function)) return; /* reported by the verifier */
  if (nabla_function_has_body(function)) {
    if (nabla_services_taken_by(function)) pass_services(w, call, name);
    return;
  }
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    if (!nabla_text_is(name, calls[i].declared)) continue;
    pass_services(w, call, nabla_ref(calls[i].helper));
    if (l->failed) return;
    if (calls[i].may_fail) nabla_op_mark(call, NABLA_MAY_FAIL_MARK);
    if (calls[i].size) nabla_services_check_size(w, call, calls[i].size);
    return;
  }
  nabla_services_refuse(
      l, call,
      "is not defined in the program: compiled code cannot call it; "
      "nabla.custom_call calls functions that the process registers",
      name);
}

static void check_address(nabla_lowering *l, MlirOperation op) {
  MlirStringRef name;
  MlirOperation symbol = nabla_services_target(l, op, "global_name", &name);
  if (mlirOperationIsNull(symbol)) return;
  if (nabla_is(symbol, "llvm.func") && !nabla_op_has(symbol, NABLA_KERNEL_MARK))
    nabla_services_refuse(l, op, "is no kernel: its address cannot be taken",
                          name);
  if (nabla_is(symbol, "llvm.mlir.global") && !nabla_op_has(symbol, "value") &&
      !nabla_function_has_body(symbol))
    nabla_services_refuse(l, op, "is not defined in the program", name);
}

static int is_lowered(MlirOperation op) {
  MlirStringRef name = nabla_name(op);
  return name.length > 5 && !memcmp(name.data, "llvm.", 5);
}

/* Returns the operation to blame. A cast is left if its user, or the operation
 * that made its operand, was not lowered. */
static MlirOperation left_by(MlirOperation op) {
  if (!nabla_is(op, "builtin.unrealized_conversion_cast")) return op;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(op, i));
    for (; !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
      if (!is_lowered(mlirOpOperandGetOwner(use)))
        return mlirOpOperandGetOwner(use);
  }
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirOperation from = nabla_defining_op(mlirOperationGetOperand(op, i));
    if (!mlirOperationIsNull(from) && !is_lowered(from)) return from;
  }
  return op;
}

static void refuse_left(nabla_lowering *l, MlirOperation op) {
  nabla_error_at(left_by(op),
                 "cannot be compiled, no pass lowers it: use operations of "
                 "nabla (docs/OPS.md), arith, tensor, linalg and scf");
  l->failed = 1;
}

static MlirWalkResult visit(MlirOperation op, void *self) {
  nabla_function_walk *w = self;
  if (!is_lowered(op)) refuse_left(w->l, op);
  if (nabla_is(op, "llvm.call"))
    lower_call(w, op);
  else if (nabla_is(op, "llvm.invoke"))
    nabla_services_refuse(w->l, op, "cannot be compiled",
                          nabla_ref("llvm.invoke"));
  else if (nabla_is(op, "llvm.mlir.addressof"))
    check_address(w->l, op);
  return w->l->failed ? MlirWalkResultInterrupt : MlirWalkResultAdvance;
}

static void lower_calls(nabla_lowering *l, MlirOperation function) {
  if (!nabla_function_has_body(function) ||
      nabla_op_has(function, NABLA_HELPER_MARK))
    return;
  nabla_function_walk w = {.l = l, .function = function};
  if (nabla_services_taken_by(function))
    w.services = mlirBlockGetArgument(
        mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0)), 0);
  mlirOperationWalk(function, visit, &w, MlirWalkPreOrder);
}

/* ---- the pass ---- */

static void add_helpers(nabla_lowering *l) {
  MlirModule helpers =
      mlirModuleCreateParse(l->context, nabla_ref(nabla_services_helpers));
  if (mlirModuleIsNull(helpers)) {
    l->failed = 1;
    return;
  }
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(helpers));
  while (!mlirOperationIsNull(op) && !l->failed) {
    MlirOperation next = mlirOperationGetNextInBlock(op);
    MlirStringRef name = nabla_symbol_name(op);
    MlirOperation taken = mlirSymbolTableLookup(l->symbols, name);
    if (!mlirOperationIsNull(taken))
      nabla_services_refuse(l, taken, "is a name of the runtime", name);
    mlirOperationRemoveFromParent(op);
    mlirBlockAppendOwnedOperation(l->body, op);
    op = next;
  }
  mlirModuleDestroy(helpers);
}

/* Checks that a module contains only functions and data: no aliases,
 * constructors or other top-level operations of LLVM. */
static void check_top_level(nabla_lowering *l) {
  MlirOperation op = mlirBlockGetFirstOperation(l->body);
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (!nabla_is(op, "llvm.func") && !nabla_is(op, "llvm.mlir.global"))
      nabla_services_refuse(l, op,
                            "cannot stand at the top level of compiled code",
                            mlirIdentifierStr(mlirOperationGetName(op)));
}

MlirLogicalResult nabla_run_lower_services(MlirOperation module,
                                           const nablaPassValue *values,
                                           void *prepared) {
  (void)values, (void)prepared;
  if (nabla_op_has(module, NABLA_LOWERED_MARK))
    return mlirLogicalResultSuccess();
  MlirContext context = mlirOperationGetContext(module);
  nabla_lowering l = {
      .context = context,
      .module = module,
      .body = mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0)),
      .symbols = mlirSymbolTableCreate(module),
      .pointer = mlirLLVMPointerTypeGet(context, 0),
      .boolean = mlirIntegerTypeGet(context, 1),
  };
  check_top_level(&l);
  if (!l.failed) add_helpers(&l);
  mlirSymbolTableDestroy(l.symbols);
  l.symbols = mlirSymbolTableCreate(module);
  nabla_services_each_function(&l, drop_empty_list);
  nabla_services_each_function(&l, add_services);
  nabla_services_each_function(&l, lower_calls);
  if (!l.failed) nabla_services_check_failures(&l);
  if (!l.failed) nabla_services_add_entries(&l);
  mlirSymbolTableDestroy(l.symbols);
  if (l.failed) return mlirLogicalResultFailure();
  nabla_op_mark(module, NABLA_LOWERED_MARK);
  return mlirLogicalResultSuccess();
}
