/* Rules for convolutions: products of the windows of the input and the kernel.
 * With a packed kernel the windows, stacked behind the input's features, are
 * the rows of a fused_dot; with a dense one they are rows, or columns where
 * they are many. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Diagnostics.h>

#include "dialect/verify/checks.h"
#include "transforms/dispatch/rules.h"
#include "transforms/dispatch/rules_dense.h"
#include "transforms/fused/fused_spec.h"
#include "transforms/ir/ir.h"

nabla_rule_outcome nabla_apply_conv_packed(MlirOperation op, const char **why);
nabla_rule_outcome nabla_apply_conv_dense(MlirOperation op, const char **why);
nabla_rule_outcome nabla_apply_dot_dense(MlirOperation op, const char **why);
nabla_rule_outcome nabla_apply_dot_packed_rhs(MlirOperation op,
                                              const char **why);

typedef struct convolution {
  MlirOperation op;
  MlirContext context;
  intptr_t rank;
  int64_t in_of[NABLA_MAX_RANK], kernel_of[NABLA_MAX_RANK];
  int64_t out_of[NABLA_MAX_RANK];
  /* of spatial dimension i at i + 2, as in the orders */
  int64_t low[NABLA_MAX_RANK], high[NABLA_MAX_RANK];
  int64_t input_dilation[NABLA_MAX_RANK], strides[NABLA_MAX_RANK];
  int64_t kernel_dilation[NABLA_MAX_RANK];
  int64_t window[NABLA_MAX_RANK], windows[NABLA_MAX_RANK];
  int64_t positions; /* in a window */
  MlirType kernel;   /* as output feature, input feature, position */
} convolution;

static void read_order(const convolution *c, const char *key, int64_t *out) {
  if (nabla_op_integers(c->op, key, out) == 0)
    for (intptr_t i = 0; i < c->rank; i++) out[i] = i;
}

static void read_list(const convolution *c, const char *key, int64_t initial,
                      int64_t out[NABLA_MAX_RANK]) {
  int64_t list[NABLA_MAX_RANK];
  intptr_t given = nabla_op_integers(c->op, key, list);
  for (intptr_t i = 2; i < c->rank; i++) out[i] = given ? list[i - 2] : initial;
}

/* Windows for each output feature up to which they are put together: measured
 * with nf4, 512 x 512 x 3 over 16 places is 6 times as fast as materializing
 * the kernel, 64 x 64 x 3 x 3 over 16384 takes 4 times as long. */
#define MOST_WINDOWS 8

/* More windows than that are more memory, too, than the decoded kernel. */
static const char *windows_objection(const convolution *c) {
  int64_t rows =
      nabla_array_dim(nabla_operand_type(c->op, 0), (intptr_t)c->in_of[0]);
  int64_t outputs = c->windows[1];
  if (c->positions == 1) return NULL;
  if (nabla_is_dynamic(rows)) rows = 1;
  bool over = false;
  for (intptr_t i = 2; i < c->rank; i++)
    over = over || __builtin_mul_overflow(rows, c->windows[i], &rows);
  return over || rows / MOST_WINDOWS > outputs
             ? "it has so many windows that decoding the kernel costs less"
             : NULL;
}

