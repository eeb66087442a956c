/* Batches of operations whose result types are written, or that take places as
 * operands; see batching.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/batching/batching.h"

/* The shape of a result whose sizes are operands of the op from `first` on. */
static nabla_built_shape written_shape(const nabla_batching *s,
                                       MlirOperation op, intptr_t first) {
  MlirType type = nabla_result_type(op, 0);
  nabla_built_shape shape = {0};
  for (intptr_t i = 0; i < nabla_array_rank(type); i++) {
    int64_t size = nabla_array_dim(type, i);
    if (!nabla_is_dynamic(size))
      nabla_build_shape_add_size(&shape, size);
    else
      nabla_build_shape_add_value(&shape, nabla_batch_operand(s, op, first++));
  }
  return shape;
}

/* The product of the sizes of an array behind the batch, as an index. */
static MlirValue elements_of(const nabla_batching *s, MlirValue x) {
  nabla_built_shape shape = nabla_build_shape_of(&s->b, x);
  MlirValue product = nabla_build_index(&s->b, 1);
  for (intptr_t i = 1; i < shape.rank; i++)
    product = nabla_build_arith(&s->b, "muli", product,
                                nabla_build_size(&s->b, &shape, i));
  return product;
}

/* The one `?` of a reshape that has no operand for it. */
static void find_size(const nabla_batching *s, MlirValue x,
                      nabla_built_shape *shape) {
  int64_t known = 1;
  for (intptr_t i = 0; i < shape->rank; i++)
    if (!nabla_is_dynamic(shape->dims[i])) known *= shape->dims[i];
  if (known == 0) known = 1;
  for (intptr_t i = 0; i < shape->rank; i++)
    if (nabla_is_dynamic(shape->dims[i]))
      shape->sizes[i] = nabla_build_arith(&s->b, "divui", elements_of(s, x),
                                          nabla_build_index(&s->b, known));
}

/* A packed array stays packed where strides can say so. */
static MlirValue reshape_packed(nabla_batching *s, MlirValue x,
                                const nabla_built_shape *shape) {
  MlirType type = mlirValueGetType(x);
  nabla_strided view;
  if (!nablaTypeIsAImplicit(type) ||
      !nabla_implicit_reshape(type, shape->rank, shape->dims, &view))
    return nabla_build_reshape(&s->b, nabla_batch_materialized(s, x), shape);
  MlirType result = nabla_implicit_with_view(type, &view);
  nabla_op_spec spec = {"nabla.reshape", 1, &x, 1, &result, 0, NULL};
  return nabla_build_op(&s->b, &spec);
}

bool nabla_batch_reshape(nabla_batching *s, MlirOperation op) {
  MlirValue x = nabla_batch_operand(s, op, 0);
  intptr_t sizes = mlirOperationGetNumOperands(op) - 1;
  nabla_built_shape one = {0};
  MlirType type = nabla_result_type(op, 0);
  if (sizes > 0) {
    one = written_shape(s, op, 1);
  } else {
    for (intptr_t i = 0; i < nabla_array_rank(type); i++)
      nabla_build_shape_add_size(&one, nabla_array_dim(type, i));
    find_size(s, x, &one);
  }
  if (mlirTypeIsNull(nabla_batch_type(s, type))) return false;
  nabla_built_shape shape = nabla_batch_shape(s, &one);
  return nabla_batch_give(s, op, 0, reshape_packed(s, x, &shape));
}

bool nabla_batch_broadcast(nabla_batching *s, MlirOperation op) {
  MlirValue x = nabla_batch_operand(s, op, 0);
  if (mlirTypeIsNull(nabla_batch_type(s, nabla_result_type(op, 0))))
    return false;
  nabla_built_shape one = written_shape(s, op, 1);
  nabla_built_shape shape = nabla_batch_shape(s, &one);
  nabla_batch_list dims = nabla_batch_shifted(op, "dims");
  nabla_batch_prepend(&dims, 0);
  return nabla_batch_give(s, op, 0,
                          nabla_build_broadcast(&s->b, x, dims.values, &shape));
}

/* ---- pad ---- */

/* The value differs by example: the array is padded with zeros, and a mask of
 * what it is says where the value goes. */
