/* Rules that read boxes of a packed array: all become nabla.fused_gather, which
 * decodes what is read and nothing else. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/encoding/encoding.h"
#include "transforms/dispatch/rules.h"
#include "transforms/ir/ir.h"

nabla_rule_outcome nabla_apply_gather_packed(MlirOperation op,
                                             const char **why);
nabla_rule_outcome nabla_apply_dynamic_slice_packed(MlirOperation op,
                                                    const char **why);

enum { ATTRIBUTES = 16 };

static nabla_rule_outcome fuse(MlirOperation op, const MlirValue operands[2],
                               intptr_t count,
                               const MlirNamedAttribute *attributes) {
  nabla_op_spec spec = {
      "nabla.fused_gather", 2, operands, -1, NULL, count, attributes};
  MlirOperation fused = nabla_op_create(op, &spec);
  if (mlirOperationIsNull(fused)) return NABLA_RULE_FAILED;
  MlirValue result = mlirOperationGetResult(fused, 0);
  nabla_op_replace(op, &result);
  return NABLA_RULE_APPLIED;
}

nabla_rule_outcome nabla_apply_gather_packed(MlirOperation op,
                                             const char **why) {
  MlirNamedAttribute attributes[ATTRIBUTES];
  intptr_t count = mlirOperationGetNumAttributes(op);
  *why = "it has too many attributes";
  if (count > ATTRIBUTES) return NABLA_RULE_DECLINED;
  for (intptr_t i = 0; i < count; i++)
    attributes[i] = mlirOperationGetAttribute(op, i);
  MlirValue operands[2] = {mlirOperationGetOperand(op, 0),
                           mlirOperationGetOperand(op, 1)};
  return fuse(op, operands, count, attributes);
}

/* One result of an op without attributes. */
static MlirValue emit(MlirOperation before, const char *name, intptr_t count,
                      const MlirValue *operands, MlirType type) {
  nabla_op_spec spec = {name, count, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* A place, an index or an integer scalar, as i64. */
static MlirValue as_i64(MlirOperation op, MlirValue value) {
  MlirType type = mlirValueGetType(value);
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(op), 64);
  if (mlirTypeIsAIndex(type))
    return emit(op, "arith.index_cast", 1, &value, i64);
  MlirType element = mlirShapedTypeGetElementType(type);
  value = emit(op, "tensor.extract", 1, &value, element);
  if (mlirTypeEqual(element, i64)) return value;
  return emit(op, "arith.extsi", 1, &value, i64);
}

/* A dynamic slice is a gather with one place. */
nabla_rule_outcome nabla_apply_dynamic_slice_packed(MlirOperation op,
                                                    const char **why) {
  MlirContext context = nabla_op_context(op);
  MlirType result = nabla_result_type(op, 0);
  int64_t rank = mlirShapedTypeGetRank(result), dims[NABLA_MAX_RANK];
  int64_t sizes[NABLA_MAX_RANK];
  MlirValue places[NABLA_MAX_RANK];
  *why = "its size is not known";
  for (intptr_t i = 0; i < rank; i++) {
    dims[i] = i;
    sizes[i] = mlirShapedTypeGetDimSize(result, i);
    if (nabla_is_dynamic(sizes[i])) return NABLA_RULE_DECLINED;
  }
  for (intptr_t i = 0; i < rank; i++)
    places[i] = as_i64(op, mlirOperationGetOperand(op, 1 + i));
  MlirType i64 = mlirIntegerTypeGet(context, 64);
  MlirType vector =
      mlirRankedTensorTypeGet(1, &rank, i64, mlirAttributeGetNull());
  MlirValue operands[2] = {
      mlirOperationGetOperand(op, 0),
      emit(op, "tensor.from_elements", rank, places, vector)};
  MlirAttribute all = mlirDenseI64ArrayGet(context, rank, dims);
  MlirNamedAttribute attributes[] = {
      nabla_named(context, "offset_dims", all),
      nabla_named(context, "index_map", all),
      nabla_named(context, "vector_dim", mlirIntegerAttrGet(i64, 0)),
      nabla_named(context, "sizes", mlirDenseI64ArrayGet(context, rank, sizes)),
  };
  return fuse(op, operands, sizeof attributes / sizeof *attributes, attributes);
}
