/* See pieces.h. */
#include "transforms/shard/pieces.h"

#include <math.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/shard/reshard.h"

#define LESS     2 /* Nabla_CompareKind */
#define AT_MOST  3
#define NO_SHAPE &(const nabla_built_shape){0}

static MlirAttribute get(MlirOperation op, const char *key) {
  return mlirOperationGetAttributeByName(op, nabla_ref(key));
}

int64_t nabla_piece_count(const nabla_shard_piece *piece, uint32_t factor) {
  return nabla_atoms_product(&piece->grid->atoms, &piece->lists[factor]);
}

/* ---- indices ---- */

MlirValue nabla_piece_number(const nabla_builder *b, int64_t value,
                             const nabla_built_shape *shape, MlirType element) {
  return mlirTypeIsAInteger(element)
             ? nabla_build_full_integer(b, value, shape, element)
             : nabla_build_full(b, (double)value, shape, element);
}

/* x + -0 is x, also where x is -0. */
MlirValue nabla_piece_nothing(const nabla_builder *b,
                              const nabla_built_shape *shape,
                              MlirType element) {
  return mlirTypeIsAInteger(element)
             ? nabla_build_full_integer(b, 0, shape, element)
             : nabla_build_full(b, -0.0, shape, element);
}

MlirValue nabla_piece_start(const nabla_shard_piece *piece,
                            const nabla_builder *b, uint32_t factor,
                            int64_t size) {
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(piece->op), 64);
  MlirValue index =
      nabla_reshard_index(piece->grid, b->before, &piece->lists[factor]);
  return nabla_build_two(b, "mul", index,
                         nabla_piece_number(b, size, NO_SHAPE, i64));
}

MlirValue nabla_piece_iota(const nabla_shard_piece *piece,
                           const nabla_builder *b,
                           const nabla_built_shape *shape, intptr_t dim,
                           uint32_t factor) {
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(piece->op), 64);
  MlirValue index = nabla_build_iota(b, dim, shape, i64);
  if (nabla_piece_count(piece, factor) == 1) return index;
  MlirValue start = nabla_piece_start(piece, b, factor, shape->dims[dim]);
  return nabla_build_two(b, "add", index,
                         nabla_build_broadcast(b, start, NULL, shape));
}

/* The one factor of a dimension; NABLA_MAX_FACTORS: it has none, or several. */
static uint8_t factor_of(const nabla_factor_array *a, intptr_t dim) {
  return a->dims[dim].count == 1 ? a->dims[dim].at[0] : NABLA_MAX_FACTORS;
}

static bool divides(const nabla_shard_piece *piece, uint8_t factor) {
  return factor < NABLA_MAX_FACTORS && nabla_piece_count(piece, factor) > 1;
}

/* ---- padding ---- */

/* What changes nothing where it is joined: `kind` is a Nabla_ReduceKind. */
static MlirValue identity(const nabla_builder *b, int kind,
                          const nabla_built_shape *shape, MlirType element) {
  const bool lowest = kind == 1, highest = kind == 3;
  if (!mlirTypeIsAInteger(element)) {
    if (kind == NABLA_BUILD_SUM) return nabla_piece_nothing(b, shape, element);
    const double value = lowest ? -INFINITY : highest ? INFINITY : 1;
    return nabla_build_full(b, value, shape, element);
  }
  const unsigned width = mlirIntegerTypeGetWidth(element);
  const bool is_unsigned = width == 1 || mlirIntegerTypeIsUnsigned(element);
  int64_t value = kind == 2 || kind == 6; /* prod, all */
  if (lowest) value = is_unsigned ? 0 : (int64_t)(UINT64_MAX << (width - 1));
  if (highest)
    value = is_unsigned ? (int64_t)(UINT64_MAX >> (64 - width))
                        : (int64_t)(UINT64_MAX >> (65 - width));
  return nabla_build_full_integer(b, value, shape, element);
}

