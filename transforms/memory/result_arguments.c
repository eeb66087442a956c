/* See the header. */
#include "transforms/memory/result_arguments.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/encoding/encoding.h"
#include "transforms/abi/part_ops.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/llvm_ops.h"

/* Of a function that was changed: the numbers of its results, in order. */
#define MARK "nabla.result_arguments"

static MlirAttribute attribute(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nabla_ref(name));
}

static MlirBlock entry_of(MlirOperation function) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
}

static void set(MlirOperation op, const char *name, MlirAttribute value) {
  mlirOperationSetInherentAttributeByName(op, nabla_ref(name), value);
}

/* ---- signatures ---- */

/* Adds an empty entry to the attributes of the arguments. */
static void extend_attributes(MlirOperation op) {
  MlirAttribute old = attribute(op, "arg_attrs");
  MlirContext context = nabla_op_context(op);
  if (mlirAttributeIsNull(old) || !mlirAttributeIsAArray(old)) return;
  const intptr_t count = mlirArrayAttrGetNumElements(old);
  MlirAttribute *all = calloc((size_t)count + 1, sizeof *all);
  if (!all) return;
  for (intptr_t i = 0; i < count; i++) all[i] = mlirArrayAttrGetElement(old, i);
  all[count] = mlirDictionaryAttrGet(context, 0, NULL);
  set(op, "arg_attrs", mlirArrayAttrGet(context, count + 1, all));
  free(all);
}

MlirValue nabla_function_add_argument(MlirOperation function, MlirType type) {
  MlirValue added = mlirBlockAddArgument(entry_of(function), type,
                                         mlirOperationGetLocation(function));
  extend_attributes(function);
  (void)nabla_function_update_type(function);
  return added;
}

/* ---- functions ---- */

MlirOperation nabla_result_allocation(MlirBlock entry, MlirValue value) {
  static const char *const views[] = {"memref.cast", "memref.expand_shape",
                                      "memref.collapse_shape"};
  const MlirOperation none = {NULL};
  for (;;) {
    MlirOperation op = nabla_defining_op(value);
    bool is_view = false;
    if (mlirOperationIsNull(op) ||
        !nabla_part_is_plain(mlirValueGetType(value)))
      return none;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
      is_view = is_view || nabla_is(op, views[i]);
    if (!is_view)
      return nabla_is(op, "memref.alloc") &&
                     !nabla_op_has(op, NABLA_PART_MANUAL) &&
                     mlirBlockEqual(mlirOperationGetBlock(op), entry)
                 ? op
                 : none;
    value = mlirOperationGetOperand(op, 0);
  }
}

/* The same where both have a static size. */
static MlirOperation static_allocation(MlirBlock entry, MlirValue value) {
  MlirOperation op = nabla_result_allocation(entry, value);
  return !mlirOperationIsNull(op) && mlirOperationGetNumOperands(op) == 0 &&
                 mlirShapedTypeHasStaticShape(mlirValueGetType(value))
             ? op
             : (MlirOperation){NULL};
}

/* Whether nothing else that is returned is in the allocation of result
 * `number`, which has one. */
static bool is_alone(const MlirOperation *roots, intptr_t count,
                     intptr_t number) {
  if (mlirOperationIsNull(roots[number])) return false;
  for (intptr_t i = 0; i < count; i++)
    if (i != number && roots[i].ptr == roots[number].ptr) return false;
  return true;
}

static bool fail(MlirOperation op) {
  nabla_error_at(op, "nabla-plan-memory: out of memory");
  return false;
}

bool nabla_result_arguments_make(MlirOperation function) {
  MlirBlock entry = entry_of(function);
  MlirOperation end = mlirBlockGetTerminator(entry);
  const intptr_t count = mlirOperationGetNumOperands(end);
  if (!mlirAttributeIsNull(attribute(function, "res_attrs"))) return true;
  int64_t *moved = calloc((size_t)count + 1, sizeof *moved);
  MlirValue *kept = calloc((size_t)count + 1, sizeof *kept);
  MlirOperation *roots = calloc((size_t)count + 1, sizeof *roots);
  intptr_t moved_count = 0, kept_count = 0;
  bool good = moved && kept && roots;
  for (intptr_t i = 0; good && i < count; i++)
    roots[i] = static_allocation(entry, mlirOperationGetOperand(end, i));
  for (intptr_t i = 0; good && i < count; i++) {
    if (is_alone(roots, count, i))
      moved[moved_count++] = i;
    else
      kept[kept_count++] = mlirOperationGetOperand(end, i);
  }
  for (intptr_t i = 0; good && i < moved_count; i++) {
    MlirOperation alloc = roots[moved[i]];
    MlirValue argument = mlirBlockAddArgument(
        entry, nabla_result_type(alloc, 0), mlirOperationGetLocation(alloc));
    extend_attributes(function);
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(alloc, 0), argument);
    nabla_op_erase(alloc);
  }
  if (good && moved_count) {
    mlirOperationSetOperands(end, kept_count, kept);
    mlirOperationSetDiscardableAttributeByName(
        function, nabla_ref(MARK),
        mlirDenseI64ArrayGet(nabla_op_context(function), moved_count, moved));
    good = nabla_function_update_type(function);
  }
  free(moved);
  free(kept);
  free(roots);
  return good || fail(function);
}

