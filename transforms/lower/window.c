/* Windows of tensors; see window.h. */
#include "transforms/lower/window.h"

#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"

void nabla_windows_list(nabla_template *t, const char *key, intptr_t count,
                        int64_t initial, int64_t *out) {
  if (nabla_op_integers(t->op, key, out) == 0)
    for (intptr_t i = 0; i < count; i++) out[i] = initial;
}

static bool is_padded(const nabla_windows *w, intptr_t rank) {
  bool any = false;
  for (intptr_t i = 0; i < rank; i++)
    any = any || w->padding.low[i] || w->padding.high[i] ||
          w->padding.interior[i];
  return any;
}

/* The shape of the padded input. */
static nabla_ssa_tensor padded_shape(const nabla_ssa_tensor *in,
                                     const nabla_windows *w) {
  nabla_ssa_tensor shape = *in;
  shape.value = 0;
  for (intptr_t i = 0; i < in->rank; i++) {
    if (nabla_is_dynamic(shape.dims[i])) continue;
    int64_t gaps = shape.dims[i] > 0 ? shape.dims[i] - 1 : 0;
    shape.dims[i] +=
        gaps * w->padding.interior[i] + w->padding.low[i] + w->padding.high[i];
    shape.sizes[i] = 0;
  }
  return shape;
}

nabla_ssa_tensor nabla_windows_pad(nabla_template *t, nabla_ssa_tensor *in,
                                   const nabla_windows *w, const char *fill) {
  if (!is_padded(w, in->rank)) return *in;
  nabla_ssa_tensor scalar = {.element = in->element},
                   shape = padded_shape(in, w);
  nabla_ssa_tensor value =
      nabla_ssa_tensor_full(t, &scalar, in->element->work, fill);
  value = nabla_ssa_tensor_convert(t, &value, in->element);
  return nabla_ssa_tensor_pad(t, in, &value, &w->padding, &shape);
}

nabla_ssa nabla_windows_count(nabla_template *t, nabla_ssa_tensor *in,
                              intptr_t dim, nabla_ssa size, int64_t stride,
                              int64_t dilation) {
  nabla_ssa whole = nabla_ssa_tensor_size(t, in, dim);
  nabla_ssa zero = nabla_emit_index(t, 0), one = nabla_emit_index(t, 1);
  nabla_ssa reach = nabla_emit_index_op(t, "subi", size, one);
  reach = nabla_emit_index_op(t, "muli", reach, nabla_emit_index(t, dilation));
  reach = nabla_emit_index_op(t, "addi", reach, one);
  nabla_ssa none =
      k_op(&t->emit, "arith.cmpi eq, %%v%u, %%v%u : index", size, zero);
  reach = k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : index", none, zero,
               reach);
  nabla_ssa rest = nabla_emit_index_op(t, "subi", whole, reach);
  nabla_ssa count =
      nabla_emit_index_op(t, "divsi", rest, nabla_emit_index(t, stride));
  count = nabla_emit_index_op(t, "addi", count, one);
  nabla_ssa empty =
      k_op(&t->emit, "arith.cmpi eq, %%v%u, %%v%u : index", whole, zero);
  nabla_ssa over =
      k_op(&t->emit, "arith.cmpi slt, %%v%u, %%v%u : index", rest, zero);
  empty = k_op(&t->emit, "arith.ori %%v%u, %%v%u : i1", empty, over);
  return k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : index", empty, zero,
              count);
}

void nabla_windows_loops(intptr_t rank, intptr_t reductions, nabla_generic *g,
                         intptr_t loop_of[NABLA_MAX_RANK]) {
  g->loops = rank + reductions;
  g->reductions = reductions;
  g->inner = rank > 0;
  for (intptr_t i = 0; i < rank; i++)
    loop_of[i] = i + 1 < rank ? i : g->loops - 1;
}

nabla_ssa nabla_windows_place(nabla_template *t, intptr_t window,
                              int64_t stride, intptr_t inside,
                              int64_t dilation) {
  nabla_ssa a = nabla_generic_index(t, window);
  nabla_ssa b = nabla_generic_index(t, inside);
  if (stride != 1)
    a = nabla_emit_index_op(t, "muli", a, nabla_emit_index(t, stride));
  if (dilation != 1)
    b = nabla_emit_index_op(t, "muli", b, nabla_emit_index(t, dilation));
  return nabla_emit_index_op(t, "addi", a, b);
}
