/* Derivatives of gather and scatter. Gather moves a box that would extend
 * beyond the array inside; scatter drops it. So the transpose of a gather
 * clamps its indices, and that of a scatter takes 0 for boxes that were
 * dropped. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/gather.h"
#include "transforms/autodiff/rules.h"

/* Numbers of Nabla_CompareKind. */
enum { EQUAL, LESS_OR_EQUAL = 3, GREATER_OR_EQUAL = 5 };

typedef struct boxes {
  const nabla_builder *b;
  MlirOperation op;
  MlirValue array, indices;
  MlirType index; /* element type of the indices */
  nabla_gather_numbers g;
  nabla_built_shape shape;       /* of the array */
  int64_t sizes[NABLA_MAX_RANK]; /* of a box; -1: the whole dimension */
  int64_t offset_dims[NABLA_MAX_RANK], collapsed[NABLA_MAX_RANK];
  int64_t array_batches[NABLA_MAX_RANK], index_batches[NABLA_MAX_RANK];
  int64_t map[NABLA_MAX_RANK];
  nabla_built_gather dims;
} boxes;

static boxes read_boxes(const nabla_builder *b, MlirOperation op) {
  boxes x = {.b = b,
             .op = op,
             .array = nabla_diff_operand(op, 0),
             .indices = nabla_diff_operand(op, 1)};
  MlirType indices = mlirValueGetType(x.indices);
  x.index = nabla_array_element(indices);
  x.shape = nabla_build_shape_of(b, x.array);
  (void)nabla_gather_read(op, mlirAttributeGetNull(), x.shape.rank,
                          nabla_array_rank(indices), &x.g);
  x.dims.offset_count = nabla_op_integers(op, "offset_dims", x.offset_dims);
  x.dims.collapsed_count = nabla_op_integers(op, "collapsed_dims", x.collapsed);
  x.dims.batching_count =
      nabla_op_integers(op, "input_batching", x.array_batches);
  (void)nabla_op_integers(op, "indices_batching", x.index_batches);
  x.dims.map_count = nabla_op_integers(op, "index_map", x.map);
  x.dims.vector_dim = nabla_op_integer(op, "vector_dim", 0);
  return x;
}

/* The dimension numbers; their lists are those of `x`. */
static nabla_built_gather dims_of(const boxes *x) {
  nabla_built_gather dims = x->dims;
  dims.offset_dims = x->offset_dims;
  dims.collapsed_dims = x->collapsed;
  dims.input_batching = x->array_batches;
  dims.indices_batching = x->index_batches;
  dims.index_map = x->map;
  return dims;
}

/* ---- the last place where a box fits ---- */

static MlirValue constant(const boxes *x, const int64_t *numbers) {
  int32_t narrow[NABLA_MAX_RANK];
  const bool one = x->g.vector_dim == x->g.index_rank;
  const intptr_t count = x->g.components;
  MlirType type = mlirRankedTensorTypeGet(one ? 0 : 1, &(int64_t){count},
                                          x->index, mlirAttributeGetNull());
  for (intptr_t i = 0; i < count; i++) narrow[i] = (int32_t)numbers[i];
  MlirAttribute value =
      mlirIntegerTypeGetWidth(x->index) == 32
          ? mlirDenseElementsAttrInt32Get(type, count, narrow)
          : mlirDenseElementsAttrInt64Get(type, count, numbers);
  MlirNamedAttribute list =
      nabla_named(nabla_op_context(x->op), "value", value);
  nabla_op_spec spec = {"nabla.constant", 0, NULL, -1, NULL, 1, &list};
  return nabla_build_op(x->b, &spec);
}

/* The same of numbers that only the run knows. */
static MlirValue collect(const boxes *x, const MlirValue *numbers) {
  MlirValue cast[NABLA_MAX_RANK];
  const bool one = x->g.vector_dim == x->g.index_rank;
  const intptr_t count = x->g.components;
  MlirType type = mlirRankedTensorTypeGet(one ? 0 : 1, &(int64_t){count},
                                          x->index, mlirAttributeGetNull());
  for (intptr_t i = 0; i < count; i++) {
    nabla_op_spec spec = {"arith.index_cast", 1, &numbers[i], 1,
                          &x->index,          0, NULL};
    cast[i] = nabla_build_op(x->b, &spec);
  }
  nabla_op_spec spec = {"tensor.from_elements", count, cast, 1, &type, 0, NULL};
  return nabla_build_op(x->b, &spec);
}

