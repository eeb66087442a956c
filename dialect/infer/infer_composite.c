/* Result types of NablaComposite.td's ops; see infer.h. */
#include <assert.h>
#include <math.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/infer/infer.h"

#define ERROR(in, ...) NABLA_INFER_ERROR(in, __VA_ARGS__)

static intptr_t rank_of(const nablaInference *in, intptr_t operand) {
  return nabla_array_rank(nabla_infer_operand(in, operand));
}

/* Dimension `from_end` from the end, 1 being the last one. */
static int64_t dim_of(const nablaInference *in, intptr_t operand,
                      intptr_t from_end) {
  MlirType type = nabla_infer_operand(in, operand);
  return nabla_array_dim(type, nabla_array_rank(type) - from_end);
}

static nabla_shape_text text_of(const nablaInference *in, intptr_t operand) {
  return nabla_infer_text(nabla_infer_operand(in, operand));
}

/* All operands from the second up to `end` have the first one's elements. */
static bool check_elements(const nablaInference *in, intptr_t end) {
  MlirType first = nabla_array_element(nabla_infer_operand(in, 0));
  for (intptr_t i = 1; i < end && i < in->operandCount; i++)
    if (!mlirTypeEqual(nabla_array_element(nabla_infer_operand(in, i)),
                       first)) {
      ERROR(in, "operands have the same element type; nabla.convert makes it");
      return false;
    }
  return true;
}

static bool check_rank(const nablaInference *in, intptr_t operand,
                       const char *name, intptr_t least) {
  intptr_t rank = rank_of(in, operand);
  if (rank >= least && rank < NABLA_MAX_RANK) return true;
  ERROR(in, "%s has %d to %d dimensions, not %d", name, (int)least,
        NABLA_MAX_RANK - 1, (int)rank);
  return false;
}

/* A number that is finite and greater than 0, or 0 if that is allowed. */
static bool check_number(const nablaInference *in, const char *key,
                         bool may_be_zero) {
  MlirAttribute value = nabla_attribute(in->attributes, key);
  if (mlirAttributeIsNull(value)) return true;
  double number =
      mlirAttributeIsAFloat(value) ? mlirFloatAttrGetValueDouble(value) : NAN;
  if (isfinite(number) && (number > 0 || (may_be_zero && number == 0)))
    return true;
  ERROR(in, "%s is finite and %s", key,
        may_be_zero ? "not negative" : "greater than 0");
  return false;
}

/* Operand `index` has one number for each of the `size` in a row. */
static bool check_vector(const nablaInference *in, intptr_t index,
                         const char *name, int64_t size) {
  if (index >= in->operandCount) return true;
  if (rank_of(in, index) == 1 &&
      nabla_dims_compatible(dim_of(in, index, 1), size))
    return true;
  ERROR(in, "the %s has shape %s, not %s", name,
        nabla_shape_format(1, &size).data, text_of(in, index).data);
  return false;
}

/* The first operand's shape; its rank. */
static intptr_t rows_of(const nablaInference *in,
                        int64_t shape[NABLA_MAX_RANK]) {
  MlirType type = nabla_infer_operand(in, 0);
  intptr_t rank = nabla_array_rank(type);
  assert(rank >= 1 && rank < NABLA_MAX_RANK); /* check_rank */
  for (intptr_t i = 0; i < rank; i++) shape[i] = nabla_array_dim(type, i);
  return rank;
}

static MlirLogicalResult give_shape(const nablaInference *in, intptr_t rank,
                                    const int64_t *shape, MlirType types[],
                                    intptr_t *count) {
  MlirType element = nabla_array_element(nabla_infer_operand(in, 0));
  return nabla_infer_give(nabla_infer_tensor(rank, shape, element), types,
                          count);
}

/* The first operand's shape, with `last` as last dimension. */
static MlirLogicalResult give_rows(const nablaInference *in, int64_t last,
                                   MlirType types[], intptr_t *count) {
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank = rows_of(in, shape);
  shape[rank - 1] = last;
  return give_shape(in, rank, shape, types, count);
}

/* A size that is not known is that of an operand that has to agree. */
static void refine(int64_t *size, int64_t other) {
  if (nabla_is_dynamic(*size)) *size = other;
}

