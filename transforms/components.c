/* See components.h. */
#include "transforms/components.h"

#include "dialect/ops.h"
#include "transforms/ir.h"

/* Is `op` a view: an implicit result with its operand's components? */
static bool is_view(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  return row && row->implicit == NABLA_IMPLICIT_views &&
         nablaTypeIsAImplicit(nabla_result_type(op, 0));
}

/* Views of views that are followed: code that is never reached may go round. */
#define MAX_VIEWS 4096

intptr_t nabla_components_find(MlirValue value,
                               MlirValue out[NABLA_MAX_PARTS]) {
  MlirOperation op = nabla_defining_op(value);
  for (int i = 0; i < MAX_VIEWS && !mlirOperationIsNull(op) && is_view(op); i++)
    op = nabla_defining_op(mlirOperationGetOperand(op, 0));
  if (!nabla_is(op, "nabla.pack")) return -1;
  intptr_t count = mlirOperationGetNumOperands(op);
  for (intptr_t i = 0; i < count; i++) out[i] = mlirOperationGetOperand(op, i);
  return count;
}

intptr_t nabla_components_split(MlirValue value, MlirOperation before,
                                MlirValue out[NABLA_MAX_PARTS]) {
  intptr_t count = nabla_components_find(value, out);
  if (count >= 0) return count;
  nabla_op_spec spec = {"nabla.unpack", 1, &value, -1, NULL, 0, NULL};
  MlirOperation op = nabla_op_create(before, &spec);
  count = mlirOperationGetNumResults(op);
  for (intptr_t i = 0; i < count; i++) out[i] = mlirOperationGetResult(op, i);
  return count;
}

static bool is_clean_up(MlirOperation op) {
  return nabla_is(op, "nabla.pack") || nabla_is(op, "nabla.unpack") ||
         (nabla_op_find(op) && is_view(op));
}

void nabla_components_clean(MlirOperation root) {
  nabla_op_list all = nabla_ops_collect(root, is_clean_up);
  /* users stand behind what they use */
  for (size_t i = all.count; i-- > 0;) {
    intptr_t uses = 0;
    for (intptr_t r = 0; r < mlirOperationGetNumResults(all.ops[i]); r++)
      uses += nabla_use_count(mlirOperationGetResult(all.ops[i], r));
    if (uses == 0) nabla_op_erase(all.ops[i]);
  }
  nabla_op_list_deinit(&all);
}
