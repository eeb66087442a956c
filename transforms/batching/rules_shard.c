/* Batches of operations on shardings and of collectives; see batching.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/shard/sharding.h"
#include "dialect/verify/checks.h"
#include "transforms/batching/control_while.h"
#include "transforms/batching/regions.h"
#include "transforms/shard/layout.h"
#include "transforms/state/state.h"

/* ---- shardings ---- */

/* Whether a list of axes has one of this name. */
static bool names(const nabla_axis_list *list, const char *axis) {
  for (uint32_t i = 0; i < list->count; i++)
    if (!strcmp(list->at[i].name, axis)) return true;
  return false;
}

/* A sharding with the batch as dimension `axis`: on the axis of spmd-axis,
 * which nothing else uses, else open. Null after an error. */
static MlirAttribute sharding_at(const nabla_batching *s, MlirOperation op,
                                 MlirAttribute attribute, intptr_t axis) {
  const char *spmd = s->run->spmd_axis;
  nabla_sharding sharding = nabla_sharding_read(attribute);
  nabla_sharding_dim batch = {.is_open = !spmd, .priority = -1};
  bool used = spmd && (names(&sharding.replicated, spmd) ||
                       names(&sharding.partial, spmd));
  for (uint32_t i = 0; spmd && i < sharding.rank; i++)
    used = used || names(&sharding.dims[i].axes, spmd);
  if (used || axis < 0 || sharding.rank >= NABLA_MAX_RANK) {
    nabla_error_at(op,
                   used ? "nabla-vmap: has a sharding over the axis of "
                          "spmd-axis, where the batch stands"
                        : "nabla-vmap: has a sharding of too many dimensions");
    return (MlirAttribute){NULL};
  }
  if (spmd) {
    batch.axes.count = 1;
    (void)snprintf(batch.axes.at[0].name, NABLA_AXIS_NAME, "%s", spmd);
  }
  for (intptr_t i = sharding.rank; i-- > axis;)
    sharding.dims[i + 1] = sharding.dims[i];
  sharding.dims[axis] = batch;
  sharding.rank++;
  return nabla_sharding_get(nabla_op_context(op), &sharding);
}

/* A sharding that asks for nothing. */
static MlirAttribute open_sharding(const nabla_batching *s, MlirOperation op,
                                   intptr_t rank) {
  nabla_sharding sharding = {.rank = (uint32_t)rank};
  (void)snprintf(sharding.mesh, sizeof sharding.mesh, "%s", s->run->mesh);
  for (intptr_t i = 0; i < rank; i++)
    sharding.dims[i] = (nabla_sharding_dim){.is_open = true, .priority = -1};
  return nabla_sharding_get(nabla_op_context(op), &sharding);
}

bool nabla_batch_sharding(nabla_batching *s, MlirOperation op) {
  MlirValue x = nabla_batch_operand(s, op, 0);
  MlirNamedAttribute change;
  if (mlirValueIsNull(x)) return false;
  MlirType type = mlirValueGetType(x);
  nabla_batch_copy copy = {.op = op,
                           .operand_count = 1,
                           .operands = &x,
                           .result_count = 1,
                           .results = &type,
                           .changes = &change};
  if (!nabla_is(op, "nabla.propagation_barrier")) {
    MlirAttribute made = sharding_at(
        s, op, mlirOperationGetAttributeByName(op, nabla_ref("sharding")), 0);
    if (mlirAttributeIsNull(made)) return false;
    change = nabla_named(nabla_op_context(op), "sharding", made);
    copy.change_count = 1;
  }
  return nabla_batch_give(s, op, 0,
                          nabla_batch_first(nabla_batch_copied(s, &copy)));
}

/* sharding_group, inspect_sharding: of the batch. */
bool nabla_batch_sharding_group(nabla_batching *s, MlirOperation op) {
  MlirValue x = nabla_batch_operand(s, op, 0);
  const nabla_batch_copy copy = {
      .op = op, .operand_count = 1, .operands = &x, .result_count = 0};
  return !mlirValueIsNull(x) &&
         !mlirOperationIsNull(nabla_batch_copied(s, &copy));
}

/* ---- collectives ---- */

static MlirNamedAttribute shifted(nabla_batching *s, MlirOperation op,
                                  const char *key) {
  return nabla_build_integer(&s->b, key, 64, nabla_op_integer(op, key, 0) + 1);
}

