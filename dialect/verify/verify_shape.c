/* Verifiers of shape operations whose result type is written; see verify.h. */
#include "dialect/dialect.h"
#include "dialect/verify/verify.h"

#define ERROR(op, ...) NABLA_VERIFY_ERROR(op, __VA_ARGS__)

MlirLogicalResult nabla_verify_sizes(MlirOperation op, intptr_t first,
                                     bool may_infer) {
  MlirType to = mlirValueGetType(mlirOperationGetResult(op, 0));
  intptr_t rank = nabla_array_rank(to), dynamic = 0;
  if (rank > NABLA_MAX_RANK)
    return ERROR(op, "arrays have at most %d dimensions", NABLA_MAX_RANK);
  for (intptr_t i = 0; i < rank; i++)
    dynamic += nabla_is_dynamic(nabla_array_dim(to, i));
  intptr_t sizes = mlirOperationGetNumOperands(op) - first;
  if (sizes == dynamic || (may_infer && sizes == 0 && dynamic == 1))
    return mlirLogicalResultSuccess();
  return ERROR(op, "the result has %d dynamic dimensions, sizes has %d",
               (int)dynamic, (int)sizes);
}

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

/* What StableHLO's convolution has and this one has not: written as attributes
 * of other names it would be ignored. */
MlirLogicalResult verify_conv_general(MlirOperation op) {
  static const struct {
    const char *key, *instead;
  } missing[] = {
      {"batch_group_count",
       "there is one batch group: convolve slices of the batch with slices of "
       "the kernel and concatenate the features"},
      {"batch_groups",
       "there is one batch group: convolve slices of the batch with slices of "
       "the kernel and concatenate the features"},
      {"window_reversal",
       "windows are not reversed: nabla.flip turns the kernel's spatial "
       "dimensions round"},
      {"rhs_reversal",
       "windows are not reversed: nabla.flip turns the kernel's spatial "
       "dimensions round"},
  };
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
    MlirAttribute given = mlirOperationGetAttributeByName(
        op, mlirStringRefCreateFromCString(missing[i].key));
    if (!mlirAttributeIsNull(given))
      return ERROR(op, "has no attribute '%s': %s", missing[i].key,
                   missing[i].instead);
  }
  return mlirLogicalResultSuccess();
}
