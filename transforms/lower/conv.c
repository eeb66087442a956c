/* Lowering of convolutions. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "transforms/lower/list.h"
#include "transforms/lower/window.h"

typedef struct convolution {
  intptr_t rank;
  int64_t groups;
  /* batch, feature (of a kernel: output, input feature), spatial ones */
  int64_t in_of[NABLA_MAX_RANK], kernel_of[NABLA_MAX_RANK];
  int64_t out_of[NABLA_MAX_RANK];
  nabla_windows w;                  /* by dimension of the input */
  intptr_t loop_of[NABLA_MAX_RANK]; /* of each dimension of the result */
  nabla_ssa features, group; /* kernel's input features; outputs in a group */
} convolution;

static void read_order(nabla_template *t, const char *key, intptr_t rank,
                       int64_t *out) {
  if (nabla_op_integers(t->op, key, out) == 0)
    for (intptr_t i = 0; i < rank; i++) out[i] = i;
}

static void read_convolution(nabla_template *t, convolution *c) {
  int64_t lists[5][NABLA_MAX_RANK];
  static const char *const keys[5] = {"low", "high", "input_dilation",
                                      "strides", "kernel_dilation"};
  c->groups = nabla_op_integer(t->op, "groups", 1);
  read_order(t, "input_dims", c->rank, c->in_of);
  read_order(t, "kernel_dims", c->rank, c->kernel_of);
  read_order(t, "output_dims", c->rank, c->out_of);
  for (int k = 0; k < 5; k++)
    nabla_windows_list(t, keys[k], c->rank - 2, k < 2 ? 0 : 1, lists[k]);
  for (intptr_t i = 2; i < c->rank; i++) {
    int64_t dim = c->in_of[i];
    c->w.padding.low[dim] = lists[0][i - 2];
    c->w.padding.high[dim] = lists[1][i - 2];
    c->w.padding.interior[dim] = lists[2][i - 2] - 1;
    c->w.stride[dim] = lists[3][i - 2];
    c->w.dilation[dim] = lists[4][i - 2];
  }
}

/* Features that fit, where they are not known before. */
static void check_features(nabla_template *t, convolution *c,
                           nabla_ssa_tensor *in, nabla_ssa_tensor *kernel) {
  intptr_t feature = (intptr_t)c->in_of[1];
  intptr_t of = (intptr_t)c->kernel_of[0], from = (intptr_t)c->kernel_of[1];
  nabla_ssa groups = nabla_emit_index(t, c->groups);
  nabla_ssa outputs = nabla_ssa_tensor_size(t, kernel, of);
  c->features = nabla_ssa_tensor_size(t, kernel, from);
  c->group = nabla_emit_index_op(t, "divui", outputs, groups);
  if (nabla_is_dynamic(in->dims[feature]) ||
      nabla_is_dynamic(kernel->dims[from]))
    nabla_template_require(t, nabla_ssa_tensor_size(t, in, feature),
                           nabla_emit_index_op(t, "muli", c->features, groups));
  if (nabla_is_dynamic(kernel->dims[of]) && c->groups > 1)
    nabla_template_require(t, nabla_emit_index_op(t, "muli", c->group, groups),
                           outputs);
}

static void find_sizes(nabla_template *t, const convolution *c,
                       nabla_ssa_tensor *padded, nabla_ssa_tensor *kernel,
                       nabla_ssa_tensor *shape) {
  shape->sizes[c->out_of[0]] =
      nabla_ssa_tensor_size(t, padded, (intptr_t)c->in_of[0]);
  shape->sizes[c->out_of[1]] =
      nabla_ssa_tensor_size(t, kernel, (intptr_t)c->kernel_of[0]);
  for (intptr_t i = 2; i < c->rank; i++) {
    intptr_t dim = (intptr_t)c->in_of[i];
    if (nabla_is_dynamic(shape->dims[c->out_of[i]]))
      shape->sizes[c->out_of[i]] = nabla_windows_count(
          t, padded, dim,
          nabla_ssa_tensor_size(t, kernel, (intptr_t)c->kernel_of[i]),
          c->w.stride[dim], c->w.dilation[dim]);
  }
}

/* The loop of a dimension of the kernel, but its output feature. */
static intptr_t kernel_loop(const convolution *c, intptr_t i) {
  return c->rank - 1 + i - 1;
}

/* In the body: the element of the input. */
static nabla_ssa input_element(nabla_template *t, const convolution *c,
                               const nabla_ssa_tensor *padded) {
  nabla_ssa at[NABLA_MAX_RANK];
  at[c->in_of[0]] = nabla_generic_index(t, c->loop_of[c->out_of[0]]);
  at[c->in_of[1]] = nabla_generic_index(t, kernel_loop(c, 1));
  if (c->groups > 1) {
    nabla_ssa group = nabla_emit_index_op(
        t, "divui", nabla_generic_index(t, c->loop_of[c->out_of[1]]), c->group);
    group = nabla_emit_index_op(t, "muli", group, c->features);
    at[c->in_of[1]] = nabla_emit_index_op(t, "addi", at[c->in_of[1]], group);
  }
  for (intptr_t i = 2; i < c->rank; i++) {
    int64_t dim = c->in_of[i];
    at[dim] = nabla_windows_place(t, c->loop_of[c->out_of[i]], c->w.stride[dim],
                                  kernel_loop(c, i), c->w.dilation[dim]);
  }
  return nabla_element_load(t, padded->element,
                            nabla_emit_extract(t, padded, at));
}

bool nabla_lower_conv_general(nabla_template *t) {
  convolution c = {.rank = nabla_array_rank(nabla_operand_type(t->op, 0))};
  intptr_t map[NABLA_MAX_RANK];
  read_convolution(t, &c);
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor kernel = nabla_template_operand(t, 1);
  nabla_ssa_tensor shape = nabla_template_result(t);
  const char *work = in.element->work;
  check_features(t, &c, &in, &kernel);
  nabla_ssa_tensor padded = nabla_windows_pad(t, &in, &c.w, "0.0");
  find_sizes(t, &c, &padded, &kernel, &shape);
  nabla_ssa_tensor sum = nabla_ssa_tensor_full(t, &shape, work, "0.0");
  nabla_generic g = {0};
  nabla_windows_loops(c.rank, c.rank - 1, &g, c.loop_of);
  map[c.kernel_of[0]] = c.loop_of[c.out_of[1]];
  for (intptr_t i = 1; i < c.rank; i++)
    map[c.kernel_of[i]] = kernel_loop(&c, i);
  nabla_generic_add(&g, &kernel, map);
  nabla_generic_add(&g, &sum, c.loop_of);
  nabla_generic_begin(t, &g);
  nabla_ssa x = input_element(t, &c, &padded);
  nabla_ssa product = k_op(&t->emit, "arith.mulf %%v%u, %%v%u : %s", x,
                           nabla_generic_load(t, &g, 0), work);
  nabla_ssa next = k_op(&t->emit, "arith.addf %%v%u, %%v%u : %s",
                        g.operands[1].element, product, work);
  sum = nabla_generic_end(t, &g, next);
  return nabla_template_close(
      t, nabla_ssa_tensor_convert(t, &sum, in.element).value);
}