/* ---- calls ---- */

static MlirValue allocate(MlirOperation before, MlirType type) {
  MlirContext context = nabla_op_context(before);
  const int32_t segments[] = {0, 0};
  MlirNamedAttribute attributes =
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, 2, segments));
  nabla_op_spec spec = {"memref.alloc", 0, NULL, 1, &type, 1, &attributes};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* `buffer` as one of another shape, both of static size and plain. */
static MlirValue reshape(MlirOperation before, MlirValue buffer,
                         MlirType type) {
  MlirContext context = nabla_op_context(before);
  const intptr_t rank = mlirShapedTypeGetRank(type);
  int64_t sizes[NABLA_MAX_RANK], strides[NABLA_MAX_RANK], stride = 1;
  const int64_t offset = 0;
  const int32_t segments[] = {1, 0, 0, 0};
  if (mlirTypeEqual(mlirValueGetType(buffer), type)) return buffer;
  for (intptr_t i = rank; i-- > 0; stride *= sizes[i]) {
    sizes[i] = mlirShapedTypeGetDimSize(type, i);
    strides[i] = stride;
  }
  MlirNamedAttribute attributes[] = {
      nabla_named(context, "static_offsets",
                  mlirDenseI64ArrayGet(context, 1, &offset)),
      nabla_named(context, "static_sizes",
                  mlirDenseI64ArrayGet(context, rank, sizes)),
      nabla_named(context, "static_strides",
                  mlirDenseI64ArrayGet(context, rank, strides)),
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, 4, segments))};
  nabla_op_spec spec = {
      "memref.reinterpret_cast", 1, &buffer, 1, &type, 4, attributes};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* Replaces `call` by one with other operands, and without the results that have
 * a value in `replaced`. */
static bool call_again(MlirOperation call, intptr_t operand_count,
                       const MlirValue *operands, MlirValue *replaced) {
  const intptr_t count = mlirOperationGetNumResults(call);
  MlirType *types = calloc((size_t)count + 1, sizeof *types);
  if (!types) return false;
  intptr_t kept = 0;
  for (intptr_t i = 0; i < count; i++)
    if (mlirValueIsNull(replaced[i]))
      types[kept++] = nabla_result_type(call, i);
  MlirNamedAttribute callee =
      nabla_named(nabla_op_context(call), "callee", attribute(call, "callee"));
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("func.call"), mlirOperationGetLocation(call));
  mlirOperationStateAddOperands(&state, operand_count, operands);
  mlirOperationStateAddResults(&state, kept, types);
  mlirOperationStateAddAttributes(&state, 1, &callee);
  MlirOperation made = mlirOperationCreate(&state);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(call), call, made);
  for (intptr_t i = 0; i < mlirOperationGetNumDiscardableAttributes(call);
       i++) {
    MlirNamedAttribute one = mlirOperationGetDiscardableAttribute(call, i);
    mlirOperationSetDiscardableAttributeByName(
        made, mlirIdentifierStr(one.name), one.attribute);
  }
  kept = 0;
  for (intptr_t i = 0; i < count; i++)
    if (mlirValueIsNull(replaced[i]))
      replaced[i] = mlirOperationGetResult(made, kept++);
  nabla_op_replace(call, replaced);
  free(types);
  return true;
}

bool nabla_result_arguments_pass(MlirOperation call, MlirOperation callee) {
  MlirAttribute mark = attribute(callee, MARK);
  if (mlirAttributeIsNull(mark)) return true;
  const intptr_t moved = mlirDenseArrayGetNumElements(mark);
  const intptr_t operands = mlirOperationGetNumOperands(call);
  const intptr_t results = mlirOperationGetNumResults(call);
  MlirValue *values = calloc((size_t)(operands + moved) + 1, sizeof *values);
  MlirValue *replaced = calloc((size_t)results + 1, sizeof *replaced);
  bool good = values && replaced;
  for (intptr_t i = 0; good && i < operands; i++)
    values[i] = mlirOperationGetOperand(call, i);
  for (intptr_t i = 0; good && i < moved; i++) {
    const int64_t number = mlirDenseI64ArrayGetElement(mark, i);
    values[operands + i] = allocate(call, mlirValueGetType(mlirBlockGetArgument(
                                              entry_of(callee), operands + i)));
    replaced[number] =
        reshape(call, values[operands + i], nabla_result_type(call, number));
  }
  good = good && call_again(call, operands + moved, values, replaced);
  free(values);
  free(replaced);
  return good || fail(call);
}

void nabla_result_arguments_finish(MlirOperation function) {
  mlirOperationRemoveDiscardableAttributeByName(function, nabla_ref(MARK));
}
