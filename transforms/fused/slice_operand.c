/* See slice_operand.h. */
#include "transforms/fused/slice_operand.h"

#include <mlir-c/BuiltinAttributes.h>
#include <stdbool.h>

#include "dialect/verify/checks.h"
#include "transforms/ir/ir.h"

static bool is_static(MlirType type) {
  for (intptr_t i = 0; i < nabla_array_rank(type); i++)
    if (nabla_is_dynamic(nabla_array_dim(type, i))) return false;
  return true;
}

/* Whether `slice`, a nabla.slice, takes neighbours of a tensor of known
 * sizes. */
static bool takes_neighbours(MlirOperation slice) {
  int64_t strides[NABLA_MAX_RANK];
  MlirType from = nabla_operand_type(slice, 0);
  if (nablaTypeIsAImplicit(from) || !is_static(from) ||
      !is_static(nabla_result_type(slice, 0)))
    return false;
  intptr_t count = nabla_op_integers(slice, "strides", strides);
  for (intptr_t i = 0; i < count; i++)
    if (strides[i] != 1) return false;
  return true;
}

/* Whether `shorter` is `type`, or `type` without leading dimensions of 1. A
 * last dimension of 1 must not be left with others of 1: which of them are
 * dropped is MLIR's choice, and elements of another one are not consecutive. */
static bool drops_ones(MlirType type, MlirType shorter) {
  const intptr_t rank = nabla_array_rank(type);
  const intptr_t extra = rank - nabla_array_rank(shorter);
  if (extra > 0 && nabla_array_dim(type, rank - 1) == 1) return false;
  for (intptr_t i = 0; i < nabla_array_rank(type) && extra >= 0; i++)
    if (nabla_array_dim(type, i) !=
        (i < extra ? 1 : nabla_array_dim(shorter, i - extra)))
      return false;
  return extra >= 0;
}

/* The nabla.slice that gives the elements of `value` in its order, or null. */
static MlirOperation slice_of(MlirValue value) {
  MlirOperation none = {NULL}, op = nabla_defining_op(value);
  MlirType type = mlirValueGetType(value);
  if (nablaTypeIsAImplicit(type) || !is_static(type)) return none;
  if (nabla_is(op, "nabla.reshape"))
    op = nabla_defining_op(mlirOperationGetOperand(op, 0));
  return nabla_is(op, "nabla.slice") && takes_neighbours(op) &&
                 drops_ones(nabla_result_type(op, 0), type)
             ? op
             : none;
}

MlirValue nabla_slice_in_place(MlirOperation before, MlirValue value) {
  MlirOperation slice = slice_of(value);
  if (mlirOperationIsNull(slice)) return value;
  MlirContext context = nabla_op_context(before);
  MlirType box = nabla_result_type(slice, 0), type = mlirValueGetType(value);
  const intptr_t rank = nabla_array_rank(box);
  const int32_t segments[] = {1, 0, 0, 0};
  int64_t starts[NABLA_MAX_RANK], sizes[NABLA_MAX_RANK], ones[NABLA_MAX_RANK];
  nabla_op_integers(slice, "starts", starts);
  for (intptr_t i = 0; i < rank; i++) {
    sizes[i] = nabla_array_dim(box, i);
    ones[i] = 1;
  }
  const MlirNamedAttribute list[] = {
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, 4, segments)),
      nabla_named(context, "static_offsets",
                  mlirDenseI64ArrayGet(context, rank, starts)),
      nabla_named(context, "static_sizes",
                  mlirDenseI64ArrayGet(context, rank, sizes)),
      nabla_named(context, "static_strides",
                  mlirDenseI64ArrayGet(context, rank, ones))};
  const MlirValue from = mlirOperationGetOperand(slice, 0);
  const nabla_op_spec spec = {"tensor.extract_slice",     1,   &from, 1, &type,
                              sizeof list / sizeof *list, list};
  MlirOperation part = nabla_op_create(before, &spec);
  return mlirOperationIsNull(part) ? value : mlirOperationGetResult(part, 0);
}
