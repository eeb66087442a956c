/* Result types of slices, pieces, pads and flips; see infer.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/infer/infer.h"

#define ERROR(in, ...) NABLA_INFER_ERROR(in, __VA_ARGS__)

MlirType nabla_infer_tensor(intptr_t rank, const int64_t *shape,
                            MlirType element) {
  return mlirRankedTensorTypeGet(rank, shape, element, mlirAttributeGetNull());
}

MlirLogicalResult nabla_infer_give(MlirType type, MlirType types[],
                                   intptr_t *count) {
  types[0] = type;
  *count = 1;
  return mlirLogicalResultSuccess();
}

bool nabla_infer_contains(intptr_t count, const int64_t *list, int64_t value) {
  for (intptr_t i = 0; i < count; i++)
    if (list[i] == value) return true;
  return false;
}

nabla_shape_text nabla_infer_text(MlirType type) {
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(type);
  for (intptr_t i = 0; i < rank; i++) shape[i] = nabla_array_dim(type, i);
  return nabla_shape_format(rank, shape);
}

int64_t nabla_infer_integer(const nablaInference *in, const char *key) {
  MlirAttribute value = nabla_attribute(in->attributes, key);
  if (mlirAttributeIsNull(value) || !mlirAttributeIsAInteger(value)) return -1;
  return mlirIntegerAttrGetValueInt(value);
}

bool nabla_infer_list(const nablaInference *in, const char *key, intptr_t rank,
                      bool may_be_empty, int64_t initial,
                      int64_t out[NABLA_MAX_RANK]) {
  intptr_t count = nabla_integers(in->attributes, key, out);
  if (count == 0 && may_be_empty)
    for (count = 0; count < rank; count++) out[count] = initial;
  if (count == rank) return true;
  ERROR(in, "%s has an entry for each of the %d dimensions, not %d", key,
        (int)rank, (int)count);
  return false;
}

/* What a slice takes of one dimension. */
typedef struct cut {
  int64_t start, limit, stride;
} cut;

/* The size that is left of a dimension of `size`; -1 after an error. */
static int64_t cut_size(const nablaInference *in, int dim, int64_t size,
                        const cut *c) {
  if (c->stride < 1) {
    ERROR(in, "strides are positive, not %lld in dimension %d",
          (long long)c->stride, dim);
    return -1;
  }
  bool known = !nabla_is_dynamic(size);
  int64_t limit = c->limit == -1 && known ? size : c->limit;
  if (c->start >= 0 && limit == -1) return size; /* `?` */
  if (c->start < 0 || limit < c->start || (known && limit > size)) {
    ERROR(in,
          "dimension %d needs 0 <= start <= limit <= %s, not %lld and %lld; a "
          "limit of -1 is the end",
          dim, nabla_shape_format(1, &size).data, (long long)c->start,
          (long long)c->limit);
    return -1;
  }
  return limit > c->start ? (limit - c->start - 1) / c->stride + 1 : 0;
}

/* `type` with cuts taken, dense or as a view. */
static MlirType cut_type(MlirType type, const cut *cuts, const int64_t *sizes) {
  intptr_t rank = nabla_array_rank(type);
  if (!nablaTypeIsAImplicit(type) || !nabla_implicit_has_views(type))
    return nabla_infer_tensor(rank, sizes, nabla_array_element(type));
  nabla_strided view = nabla_implicit_strided(type);
  bool empty = false;
  for (intptr_t i = 0; i < rank; i++) empty = empty || sizes[i] == 0;
  for (intptr_t i = 0; i < rank; i++) {
    view.shape[i] = sizes[i];
    if (!empty) view.offset += cuts[i].start * view.strides[i];
    view.strides[i] =
        empty || sizes[i] < 2 ? 0 : view.strides[i] * cuts[i].stride;
  }
  return nabla_implicit_with_view(type, &view);
}

