/* What attention is made of. */
#include <math.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/composite/decompositions.h"

typedef struct attention {
  const nabla_builder *b;
  MlirOperation op;
  MlirType element, work;
  nabla_built_shape q, k, v;
  intptr_t rank;
  bool grouped;      /* several heads of q may share one of k and v */
  MlirValue mask;    /* null: there is none */
  MlirValue counted; /* tensor<i64>, how many keys count; null: all */
} attention;

/* An index as a tensor<i64>. */
static MlirValue as_scalar(const nabla_builder *b, MlirValue value) {
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(b->before), 64);
  nabla_op_spec cast = {"arith.index_cast", 1, &value, 1, &i64, 0, NULL};
  value = nabla_build_op(b, &cast);
  MlirType scalar =
      mlirRankedTensorTypeGet(0, NULL, i64, mlirAttributeGetNull());
  nabla_op_spec from = {"tensor.from_elements", 1, &value, 1, &scalar, 0, NULL};
  return nabla_build_op(b, &from);
}

/* How many keys count, between 0 and S. */
static MlirValue count_keys(const nabla_builder *b, MlirValue keys,
                            const nabla_built_shape *k, intptr_t dim) {
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(b->before), 64);
  const nabla_built_shape scalar = {0};
  keys = nabla_build_two(b, "maximum", nabla_build_convert(b, keys, i64),
                         nabla_build_full_integer(b, 0, &scalar, i64));
  return nabla_build_two(b, "minimum", keys,
                         as_scalar(b, nabla_build_size(b, k, dim)));
}

static attention read_attention(const nabla_builder *b, MlirOperation op) {
  MlirValue q = mlirOperationGetOperand(op, 0);
  attention a = {.b = b, .op = op};
  a.element = nabla_array_element(mlirValueGetType(q));
  a.work = nabla_parts_work(a.element);
  a.q = nabla_build_shape_of(b, q);
  a.k = nabla_build_shape_of(b, mlirOperationGetOperand(op, 1));
  a.v = nabla_build_shape_of(b, mlirOperationGetOperand(op, 2));
  a.rank = a.q.rank;
  if (a.rank > 2) {
    int64_t heads = a.q.dims[a.rank - 3], shared = a.k.dims[a.rank - 3];
    a.grouped = nabla_is_dynamic(heads) || heads != shared;
  }
  const intptr_t masks = nabla_op_segment(op, 3);
  if (masks) a.mask = mlirOperationGetOperand(op, 3);
  if (nabla_op_segment(op, 4))
    a.counted =
        count_keys(b, mlirOperationGetOperand(op, 3 + masks), &a.k, a.rank - 2);
  return a;
}

static MlirValue operand(const attention *a, intptr_t index) {
  MlirValue value = mlirOperationGetOperand(a->op, index);
  return nabla_build_convert(a->b, value, a->work);
}

/* How many heads share one: H / h, 0 of none. */
static void add_group(const attention *a, nabla_built_shape *shape) {
  intptr_t at = a->rank - 3;
  if (!nabla_is_dynamic(a->q.dims[at]) && !nabla_is_dynamic(a->k.dims[at])) {
    nabla_build_shape_add_size(shape, a->q.dims[at] / a->k.dims[at]);
    return;
  }
  MlirValue shared = nabla_build_size(a->b, &a->k, at);
  shared = nabla_build_arith(a->b, "maxui", shared, nabla_build_index(a->b, 1));
  nabla_build_shape_add_value(
      shape, nabla_build_arith(a->b, "divui", nabla_build_size(a->b, &a->q, at),
                               shared));
}

/* ..HxTxC as ..hx(H/h)xTxC, where heads share. */
static MlirValue group(const attention *a, MlirValue x) {
  if (!a->grouped) return x;
  nabla_built_shape from = nabla_build_shape_of(a->b, x), to = {0};
  for (intptr_t i = 0; i < a->rank - 3; i++)
    nabla_build_shape_add(&to, &from, i);
  nabla_build_shape_add(&to, &a->k, a->rank - 3);
  add_group(a, &to);
  nabla_build_shape_add(&to, &from, a->rank - 2);
  nabla_build_shape_add(&to, &from, a->rank - 1);
  return nabla_build_reshape(a->b, x, &to);
}

