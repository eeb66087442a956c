/* nabla-resolve-dims: replaces a tensor.dim of the result of a linalg operation
 * by the size with which its `outs` was made. Upstream assumes that the static
 * size of one operand of a linalg.generic is the size of all, and propagates it
 * to the operations that made them: a later comparison of sizes would compare
 * that size with itself, and the loops would read beyond the array. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "transforms/ir/ir.h"
#include "transforms/passes.h"

static bool is_dim(MlirOperation op) { return nabla_is(op, "tensor.dim"); }

static bool constant_of(MlirValue value, int64_t *out) {
  const MlirOperation op = nabla_defining_op(value);
  if (!nabla_is(op, "arith.constant")) return false;
  const MlirAttribute number =
      mlirOperationGetAttributeByName(op, nabla_ref("value"));
  if (!mlirAttributeIsAInteger(number)) return false;
  *out = mlirIntegerAttrGetValueInt(number);
  return true;
}

/* Returns the operand of tensor.empty for the size of dimension `dim`. */
static bool find_size(MlirOperation empty, int64_t dim, MlirValue *out) {
  const MlirType type = nabla_result_type(empty, 0);
  if (dim < 0 || dim >= mlirShapedTypeGetRank(type) ||
      !mlirShapedTypeIsDynamicDim(type, dim))
    return false;
  intptr_t operand = 0;
  for (int64_t i = 0; i < dim; i++)
    operand += mlirShapedTypeIsDynamicDim(type, i);
  *out = mlirOperationGetOperand(empty, operand);
  return true;
}

/* Returns the operand of a cast, or the tensor in `outs` for a result of a
 * linalg operation; it has the sizes of `value`. */
static bool find_origin(MlirValue value, MlirValue *out) {
  const MlirOperation op = nabla_defining_op(value);
  if (mlirOperationIsNull(op)) return false;
  if (nabla_is(op, "tensor.cast")) {
    *out = mlirOperationGetOperand(op, 0);
    return mlirTypeIsARankedTensor(mlirValueGetType(*out));
  }
  const MlirStringRef name = nabla_name(op);
  if (name.length < 7 || memcmp(name.data, "linalg.", 7)) return false;
  const intptr_t results = mlirOperationGetNumResults(op);
  const intptr_t first = mlirOperationGetNumOperands(op) - results;
  if (first < 0) return false;
  *out =
      mlirOperationGetOperand(op, first + mlirOpResultGetResultNumber(value));
  return mlirTypeEqual(mlirValueGetType(*out), mlirValueGetType(value));
}

/* Resolves one size; the sizes of earlier tensors are resolved already. */
static bool resolve(MlirOperation dim, void *self) {
  (void)self;
  MlirValue origin, size;
  int64_t which;
  while (find_origin(mlirOperationGetOperand(dim, 0), &origin))
    mlirOperationSetOperand(dim, 0, origin);
  const MlirOperation empty =
      nabla_defining_op(mlirOperationGetOperand(dim, 0));
  if (nabla_is(empty, "tensor.empty") &&
      constant_of(mlirOperationGetOperand(dim, 1), &which) &&
      find_size(empty, which, &size))
    nabla_op_replace(dim, &size);
  return true;
}

MlirLogicalResult nabla_run_resolve_dims(MlirOperation op,
                                         const nablaPassValue *values,
                                         void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(op, is_dim, resolve, NULL);
}