/* Operand `index`, if there is one, has one number for each of `*size`. */
static bool refine_by_vector(const nablaInference *in, intptr_t index,
                             const char *name, int64_t *size) {
  if (!check_vector(in, index, name, *size)) return false;
  if (index < in->operandCount) refine(size, dim_of(in, index, 1));
  return true;
}

MlirLogicalResult infer_linear(const nablaInference *in, MlirType types[],
                               intptr_t *count) {
  if (!check_elements(in, 3) || !check_rank(in, 0, "x", 1))
    return mlirLogicalResultFailure();
  if (rank_of(in, 1) != 2)
    return ERROR(in, "w is a matrix of N x K, not %s", text_of(in, 1).data);
  if (!nabla_dims_compatible(dim_of(in, 0, 1), dim_of(in, 1, 1)))
    return ERROR(in,
                 "rows of x have as many elements as those of w, which is N x "
                 "K: x is %s, w %s; nabla.transpose turns w round",
                 text_of(in, 0).data, text_of(in, 1).data);
  int64_t columns = dim_of(in, 1, 2);
  if (!refine_by_vector(in, 2, "bias", &columns))
    return mlirLogicalResultFailure();
  return give_rows(in, columns, types, count);
}

static MlirLogicalResult norm(const nablaInference *in, MlirType types[],
                              intptr_t *count) {
  if (!check_elements(in, 3) || !check_rank(in, 0, "the input", 1) ||
      !check_number(in, "eps", true))
    return mlirLogicalResultFailure();
  int64_t places = dim_of(in, 0, 1);
  if (!refine_by_vector(in, 1, "weight", &places) ||
      !refine_by_vector(in, 2, "bias", &places))
    return mlirLogicalResultFailure();
  return give_rows(in, places, types, count);
}
MlirLogicalResult infer_rms_norm(const nablaInference *in, MlirType types[],
                                 intptr_t *count) {
  return norm(in, types, count);
}
MlirLogicalResult infer_layer_norm(const nablaInference *in, MlirType types[],
                                   intptr_t *count) {
  if (in->operandCount > 3)
    return ERROR(in, "parameters are a weight and a bias, not %d",
                 (int)in->operandCount - 1);
  return norm(in, types, count);
}

MlirLogicalResult infer_rope(const nablaInference *in, MlirType types[],
                             intptr_t *count) {
  int64_t shape[NABLA_MAX_RANK];
  if (!check_rank(in, 0, "the input", 2) || !check_number(in, "theta", false))
    return mlirLogicalResultFailure();
  int64_t dim = nabla_infer_integer(in, "dim"), last = dim_of(in, 0, 1);
  if (dim < 0 || dim >= rank_of(in, 0) - 1)
    return ERROR(in, "dim is one of the first %d dimensions",
                 (int)rank_of(in, 0) - 1);
  if (!nabla_is_dynamic(last) && last % 2)
    return ERROR(in, "the last dimension has pairs, not %lld elements",
                 (long long)last);
  intptr_t rank = rows_of(in, shape);
  if (!refine_by_vector(in, 1, "positions", &shape[dim]))
    return mlirLogicalResultFailure();
  return give_shape(in, rank, shape, types, count);
}

/* What q, k and v agree in. */
static bool check_heads(const nablaInference *in) {
  intptr_t rank = rank_of(in, 0);
  if (rank_of(in, 1) != rank || rank_of(in, 2) != rank) {
    ERROR(in, "q, k and v have as many dimensions, not %d, %d and %d",
          (int)rank, (int)rank_of(in, 1), (int)rank_of(in, 2));
    return false;
  }
  bool good = nabla_dims_compatible(dim_of(in, 0, 1), dim_of(in, 1, 1)) &&
              nabla_dims_compatible(dim_of(in, 1, 2), dim_of(in, 2, 2));
  for (intptr_t i = 3; i <= rank; i++) {
    int64_t q = dim_of(in, 0, i), k = dim_of(in, 1, i);
    good = good && nabla_dims_compatible(k, dim_of(in, 2, i));
    bool known = !nabla_is_dynamic(q) && !nabla_is_dynamic(k);
    good = good && (nabla_dims_compatible(q, k) ||
                    (i == 3 && known && k > 0 && q % k == 0));
  }
  if (!good)
    ERROR(in,
          "q is ..HxTxD, k ..hxSxD and v ..hxSxE, with H a multiple of h: q is "
          "%s, k %s, v %s",
          text_of(in, 0).data, text_of(in, 1).data, text_of(in, 2).data);
  return good;
}