static MlirValue pad_by_mask(nabla_batching *s, MlirOperation op,
                             const nabla_batch_copy *copy) {
  MlirValue x = copy->operands[0], operands[2];
  MlirContext context = nabla_op_context(op);
  nabla_built_shape shape = nabla_build_shape_of(&s->b, x), none = {0};
  MlirType truth = mlirIntegerTypeGet(context, 1);
  MlirType element = nabla_array_element(mlirValueGetType(x));
  nabla_batch_copy pad = *copy;
  pad.result_count = -1;
  pad.operands = operands;
  operands[0] = x;
  operands[1] = mlirTypeIsAFloat(element)
                    ? nabla_build_full(&s->b, 0, &none, element)
                    : nabla_build_full_integer(&s->b, 0, &none, element);
  MlirValue padded = nabla_batch_first(nabla_batch_copied(s, &pad));
  operands[0] = nabla_build_full_integer(&s->b, 1, &shape, truth);
  operands[1] = nabla_build_full_integer(&s->b, 0, &none, truth);
  MlirValue mask = nabla_batch_first(nabla_batch_copied(s, &pad));
  nabla_built_shape whole = nabla_build_shape_of(&s->b, padded);
  const int64_t first = 0;
  MlirValue value = nabla_build_broadcast(&s->b, nabla_batch_operand(s, op, 1),
                                          &first, &whole);
  return nabla_build_select(&s->b, mask, padded, value);
}

bool nabla_batch_pad(nabla_batching *s, MlirOperation op) {
  static const char *const keys[] = {"low", "high", "interior"};
  MlirNamedAttribute changes[3];
  intptr_t count = 0;
  for (int i = 0; i < 3; i++) {
    nabla_batch_list list = nabla_batch_read(op, keys[i]);
    if (list.count == 0 && i == 2) continue;
    nabla_batch_prepend(&list, 0);
    changes[count++] = nabla_batch_attribute(s, keys[i], &list);
  }
  bool by_example = nabla_batch_is(s, mlirOperationGetOperand(op, 1));
  MlirValue x = mlirOperationGetOperand(op, 0);
  MlirValue operands[] = {
      by_example ? nabla_batch_dense(s, x) : nabla_batch_full(s, x),
      nabla_batch_operand(s, op, 1)};
  nabla_batch_copy copy = {.op = op,
                           .operand_count = 2,
                           .operands = operands,
                           .change_count = count,
                           .changes = changes};
  if (mlirValueIsNull(operands[0])) return false;
  if (!by_example) return nabla_batch_infer(s, &copy);
  return nabla_batch_give(s, op, 0, pad_by_mask(s, op, &copy));
}

/* ---- numbers of chance ---- */

/* A seed of each example: its numbers are those that it would draw alone. */
bool nabla_batch_random(nabla_batching *s, MlirOperation op) {
  MlirValue operands[NABLA_MAX_RANK + 2];
  MlirType type = nabla_batch_type(s, nabla_result_type(op, 0));
  intptr_t count = 0;
  if (mlirTypeIsNull(type)) return false;
  operands[count++] = nabla_batch_operand(s, op, 0);
  if (nabla_is_dynamic(s->size)) operands[count++] = s->count;
  for (intptr_t i = 1; i < mlirOperationGetNumOperands(op); i++)
    operands[count++] = nabla_batch_operand(s, op, i);
  nabla_batch_copy copy = {.op = op,
                           .operand_count = count,
                           .operands = operands,
                           .result_count = 1,
                           .results = &type};
  return nabla_batch_give(s, op, 0,
                          nabla_batch_first(nabla_batch_copied(s, &copy)));
}

/* Each value with a batch or without, as it is; so is the last. */
bool nabla_batch_barrier(nabla_batching *s, MlirOperation op) {
  MlirValue operands[NABLA_MAX_OPERANDS];
  const intptr_t count = mlirOperationGetNumOperands(op);
  if (count > NABLA_MAX_OPERANDS) return false;
  for (intptr_t i = 0; i < count; i++)
    operands[i] = nabla_batch_operand(s, op, i);
  nabla_batch_copy copy = {.op = op,
                           .operand_count = count,
                           .operands = operands,
                           .result_count = -1};
  MlirOperation made = nabla_batch_copied(s, &copy);
  bool good = !mlirOperationIsNull(made);
  for (intptr_t i = 0; good && i < mlirOperationGetNumResults(op); i++)
    good = nabla_batch_set(
        s, mlirOperationGetResult(op, i),
        (nabla_batched){mlirOperationGetResult(made, i),
                        nabla_batch_is(s, mlirOperationGetOperand(op, i))});
  return good;
}
