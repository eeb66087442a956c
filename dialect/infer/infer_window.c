/* Result types of convolutions and pools; see infer.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/infer/infer.h"

#define ERROR(in, ...) NABLA_INFER_ERROR(in, __VA_ARGS__)

/* The windows of one dimension. */
typedef struct window {
  int64_t low, high, stride, dilation, input_dilation;
} window;

/* (n - 1) * dilation + 1, or 0 of 0; false when it is too large. */
static bool dilate(int64_t n, int64_t dilation, int64_t *out) {
  *out = 0;
  if (n == 0) return true;
  return !__builtin_mul_overflow(n - 1, dilation, out) &&
         !__builtin_add_overflow(*out, 1, out);
}

static bool is_step(int64_t step) {
  return step >= 1 && step <= NABLA_MAX_DILATION;
}

/* How many windows of `size` there are along a dimension of `n`; -1 after an
 * error. */
static int64_t count_windows(const nablaInference *in, int dim, int64_t n,
                             int64_t size, const window *w) {
  int64_t reach, padded;
  if (!is_step(w->stride) || !is_step(w->dilation) ||
      !is_step(w->input_dilation)) {
    ERROR(in, "strides and dilations lie in 1 to 2^20");
    return -1;
  }
  if (!nabla_infer_padding_fits(w->low) || !nabla_infer_padding_fits(w->high) ||
      size > NABLA_MAX_PADDING) {
    ERROR(in, "low and high lie within +-2^40, windows have at most 2^40");
    return -1;
  }
  if (nabla_is_dynamic(n) || nabla_is_dynamic(size))
    return mlirShapedTypeGetDynamicSize();
  if (!dilate(size, w->dilation, &reach) ||
      !dilate(n, w->input_dilation, &padded) ||
      __builtin_add_overflow(padded, w->low, &padded) ||
      __builtin_add_overflow(padded, w->high, &padded) || padded < 0) {
    ERROR(in, "padded dimension %d becomes negative or too large", dim);
    return -1;
  }
  if (padded == 0 || reach > padded) return 0;
  return (padded - reach) / w->stride + 1;
}

/* Lists of windows; keys that are NULL are not asked for. */
static bool read_windows(const nablaInference *in, intptr_t rank,
                         const char *dilation, const char *input_dilation,
                         window windows[NABLA_MAX_RANK]) {
  int64_t lists[5][NABLA_MAX_RANK];
  const char *keys[5] = {"low", "high", "strides", dilation, input_dilation};
  for (int k = 0; k < 5; k++) {
    for (intptr_t i = 0; i < rank && !keys[k]; i++) lists[k][i] = 1;
    if (keys[k] &&
        !nabla_infer_list(in, keys[k], rank, true, k < 2 ? 0 : 1, lists[k]))
      return false;
  }
  for (intptr_t i = 0; i < rank; i++)
    windows[i] = (window){lists[0][i], lists[1][i], lists[2][i], lists[3][i],
                          lists[4][i]};
  return true;
}

MlirLogicalResult infer_pool(const nablaInference *in, MlirType types[],
                             intptr_t *count) {
  enum { AVG = 3 }; /* of Nabla_PoolKind */
  MlirType type = nabla_infer_operand(in, 0);
  MlirType element = nabla_array_element(type);
  intptr_t rank = nabla_array_rank(type);
  int64_t sizes[NABLA_MAX_RANK], shape[NABLA_MAX_RANK];
  window windows[NABLA_MAX_RANK];
  if (!nabla_infer_list(in, "window", rank, false, 1, sizes) ||
      !read_windows(in, rank, "dilation", NULL, windows))
    return mlirLogicalResultFailure();
  if (nabla_infer_integer(in, "kind") == AVG && !mlirTypeIsAFloat(element))
    return ERROR(in, "avg is of floats");
  for (intptr_t i = 0; i < rank; i++) {
    if (sizes[i] < 1) return ERROR(in, "windows have at least one element");
    shape[i] = count_windows(in, (int)i, nabla_array_dim(type, i), sizes[i],
                             &windows[i]);
    if (shape[i] == -1) return mlirLogicalResultFailure();
  }
  return nabla_infer_give(nabla_infer_tensor(rank, shape, element), types,
                          count);
}

