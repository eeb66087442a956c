/* Verifier of custom_call: what does not depend on its handler. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/verify.h"

#define ERROR(op, ...)                         \
  nabla_op_error(mlirOperationGetLocation(op), \
                 mlirIdentifierStr(mlirOperationGetName(op)), __VA_ARGS__)

/* Arrays come first, then an index for each dynamic dimension of the results.
 */
static MlirLogicalResult check_sizes(MlirOperation op, intptr_t *out_arrays) {
  intptr_t sizes = 0, dynamic = 0, count = mlirOperationGetNumOperands(op);
  for (intptr_t i = 0; i < count; i++) {
    MlirType type = mlirValueGetType(mlirOperationGetOperand(op, i));
    if (mlirTypeIsAIndex(type))
      sizes++;
    else if (sizes)
      return ERROR(op, "operands of type index stand behind the arrays");
  }
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
    MlirType type = mlirValueGetType(mlirOperationGetResult(op, r));
    if (nabla_array_rank(type) > NABLA_MAX_RANK)
      return ERROR(op, "arrays have at most %d dimensions", NABLA_MAX_RANK);
    for (intptr_t i = 0; i < nabla_array_rank(type); i++)
      dynamic += nabla_is_dynamic(nabla_array_dim(type, i));
  }
  *out_arrays = count - sizes;
  if (sizes == dynamic) return mlirLogicalResultSuccess();
  return ERROR(op,
               "the results have %d dynamic dimensions, and %d operands are of "
               "type index: give one for each",
               (int)dynamic, (int)sizes);
}

/* `parts` counts every array once. */
static MlirLogicalResult check_parts(MlirOperation op, intptr_t arrays) {
  MlirAttribute parts = mlirOperationGetAttributeByName(
      op, mlirStringRefCreateFromCString("parts"));
  if (mlirAttributeIsNull(parts)) return mlirLogicalResultSuccess();
  int64_t sum = 0;
  for (intptr_t i = 0; i < mlirDenseArrayGetNumElements(parts); i++) {
    int64_t one = mlirDenseI64ArrayGetElement(parts, i);
    if (one < 0 || one > NABLA_MAX_PARTS)
      return ERROR(op, "parts are from 0 to %d", NABLA_MAX_PARTS);
    sum += one;
  }
  if (sum == arrays) return mlirLogicalResultSuccess();
  return ERROR(op, "parts count %lld arrays, there are %d", (long long)sum,
               (int)arrays);
}

MlirLogicalResult verify_custom_call(MlirOperation op) {
  intptr_t arrays = 0;
  if (mlirOperationGetNumOperands(op) > NABLA_MAX_OPERANDS ||
      mlirOperationGetNumResults(op) > NABLA_MAX_RESULTS)
    return ERROR(op, "has at most %d operands and %d results",
                 NABLA_MAX_OPERANDS, NABLA_MAX_RESULTS);
  if (mlirLogicalResultIsFailure(check_sizes(op, &arrays)))
    return mlirLogicalResultFailure();
  return check_parts(op, arrays);
}
