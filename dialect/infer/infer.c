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

static MlirType type_of(const nablaInference *in, intptr_t index) {
  return mlirValueGetType(in->operands[index]);
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

/* The four lists of a dot_general. */
typedef struct contraction {
  intptr_t batch, contracting;
  int64_t lhs_batch[NABLA_MAX_RANK], rhs_batch[NABLA_MAX_RANK];
  int64_t lhs[NABLA_MAX_RANK], rhs[NABLA_MAX_RANK];
} contraction;

static bool contains(intptr_t count, const int64_t *list, int64_t value) {
  for (intptr_t i = 0; i < count; i++)
    if (list[i] == value) return true;
  return false;
}

static bool distinct(intptr_t a_count, const int64_t *a, intptr_t b_count,
                     const int64_t *b, intptr_t rank) {
  if (!nabla_dims_valid(a_count, a, rank) ||
      !nabla_dims_valid(b_count, b, rank))
    return false;
  for (intptr_t i = 0; i < a_count; i++)
    if (contains(b_count, b, a[i])) return false;
  return true;
}

static bool read_contraction(const nablaInference *in, contraction *c) {
  MlirType lhs = type_of(in, 0), rhs = type_of(in, 1);
  c->batch = nabla_integers(in->attributes, "lhs_batching", c->lhs_batch);
  intptr_t rb = nabla_integers(in->attributes, "rhs_batching", c->rhs_batch);
  c->contracting = nabla_integers(in->attributes, "lhs_contracting", c->lhs);
  intptr_t rc = nabla_integers(in->attributes, "rhs_contracting", c->rhs);
  if (c->batch != rb || c->contracting != rc) {
    ERROR(in, "the lists of %s dimensions differ in length: %d and %d",
          c->batch != rb ? "batching" : "contracting",
          (int)(c->batch != rb ? c->batch : c->contracting),
          (int)(c->batch != rb ? rb : rc));
    return false;
  }
  intptr_t lr = nabla_array_rank(lhs), rr = nabla_array_rank(rhs);
  if (!distinct(c->batch, c->lhs_batch, c->contracting, c->lhs, lr) ||
      !distinct(c->batch, c->rhs_batch, c->contracting, c->rhs, rr)) {
    ERROR(in,
          "batching and contracting dimensions are distinct and less than the "
          "rank: %d for lhs, %d for rhs",
          (int)lr, (int)rr);
    return false;
  }
  return true;
}

static bool pairs_agree(const nablaInference *in, const char *what,
                        intptr_t count, const int64_t *lhs,
                        const int64_t *rhs) {
  for (intptr_t i = 0; i < count; i++) {
    int64_t a = nabla_array_dim(type_of(in, 0), (intptr_t)lhs[i]);
    int64_t b = nabla_array_dim(type_of(in, 1), (intptr_t)rhs[i]);
    if (nabla_dims_compatible(a, b)) continue;
    ERROR(in,
          "%s dimensions disagree: %lld (dimension %d of lhs) and %lld "
          "(dimension %d of rhs)",
          what, (long long)a, (int)lhs[i], (long long)b, (int)rhs[i]);
    return false;
  }
  return true;
}

static MlirLogicalResult infer_dot_general(const nablaInference *in,
                                           MlirType types[], intptr_t *count) {
  MlirType lhs = type_of(in, 0), rhs = type_of(in, 1);
  contraction c;
  if (!read_contraction(in, &c) ||
      !pairs_agree(in, "batching", c.batch, c.lhs_batch, c.rhs_batch) ||
      !pairs_agree(in, "contracting", c.contracting, c.lhs, c.rhs))
    return mlirLogicalResultFailure();
  if (!mlirTypeEqual(nabla_array_element(lhs), nabla_array_element(rhs)))
    return ERROR(in, "operands have the same element type");
  int64_t shape[3 * NABLA_MAX_RANK];
  intptr_t rank = 0;
  for (intptr_t i = 0; i < c.batch; i++) {
    int64_t a = nabla_array_dim(lhs, (intptr_t)c.lhs_batch[i]);
    shape[rank++] = nabla_is_dynamic(a)
                        ? nabla_array_dim(rhs, (intptr_t)c.rhs_batch[i])
                        : a;
  }
  for (intptr_t i = 0; i < nabla_array_rank(lhs); i++)
    if (!contains(c.batch, c.lhs_batch, i) &&
        !contains(c.contracting, c.lhs, i))
      shape[rank++] = nabla_array_dim(lhs, i);
  for (intptr_t i = 0; i < nabla_array_rank(rhs); i++)
    if (!contains(c.batch, c.rhs_batch, i) &&
        !contains(c.contracting, c.rhs, i))
      shape[rank++] = nabla_array_dim(rhs, i);
  if (rank > NABLA_MAX_RANK)
    return ERROR(in, "the result has more than %d dimensions", NABLA_MAX_RANK);
  return give(tensor(rank, shape, nabla_array_element(lhs)), types, count);
}

/* One step of an epilogue; `*at` counts the operands that steps have taken. */
static bool check_step(const nablaInference *in, MlirAttribute step,
                       const int64_t result[2], intptr_t *at) {
  MlirStringRef name = mlirStringAttrGetValue(step);
  bool bias = nabla_text_equals(name, "bias");
  if (nabla_text_equals(name, "relu") || nabla_text_equals(name, "silu"))
    return true;
  if (!bias && !nabla_text_equals(name, "add")) {
    ERROR(in, "epilogue step '%.*s' is none of bias, add, relu, silu",
          (int)(name.length < 64 ? name.length : 64), name.data);
    return false;
  }
  if (*at >= in->operandCount) {
    ERROR(in, "epilogue has more steps with an operand than operands");
    return false;
  }
  MlirType type = type_of(in, (*at)++);
  bool good = mlirTypeEqual(nabla_array_element(type),
                            nabla_array_element(type_of(in, 0))) &&
              nabla_array_rank(type) == (bias ? 1 : 2);
  for (intptr_t i = 0; good && i < nabla_array_rank(type); i++)
    good =
        nabla_dims_compatible(nabla_array_dim(type, i), result[bias ? 1 : i]);
  if (!good)
    ERROR(in, "operand of epilogue step '%.*s' must be %s of the result %s",
          (int)name.length, name.data,
          bias ? "a vector of the columns" : "of the shape",
          nabla_shape_format(2, result).data);
  return good;
}

static MlirLogicalResult infer_fused_dot(const nablaInference *in,
                                         MlirType types[], intptr_t *count) {
  MlirType x = type_of(in, 0), w = type_of(in, 1);
  if (nabla_array_rank(x) != 2 || nabla_array_rank(w) != 2)
    return ERROR(in, "x and w are of rank 2, not %s and %s", shape_text(x).data,
                 shape_text(w).data);
  if (!nablaTypeIsAImplicit(w)) return ERROR(in, "w is packed");
  nabla_encoding_kind kind = nabla_implicit_encoding(w).kind;
  if (kind != NABLA_KIND_PACKED && kind != NABLA_KIND_GGML)
    return ERROR(in, "w is packed");
  if (!nabla_dims_compatible(nabla_array_dim(x, 1), nabla_array_dim(w, 1)))
    return ERROR(in, "contracted dimensions disagree: %lld and %lld",
                 (long long)nabla_array_dim(x, 1),
                 (long long)nabla_array_dim(w, 1));
  int64_t shape[2] = {nabla_array_dim(x, 0), nabla_array_dim(w, 0)};
  MlirAttribute steps = nabla_attribute(in->attributes, "epilogue");
  intptr_t step_count =
      mlirAttributeIsNull(steps) ? 0 : mlirArrayAttrGetNumElements(steps);
  if (step_count > 8) return ERROR(in, "an epilogue has at most 8 steps");
  intptr_t at = 2;
  for (intptr_t i = 0; i < step_count; i++)
    if (!check_step(in, mlirArrayAttrGetElement(steps, i), shape, &at))
      return mlirLogicalResultFailure();
  if (at != in->operandCount)
    return ERROR(in, "epilogue takes %d operands, not %d", (int)at - 2,
                 (int)in->operandCount - 2);
  return give(tensor(2, shape, nabla_array_element(x)), types, count);
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
    bool reduced = contains(dim_count, dims, i);
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

static MlirLogicalResult infer(const nablaInference *in,
                               MlirType types[NABLA_MAX_RESULTS],
                               intptr_t *outCount) {
  if (!ranks_fit(in) ||
      (in->operandCount > 0 &&
       !nabla_types_check(in->location, in->op, type_of(in, 0))))
    return mlirLogicalResultFailure();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].infer && nabla_text_equals(in->op, rows[i].name))
      return rows[i].infer(in, types, outCount);
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