/* Replaces what lies behind the end of dimension `dim` of an operand. */
static bool mask(const nabla_shard_piece *piece, const nabla_factor_array *a,
                 intptr_t dim, int kind) {
  const nabla_builder b = {piece->op};
  const uint8_t factor = factor_of(a, dim);
  MlirValue x = mlirOperationGetOperand(piece->op, a->index);
  const nabla_built_shape shape = nabla_build_shape_of(&b, x);
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(piece->op), 64);
  MlirValue at = nabla_piece_iota(piece, &b, &shape, dim, factor);
  MlirValue end =
      nabla_piece_number(&b, piece->factors->all[factor].size, &shape, i64);
  MlirValue neutral =
      identity(&b, kind, &shape, nabla_array_element(mlirValueGetType(x)));
  MlirValue masked = nabla_build_select(
      &b, nabla_build_compare(&b, LESS, at, end), x, neutral);
  if (mlirValueIsNull(masked)) return false;
  mlirOperationSetOperand(piece->op, a->index, masked);
  return true;
}

/* Whether a factor has elements of padding. */
static bool is_padded(const nabla_shard_piece *piece, uint8_t factor) {
  const int64_t size = factor < NABLA_MAX_FACTORS
                           ? piece->factors->all[factor].size
                           : NABLA_MAX_FACTORS;
  return divides(piece, factor) && !nabla_is_dynamic(size) &&
         size % nabla_piece_count(piece, factor);
}

/* The join of a factor's elements in the operation itself. */
static int join_of(const nabla_shard_piece *piece, const nabla_factor *factor) {
  if (nabla_is(piece->op, "nabla.argmax")) return 1;
  return nabla_is(piece->op, "nabla.argmin") ? 3 : factor->join;
}

static bool mask_all(const nabla_shard_piece *piece) {
  if (nabla_is(piece->op, "nabla.gather")) return true; /* rows of its own */
  for (uint32_t i = 0; i < piece->factors->array_count; i++) {
    const nabla_factor_array *a = &piece->factors->arrays[i];
    for (intptr_t d = 0; d < a->rank && !a->is_result; d++) {
      const uint8_t factor = factor_of(a, d);
      if (!is_padded(piece, factor) ||
          piece->factors->all[factor].kind != NABLA_FACTOR_REDUCE)
        continue;
      if (!mask(piece, a, d, join_of(piece, &piece->factors->all[factor])))
        return false;
    }
  }
  return true;
}

/* ---- operands and attributes ---- */

static void set_list(MlirOperation op, const char *key, intptr_t count,
                     const int64_t *values) {
  mlirOperationSetAttributeByName(
      op, nabla_ref(key),
      mlirDenseI64ArrayGet(nabla_op_context(op), count, values));
}

/* Boxes of dimensions that are taken whole: entries of `key` that are sizes of
 * the operand's dimensions. */
static void adjust_boxes(const nabla_shard_piece *piece, const char *key) {
  int64_t sizes[NABLA_MAX_RANK];
  const nabla_factor_array *x = &piece->factors->arrays[0];
  const intptr_t count = nabla_op_integers(piece->op, key, sizes);
  MlirType local = nabla_operand_type(piece->op, 0);
  for (intptr_t d = 0; d < count && d < x->rank; d++)
    if (divides(piece, factor_of(x, d)) && sizes[d] != -1 && sizes[d] != 1)
      sizes[d] = nabla_array_dim(local, d);
  set_list(piece->op, key, count, sizes);
}

/* Groups of a convolution. */
static void adjust_groups(const nabla_shard_piece *piece) {
  const int64_t groups = nabla_op_integer(piece->op, "groups", 1);
  const nabla_factor_array *k = &piece->factors->arrays[1];
  for (intptr_t d = 0; groups > 1 && d < k->rank; d++) {
    if (k->dims[d].count != 2) continue; /* groups, features of one */
    const int64_t n = nabla_piece_count(piece, k->dims[d].at[0]);
    const nabla_builder b = {piece->op};
    mlirOperationSetAttributeByName(
        piece->op, nabla_ref("groups"),
        nabla_build_integer(&b, "groups", 64, groups / n).attribute);
  }
}

