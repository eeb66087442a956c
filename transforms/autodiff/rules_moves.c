/* Transposes of operations that move elements, add them, or convert them. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/autodiff/rules.h"

/* Stores the cotangent of operand 0. */
static bool give(const nabla_pullback *p, MlirValue cotangent) {
  p->out[0] = nabla_diff_narrow(&p->b, cotangent, nabla_diff_operand(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

bool nabla_vjp_transpose(const nabla_pullback *p) {
  int64_t order[NABLA_MAX_RANK], inverse[NABLA_MAX_RANK];
  intptr_t rank = nabla_op_integers(p->op, "permutation", order);
  for (intptr_t i = 0; i < rank; i++) inverse[order[i]] = i;
  return give(p, nabla_build_transpose(&p->b, p->cotangents[0], inverse));
}

bool nabla_vjp_reshape(const nabla_pullback *p) {
  nabla_built_shape shape =
      nabla_build_shape_of(&p->b, nabla_diff_operand(p->op, 0));
  return give(p, nabla_build_reshape(&p->b, p->cotangents[0], &shape));
}

bool nabla_vjp_convert(const nabla_pullback *p) {
  return give(p, p->cotangents[0]);
}

bool nabla_vjp_neg(const nabla_pullback *p) {
  return give(p, nabla_build_one(&p->b, "neg", p->cotangents[0]));
}

bool nabla_vjp_add(const nabla_pullback *p) {
  for (intptr_t i = 0; i < 2; i++)
    if (p->wanted[i])
      p->out[i] = nabla_diff_narrow(&p->b, p->cotangents[0],
                                    nabla_diff_operand(p->op, i));
  return true;
}

bool nabla_vjp_sub(const nabla_pullback *p) {
  (void)nabla_vjp_add(p);
  if (p->wanted[1]) p->out[1] = nabla_build_one(&p->b, "neg", p->out[1]);
  return true;
}

bool nabla_vjp_select(const nabla_pullback *p) {
  MlirValue which = nabla_diff_operand(p->op, 0), cotangent = p->cotangents[0];
  MlirValue zero =
      nabla_build_zeros(&p->b, mlirOperationGetResult(p->op, 0),
                        nabla_array_element(mlirValueGetType(cotangent)));
  for (intptr_t i = 1; i < 3; i++)
    if (p->wanted[i])
      p->out[i] = nabla_diff_narrow(
          &p->b,
          nabla_build_select(&p->b, which, i == 1 ? cotangent : zero,
                             i == 1 ? zero : cotangent),
          nabla_diff_operand(p->op, i));
  return true;
}

bool nabla_vjp_flip(const nabla_pullback *p) {
  int64_t dims[NABLA_MAX_RANK];
  intptr_t count = nabla_op_integers(p->op, "dims", dims);
  return give(p, nabla_build_flip(&p->b, p->cotangents[0], count, dims));
}

/* Sums from each element to the end. */
bool nabla_vjp_cumsum(const nabla_pullback *p) {
  const int64_t dim = nabla_op_integer(p->op, "dim", 0);
  MlirValue x = nabla_diff_widen(&p->b, p->cotangents[0]);
  x = nabla_build_flip(&p->b, x, 1, &dim);
  x = nabla_build_cumsum(&p->b, x, dim);
  return give(p, nabla_build_flip(&p->b, x, 1, &dim));
}

/* ---- broadcast ---- */

typedef struct spread {
  const nabla_pullback *p;
  nabla_built_shape from, to, split; /* of operand, result; see below */
  int64_t dims[NABLA_MAX_RANK]; /* of the result, for each of the operand */
  int64_t sums[NABLA_MAX_RANK]; /* of `split` */
  intptr_t sum_count;
  int64_t left[NABLA_MAX_RANK]; /* dimensions of the result that stay */
  intptr_t left_count;
} spread;

static intptr_t source_of(const spread *s, intptr_t dim) {
  for (intptr_t i = 0; i < s->from.rank; i++)
    if (s->dims[i] == dim) return i;
  return -1;
}

/* A dimension of the result as (size of the operand, repetitions): sizes that
 * only the run knows may be equal, or the operand's is 1. */
static void split_unknown(spread *s, intptr_t dim, intptr_t source) {
  const nabla_builder *b = &s->p->b;
  MlirValue size = s->from.sizes[source];
  MlirValue least =
      nabla_build_arith(b, "maxui", size, nabla_build_index(b, 1));
  MlirValue times =
      nabla_build_arith(b, "divui", nabla_build_size(b, &s->to, dim), least);
  nabla_build_shape_add_value(&s->split, size);
  s->sums[s->sum_count++] = s->split.rank;
  nabla_build_shape_add_value(&s->split, times);
}

static void read_dim(spread *s, intptr_t dim) {
  const intptr_t source = source_of(s, dim);
  const int64_t size = source < 0 ? 1 : s->from.dims[source];
  if (source >= 0 && nabla_is_dynamic(size) && s->to.dims[dim] != 1) {
    s->left[s->left_count++] = source;
    split_unknown(s, dim, source);
    return;
  }
  if (source < 0 || size == 1)
    s->sums[s->sum_count++] = s->split.rank;
  else
    s->left[s->left_count++] = source;
  nabla_build_shape_add(&s->split, &s->to, dim);
}

/* The order of the operand's dimensions among those that are left. */
static MlirValue order_left(const spread *s, MlirValue x) {
  int64_t order[NABLA_MAX_RANK];
  intptr_t count = 0;
  for (intptr_t i = 0; i < s->from.rank; i++)
    for (intptr_t j = 0; j < s->left_count; j++)
      if (s->left[j] == i) order[count++] = j;
  return nabla_build_transpose(&s->p->b, x, order);
}

/* A rank above NABLA_MAX_RANK would be needed only by arrays of many unknown
 * sizes. */
static bool fits(const spread *s) {
  intptr_t most = s->to.rank;
  for (intptr_t i = 0; i < s->from.rank; i++)
    most += nabla_is_dynamic(s->from.dims[i]);
  if (most <= NABLA_MAX_RANK) return true;
  nabla_error_at(s->p->op,
                 "has no derivative: %d dimensions and those of unknown size "
                 "of the operand are more than %d",
                 (int)s->to.rank, NABLA_MAX_RANK);
  return false;
}

bool nabla_vjp_broadcast_in_dim(const nabla_pullback *p) {
  spread s = {.p = p};
  MlirValue x = nabla_diff_operand(p->op, 0);
  s.from = nabla_build_shape_of(&p->b, x);
  s.to = nabla_build_shape_of(&p->b, p->cotangents[0]);
  (void)nabla_op_integers(p->op, "dims", s.dims);
  if (!fits(&s)) return false;
  for (intptr_t i = 0; i < s.to.rank; i++) read_dim(&s, i);
  MlirValue sum = p->cotangents[0];
  if (s.split.rank > s.to.rank) sum = nabla_build_reshape(&p->b, sum, &s.split);
  sum =
      nabla_build_reduce_all(&p->b, NABLA_BUILD_SUM, sum, s.sum_count, s.sums);
  sum = order_left(&s, sum);
  return give(p, nabla_build_reshape(&p->b, sum, &s.from));
}

/* ---- slices ---- */

/* Zeros in the shape of the operand, with `box` in them. */
static MlirValue put(const nabla_pullback *p, MlirValue box,
                     const MlirValue *starts) {
  MlirValue zeros =
      nabla_build_zeros(&p->b, nabla_diff_operand(p->op, 0),
                        nabla_array_element(mlirValueGetType(box)));
  return nabla_build_box_update(&p->b, zeros, box, starts);
}

bool nabla_vjp_slice(const nabla_pullback *p) {
  static const int64_t none[NABLA_MAX_RANK];
  int64_t start[NABLA_MAX_RANK], stride[NABLA_MAX_RANK], high[NABLA_MAX_RANK];
  MlirValue first[NABLA_MAX_RANK];
  MlirType from = nabla_operand_type(p->op, 0);
  MlirType to = mlirValueGetType(p->cotangents[0]);
  bool known = true, strided = false;
  intptr_t rank = nabla_op_integers(p->op, "starts", start);
  bool given = nabla_op_integers(p->op, "strides", stride) > 0;
  for (intptr_t i = 0; i < rank; i++) {
    int64_t size = nabla_array_dim(from, i), count = nabla_array_dim(to, i);
    if (!given) stride[i] = 1;
    strided = strided || stride[i] != 1;
    stride[i]--; /* elements between */
    known = known && !nabla_is_dynamic(size) && !nabla_is_dynamic(count);
    if (known)
      high[i] =
          size - start[i] - (count ? (count - 1) * (stride[i] + 1) + 1 : 0);
  }
  if (known)
    return give(p, nabla_build_pad(&p->b, p->cotangents[0], start, high,
                                   strided ? stride : NULL));
  MlirValue box = p->cotangents[0];
  if (strided) box = nabla_build_pad(&p->b, box, none, none, stride);
  for (intptr_t i = 0; i < rank; i++)
    first[i] = nabla_build_index(&p->b, start[i]);
  return give(p, put(p, box, first));
}

/* A box that is moved inside is put back where it was taken. */
bool nabla_vjp_dynamic_slice(const nabla_pullback *p) {
  MlirValue starts[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(nabla_operand_type(p->op, 0));
  for (intptr_t i = 0; i < rank; i++)
    starts[i] = nabla_diff_operand(p->op, i + 1);
  return give(p, put(p, p->cotangents[0], starts));
}

bool nabla_vjp_dynamic_update_slice(const nabla_pullback *p) {
  MlirValue starts[NABLA_MAX_RANK], cotangent = p->cotangents[0];
  MlirValue update = nabla_diff_operand(p->op, 1);
  intptr_t rank = nabla_array_rank(nabla_operand_type(p->op, 0));
  for (intptr_t i = 0; i < rank; i++)
    starts[i] = nabla_diff_operand(p->op, i + 2);
  if (p->wanted[0]) {
    MlirValue zeros = nabla_build_zeros(
        &p->b, update, nabla_array_element(mlirValueGetType(update)));
    if (!give(p, nabla_build_box_update(&p->b, cotangent, zeros, starts)))
      return false;
  }
  if (!p->wanted[1]) return true;
  nabla_built_shape shape = nabla_build_shape_of(&p->b, update);
  p->out[1] = nabla_diff_narrow(
      &p->b, nabla_build_box(&p->b, cotangent, starts, &shape), update);
  return !mlirValueIsNull(p->out[1]);
}

/* ---- joins ---- */

/* The part of the cotangent that begins at `start`, or at `at`, where that is
 * known only when the program runs. */
static MlirValue part_of(const nabla_pullback *p, const nabla_built_shape *own,
                         int64_t dim, int64_t start, MlirValue at) {
  MlirValue starts[NABLA_MAX_RANK];
  if (mlirValueIsNull(at) && !nabla_is_dynamic(own->dims[dim]))
    return nabla_build_slice(&p->b, p->cotangents[0], (intptr_t)dim, start,
                             start + own->dims[dim]);
  for (intptr_t i = 0; i < own->rank; i++)
    starts[i] = i == dim && !mlirValueIsNull(at)
                    ? at
                    : nabla_build_index(&p->b, i == dim ? start : 0);
  nabla_built_shape box = nabla_build_shape_of(&p->b, p->cotangents[0]);
  box.dims[dim] = own->dims[dim];
  box.sizes[dim] = own->sizes[dim];
  return nabla_build_box(&p->b, p->cotangents[0], starts, &box);
}

bool nabla_vjp_concatenate(const nabla_pullback *p) {
  const int64_t dim = nabla_op_integer(p->op, "dim", 0);
  int64_t start = 0;
  MlirValue at = {NULL};
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(p->op); i++) {
    MlirValue x = nabla_diff_operand(p->op, i);
    nabla_built_shape own = nabla_build_shape_of(&p->b, x);
    if (p->wanted[i]) {
      p->out[i] = nabla_diff_narrow(&p->b, part_of(p, &own, dim, start, at), x);
      if (mlirValueIsNull(p->out[i])) return false;
    }
    if (mlirValueIsNull(at) && !nabla_is_dynamic(own.dims[dim])) {
      start += own.dims[dim];
      continue;
    }
    if (mlirValueIsNull(at)) at = nabla_build_index(&p->b, start);
    at = nabla_build_arith(&p->b, "addi", at,
                           nabla_build_size(&p->b, &own, (intptr_t)dim));
  }
  return true;
}

bool nabla_vjp_stack(const nabla_pullback *p) {
  const int64_t dim = nabla_op_integer(p->op, "dim", 0);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(p->op); i++) {
    if (!p->wanted[i]) continue;
    MlirValue x = nabla_diff_operand(p->op, i);
    nabla_built_shape shape = nabla_build_shape_of(&p->b, x);
    MlirValue slice =
        nabla_build_slice(&p->b, p->cotangents[0], (intptr_t)dim, i, i + 1);
    p->out[i] =
        nabla_diff_narrow(&p->b, nabla_build_reshape(&p->b, slice, &shape), x);
    if (mlirValueIsNull(p->out[i])) return false;
  }
  return true;
}

bool nabla_vjp_split(const nabla_pullback *p) {
  MlirValue parts[NABLA_MAX_RESULTS];
  const intptr_t count = mlirOperationGetNumResults(p->op);
  for (intptr_t i = 0; i < count; i++) {
    MlirValue part = mlirOperationGetResult(p->op, i);
    parts[i] = p->cotangents[i];
    if (mlirValueIsNull(parts[i]))
      parts[i] = nabla_build_zeros(&p->b, part,
                                   nabla_array_element(mlirValueGetType(part)));
  }
  return give(p, nabla_build_join(&p->b, count, parts,
                                  nabla_op_integer(p->op, "dim", 0)));
}

/* ---- pad ---- */

bool nabla_vjp_pad(const nabla_pullback *p) {
  static const int64_t none[NABLA_MAX_RANK];
  int64_t low[NABLA_MAX_RANK], high[NABLA_MAX_RANK], step[NABLA_MAX_RANK];
  int64_t end[NABLA_MAX_RANK];
  MlirValue cotangent = p->cotangents[0];
  intptr_t rank = nabla_op_integers(p->op, "low", low);
  (void)nabla_op_integers(p->op, "high", high);
  bool given = nabla_op_integers(p->op, "interior", step) > 0;
  for (intptr_t i = 0; i < rank; i++) {
    low[i] = -low[i];
    high[i] = -high[i];
    step[i] = given ? step[i] + 1 : 1;
    end[i] = -1;
  }
  MlirValue inner = nabla_build_pad(&p->b, cotangent, low, high, NULL);
  if (given) inner = nabla_build_slice_strided(&p->b, inner, none, end, step);
  if (p->wanted[0] && !give(p, inner)) return false;
  if (!p->wanted[1]) return !mlirValueIsNull(inner);
  int64_t dims[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < rank; i++) dims[i] = i;
  MlirValue sums[2] = {nabla_diff_widen(&p->b, cotangent),
                       nabla_diff_widen(&p->b, inner)};
  for (int i = 0; i < 2; i++)
    sums[i] =
        nabla_build_reduce_all(&p->b, NABLA_BUILD_SUM, sums[i], rank, dims);
  p->out[1] =
      nabla_diff_narrow(&p->b, nabla_build_two(&p->b, "sub", sums[0], sums[1]),
                        nabla_diff_operand(p->op, 1));
  return !mlirValueIsNull(p->out[1]);
}
