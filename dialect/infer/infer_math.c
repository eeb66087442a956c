/* Result types of NablaMath.td's ops. */
#include "dialect/infer/infer_math.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/infer/infer.h"

#define ERROR(in, ...) NABLA_INFER_ERROR(in, __VA_ARGS__)

static MlirType type_of(const nablaInference *in, intptr_t index) {
  return nabla_infer_operand(in, index);
}

static MlirLogicalResult give(intptr_t rank, const int64_t *shape,
                              MlirType element, MlirType types[],
                              intptr_t *count) {
  types[0] =
      mlirRankedTensorTypeGet(rank, shape, element, mlirAttributeGetNull());
  *count = 1;
  return mlirLogicalResultSuccess();
}

static intptr_t shape_of(MlirType type, int64_t shape[NABLA_MAX_RANK]) {
  intptr_t rank = nabla_array_rank(type);
  for (intptr_t i = 0; i < rank; i++) shape[i] = nabla_array_dim(type, i);
  return rank;
}

/* The shape that all operands have; reported when they differ. */
static bool common_shape(const nablaInference *in, int64_t shape[],
                         intptr_t *rank) {
  *rank = shape_of(type_of(in, 0), shape);
  for (intptr_t i = 1; i < in->operandCount; i++) {
    int64_t other[NABLA_MAX_RANK];
    bool good = shape_of(type_of(in, i), other) == *rank;
    for (intptr_t d = 0; good && d < *rank; d++) {
      good = nabla_dims_compatible(shape[d], other[d]);
      if (nabla_is_dynamic(shape[d])) shape[d] = other[d];
    }
    if (good) continue;
    intptr_t count = shape_of(type_of(in, i), other);
    int64_t first[NABLA_MAX_RANK];
    intptr_t first_rank = shape_of(type_of(in, 0), first);
    ERROR(in,
          "operands have one shape, not %s and %s; nabla.broadcast_in_dim "
          "repeats along dimensions",
          nabla_shape_format(first_rank, first).data,
          nabla_shape_format(count, other).data);
    return false;
  }
  return true;
}

static bool same_elements(const nablaInference *in, intptr_t a, intptr_t b) {
  if (mlirTypeEqual(nabla_array_element(type_of(in, a)),
                    nabla_array_element(type_of(in, b))))
    return true;
  ERROR(in, "operands have the same element type");
  return false;
}

static MlirType boolean(const nablaInference *in) {
  return mlirIntegerTypeGet(in->context, 1);
}

MlirLogicalResult infer_predicate(const nablaInference *in, MlirType types[],
                                  intptr_t *count) {
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank = shape_of(type_of(in, 0), shape);
  return give(rank, shape, boolean(in), types, count);
}

MlirLogicalResult infer_compare(const nablaInference *in, MlirType types[],
                                intptr_t *count) {
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank;
  if (!same_elements(in, 0, 1) || !common_shape(in, shape, &rank))
    return mlirLogicalResultFailure();
  return give(rank, shape, boolean(in), types, count);
}

MlirLogicalResult infer_select(const nablaInference *in, MlirType types[],
                               intptr_t *count) {
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank;
  if (!same_elements(in, 1, 2) || !common_shape(in, shape, &rank))
    return mlirLogicalResultFailure();
  return give(rank, shape, nabla_array_element(type_of(in, 1)), types, count);
}

static bool read_dim(const nablaInference *in, int64_t *out) {
  intptr_t rank = nabla_array_rank(type_of(in, 0));
  *out = nabla_infer_integer(in, "dim");
  if (*out >= 0 && *out < rank) return true;
  ERROR(in, "dim is less than the rank, %d", (int)rank);
  return false;
}

static MlirLogicalResult across(const nablaInference *in, MlirType element,
                                MlirType types[], intptr_t *count) {
  int64_t dim, shape[NABLA_MAX_RANK];
  if (!read_dim(in, &dim)) return mlirLogicalResultFailure();
  bool keep =
      !mlirAttributeIsNull(nabla_attribute(in->attributes, "keep_dims"));
  intptr_t rank = nabla_array_rank(type_of(in, 0)), kept = 0;
  for (intptr_t i = 0; i < rank; i++) {
    if (i != dim) shape[kept++] = nabla_array_dim(type_of(in, 0), i);
    if (i == dim && keep) shape[kept++] = 1;
  }
  return give(kept, shape, element, types, count);
}

MlirLogicalResult infer_across(const nablaInference *in, MlirType types[],
                               intptr_t *count) {
  return across(in, nabla_array_element(type_of(in, 0)), types, count);
}

MlirLogicalResult infer_arg(const nablaInference *in, MlirType types[],
                            intptr_t *count) {
  int64_t dim;
  if (!read_dim(in, &dim)) return mlirLogicalResultFailure();
  if (nabla_array_dim(type_of(in, 0), (intptr_t)dim) == 0)
    return ERROR(in, "dimension %d has no elements to choose from", (int)dim);
  return across(in, mlirIntegerTypeGet(in->context, 64), types, count);
}

MlirLogicalResult infer_along(const nablaInference *in, MlirType types[],
                              intptr_t *count) {
  int64_t dim, shape[NABLA_MAX_RANK];
  if (!read_dim(in, &dim)) return mlirLogicalResultFailure();
  intptr_t rank = shape_of(type_of(in, 0), shape);
  return give(rank, shape, nabla_array_element(type_of(in, 0)), types, count);
}
