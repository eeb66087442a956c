/* See build_moves.h. */
#include "transforms/ir/build_moves.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

static MlirValue make(const nabla_builder *b, const char *name, intptr_t count,
                      const MlirValue *operands, intptr_t attributes,
                      const MlirNamedAttribute *list) {
  nabla_op_spec spec = {name, count, operands, -1, NULL, attributes, list};
  return nabla_build_op(b, &spec);
}

MlirValue nabla_build_dense(const nabla_builder *b, MlirValue x) {
  if (mlirValueIsNull(x) || !nablaTypeIsAImplicit(mlirValueGetType(x)))
    return x;
  return make(b, "nabla.materialize", 1, &x, 0, NULL);
}

MlirValue nabla_build_cast(const nabla_builder *b, MlirValue x, MlirType type) {
  if (mlirValueIsNull(x) || mlirTypeEqual(mlirValueGetType(x), type)) return x;
  nabla_op_spec spec = {"tensor.cast", 1, &x, 1, &type, 0, NULL};
  return nabla_build_op(b, &spec);
}

MlirValue nabla_build_zeros(const nabla_builder *b, MlirValue array,
                            MlirType element) {
  if (mlirValueIsNull(array)) return array;
  nabla_built_shape shape = nabla_build_shape_of(b, array);
  return nabla_build_full(b, 0, &shape, element);
}

MlirValue nabla_build_scalar(const nabla_builder *b, double value,
                             MlirType element) {
  const nabla_built_shape shape = {0};
  return nabla_build_full(b, value, &shape, element);
}

MlirValue nabla_build_reduce_all(const nabla_builder *b, int64_t kind,
                                 MlirValue x, intptr_t count,
                                 const int64_t *dims) {
  if (mlirValueIsNull(x) || !count) return x;
  MlirNamedAttribute list[2] = {nabla_build_list(b, "dims", count, dims),
                                nabla_build_integer(b, "kind", 32, kind)};
  return make(b, "nabla.reduce", 1, &x, 2, list);
}

MlirValue nabla_build_transpose(const nabla_builder *b, MlirValue x,
                                const int64_t *permutation) {
  if (mlirValueIsNull(x)) return x;
  return nabla_value_transpose(
      b->before, x, nabla_array_rank(mlirValueGetType(x)), permutation);
}

MlirValue nabla_build_cumsum(const nabla_builder *b, MlirValue x, int64_t dim) {
  MlirNamedAttribute at = nabla_build_integer(b, "dim", 64, dim);
  return make(b, "nabla.cumsum", 1, &x, 1, &at);
}

MlirValue nabla_build_pad(const nabla_builder *b, MlirValue x,
                          const int64_t *low, const int64_t *high,
                          const int64_t *interior) {
  if (mlirValueIsNull(x)) return x;
  MlirType type = mlirValueGetType(x);
  intptr_t rank = nabla_array_rank(type);
  MlirValue operands[2] = {x,
                           nabla_build_scalar(b, 0, nabla_array_element(type))};
  MlirNamedAttribute list[3] = {nabla_build_list(b, "low", rank, low),
                                nabla_build_list(b, "high", rank, high)};
  if (interior) list[2] = nabla_build_list(b, "interior", rank, interior);
  return make(b, "nabla.pad", 2, operands, interior ? 3 : 2, list);
}

MlirValue nabla_build_slice_strided(const nabla_builder *b, MlirValue x,
                                    const int64_t *starts,
                                    const int64_t *limits,
                                    const int64_t *strides) {
  if (mlirValueIsNull(x)) return x;
  intptr_t rank = nabla_array_rank(mlirValueGetType(x));
  MlirNamedAttribute list[3] = {nabla_build_list(b, "starts", rank, starts),
                                nabla_build_list(b, "limits", rank, limits)};
  if (strides) list[2] = nabla_build_list(b, "strides", rank, strides);
  return make(b, "nabla.slice", 1, &x, strides ? 3 : 2, list);
}

MlirValue nabla_build_box(const nabla_builder *b, MlirValue x,
                          const MlirValue *starts,
                          const nabla_built_shape *shape) {
  MlirValue operands[2 * NABLA_MAX_RANK + 1] = {x};
  if (mlirValueIsNull(x)) return x;
  MlirContext context = nabla_op_context(b->before);
  intptr_t count = 1;
  for (intptr_t i = 0; i < shape->rank; i++) operands[count++] = starts[i];
  int32_t groups[3] = {1, (int32_t)shape->rank, 0};
  for (intptr_t i = 0; i < shape->rank; i++)
    if (nabla_is_dynamic(shape->dims[i])) {
      operands[count++] = shape->sizes[i];
      groups[2]++;
    }
  MlirNamedAttribute segments = nabla_named(
      context, "operandSegmentSizes", mlirDenseI32ArrayGet(context, 3, groups));
  MlirType type = mlirRankedTensorTypeGet(
      shape->rank, shape->dims, nabla_array_element(mlirValueGetType(x)),
      mlirAttributeGetNull());
  nabla_op_spec spec = {
      "nabla.dynamic_slice", count, operands, 1, &type, 1, &segments};
  return nabla_build_op(b, &spec);
}

MlirValue nabla_build_box_update(const nabla_builder *b, MlirValue x,
                                 MlirValue update, const MlirValue *starts) {
  MlirValue operands[NABLA_MAX_RANK + 2] = {x, update};
  if (mlirValueIsNull(x)) return x;
  intptr_t rank = nabla_array_rank(mlirValueGetType(x));
  for (intptr_t i = 0; i < rank; i++) operands[i + 2] = starts[i];
  return make(b, "nabla.dynamic_update_slice", rank + 2, operands, 0, NULL);
}

MlirValue nabla_build_join(const nabla_builder *b, intptr_t count,
                           const MlirValue *parts, int64_t dim) {
  MlirNamedAttribute at = nabla_build_integer(b, "dim", 64, dim);
  return make(b, "nabla.concatenate", count, parts, 1, &at);
}

MlirValue nabla_build_dot_of(const nabla_builder *b, MlirValue lhs,
                             MlirValue rhs, const nabla_built_dot *dims) {
  MlirValue operands[2] = {lhs, rhs};
  MlirNamedAttribute list[4] = {
      nabla_build_list(b, "lhs_contracting", dims->contracted,
                       dims->contracting[0]),
      nabla_build_list(b, "rhs_contracting", dims->contracted,
                       dims->contracting[1]),
      nabla_build_list(b, "lhs_batching", dims->batches, dims->batching[0]),
      nabla_build_list(b, "rhs_batching", dims->batches, dims->batching[1])};
  return make(b, "nabla.dot_general", 2, operands, 4, list);
}
