/* See shard_map.h. */
#include "transforms/shard/shard_map.h"

#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "transforms/shard/varying.h"

static MlirAttribute get(MlirOperation op, const char *key) {
  return mlirOperationGetAttributeByName(op, nabla_ref(key));
}

bool nabla_is_shard_map(MlirOperation op) {
  return nabla_is(op, "nabla.shard_map");
}

nabla_division nabla_shard_map_layout(const nabla_grid *shard, MlirOperation op,
                                      const char *key, intptr_t index,
                                      MlirType whole) {
  nabla_division layout = nabla_layout_whole(whole);
  const nabla_sharding sharding =
      nabla_sharding_read(mlirArrayAttrGetElement(get(op, key), index));
  if (!nabla_layout_read(shard, &sharding, &layout))
    layout = nabla_layout_whole(whole);
  return layout;
}

/* Whether a list of shardings divides arrays along atoms, into legal pieces. */
static bool check_pieces(const nabla_grid *shard, MlirOperation op,
                         const char *key, bool results) {
  char message[NABLA_MESSAGE_SIZE];
  MlirAttribute list = get(op, key);
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++) {
    MlirType local,
        type = results ? nabla_result_type(op, i) : nabla_operand_type(op, i);
    nabla_division layout = nabla_layout_whole(type);
    const nabla_sharding sharding =
        nabla_sharding_read(mlirArrayAttrGetElement(list, i));
    if (!nabla_layout_read(shard, &sharding, &layout)) {
      nabla_error_at(op, "%s #%td: a sub-axis is no product of factors",
                     results ? "result" : "operand", i);
      return false;
    }
    if (nabla_layout_local(shard, &layout, &local, message)) continue;
    nabla_error_at(op, "%s #%td: %s", results ? "result" : "operand", i,
                   message);
    return false;
  }
  return true;
}

/* A result has one value on the devices among which it is not divided. */
static bool check_results(const nabla_grid *shard, MlirOperation op,
                          const nabla_varying *varying) {
  MlirOperation end = nabla_block_end(nabla_region_block(op, 0));
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    const nabla_division layout =
        nabla_shard_map_layout(shard, op, "out", i, nabla_result_type(op, i));
    const uint64_t more =
        nabla_varying_at(varying, mlirOperationGetOperand(end, i)) &
        ~nabla_layout_used(&layout);
    if (!more) continue;
    const uint32_t atom = (uint32_t)__builtin_ctzll(more);
    nabla_error_at(
        op,
        "result #%td varies along axis \"%s\", which does not divide "
        "it: join or gather it in the region, or name the axis in "
        "`out`",
        i, shard->mesh.axes[shard->atoms.axis[atom]]);
    return false;
  }
  return true;
}

bool nabla_shard_map_check(const nabla_grid *shard, MlirOperation op) {
  nabla_varying varying;
  if (!check_pieces(shard, op, "in", false) ||
      !check_pieces(shard, op, "out", true))
    return false;
  const bool good = nabla_varying_find(shard, op, &varying) &&
                    check_results(shard, op, &varying);
  nabla_varying_deinit(&varying);
  return good;
}

void nabla_shard_map_inline(MlirOperation op) {
  MlirBlock from = nabla_region_block(op, 0), to = mlirOperationGetBlock(op);
  MlirOperation end = nabla_block_end(from);
  const intptr_t count = mlirOperationGetNumOperands(end);
  MlirValue *values = calloc((size_t)count + 1, sizeof *values);
  if (!values) return;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(from); i++)
    mlirValueReplaceAllUsesOfWith(mlirBlockGetArgument(from, i),
                                  mlirOperationGetOperand(op, i));
  for (MlirOperation next, at = mlirBlockGetFirstOperation(from);
       !mlirOperationEqual(at, end); at = next) {
    next = mlirOperationGetNextInBlock(at);
    mlirOperationRemoveFromParent(at);
    mlirBlockInsertOwnedOperationBefore(to, op, at);
  }
  for (intptr_t i = 0; i < count; i++)
    values[i] = mlirOperationGetOperand(end, i);
  nabla_op_replace(op, values);
  free(values);
}

/* ---- notes ---- */

bool nabla_is_passing_note(MlirOperation op) {
  return nabla_is(op, "nabla.sharding_constraint") ||
         nabla_is(op, "nabla.reshard") ||
         nabla_is(op, "nabla.propagation_barrier");
}

bool nabla_is_sharding_note(MlirOperation op) {
  return nabla_is_passing_note(op) || nabla_is(op, "nabla.sharding_group") ||
         nabla_is(op, "nabla.inspect_sharding");
}

void nabla_sharding_note_drop(MlirOperation op) {
  if (!nabla_is_passing_note(op)) {
    nabla_op_erase(op);
    return;
  }
  MlirValue value = mlirOperationGetOperand(op, 0);
  nabla_op_replace(op, &value);
}
