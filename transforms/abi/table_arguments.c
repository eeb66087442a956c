/* nabla-table-arguments: functions that take more than 64 tensors take a table
 * of them (argument_table.h). Five words for each tensor, as arguments of LLVM,
 * cost it time that grows with their square, and so do attributes of arguments
 * in bufferization. Calls of such functions name the buffers in a cast, which
 * nabla-table-calls replaces once buffers are made. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "transforms/abi/argument_table.h"
#include "transforms/ir/functions.h"
#include "transforms/passes.h"
#include "transforms/state/state.h"

static MlirAttribute attribute(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nabla_ref(name));
}

static MlirType function_type(MlirOperation function) {
  return mlirTypeAttrGetValue(attribute(function, "function_type"));
}

static MlirBlock entry_of(MlirOperation function) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
}

static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

/* A function with a body that takes too many tensors. */
static bool is_wide(MlirOperation op) {
  if (!nabla_is(op, "func.func") || mlirBlockIsNull(entry_of(op))) return false;
  MlirType type = function_type(op);
  intptr_t tensors = 0;
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumInputs(type); i++)
    tensors += mlirTypeIsARankedTensor(mlirFunctionTypeGetInput(type, i));
  return tensors > NABLA_TENSOR_ARGUMENTS_MAX;
}

/* The buffer that argument `index` is: with a layout where one is asked for,
 * else the elements in order from its beginning. */
static MlirType buffer_type(MlirType tensor, MlirAttribute attributes,
                            intptr_t index) {
  const intptr_t rank = mlirShapedTypeGetRank(tensor);
  MlirType element = mlirShapedTypeGetElementType(tensor);
  MlirAttribute layout = {NULL}, none = {NULL};
  if (!mlirAttributeIsNull(attributes))
    layout = mlirDictionaryAttrGetElementByName(
        mlirArrayAttrGetElement(attributes, index),
        nabla_ref("bufferization.buffer_layout"));
  int64_t *shape = calloc((size_t)rank + 1, sizeof *shape);
  if (!shape) return (MlirType){NULL};
  for (intptr_t i = 0; i < rank; i++)
    shape[i] = mlirShapedTypeGetDimSize(tensor, i);
  MlirType type = mlirAttributeIsNull(layout)
                      ? mlirMemRefTypeContiguousGet(element, rank, shape, none)
                      : mlirMemRefTypeGet(element, rank, shape, layout, none);
  free(shape);
  return type;
}

