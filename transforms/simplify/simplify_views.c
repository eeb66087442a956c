/* See simplify_views.h. */
#include "transforms/simplify/simplify_views.h"

#include <mlir-c/BuiltinAttributes.h>
#include <string.h>

#include "dialect/ops.h"
#include "dialect/verify/checks.h"
#include "transforms/ir/ir.h"

bool nabla_array_is_static(MlirType type) {
  for (intptr_t i = 0; i < nabla_array_rank(type); i++)
    if (nabla_is_dynamic(nabla_array_dim(type, i))) return false;
  return true;
}

static bool replace(MlirOperation op, MlirValue value) {
  nabla_op_replace(op, &value);
  return true;
}

static MlirNamedAttribute integers(MlirOperation op, const char *key,
                                   intptr_t count, const int64_t *values) {
  MlirContext context = nabla_op_context(op);
  return nabla_named(context, key,
                     mlirDenseI64ArrayGet(context, count, values));
}

/* ---- chains of views ---- */

/* In unreachable code a chain may be a cycle. */
#define MAX_CHAIN 64

static bool is_view(MlirOperation op) {
  const nabla_op_row *row = mlirOperationIsNull(op) ? NULL : nabla_op_find(op);
  return row && row->implicit == NABLA_IMPLICIT_views;
}

/* Returns whether a reshape of `from` gives exactly the view `to`. */
static bool reshapes(MlirType from, MlirType to) {
  nabla_strided want = nabla_implicit_strided(to), view;
  return nabla_encoding_is_stored(nabla_implicit_encoding(from).kind) &&
         nabla_implicit_storage_elements(from) > 0 &&
         nabla_implicit_reshape(from, want.rank, want.shape, &view) &&
         mlirTypeEqual(nabla_implicit_with_view(from, &view), to);
}

static uint64_t elements(MlirType type) {
  uint64_t all = 1;
  for (intptr_t i = 0; i < nabla_array_rank(type); i++)
    all *= (uint64_t)nabla_array_dim(type, i);
  return all;
}

bool nabla_fold_view_chain(MlirOperation op) {
  if (!is_view(op) || mlirOperationGetNumResults(op) != 1) return false;
  MlirType to = nabla_result_type(op, 0);
  if (!nablaTypeIsAImplicit(to)) return false;
  MlirValue at = mlirOperationGetOperand(op, 0), source = {NULL};
  for (int i = 0; i < MAX_CHAIN; i++) {
    MlirType type = mlirValueGetType(at);
    if (mlirTypeEqual(type, to)) return replace(op, at);
    MlirOperation inner = nabla_defining_op(at);
    if (i > 0 && elements(type) == elements(to) && reshapes(type, to))
      source = at;
    if (!is_view(inner)) break;
    at = mlirOperationGetOperand(inner, 0);
  }
  if (mlirValueIsNull(source)) return false;
  nabla_op_spec spec = {"nabla.reshape", 1, &source, 1, &to, 0, NULL};
  return replace(op, mlirOperationGetResult(nabla_op_create(op, &spec), 0));
}

/* ---- slice ---- */

typedef struct cuts {
  int64_t starts[NABLA_MAX_RANK], limits[NABLA_MAX_RANK];
  int64_t strides[NABLA_MAX_RANK];
} cuts;

static cuts read_cuts(MlirOperation op) {
  cuts c;
  intptr_t rank = nabla_op_integers(op, "starts", c.starts);
  nabla_op_integers(op, "limits", c.limits);
  if (nabla_op_integers(op, "strides", c.strides) == 0)
    for (intptr_t i = 0; i < rank; i++) c.strides[i] = 1;
  return c;
}

static bool takes_all(MlirOperation op, const cuts *c) {
  MlirType from = nabla_operand_type(op, 0), to = nabla_result_type(op, 0);
  for (intptr_t i = 0; i < nabla_array_rank(from); i++) {
    int64_t size = nabla_array_dim(from, i);
    bool all = c->starts[i] == 0 && nabla_array_dim(to, i) == size;
    if (nabla_is_dynamic(size))
      all = all && c->limits[i] == -1 && c->strides[i] == 1;
    if (!all) return false;
  }
  return true;
}

/* slice(slice(x)) = slice(x), if the shapes are known. */
static bool compose_slices(MlirOperation op, const cuts *outer) {
  MlirOperation inner = nabla_defining_op(mlirOperationGetOperand(op, 0));
  if (!nabla_is(inner, "nabla.slice") ||
      !nabla_array_is_static(nabla_operand_type(inner, 0)))
    return false;
  cuts c = read_cuts(inner);
  MlirType to = nabla_result_type(op, 0);
  intptr_t rank = nabla_array_rank(to);
  for (intptr_t i = 0; i < rank; i++) {
    int64_t size = nabla_array_dim(to, i);
    if (size > 0) {
      c.starts[i] += outer->starts[i] * c.strides[i];
      c.strides[i] = size > 1 ? c.strides[i] * outer->strides[i] : 1;
    } else {
      c.starts[i] = 0, c.strides[i] = 1;
    }
    c.limits[i] = size > 0 ? c.starts[i] + (size - 1) * c.strides[i] + 1 : 0;
  }
  MlirNamedAttribute attributes[] = {integers(op, "starts", rank, c.starts),
                                     integers(op, "limits", rank, c.limits),
                                     integers(op, "strides", rank, c.strides)};
  MlirValue value = mlirOperationGetOperand(inner, 0);
  nabla_op_spec spec = {"nabla.slice", 1, &value, -1, NULL, 3, attributes};
  return replace(op, mlirOperationGetResult(nabla_op_create(op, &spec), 0));
}

