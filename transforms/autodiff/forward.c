/* See forward.h. */
#include "transforms/autodiff/forward.h"

#include <stdlib.h>

#include "transforms/autodiff/shard_map.h"
#include "transforms/ir/block_index.h"

MlirValue nabla_forward_or_zeros(nabla_forward *f, const nabla_builder *b,
                                 MlirValue value) {
  MlirValue tangent = nabla_value_map_get(&f->tangents, value);
  if (!mlirValueIsNull(tangent)) return nabla_diff_narrow(b, tangent, value);
  return nabla_build_zeros(b, value,
                           nabla_array_element(mlirValueGetType(value)));
}

/* The rule of an operation; what it makes is inserted behind the operation. */
static bool run_rule(nabla_forward *f, MlirOperation op) {
  const intptr_t operands = mlirOperationGetNumOperands(op);
  const intptr_t results = mlirOperationGetNumResults(op);
  const nabla_diff_row row = nabla_diff_find(op);
  if (!row.jvp) return nabla_diff_refuse(op);
  MlirValue *tangents = calloc((size_t)operands + 1, sizeof *tangents);
  MlirValue *out = calloc((size_t)results + 1, sizeof *out);
  bool good = tangents && out, any = false;
  for (intptr_t i = 0; good && i < operands; i++) {
    tangents[i] =
        nabla_value_map_get(&f->tangents, mlirOperationGetOperand(op, i));
    any = any || !mlirValueIsNull(tangents[i]);
  }
  const nabla_pushforward p = {
      {mlirOperationGetNextInBlock(op)}, op, tangents, out};
  good = good && (!any || row.jvp(&p));
  for (intptr_t i = 0; good && any && i < results; i++)
    if (!mlirValueIsNull(out[i]))
      nabla_value_map_set(
          &f->tangents, mlirOperationGetResult(op, i),
          nabla_diff_narrow(&p.b, out[i], mlirOperationGetResult(op, i)));
  free(tangents);
  free(out);
  return good;
}

static bool forward_op(nabla_forward *f, MlirOperation op) {
  if (mlirOperationGetNumResults(op) == 0) return true;
  if (nabla_diff_is_zero(op) || !nabla_varied_uses(f->varied, op)) return true;
  if (nabla_is(op, "nabla.cond")) return nabla_forward_cond(f, op);
  if (nabla_is(op, "nabla.scan")) return nabla_forward_scan(f, op);
  if (nabla_is(op, "nabla.shard_map")) return nabla_forward_shard_map(f, op);
  if (nabla_is(op, "nabla.while")) return nabla_forward_while(f, op);
  if (nabla_is(op, "func.call")) return nabla_forward_call(f, op);
  if (nabla_is(op, "nabla.custom_call"))
    return nabla_forward_custom_call(f, op);
  return run_rule(f, op);
}

bool nabla_forward_block(nabla_forward *f, MlirBlock block) {
  nabla_block_index index;
  bool good = nabla_block_index_init(&index, block);
  for (size_t i = 0; good && i < index.count; i++)
    good = forward_op(f, index.ops[i]);
  nabla_block_index_deinit(&index);
  return good && !f->tangents.failed;
}