static MlirValue with_mark(MlirOperation before, const char *name,
                           const char *mark, MlirValue operand,
                           MlirType result) {
  MlirContext context = nabla_op_context(before);
  MlirNamedAttribute unit =
      nabla_named(context, mark, mlirUnitAttrGet(context));
  nabla_op_spec spec = {name, 1, &operand, 1, &result, 1, &unit};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* A function as it was before it took a table. */
typedef struct wide {
  MlirOperation function;
  MlirType type;
  MlirAttribute attributes;
} wide;

typedef struct wide_list {
  wide *items;
  size_t count;
} wide_list;

static const wide *find(const wide_list *all, MlirOperation function) {
  for (size_t i = 0; i < all->count; i++)
    if (mlirOperationEqual(all->items[i].function, function))
      return &all->items[i];
  return NULL;
}

/* ---- calls ---- */

/* The buffer that `tensor` was read from a table as: it is used again, since
 * folds that change one of many operands look at all of them. */
static MlirValue buffer_of(MlirOperation before, MlirValue tensor,
                           MlirType type) {
  MlirOperation from = nabla_defining_op(tensor);
  if (nabla_is(from, "bufferization.to_tensor") &&
      mlirTypeEqual(nabla_operand_type(from, 0), type))
    return mlirOperationGetOperand(from, 0);
  return with_mark(before, "bufferization.to_buffer", "read_only", tensor,
                   type);
}

/* Gives `call` a table of the buffers of its tensors. */
static bool table_call(MlirOperation call, const wide *callee) {
  MlirContext context = nabla_op_context(call);
  const intptr_t count = mlirOperationGetNumOperands(call);
  MlirValue *buffers = calloc((size_t)count + 1, sizeof *buffers);
  MlirValue *operands = calloc((size_t)count + 1, sizeof *operands);
  intptr_t tensors = 0, others = 1;
  const bool good = buffers && operands;
  for (intptr_t i = 0; good && i < count; i++) {
    MlirValue value = mlirOperationGetOperand(call, i);
    MlirType type = mlirValueGetType(value);
    if (!mlirTypeIsARankedTensor(type))
      operands[others++] = value;
    else
      buffers[tensors++] =
          buffer_of(call, value, buffer_type(type, callee->attributes, i));
  }
  if (good) {
    MlirType pointer = nabla_table_pointer(context);
    nabla_op_spec spec = {NABLA_CAST, tensors, buffers, 1, &pointer, 0, NULL};
    operands[0] = mlirOperationGetResult(nabla_op_create(call, &spec), 0);
    mlirOperationSetOperands(call, others, operands);
    mlirOperationRemoveAttributeByName(call, nabla_ref("arg_attrs"));
  }
  free(buffers);
  free(operands);
  return good;
}

/* ---- functions ---- */

/* The operation of `block` that `op` is, or is inside of. */
static MlirOperation in_block(MlirOperation op, MlirBlock block) {
  while (!mlirBlockEqual(mlirOperationGetBlock(op), block))
    op = mlirOperationGetParentOperation(op);
  return op;
}

/* Where a value is read from the table: at its first use, outside of loops, so
 * that no block begins with all of them. Of several blocks, in the first. */
static MlirOperation first_use(MlirValue value, MlirOperation function) {
  MlirBlock entry = entry_of(function);
  MlirOperation first = mlirBlockGetFirstOperation(entry), found = {NULL};
  if (!mlirBlockIsNull(mlirBlockGetNextInRegion(entry))) return first;
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation op = in_block(mlirOpOperandGetOwner(use), entry);
    if (mlirOperationIsNull(found) || mlirOperationIsBeforeInBlock(op, found))
      found = op;
  }
  return found;
}

/* Whether the function may write to an argument. */
static bool is_writable(MlirAttribute attributes, intptr_t index) {
  if (mlirAttributeIsNull(attributes)) return false;
  MlirAttribute writable = mlirDictionaryAttrGetElementByName(
      mlirArrayAttrGetElement(attributes, index),
      nabla_ref("bufferization.writable"));
  return !mlirAttributeIsNull(writable) && mlirBoolAttrGetValue(writable);
}

/* Lets bufferization write to a tensor of the table, which keeps the name of
 * the state that it is, or the mark of a donated argument. */
static void allow_writes(MlirValue read, MlirAttribute attributes,
                         intptr_t index) {
  MlirOperation op = nabla_defining_op(read);
  MlirAttribute all = mlirArrayAttrGetElement(attributes, index);
  static const char *const kept[] = {NABLA_STATE, NABLA_DONATED};
  mlirOperationSetInherentAttributeByName(
      op, nabla_ref("writable"), mlirUnitAttrGet(nabla_op_context(op)));
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    MlirAttribute mark =
        mlirDictionaryAttrGetElementByName(all, nabla_ref(kept[i]));
    if (!mlirAttributeIsNull(mark))
      mlirOperationSetAttributeByName(
          nabla_defining_op(mlirOperationGetOperand(op, 0)), nabla_ref(kept[i]),
          mark);
  }
}

/* The tensor of entry `at` of the table. Only a state may be written to: the
 * caller's memory may be a mapped file. */
static MlirValue read_entry(MlirOperation before, MlirValue table, intptr_t at,
                            MlirType tensor, MlirType buffer) {
  MlirContext context = nabla_op_context(before);
  MlirValue place = nabla_table_address(before, table, 8 * (int64_t)at);
  MlirValue address =
      nabla_table_op(before, "llvm.load", place, nabla_table_pointer(context));
  MlirValue descriptor = nabla_table_op(
      before, "llvm.load", address,
      nabla_table_descriptor(context, mlirShapedTypeGetRank(tensor)));
  return with_mark(before, "bufferization.to_tensor", "restrict",
                   nabla_table_op(before, NABLA_CAST, descriptor, buffer),
                   tensor);
}

/* Replaces the tensors among the arguments, the last first: each is the last of
 * the block when it is erased. */
