/* Pieces of operations with indices: tables that are divided along rows, and
 * the index of the best element; see pieces.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/gather.h"
#include "transforms/shard/pieces.h"
#include "transforms/shard/reshard.h"

#define EQUAL    0 /* Nabla_CompareKind */
#define LESS     2
#define AT_LEAST 5

/* ---- rows ---- */

/* The indices of a gather or scatter, one component of which is changed. */
typedef struct rows {
  nabla_shard_piece *piece;
  nabla_builder b;
  const nabla_gather_numbers *n;
  intptr_t component;
  MlirType element; /* of the indices */
} rows;

/* The component of each index vector: an array without the dimension of
 * vectors. */
static MlirValue take_component(const rows *r, MlirValue all) {
  if (r->n->vector_dim >= r->n->index_rank) return all;
  const nabla_built_shape shape = nabla_build_shape_of(&r->b, all);
  nabla_built_shape rest = {0};
  for (intptr_t d = 0; d < shape.rank; d++)
    if (d != r->n->vector_dim) nabla_build_shape_add(&rest, &shape, d);
  MlirValue one = nabla_build_slice(&r->b, all, r->n->vector_dim, r->component,
                                    r->component + 1);
  return nabla_build_reshape(&r->b, one, &rest);
}

static MlirValue put_component(const rows *r, MlirValue all, MlirValue one) {
  int64_t dims[NABLA_MAX_RANK];
  intptr_t count = 0;
  if (r->n->vector_dim >= r->n->index_rank) return one;
  const nabla_built_shape shape = nabla_build_shape_of(&r->b, all);
  for (intptr_t d = 0; d < shape.rank; d++)
    if (d != r->n->vector_dim) dims[count++] = d;
  MlirValue place =
      nabla_build_iota(&r->b, r->n->vector_dim, &shape, r->element);
  MlirValue is_one = nabla_build_compare(
      &r->b, EQUAL, place,
      nabla_piece_number(&r->b, r->component, &shape, r->element));
  return nabla_build_select(
      &r->b, is_one, nabla_build_broadcast(&r->b, one, dims, &shape), all);
}

/* Indices in the table as indices in the device's piece, of `size` rows of
 * `all`. A gather moves what lies outside of the table inside first, and notes
 * which rows are in the piece. */
static MlirValue shift(const rows *r, MlirValue one, uint32_t factor,
                       int64_t size, bool is_gather) {
  const nabla_builder *b = &r->b;
  const nabla_built_shape shape = nabla_build_shape_of(b, one);
  const int64_t all = r->piece->factors->all[factor].size;
  MlirValue zero = nabla_piece_number(b, 0, &shape, r->element);
  if (is_gather) {
    MlirValue last = nabla_piece_number(b, all - 1, &shape, r->element);
    one = nabla_build_two(b, "maximum", one, zero);
    one = nabla_build_two(b, "minimum", one, last);
  }
  MlirValue start = nabla_build_convert(
      b, nabla_piece_start(r->piece, b, factor, size), r->element);
  one = nabla_build_two(b, "sub", one,
                        nabla_build_broadcast(b, start, NULL, &shape));
  if (!is_gather) return one;
  MlirValue end = nabla_piece_number(b, size, &shape, r->element);
  MlirValue owned =
      nabla_build_two(b, "and", nabla_build_compare(b, AT_LEAST, one, zero),
                      nabla_build_compare(b, LESS, one, end));
  r->piece->owned = mlirValueIsNull(r->piece->owned)
                        ? owned
                        : nabla_build_two(b, "and", r->piece->owned, owned);
  return one;
}

bool nabla_piece_rows(nabla_shard_piece *piece, bool is_gather) {
  nabla_gather_numbers n;
  const nabla_factor_array *x = &piece->factors->arrays[0];
  MlirType type = nabla_operand_type(piece->op, 1);
  if (nabla_gather_read(piece->op, (MlirAttribute){NULL}, x->rank,
                        nabla_array_rank(type), &n))
    return true;
  for (intptr_t d = 0; d < x->rank; d++) {
    if (n.offset_of[d] >= 0 || n.batch_of[d] >= 0 || n.start_of[d] < 0 ||
        nabla_piece_count(piece, x->dims[d].at[0]) == 1)
      continue;
    MlirValue all = mlirOperationGetOperand(piece->op, 1);
    const rows r = {.piece = piece,
                    .b = {piece->op},
                    .n = &n,
                    .component = n.start_of[d],
                    .element = mlirShapedTypeGetElementType(type)};
    MlirValue one =
        shift(&r, take_component(&r, all), x->dims[d].at[0],
              nabla_array_dim(nabla_operand_type(piece->op, 0), d), is_gather);
    all = put_component(&r, all, one);
    if (mlirValueIsNull(all)) return false;
    mlirOperationSetOperand(piece->op, 1, all);
  }
  return true;
}

