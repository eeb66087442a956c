/* See build.h. */
#include "transforms/ir/build.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

static MlirContext context_of(const nabla_builder *b) {
  return nabla_op_context(b->before);
}

MlirValue nabla_build_op(const nabla_builder *b, const nabla_op_spec *spec) {
  for (intptr_t i = 0; i < spec->operand_count; i++)
    if (mlirValueIsNull(spec->operands[i])) return spec->operands[i];
  MlirOperation op = nabla_op_create(b->before, spec);
  if (mlirOperationIsNull(op)) return (MlirValue){NULL};
  return mlirOperationGetResult(op, 0);
}

MlirNamedAttribute nabla_build_list(const nabla_builder *b, const char *key,
                                    intptr_t count, const int64_t *values) {
  return nabla_named(context_of(b), key,
                     mlirDenseI64ArrayGet(context_of(b), count, values));
}

MlirNamedAttribute nabla_build_integer(const nabla_builder *b, const char *key,
                                       unsigned width, int64_t value) {
  MlirType type = mlirIntegerTypeGet(context_of(b), width);
  return nabla_named(context_of(b), key, mlirIntegerAttrGet(type, value));
}

/* An op with one result: of type `type`, inferred if that is null. */
static MlirValue make(const nabla_builder *b, const char *name, MlirType type,
                      intptr_t count, const MlirValue *operands,
                      intptr_t attributes, const MlirNamedAttribute *list) {
  bool infer = mlirTypeIsNull(type);
  nabla_op_spec spec = {name,  count,      operands, infer ? -1 : 1,
                        &type, attributes, list};
  return nabla_build_op(b, &spec);
}

static const MlirType inferred = {NULL};

/* ---- shapes ---- */

nabla_built_shape nabla_build_shape_of(const nabla_builder *b,
                                       MlirValue array) {
  nabla_built_shape shape = {0};
  if (mlirValueIsNull(array)) return shape;
  MlirType type = mlirValueGetType(array);
  shape.rank = nabla_array_rank(type);
  for (intptr_t i = 0; i < shape.rank; i++) {
    shape.dims[i] = nabla_array_dim(type, i);
    if (!nabla_is_dynamic(shape.dims[i])) continue;
    MlirValue operands[2] = {array, nabla_build_index(b, i)};
    shape.sizes[i] = make(b, "tensor.dim", mlirIndexTypeGet(context_of(b)), 2,
                          operands, 0, NULL);
  }
  return shape;
}

void nabla_build_shape_add(nabla_built_shape *shape,
                           const nabla_built_shape *from, intptr_t index) {
  shape->dims[shape->rank] = from->dims[index];
  shape->sizes[shape->rank++] = from->sizes[index];
}

void nabla_build_shape_add_size(nabla_built_shape *shape, int64_t size) {
  shape->dims[shape->rank] = size;
  shape->sizes[shape->rank++] = (MlirValue){NULL};
}

void nabla_build_shape_add_value(nabla_built_shape *shape, MlirValue size) {
  shape->dims[shape->rank] = mlirShapedTypeGetDynamicSize();
  shape->sizes[shape->rank++] = size;
}

static MlirType tensor_of(const nabla_built_shape *shape, MlirType element) {
  return mlirRankedTensorTypeGet(shape->rank, shape->dims, element,
                                 mlirAttributeGetNull());
}

/* Appends the sizes of dynamic dimensions to operands. */
static intptr_t add_sizes(const nabla_built_shape *shape, intptr_t count,
                          MlirValue *operands) {
  for (intptr_t i = 0; i < shape->rank; i++)
    if (nabla_is_dynamic(shape->dims[i])) operands[count++] = shape->sizes[i];
  return count;
}

/* ---- index arithmetic ---- */

MlirValue nabla_build_index(const nabla_builder *b, int64_t value) {
  MlirType type = mlirIndexTypeGet(context_of(b));
  MlirNamedAttribute at =
      nabla_named(context_of(b), "value", mlirIntegerAttrGet(type, value));
  return make(b, "arith.constant", type, 0, NULL, 1, &at);
}

MlirValue nabla_build_arith(const nabla_builder *b, const char *name,
                            MlirValue lhs, MlirValue rhs) {
  char full[32];
  MlirValue operands[2] = {lhs, rhs};
  (void)snprintf(full, sizeof full, "arith.%s", name);
  return make(b, full, mlirIndexTypeGet(context_of(b)), 2, operands, 0, NULL);
}

MlirValue nabla_build_size(const nabla_builder *b,
                           const nabla_built_shape *shape, intptr_t index) {
  if (nabla_is_dynamic(shape->dims[index])) return shape->sizes[index];
  return nabla_build_index(b, shape->dims[index]);
}

