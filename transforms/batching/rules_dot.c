/* Batches of products and of layers; see batching.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/batching/batching.h"

/* ---- dot_general ---- */

/* Where the batch of one operand stands in the result: behind the batching
 * dimensions if it is that of lhs, and behind the free dimensions of lhs too if
 * it is that of rhs. */
static intptr_t batch_place(const nabla_batching *s, MlirOperation op,
                            bool of_lhs) {
  nabla_batch_list batching = nabla_batch_read(op, "lhs_batching");
  nabla_batch_list contracting = nabla_batch_read(op, "lhs_contracting");
  if (of_lhs) return batching.count;
  MlirType lhs = mlirValueGetType(nabla_batch_operand(s, op, 0));
  return nabla_array_rank(lhs) - contracting.count;
}

/* Both batched: one more batching dimension, the first. One batched: its batch
 * is a free dimension, so that the examples are rows of one product. */
bool nabla_batch_dot(nabla_batching *s, MlirOperation op) {
  static const char *const batching[] = {"lhs_batching", "rhs_batching"};
  static const char *const contracting[] = {"lhs_contracting",
                                            "rhs_contracting"};
  MlirNamedAttribute changes[4];
  MlirValue operands[2];
  bool is[2];
  for (int i = 0; i < 2; i++)
    is[i] = nabla_batch_is(s, mlirOperationGetOperand(op, i));
  for (int i = 0; i < 2; i++) {
    operands[i] = nabla_batch_operand(s, op, i);
    nabla_batch_list batch = is[i] ? nabla_batch_shifted(op, batching[i])
                                   : nabla_batch_read(op, batching[i]);
    nabla_batch_list sum = is[i] ? nabla_batch_shifted(op, contracting[i])
                                 : nabla_batch_read(op, contracting[i]);
    if (is[0] && is[1]) nabla_batch_prepend(&batch, 0);
    changes[2 * i] = nabla_batch_attribute(s, batching[i], &batch);
    changes[2 * i + 1] = nabla_batch_attribute(s, contracting[i], &sum);
  }
  nabla_batch_copy copy = {.op = op,
                           .operand_count = 2,
                           .operands = operands,
                           .result_count = -1,
                           .change_count = 4,
                           .changes = changes};
  MlirValue y = nabla_batch_first(nabla_batch_copied(s, &copy));
  if (is[0] && is[1]) return nabla_batch_give(s, op, 0, y);
  return nabla_batch_give(s, op, 0,
                          nabla_batch_move(s, y, batch_place(s, op, is[0]), 0));
}

/* ---- layers: the op takes arrays with any number of leading dimensions ----
 */

/* Whether the first operand alone is batched. */
static bool first_alone(const nabla_batching *s, MlirOperation op) {
  for (intptr_t i = 1; i < mlirOperationGetNumOperands(op); i++)
    if (nabla_batch_is(s, mlirOperationGetOperand(op, i))) return false;
  return nabla_batch_is(s, mlirOperationGetOperand(op, 0));
}

static bool same_op(nabla_batching *s, MlirOperation op,
                    const MlirNamedAttribute *change) {
  MlirValue operands[NABLA_MAX_OPERANDS];
  intptr_t count = mlirOperationGetNumOperands(op);
  for (intptr_t i = 0; i < count; i++)
    operands[i] = nabla_batch_operand(s, op, i);
  nabla_batch_copy copy = {.op = op,
                           .operand_count = count,
                           .operands = operands,
                           .change_count = change ? 1 : 0,
                           .changes = change};
  return nabla_batch_infer(s, &copy);
}

bool nabla_batch_rows(nabla_batching *s, MlirOperation op) {
  return first_alone(s, op) ? same_op(s, op, NULL) : nabla_batch_parts(s, op);
}

/* Positions that differ by example are angles of each: the parts. */
bool nabla_batch_rope(nabla_batching *s, MlirOperation op) {
  if (!first_alone(s, op)) return nabla_batch_parts(s, op);
  MlirNamedAttribute dim =
      nabla_build_integer(&s->b, "dim", 64, nabla_op_integer(op, "dim", 0) + 1);
  return same_op(s, op, &dim);
}

/* ---- attention ---- */

/* A mask of T x S, with or without heads, as one of each head of each example.
 */
static MlirValue mask_of_all(const nabla_batching *s, MlirValue mask,
                             MlirValue q, MlirValue k) {
  nabla_batched of = nabla_batch_get(s, mask);
  if (!of.batched) return of.value;
  int64_t dims[NABLA_MAX_RANK] = {0};
  nabla_built_shape shape = nabla_build_shape_of(&s->b, q);
  nabla_built_shape keys = nabla_build_shape_of(&s->b, k);
  intptr_t rank = nabla_array_rank(mlirValueGetType(of.value));
  shape.dims[shape.rank - 1] = keys.dims[keys.rank - 2];
  shape.sizes[shape.rank - 1] = keys.sizes[keys.rank - 2];
  for (intptr_t i = 1; i < rank; i++) dims[i] = shape.rank - rank + i;
  return nabla_build_broadcast(&s->b, nabla_batch_materialized(s, of.value),
                               dims, &shape);
}

/* Heads of each example stay together: the op itself, unless the number of keys
 * differs by example. */
bool nabla_batch_attention(nabla_batching *s, MlirOperation op) {
  MlirValue operands[5];
  intptr_t count = mlirOperationGetNumOperands(op);
  intptr_t masks = nabla_op_segment(op, 3), keys = nabla_op_segment(op, 4);
  bool plain = nabla_array_rank(nabla_operand_type(op, 0)) > 2;
  if (keys && nabla_batch_is(s, mlirOperationGetOperand(op, count - 1)))
    return nabla_batch_parts(s, op);
  if (!plain && masks) return nabla_batch_parts(s, op);
  for (intptr_t i = 0; i < 3; i++)
    operands[i] = nabla_batch_full(s, mlirOperationGetOperand(op, i));
  if (mlirValueIsNull(operands[0]) || mlirValueIsNull(operands[1]))
    return false;
  if (masks)
    operands[3] = mask_of_all(s, mlirOperationGetOperand(op, 3), operands[0],
                              operands[1]);
  if (keys) operands[count - 1] = nabla_batch_operand(s, op, count - 1);
  nabla_batch_copy copy = {
      .op = op, .operand_count = count, .operands = operands};
  return nabla_batch_infer(s, &copy);
}
