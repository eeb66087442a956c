/* Result types from operands and attributes: one function for each name in the
 * column INFER of ops.def. An error says what would be legal. */
#include "dialect/infer/infer.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/infer/infer_math.h"

typedef MlirLogicalResult inference(const nablaInference *in,
                                    MlirType types[NABLA_MAX_RESULTS],
                                    intptr_t *count);

/* Whether an operand was read that the op does not have. */
static _Thread_local bool is_short;

/* Operations that rules build come here before MLIR has counted operands: one
 * that is missing is a scalar, and infer() reports it. */
MlirType nabla_infer_operand(const nablaInference *in, intptr_t index) {
  if (index < in->operandCount) return mlirValueGetType(in->operands[index]);
  is_short = true;
  return mlirRankedTensorTypeGet(0, NULL, mlirF32TypeGet(in->context),
                                 mlirAttributeGetNull());
}

static MlirType type_of(const nablaInference *in, intptr_t index) {
  return nabla_infer_operand(in, index);
}

static MlirType tensor(intptr_t rank, const int64_t *shape, MlirType element) {
  return mlirRankedTensorTypeGet(rank, shape, element, mlirAttributeGetNull());
}

static MlirLogicalResult give(MlirType type, MlirType types[],
                              intptr_t *count) {
  types[0] = type;
  *count = 1;
  return mlirLogicalResultSuccess();
}

#define ERROR(in, ...) NABLA_INFER_ERROR(in, __VA_ARGS__)

static nabla_shape_text shape_text(MlirType type) {
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(type);
  if (rank > NABLA_MAX_RANK) rank = NABLA_MAX_RANK;
  for (intptr_t i = 0; i < rank; i++) shape[i] = nabla_array_dim(type, i);
  return nabla_shape_format(rank, shape);
}

/* Operand `index` says where, and is no array. */
static bool is_place(const nablaInference *in, intptr_t index) {
  return index >= 2 && nabla_text_equals(in->op, "nabla.dynamic_update_slice");
}

/* Operands are arrays that fit on the stack. */
static bool ranks_fit(const nablaInference *in) {
  for (intptr_t i = 0; i < in->operandCount; i++) {
    MlirType type = type_of(in, i);
    if (is_place(in, i)) continue;
    if (!nablaTypeIsAImplicit(type) && !mlirTypeIsARankedTensor(type)) {
      ERROR(in, "operand #%d must be a ranked tensor or an implicit array",
            (int)i);
      return false;
    }
    if (nabla_array_rank(type) > NABLA_MAX_RANK) {
      ERROR(in, "arrays have at most %d dimensions", NABLA_MAX_RANK);
      return false;
    }
  }
  return true;
}