/* ---- element by element ---- */

static MlirValue named(const nabla_builder *b, const char *name, intptr_t count,
                       const MlirValue *operands) {
  char full[32];
  (void)snprintf(full, sizeof full, "nabla.%s", name);
  return make(b, full, inferred, count, operands, 0, NULL);
}

MlirValue nabla_build_one(const nabla_builder *b, const char *name,
                          MlirValue x) {
  return named(b, name, 1, &x);
}

MlirValue nabla_build_two(const nabla_builder *b, const char *name,
                          MlirValue lhs, MlirValue rhs) {
  MlirValue operands[2] = {lhs, rhs};
  return named(b, name, 2, operands);
}

MlirValue nabla_build_convert(const nabla_builder *b, MlirValue x,
                              MlirType element) {
  if (mlirValueIsNull(x)) return x;
  MlirType type = mlirValueGetType(x);
  if (mlirTypeEqual(nabla_array_element(type), element)) return x;
  nabla_built_shape shape = {.rank = nabla_array_rank(type)};
  for (intptr_t i = 0; i < shape.rank; i++)
    shape.dims[i] = nabla_array_dim(type, i);
  return make(b, "nabla.convert", tensor_of(&shape, element), 1, &x, 0, NULL);
}

MlirValue nabla_build_compare(const nabla_builder *b, int64_t kind, MlirValue x,
                              MlirValue y) {
  MlirValue operands[2] = {x, y};
  MlirNamedAttribute how = nabla_build_integer(b, "kind", 32, kind);
  return make(b, "nabla.compare", inferred, 2, operands, 1, &how);
}

MlirValue nabla_build_select(const nabla_builder *b, MlirValue condition,
                             MlirValue yes, MlirValue no) {
  MlirValue operands[3] = {condition, yes, no};
  return named(b, "select", 3, operands);
}

/* ---- along dimensions ---- */

MlirValue nabla_build_reduce(const nabla_builder *b, int64_t kind, MlirValue x,
                             intptr_t dim) {
  int64_t dims = dim;
  MlirNamedAttribute list[2] = {nabla_build_list(b, "dims", 1, &dims),
                                nabla_build_integer(b, "kind", 32, kind)};
  return make(b, "nabla.reduce", inferred, 1, &x, 2, list);
}

MlirValue nabla_build_softmax(const nabla_builder *b, MlirValue x,
                              intptr_t dim) {
  MlirNamedAttribute at = nabla_build_integer(b, "dim", 64, dim);
  return make(b, "nabla.softmax", inferred, 1, &x, 1, &at);
}

/* ---- shape ---- */

static bool has_shape(MlirType type, const nabla_built_shape *shape) {
  bool same = nabla_array_rank(type) == shape->rank;
  for (intptr_t i = 0; same && i < shape->rank; i++)
    same = !nabla_is_dynamic(shape->dims[i]) &&
           nabla_array_dim(type, i) == shape->dims[i];
  return same;
}

MlirValue nabla_build_broadcast(const nabla_builder *b, MlirValue x,
                                const int64_t *dims,
                                const nabla_built_shape *shape) {
  MlirValue operands[NABLA_MAX_RANK + 1] = {x};
  if (mlirValueIsNull(x)) return x;
  MlirType type = mlirValueGetType(x), result;
  if (has_shape(type, shape)) return x;
  intptr_t rank = nabla_array_rank(type);
  if (nablaTypeIsAImplicit(type)) {
    nabla_strided old = nabla_implicit_strided(type);
    nabla_strided view = {shape->rank, {0}, {0}, old.offset};
    bool is_static = true;
    for (intptr_t i = 0; i < shape->rank; i++) {
      view.shape[i] = shape->dims[i];
      is_static = is_static && !nabla_is_dynamic(shape->dims[i]);
    }
    for (intptr_t i = 0; i < rank; i++)
      view.strides[dims[i]] =
          old.shape[i] == shape->dims[dims[i]] ? old.strides[i] : 0;
    result = is_static ? nabla_implicit_with_view(type, &view)
                       : tensor_of(shape, nabla_array_element(type));
  } else {
    result = tensor_of(shape, nabla_array_element(type));
  }
  intptr_t count = add_sizes(shape, 1, operands);
  MlirNamedAttribute at = nabla_build_list(b, "dims", rank, dims);
  return make(b, "nabla.broadcast_in_dim", result, count, operands, 1, &at);
}

MlirValue nabla_build_reshape(const nabla_builder *b, MlirValue x,
                              const nabla_built_shape *shape) {
  MlirValue operands[NABLA_MAX_RANK + 1] = {x};
  if (mlirValueIsNull(x)) return x;
  MlirType type = mlirValueGetType(x);
  if (has_shape(type, shape)) return x;
  intptr_t count = add_sizes(shape, 1, operands);
  return make(b, "nabla.reshape", tensor_of(shape, nabla_array_element(type)),
              count, operands, 0, NULL);
}