/* Reads the op; NULL, or why it is not taken. */
static const char *read_convolution(convolution *c) {
  MlirType input = nabla_operand_type(c->op, 0);
  MlirType kernel = nabla_operand_type(c->op, 1);
  if (nabla_op_integer(c->op, "groups", 1) != 1) return "groups have no kernel";
  read_order(c, "input_dims", c->in_of);
  read_order(c, "kernel_dims", c->kernel_of);
  read_order(c, "output_dims", c->out_of);
  read_list(c, "low", 0, c->low);
  read_list(c, "high", 0, c->high);
  read_list(c, "strides", 1, c->strides);
  read_list(c, "input_dilation", 1, c->input_dilation);
  read_list(c, "kernel_dilation", 1, c->kernel_dilation);
  c->positions = 1;
  for (intptr_t i = 1; i < c->rank; i++) {
    c->window[i] = nabla_array_dim(kernel, (intptr_t)c->kernel_of[i]);
    c->windows[i] =
        nabla_array_dim(nabla_result_type(c->op, 0), (intptr_t)c->out_of[i]);
    if (nabla_is_dynamic(nabla_array_dim(input, (intptr_t)c->in_of[i])))
      return "a feature or spatial dimension of the input is not known";
    if (i > 1 && (c->windows[i] == 0 || c->window[i] == 0))
      return "it has no windows";
    if (i > 1 &&
        __builtin_mul_overflow(c->positions, c->window[i], &c->positions))
      return "its windows are too large";
  }
  return NULL;
}

static const char *stack_objection(const convolution *c) {
  return c->positions > NABLA_MAX_OPERANDS ? "its windows are too large" : NULL;
}

/* The kernel as a matrix, and as what is contracted; NULL, or why not. */
static const char *read_kernel(convolution *c) {
  MlirType type = nabla_operand_type(c->op, 1);
  nabla_strided from = nabla_implicit_strided(type);
  nabla_strided ordered = {c->rank, {0}, {0}, from.offset}, view;
  for (intptr_t i = 0; i < c->rank; i++) {
    ordered.shape[i] = from.shape[c->kernel_of[i]];
    ordered.strides[i] = from.strides[c->kernel_of[i]];
  }
  MlirType turned = nabla_implicit_with_view(type, &ordered);
  int64_t outputs = ordered.shape[0], features = ordered.shape[1];
  int64_t matrix[2] = {outputs, features * c->positions};
  int64_t parts[3] = {outputs, features, c->positions};
  nabla_fused_spec unused;
  if (!nabla_implicit_reshape(turned, 2, matrix, &view))
    return "no strides join the kernel's dimensions to rows and columns";
  MlirType w = nabla_implicit_with_view(type, &view);
  int64_t rows[2] = {mlirShapedTypeGetDynamicSize(), matrix[1]};
  MlirType x = mlirRankedTensorTypeGet(2, rows, nabla_array_element(type),
                                       mlirAttributeGetNull());
  const char *why =
      nabla_fused_spec_of(nabla_target_of(c->op), x, w, 0, &unused);
  if (why || !nabla_implicit_reshape(turned, 3, parts, &view)) return why;
  c->kernel = nabla_implicit_with_view(type, &view);
  return NULL;
}

static MlirValue emit(const convolution *c, const char *name, intptr_t count,
                      const MlirValue *operands, const MlirType *type,
                      intptr_t attribute_count,
                      const MlirNamedAttribute *attributes) {
  nabla_op_spec spec = {name, count,           operands,  type ? 1 : -1,
                        type, attribute_count, attributes};
  return mlirOperationGetResult(nabla_op_create(c->op, &spec), 0);
}

static MlirNamedAttribute list(const convolution *c, const char *key,
                               intptr_t count, const int64_t *values) {
  return nabla_named(c->context, key,
                     mlirDenseI64ArrayGet(c->context, count, values));
}

/* The input with its padding. */
static MlirValue pad(const convolution *c) {
  int64_t lists[3][NABLA_MAX_RANK] = {{0}};
  bool any = false;
  MlirValue operands[2] = {mlirOperationGetOperand(c->op, 0)};
  for (intptr_t i = 2; i < c->rank; i++) {
    lists[0][c->in_of[i]] = c->low[i];
    lists[1][c->in_of[i]] = c->high[i];
    lists[2][c->in_of[i]] = c->input_dilation[i] - 1;
    any = any || c->low[i] || c->high[i] || c->input_dilation[i] > 1;
  }
  if (!any) return operands[0];
  MlirType element = nabla_array_element(nabla_operand_type(c->op, 0));
  MlirType scalar =
      mlirRankedTensorTypeGet(0, NULL, element, mlirAttributeGetNull());
  MlirAttribute zero = mlirDenseElementsAttrSplatGet(
      scalar, mlirFloatAttrDoubleGet(c->context, element, 0));
  MlirNamedAttribute value = nabla_named(c->context, "value", zero);
  operands[1] = emit(c, "nabla.constant", 0, NULL, NULL, 1, &value);
  MlirNamedAttribute attributes[] = {list(c, "low", c->rank, lists[0]),
                                     list(c, "high", c->rank, lists[1]),
                                     list(c, "interior", c->rank, lists[2])};
  return emit(c, "nabla.pad", 2, operands, NULL, 3, attributes);
}

