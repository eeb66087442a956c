/* See the header. */
#include "transforms/abi/part_ops.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/encoding/encoding.h"
#include "transforms/abi/argument_table.h"
#include "transforms/abi/known_buffer.h"

#define BEGIN   "nabla_part_begin"
#define END     "nabla_part_end"
#define REQUIRE "nabla_part_require"
#define RESULT  "nabla_result"

void nabla_part_declare(MlirOperation module) {
  static const char *const declarations[] = {
      "func.func private @" BEGIN "(!llvm.ptr, i64, i64) -> !llvm.ptr",
      "func.func private @" END "(!llvm.ptr, i64)",
      "func.func private @" REQUIRE "(i64)",
      "func.func private @" RESULT "(i64, i64) -> !llvm.ptr"};
  MlirContext context = nabla_op_context(module);
  MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0));
  if (nabla_module_has(mlirBlockGetFirstOperation(body), BEGIN)) return;
  for (int i = 0; i < 4; i++)
    mlirBlockInsertOwnedOperation(
        body, 0,
        mlirOperationCreateParse(context, nabla_ref(declarations[i]),
                                 nabla_ref("plan-memory")));
}

MlirValue nabla_part_word(MlirOperation before, uint64_t number) {
  MlirContext context = nabla_op_context(before);
  MlirType type = mlirIntegerTypeGet(context, 64);
  MlirNamedAttribute value =
      nabla_named(context, "value", mlirIntegerAttrGet(type, (int64_t)number));
  nabla_op_spec spec = {"arith.constant", 0, NULL, 1, &type, 1, &value};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

static MlirOperation call(MlirOperation before, const char *name,
                          intptr_t count, const MlirValue *operands,
                          intptr_t results) {
  MlirContext context = nabla_op_context(before);
  MlirType pointer = nabla_table_pointer(context);
  MlirNamedAttribute callee = nabla_named(
      context, "callee", mlirFlatSymbolRefAttrGet(context, nabla_ref(name)));
  nabla_op_spec spec = {"func.call", count, operands, results,
                        &pointer,    1,     &callee};
  return nabla_op_create(before, &spec);
}

MlirValue nabla_part_begin(MlirOperation before, MlirValue base,
                           MlirValue offset, MlirValue bytes) {
  MlirValue operands[] = {base, offset, bytes};
  return mlirOperationGetResult(call(before, BEGIN, 3, operands, 1), 0);
}

void nabla_part_end(MlirOperation before, MlirValue address, MlirValue bytes) {
  MlirValue operands[] = {address, bytes};
  (void)call(before, END, 2, operands, 0);
}

void nabla_part_require(MlirOperation before, MlirValue bytes) {
  (void)call(before, REQUIRE, 1, &bytes, 0);
}

MlirValue nabla_part_insert(MlirOperation before, MlirValue descriptor,
                            MlirValue value, intptr_t depth,
                            const int64_t *position) {
  MlirContext context = nabla_op_context(before);
  MlirType type = mlirValueGetType(descriptor);
  MlirValue operands[] = {descriptor, value};
  MlirNamedAttribute at = nabla_named(
      context, "position", mlirDenseI64ArrayGet(context, depth, position));
  nabla_op_spec spec = {"llvm.insertvalue", 2, operands, 1, &type, 1, &at};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

bool nabla_part_is_plain(MlirType buffer) {
  if (!mlirTypeIsAMemRef(buffer) ||
      !mlirAttributeIsNull(mlirMemRefTypeGetMemorySpace(buffer)) ||
      !mlirAffineMapIsIdentity(mlirMemRefTypeGetAffineMap(buffer)))
    return false;
  const MlirType element = mlirShapedTypeGetElementType(buffer);
  return mlirTypeIsAInteger(element) || mlirTypeIsAFloat(element) ||
         mlirTypeIsAIndex(element);
}

uint64_t nabla_part_element(MlirType buffer) {
  const MlirType element = mlirShapedTypeGetElementType(buffer);
  const unsigned bits =
      mlirTypeIsAInteger(element) ? mlirIntegerTypeGetWidth(element)
      : mlirTypeIsAFloat(element) ? mlirFloatTypeGetWidth(element)
                                  : 64;
  uint64_t bytes = 1;
  while (bytes * 8 < bits) bytes *= 2;
  return bytes;
}

/* The sizes of what `alloc` allocates, as words. */
static void sizes_of(MlirOperation before, MlirOperation alloc,
                     MlirValue out[NABLA_MAX_RANK]) {
  MlirType type = nabla_result_type(alloc, 0);
  MlirType number = mlirIntegerTypeGet(nabla_op_context(before), 64);
  intptr_t dynamic = 0;
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++)
    out[i] =
        mlirShapedTypeIsDynamicDim(type, i)
            ? nabla_table_op(before, "arith.index_cast",
                             mlirOperationGetOperand(alloc, dynamic++), number)
            : nabla_part_word(before,
                              (uint64_t)mlirShapedTypeGetDimSize(type, i));
}

static MlirValue product(MlirOperation before, MlirValue a, MlirValue b) {
  MlirType type = mlirValueGetType(a);
  MlirValue operands[] = {a, b};
  nabla_op_spec spec = {"arith.muli", 2, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

MlirValue nabla_part_bytes(MlirOperation before, MlirOperation alloc) {
  MlirValue sizes[NABLA_MAX_RANK];
  MlirType type = nabla_result_type(alloc, 0);
  sizes_of(before, alloc, sizes);
  MlirValue bytes = nabla_part_word(before, nabla_part_element(type));
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++)
    bytes = product(before, bytes, sizes[i]);
  return bytes;
}

MlirValue nabla_part_result(MlirOperation alloc, uint64_t number) {
  MlirValue bytes = nabla_part_bytes(alloc, alloc);
  MlirValue operands[] = {nabla_part_word(alloc, number), bytes};
  return mlirOperationGetResult(call(alloc, RESULT, 2, operands, 1), 0);
}

MlirValue nabla_part_buffer(MlirOperation before, MlirValue address,
                            MlirOperation alloc) {
  MlirType buffer = nabla_result_type(alloc, 0);
  if (nabla_known_buffer(buffer))
    return nabla_table_op(before, NABLA_CAST, address, buffer);
  const intptr_t rank = mlirShapedTypeGetRank(buffer);
  MlirType type = nabla_table_descriptor(nabla_op_context(before), rank);
  nabla_op_spec undefined = {"llvm.mlir.undef", 0, NULL, 1, &type, 0, NULL};
  MlirValue out =
      mlirOperationGetResult(nabla_op_create(before, &undefined), 0);
  for (int64_t field = 0; field < 2; field++)
    out = nabla_part_insert(before, out, address, 1, &field);
  const int64_t offset = 2;
  out = nabla_part_insert(before, out, nabla_part_word(before, 0), 1, &offset);
  MlirValue sizes[NABLA_MAX_RANK], stride = nabla_part_word(before, 1);
  sizes_of(before, alloc, sizes);
  for (intptr_t i = rank; i-- > 0;) {
    const int64_t size_at[] = {3, i}, stride_at[] = {4, i};
    out = nabla_part_insert(before, out, sizes[i], 2, size_at);
    out = nabla_part_insert(before, out, stride, 2, stride_at);
    if (i) stride = product(before, stride, sizes[i]);
  }
  return nabla_table_op(before, NABLA_CAST, out, buffer);
}

static MlirValue block_of(MlirOperation before, int64_t size,
                          intptr_t operand_count, const MlirValue *operands) {
  MlirContext context = nabla_op_context(before);
  const int32_t segments[] = {(int32_t)operand_count, 0};
  MlirNamedAttribute attributes[] = {
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, 2, segments)),
      nabla_named(context, NABLA_PART_MANUAL, mlirUnitAttrGet(context))};
  MlirType type = mlirMemRefTypeContiguousGet(mlirIntegerTypeGet(context, 8), 1,
                                              &size, mlirAttributeGetNull());
  nabla_op_spec spec = {"memref.alloc", operand_count, operands, 1, &type, 2,
                        attributes};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

MlirValue nabla_part_block(MlirOperation before, uint64_t bytes) {
  return block_of(before, (int64_t)bytes, 0, NULL);
}

MlirValue nabla_part_open_block(MlirOperation before, MlirValue bytes) {
  MlirValue size = nabla_table_op(before, "arith.index_cast", bytes,
                                  mlirIndexTypeGet(nabla_op_context(before)));
  return block_of(before, mlirShapedTypeGetDynamicSize(), 1, &size);
}

MlirValue nabla_part_address(MlirOperation before, MlirValue block) {
  MlirContext context = nabla_op_context(before);
  MlirValue index =
      nabla_table_op(before, "memref.extract_aligned_pointer_as_index", block,
                     mlirIndexTypeGet(context));
  MlirValue number = nabla_table_op(before, "arith.index_cast", index,
                                    mlirIntegerTypeGet(context, 64));
  return nabla_table_op(before, "llvm.inttoptr", number,
                        nabla_table_pointer(context));
}

void nabla_part_release(MlirOperation before, MlirValue block) {
  MlirContext context = nabla_op_context(before);
  MlirNamedAttribute manual =
      nabla_named(context, NABLA_PART_MANUAL, mlirUnitAttrGet(context));
  nabla_op_spec spec = {"memref.dealloc", 1, &block, 0, NULL, 1, &manual};
  nabla_op_create(before, &spec);
}
