/* Lowerings of slices, pieces, pads and flips. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/lower/list.h"
#include "transforms/lower/region.h"
#include "transforms/state/views.h"

/* A new tensor of the shape of `shape`: index i of a dimension is that of `in`
 * at first[dim] + i * step[dim]. */
static nabla_ssa_tensor take(nabla_template *t, const nabla_ssa_tensor *in,
                             const nabla_ssa *first, const int64_t *step,
                             nabla_ssa_tensor *shape) {
  nabla_ssa at[NABLA_MAX_RANK], steps[NABLA_MAX_RANK];
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, shape, in->element->name);
  for (intptr_t i = 0; i < in->rank; i++)
    steps[i] = step[i] != 1 ? nabla_emit_index(t, step[i]) : 0;
  nabla_generic g = {.loops = in->rank};
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  for (intptr_t i = 0; i < in->rank; i++) {
    at[i] = nabla_generic_index(t, i);
    if (steps[i]) at[i] = nabla_emit_index_op(t, "muli", at[i], steps[i]);
    at[i] = nabla_emit_index_op(t, "addi", at[i], first[i]);
  }
  return nabla_generic_end(t, &g, nabla_emit_extract(t, in, at));
}

/* ---- views, copies ---- */

/* Whether a slice reads its elements where they are. Those of other arrays are
 * gathered by the loop that uses them. */
static bool can_view(nabla_template *t, const nabla_ssa_tensor *shape,
                     const int64_t *step) {
  for (intptr_t i = 0; i < shape->rank; i++)
    if (step[i] != 1 || shape->dims[i] == 0) return false;
  return nabla_view_is_of_state(t->op) || nabla_view_is_taken(t->op);
}

/* Whether all that uses `value` copies it to a part of another array, so that
 * it need not be copied before; nothing writes to `array`, of which it is. */
static bool is_copied(MlirValue value, MlirValue array) {
  if (mlirValueIsABlockArgument(array)) return false;
  for (MlirOpOperand use = mlirValueGetFirstUse(array);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
    if (nabla_is(mlirOpOperandGetOwner(use), "nabla.dynamic_update_slice"))
      return false;
  MlirBlock block = mlirOperationGetBlock(nabla_defining_op(value));
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (!mlirBlockEqual(block, mlirOperationGetBlock(user)) ||
        !(nabla_is(user, "nabla.stack") || nabla_is(user, "nabla.concatenate")))
      return false;
  }
  return true;
}

/* A slice, result `index` of the op: a view, a copy by a kernel, or by a loop
 * that is joined with the one that uses it. */
static nabla_ssa slice(nabla_template *t, intptr_t index,
                       const nabla_ssa_tensor *in, const nabla_ssa *first,
                       const int64_t *step, nabla_ssa_tensor *shape) {
  if (!nabla_is(t->op, "nabla.split") && can_view(t, shape, step))
    return nabla_region_view(t, in, first, step, shape);
  if (!nabla_region_is_large(shape) || !nabla_region_is_large(in))
    return take(t, in, first, step, shape).value;
  const nabla_ssa view = nabla_region_view(t, in, first, step, shape);
  MlirValue value = mlirOperationGetResult(t->op, index);
  if (is_copied(value, mlirOperationGetOperand(t->op, 0))) return view;
  const nabla_ssa out = ++t->emit.last;
  nabla_text_add(&t->text,
                 "  %%v%u = bufferization.alloc_tensor() copy(%%v%u) : %s\n",
                 out, view, nabla_ssa_tensor_type(shape).data);
  return out;
}

/* ---- slice, split ---- */

/* Checks a cut of a dimension of unknown size, and finds what is left of it. */
static void check_cut(nabla_template *t, nabla_ssa_tensor *in, intptr_t dim,
                      nabla_ssa start, int64_t limit, int64_t stride,
                      nabla_ssa_tensor *shape) {
  if (!nabla_is_dynamic(in->dims[dim])) return;
  nabla_ssa size = nabla_ssa_tensor_size(t, in, dim);
  if (limit >= 0) {
    nabla_template_require_at_most(t, nabla_emit_index(t, limit), size);
    return;
  }
  nabla_template_require_at_most(t, start, size);
  shape->sizes[dim] = nabla_emit_index_ceildiv(
      t, nabla_emit_index_op(t, "subi", size, start), stride);
}

bool nabla_lower_slice(nabla_template *t) {
  int64_t starts[NABLA_MAX_RANK], limits[NABLA_MAX_RANK];
  int64_t strides[NABLA_MAX_RANK];
  nabla_ssa first[NABLA_MAX_RANK];
  nabla_op_integers(t->op, "starts", starts);
  nabla_op_integers(t->op, "limits", limits);
  intptr_t given = nabla_op_integers(t->op, "strides", strides);
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor shape = nabla_template_result(t);
  for (intptr_t i = 0; i < in.rank; i++) {
    if (given == 0) strides[i] = 1;
    first[i] = nabla_emit_index(t, starts[i]);
    check_cut(t, &in, i, first[i], limits[i], strides[i], &shape);
  }
  return nabla_template_close(t, slice(t, 0, &in, first, strides, &shape));
}