/* Examples on other devices are not to be exchanged. */
static bool check_axes(const nabla_batching *s, MlirOperation op) {
  nabla_axis_list axes;
  if (!s->run->spmd_axis ||
      !nabla_axes_read(mlirOperationGetAttributeByName(op, nabla_ref("axes")),
                       &axes) ||
      !names(&axes, s->run->spmd_axis))
    return true;
  nabla_error_at(op,
                 "nabla-vmap: exchanges over axis \"%s\", where the batch "
                 "stands (spmd-axis)",
                 s->run->spmd_axis);
  return false;
}

/* The same exchange of the batch: dimensions stand one place further. */
bool nabla_batch_collective(nabla_batching *s, MlirOperation op) {
  static const char *const keys[] = {"dim", "split", "concat"};
  MlirNamedAttribute changes[3];
  intptr_t count = 0;
  MlirValue x = nabla_batch_dense(s, mlirOperationGetOperand(op, 0));
  MlirType type = nabla_batch_type(s, nabla_result_type(op, 0));
  if (mlirValueIsNull(x) || mlirTypeIsNull(type) || !check_axes(s, op))
    return false;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!mlirAttributeIsNull(
            mlirOperationGetAttributeByName(op, nabla_ref(keys[i]))))
      changes[count++] = shifted(s, op, keys[i]);
  const nabla_batch_copy copy = {.op = op,
                                 .operand_count = 1,
                                 .operands = &x,
                                 .result_count = 1,
                                 .results = &type,
                                 .change_count = count,
                                 .changes = changes};
  return nabla_batch_give(s, op, 0,
                          nabla_batch_first(nabla_batch_copied(s, &copy)));
}

/* ---- shard_map ---- */

typedef struct mapped {
  MlirOperation op;
  intptr_t inputs, results;
  bool takes[NABLA_MAX_OPERANDS], gives[NABLA_MAX_OPERANDS];
  int64_t whole; /* the size of the batch outside of the region */
} mapped;

/* The shardings of a list, with the batch in front of those that have one. */
static bool batched_list(nabla_batching *s, const mapped *m, const char *key,
                         const bool *batched, MlirNamedAttribute *out) {
  MlirAttribute list = mlirOperationGetAttributeByName(m->op, nabla_ref(key));
  MlirAttribute elements[NABLA_MAX_OPERANDS];
  const intptr_t count = mlirArrayAttrGetNumElements(list);
  for (intptr_t i = 0; i < count; i++) {
    elements[i] = mlirArrayAttrGetElement(list, i);
    if (batched[i]) elements[i] = sharding_at(s, m->op, elements[i], 0);
    if (mlirAttributeIsNull(elements[i])) return false;
  }
  MlirContext context = nabla_op_context(m->op);
  *out = nabla_named(context, key, mlirArrayAttrGet(context, count, elements));
  return true;
}

static MlirType type_as(const nabla_batching *s, MlirType type, bool batched) {
  return batched ? nabla_batch_type(s, type) : type;
}

static MlirOperation open_map(nabla_batching *s, const mapped *m,
                              int64_t piece) {
  MlirValue operands[NABLA_MAX_OPERANDS];
  MlirType arguments[NABLA_MAX_OPERANDS], results[NABLA_MAX_OPERANDS];
  MlirNamedAttribute changes[2];
  MlirBlock body = nabla_region_block(m->op, 0);
  const MlirOperation none = {NULL};
  for (intptr_t i = 0; i < m->inputs; i++)
    operands[i] =
        nabla_batch_as(s, mlirOperationGetOperand(m->op, i), m->takes[i]);
  for (intptr_t i = 0; i < m->results; i++)
    results[i] = type_as(s, nabla_result_type(m->op, i), m->gives[i]);
  s->size = piece;
  for (intptr_t i = 0; i < m->inputs; i++)
    arguments[i] = type_as(s, mlirValueGetType(mlirBlockGetArgument(body, i)),
                           m->takes[i]);
  s->size = m->whole;
  if (!batched_list(s, m, "in", m->takes, &changes[0]) ||
      !batched_list(s, m, "out", m->gives, &changes[1]))
    return none;
  const nabla_batch_copy copy = {.op = m->op,
                                 .operand_count = m->inputs,
                                 .operands = operands,
                                 .result_count = m->results,
                                 .results = results,
                                 .change_count = 2,
                                 .changes = changes};
  return nabla_batch_open(s, "nabla.shard_map", &copy, 1, &m->inputs,
                          arguments);
}

/* A batch from outside would have another size in the region. */
static MlirWalkResult find_outside(MlirOperation op, void *self) {
  const nabla_batching *s = self;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    if (!nabla_batch_is(s, mlirOperationGetOperand(op, i))) continue;
    nabla_error_at(op,
                   "uses a batched value from outside of a shard_map, with "
                   "spmd-axis: pass it as an operand");
    return MlirWalkResultInterrupt;
  }
  return MlirWalkResultAdvance;
}