MlirValue nabla_piece_own_rows(const nabla_shard_piece *piece,
                               const nabla_builder *b, MlirValue result) {
  int64_t dims[NABLA_MAX_RANK];
  intptr_t count = 0;
  nabla_gather_numbers n;
  if (mlirValueIsNull(piece->owned)) return result;
  const intptr_t rank = nabla_array_rank(nabla_operand_type(piece->op, 1));
  if (nabla_gather_read(piece->op, (MlirAttribute){NULL},
                        piece->factors->arrays[0].rank, rank, &n))
    return result;
  for (intptr_t d = 0; d < rank; d++)
    if (n.result_of[d] >= 0) dims[count++] = n.result_of[d];
  const nabla_built_shape shape = nabla_build_shape_of(b, result);
  return nabla_build_select(
      b, nabla_build_broadcast(b, piece->owned, dims, &shape), result,
      nabla_piece_nothing(b, &shape,
                          nabla_array_element(mlirValueGetType(result))));
}

/* ---- the best element ---- */

/* One array of all devices along a new first dimension. */
static MlirValue gather_all(const nabla_shard_piece *piece,
                            const nabla_builder *b, uint32_t factor,
                            MlirValue one) {
  const nabla_built_shape shape = nabla_build_shape_of(b, one);
  nabla_built_shape stacked = {0};
  nabla_build_shape_add_size(&stacked, 1);
  for (intptr_t d = 0; d < shape.rank; d++)
    nabla_build_shape_add(&stacked, &shape, d);
  return nabla_reshard_gather(piece->grid, b->before,
                              nabla_build_reshape(b, one, &stacked), 0,
                              &piece->lists[factor]);
}

MlirValue nabla_piece_best(const nabla_shard_piece *piece,
                           const nabla_builder *b, MlirValue result) {
  const nabla_factor_array *x = &piece->factors->arrays[0];
  const intptr_t dim = (intptr_t)nabla_op_integer(piece->op, "dim", 0);
  const uint8_t factor = x->dims[dim].at[0];
  if (nabla_piece_count(piece, factor) == 1) return result;
  const bool is_max = nabla_is(piece->op, "nabla.argmax");
  MlirValue local = mlirOperationGetOperand(piece->op, 0);
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(piece->op), 64);
  const nabla_built_shape shape = nabla_build_shape_of(b, result);
  MlirValue value = nabla_build_reduce(b, is_max ? 1 : 3, local, dim);
  value = nabla_build_reshape(b, value, &shape);
  MlirValue start = nabla_piece_start(
      piece, b, factor, nabla_array_dim(mlirValueGetType(local), dim));
  MlirValue index = nabla_build_two(
      b, "add", result, nabla_build_broadcast(b, start, NULL, &shape));
  MlirValue values = gather_all(piece, b, factor, value);
  MlirValue indices = gather_all(piece, b, factor, index);
  const MlirNamedAttribute first[] = {nabla_build_integer(b, "dim", 64, 0)};
  const nabla_op_spec spec = {
      is_max ? "nabla.argmax" : "nabla.argmin", 1, &values, -1, NULL, 1, first};
  MlirValue device = nabla_build_op(b, &spec);
  if (mlirValueIsNull(device)) return device;
  int64_t dims[NABLA_MAX_RANK];
  for (intptr_t d = 0; d < shape.rank; d++) dims[d] = d + 1;
  const nabla_built_shape all = nabla_build_shape_of(b, indices);
  MlirValue is_best =
      nabla_build_compare(b, EQUAL, nabla_build_iota(b, 0, &all, i64),
                          nabla_build_broadcast(b, device, dims, &all));
  MlirValue picked = nabla_build_select(b, is_best, indices,
                                        nabla_piece_number(b, 0, &all, i64));
  return nabla_build_reduce(b, NABLA_BUILD_SUM, picked, 0);
}
