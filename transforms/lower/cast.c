/* tensor.cast from `?` to a size: the size is compared when the program runs.
 */
#include "transforms/lower/cast.h"

#include <mlir-c/BuiltinTypes.h>

/* The type says the size of dimension `dim`, its operand's does not. */
static bool is_stated(MlirType from, MlirType to, intptr_t dim) {
  return mlirShapedTypeIsDynamicDim(from, dim) &&
         !mlirShapedTypeIsDynamicDim(to, dim);
}

bool nabla_cast_states_sizes(MlirOperation op) {
  if (!nabla_is(op, "tensor.cast")) return false;
  const MlirType from = nabla_operand_type(op, 0);
  const MlirType to = nabla_result_type(op, 0);
  if (!mlirTypeIsARankedTensor(from) || !mlirTypeIsARankedTensor(to))
    return false;
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(to); i++)
    if (is_stated(from, to, i)) return true;
  return false;
}

bool nabla_cast_hides_rank(MlirOperation op) {
  return nabla_is(op, "tensor.cast") &&
         (!mlirTypeIsARankedTensor(nabla_operand_type(op, 0)) ||
          !mlirTypeIsARankedTensor(nabla_result_type(op, 0)));
}

/* Types are written as they are: elements may be of any kind here. */
bool nabla_cast_check(nabla_template *t) {
  const MlirType from = nabla_operand_type(t->op, 0);
  const MlirType to = nabla_result_type(t->op, 0);
  nabla_template_open(t);
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(to); i++) {
    if (!is_stated(from, to, i)) continue;
    const nabla_ssa index = nabla_emit_index(t, i);
    const nabla_ssa size = ++t->emit.last;
    nabla_text_add(&t->text, "  %%v%u = tensor.dim %%v1, %%v%u : ", size,
                   index);
    nabla_text_add_type(&t->text, from);
    nabla_text_add(&t->text, "\n");
    nabla_template_require(
        t, size, nabla_emit_index(t, mlirShapedTypeGetDimSize(to, i)));
  }
  const nabla_ssa result = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.cast %%v1 : ", result);
  nabla_text_add_type(&t->text, from);
  nabla_text_add(&t->text, " to ");
  nabla_text_add_type(&t->text, to);
  nabla_text_add(&t->text, "\n");
  return nabla_template_close(t, result);
}
