/* Rules for contractions with a packed operand: all become nabla.fused_dot,
 * with the weight as a view of N x K and the other side as a matrix of M x K.
 * Those with batches: rules_batched.c. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "transforms/dispatch/rules.h"
#include "transforms/dispatch/rules_batched.h"
#include "transforms/fused/fused_spec.h"
#include "transforms/ir/ir.h"

nabla_rule_outcome nabla_apply_dot_packed_lhs(MlirOperation op,
                                              const char **why);
nabla_rule_outcome nabla_apply_dot_packed_rhs(MlirOperation op,
                                              const char **why);

/* One side of the contraction: its dimensions, free ones first. */
typedef struct side {
  MlirValue value;
  MlirType type;
  intptr_t rank, free;           /* order[0..free) is free */
  int64_t order[NABLA_MAX_RANK]; /* then contracting dimensions as listed */
} side;

static side side_of(MlirOperation op, intptr_t operand) {
  side s = {.value = mlirOperationGetOperand(op, operand)};
  int64_t contracting[NABLA_MAX_RANK];
  intptr_t count = nabla_op_integers(
      op, operand ? "rhs_contracting" : "lhs_contracting", contracting);
  s.type = mlirValueGetType(s.value);
  s.rank = nabla_array_rank(s.type);
  for (intptr_t i = 0; i < s.rank; i++) {
    bool contracted = false;
    for (intptr_t c = 0; c < count; c++) contracted |= contracting[c] == i;
    if (!contracted) s.order[s.free++] = i;
  }
  memcpy(s.order + s.free, contracting, (size_t)count * sizeof *contracting);
  return s;
}

static int64_t dim(const side *s, intptr_t index) {
  return nabla_array_dim(s->type, (intptr_t)s->order[index]);
}

/* Product of dimensions [begin, end) of `s` in order; dynamic if one is, -1 if
 * it is none of 63 bits. */
static int64_t extent(const side *s, intptr_t begin, intptr_t end) {
  int64_t all = 1;
  for (intptr_t i = begin; i < end; i++)
    if (nabla_is_dynamic(dim(s, i))) return dim(s, i);
  for (intptr_t i = begin; i < end; i++)
    if (__builtin_mul_overflow(all, dim(s, i), &all)) return -1;
  return all;
}

/* Joining dimensions keeps their product alone: of several that are not known
 * nobody could say at run time which one disagrees. */
static const char *x_objection(const side *x) {
  intptr_t unknown = 0;
  for (intptr_t i = x->free; i < x->rank; i++)
    unknown += nabla_is_dynamic(dim(x, i));
  if (unknown > 1) return "more than one contracted dimension is not known";
  if (extent(x, 0, x->free) == -1) return "it has too many rows";
  return NULL;
}

/* nabla.reshape to `type`, unless it would do nothing. `sizes`: NULL, or a
 * value for each dynamic dimension. */