MlirLogicalResult infer_slice(const nablaInference *in, MlirType types[],
                              intptr_t *count) {
  MlirType type = nabla_infer_operand(in, 0);
  intptr_t rank = nabla_array_rank(type);
  int64_t starts[NABLA_MAX_RANK], limits[NABLA_MAX_RANK];
  int64_t strides[NABLA_MAX_RANK], sizes[NABLA_MAX_RANK];
  cut cuts[NABLA_MAX_RANK];
  if (!nabla_infer_list(in, "starts", rank, false, 0, starts) ||
      !nabla_infer_list(in, "limits", rank, false, 0, limits) ||
      !nabla_infer_list(in, "strides", rank, true, 1, strides))
    return mlirLogicalResultFailure();
  for (intptr_t i = 0; i < rank; i++) {
    cuts[i] = (cut){starts[i], limits[i], strides[i]};
    sizes[i] = cut_size(in, (int)i, nabla_array_dim(type, i), &cuts[i]);
    if (sizes[i] == -1) return mlirLogicalResultFailure();
  }
  return nabla_infer_give(cut_type(type, cuts, sizes), types, count);
}

/* A dimension of the operand that `dim` names; -1 after an error. */
static intptr_t read_dim(const nablaInference *in, intptr_t rank) {
  int64_t dim = nabla_infer_integer(in, "dim");
  if (dim >= 0 && dim < rank) return (intptr_t)dim;
  ERROR(in, "dim is less than the rank, %d, and not negative", (int)rank);
  return -1;
}

MlirLogicalResult infer_split(const nablaInference *in, MlirType types[],
                              intptr_t *count) {
  MlirType type = nabla_infer_operand(in, 0);
  MlirAttribute sizes = nabla_attribute(in->attributes, "sizes");
  intptr_t rank = nabla_array_rank(type), dim = read_dim(in, rank);
  if (dim < 0) return mlirLogicalResultFailure();
  intptr_t pieces =
      mlirAttributeIsNull(sizes) ? 0 : mlirDenseArrayGetNumElements(sizes);
  if (pieces < 1 || pieces > NABLA_MAX_RESULTS)
    return ERROR(in, "sizes has 1 to %d entries, not %d", NABLA_MAX_RESULTS,
                 (int)pieces);
  int64_t shape[NABLA_MAX_RANK], at = 0;
  cut cuts[NABLA_MAX_RANK] = {{0}};
  for (intptr_t i = 0; i < rank; i++) {
    shape[i] = nabla_array_dim(type, i);
    cuts[i].stride = 1;
  }
  int64_t whole = shape[dim];
  for (intptr_t i = 0; i < pieces; i++) {
    shape[dim] = mlirDenseI64ArrayGetElement(sizes, i);
    cuts[dim].start = at;
    if (shape[dim] < 0 || __builtin_add_overflow(at, shape[dim], &at) ||
        (!nabla_is_dynamic(whole) && at > whole))
      return ERROR(in, "sizes are not negative and sum up to dimension %d, %s",
                   (int)dim, nabla_shape_format(1, &whole).data);
    types[i] = cut_type(type, cuts, shape);
  }
  if (!nabla_dims_compatible(at, whole))
    return ERROR(in, "sizes sum up to %lld, not to %lld, of dimension %d",
                 (long long)at, (long long)whole, (int)dim);
  *count = pieces;
  return mlirLogicalResultSuccess();
}

bool nabla_infer_padding_fits(int64_t padding) {
  return padding >= -NABLA_MAX_PADDING && padding <= NABLA_MAX_PADDING;
}

/* The padded size; -1 when it is negative or too large. */
static int64_t padded(int64_t size, int64_t low, int64_t high,
                      int64_t interior) {
  int64_t between, sum;
  if (nabla_is_dynamic(size)) return size;
  if (__builtin_mul_overflow(size > 0 ? size - 1 : 0, interior, &between) ||
      __builtin_add_overflow(size, between, &sum) ||
      __builtin_add_overflow(sum, low, &sum) ||
      __builtin_add_overflow(sum, high, &sum) || sum < 0)
    return -1;
  return sum;
}