/* A bias is added by the first of the devices whose results are summed. */
static bool adjust_bias(const nabla_shard_piece *piece) {
  const nabla_builder b = {piece->op};
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(piece->op), 64);
  for (uint32_t i = 0; i < piece->factors->count; i++) {
    if (piece->factors->all[i].kind != NABLA_FACTOR_REDUCE ||
        nabla_piece_count(piece, i) == 1)
      continue;
    MlirValue bias = mlirOperationGetOperand(piece->op, 2);
    const nabla_built_shape shape = nabla_build_shape_of(&b, bias);
    MlirValue at = nabla_piece_start(piece, &b, i, 1);
    MlirValue is_first = nabla_build_compare(
        &b, LESS, at, nabla_piece_number(&b, 1, NO_SHAPE, i64));
    bias = nabla_build_select(
        &b, nabla_build_broadcast(&b, is_first, NULL, &shape), bias,
        nabla_piece_nothing(&b, &shape,
                            nabla_array_element(mlirValueGetType(bias))));
    if (mlirValueIsNull(bias)) return false;
    mlirOperationSetOperand(piece->op, 2, bias);
  }
  return true;
}

/* The last operands are the sizes of each `?` of results. */
static bool adjust_sizes(const nabla_shard_piece *piece) {
  static const char *const ops[] = {
      "nabla.full",    "nabla.iota",          "nabla.tri",
      "nabla.uniform", "nabla.normal",        "nabla.broadcast_in_dim",
      "nabla.reshape", "nabla.dynamic_slice", "nabla.custom_call"};
  bool has_sizes = false;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    has_sizes = has_sizes || nabla_is(piece->op, ops[i]);
  if (!has_sizes) return true;
  const nabla_builder b = {piece->op};
  intptr_t at = mlirOperationGetNumOperands(piece->op);
  for (uint32_t i = piece->factors->array_count; i-- > 0;) {
    const nabla_factor_array *a = &piece->factors->arrays[i];
    for (intptr_t d = a->rank; a->is_result && d-- > 0;) {
      if (!nabla_is_dynamic(nabla_array_dim(mlirValueGetType(a->value), d)))
        continue;
      at--;
      const uint8_t factor = factor_of(a, d);
      if (!divides(piece, factor)) continue;
      MlirValue size = nabla_build_arith(
          &b, "divui", mlirOperationGetOperand(piece->op, at),
          nabla_build_index(&b, nabla_piece_count(piece, factor)));
      if (mlirValueIsNull(size)) return false;
      mlirOperationSetOperand(piece->op, at, size);
    }
  }
  return true;
}

/* The value of a constant whose elements are equal. */
static void adjust_constant(const nabla_shard_piece *piece) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  MlirAttribute value = get(piece->op, "value");
  nabla_division layout = nabla_factors_join(
      piece->grid, piece->factors, &piece->factors->arrays[0], piece->lists);
  if (!nabla_layout_is_whole(&layout) &&
      nabla_layout_local(piece->grid, &layout, &local, message))
    mlirOperationSetAttributeByName(
        piece->op, nabla_ref("value"),
        mlirDenseElementsAttrSplatGet(
            local, mlirDenseElementsAttrGetSplatValue(value)));
}

