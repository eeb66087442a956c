/* Transposes of conv_general: both are convolutions again. In them arrays are
 * in the default order of dimensions: batch, features, spatial ones; kernels:
 * output features, input features, spatial ones. */
#include "dialect/verify/checks.h"
#include "transforms/autodiff/rules.h"

typedef struct conv {
  const nabla_builder *b;
  MlirOperation op;
  intptr_t rank, spatial;
  int64_t groups;
  int64_t dims[3][NABLA_MAX_RANK]; /* of input, kernel, output */
  /* of the spatial dimensions */
  int64_t stride[NABLA_MAX_RANK], low[NABLA_MAX_RANK];
  int64_t in_dilation[NABLA_MAX_RANK], kernel_dilation[NABLA_MAX_RANK];
  int64_t in[NABLA_MAX_RANK], kernel[NABLA_MAX_RANK], out[NABLA_MAX_RANK];
} conv;

static void read_list(MlirOperation op, const char *key, intptr_t count,
                      int64_t first, int64_t step, int64_t *out) {
  if (nabla_op_integers(op, key, out)) return;
  for (intptr_t i = 0; i < count; i++) out[i] = first + step * i;
}

static bool read_sizes(conv *c, MlirOperation op) {
  MlirType types[3] = {nabla_operand_type(op, 0), nabla_operand_type(op, 1),
                       nabla_result_type(op, 0)};
  int64_t *sizes[3] = {c->in, c->kernel, c->out};
  for (intptr_t i = 0; i < c->spatial; i++)
    for (int j = 0; j < 3; j++) {
      const intptr_t dim = (intptr_t)c->dims[j][i + 2];
      sizes[j][i] = nabla_array_dim(types[j], dim);
      if (!nabla_is_dynamic(sizes[j][i])) continue;
      nabla_error_at(op,
                     "has no derivative: the size of its spatial dimension "
                     "%d has to be known",
                     (int)i);
      return false;
    }
  return true;
}

static bool read_conv(const nabla_builder *b, MlirOperation op, conv *out) {
  static const char *const keys[] = {"input_dims", "kernel_dims",
                                     "output_dims"};
  *out = (conv){.b = b,
                .op = op,
                .rank = nabla_array_rank(nabla_operand_type(op, 0)),
                .groups = nabla_op_integer(op, "groups", 1)};
  out->spatial = out->rank - 2;
  for (int i = 0; i < 3; i++)
    read_list(op, keys[i], out->rank, 0, 1, out->dims[i]);
  read_list(op, "strides", out->spatial, 1, 0, out->stride);
  read_list(op, "low", out->spatial, 0, 0, out->low);
  read_list(op, "input_dilation", out->spatial, 1, 0, out->in_dilation);
  read_list(op, "kernel_dilation", out->spatial, 1, 0, out->kernel_dilation);
  return read_sizes(out, op);
}

/* An array in the default order. */
static MlirValue ordered(const conv *c, int which, MlirValue x) {
  return nabla_build_transpose(c->b, x, c->dims[which]);
}

/* The same back: what a rule gives. */
static MlirValue restored(const conv *c, int which, MlirValue x) {
  int64_t inverse[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < c->rank; i++) inverse[c->dims[which][i]] = i;
  return nabla_build_transpose(c->b, x, inverse);
}

/* An array whose dimension `from` is divided by groups, which become the part
 * of dimension `to` that varies slowest: as many features in the groups of
 * another dimension. */
static MlirValue regroup(const conv *c, MlirValue x, intptr_t from,
                         intptr_t to) {
  int64_t order[NABLA_MAX_RANK + 1];
  if (c->groups == 1 || mlirValueIsNull(x)) return x;
  const nabla_built_shape shape = nabla_build_shape_of(c->b, x);
  nabla_built_shape split = {0}, joined = shape;
  for (intptr_t i = 0; i < shape.rank; i++) {
    if (i == from) nabla_build_shape_add_size(&split, c->groups);
    if (i == from && nabla_is_dynamic(shape.dims[i]))
      nabla_build_shape_add_value(
          &split, nabla_build_arith(c->b, "divui", shape.sizes[i],
                                    nabla_build_index(c->b, c->groups)));
    else if (i == from)
      nabla_build_shape_add_size(&split, shape.dims[i] / c->groups);
    else
      nabla_build_shape_add(&split, &shape, i);
  }
  intptr_t at = 0;
  for (intptr_t i = 0; i < shape.rank; i++) {
    if (i == to) order[at++] = from;
    order[at++] = i < from ? i : i + 1;
  }
  joined.dims[from] = split.dims[from + 1];
  joined.sizes[from] = split.sizes[from + 1];
  if (nabla_is_dynamic(shape.dims[to]))
    joined.sizes[to] = nabla_build_arith(c->b, "muli", shape.sizes[to],
                                         nabla_build_index(c->b, c->groups));
  else
    joined.dims[to] *= c->groups;
  x = nabla_build_reshape(c->b, x, &split);
  x = nabla_build_transpose(c->b, x, order);
  return nabla_build_reshape(c->b, x, &joined);
}