/* For each component of each place the last index where a box fits. */
static MlirValue limits(const boxes *x) {
  int64_t numbers[NABLA_MAX_RANK] = {0};
  MlirValue values[NABLA_MAX_RANK];
  bool known = true;
  for (intptr_t d = 0; d < x->shape.rank; d++) {
    const intptr_t at = x->g.start_of[d];
    if (at < 0) continue;
    const bool whole = x->sizes[d] == -1;
    const bool unknown = !whole && nabla_is_dynamic(x->shape.dims[d]);
    known = known && !unknown;
    numbers[at] = whole || unknown ? 0 : x->shape.dims[d] - x->sizes[d];
    values[at] = nabla_build_index(x->b, numbers[at]);
    if (unknown)
      values[at] = nabla_build_arith(x->b, "subi", x->shape.sizes[d],
                                     nabla_build_index(x->b, x->sizes[d]));
  }
  const nabla_built_shape shape = nabla_build_shape_of(x->b, x->indices);
  const int64_t dim = x->g.vector_dim;
  return nabla_build_broadcast(
      x->b, known ? constant(x, numbers) : collect(x, values), &dim, &shape);
}

static MlirValue zero_indices(const boxes *x) {
  const nabla_built_shape shape = nabla_build_shape_of(x->b, x->indices);
  return nabla_build_full_integer(x->b, 0, &shape, x->index);
}

/* ---- gather ---- */

bool nabla_vjp_gather(const nabla_pullback *p) {
  boxes x = read_boxes(&p->b, p->op);
  (void)nabla_op_integers(p->op, "sizes", x.sizes);
  const nabla_built_gather dims = dims_of(&x);
  MlirValue cotangent = nabla_diff_widen(&p->b, p->cotangents[0]);
  MlirValue places = x.indices;
  if (dims.map_count) {
    places = nabla_build_two(&p->b, "maximum", places, zero_indices(&x));
    places = nabla_build_two(&p->b, "minimum", places, limits(&x));
  }
  MlirValue operands[3] = {
      nabla_build_zeros(&p->b, x.array,
                        nabla_array_element(mlirValueGetType(cotangent))),
      places, cotangent};
  p->out[0] = nabla_diff_narrow(
      &p->b, nabla_build_scatter(&p->b, NABLA_BUILD_ADD, operands, &dims),
      x.array);
  return !mlirValueIsNull(p->out[0]);
}

/* ---- scatter ---- */

/* Only where equal indices do not matter is the derivative known. */
static bool check_kind(MlirOperation op) {
  static const char *const names[] = {"set", "add", "mul", "min", "max"};
  const int64_t kind = nabla_op_integer(op, "kind", 0);
  if (kind <= NABLA_BUILD_ADD) return true;
  nabla_error_at(op,
                 "has no derivative: scatter %s would need to know that no two "
                 "updates have the same place; gather, compute and scatter set",
                 names[kind]);
  return false;
}

/* The sizes of the boxes that updates are. */
static bool read_sizes(boxes *x) {
  MlirType updates = nabla_operand_type(x->op, 2);
  for (intptr_t d = 0; d < x->shape.rank; d++) {
    const intptr_t to = x->g.offset_of[d];
    x->sizes[d] = to < 0 ? 1 : nabla_array_dim(updates, to);
    if (!nabla_is_dynamic(x->sizes[d])) continue;
    nabla_error_at(x->op,
                   "has no derivative to updates of unknown size along "
                   "dimension %d of the array: give them a static type",
                   (int)d);
    return false;
  }
  return true;
}

/* An array with an element for each place in the shape of the updates. */
static MlirValue spread(const boxes *x, MlirValue places) {
  int64_t dims[NABLA_MAX_RANK];
  intptr_t count = 0;
  for (intptr_t i = 0; i < x->g.index_rank; i++)
    if (x->g.result_of[i] >= 0) dims[count++] = x->g.result_of[i];
  const nabla_built_shape shape =
      nabla_build_shape_of(x->b, nabla_diff_operand(x->op, 2));
  return nabla_build_broadcast(x->b, places, dims, &shape);
}

/* Whether each update lies inside of the array. */
static MlirValue inside(const boxes *x) {
  enum { ALL = 6 };
  MlirValue low =
      nabla_build_compare(x->b, GREATER_OR_EQUAL, x->indices, zero_indices(x));
  MlirValue high =
      nabla_build_compare(x->b, LESS_OR_EQUAL, x->indices, limits(x));
  MlirValue both = nabla_build_two(x->b, "and", low, high);
  if (x->g.vector_dim < x->g.index_rank)
    both = nabla_build_reduce(x->b, ALL, both, x->g.vector_dim);
  return spread(x, both);
}

