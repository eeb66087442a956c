/* nabla-order-constants: names the constants that bufferization made, and puts
 * them in the module, in the order in which functions use them. Upstream
 * bufferizes functions in the order of their addresses in memory, so that the
 * same program became other bytes from run to run. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>

#include "transforms/ir/ir.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/passes.h"

/* The new name of a constant that was already met. */
#define RENAMED "nabla.renamed"

typedef struct constants {
  MlirSymbolTable symbols; /* by the names before */
  MlirOperation next;      /* what follows them in the module */
  size_t count;
} constants;

static bool is_use(MlirOperation op) {
  return nabla_is(op, "memref.get_global");
}

static bool is_renamed(MlirOperation op) { return nabla_op_has(op, RENAMED); }

/* Whether bufferization made a global array. */
static bool is_constant(MlirOperation global) {
  return !mlirOperationIsNull(global) && nabla_is(global, "memref.global") &&
         nabla_text_starts(nabla_symbol_name(global), "__constant_");
}

/* Names a global array by a number that no symbol has, and moves it behind
 * those that were named before. */
static MlirAttribute name_constant(constants *c, MlirOperation global) {
  char name[sizeof "nabla_constant_" + 24];
  do snprintf(name, sizeof name, "nabla_constant_%zu", c->count++);
  while (
      !mlirOperationIsNull(mlirSymbolTableLookup(c->symbols, nabla_ref(name))));
  MlirAttribute reference =
      mlirFlatSymbolRefAttrGet(nabla_op_context(global), nabla_ref(name));
  mlirOperationSetDiscardableAttributeByName(global, nabla_ref(RENAMED),
                                             reference);
  mlirOperationMoveBefore(global, c->next);
  return reference;
}

static bool use(MlirOperation op, void *self) {
  constants *c = self;
  const MlirAttribute name =
      mlirOperationGetInherentAttributeByName(op, nabla_ref("name"));
  MlirOperation global =
      mlirSymbolTableLookup(c->symbols, mlirFlatSymbolRefAttrGetValue(name));
  if (!is_constant(global)) return true;
  MlirAttribute reference =
      mlirOperationGetDiscardableAttributeByName(global, nabla_ref(RENAMED));
  if (mlirAttributeIsNull(reference)) reference = name_constant(c, global);
  mlirOperationSetInherentAttributeByName(op, nabla_ref("name"), reference);
  return true;
}

static bool finish(MlirOperation global, void *self) {
  (void)self;
  const MlirAttribute reference =
      mlirOperationGetDiscardableAttributeByName(global, nabla_ref(RENAMED));
  mlirOperationSetInherentAttributeByName(
      global, nabla_ref("sym_name"),
      mlirStringAttrGet(nabla_op_context(global),
                        mlirFlatSymbolRefAttrGetValue(reference)));
  mlirOperationRemoveDiscardableAttributeByName(global, nabla_ref(RENAMED));
  return true;
}

MlirLogicalResult nabla_run_order_constants(MlirOperation module,
                                            const nablaPassValue *values,
                                            void *prepared) {
  (void)values, (void)prepared;
  constants c = {.symbols = mlirSymbolTableCreate(module),
                 .next = mlirBlockGetFirstOperation(
                     mlirModuleGetBody(mlirModuleFromOperation(module)))};
  while (is_constant(c.next)) c.next = mlirOperationGetNextInBlock(c.next);
  MlirLogicalResult result = nabla_ops_each(module, is_use, use, &c);
  if (mlirLogicalResultIsSuccess(result))
    result = nabla_ops_each(module, is_renamed, finish, NULL);
  mlirSymbolTableDestroy(c.symbols);
  return result;
}