/* Of every window the element at position `at`, row-major. */
static MlirValue element(const convolution *c, MlirValue padded, int64_t at) {
  int64_t lists[3][NABLA_MAX_RANK];
  for (intptr_t i = 0; i < c->rank; i++)
    lists[0][i] = 0, lists[1][i] = -1, lists[2][i] = 1;
  for (intptr_t i = c->rank; i-- > 2;) {
    int64_t dim = c->in_of[i];
    lists[0][dim] = at % c->window[i] * c->kernel_dilation[i];
    lists[1][dim] = lists[0][dim] + (c->windows[i] - 1) * c->strides[i] + 1;
    lists[2][dim] = c->strides[i];
    at /= c->window[i];
  }
  MlirNamedAttribute attributes[] = {list(c, "starts", c->rank, lists[0]),
                                     list(c, "limits", c->rank, lists[1]),
                                     list(c, "strides", c->rank, lists[2])};
  return emit(c, "nabla.slice", 1, &padded, NULL, 3, attributes);
}

/* The windows: the input with a dimension of positions behind its features. */
static MlirValue stack(const convolution *c) {
  MlirValue elements[NABLA_MAX_OPERANDS], padded = pad(c);
  for (int64_t at = 0; at < c->positions; at++)
    elements[at] = element(c, padded, at);
  MlirNamedAttribute dim = nabla_named(
      c->context, "dim",
      mlirIntegerAttrGet(mlirIntegerTypeGet(c->context, 64), c->in_of[1] + 1));
  return emit(c, "nabla.stack", (intptr_t)c->positions, elements, NULL, 1,
              &dim);
}

/* The product, of which dimensions are the input's without its features, then
 * the output feature, in the order of the result. */
static MlirValue arrange(const convolution *c, MlirValue product) {
  int64_t order[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < c->rank; i++) {
    int64_t at = c->in_of[i] - (c->in_of[i] > c->in_of[1]);
    order[c->out_of[i]] = i == 1 ? c->rank - 1 : at;
  }
  return nabla_value_transpose(c->op, product, c->rank, order);
}

nabla_rule_outcome nabla_apply_conv_packed(MlirOperation op, const char **why) {
  convolution c = {.op = op, .context = nabla_op_context(op)};
  int64_t order[NABLA_MAX_RANK];
  c.rank = nabla_array_rank(nabla_result_type(op, 0));
  *why = "arrays have at most 16 dimensions";
  if (c.rank == NABLA_MAX_RANK) return NABLA_RULE_DECLINED;
  *why = read_convolution(&c);
  if (!*why) *why = stack_objection(&c);
  if (!*why) *why = windows_objection(&c);
  if (!*why) *why = read_kernel(&c);
  if (*why) return NABLA_RULE_DECLINED;
  for (intptr_t i = 0; i < c.rank; i++) order[i] = c.kernel_of[i];
  MlirValue kernel =
      nabla_value_transpose(op, mlirOperationGetOperand(op, 1), c.rank, order);
  MlirValue operands[2] = {
      stack(&c), emit(&c, "nabla.reshape", 1, &kernel, &c.kernel, 0, NULL)};
  int64_t lhs[2] = {c.in_of[1], c.in_of[1] + 1}, rhs[2] = {1, 2};
  MlirNamedAttribute attributes[] = {list(&c, "lhs_contracting", 2, lhs),
                                     list(&c, "rhs_contracting", 2, rhs)};
  MlirValue product =
      emit(&c, "nabla.dot_general", 2, operands, NULL, 2, attributes);
  MlirValue result = arrange(&c, product);
  nabla_op_replace(op, &result);
  if (nabla_apply_dot_packed_rhs(nabla_defining_op(product), why) ==
      NABLA_RULE_APPLIED)
    return NABLA_RULE_APPLIED;
  mlirEmitError(mlirValueGetLocation(product), *why);
  return NABLA_RULE_FAILED;
}

