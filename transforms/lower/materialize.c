/* Lowering of materialize: rows decoded by a kernel (runs.c), or
 * every element where it is asked for (decode.c); and of
 * implicit_depth, which is a constant. */
#include <mlir-c/BuiltinAttributes.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "transforms/ir/components.h"
#include "transforms/lower/decode.h"
#include "transforms/lower/list.h"
#include "transforms/lower/runs.h"

static bool fill(nabla_template *t, MlirType type, double value) {
  nabla_ssa_tensor shape = nabla_template_result(t);
  nabla_template_open(t);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, shape.element->name);
  nabla_ssa constant = ++t->emit.last, full = ++t->emit.last;
  nabla_type_text text = nabla_ssa_tensor_type(&out);
  nabla_text_add(&t->text, "  %%v%u = arith.constant ", constant);
  nabla_text_add_attribute(
      &t->text, mlirFloatAttrDoubleGet(nabla_op_context(t->op),
                                       nabla_array_element(type), value));
  nabla_text_add(&t->text,
                 "\n  %%v%u = linalg.fill ins(%%v%u : %s) outs(%%v%u : %s) -> "
                 "%s\n",
                 full, constant, shape.element->name, out.value, text.data,
                 text.data);
  return nabla_template_close(t, full);
}

/* 1 where row and column agree, else 0. */
static bool eye(nabla_template *t) {
  nabla_ssa_tensor shape = nabla_template_result(t);
  nabla_template_open(t);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, shape.element->name);
  nabla_generic g = {.loops = shape.rank};
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  const char *type = shape.element->name;
  nabla_ssa row = nabla_generic_index(t, 0), column = nabla_generic_index(t, 1);
  nabla_ssa same =
      k_op(&t->emit, "arith.cmpi eq, %%v%u, %%v%u : index", row, column);
  nabla_ssa one = k_op(&t->emit, "arith.constant 1.0 : %s", type);
  nabla_ssa zero = k_op(&t->emit, "arith.constant 0.0 : %s", type);
  nabla_ssa value = k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : %s",
                         same, one, zero, type);
  return nabla_template_close(t, nabla_generic_end(t, &g, value).value);
}

/* The storage index (i64) of the element that loops over the first `outer`
 * dimensions are at; the others are at 0. */
static nabla_ssa flat_index(nabla_template *t, const nabla_strided *view,
                            intptr_t outer) {
  nabla_ssa at = k_i64(&t->emit, (uint64_t)view->offset);
  for (intptr_t i = 0; i < outer; i++) {
    if (view->strides[i] == 0) continue;
    nabla_ssa loop = k_op(&t->emit, "arith.index_cast %%v%u : index to i64",
                          nabla_generic_index(t, i));
    at = k_add(&t->emit, at,
               k_multiply(&t->emit, loop, (uint64_t)view->strides[i]));
  }
  return at;
}

nabla_ssa nabla_flat_index(nabla_template *t, const nabla_strided *view) {
  return flat_index(t, view, view->rank);
}

static void find_runs(const nabla_strided *view, nabla_runs *runs) {
  runs->outer = view->rank;
  runs->length = 1;
  runs->aligned = (uint64_t)view->offset;
  while (runs->outer > 0 && nabla_runs_join(runs, view->shape[runs->outer - 1],
                                            view->strides[runs->outer - 1]))
    runs->outer--;
  for (intptr_t i = 0; i < runs->outer; i++)
    runs->aligned =
        nabla_common_divisor(runs->aligned, (uint64_t)view->strides[i]);
}

static bool lower_runs(nabla_template *t, const nabla_strided *view,
                       const nabla_runs *runs) {
  nabla_template_open(t);
  nabla_ssa_tensor shape = nabla_template_result(t), starts = shape;
  starts.rank = runs->outer;
  starts = nabla_ssa_tensor_empty(t, &starts, "i64");
  nabla_generic g = {.loops = starts.rank};
  nabla_generic_add(&g, &starts, NULL);
  nabla_generic_begin(t, &g);
  starts = nabla_generic_end(t, &g, flat_index(t, view, runs->outer));
  return nabla_template_close(t,
                              nabla_runs_end(t, runs, &starts, &shape).value);
}

static bool lower_elements(nabla_template *t, MlirType type) {
  nabla_decoding d;
  nabla_template_open(t);
  nabla_decoding_begin(t, type, &d);
  nabla_strided view = nabla_implicit_strided(type);
  nabla_ssa_tensor shape = nabla_template_result(t);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, shape.element->name);
  nabla_generic g = {.loops = shape.rank};
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa value = nabla_decoding_value(t, &d, nabla_flat_index(t, &view));
  value = nabla_element_store(t, shape.element, value);
  return nabla_template_close(t, nabla_generic_end(t, &g, value).value);
}

static bool lower_stored(nabla_template *t, MlirType type) {
  nabla_strided view = nabla_implicit_strided(type);
  nabla_ssa_tensor shape = nabla_template_result(t);
  nabla_runs runs = {0};
  find_runs(&view, &runs);
  bool done = nabla_runs_begin(t, &runs, type, &shape)
                  ? lower_runs(t, &view, &runs)
                  : lower_elements(t, type);
  nabla_runs_deinit(&runs);
  return done;
}

bool nabla_lower_materialize(nabla_template *t) {
  MlirType type = nabla_operand_type(t->op, 0);
  MlirValue packed = t->operands[0];
  nabla_encoding_info info = nabla_implicit_encoding(type);
  if (info.kind == NABLA_KIND_SPLAT) {
    t->operand_count = 0;
    return fill(t, type, info.value);
  }
  if (info.kind == NABLA_KIND_IDENTITY) {
    t->operand_count = 0;
    return eye(t);
  }
  if (info.kind == NABLA_KIND_CUSTOM) return nabla_lower_custom(t, type);
  t->operand_count = nabla_leaves_find(packed, t->operands);
  if (t->operand_count > 0) return lower_stored(t, type);
  nabla_error_at(t->op,
                 "has an operand whose components are not known here: "
                 "run --nabla-lower-implicit first");
  return false;
}

bool nabla_lower_implicit_depth(nabla_template *t) {
  MlirType type = nabla_operand_type(t->op, 0);
  int depth = 0;
  if (nablaTypeIsAImplicit(type))
    depth = nabla_encoding_depth(nablaImplicitTypeParts(type).encoding);
  t->operand_count = 0;
  nabla_template_open(t);
  nabla_ssa out =
      k_op(&t->emit, "arith.constant dense<%d> : tensor<i64>", depth);
  return nabla_template_close(t, out);
}