bool nabla_piece_adjust(nabla_shard_piece *piece) {
  MlirOperation op = piece->op;
  if (nabla_is(op, "nabla.slice")) adjust_boxes(piece, "limits");
  if (nabla_is(op, "nabla.gather")) adjust_boxes(piece, "sizes");
  if (nabla_is(op, "nabla.conv_general")) adjust_groups(piece);
  if (nabla_is(op, "nabla.constant")) adjust_constant(piece);
  if (nabla_is(op, "nabla.custom_call")) {
    mlirOperationRemoveAttributeByName(op, nabla_ref(NABLA_FACTORS));
    mlirOperationRemoveAttributeByName(op, nabla_ref(NABLA_REDUCTION));
  }
  if (nabla_is(op, "nabla.linear") && mlirOperationGetNumOperands(op) == 3 &&
      !adjust_bias(piece))
    return false;
  if ((nabla_is(op, "nabla.gather") || nabla_is(op, "nabla.scatter")) &&
      !nabla_piece_rows(piece, nabla_is(op, "nabla.gather")))
    return false;
  return mask_all(piece) && adjust_sizes(piece);
}

/* ---- results ---- */

static MlirValue finish_iota(const nabla_shard_piece *piece,
                             const nabla_builder *b, MlirValue result) {
  const nabla_factor_array *y = &piece->factors->arrays[0];
  const intptr_t dim = (intptr_t)nabla_op_integer(piece->op, "dim", 0);
  if (!divides(piece, factor_of(y, dim))) return result;
  const nabla_built_shape shape = nabla_build_shape_of(b, result);
  MlirValue index = nabla_piece_iota(piece, b, &shape, dim, factor_of(y, dim));
  return nabla_build_convert(b, index,
                             nabla_array_element(mlirValueGetType(result)));
}

static MlirValue finish_tri(const nabla_shard_piece *piece,
                            const nabla_builder *b, MlirValue result) {
  const nabla_factor_array *y = &piece->factors->arrays[0];
  const intptr_t row = y->rank - 2, column = y->rank - 1;
  const int64_t diagonal = nabla_op_integer(piece->op, "diagonal", 0);
  if (row < 0 || (!divides(piece, factor_of(y, row)) &&
                  !divides(piece, factor_of(y, column))))
    return result;
  MlirType i64 = mlirIntegerTypeGet(nabla_op_context(piece->op), 64);
  const nabla_built_shape shape = nabla_build_shape_of(b, result);
  MlirValue i = nabla_piece_iota(piece, b, &shape, row, factor_of(y, row));
  MlirValue j =
      nabla_piece_iota(piece, b, &shape, column, factor_of(y, column));
  i = nabla_build_two(b, "add", i,
                      nabla_piece_number(b, diagonal, &shape, i64));
  return nabla_build_convert(b, nabla_build_compare(b, AT_MOST, j, i),
                             nabla_array_element(mlirValueGetType(result)));
}

/* The mean of a piece as its part of the mean of all. */
static MlirValue finish_mean(const nabla_shard_piece *piece,
                             const nabla_builder *b, MlirValue result) {
  int64_t n = 1;
  for (uint32_t i = 0; i < piece->factors->count; i++)
    if (piece->factors->all[i].kind == NABLA_FACTOR_REDUCE)
      n *= nabla_piece_count(piece, i);
  if (n == 1) return result;
  const nabla_built_shape shape = nabla_build_shape_of(b, result);
  return nabla_build_two(
      b, "mul", result,
      nabla_build_full(b, 1 / (double)n, &shape,
                       nabla_array_element(mlirValueGetType(result))));
}

MlirValue nabla_piece_finish(const nabla_shard_piece *piece,
                             MlirOperation before, intptr_t index,
                             MlirValue result) {
  const nabla_builder b = {before};
  MlirOperation op = piece->op;
  (void)index;
  if (nabla_is(op, "nabla.iota")) return finish_iota(piece, &b, result);
  if (nabla_is(op, "nabla.tri")) return finish_tri(piece, &b, result);
  if (nabla_is(op, "nabla.gather"))
    return nabla_piece_own_rows(piece, &b, result);
  if (nabla_is(op, "nabla.argmax") || nabla_is(op, "nabla.argmin"))
    return nabla_piece_best(piece, &b, result);
  if (nabla_is(op, "nabla.reduce") &&
      nabla_op_integer(op, "kind", 0) == NABLA_BUILD_MEAN)
    return finish_mean(piece, &b, result);
  return result;
}