bool nabla_fold_slice(MlirOperation op) {
  cuts c = read_cuts(op);
  if (takes_all(op, &c)) return replace(op, mlirOperationGetOperand(op, 0));
  return compose_slices(op, &c);
}

/* ---- broadcast_in_dim, split, concatenate, flip, pad ---- */

/* broadcast(broadcast(x)) = broadcast(x), if the shapes are known. */
bool nabla_fold_broadcasts(MlirOperation op) {
  int64_t dims[NABLA_MAX_RANK], inner_dims[NABLA_MAX_RANK];
  MlirOperation inner = nabla_defining_op(mlirOperationGetOperand(op, 0));
  if (!nabla_is(inner, "nabla.broadcast_in_dim")) return false;
  MlirValue value = mlirOperationGetOperand(inner, 0);
  MlirType from = mlirValueGetType(value), to = nabla_result_type(op, 0);
  if (!nabla_array_is_static(from) ||
      !nabla_array_is_static(nabla_result_type(inner, 0)) ||
      !nabla_array_is_static(to) ||
      nablaTypeIsAImplicit(from) != nablaTypeIsAImplicit(to))
    return false;
  nabla_op_integers(op, "dims", dims);
  intptr_t rank = nabla_op_integers(inner, "dims", inner_dims);
  for (intptr_t i = 0; i < rank; i++) inner_dims[i] = dims[inner_dims[i]];
  MlirNamedAttribute attribute = integers(op, "dims", rank, inner_dims);
  nabla_op_spec spec = {
      "nabla.broadcast_in_dim", 1, &value, 1, &to, 1, &attribute};
  return replace(op, mlirOperationGetResult(nabla_op_create(op, &spec), 0));
}

/* A split into one piece, or a concatenation of one. */
bool nabla_fold_split(MlirOperation op) {
  MlirValue whole = mlirOperationGetOperand(op, 0);
  if (mlirOperationGetNumResults(op) != 1 ||
      !mlirTypeEqual(mlirValueGetType(whole), nabla_result_type(op, 0)))
    return false;
  return replace(op, whole);
}

/* A concatenation of all pieces of a split, in order and along the same
 * dimension. */
static bool joins_split(MlirOperation op, MlirOperation split) {
  if (!nabla_is(split, "nabla.split") ||
      mlirOperationGetNumResults(split) != mlirOperationGetNumOperands(op) ||
      !mlirAttributeEqual(
          mlirOperationGetAttributeByName(op, nabla_ref("dim")),
          mlirOperationGetAttributeByName(split, nabla_ref("dim"))))
    return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (!mlirValueEqual(mlirOperationGetOperand(op, i),
                        mlirOperationGetResult(split, i)))
      return false;
  return true;
}

bool nabla_fold_concatenate(MlirOperation op) {
  MlirValue value = mlirOperationGetOperand(op, 0);
  MlirOperation split = nabla_defining_op(value);
  if (joins_split(op, split))
    value = mlirOperationGetOperand(split, 0);
  else if (mlirOperationGetNumOperands(op) != 1)
    return false;
  if (!mlirTypeEqual(mlirValueGetType(value), nabla_result_type(op, 0)))
    return false;
  return replace(op, value);
}

static uint32_t flipped(MlirOperation op) {
  int64_t dims[NABLA_MAX_RANK];
  uint32_t bits = 0;
  intptr_t count = nabla_op_integers(op, "dims", dims);
  for (intptr_t i = 0; i < count; i++) bits |= 1u << dims[i];
  return bits;
}

/* flip(flip(x)) along the same dimensions, or a flip along none. */
bool nabla_fold_flip(MlirOperation op) {
  MlirValue value = mlirOperationGetOperand(op, 0);
  MlirOperation inner = nabla_defining_op(value);
  if (flipped(op) != 0) {
    if (!nabla_is(inner, "nabla.flip") || flipped(inner) != flipped(op))
      return false;
    value = mlirOperationGetOperand(inner, 0);
  }
  if (!mlirTypeEqual(mlirValueGetType(value), nabla_result_type(op, 0)))
    return false;
  return replace(op, value);
}

/* A pad that neither adds nor removes elements. */
bool nabla_fold_pad(MlirOperation op) {
  static const char *const keys[] = {"low", "high", "interior"};
  int64_t list[NABLA_MAX_RANK];
  for (int k = 0; k < 3; k++) {
    intptr_t count = nabla_op_integers(op, keys[k], list);
    for (intptr_t i = 0; i < count; i++)
      if (list[i] != 0) return false;
  }
  MlirValue value = mlirOperationGetOperand(op, 0);
  if (!mlirTypeEqual(mlirValueGetType(value), nabla_result_type(op, 0)))
    return false;
  return replace(op, value);
}