/* ---- dense kernels ------------------------------------------------------- */

/* Windows up to which each is a row of x, which is copied from the input in one
 * piece; more are columns where they are the input itself, else nabla-cluster
 * gives the convolution a kernel. */
#define MOST_ROWS 16
/* Elements of all windows together, which are memory beside the input's. */
#define MOST_STACKED ((int64_t)1 << 24)

/* Whether each element of the input is a window, which needs no copy. */
static bool is_pointwise(const convolution *c) {
  for (intptr_t i = 2; i < c->rank; i++)
    if (c->strides[i] != 1 || c->low[i] || c->high[i] ||
        c->input_dilation[i] != 1)
      return false;
  return c->positions == 1;
}

static bool is_in_order(const convolution *c) {
  for (intptr_t i = 0; i < c->rank; i++)
    if (c->in_of[i] != i || c->kernel_of[i] != i || c->out_of[i] != i)
      return false;
  return true;
}

/* A dense convolution as a product of matrices. */
typedef struct matrices {
  int64_t outputs, depth, windows; /* of w: outputs x depth */
} matrices;

static const char *read_matrices(const convolution *c, matrices *m) {
  MlirType kernel = nabla_operand_type(c->op, 1);
  int64_t all;
  *m = (matrices){.outputs = nabla_array_dim(kernel, 0), .windows = 1};
  if (!is_in_order(c)) return "its dimensions are in another order";
  if (nabla_array_dim(nabla_operand_type(c->op, 0), 0) != 1)
    return "a batch of another size than 1 has no kernel";
  for (intptr_t i = 0; i < c->rank; i++)
    if (nabla_is_dynamic(nabla_array_dim(kernel, i)))
      return "a dimension of the kernel is not known";
  for (intptr_t i = 2; i < c->rank; i++)
    if (__builtin_mul_overflow(m->windows, c->windows[i], &m->windows))
      return "it has too many windows";
  if (__builtin_mul_overflow(c->window[1], c->positions, &m->depth) ||
      __builtin_mul_overflow(m->depth, m->windows, &all) || all > MOST_STACKED)
    return "all windows together are too large";
  if (!nabla_dense_product_pays(nabla_array_element(kernel),
                                (double)all * (double)m->outputs))
    return "the product is small, or not of f32, f16 or bf16";
  return m->windows > MOST_ROWS && !is_pointwise(c)
             ? "its windows are packed by a kernel of convolutions"
             : NULL;
}

static MlirValue reshape(const convolution *c, MlirValue value, intptr_t rank,
                         const int64_t *shape) {
  MlirType type = mlirRankedTensorTypeGet(
      rank, shape, nabla_array_element(mlirValueGetType(value)),
      mlirAttributeGetNull());
  return emit(c, "nabla.reshape", 1, &value, &type, 0, NULL);
}

