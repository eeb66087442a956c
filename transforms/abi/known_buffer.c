/* See the header. */
#include "transforms/abi/known_buffer.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdint.h>

#include "dialect/encoding/encoding.h"
#include "transforms/abi/argument_table.h"
#include "transforms/abi/part_ops.h"

/* Fields of a descriptor. */
enum { ALLOCATION, ADDRESS, OFFSET, SIZES, STRIDES };

/* Sizes, strides and offset, in elements. An offset that is not known is that
 * of the address: zero. */
typedef struct layout {
  intptr_t rank;
  int64_t sizes[NABLA_MAX_RANK], strides[NABLA_MAX_RANK], offset;
  bool is_offset_known;
} layout;

static bool layout_of(MlirType type, layout *out) {
  if (!mlirTypeIsAMemRef(type) || !mlirShapedTypeHasStaticShape(type) ||
      !mlirAttributeIsNull(mlirMemRefTypeGetMemorySpace(type)))
    return false;
  const MlirType element = mlirShapedTypeGetElementType(type);
  const int64_t unknown = mlirShapedTypeGetDynamicStrideOrOffset();
  out->rank = mlirShapedTypeGetRank(type);
  if (out->rank > NABLA_MAX_RANK ||
      (!mlirTypeIsAInteger(element) && !mlirTypeIsAFloat(element) &&
       !mlirTypeIsAIndex(element)) ||
      mlirLogicalResultIsFailure(
          mlirMemRefTypeGetStridesAndOffset(type, out->strides, &out->offset)))
    return false;
  for (intptr_t i = 0; i < out->rank; i++) {
    out->sizes[i] = mlirShapedTypeGetDimSize(type, i);
    if (out->strides[i] == unknown) return false;
  }
  out->is_offset_known = out->offset != unknown;
  if (!out->is_offset_known) out->offset = 0;
  return true;
}

bool nabla_known_buffer(MlirType type) {
  layout l;
  return layout_of(type, &l);
}

static MlirValue insert_number(MlirOperation before, MlirValue descriptor,
                               int64_t number, intptr_t depth,
                               const int64_t *position) {
  return nabla_part_insert(before, descriptor,
                           nabla_part_word(before, (uint64_t)number), depth,
                           position);
}

MlirValue nabla_known_buffer_at(MlirOperation before, MlirValue allocation,
                                MlirValue address, MlirType type) {
  static const int64_t fields[] = {ALLOCATION, ADDRESS, OFFSET};
  layout l;
  if (!layout_of(type, &l)) return (MlirValue){NULL};
  MlirType form = nabla_table_descriptor(nabla_op_context(before), l.rank);
  nabla_op_spec undefined = {"llvm.mlir.undef", 0, NULL, 1, &form, 0, NULL};
  MlirValue out =
      mlirOperationGetResult(nabla_op_create(before, &undefined), 0);
  out = nabla_part_insert(before, out, allocation, 1, &fields[0]);
  out = nabla_part_insert(before, out, address, 1, &fields[1]);
  out = insert_number(before, out, l.offset, 1, &fields[2]);
  for (intptr_t i = 0; i < l.rank; i++) {
    const int64_t size_at[] = {SIZES, i}, stride_at[] = {STRIDES, i};
    out = insert_number(before, out, l.sizes[i], 2, size_at);
    out = insert_number(before, out, l.strides[i], 2, stride_at);
  }
  return nabla_table_op(before, NABLA_CAST, out, type);
}

MlirValue nabla_known_buffer_field(MlirOperation before, MlirValue descriptor,
                                   int64_t field) {
  MlirContext context = nabla_op_context(before);
  MlirType type = field == OFFSET ? mlirIntegerTypeGet(context, 64)
                                  : nabla_table_pointer(context);
  MlirNamedAttribute at = nabla_named(context, "position",
                                      mlirDenseI64ArrayGet(context, 1, &field));
  nabla_op_spec spec = {"llvm.extractvalue", 1, &descriptor, 1, &type, 1, &at};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

MlirValue nabla_known_buffer_descriptor(MlirOperation before,
                                        MlirValue buffer) {
  return nabla_table_op(
      before, NABLA_CAST, buffer,
      nabla_table_descriptor(nabla_op_context(before),
                             mlirShapedTypeGetRank(mlirValueGetType(buffer))));
}

/* The address `elements` elements of a buffer behind `base`. */
static MlirValue behind(MlirOperation before, MlirValue base,
                        MlirValue elements, MlirType buffer) {
  MlirContext context = nabla_op_context(before);
  MlirType pointer = nabla_table_pointer(context);
  MlirType word = mlirValueGetType(elements);
  MlirValue factors[] = {elements,
                         nabla_part_word(before, nabla_part_element(buffer))};
  nabla_op_spec product = {"arith.muli", 2, factors, 1, &word, 0, NULL};
  MlirValue operands[] = {
      base, mlirOperationGetResult(nabla_op_create(before, &product), 0)};
  const int32_t of_operand = INT32_MIN; /* the index is an operand */
  MlirNamedAttribute attributes[] = {
      nabla_named(context, "elem_type",
                  mlirTypeAttrGet(mlirIntegerTypeGet(context, 8))),
      nabla_named(context, "rawConstantIndices",
                  mlirDenseI32ArrayGet(context, 1, &of_operand)),
  };
  nabla_op_spec spec = {
      "llvm.getelementptr", 2, operands, 1, &pointer, 2, attributes};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

MlirValue nabla_known_buffer_address(MlirOperation before, MlirValue buffer) {
  layout l;
  MlirType type = mlirValueGetType(buffer);
  if (!layout_of(type, &l)) return (MlirValue){NULL};
  MlirValue descriptor = nabla_known_buffer_descriptor(before, buffer);
  MlirValue address = nabla_known_buffer_field(before, descriptor, ADDRESS);
  return l.is_offset_known
             ? address
             : behind(before, address,
                      nabla_known_buffer_field(before, descriptor, OFFSET),
                      type);
}