/* lhs of ..HxTxC times rhs of ..hx.x., as ..HxTxlast. */
static MlirValue product(const attention *a, MlirValue lhs, MlirValue rhs,
                         int64_t contracted, const nabla_built_shape *from,
                         intptr_t last) {
  nabla_built_shape to = a->q;
  to.rank--;
  nabla_build_shape_add(&to, from, last);
  MlirValue y = nabla_build_dot(a->b, group(a, lhs), rhs, a->rank - 2,
                                a->grouped ? a->rank : a->rank - 1, contracted);
  return a->grouped ? nabla_build_reshape(a->b, y, &to) : y;
}

/* i1 of TxS: whether a query sees a key, counted from the last ones. */
static MlirValue causal_mask(const attention *a) {
  static const int64_t both[2] = {0, 1};
  MlirType i1 = mlirIntegerTypeGet(nabla_op_context(a->op), 1);
  nabla_built_shape shape = {0};
  nabla_build_shape_add(&shape, &a->q, a->rank - 2);
  nabla_build_shape_add(&shape, &a->k, a->rank - 2);
  if (!nabla_is_dynamic(shape.dims[0]) && !nabla_is_dynamic(shape.dims[1]))
    return nabla_build_tri(a->b, shape.dims[1] - shape.dims[0], &shape, i1);
  MlirValue below = nabla_build_tri(a->b, -1, &shape, i1);
  return nabla_build_flip(a->b, nabla_build_one(a->b, "not", below), 2, both);
}

/* A scalar, or an array of one dimension, in the shape. */
static MlirValue repeat(const attention *a, MlirValue x, intptr_t dim,
                        const nabla_built_shape *shape) {
  const int64_t dims[1] = {dim};
  return nabla_build_broadcast(a->b, x, dims, shape);
}

/* i1 of S: which keys count. */
static MlirValue counted_keys(const attention *a) {
  enum { LESS = 2 }; /* of Nabla_CompareKind */
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(a->op), 64);
  nabla_built_shape shape = {0};
  nabla_build_shape_add(&shape, &a->k, a->rank - 2);
  return nabla_build_compare(a->b, LESS, nabla_build_iota(a->b, 0, &shape, i64),
                             repeat(a, a->counted, 0, &shape));
}

/* The causal mask where some keys count: j + T <= i + n. */
static MlirValue causal_counted(const attention *a) {
  enum { AT_MOST = 3 };
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(a->op), 64);
  nabla_built_shape shape = {0};
  nabla_build_shape_add(&shape, &a->q, a->rank - 2);
  nabla_build_shape_add(&shape, &a->k, a->rank - 2);
  MlirValue queries =
      as_scalar(a->b, nabla_build_size(a->b, &a->q, a->rank - 2));
  MlirValue key =
      nabla_build_two(a->b, "add", nabla_build_iota(a->b, 1, &shape, i64),
                      repeat(a, queries, 0, &shape));
  MlirValue query =
      nabla_build_two(a->b, "add", nabla_build_iota(a->b, 0, &shape, i64),
                      repeat(a, a->counted, 0, &shape));
  return nabla_build_compare(a->b, AT_MOST, key, query);
}

/* v, 0 where keys do not count: a weight of 0 would not hide infinity. */
static MlirValue values_of(const attention *a) {
  MlirValue v = operand(a, 2);
  if (mlirValueIsNull(a->counted)) return v;
  nabla_built_shape shape = nabla_build_shape_of(a->b, v);
  return nabla_build_select(a->b,
                            repeat(a, counted_keys(a), a->rank - 2, &shape), v,
                            nabla_build_full(a->b, 0, &shape, a->work));
}

