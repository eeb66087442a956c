/* Batches of operations that read and write at places that are operands:
 * dynamic slices, gather and scatter; see batching.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/batching/batching.h"

/* ---- places ---- */

static MlirType i64_of(const nabla_batching *s) {
  return mlirIntegerTypeGet(nabla_op_context(s->b.before), 64);
}

/* An index as a tensor of rank 0. */
static MlirValue index_tensor(const nabla_batching *s, MlirValue index) {
  MlirType number = i64_of(s);
  MlirType type =
      mlirRankedTensorTypeGet(0, NULL, number, mlirAttributeGetNull());
  nabla_op_spec cast = {"arith.index_cast", 1, &index, 1, &number, 0, NULL};
  MlirValue value = nabla_build_op(&s->b, &cast);
  nabla_op_spec from = {"tensor.from_elements", 1, &value, 1, &type, 0, NULL};
  return nabla_build_op(&s->b, &from);
}

/* A place of each example, an array of B elements (i64). */
static MlirValue place(const nabla_batching *s, MlirValue start) {
  nabla_batched of = nabla_batch_get(s, start);
  if (!mlirTypeIsAIndex(mlirValueGetType(start)))
    return nabla_build_convert(&s->b, nabla_batch_full(s, start), i64_of(s));
  nabla_built_shape none = {0}, shape = nabla_batch_shape(s, &none);
  return nabla_build_broadcast(&s->b, index_tensor(s, of.value), NULL, &shape);
}

/* Places of each example as B x 1. */
static MlirValue as_column(const nabla_batching *s, MlirValue places) {
  nabla_built_shape one = {0};
  nabla_build_shape_add_size(&one, 1);
  nabla_built_shape shape = nabla_batch_shape(s, &one);
  return nabla_build_reshape(&s->b, places, &shape);
}

/* Joins the columns of `count` places. */
static MlirValue joined(const nabla_batching *s, intptr_t count,
                        const MlirValue *columns) {
  if (count == 1) return columns[0];
  MlirNamedAttribute dim = nabla_build_integer(&s->b, "dim", 64, 1);
  nabla_op_spec spec = {"nabla.concatenate", count, columns, -1, NULL, 1, &dim};
  return nabla_build_op(&s->b, &spec);
}

/* Whether one of the operands [first, first + count) is batched. */
static bool any_batched(const nabla_batching *s, MlirOperation op,
                        intptr_t first, intptr_t count) {
  for (intptr_t i = 0; i < count; i++)
    if (nabla_batch_is(s, mlirOperationGetOperand(op, first + i))) return true;
  return false;
}

/* Dimension numbers of boxes with as many dimensions as the array, at a place
 * for each dimension. */
typedef struct box_dims {
  int64_t offsets[NABLA_MAX_RANK], map[NABLA_MAX_RANK];
  nabla_built_gather dims;
} box_dims;

static void number_box(intptr_t rank, bool input_batched, box_dims *out) {
  static const int64_t zero = 0;
  for (intptr_t i = 0; i < rank; i++) {
    out->offsets[i] = i + 1;
    out->map[i] = input_batched ? i + 1 : i;
  }
  out->dims = (nabla_built_gather){.offset_count = rank,
                                   .offset_dims = out->offsets,
                                   .batching_count = input_batched,
                                   .input_batching = &zero,
                                   .indices_batching = &zero,
                                   .map_count = rank,
                                   .index_map = out->map,
                                   .vector_dim = 1};
}

/* ---- dynamic_slice ---- */

/* The box begins elsewhere for each example: a gather, which moves boxes
 * inside as dynamic_slice does. */
static bool slice_by_gather(nabla_batching *s, MlirOperation op) {
  MlirType box = nabla_result_type(op, 0);
  intptr_t rank = nabla_array_rank(box);
  int64_t sizes[NABLA_MAX_RANK + 1] = {1};
  MlirValue columns[NABLA_MAX_RANK];
  bool batched = nabla_batch_is(s, mlirOperationGetOperand(op, 0));
  for (intptr_t i = 0; i < rank; i++) {
    sizes[i + batched] = nabla_array_dim(box, i);
    if (nabla_is_dynamic(sizes[i + batched])) return nabla_batch_each(s, op);
  }
  for (intptr_t i = 0; i < rank; i++)
    columns[i] = as_column(s, place(s, mlirOperationGetOperand(op, 1 + i)));
  box_dims boxes;
  number_box(rank, batched, &boxes);
  return nabla_batch_give(
      s, op, 0,
      nabla_build_gather(&s->b, nabla_batch_operand(s, op, 0),
                         joined(s, rank, columns), &boxes.dims, sizes));
}

