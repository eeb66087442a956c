/* Lowerings of operations element by element, and of constants. */
#include <stdio.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/epilogue.h"
#include "transforms/lower/formula.h"
#include "transforms/lower/list.h"

static bool lower_binary(nabla_template *t, const char *float_op,
                         const char *integer_op) {
  nabla_template_open(t);
  nabla_ssa_tensor a = nabla_template_operand(t, 0);
  nabla_ssa_tensor b = nabla_template_operand(t, 1);
  for (intptr_t i = 0; i < a.rank; i++) nabla_operands_agree(t, &a, i, &b, i);
  for (intptr_t i = 0; i < a.rank; i++)
    if (nabla_is_dynamic(a.dims[i])) nabla_ssa_tensor_size(t, &a, i);
  nabla_ssa_tensor shape = nabla_template_result(t);
  memcpy(shape.sizes, a.sizes, sizeof shape.sizes);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, a.element->name);
  nabla_generic g = {.loops = a.rank};
  nabla_generic_add(&g, &a, NULL);
  nabla_generic_add(&g, &b, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa x = nabla_generic_load(t, &g, 0);
  nabla_ssa y = nabla_generic_load(t, &g, 1);
  nabla_ssa z =
      k_op(&t->emit, "arith.%s %%v%u, %%v%u : %s",
           a.element->is_float ? float_op : integer_op, x, y, a.element->work);
  out = nabla_generic_end(t, &g, nabla_element_store(t, a.element, z));
  return nabla_template_close(t, out.value);
}

bool nabla_lower_add(nabla_template *t) {
  return lower_binary(t, "addf", "addi");
}

bool nabla_lower_mul(nabla_template *t) {
  return lower_binary(t, "mulf", "muli");
}

/* `compute` gets and gives values of the work type. */
static bool lower_unary(nabla_template *t,
                        nabla_ssa (*compute)(nabla_template *t,
                                             const char *work, nabla_ssa x)) {
  nabla_template_open(t);
  nabla_ssa_tensor a = nabla_template_operand(t, 0);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &a, a.element->name);
  nabla_generic g = {.loops = a.rank};
  nabla_generic_add(&g, &a, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa y = compute(t, a.element->work, nabla_generic_load(t, &g, 0));
  out = nabla_generic_end(t, &g, nabla_element_store(t, a.element, y));
  return nabla_template_close(t, out.value);
}

static nabla_ssa relu(nabla_template *t, const char *work, nabla_ssa x) {
  /* -0 is not above 0, which is given for it; NaN is */
  nabla_ssa zero = k_op(&t->emit, "arith.constant 0.0 : %s", work);
  nabla_ssa keep =
      k_op(&t->emit, "arith.cmpf ugt, %%v%u, %%v%u : %s", x, zero, work);
  return k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : %s", keep, x, zero,
              work);
}

bool nabla_lower_relu(nabla_template *t) { return lower_unary(t, relu); }

static nabla_ssa silu(nabla_template *t, const char *work, nabla_ssa x) {
  char in[32], out[32];
  if (!strcmp(work, "f64"))
    return nabla_formula_emit(t, nabla_formula_find("silu"), &x);
  nabla_ssa result = ++t->emit.last;
  (void)snprintf(in, sizeof in, "%%v%u", x);
  (void)snprintf(out, sizeof out, "%%v%u", result);
  nabla_emit_silu(&t->text, work, in, out);
  return result;
}

bool nabla_lower_silu(nabla_template *t) { return lower_unary(t, silu); }

/* Not through text, which a large constant would fill. */
bool nabla_lower_constant(nabla_template *t) {
  MlirContext context = nabla_op_context(t->op);
  MlirType type = nabla_result_type(t->op, 0);
  MlirNamedAttribute value =
      nabla_named(context, "value",
                  mlirOperationGetAttributeByName(t->op, nabla_ref("value")));
  nabla_op_spec spec = {"arith.constant", 0, NULL, 1, &type, 1, &value};
  MlirOperation constant = nabla_op_create(t->op, &spec);
  if (mlirOperationIsNull(constant)) return false;
  MlirValue result = mlirOperationGetResult(constant, 0);
  nabla_op_replace(t->op, &result);
  return true;
}