static bool check_outside(nabla_batching *s, MlirOperation op) {
  MlirOperation at = mlirBlockGetFirstOperation(nabla_region_block(op, 0));
  for (; !mlirOperationIsNull(at); at = mlirOperationGetNextInBlock(at)) {
    const bool touched = nabla_batch_touches(s, at);
    if (touched) mlirOperationWalk(at, find_outside, s, MlirWalkPreOrder);
    if (touched) return false;
  }
  return true;
}

static bool check_map(nabla_batching *s, const mapped *m, int64_t devices) {
  if (m->inputs > NABLA_MAX_OPERANDS || m->results > NABLA_MAX_OPERANDS) {
    nabla_error_at(m->op, "nabla-vmap: has more than %d operands or results",
                   NABLA_MAX_OPERANDS);
    return false;
  }
  if (devices == 1) return true;
  if (nabla_is_dynamic(s->size) || s->size % devices) {
    nabla_error_at(m->op,
                   "nabla-vmap: the batch stands on axis \"%s\" of size %d: "
                   "give an axis-size that it divides",
                   s->run->spmd_axis, (int)devices);
    return false;
  }
  return check_outside(s, m->op);
}

bool nabla_batch_shard_map(nabla_batching *s, MlirOperation op) {
  MlirValue values[NABLA_MAX_OPERANDS];
  mapped m = {.op = op,
              .inputs = mlirOperationGetNumOperands(op),
              .results = mlirOperationGetNumResults(op),
              .whole = s->size};
  MlirBlock body = nabla_region_block(op, 0);
  MlirOperation end = nabla_block_end(body);
  const int64_t devices = s->run->spmd_axis ? s->run->spmd_size : 1;
  if (!check_map(s, &m, devices)) return false;
  for (intptr_t i = 0; i < m.inputs; i++)
    m.takes[i] = nabla_batch_is(s, mlirOperationGetOperand(op, i));
  nabla_batch_flow(s, body, m.takes, m.gives);
  const int64_t piece = devices == 1 ? s->size : s->size / devices;
  MlirOperation made = open_map(s, &m, piece);
  if (mlirOperationIsNull(made)) return false;
  nabla_batch_place place = nabla_batch_begin(s, made, 0);
  s->size = piece;
  bool good = nabla_batch_region(s, body, nabla_region_block(made, 0), m.takes);
  for (intptr_t i = 0; good && i < m.results; i++)
    values[i] = nabla_batch_as(s, mlirOperationGetOperand(end, i), m.gives[i]);
  good =
      nabla_batch_end(s, place, "nabla.yield", good ? m.results : 0, values) &&
      good;
  s->size = m.whole;
  for (intptr_t i = 0; good && i < m.results; i++)
    good = nabla_batch_set(
        s, mlirOperationGetResult(op, i),
        (nabla_batched){mlirOperationGetResult(made, i), m.gives[i]});
  return good;
}

/* ---- arguments of functions ---- */

bool nabla_batch_arguments(nabla_batching *s, MlirOperation function,
                           const intptr_t *axes) {
  MlirBlock entry = nabla_region_block(function, 0);
  const intptr_t count = mlirBlockGetNumArguments(entry);
  MlirAttribute values[NABLA_MAX_OPERANDS] = {{NULL}};
  bool any = false;
  if (count > NABLA_MAX_OPERANDS) return false;
  for (intptr_t i = 0; i < count; i++) {
    MlirAttribute old =
        nabla_state_attribute(function, NABLA_ARGUMENTS, i, NABLA_SHARDING);
    MlirType type = mlirValueGetType(mlirBlockGetArgument(entry, i));
    values[i] = old;
    any = any || !mlirAttributeIsNull(old);
    if (axes[i] == NABLA_BATCH_NO_AXIS) continue;
    if (mlirAttributeIsNull(old) && s->run->spmd_axis)
      old = open_sharding(s, function, nabla_array_rank(type) - 1);
    if (mlirAttributeIsNull(old)) continue;
    values[i] = sharding_at(s, function, old, axes[i]);
    if (mlirAttributeIsNull(values[i])) return false;
    any = true;
  }
  if (!any) return true;
  nabla_state_strip(function, NABLA_ARGUMENTS, NABLA_SHARDING);
  nabla_arguments_set(function, NABLA_SHARDING, values);
  return true;
}