static MlirLogicalResult infer_transpose(const nablaInference *in,
                                         MlirType types[], intptr_t *count) {
  MlirType type = type_of(in, 0);
  int64_t order[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(type);
  if (nabla_integers(in->attributes, "permutation", order) != rank ||
      !nabla_dims_valid(rank, order, rank))
    return ERROR(in, "permutation must name each of the %d dimensions once",
                 (int)rank);
  nabla_strided to = {rank, {0}, {0}, 0};
  if (nablaTypeIsAImplicit(type)) {
    nabla_strided from = nabla_implicit_strided(type);
    to.offset = from.offset;
    for (intptr_t i = 0; i < rank; i++) {
      to.shape[i] = from.shape[order[i]];
      to.strides[i] = from.strides[order[i]];
    }
    return give(nabla_implicit_with_view(type, &to), types, count);
  }
  for (intptr_t i = 0; i < rank; i++)
    to.shape[i] = nabla_array_dim(type, (intptr_t)order[i]);
  return give(tensor(rank, to.shape, nabla_array_element(type)), types, count);
}

static MlirLogicalResult infer_unary(const nablaInference *in, MlirType types[],
                                     intptr_t *count) {
  return give(nabla_dense_type(type_of(in, 0)), types, count);
}

MlirLogicalResult infer_binary(const nablaInference *in, MlirType types[],
                               intptr_t *count) {
  MlirType a = type_of(in, 0), b = type_of(in, 1);
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(a);
  if (!mlirTypeEqual(nabla_array_element(a), nabla_array_element(b)))
    return ERROR(in, "operands have the same element type");
  bool good = rank == nabla_array_rank(b);
  for (intptr_t i = 0; good && i < rank; i++) {
    int64_t x = nabla_array_dim(a, i), y = nabla_array_dim(b, i);
    good = nabla_dims_compatible(x, y);
    shape[i] = nabla_is_dynamic(x) ? y : x;
  }
  if (!good)
    return ERROR(in,
                 "operands have one shape, not %s and %s; "
                 "nabla.broadcast_in_dim repeats along dimensions",
                 shape_text(a).data, shape_text(b).data);
  return give(tensor(rank, shape, nabla_array_element(a)), types, count);
}

/* What `any` and `all`, and `mean`, reduce. */
static bool reduce_takes(const nablaInference *in) {
  enum { MEAN = 4, ANY = 5, ALL = 6 }; /* of Nabla_ReduceKind */
  int64_t kind = nabla_infer_integer(in, "kind");
  MlirType element = nabla_array_element(type_of(in, 0));
  bool is_bool =
      mlirTypeIsAInteger(element) && mlirIntegerTypeGetWidth(element) == 1;
  if (kind == MEAN && !mlirTypeIsAFloat(element)) {
    ERROR(in, "mean is of floats; nabla.convert makes them");
    return false;
  }
  if ((kind == ANY || kind == ALL) && !is_bool) {
    ERROR(in, "any and all are of i1; nabla.compare makes it");
    return false;
  }
  return true;
}

static MlirLogicalResult infer_reduce(const nablaInference *in,
                                      MlirType types[], intptr_t *count) {
  MlirType type = type_of(in, 0);
  int64_t dims[NABLA_MAX_RANK], shape[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(type), kept = 0;
  intptr_t dim_count = nabla_integers(in->attributes, "dims", dims);
  if (!nabla_dims_valid(dim_count, dims, rank))
    return ERROR(in, "dims are distinct and less than the rank, %d", (int)rank);
  bool keep =
      !mlirAttributeIsNull(nabla_attribute(in->attributes, "keep_dims"));
  for (intptr_t i = 0; i < rank; i++) {
    bool reduced = nabla_infer_contains(dim_count, dims, i);
    if (!reduced) shape[kept++] = nabla_array_dim(type, i);
    if (reduced && keep) shape[kept++] = 1;
  }
  return reduce_takes(in) ? give(tensor(kept, shape, nabla_array_element(type)),
                                 types, count)
                          : mlirLogicalResultFailure();
}

static MlirLogicalResult infer_constant(const nablaInference *in,
                                        MlirType types[], intptr_t *count) {
  MlirAttribute value = nabla_attribute(in->attributes, "value");
  if (mlirAttributeIsNull(value) || !mlirAttributeIsAElements(value))
    return ERROR(in, "value must be an elements attribute");
  MlirType type = mlirAttributeGetType(value);
  if (!mlirTypeIsARankedTensor(type))
    return ERROR(in, "value must be of a ranked tensor type");
  if (mlirShapedTypeGetRank(type) > NABLA_MAX_RANK)
    return ERROR(in, "arrays have at most %d dimensions", NABLA_MAX_RANK);
  return give(type, types, count);
}

static const struct {
  const char *name;
  inference *infer;
} rows[] = {
#define OP(id, columns) {.name = "nabla." #id, columns},
#define INFER(word)     .infer = infer_##word,
#include "dialect/ops.def"
};

bool nabla_infer_knows(MlirStringRef op) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (nabla_text_equals(op, rows[i].name)) return rows[i].infer != NULL;
  return false;
}

static MlirLogicalResult infer(const nablaInference *in,
                               MlirType types[NABLA_MAX_RESULTS],
                               intptr_t *outCount) {
  if (!ranks_fit(in) ||
      (in->operandCount > 0 &&
       !nabla_types_check(in->location, in->op, type_of(in, 0))))
    return mlirLogicalResultFailure();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!rows[i].infer || !nabla_text_equals(in->op, rows[i].name)) continue;
    is_short = false;
    const MlirLogicalResult result = rows[i].infer(in, types, outCount);
    return is_short
               ? ERROR(in, "takes more than %d operand%s",
                       (int)in->operandCount, in->operandCount == 1 ? "" : "s")
               : result;
  }
  return ERROR(in, "has no inference of result types");
}

static _Thread_local bool is_guarded, has_failed;

void nabla_infer_guard(void) {
  is_guarded = true;
  has_failed = false;
}

bool nabla_infer_unguard(void) {
  is_guarded = false;
  return has_failed;
}

void nabla_infer_fail(void) { has_failed = true; }

MlirLogicalResult nablaInferOp(const nablaInference *in,
                               MlirType types[NABLA_MAX_RESULTS],
                               intptr_t *outCount) {
  MlirLogicalResult result = infer(in, types, outCount);
  if (!is_guarded || mlirLogicalResultIsSuccess(result)) return result;
  has_failed = true;
  *outCount = 1;
  types[0] = mlirNoneTypeGet(in->context);
  return mlirLogicalResultSuccess();
}
