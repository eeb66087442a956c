/* What linear, rms_norm and layer_norm are made of. */
#include <mlir-c/BuiltinTypes.h>

#include "transforms/composite/decompositions.h"

/* A vector, one element for each place of a row, in every row. */
static MlirValue every_row(const nabla_builder *b, MlirValue vector,
                           const nabla_built_shape *shape) {
  int64_t last = shape->rank - 1;
  return nabla_build_broadcast(b, nabla_build_vector_of(b, vector, shape, last),
                               &last, shape);
}

/* Of a packed w the product rounds to its element type, unless the bias joins
 * it in the epilogue. */
MlirValue nabla_parts_linear(const nabla_builder *b, MlirOperation op) {
  MlirValue x = mlirOperationGetOperand(op, 0);
  MlirValue w = mlirOperationGetOperand(op, 1);
  nabla_built_shape shape = nabla_build_shape_of(b, x);
  MlirType element = nabla_array_element(mlirValueGetType(x)), work = element;
  bool has_bias = mlirOperationGetNumOperands(op) > 2;
  if (has_bias && !nablaTypeIsAImplicit(mlirValueGetType(w)))
    work = nabla_parts_work(element);
  MlirValue y =
      nabla_build_dot(b, nabla_build_convert(b, x, work),
                      nabla_build_convert(b, w, work), 0, shape.rank - 1, 1);
  if (!has_bias) return y;
  nabla_built_shape weight = nabla_build_shape_of(b, w);
  shape.rank--;
  nabla_build_shape_add(&shape, &weight, 0);
  MlirValue bias = nabla_build_convert(b, mlirOperationGetOperand(op, 2), work);
  y = nabla_build_two(b, "add", y, every_row(b, bias, &shape));
  return nabla_build_convert(b, y, element);
}

/* The same for each row, in all of its places. */
static MlirValue every_place(const nabla_builder *b, MlirValue rows,
                             const nabla_built_shape *shape) {
  int64_t dims[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < shape->rank - 1; i++) dims[i] = i;
  return nabla_build_broadcast(b, rows, dims, shape);
}

static MlirValue mean(const nabla_builder *b, MlirValue x,
                      const nabla_built_shape *shape) {
  return nabla_build_reduce(b, NABLA_BUILD_MEAN, x, shape->rank - 1);
}

/* x / sqrt(mean(x^2) + eps) */
static MlirValue normalize(const nabla_builder *b, MlirOperation op,
                           MlirValue x, const nabla_built_shape *shape,
                           MlirType work) {
  nabla_built_shape rows = *shape;
  rows.rank--;
  MlirValue eps =
      nabla_build_full(b, nabla_parts_float(op, "eps", 0), &rows, work);
  MlirValue square = mean(b, nabla_build_two(b, "mul", x, x), shape);
  MlirValue scale =
      nabla_build_one(b, "rsqrt", nabla_build_two(b, "add", square, eps));
  return nabla_build_two(b, "mul", x, every_place(b, scale, shape));
}

/* Times the weight, plus the bias, as far as they are given. */
static MlirValue apply(const nabla_builder *b, MlirOperation op, MlirValue y,
                       const nabla_built_shape *shape, MlirType work) {
  for (intptr_t i = 1; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue vector =
        nabla_build_convert(b, mlirOperationGetOperand(op, i), work);
    y = nabla_build_two(b, i == 1 ? "mul" : "add", y,
                        every_row(b, vector, shape));
  }
  return y;
}

static MlirValue norm(const nabla_builder *b, MlirOperation op, bool centered) {
  MlirValue x = mlirOperationGetOperand(op, 0);
  nabla_built_shape shape = nabla_build_shape_of(b, x);
  MlirType element = nabla_array_element(mlirValueGetType(x));
  MlirType work = nabla_parts_work(element);
  x = nabla_build_convert(b, x, work);
  if (centered) {
    MlirValue middle = every_place(b, mean(b, x, &shape), &shape);
    x = nabla_build_two(b, "sub", x, middle);
  }
  MlirValue y = normalize(b, op, x, &shape, work);
  return nabla_build_convert(b, apply(b, op, y, &shape, work), element);
}

MlirValue nabla_parts_rms_norm(const nabla_builder *b, MlirOperation op) {
  return norm(b, op, false);
}
MlirValue nabla_parts_layer_norm(const nabla_builder *b, MlirOperation op) {
  return norm(b, op, true);
}