static void replace_tensors(MlirOperation function, MlirType type) {
  MlirBlock entry = entry_of(function);
  MlirAttribute attributes = attribute(function, "arg_attrs");
  MlirValue table = mlirBlockInsertArgument(
      entry, 0, nabla_table_pointer(nabla_op_context(function)),
      mlirOperationGetLocation(function));
  intptr_t at = 0;
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumInputs(type); i++)
    at += mlirTypeIsARankedTensor(mlirFunctionTypeGetInput(type, i));
  for (intptr_t i = mlirFunctionTypeGetNumInputs(type); i-- > 0;) {
    MlirType input = mlirFunctionTypeGetInput(type, i);
    MlirValue argument = mlirBlockGetArgument(entry, i + 1);
    if (!mlirTypeIsARankedTensor(input)) continue;
    at--;
    if (!mlirOpOperandIsNull(mlirValueGetFirstUse(argument))) {
      MlirValue read = read_entry(first_use(argument, function), table, at,
                                  input, buffer_type(input, attributes, i));
      if (is_writable(attributes, i)) allow_writes(read, attributes, i);
      mlirValueReplaceAllUsesOfWith(argument, read);
    }
    mlirBlockEraseArgument(entry, (unsigned)i + 1);
  }
}

static bool table_function(const wide *w) {
  MlirOperation function = w->function;
  MlirContext context = nabla_op_context(function);
  MlirType type = w->type;
  const intptr_t inputs = mlirFunctionTypeGetNumInputs(type);
  const intptr_t results = mlirFunctionTypeGetNumResults(type);
  MlirType *types = calloc((size_t)(inputs + results) + 1, sizeof *types);
  if (!types) return false;
  intptr_t kept = 0;
  types[kept++] = nabla_table_pointer(context);
  for (intptr_t i = 0; i < inputs; i++)
    if (!mlirTypeIsARankedTensor(mlirFunctionTypeGetInput(type, i)))
      types[kept++] = mlirFunctionTypeGetInput(type, i);
  for (intptr_t i = 0; i < results; i++)
    types[kept + i] = mlirFunctionTypeGetResult(type, i);
  replace_tensors(function, type);
  mlirOperationSetAttributeByName(
      function, nabla_ref("function_type"),
      mlirTypeAttrGet(
          mlirFunctionTypeGet(context, kept, types, results, types + kept)));
  mlirOperationRemoveAttributeByName(function, nabla_ref("arg_attrs"));
  mlirOperationSetAttributeByName(function, nabla_ref(NABLA_TABLE_MARK),
                                  mlirUnitAttrGet(context));
  free(types);
  return true;
}

/* ---- the pass ---- */

static bool table_calls(MlirOperation module, const wide_list *all) {
  MlirSymbolTable symbols = mlirSymbolTableCreate(module);
  nabla_op_list calls = nabla_ops_collect(module, is_call);
  bool good = !calls.failed;
  for (size_t i = 0; good && i < calls.count; i++) {
    MlirOperation callee = nabla_call_callee(symbols, calls.ops[i]);
    const wide *found = mlirOperationIsNull(callee) ? NULL : find(all, callee);
    if (found) good = table_call(calls.ops[i], found);
  }
  nabla_op_list_deinit(&calls);
  mlirSymbolTableDestroy(symbols);
  return good;
}

static bool table_all(MlirOperation module, const nabla_op_list *functions) {
  wide_list all = {calloc(functions->count, sizeof *all.items), 0};
  bool good = all.items != NULL;
  for (size_t i = 0; good && i < functions->count; i++) {
    MlirOperation op = functions->ops[i];
    all.items[i] = (wide){op, function_type(op), attribute(op, "arg_attrs")};
    all.count++;
    good = table_function(&all.items[i]);
  }
  good = good && table_calls(module, &all);
  free(all.items);
  return good;
}

MlirLogicalResult nabla_run_table_arguments(MlirOperation module,
                                            const nablaPassValue *values,
                                            void *prepared) {
  (void)values, (void)prepared;
  nabla_op_list functions = nabla_ops_collect(module, is_wide);
  const bool good = !functions.failed &&
                    (functions.count == 0 || table_all(module, &functions));
  nabla_op_list_deinit(&functions);
  return good ? mlirLogicalResultSuccess()
              : nabla_error_at(module, "nabla-table-arguments: out of memory");
}
