/* nabla-table-results: public functions with more than 16 results store their
 * descriptors in a table, that of the entry point (nabla/services.h), instead
 * of returning them. One structure of many descriptors costs LLVM time that
 * grows with their square, and upstream's deallocation compares each returned
 * buffer with each other one: results ask the runtime for their memory here, so
 * that it sees none. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/encoding/encoding.h"
#include "transforms/abi/argument_table.h"
#include "transforms/abi/part_ops.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/memory/donated_results.h"
#include "transforms/memory/result_arguments.h"
#include "transforms/passes.h"
#include "transforms/state/state.h"

/* The most results that a function returns. */
#define RESULTS_MAX 16

/* The module, its functions, and all calls of them. */
typedef struct scope {
  MlirOperation module;
  MlirSymbolTable symbols;
  nabla_op_list calls;
} scope;

static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

static MlirBlock entry_of(MlirOperation function) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
}

/* A public function of one block, which returns many plain buffers. */
static bool is_wide(MlirOperation op) {
  if (!nabla_is(op, "func.func") || !nabla_function_has_body(op)) return false;
  MlirAttribute visibility =
      mlirOperationGetAttributeByName(op, nabla_ref("sym_visibility"));
  MlirBlock entry = entry_of(op);
  if ((!mlirAttributeIsNull(visibility) &&
       !nabla_text_is(mlirStringAttrGetValue(visibility), "public")) ||
      !mlirBlockIsNull(mlirBlockGetNextInRegion(entry)))
    return false;
  MlirOperation end = mlirBlockGetTerminator(entry);
  const intptr_t count = mlirOperationGetNumOperands(end);
  for (intptr_t i = 0; i < count; i++)
    if (!nabla_part_is_plain(nabla_operand_type(end, i))) return false;
  return count > RESULTS_MAX;
}

/* Whether a function of the module calls `function`. */
static bool is_called(const scope *in, MlirOperation function) {
  MlirAttribute name =
      mlirOperationGetAttributeByName(function, nabla_ref("sym_name"));
  for (size_t i = 0; i < in->calls.count; i++)
    if (mlirStringRefEqual(
            mlirStringAttrGetValue(name),
            mlirFlatSymbolRefAttrGetValue(mlirOperationGetAttributeByName(
                in->calls.ops[i], nabla_ref("callee")))))
      return true;
  return false;
}

/* An allocation of the size of `value`. */
static MlirOperation allocate_like(MlirOperation before, MlirValue value) {
  MlirContext context = nabla_op_context(before);
  MlirType type = mlirValueGetType(value), index = mlirIndexTypeGet(context);
  MlirValue sizes[NABLA_MAX_RANK];
  int32_t segments[] = {0, 0};
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++) {
    if (!mlirShapedTypeIsDynamicDim(type, i)) continue;
    MlirNamedAttribute number =
        nabla_named(context, "value", mlirIntegerAttrGet(index, i));
    nabla_op_spec constant = {"arith.constant", 0, NULL, 1, &index, 1, &number};
    MlirValue operands[] = {
        value, mlirOperationGetResult(nabla_op_create(before, &constant), 0)};
    nabla_op_spec size = {"memref.dim", 2, operands, 1, &index, 0, NULL};
    sizes[segments[0]++] =
        mlirOperationGetResult(nabla_op_create(before, &size), 0);
  }
  MlirNamedAttribute attributes =
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, 2, segments));
  nabla_op_spec spec = {"memref.alloc", segments[0], sizes,      1,
                        &type,          1,           &attributes};
  return nabla_op_create(before, &spec);
}

/* Makes the allocation `alloc` of result `number` memory that the runtime gives
 * for it. */
static void take(MlirOperation alloc, intptr_t number) {
  mlirValueReplaceAllUsesOfWith(
      mlirOperationGetResult(alloc, 0),
      nabla_part_buffer(alloc, nabla_part_result(alloc, (uint64_t)number),
                        alloc));
  nabla_op_erase(alloc);
}

/* Whether `value` is a donated argument, and returned once. */
static bool is_donated(MlirOperation function, MlirValue value,
                       MlirOperation end) {
  MlirOperation op = nabla_defining_op(value);
  const bool donated =
      mlirOperationIsNull(op)
          ? nabla_donated_is(function, mlirBlockArgumentGetArgNumber(value))
          : nabla_is(op, NABLA_CAST) && nabla_op_has(op, NABLA_DONATED);
  intptr_t uses = 0;
  for (intptr_t i = 0; donated && i < mlirOperationGetNumOperands(end); i++)
    uses += mlirValueEqual(mlirOperationGetOperand(end, i), value);
  return donated && uses == 1;
}

/* Gives operand `number` of the return `end` memory of its own: its allocation
 * becomes the result's, other arrays are copied. */
static void settle(MlirOperation function, MlirOperation end, intptr_t number) {
  MlirValue value = mlirOperationGetOperand(end, number);
  MlirOperation root = nabla_result_allocation(entry_of(function), value);
  if (!mlirOperationIsNull(root)) {
    take(root, number);
    return;
  }
  if (is_donated(function, value, end)) return;
  MlirOperation alloc = allocate_like(end, value);
  MlirValue operands[] = {value, mlirOperationGetResult(alloc, 0)};
  nabla_op_spec copy = {"memref.copy", 2, operands, 0, NULL, 0, NULL};
  nabla_op_create(end, &copy);
  mlirOperationSetOperand(end, number, operands[1]);
  take(alloc, number);
}

/* Stores the descriptors of what `end` returns in the table. */
static void fill(MlirOperation module, MlirOperation end, MlirValue table) {
  MlirContext context = nabla_op_context(end);
  MlirType pointer = nabla_table_pointer(context);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
    MlirValue value = mlirOperationGetOperand(end, i);
    MlirValue at = nabla_table_address(end, table, 8 * (int64_t)i);
    MlirValue place = nabla_table_op(end, "llvm.load", at, pointer);
    nabla_table_store(module, end, value, place);
  }
}

static bool table_results(MlirOperation function, void *self) {
  const scope *in = self;
  if (is_called(in, function)) return true;
  if (!nabla_donated_results_place(in->symbols, function)) return false;
  MlirOperation end = mlirBlockGetTerminator(entry_of(function));
  nabla_part_declare(in->module);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++)
    settle(function, end, i);
  fill(in->module, end,
       nabla_function_add_argument(
           function, nabla_table_pointer(nabla_op_context(function))));
  mlirOperationSetOperands(end, 0, NULL);
  mlirOperationRemoveAttributeByName(function, nabla_ref("res_attrs"));
  nabla_op_mark(function, NABLA_RESULT_TABLE_MARK);
  return nabla_function_update_type(function);
}

MlirLogicalResult nabla_run_table_results(MlirOperation module,
                                          const nablaPassValue *values,
                                          void *prepared) {
  (void)values, (void)prepared;
  scope in = {module, mlirSymbolTableCreate(module),
              nabla_ops_collect(module, is_call)};
  const bool good =
      !in.calls.failed && mlirLogicalResultIsSuccess(nabla_ops_each(
                              module, is_wide, table_results, &in));
  nabla_op_list_deinit(&in.calls);
  mlirSymbolTableDestroy(in.symbols);
  return good ? mlirLogicalResultSuccess()
              : nabla_error_at(module, "nabla-table-results: out of memory");
}