/* A number of its own for each place, in the shape of the updates, from 1. */
static MlirValue numbers(const boxes *x, MlirType i64) {
  nabla_built_shape own = nabla_build_shape_of(x->b, x->indices);
  nabla_built_shape places = {0}, line = {0};
  for (intptr_t i = 0; i < own.rank; i++)
    if (i != x->g.vector_dim) nabla_build_shape_add(&places, &own, i);
  int64_t product = 1;
  bool known = true;
  for (intptr_t i = 0; i < places.rank; i++) {
    known = known && !nabla_is_dynamic(places.dims[i]) &&
            !__builtin_mul_overflow(product, places.dims[i], &product);
  }
  if (known) {
    nabla_build_shape_add_size(&line, product);
  } else {
    MlirValue all = nabla_build_index(x->b, 1);
    for (intptr_t i = 0; i < places.rank; i++)
      all = nabla_build_arith(x->b, "muli", all,
                              nabla_build_size(x->b, &places, i));
    nabla_build_shape_add_value(&line, all);
  }
  MlirValue count = nabla_build_iota(x->b, 0, &line, i64);
  return spread(x, nabla_build_reshape(x->b, count, &places));
}

/* Whether each update is the last one of its place: the one that stays. */
static MlirValue stays(const boxes *x, const nabla_built_gather *dims) {
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(x->op), 64);
  MlirValue own = numbers(x, i64);
  MlirValue operands[3] = {nabla_build_full_integer(x->b, -1, &x->shape, i64),
                           x->indices, own};
  MlirValue winners =
      nabla_build_scatter(x->b, NABLA_BUILD_SET, operands, dims);
  MlirValue back =
      nabla_build_gather(x->b, winners, x->indices, dims, x->sizes);
  return nabla_build_compare(x->b, EQUAL, back, own);
}

static MlirValue only(const boxes *x, MlirValue where, MlirValue value) {
  if (mlirValueIsNull(value)) return value;
  MlirValue zeros = nabla_build_zeros(
      x->b, value, nabla_array_element(mlirValueGetType(value)));
  return nabla_build_select(x->b, where, value, zeros);
}

bool nabla_vjp_scatter(const nabla_pullback *p) {
  boxes x = read_boxes(&p->b, p->op);
  const nabla_built_gather dims = dims_of(&x);
  MlirValue updates = nabla_diff_operand(p->op, 2);
  MlirValue cotangent = p->cotangents[0];
  const bool sets = nabla_op_integer(p->op, "kind", 0) == NABLA_BUILD_SET;
  if (!check_kind(p->op)) return false;
  if (p->wanted[0]) {
    MlirValue operands[3] = {
        cotangent, x.indices,
        nabla_build_zeros(&p->b, updates,
                          nabla_array_element(mlirValueGetType(updates)))};
    p->out[0] = nabla_diff_narrow(
        &p->b,
        sets ? nabla_build_scatter(&p->b, NABLA_BUILD_SET, operands, &dims)
             : cotangent,
        x.array);
    if (mlirValueIsNull(p->out[0])) return false;
  }
  if (!p->wanted[2]) return true;
  if (!read_sizes(&x)) return false;
  MlirValue read =
      nabla_build_gather(&p->b, cotangent, x.indices, &dims, x.sizes);
  if (sets) read = only(&x, stays(&x, &dims), read);
  if (dims.map_count) read = only(&x, inside(&x), read);
  p->out[2] = nabla_diff_narrow(&p->b, read, updates);
  return !mlirValueIsNull(p->out[2]);
}

/* Linear in array and updates; of those that set, the tangents of the updates
 * that stay. */
bool nabla_jvp_scatter(const nabla_pushforward *p) {
  boxes x = read_boxes(&p->b, p->op);
  const nabla_built_gather dims = dims_of(&x);
  if (!check_kind(p->op)) return false;
  MlirValue operands[3] = {p->tangents[0], x.indices, p->tangents[2]};
  for (intptr_t i = 0; i < 3; i += 2)
    if (mlirValueIsNull(operands[i])) {
      MlirValue x_i = nabla_diff_operand(p->op, i);
      operands[i] = nabla_build_zeros(
          &p->b, x_i, nabla_array_element(mlirValueGetType(x_i)));
    }
  p->out[0] = nabla_diff_narrow(
      &p->b,
      nabla_build_scatter(&p->b, nabla_op_integer(p->op, "kind", 0), operands,
                          &dims),
      mlirOperationGetResult(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}