static MlirValue reshape(MlirOperation before, MlirValue value, MlirType type,
                         intptr_t size_count, const MlirValue *sizes) {
  if (mlirTypeEqual(mlirValueGetType(value), type)) return value;
  MlirValue operands[NABLA_MAX_RANK + 1] = {value};
  for (intptr_t i = 0; i < size_count; i++) operands[i + 1] = sizes[i];
  nabla_op_spec spec = {
      "nabla.reshape", size_count + 1, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

static MlirType matrix(int64_t rows, int64_t columns, MlirType element) {
  int64_t shape[2] = {rows, columns};
  return mlirRankedTensorTypeGet(2, shape, element, mlirAttributeGetNull());
}

static MlirValue dim_of(MlirOperation before, MlirValue value, int64_t index) {
  MlirContext context = nabla_op_context(before);
  MlirType type = mlirIndexTypeGet(context);
  MlirNamedAttribute at =
      nabla_named(context, "value", mlirIntegerAttrGet(type, index));
  nabla_op_spec constant = {"arith.constant", 0, NULL, 1, &type, 1, &at};
  MlirValue operands[2] = {
      value, mlirOperationGetResult(nabla_op_create(before, &constant), 0)};
  nabla_op_spec spec = {"tensor.dim", 2, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* The type of the weight as N x K, or why there is none. */
static const char *weight_type(const side *w, MlirType *out) {
  nabla_strided from = nabla_implicit_strided(w->type);
  nabla_strided ordered = {from.rank, {0}, {0}, from.offset};
  for (intptr_t i = 0; i < from.rank; i++) {
    ordered.shape[i] = from.shape[w->order[i]];
    ordered.strides[i] = from.strides[w->order[i]];
  }
  MlirType transposed = nabla_implicit_with_view(w->type, &ordered);
  int64_t shape[2] = {extent(w, 0, w->free), extent(w, w->free, w->rank)};
  nabla_strided view;
  if (!nabla_implicit_reshape(transposed, 2, shape, &view))
    return "no strides join its dimensions to rows and columns";
  *out = nabla_implicit_with_view(w->type, &view);
  return NULL;
}

/* x as M x K. */
static MlirValue as_matrix(MlirOperation op, const side *x, int64_t k,
                           MlirType element) {
  MlirValue value = nabla_value_transpose(op, x->value, x->rank, x->order);
  if (x->rank == 2 && x->free == 1) return value;
  int64_t m = extent(x, 0, x->free);
  if (!nabla_is_dynamic(m))
    return reshape(op, value, matrix(m, k, element), 0, NULL);
  MlirValue size = {NULL};
  for (intptr_t i = 0; i < x->free; i++) {
    MlirValue one = dim_of(op, x->value, x->order[i]);
    MlirValue factors[2] = {size, one};
    MlirType type = mlirValueGetType(one);
    nabla_op_spec product = {"arith.muli", 2, factors, 1, &type, 0, NULL};
    size = i ? mlirOperationGetResult(nabla_op_create(op, &product), 0) : one;
  }
  return reshape(op, value, matrix(m, k, element), 1, &size);
}

/* y, M x N, in the shape and order of the result. */
static MlirValue as_result(MlirOperation op, MlirValue y, const side *x,
                           bool swap) {
  if (swap) y = nabla_value_transpose(op, y, 2, (const int64_t[2]){1, 0});
  MlirValue sizes[NABLA_MAX_RANK];
  intptr_t count = 0;
  MlirType result = nabla_result_type(op, 0);
  if (!mlirTypeEqual(mlirValueGetType(y), result))
    for (intptr_t i = 0; i < x->free; i++)
      if (nabla_is_dynamic(dim(x, i)))
        sizes[count++] = dim_of(op, x->value, x->order[i]);
  return reshape(op, y, result, count, sizes);
}

static nabla_rule_outcome fuse(MlirOperation op, intptr_t weight,
                               const char **why) {
  int64_t batch[NABLA_MAX_RANK];
  if (nabla_op_integers(op, "lhs_batching", batch))
    return nabla_dot_by_batch(op, weight, why);
  side w = side_of(op, weight), x = side_of(op, 1 - weight);
  nabla_fused_spec unused;
  MlirType type, element = nabla_array_element(x.type);
  *why = weight_type(&w, &type);
  if (!*why) *why = x_objection(&x);
  if (!*why)
    *why = nabla_fused_spec_of(nabla_target_of(op), x.type, type, 0, &unused);
  if (*why) return NABLA_RULE_DECLINED;
  MlirValue operands[2] = {
      as_matrix(op, &x, nabla_array_dim(type, 1), element),
      reshape(op, nabla_value_transpose(op, w.value, w.rank, w.order), type, 0,
              NULL)};
  nabla_op_spec spec = {"nabla.fused_dot", 2, operands, -1, NULL, 0, NULL};
  MlirOperation fused = nabla_op_create(op, &spec);
  if (mlirOperationIsNull(fused)) return NABLA_RULE_FAILED;
  MlirValue y =
      as_result(op, mlirOperationGetResult(fused, 0), &x, weight == 0);
  nabla_op_replace(op, &y);
  return NABLA_RULE_APPLIED;
}

nabla_rule_outcome nabla_apply_dot_packed_rhs(MlirOperation op,
                                              const char **why) {
  return fuse(op, 1, why);
}
nabla_rule_outcome nabla_apply_dot_packed_lhs(MlirOperation op,
                                              const char **why) {
  return fuse(op, 0, why);
}