MlirValue nabla_build_vector_of(const nabla_builder *b, MlirValue vector,
                                const nabla_built_shape *shape,
                                intptr_t index) {
  if (mlirValueIsNull(vector)) return vector;
  MlirType type = mlirValueGetType(vector);
  if (!nabla_is_dynamic(nabla_array_dim(type, 0))) return vector;
  nabla_built_shape own = {0};
  nabla_build_shape_add(&own, shape, index);
  MlirValue operands[NABLA_MAX_RANK + 1] = {vector};
  intptr_t count = add_sizes(&own, 1, operands);
  return make(b, "nabla.reshape", tensor_of(&own, nabla_array_element(type)),
              count, operands, 0, NULL);
}

MlirValue nabla_build_slice(const nabla_builder *b, MlirValue x, intptr_t dim,
                            int64_t start, int64_t limit) {
  int64_t starts[NABLA_MAX_RANK], limits[NABLA_MAX_RANK];
  if (mlirValueIsNull(x)) return x;
  intptr_t rank = nabla_array_rank(mlirValueGetType(x));
  for (intptr_t i = 0; i < rank; i++) {
    starts[i] = i == dim ? start : 0;
    limits[i] = i == dim ? limit : -1;
  }
  MlirNamedAttribute list[2] = {nabla_build_list(b, "starts", rank, starts),
                                nabla_build_list(b, "limits", rank, limits)};
  return make(b, "nabla.slice", inferred, 1, &x, 2, list);
}

MlirValue nabla_build_concatenate(const nabla_builder *b, MlirValue x,
                                  MlirValue y, int64_t dim) {
  MlirValue operands[2] = {x, y};
  MlirNamedAttribute at = nabla_build_integer(b, "dim", 64, dim);
  return make(b, "nabla.concatenate", inferred, 2, operands, 1, &at);
}

MlirValue nabla_build_flip(const nabla_builder *b, MlirValue x, intptr_t count,
                           const int64_t *dims) {
  MlirNamedAttribute at = nabla_build_list(b, "dims", count, dims);
  return make(b, "nabla.flip", inferred, 1, &x, 1, &at);
}

/* ---- creation ---- */

static MlirValue create(const nabla_builder *b, const char *name,
                        const nabla_built_shape *shape, MlirType element,
                        MlirNamedAttribute attribute) {
  MlirValue operands[NABLA_MAX_RANK];
  intptr_t count = add_sizes(shape, 0, operands);
  return make(b, name, tensor_of(shape, element), count, operands, 1,
              &attribute);
}

MlirValue nabla_build_full(const nabla_builder *b, double value,
                           const nabla_built_shape *shape, MlirType element) {
  MlirAttribute number = mlirFloatAttrDoubleGet(context_of(b), element, value);
  return create(b, "nabla.full", shape, element,
                nabla_named(context_of(b), "value", number));
}

MlirValue nabla_build_full_integer(const nabla_builder *b, int64_t value,
                                   const nabla_built_shape *shape,
                                   MlirType element) {
  return create(
      b, "nabla.full", shape, element,
      nabla_named(context_of(b), "value", mlirIntegerAttrGet(element, value)));
}

MlirValue nabla_build_iota(const nabla_builder *b, intptr_t dim,
                           const nabla_built_shape *shape, MlirType element) {
  return create(b, "nabla.iota", shape, element,
                nabla_build_integer(b, "dim", 64, dim));
}

MlirValue nabla_build_tri(const nabla_builder *b, int64_t diagonal,
                          const nabla_built_shape *shape, MlirType element) {
  return create(b, "nabla.tri", shape, element,
                nabla_build_integer(b, "diagonal", 64, diagonal));
}

/* ---- contraction ---- */

MlirValue nabla_build_dot(const nabla_builder *b, MlirValue lhs, MlirValue rhs,
                          intptr_t batching, int64_t lhs_contracting,
                          int64_t rhs_contracting) {
  int64_t batch[NABLA_MAX_RANK];
  MlirValue operands[2] = {lhs, rhs};
  for (intptr_t i = 0; i < batching; i++) batch[i] = i;
  MlirNamedAttribute list[4] = {
      nabla_build_list(b, "lhs_contracting", 1, &lhs_contracting),
      nabla_build_list(b, "rhs_contracting", 1, &rhs_contracting),
      nabla_build_list(b, "lhs_batching", batching, batch),
      nabla_build_list(b, "rhs_batching", batching, batch)};
  return make(b, "nabla.dot_general", inferred, 2, operands, 4, list);
}