static MlirNamedAttribute segments(const nabla_batching *s, int32_t starts,
                                   int32_t sizes) {
  const int32_t list[] = {1, starts, sizes};
  MlirContext context = nabla_op_context(s->b.before);
  return nabla_named(context, "operandSegmentSizes",
                     mlirDenseI32ArrayGet(context, 3, list));
}

bool nabla_batch_dynamic_slice(nabla_batching *s, MlirOperation op) {
  MlirValue operands[2 * NABLA_MAX_RANK + 3];
  intptr_t starts = nabla_op_segment(op, 1), sizes = nabla_op_segment(op, 2);
  if (any_batched(s, op, 1, starts)) return slice_by_gather(s, op);
  MlirType type = nabla_batch_type(s, nabla_result_type(op, 0));
  if (mlirTypeIsNull(type)) return false;
  intptr_t count = 0;
  operands[count++] = nabla_batch_operand(s, op, 0);
  operands[count++] = nabla_build_index(&s->b, 0);
  for (intptr_t i = 0; i < starts; i++)
    operands[count++] = nabla_batch_operand(s, op, 1 + i);
  bool dynamic = nabla_is_dynamic(s->size);
  if (dynamic) operands[count++] = s->count;
  for (intptr_t i = 0; i < sizes; i++)
    operands[count++] = nabla_batch_operand(s, op, 1 + starts + i);
  MlirNamedAttribute groups =
      segments(s, (int32_t)starts + 1, (int32_t)sizes + dynamic);
  nabla_batch_copy copy = {.op = op,
                           .operand_count = count,
                           .operands = operands,
                           .result_count = 1,
                           .results = &type,
                           .change_count = 1,
                           .changes = &groups};
  return nabla_batch_give(s, op, 0,
                          nabla_batch_first(nabla_batch_copied(s, &copy)));
}

/* ---- dynamic_update_slice ---- */

/* Dimension `dim` of x less that of `box`, as a tensor of rank 0. */
static MlirValue last_start(const nabla_batching *s, const nabla_built_shape *x,
                            const nabla_built_shape *box, intptr_t dim) {
  MlirValue last =
      nabla_build_arith(&s->b, "subi", nabla_build_size(&s->b, x, dim),
                        nabla_build_size(&s->b, box, dim));
  return index_tensor(s, last);
}

/* scatter drops a box that reaches beyond the array: the place is moved inside
 * first. */
static MlirValue moved_inside(const nabla_batching *s, MlirValue places,
                              MlirValue last) {
  nabla_built_shape shape = nabla_build_shape_of(&s->b, places);
  MlirValue zeros = nabla_build_full_integer(&s->b, 0, &shape, i64_of(s));
  MlirValue most = nabla_build_broadcast(&s->b, last, NULL, &shape);
  places = nabla_build_two(&s->b, "minimum", places, most);
  return nabla_build_two(&s->b, "maximum", places, zeros);
}

static bool update_by_scatter(nabla_batching *s, MlirOperation op) {
  MlirValue x = nabla_batch_dense(s, mlirOperationGetOperand(op, 0));
  MlirValue update = nabla_batch_dense(s, mlirOperationGetOperand(op, 1));
  if (mlirValueIsNull(x) || mlirValueIsNull(update)) return false;
  intptr_t rank = nabla_array_rank(mlirValueGetType(x)) - 1;
  nabla_built_shape shape = nabla_build_shape_of(&s->b, x);
  nabla_built_shape box = nabla_build_shape_of(&s->b, update);
  MlirValue columns[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < rank; i++) {
    MlirValue places = place(s, mlirOperationGetOperand(op, 2 + i));
    if (mlirValueIsNull(places)) return false;
    columns[i] = as_column(
        s, moved_inside(s, places, last_start(s, &shape, &box, i + 1)));
  }
  box_dims boxes;
  number_box(rank, true, &boxes);
  const MlirValue operands[] = {x, joined(s, rank, columns), update};
  return nabla_batch_give(
      s, op, 0,
      nabla_build_scatter(&s->b, NABLA_BUILD_SET, operands, &boxes.dims));
}

