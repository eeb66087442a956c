/* nabla-table-calls: makes the tables that nabla-table-arguments asks for. In
 * front of a call stands an array of pointers to descriptors, and behind it the
 * descriptors; both are freed after it. Arguments that are passed on keep the
 * descriptor that they came with. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/abi/argument_table.h"
#include "transforms/passes.h"

/* The cast that names the buffers of a call; null where there is none. */
static MlirOperation buffers_of(MlirOperation op) {
  const MlirOperation none = {NULL};
  if (!nabla_is(op, "func.call") || mlirOperationGetNumOperands(op) == 0)
    return none;
  MlirOperation cast = nabla_defining_op(mlirOperationGetOperand(op, 0));
  if (!nabla_is(cast, NABLA_CAST) || mlirOperationGetNumOperands(cast) == 0 ||
      !mlirTypeIsAMemRef(nabla_operand_type(cast, 0)))
    return none;
  return cast;
}

static bool has_buffers(MlirOperation op) {
  return !mlirOperationIsNull(buffers_of(op));
}

/* The address that the descriptor of `buffer` was read from; else null. */
static MlirValue read_from(MlirValue buffer) {
  MlirOperation cast = nabla_defining_op(buffer);
  if (!nabla_is(cast, NABLA_CAST) || mlirOperationGetNumOperands(cast) != 1)
    return (MlirValue){NULL};
  MlirOperation load = nabla_defining_op(mlirOperationGetOperand(cast, 0));
  if (!nabla_is(load, "llvm.load")) return (MlirValue){NULL};
  return mlirOperationGetOperand(load, 0);
}

static int64_t descriptor_bytes(MlirType buffer) {
  return 8 * (3 + 2 * (int64_t)mlirShapedTypeGetRank(buffer));
}

static int64_t table_bytes(MlirOperation cast) {
  const intptr_t count = mlirOperationGetNumOperands(cast);
  int64_t bytes = 8 * (int64_t)count;
  for (intptr_t i = 0; i < count; i++)
    if (mlirValueIsNull(read_from(mlirOperationGetOperand(cast, i))))
      bytes += descriptor_bytes(nabla_operand_type(cast, i));
  return bytes;
}

static MlirValue allocate(MlirOperation before, int64_t bytes) {
  MlirContext context = nabla_op_context(before);
  MlirAttribute none = {NULL};
  const int32_t segments[] = {0, 0};
  MlirNamedAttribute attribute =
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, 2, segments));
  MlirType type = mlirMemRefTypeContiguousGet(mlirIntegerTypeGet(context, 8), 1,
                                              &bytes, none);
  nabla_op_spec spec = {"memref.alloc", 0, NULL, 1, &type, 1, &attribute};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

static MlirValue address_of(MlirOperation before, MlirValue memory) {
  MlirContext context = nabla_op_context(before);
  MlirValue index =
      nabla_table_op(before, "memref.extract_aligned_pointer_as_index", memory,
                     mlirIndexTypeGet(context));
  MlirValue word = nabla_table_op(before, "arith.index_cast", index,
                                  mlirIntegerTypeGet(context, 64));
  return nabla_table_op(before, "llvm.inttoptr", word,
                        nabla_table_pointer(context));
}

static void store(MlirOperation before, MlirValue value, MlirValue place) {
  MlirValue operands[] = {value, place};
  nabla_op_spec spec = {"llvm.store", 2, operands, 0, NULL, 0, NULL};
  nabla_op_create(before, &spec);
}

static void fill(MlirOperation call, MlirOperation cast, MlirValue table) {
  MlirContext context = nabla_op_context(call);
  const intptr_t count = mlirOperationGetNumOperands(cast);
  int64_t next = 8 * (int64_t)count; /* where the next descriptor goes */
  for (intptr_t i = 0; i < count; i++) {
    MlirValue buffer = mlirOperationGetOperand(cast, i);
    MlirType type = mlirValueGetType(buffer);
    MlirValue place = read_from(buffer);
    if (mlirValueIsNull(place)) {
      place = nabla_table_address(call, table, next);
      next += descriptor_bytes(type);
      store(call,
            nabla_table_op(
                call, NABLA_CAST, buffer,
                nabla_table_descriptor(context, mlirShapedTypeGetRank(type))),
            place);
    }
    store(call, place, nabla_table_address(call, table, 8 * (int64_t)i));
  }
}

static bool make_table(MlirOperation call, void *self) {
  (void)self;
  MlirOperation cast = buffers_of(call);
  const int64_t bytes = table_bytes(cast);
  if (bytes > INT32_MAX) {
    nabla_error_at(call, "takes too many arguments: more than 2 GiB of them");
    return false;
  }
  MlirValue memory = allocate(call, bytes);
  MlirValue table = address_of(call, memory);
  fill(call, cast, table);
  mlirOperationSetOperand(call, 0, table);
  nabla_op_spec release = {"memref.dealloc", 1, &memory, 0, NULL, 0, NULL};
  nabla_op_create(mlirOperationGetNextInBlock(call), &release);
  if (nabla_use_count(mlirOperationGetResult(cast, 0)) == 0)
    nabla_op_erase(cast);
  return true;
}

MlirLogicalResult nabla_run_table_calls(MlirOperation module,
                                        const nablaPassValue *values,
                                        void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(module, has_buffers, make_table, NULL);
}
