/* Batches of convolutions; see batching.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/batching/batching.h"

/* Dimensions of an operand or of the result: those of a list, or by default one
 * after the other. */
static int64_t dim_of(MlirOperation op, const char *key, intptr_t index) {
  nabla_batch_list list = nabla_batch_read(op, key);
  return list.count ? list.values[index] : index;
}

/* The batch of `x`, its first dimension, becomes the outer part of dimension
 * `dim` of each example. */
static MlirValue folded(const nabla_batching *s, MlirValue x, int64_t dim) {
  x = nabla_batch_materialized(s, x);
  x = nabla_batch_move(s, x, 0, (intptr_t)dim);
  if (mlirValueIsNull(x)) return x;
  nabla_built_shape all = nabla_build_shape_of(&s->b, x), shape = {0};
  for (intptr_t i = 0; i < all.rank; i++) {
    if (i != dim) {
      nabla_build_shape_add(&shape, &all, i);
      continue;
    }
    bool dynamic =
        nabla_is_dynamic(all.dims[i]) || nabla_is_dynamic(all.dims[i + 1]);
    if (dynamic)
      nabla_build_shape_add_value(
          &shape,
          nabla_build_arith(&s->b, "muli", nabla_build_size(&s->b, &all, i),
                            nabla_build_size(&s->b, &all, i + 1)));
    else
      nabla_build_shape_add_size(&shape, all.dims[i] * all.dims[i + 1]);
    i++;
  }
  return nabla_build_reshape(&s->b, x, &shape);
}

/* The other way: dimension `dim` of y is divided into the batch and what an
 * example has. */
static MlirValue unfolded(const nabla_batching *s, MlirOperation op,
                          MlirValue y, int64_t dim) {
  if (mlirValueIsNull(y)) return y;
  nabla_built_shape all = nabla_build_shape_of(&s->b, y), none = {0};
  nabla_built_shape shape = {0}, batch = nabla_batch_shape(s, &none);
  int64_t each = nabla_array_dim(nabla_result_type(op, 0), (intptr_t)dim);
  for (intptr_t i = 0; i < all.rank; i++) {
    if (i != dim) {
      nabla_build_shape_add(&shape, &all, i);
      continue;
    }
    nabla_build_shape_add(&shape, &batch, 0);
    if (!nabla_is_dynamic(each)) {
      nabla_build_shape_add_size(&shape, each);
      continue;
    }
    MlirValue whole = nabla_build_size(&s->b, &all, i);
    MlirValue size = nabla_build_size(&s->b, &batch, 0);
    MlirValue least = nabla_build_index(&s->b, 1);
    size = nabla_build_arith(&s->b, "maxsi", size, least);
    nabla_build_shape_add_value(&shape,
                                nabla_build_arith(&s->b, "divui", whole, size));
  }
  return nabla_batch_move(s, nabla_build_reshape(&s->b, y, &shape),
                          (intptr_t)dim, 0);
}

static bool convolve(nabla_batching *s, MlirOperation op,
                     const MlirValue operands[2], int64_t groups,
                     int64_t out_dim) {
  MlirNamedAttribute change = nabla_build_integer(&s->b, "groups", 64, groups);
  nabla_batch_copy copy = {.op = op,
                           .operand_count = 2,
                           .operands = operands,
                           .result_count = -1,
                           .change_count = 1,
                           .changes = &change};
  MlirValue y = nabla_batch_first(nabla_batch_copied(s, &copy));
  return nabla_batch_give(s, op, 0, unfolded(s, op, y, out_dim));
}

/* Examples of the input alone are more of its batch. Kernels of each example
 * are groups, whose number is an attribute; with one input for all of them and
 * one group they are more output features. */
bool nabla_batch_conv(nabla_batching *s, MlirOperation op) {
  bool input = nabla_batch_is(s, mlirOperationGetOperand(op, 0));
  bool kernel = nabla_batch_is(s, mlirOperationGetOperand(op, 1));
  int64_t groups = nabla_op_integer(op, "groups", 1);
  int64_t batch_groups = nabla_op_integer(op, "batch_groups", 1);
  int64_t features = dim_of(op, "output_dims", 1);
  MlirValue operands[] = {nabla_batch_operand(s, op, 0),
                          nabla_batch_operand(s, op, 1)};
  if (batch_groups > 1) return nabla_batch_each(s, op);
  if (!kernel) {
    operands[0] = folded(s, operands[0], dim_of(op, "input_dims", 0));
    return convolve(s, op, operands, groups, dim_of(op, "output_dims", 0));
  }
  if (!input && groups == 1) {
    operands[1] = folded(s, operands[1], dim_of(op, "kernel_dims", 0));
    return convolve(s, op, operands, 1, features);
  }
  if (nabla_is_dynamic(s->size) || s->size == 0) return nabla_batch_each(s, op);
  operands[0] = folded(s, nabla_batch_full(s, mlirOperationGetOperand(op, 0)),
                       dim_of(op, "input_dims", 1));
  operands[1] = folded(s, operands[1], dim_of(op, "kernel_dims", 0));
  return convolve(s, op, operands, groups * s->size, features);
}
