/* Verifiers of shape operations whose result type is written; see verify.h. */
#include "dialect/dialect.h"
#include "dialect/verify.h"

#define ERROR(op, ...)                         \
  nabla_op_error(mlirOperationGetLocation(op), \
                 mlirIdentifierStr(mlirOperationGetName(op)), __VA_ARGS__)

/* Operands: the array, a start for each dimension, a size for each `?`. */
MlirLogicalResult verify_dynamic_slice(MlirOperation op) {
  MlirType from = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType to = mlirValueGetType(mlirOperationGetResult(op, 0));
  intptr_t rank = nabla_array_rank(from), dynamic = 0;
  if (rank > NABLA_MAX_RANK || nabla_array_rank(to) != rank)
    return ERROR(op, "the result has as many dimensions as the operand, %d",
                 (int)rank);
  if (!mlirTypeEqual(nabla_array_element(from), nabla_array_element(to)))
    return ERROR(op, "keeps the element type");
  for (intptr_t i = 0; i < rank; i++) {
    int64_t a = nabla_array_dim(from, i), b = nabla_array_dim(to, i);
    dynamic += nabla_is_dynamic(b);
    if (!nabla_is_dynamic(a) && !nabla_is_dynamic(b) && b > a)
      return ERROR(op, "takes %lld of dimension %d, which has %lld",
                   (long long)b, (int)i, (long long)a);
  }
  intptr_t starts = nabla_op_segment(op, 1), sizes = nabla_op_segment(op, 2);
  if (starts != rank)
    return ERROR(op, "at has an entry for each of the %d dimensions, not %d",
                 (int)rank, (int)starts);
  if (sizes != dynamic)
    return ERROR(op, "the result has %d dynamic dimensions, sizes has %d",
                 (int)dynamic, (int)sizes);
  return mlirLogicalResultSuccess();
}