/* The dimensions of a list that is a permutation; the identity if empty. */
static bool read_order(const nablaInference *in, const char *key, intptr_t rank,
                       int64_t out[NABLA_MAX_RANK]) {
  intptr_t count = nabla_integers(in->attributes, key, out);
  if (count == 0)
    for (count = 0; count < rank; count++) out[count] = count;
  if (count == rank && nabla_dims_valid(rank, out, rank)) return true;
  ERROR(in, "%s must name each of the %d dimensions once", key, (int)rank);
  return false;
}

static bool check_features(const nablaInference *in, int64_t input,
                           int64_t kernel, int64_t output) {
  bool given = !mlirAttributeIsNull(nabla_attribute(in->attributes, "groups"));
  int64_t groups = given ? nabla_infer_integer(in, "groups") : 1, needed;
  if (groups < 1) {
    ERROR(in, "groups is positive");
    return false;
  }
  if (!nabla_is_dynamic(output) && output % groups != 0) {
    ERROR(in, "%lld groups do not divide %lld output features",
          (long long)groups, (long long)output);
    return false;
  }
  if (nabla_is_dynamic(input) || nabla_is_dynamic(kernel) ||
      (!__builtin_mul_overflow(kernel, groups, &needed) && input == needed))
    return true;
  ERROR(in,
        "the input has %lld features, not %lld in each of %lld groups as the "
        "kernel",
        (long long)input, (long long)kernel, (long long)groups);
  return false;
}

MlirLogicalResult infer_conv_general(const nablaInference *in, MlirType types[],
                                     intptr_t *count) {
  MlirType input = nabla_infer_operand(in, 0);
  MlirType kernel = nabla_infer_operand(in, 1);
  intptr_t rank = nabla_array_rank(input);
  int64_t of[NABLA_MAX_RANK], kernel_of[NABLA_MAX_RANK];
  int64_t out_of[NABLA_MAX_RANK], shape[NABLA_MAX_RANK];
  window windows[NABLA_MAX_RANK];
  if (rank < 2 || nabla_array_rank(kernel) != rank)
    return ERROR(in,
                 "input and kernel have one rank of 2 or more, not %d and %d",
                 (int)rank, (int)nabla_array_rank(kernel));
  if (!mlirTypeEqual(nabla_array_element(input), nabla_array_element(kernel)))
    return ERROR(in, "operands have the same element type");
  if (!read_order(in, "input_dims", rank, of) ||
      !read_order(in, "kernel_dims", rank, kernel_of) ||
      !read_order(in, "output_dims", rank, out_of) ||
      !read_windows(in, rank - 2, "kernel_dilation", "input_dilation",
                    windows) ||
      !check_features(in, nabla_array_dim(input, (intptr_t)of[1]),
                      nabla_array_dim(kernel, (intptr_t)kernel_of[1]),
                      nabla_array_dim(kernel, (intptr_t)kernel_of[0])))
    return mlirLogicalResultFailure();
  shape[out_of[0]] = nabla_array_dim(input, (intptr_t)of[0]);
  shape[out_of[1]] = nabla_array_dim(kernel, (intptr_t)kernel_of[0]);
  for (intptr_t i = 2; i < rank; i++) {
    int64_t windows_of = count_windows(
        in, (int)of[i], nabla_array_dim(input, (intptr_t)of[i]),
        nabla_array_dim(kernel, (intptr_t)kernel_of[i]), &windows[i - 2]);
    if (windows_of == -1) return mlirLogicalResultFailure();
    shape[out_of[i]] = windows_of;
  }
  return nabla_infer_give(
      nabla_infer_tensor(rank, shape, nabla_array_element(input)), types,
      count);
}
