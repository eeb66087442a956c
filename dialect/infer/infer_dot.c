/* Result types of dot_general and fused_dot. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/infer/infer.h"

#define ERROR(in, ...) NABLA_INFER_ERROR(in, __VA_ARGS__)

/* The four lists of a dot_general. */
typedef struct contraction {
  intptr_t batch, contracting;
  int64_t lhs_batch[NABLA_MAX_RANK], rhs_batch[NABLA_MAX_RANK];
  int64_t lhs[NABLA_MAX_RANK], rhs[NABLA_MAX_RANK];
} contraction;

static bool distinct(intptr_t a_count, const int64_t *a, intptr_t b_count,
                     const int64_t *b, intptr_t rank) {
  if (!nabla_dims_valid(a_count, a, rank) ||
      !nabla_dims_valid(b_count, b, rank))
    return false;
  for (intptr_t i = 0; i < a_count; i++)
    if (nabla_infer_contains(b_count, b, a[i])) return false;
  return true;
}

static bool read_contraction(const nablaInference *in, contraction *c) {
  MlirType lhs = nabla_infer_operand(in, 0), rhs = nabla_infer_operand(in, 1);
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
    int64_t a = nabla_array_dim(nabla_infer_operand(in, 0), (intptr_t)lhs[i]);
    int64_t b = nabla_array_dim(nabla_infer_operand(in, 1), (intptr_t)rhs[i]);
    if (nabla_dims_compatible(a, b)) continue;
    ERROR(in,
          "%s dimensions disagree: %lld (dimension %d of lhs) and %lld "
          "(dimension %d of rhs)",
          what, (long long)a, (int)lhs[i], (long long)b, (int)rhs[i]);
    return false;
  }
  return true;
}

static bool agree(const nablaInference *in, const contraction *c) {
  return pairs_agree(in, "batching", c->batch, c->lhs_batch, c->rhs_batch) &&
         pairs_agree(in, "contracting", c->contracting, c->lhs, c->rhs);
}

static bool same_elements(const nablaInference *in) {
  bool same = mlirTypeEqual(nabla_array_element(nabla_infer_operand(in, 0)),
                            nabla_array_element(nabla_infer_operand(in, 1)));
  if (!same) ERROR(in, "operands have the same element type");
  return same;
}

/* Batching dimensions, then the free ones of lhs, then those of rhs; null, with
 * an error, where they are too many. */
static MlirType result_of(const nablaInference *in, const contraction *c) {
  MlirType lhs = nabla_infer_operand(in, 0), rhs = nabla_infer_operand(in, 1);
  int64_t shape[3 * NABLA_MAX_RANK];
  intptr_t rank = 0;
  for (intptr_t i = 0; i < c->batch; i++) {
    int64_t a = nabla_array_dim(lhs, (intptr_t)c->lhs_batch[i]);
    shape[rank++] = nabla_is_dynamic(a)
                        ? nabla_array_dim(rhs, (intptr_t)c->rhs_batch[i])
                        : a;
  }
  for (intptr_t i = 0; i < nabla_array_rank(lhs); i++)
    if (!nabla_infer_contains(c->batch, c->lhs_batch, i) &&
        !nabla_infer_contains(c->contracting, c->lhs, i))
      shape[rank++] = nabla_array_dim(lhs, i);
  for (intptr_t i = 0; i < nabla_array_rank(rhs); i++)
    if (!nabla_infer_contains(c->batch, c->rhs_batch, i) &&
        !nabla_infer_contains(c->contracting, c->rhs, i))
      shape[rank++] = nabla_array_dim(rhs, i);
  if (rank <= NABLA_MAX_RANK)
    return nabla_infer_tensor(rank, shape, nabla_array_element(lhs));
  ERROR(in, "the result has more than %d dimensions", NABLA_MAX_RANK);
  return (MlirType){NULL};
}

MlirLogicalResult infer_dot_general(const nablaInference *in, MlirType types[],
                                    intptr_t *count) {
  contraction c;
  if (!read_contraction(in, &c) || !agree(in, &c) || !same_elements(in))
    return mlirLogicalResultFailure();
  MlirType result = result_of(in, &c);
  if (mlirTypeIsNull(result)) return mlirLogicalResultFailure();
  return nabla_infer_give(result, types, count);
}

