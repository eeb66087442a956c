/* See components.h. */
#include "transforms/ir/components.h"

#include "dialect/ops.h"
#include "transforms/ir/ir.h"

/* Returns whether `op` is a view: its implicit result has the components of its
 * operand. */
static bool is_view(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  return row && row->implicit == NABLA_IMPLICIT_views &&
         nablaTypeIsAImplicit(nabla_result_type(op, 0));
}

/* Depth to which views of views are followed; in unreachable code they may form
 * a cycle. */
#define MAX_VIEWS 4096

static intptr_t find(MlirValue value, MlirValue out[NABLA_MAX_PARTS],
                     int depth) {
  MlirOperation op = nabla_defining_op(value);
  for (int i = 0; i < MAX_VIEWS && !mlirOperationIsNull(op) && is_view(op);
       i++) {
    value = mlirOperationGetOperand(op, 0);
    op = nabla_defining_op(value);
  }
  if (nabla_is(op, "nabla.unpack") && depth < NABLA_MAX_NESTING) {
    MlirValue whole[NABLA_MAX_PARTS];
    if (find(mlirOperationGetOperand(op, 0), whole, depth + 1) < 0) return -1;
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
      if (mlirValueEqual(mlirOperationGetResult(op, i), value))
        return find(whole[i], out, depth + 1);
    return -1;
  }
  if (!nabla_is(op, "nabla.pack")) return -1;
  intptr_t count = mlirOperationGetNumOperands(op);
  for (intptr_t i = 0; i < count; i++) out[i] = mlirOperationGetOperand(op, i);
  return count;
}

intptr_t nabla_components_find(MlirValue value,
                               MlirValue out[NABLA_MAX_PARTS]) {
  return find(value, out, 0);
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

/* Adds the leaves of `value` to `out`. If they are not known, makes unpacks
 * before `before`, or returns -1 if that is null. */
static intptr_t add_leaves(MlirValue value, MlirOperation before,
                           MlirValue *out) {
  MlirValue parts[NABLA_MAX_PARTS];
  intptr_t leaves = 0;
  intptr_t count = mlirOperationIsNull(before)
                       ? nabla_components_find(value, parts)
                       : nabla_components_split(value, before, parts);
  if (count < 0) return -1;
  for (intptr_t i = 0; i < count; i++) {
    intptr_t added = 1;
    out[leaves] = parts[i];
    if (nablaTypeIsAImplicit(mlirValueGetType(parts[i])))
      added = add_leaves(parts[i], before, out + leaves);
    if (added < 0) return -1;
    leaves += added;
  }
  return leaves;
}

intptr_t nabla_leaves_find(MlirValue value, MlirValue out[NABLA_MAX_LEAVES]) {
  return add_leaves(value, (MlirOperation){NULL}, out);
}

intptr_t nabla_leaves_split(MlirValue value, MlirOperation before,
                            MlirValue out[NABLA_MAX_LEAVES]) {
  return add_leaves(value, before, out);
}

MlirValue nabla_components_pack(MlirOperation before, MlirType type,
                                const MlirValue *components) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  intptr_t count = (intptr_t)nabla_implicit_components(type, parts);
  nabla_op_spec spec = {"nabla.pack", count, components, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* Packs a value of `type`, and moves `leaves` behind the leaves that it has
 * used. */
static MlirValue pack_leaves(MlirOperation before, MlirType type,
                             const MlirValue **leaves) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  MlirValue values[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(type, parts);
  for (uint32_t i = 0; i < count; i++)
    values[i] = nablaTypeIsAImplicit(parts[i].type)
                    ? pack_leaves(before, parts[i].type, leaves)
                    : *(*leaves)++;
  return nabla_components_pack(before, type, values);
}

MlirValue nabla_leaves_pack(MlirOperation before, MlirType type,
                            const MlirValue *leaves) {
  return pack_leaves(before, type, &leaves);
}

static bool is_clean_up(MlirOperation op) {
  return nabla_is(op, "nabla.pack") || nabla_is(op, "nabla.unpack") ||
         (nabla_op_find(op) && is_view(op));
}

void nabla_components_clean(MlirOperation root) {
  nabla_op_list all = nabla_ops_collect(root, is_clean_up);
  /* in reverse, since users come after the values that they use */
  for (size_t i = all.count; i-- > 0;) {
    intptr_t uses = 0;
    for (intptr_t r = 0; r < mlirOperationGetNumResults(all.ops[i]); r++)
      uses += nabla_use_count(mlirOperationGetResult(all.ops[i], r));
    if (uses == 0) nabla_op_erase(all.ops[i]);
  }
  nabla_op_list_deinit(&all);
}
