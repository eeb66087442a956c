/* See fused_dense.h. */
#include "transforms/fused/fused_dense.h"

#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/ir/ir.h"

/* The dimension of `rank` that is neither contracted nor a batch. */
static int64_t free_of(intptr_t rank, int64_t contracted, intptr_t batches,
                       const int64_t *batch) {
  for (int64_t d = 0; d < rank; d++) {
    bool taken = d == contracted;
    for (intptr_t i = 0; i < batches; i++) taken |= batch[i] == d;
    if (!taken) return d;
  }
  return 0;
}

nabla_fused_dims nabla_fused_dims_of(MlirOperation fused) {
  nabla_fused_dims d = {.x_contracted = 1, .w_contracted = 1};
  int64_t list[NABLA_MAX_RANK];
  d.batches = nabla_op_integers(fused, "lhs_batching", d.x_batch);
  nabla_op_integers(fused, "rhs_batching", d.w_batch);
  if (nabla_op_integers(fused, "lhs_contracting", list))
    d.x_contracted = list[0];
  if (nabla_op_integers(fused, "rhs_contracting", list))
    d.w_contracted = list[0];
  d.x_free = free_of(d.batches + 2, d.x_contracted, d.batches, d.x_batch);
  d.w_free = free_of(d.batches + 2, d.w_contracted, d.batches, d.w_batch);
  return d;
}

/* Elements between neighbours along `dim` of a dense array; 0 where that is not
 * known, or overflows. */
static uint64_t stride_of(MlirType type, int64_t dim) {
  uint64_t stride = 1;
  for (intptr_t i = (intptr_t)dim + 1; i < nabla_array_rank(type); i++) {
    int64_t size = nabla_array_dim(type, i);
    if (nabla_is_dynamic(size) ||
        __builtin_mul_overflow(stride, (uint64_t)size, &stride))
      return 0;
  }
  return stride;
}

/* A size, or 0 and the bit of what is open. */
static uint64_t size_or_open(int64_t size, uint32_t bit,
                             nabla_fused_spec *out) {
  if (!nabla_is_dynamic(size)) return (uint64_t)size;
  out->open |= bit;
  return 0;
}

/* Dimensions from `dim` on whose sizes are all known. */
static bool is_known_from(MlirType type, int64_t dim) {
  for (intptr_t i = (intptr_t)dim; i < nabla_array_rank(type); i++)
    if (nabla_is_dynamic(nabla_array_dim(type, i))) return false;
  return true;
}

/* N, K and the strides of the weight. Its storage ends with the last element of
 * one product, wherever in the array that begins. */
static const char *read_weight(MlirType x, MlirType w,
                               const nabla_fused_dims *dims,
                               nabla_fused_spec *out) {
  int64_t n = nabla_array_dim(w, (intptr_t)dims->w_free);
  int64_t k = nabla_array_dim(w, (intptr_t)dims->w_contracted);
  const int64_t outer =
      dims->w_free < dims->w_contracted ? dims->w_free : dims->w_contracted;
  if (nabla_is_dynamic(k)) k = nabla_array_dim(x, (intptr_t)dims->x_contracted);
  if (n == 0 || k == 0) return "the weight has no elements";
  out->n = size_or_open(n, NABLA_OPEN_N, out);
  out->k = size_or_open(k, NABLA_OPEN_K, out);
  if (!is_known_from(w, outer + 1)) out->open |= NABLA_OPEN_STRIDE;
  out->stride_n = stride_of(w, dims->w_free);
  out->stride_k = stride_of(w, dims->w_contracted);
  if (out->open)
    return out->stride_n == 1 || out->stride_k == 1
               ? NULL
               : "a weight of a size that is not known is consecutive along "
                 "neither dimension";
  if (!out->stride_n || !out->stride_k) return "a stride of the weight is 0";
  uint64_t rows, columns;
  if (__builtin_mul_overflow(out->n - 1, out->stride_n, &rows) ||
      __builtin_mul_overflow(out->k - 1, out->stride_k, &columns) ||
      __builtin_add_overflow(rows, columns + 1, &out->storage_elements))
    return "the weight has too many elements";
  return NULL;
}

static const char *read_x(MlirType x, const nabla_fused_dims *dims,
                          nabla_fused_spec *out) {
  int64_t last = nabla_array_rank(x) - 1;
  int64_t m = nabla_array_dim(x, (intptr_t)dims->x_free);
  if (!nabla_is_dynamic(m)) out->m_min = out->m_max = (uint64_t)m;
  if (dims->x_contracted == last)
    out->x_layout = dims->x_free == last - 1 ? NABLA_X_ROWS : NABLA_X_STRIDED;
  else if (dims->x_free == last && dims->x_contracted == last - 1)
    out->x_layout = NABLA_X_COLUMNS;
  else
    return "x is consecutive along neither of its dimensions";
  return NULL;
}

const char *nabla_fused_dense_spec(const nabla_target *target, MlirType x,
                                   MlirType w, const nabla_fused_dims *dims,
                                   nabla_features features,
                                   nabla_fused_spec *out) {
  *out = (nabla_fused_spec){.features = features};
  if (!nabla_fused_dtype(nabla_array_element(x), &out->x_type) ||
      !nabla_fused_dtype(nabla_array_element(w), &out->w_stored))
    return "kernels compute in f32, f16 and bf16";
  out->w_type = out->w_stored;
  out->y_type = out->x_type;
  const char *why = read_weight(x, w, dims, out);
  if (!why) why = read_x(x, dims, out);
  return why ? why : target->objection(out);
}

nabla_numerics nabla_fused_dense_numerics(const nabla_fused_spec *spec) {
  bool both =
      spec->x_type == NABLA_DTYPE_BF16 && spec->w_stored == NABLA_DTYPE_BF16;
  return both ? NABLA_NUMERICS_BF16 : NABLA_NUMERICS_F32;
}

const char *nabla_fused_spec_of_op(const nabla_target *target,
                                   MlirOperation fused, nabla_features features,
                                   nabla_fused_spec *out) {
  MlirType x = nabla_operand_type(fused, 0), w = nabla_operand_type(fused, 1);
  if (nablaTypeIsAImplicit(w))
    return nabla_fused_spec_of(target, x, w, features, out);
  nabla_fused_dims dims = nabla_fused_dims_of(fused);
  return nabla_fused_dense_spec(target, x, w, &dims, features, out);
}