/* A mask in the shape of the scores, to which it is aligned at the end. */
static MlirValue spread(const attention *a, MlirValue mask,
                        const nabla_built_shape *shape) {
  int64_t dims[NABLA_MAX_RANK];
  if (mlirValueIsNull(mask)) return mask;
  intptr_t rank = nabla_array_rank(mlirValueGetType(mask));
  for (intptr_t i = 0; i < rank; i++) dims[i] = shape->rank - rank + i;
  return nabla_build_broadcast(a->b, mask, dims, shape);
}

/* The mask of the operation, of the sizes that scores have: where only the run
 * knows one, a size of 1 is refused too, which `spread` would repeat. */
static MlirValue read_mask(const attention *a, MlirValue mask,
                           const nabla_built_shape *shape) {
  const MlirType element = nabla_array_element(mlirValueGetType(mask));
  const intptr_t rank = nabla_array_rank(mlirValueGetType(mask));
  nabla_built_shape own = {0};
  bool known = true;
  for (intptr_t i = 0; i < rank; i++) {
    const intptr_t at = shape->rank - rank + i;
    nabla_build_shape_add(&own, shape, at);
    known = known && !nabla_is_dynamic(shape->dims[at]) &&
            !nabla_is_dynamic(nabla_array_dim(mlirValueGetType(mask), i));
  }
  if (known) return mask;
  if (mlirTypeIsAInteger(element))
    return nabla_build_two(a->b, "or", mask,
                           nabla_build_full_integer(a->b, 0, &own, element));
  return nabla_build_two(a->b, "add", mask,
                         nabla_build_full(a->b, 0, &own, element));
}

static MlirValue hide(const attention *a, MlirValue scores, MlirValue seen,
                      const nabla_built_shape *shape) {
  MlirValue least = nabla_build_full(a->b, -INFINITY, shape, a->work);
  return nabla_build_select(a->b, spread(a, seen, shape), scores, least);
}

/* Scale, mask, causality. */
static MlirValue adjust(const attention *a, MlirValue scores) {
  nabla_built_shape shape = a->q;
  shape.rank--;
  nabla_build_shape_add(&shape, &a->k, a->rank - 2);
  int64_t width = a->q.dims[a->rank - 1];
  if (nabla_is_dynamic(width)) width = a->k.dims[a->rank - 1];
  double scale = width > 0 ? 1 / sqrt((double)width) : 1;
  scale = nabla_parts_float(a->op, "scale", scale);
  scores = nabla_build_two(a->b, "mul", scores,
                           nabla_build_full(a->b, scale, &shape, a->work));
  if (!mlirValueIsNull(a->mask)) {
    MlirValue mask = read_mask(a, a->mask, &shape);
    if (mlirTypeIsAInteger(nabla_array_element(mlirValueGetType(mask))))
      scores = hide(a, scores, mask, &shape);
    else
      scores = nabla_build_two(
          a->b, "add", scores,
          spread(a, nabla_build_convert(a->b, mask, a->work), &shape));
  }
  if (!mlirValueIsNull(a->counted))
    scores = hide(a, scores, counted_keys(a), &shape);
  bool causal = !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(a->op, nabla_ref("causal")));
  if (!causal) return scores;
  return hide(a, scores,
              mlirValueIsNull(a->counted) ? causal_mask(a) : causal_counted(a),
              &shape);
}

MlirValue nabla_parts_attention(const nabla_builder *b, MlirOperation op) {
  attention a = read_attention(b, op);
  MlirValue scores =
      product(&a, operand(&a, 0), operand(&a, 1), a.rank - 1, &a.k, a.rank - 2);
  scores = nabla_build_softmax(b, adjust(&a, scores), a.rank - 1);
  MlirValue y =
      product(&a, scores, values_of(&a), a.rank - 2, &a.v, a.rank - 1);
  return nabla_build_convert(b, y, a.element);
}