bool nabla_batch_dynamic_update_slice(nabla_batching *s, MlirOperation op) {
  MlirValue operands[NABLA_MAX_RANK + 3];
  intptr_t starts = mlirOperationGetNumOperands(op) - 2, count = 0;
  if (any_batched(s, op, 2, starts)) return update_by_scatter(s, op);
  operands[count++] = nabla_batch_full(s, mlirOperationGetOperand(op, 0));
  operands[count++] = nabla_batch_full(s, mlirOperationGetOperand(op, 1));
  operands[count++] = nabla_build_index(&s->b, 0);
  for (intptr_t i = 0; i < starts && count < NABLA_MAX_RANK + 3; i++)
    operands[count++] = nabla_batch_operand(s, op, 2 + i);
  nabla_batch_copy copy = {
      .op = op, .operand_count = count, .operands = operands};
  return nabla_batch_infer(s, &copy);
}

/* ---- gather and scatter ---- */

/* Attributes that gather and scatter have in common: `shift_input` where the
 * array is batched, `shift_indices` where the indices are. If both are, their
 * batches are paired; if the array alone is, the batch is a dimension of each
 * box. */
typedef struct numbers {
  MlirNamedAttribute list[8];
  intptr_t count;
} numbers;

static void add_list(nabla_batching *s, MlirOperation op, const char *key,
                     bool shift, bool leads, numbers *out) {
  nabla_batch_list list =
      shift ? nabla_batch_shifted(op, key) : nabla_batch_read(op, key);
  if (leads) nabla_batch_prepend(&list, 0);
  out->list[out->count++] = nabla_batch_attribute(s, key, &list);
}

static numbers numbers_of(nabla_batching *s, MlirOperation op, bool input,
                          bool indices) {
  numbers out = {.count = 0};
  bool both = input && indices;
  add_list(s, op, "offset_dims", true, input && !indices, &out);
  add_list(s, op, "collapsed_dims", input, false, &out);
  add_list(s, op, "index_map", input, false, &out);
  add_list(s, op, "input_batching", input, both, &out);
  add_list(s, op, "indices_batching", indices, both, &out);
  out.list[out.count++] = nabla_build_integer(
      &s->b, "vector_dim", 64,
      nabla_op_integer(op, "vector_dim", 0) + (indices ? 1 : 0));
  return out;
}

bool nabla_batch_gather(nabla_batching *s, MlirOperation op) {
  bool input = nabla_batch_is(s, mlirOperationGetOperand(op, 0));
  bool indices = nabla_batch_is(s, mlirOperationGetOperand(op, 1));
  numbers all = numbers_of(s, op, input, indices);
  nabla_batch_list sizes = nabla_batch_read(op, "sizes");
  if (input) nabla_batch_prepend(&sizes, indices ? 1 : -1);
  all.list[all.count++] = nabla_batch_attribute(s, "sizes", &sizes);
  const MlirValue operands[] = {nabla_batch_operand(s, op, 0),
                                nabla_batch_operand(s, op, 1)};
  nabla_batch_copy copy = {.op = op,
                           .operand_count = 2,
                           .operands = operands,
                           .change_count = all.count,
                           .changes = all.list};
  return nabla_batch_infer(s, &copy);
}

bool nabla_batch_scatter(nabla_batching *s, MlirOperation op) {
  bool indices = nabla_batch_is(s, mlirOperationGetOperand(op, 1));
  numbers all = numbers_of(s, op, true, indices);
  const MlirValue operands[] = {
      nabla_batch_full(s, mlirOperationGetOperand(op, 0)),
      nabla_batch_operand(s, op, 1),
      nabla_batch_full(s, mlirOperationGetOperand(op, 2))};
  nabla_batch_copy copy = {.op = op,
                           .operand_count = 3,
                           .operands = operands,
                           .change_count = all.count,
                           .changes = all.list};
  return nabla_batch_infer(s, &copy);
}