/* Whether optional operand `group` is there: the mask is 3, the number of keys
 * 4. */
static bool has_operand(const nablaInference *in, intptr_t group) {
  MlirAttribute sizes = nabla_attribute(in->attributes, "operandSegmentSizes");
  return !mlirAttributeIsNull(sizes) && mlirAttributeIsADenseI32Array(sizes) &&
         group < mlirDenseArrayGetNumElements(sizes) &&
         mlirDenseI32ArrayGetElement(sizes, group) > 0;
}

static int bits_of(MlirType element) {
  return mlirTypeIsAF64(element) ? 64 : mlirTypeIsAF32(element) ? 32 : 16;
}

/* k and v may be a cache of narrower elements than q has. */
static bool check_cache(const nablaInference *in) {
  MlirType q = nabla_array_element(nabla_infer_operand(in, 0));
  MlirType k = nabla_array_element(nabla_infer_operand(in, 1));
  MlirType v = nabla_array_element(nabla_infer_operand(in, 2));
  if (mlirTypeEqual(k, v) && bits_of(k) <= bits_of(q)) return true;
  ERROR(in,
        "k and v have the same element type, which is not wider than q's; "
        "nabla.convert makes it");
  return false;
}

static bool check_mask(const nablaInference *in) {
  if (!has_operand(in, 3)) return true;
  MlirType mask = nabla_infer_operand(in, 3);
  MlirType element = nabla_array_element(mask);
  intptr_t rank = nabla_array_rank(mask);
  bool is_i1 =
      mlirTypeIsAInteger(element) && mlirIntegerTypeGetWidth(element) == 1;
  if (!is_i1 && !mlirTypeEqual(
                    element, nabla_array_element(nabla_infer_operand(in, 0)))) {
    ERROR(in, "the mask is of i1 or of the element type of q");
    return false;
  }
  bool good = rank >= 2 && rank <= rank_of(in, 0) &&
              nabla_dims_compatible(dim_of(in, 3, 1), dim_of(in, 1, 2));
  for (intptr_t i = 2; good && i <= rank; i++)
    good = nabla_dims_compatible(dim_of(in, 3, i), dim_of(in, 0, i));
  if (good) return true;
  ERROR(in,
        "the mask is TxS, with the last of q's other dimensions before that or "
        "none: it is %s, q %s, k %s",
        text_of(in, 3).data, text_of(in, 0).data, text_of(in, 1).data);
  return false;
}

/* The shape of the result but for its last dimension, as far as q, k, v or the
 * mask know it. The number of heads is q's alone, or the mask's. */
static bool refine_heads(const nablaInference *in, intptr_t rank,
                         int64_t shape[]) {
  for (intptr_t i = 2; i <= rank; i++) {
    int64_t *size = &shape[rank - i];
    if (i > 3) refine(size, dim_of(in, 1, i));
    if (i > 3) refine(size, dim_of(in, 2, i));
    if (!has_operand(in, 3) || i > rank_of(in, 3)) continue;
    if (!nabla_dims_compatible(*size, dim_of(in, 3, i))) {
      ERROR(in, "the mask is %s, q %s, k %s, v %s: they differ in dimension %d",
            text_of(in, 3).data, text_of(in, 0).data, text_of(in, 1).data,
            text_of(in, 2).data, (int)(rank - i));
      return false;
    }
    refine(size, dim_of(in, 3, i));
  }
  return true;
}

MlirLogicalResult infer_attention(const nablaInference *in, MlirType types[],
                                  intptr_t *count) {
  if (!check_rank(in, 0, "q", 2) || !check_cache(in) || !check_heads(in) ||
      !check_mask(in) || !check_number(in, "scale", true))
    return mlirLogicalResultFailure();
  int64_t width = dim_of(in, 0, 1);
  if (nabla_is_dynamic(width)) width = dim_of(in, 1, 1);
  if (mlirAttributeIsNull(nabla_attribute(in->attributes, "scale")) &&
      nabla_is_dynamic(width))
    return ERROR(in,
                 "scale = NUMBER is needed where the last dimension of q and k "
                 "is not known");
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank = rows_of(in, shape);
  shape[rank - 1] = dim_of(in, 2, 1);
  if (!refine_heads(in, rank, shape)) return mlirLogicalResultFailure();
  return give_shape(in, rank, shape, types, count);
}