MlirLogicalResult infer_pad(const nablaInference *in, MlirType types[],
                            intptr_t *count) {
  MlirType type = nabla_infer_operand(in, 0);
  MlirType value = nabla_infer_operand(in, 1);
  intptr_t rank = nabla_array_rank(type);
  int64_t low[NABLA_MAX_RANK], high[NABLA_MAX_RANK], interior[NABLA_MAX_RANK];
  int64_t shape[NABLA_MAX_RANK];
  if (nabla_array_rank(value) != 0 ||
      !mlirTypeEqual(nabla_array_element(type), nabla_array_element(value)))
    return ERROR(in, "the value is a scalar of the array's element type");
  if (!nabla_infer_list(in, "low", rank, false, 0, low) ||
      !nabla_infer_list(in, "high", rank, false, 0, high) ||
      !nabla_infer_list(in, "interior", rank, true, 0, interior))
    return mlirLogicalResultFailure();
  for (intptr_t i = 0; i < rank; i++) {
    if (interior[i] < 0 || interior[i] > NABLA_MAX_DILATION)
      return ERROR(in, "interior lies in 0 to 2^20, not %lld",
                   (long long)interior[i]);
    if (!nabla_infer_padding_fits(low[i]) || !nabla_infer_padding_fits(high[i]))
      return ERROR(in, "low and high lie within +-2^40, not %lld and %lld",
                   (long long)low[i], (long long)high[i]);
    shape[i] = padded(nabla_array_dim(type, i), low[i], high[i], interior[i]);
    if (shape[i] == -1)
      return ERROR(in, "dimension %d becomes negative or too large", (int)i);
  }
  return nabla_infer_give(
      nabla_infer_tensor(rank, shape, nabla_array_element(type)), types, count);
}

MlirLogicalResult infer_flip(const nablaInference *in, MlirType types[],
                             intptr_t *count) {
  MlirType type = nabla_infer_operand(in, 0);
  int64_t dims[NABLA_MAX_RANK];
  intptr_t given = nabla_integers(in->attributes, "dims", dims);
  if (!nabla_dims_valid(given, dims, nabla_array_rank(type)))
    return ERROR(in, "dims are distinct and less than the rank, %d",
                 (int)nabla_array_rank(type));
  return nabla_infer_give(nabla_dense_type(type), types, count);
}

MlirLogicalResult infer_dynamic_update_slice(const nablaInference *in,
                                             MlirType types[],
                                             intptr_t *count) {
  MlirType type = nabla_infer_operand(in, 0);
  MlirType update = nabla_infer_operand(in, 1);
  intptr_t rank = nabla_array_rank(type);
  if (!mlirTypeEqual(nabla_array_element(type), nabla_array_element(update)))
    return ERROR(in,
                 "array and update have the same element type; nabla.convert "
                 "makes it");
  bool fits = nabla_array_rank(update) == rank;
  for (intptr_t i = 0; fits && i < rank; i++) {
    int64_t a = nabla_array_dim(type, i), b = nabla_array_dim(update, i);
    fits = nabla_is_dynamic(a) || nabla_is_dynamic(b) || b <= a;
  }
  if (!fits)
    return ERROR(in,
                 "an update of %s does not fit into %s: it has as many "
                 "dimensions, none of them larger",
                 nabla_infer_text(update).data, nabla_infer_text(type).data);
  if (in->operandCount - 2 != rank)
    return ERROR(in,
                 "at has an entry for each of the %d dimensions, not %d: an "
                 "index, or a tensor of i64 or i32 of rank 0",
                 (int)rank, (int)in->operandCount - 2);
  return nabla_infer_give(nabla_dense_type(type), types, count);
}