static int64_t spread(int64_t count, int64_t step) {
  return count ? (count - 1) * step + 1 : 0;
}

/* The cotangent, with gaps for strides, convolved with the kernel reversed. */
static MlirValue pull_input(const conv *c, MlirValue cotangent) {
  int64_t low[NABLA_MAX_RANK], high[NABLA_MAX_RANK], dims[NABLA_MAX_RANK];
  int64_t swap[NABLA_MAX_RANK];
  MlirValue kernel = ordered(c, 1, nabla_diff_operand(c->op, 1));
  for (intptr_t i = 0; i < c->spatial; i++) {
    const int64_t reach = (c->kernel[i] - 1) * c->kernel_dilation[i];
    dims[i] = swap[i + 2] = i + 2;
    low[i] = reach - c->low[i];
    high[i] = spread(c->in[i], c->in_dilation[i]) + reach -
              spread(c->out[i], c->stride[i]) - low[i];
  }
  swap[0] = 1;
  swap[1] = 0;
  kernel = nabla_build_transpose(c->b, regroup(c, kernel, 0, 1), swap);
  kernel =
      nabla_build_flip(c->b, nabla_build_dense(c->b, kernel), c->spatial, dims);
  const nabla_built_conv how = {
      .windows = {c->spatial, c->in_dilation, c->kernel_dilation, low, high},
      .input_dilation = c->stride,
      .groups = c->groups};
  return nabla_build_conv(c->b, ordered(c, 2, cotangent), kernel, &how);
}

/* The input convolved with the cotangent as the kernel: batches take the place
 * of input features. */
static MlirValue pull_kernel(const conv *c, MlirValue cotangent) {
  int64_t high[NABLA_MAX_RANK], swap[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < c->spatial; i++) {
    swap[i + 2] = i + 2;
    high[i] = spread(c->kernel[i], c->kernel_dilation[i]) - 1 +
              spread(c->out[i], c->stride[i]) -
              spread(c->in[i], c->in_dilation[i]) - c->low[i];
  }
  swap[0] = 1;
  swap[1] = 0;
  MlirValue x = regroup(c, ordered(c, 0, nabla_diff_operand(c->op, 0)), 1, 0);
  x = nabla_build_transpose(c->b, x, swap);
  MlirValue by = nabla_build_transpose(c->b, ordered(c, 2, cotangent), swap);
  const nabla_built_conv how = {
      .windows = {c->spatial, c->kernel_dilation, c->stride, c->low, high},
      .input_dilation = c->in_dilation,
      .groups = c->groups};
  return nabla_build_transpose(c->b, nabla_build_conv(c->b, x, by, &how), swap);
}

/* Without elements there is nothing to sum. */
static bool is_empty(const conv *c) {
  for (intptr_t i = 0; i < c->spatial; i++)
    if (!c->in[i] || !c->kernel[i] || !c->out[i]) return true;
  return false;
}

bool nabla_vjp_conv_general(const nabla_pullback *p) {
  conv c;
  if (!read_conv(&p->b, p->op, &c)) return false;
  for (int i = 0; i < 2; i++) {
    if (!p->wanted[i]) continue;
    MlirValue x = nabla_diff_operand(p->op, i), pulled;
    if (is_empty(&c))
      pulled =
          nabla_build_zeros(&p->b, x, nabla_array_element(mlirValueGetType(x)));
    else
      pulled = restored(&c, i,
                        i ? pull_kernel(&c, p->cotangents[0])
                          : pull_input(&c, p->cotangents[0]));
    p->out[i] = nabla_diff_narrow(&p->b, pulled, x);
    if (mlirValueIsNull(p->out[i])) return false;
  }
  return true;
}