/* Window `at`, row-major. */
static MlirValue window(const convolution *c, MlirValue padded, int64_t at) {
  int64_t lists[3][NABLA_MAX_RANK];
  for (intptr_t i = 0; i < 2; i++)
    lists[0][i] = 0, lists[1][i] = -1, lists[2][i] = 1;
  lists[1][0] = 1;
  lists[1][1] = c->window[1];
  for (intptr_t i = c->rank; i-- > 2;) {
    lists[0][i] = at % c->windows[i] * c->strides[i];
    lists[1][i] = lists[0][i] + (c->window[i] - 1) * c->kernel_dilation[i] + 1;
    lists[2][i] = c->kernel_dilation[i];
    at /= c->windows[i];
  }
  MlirNamedAttribute attributes[] = {list(c, "starts", c->rank, lists[0]),
                                     list(c, "limits", c->rank, lists[1]),
                                     list(c, "strides", c->rank, lists[2])};
  return emit(c, "nabla.slice", 1, &padded, NULL, 3, attributes);
}

static MlirValue dot(const convolution *c, MlirValue x, MlirValue w,
                     int64_t w_dim) {
  MlirValue operands[2] = {x, w};
  const int64_t one = 1;
  MlirNamedAttribute attributes[] = {list(c, "lhs_contracting", 1, &one),
                                     list(c, "rhs_contracting", 1, &w_dim)};
  return emit(c, "nabla.dot_general", 2, operands, NULL, 2, attributes);
}

/* Few windows: rows of x, and the result's transpose. */
static MlirValue dot_of_rows(const convolution *c, const matrices *m,
                             MlirValue w, MlirOperation *product) {
  MlirValue rows[MOST_ROWS], padded = pad(c);
  const int64_t shape[2] = {1, m->depth}, swapped[2] = {1, 0};
  for (int64_t at = 0; at < m->windows; at++)
    rows[at] = reshape(c, window(c, padded, at), 2, shape);
  MlirNamedAttribute dim =
      nabla_named(c->context, "dim",
                  mlirIntegerAttrGet(mlirIntegerTypeGet(c->context, 64), 0));
  MlirValue x = m->windows == 1
                    ? rows[0]
                    : emit(c, "nabla.concatenate", (intptr_t)m->windows, rows,
                           NULL, 1, &dim);
  MlirValue y = dot(c, x, w, 1);
  *product = nabla_defining_op(y);
  return m->windows == 1 ? y : nabla_value_transpose(c->op, y, 2, swapped);
}

static MlirValue dot_of_columns(const convolution *c, const matrices *m,
                                MlirValue w, MlirOperation *product) {
  const int64_t shape[2] = {m->depth, m->windows};
  MlirValue x = mlirOperationGetOperand(c->op, 0);
  MlirValue y = dot(c, w, reshape(c, x, 2, shape), 0);
  *product = nabla_defining_op(y);
  return y;
}

nabla_rule_outcome nabla_apply_conv_dense(MlirOperation op, const char **why) {
  convolution c = {.op = op, .context = nabla_op_context(op)};
  matrices m;
  int64_t shape[NABLA_MAX_RANK];
  c.rank = nabla_array_rank(nabla_result_type(op, 0));
  *why = "arrays have at most 16 dimensions";
  if (c.rank == NABLA_MAX_RANK) return NABLA_RULE_DECLINED;
  *why = read_convolution(&c);
  if (!*why) *why = read_matrices(&c, &m);
  if (*why) return NABLA_RULE_DECLINED;
  const int64_t matrix[2] = {m.outputs, m.depth};
  MlirOperation product;
  MlirValue w = reshape(&c, mlirOperationGetOperand(op, 1), 2, matrix);
  MlirValue y = m.windows > MOST_ROWS ? dot_of_columns(&c, &m, w, &product)
                                      : dot_of_rows(&c, &m, w, &product);
  for (intptr_t i = 0; i < c.rank; i++)
    shape[i] = nabla_array_dim(nabla_result_type(op, 0), i);
  MlirValue result = reshape(&c, y, c.rank, shape);
  nabla_op_replace(op, &result);
  /* What declines it leaves a product of tensors, which is as right. */
  return nabla_apply_dot_dense(product, why) == NABLA_RULE_FAILED
             ? NABLA_RULE_FAILED
             : NABLA_RULE_APPLIED;
}