/* The operand of an epilogue step: its shape is that of the result, or of a row
 * of it. */
static bool check_operand(const nablaInference *in, MlirStringRef name,
                          MlirType type, bool bias, MlirType result) {
  intptr_t rank = nabla_array_rank(result), first = bias ? rank - 1 : 0;
  bool good =
      mlirTypeEqual(nabla_array_element(type), nabla_array_element(result)) &&
      nabla_array_rank(type) == rank - first;
  for (intptr_t i = first; good && i < rank; i++)
    good = nabla_dims_compatible(nabla_array_dim(type, i - first),
                                 nabla_array_dim(result, i));
  if (!good)
    ERROR(in, "operand of epilogue step '%.*s' must be %s of the result %s",
          (int)name.length, name.data,
          bias ? "a vector of the columns" : "of the shape",
          nabla_infer_text(result).data);
  return good;
}

/* One step of an epilogue; `*at` counts the operands that steps have taken. */
static bool check_step(const nablaInference *in, MlirAttribute step,
                       MlirType result, intptr_t *at) {
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
  return check_operand(in, name, nabla_infer_operand(in, (*at)++), bias,
                       result);
}

static bool check_epilogue(const nablaInference *in, MlirType result) {
  MlirAttribute steps = nabla_attribute(in->attributes, "epilogue");
  intptr_t count =
      mlirAttributeIsNull(steps) ? 0 : mlirArrayAttrGetNumElements(steps);
  if (count > 8) {
    ERROR(in, "an epilogue has at most 8 steps");
    return false;
  }
  intptr_t at = 2;
  for (intptr_t i = 0; i < count; i++)
    if (!check_step(in, mlirArrayAttrGetElement(steps, i), result, &at))
      return false;
  if (at != in->operandCount)
    ERROR(in, "epilogue takes %d operands, not %d", (int)at - 2,
          (int)in->operandCount - 2);
  return at == in->operandCount;
}

/* The contraction of a fused_dot: contracting = [1] x [1] where it says
 * nothing. One free and one contracting dimension on either side; of a packed w
 * no other form. */
static bool read_fused(const nablaInference *in, contraction *c) {
  MlirType x = nabla_infer_operand(in, 0), w = nabla_infer_operand(in, 1);
  bool packed = nablaTypeIsAImplicit(w);
  if (packed) {
    nabla_encoding_kind kind = nabla_implicit_encoding(w).kind;
    if (kind != NABLA_KIND_PACKED && kind != NABLA_KIND_GGML) {
      ERROR(in, "w is a tensor or packed");
      return false;
    }
  }
  bool is_plain = !nabla_integers(in->attributes, "lhs_contracting", c->lhs) &&
                  !nabla_integers(in->attributes, "rhs_contracting", c->rhs) &&
                  !nabla_integers(in->attributes, "lhs_batching", c->lhs) &&
                  !nabla_integers(in->attributes, "rhs_batching", c->rhs);
  if (!is_plain && packed) {
    ERROR(in, "with a packed w the last dimensions are contracted");
    return false;
  }
  if (is_plain && (nabla_array_rank(x) != 2 || nabla_array_rank(w) != 2)) {
    ERROR(in, "x and w are of rank 2, not %s and %s", nabla_infer_text(x).data,
          nabla_infer_text(w).data);
    return false;
  }
  if (is_plain) {
    *c = (contraction){.contracting = 1, .lhs = {1}, .rhs = {1}};
    return true;
  }
  if (!read_contraction(in, c)) return false;
  if (c->contracting == 1 && nabla_array_rank(x) == c->batch + 2 &&
      nabla_array_rank(w) == c->batch + 2)
    return true;
  ERROR(in,
        "x and w have one contracting and one free dimension besides those of "
        "the batch, not %s and %s",
        nabla_infer_text(x).data, nabla_infer_text(w).data);
  return false;
}

MlirLogicalResult infer_fused_dot(const nablaInference *in, MlirType types[],
                                  intptr_t *count) {
  contraction c = {0};
  if (!read_fused(in, &c) || !agree(in, &c)) return mlirLogicalResultFailure();
  MlirType result = result_of(in, &c);
  if (mlirTypeIsNull(result) || !check_epilogue(in, result))
    return mlirLogicalResultFailure();
  return nabla_infer_give(result, types, count);
}