static intptr_t read_dim(MlirOperation op) {
  return (intptr_t)nabla_op_integer(op, "dim", 0);
}

bool nabla_lower_split(nabla_template *t) {
  nabla_ssa results[NABLA_MAX_RESULTS], first[NABLA_MAX_RANK];
  int64_t steps[NABLA_MAX_RANK], at = 0;
  intptr_t dim = read_dim(t->op), count = mlirOperationGetNumResults(t->op);
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor shape = in;
  shape.value = 0;
  for (intptr_t i = 0; i < in.rank; i++) {
    steps[i] = 1;
    first[i] = nabla_emit_index(t, 0);
    if (i != dim) shape.sizes[i] = nabla_ssa_tensor_size(t, &in, i);
  }
  for (intptr_t n = 0; n < count; n++) {
    shape.dims[dim] =
        mlirShapedTypeGetDimSize(nabla_result_type(t->op, n), dim);
    shape.sizes[dim] = 0;
    first[dim] = nabla_emit_index(t, at);
    at += shape.dims[dim];
    results[n] = slice(t, n, &in, first, steps, &shape);
  }
  if (nabla_is_dynamic(in.dims[dim]))
    nabla_template_require(t, nabla_emit_index(t, at),
                           nabla_ssa_tensor_size(t, &in, dim));
  return nabla_template_close_all(t, count, results);
}

/* ---- dynamic_slice, dynamic_update_slice ---- */

/* Where a box of the sizes of `part` begins in `whole`. */
static nabla_ssa begin_of(nabla_template *t, nabla_ssa_tensor *whole,
                          nabla_ssa_tensor *part, intptr_t dim,
                          intptr_t operand) {
  nabla_ssa size = nabla_ssa_tensor_size(t, whole, dim);
  nabla_ssa count = nabla_ssa_tensor_size(t, part, dim);
  if (nabla_is_dynamic(whole->dims[dim]) || nabla_is_dynamic(part->dims[dim]))
    nabla_template_require_at_most(t, count, size);
  return nabla_emit_clamp(t, nabla_template_place(t, operand), size, count);
}

bool nabla_lower_dynamic_slice(nabla_template *t) {
  nabla_ssa first[NABLA_MAX_RANK];
  int64_t steps[NABLA_MAX_RANK];
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor shape = nabla_template_result(t);
  nabla_template_take_sizes(t, 1 + in.rank, &shape);
  for (intptr_t i = 0; i < in.rank; i++) {
    steps[i] = 1;
    first[i] = begin_of(t, &in, &shape, i, 1 + i);
  }
  return nabla_template_close(t, slice(t, 0, &in, first, steps, &shape));
}

bool nabla_lower_dynamic_update_slice(nabla_template *t) {
  nabla_region box;
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor update = nabla_template_operand(t, 1);
  for (intptr_t i = 0; i < in.rank; i++) {
    box.first[i] = begin_of(t, &in, &update, i, 2 + i);
    box.count[i] = nabla_ssa_tensor_size(t, &update, i);
    box.step[i] = 1;
  }
  nabla_ssa_tensor out = nabla_region_insert(t, &in, &box, &update, NULL);
  return nabla_template_close(t, out.value);
}

/* ---- pad, flip ---- */

bool nabla_lower_pad(nabla_template *t) {
  nabla_padding padding = {{0}, {0}, {0}};
  nabla_op_integers(t->op, "low", padding.low);
  nabla_op_integers(t->op, "high", padding.high);
  nabla_op_integers(t->op, "interior", padding.interior);
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor value = nabla_template_operand(t, 1);
  nabla_ssa_tensor shape = nabla_template_result(t);
  return nabla_template_close(
      t, nabla_ssa_tensor_pad(t, &in, &value, &padding, &shape).value);
}

bool nabla_lower_flip(nabla_template *t) {
  int64_t dims[NABLA_MAX_RANK], steps[NABLA_MAX_RANK];
  nabla_ssa first[NABLA_MAX_RANK];
  intptr_t count = nabla_op_integers(t->op, "dims", dims);
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  for (intptr_t i = 0; i < in.rank; i++) {
    steps[i] = 1;
    first[i] = nabla_emit_index(t, 0);
  }
  for (intptr_t i = 0; i < count; i++) {
    intptr_t dim = (intptr_t)dims[i];
    steps[dim] = -1;
    first[dim] = nabla_emit_index_op(
        t, "subi", nabla_ssa_tensor_size(t, &in, dim), nabla_emit_index(t, 1));
  }
  nabla_ssa_tensor shape = in;
  shape.value = 0;
  for (intptr_t i = 0; i < in.rank; i++)
    if (nabla_is_dynamic(shape.dims[i]))
      shape.sizes[i] = nabla_ssa_tensor_size(t, &in, i);
  return nabla_template_close(t, take(t, &in, first, steps, &shape).value);
}
