/* See fuse_window.h. */
#include "transforms/fusion/fuse_window.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdint.h>
#include <stdlib.h>

void nabla_fuse_window_deinit(nabla_fuse_window *w) {
  free(w->inputs);
  free(w->maps);
  free(w->made);
  free(w->places);
  free(w->old);
  free(w->outs);
  free(w->yields);
  free(w->types);
  free(w->out_maps);
  if (!mlirBlockIsNull(w->body)) mlirBlockDestroy(w->body);
  *w = (nabla_fuse_window){0};
}

static bool allocate(nabla_fuse_window *w) {
  size_t inputs = 0, outputs = 0;
  for (size_t i = 0; i < w->count; i++) {
    inputs += (size_t)w->plan->elementwise[w->members[i]].inputs;
    outputs += (size_t)w->plan->elementwise[w->members[i]].outputs;
  }
  w->inputs = calloc(inputs + 1, sizeof *w->inputs);
  w->maps = calloc(inputs + outputs + 1, sizeof *w->maps);
  w->made = calloc(outputs + 1, sizeof *w->made);
  w->places = calloc(w->count + 1, sizeof *w->places);
  w->old = calloc(outputs + 1, sizeof *w->old);
  w->outs = calloc(outputs + 1, sizeof *w->outs);
  w->yields = calloc(outputs + 1, sizeof *w->yields);
  w->types = calloc(outputs + 1, sizeof *w->types);
  w->out_maps = calloc(outputs + 1, sizeof *w->out_maps);
  return w->inputs && w->maps && w->made && w->places && w->old && w->outs &&
         w->yields && w->types && w->out_maps;
}

/* The element of an operand from outside, one for all that read it alike. */
static MlirValue input_element(nabla_fuse_window *w, MlirValue value,
                               MlirAttribute map, MlirValue old) {
  for (size_t i = 0; i < w->input_count; i++)
    if (mlirValueEqual(w->inputs[i], value) &&
        mlirAttributeEqual(w->maps[i], map))
      return mlirBlockGetArgument(w->body, (intptr_t)i);
  w->inputs[w->input_count] = value;
  w->maps[w->input_count++] = map;
  return mlirBlockAddArgument(w->body, mlirValueGetType(old),
                              mlirValueGetLocation(old));
}

/* The place among the members of the one that defines `value`, or SIZE_MAX. */
static size_t member_of(const nabla_fuse_window *w, MlirValue value) {
  const size_t number = nabla_block_index_definition(&w->plan->index, value);
  if (number == SIZE_MAX ||
      w->plan->windows[number] != w->plan->windows[w->members[0]])
    return SIZE_MAX;
  for (size_t i = 0; i < w->count; i++)
    if (w->members[i] == number) return i;
  return SIZE_MAX;
}

/* Moves the body of member `at` behind those before it. */
static void take_body(nabla_fuse_window *w, size_t at) {
  const nabla_elementwise *e = &w->plan->elementwise[w->members[at]];
  for (intptr_t i = 0; i < e->inputs; i++) {
    const MlirValue value = mlirOperationGetOperand(e->op, i);
    const MlirValue old = mlirBlockGetArgument(e->body, i);
    const size_t from = member_of(w, value);
    MlirValue now;
    if (from == SIZE_MAX)
      now = input_element(w, value, mlirArrayAttrGetElement(e->maps, i), old);
    else
      now =
          w->made[w->places[from] + (size_t)mlirOpResultGetResultNumber(value)];
    mlirValueReplaceAllUsesOfWith(old, now);
  }
  const MlirOperation end = mlirBlockGetTerminator(e->body);
  for (intptr_t i = 0; i < e->outputs; i++)
    w->made[w->places[at] + (size_t)i] = mlirOperationGetOperand(end, i);
  MlirOperation next;
  for (MlirOperation op = mlirBlockGetFirstOperation(e->body);
       !mlirOperationEqual(op, end); op = next) {
    next = mlirOperationGetNextInBlock(op);
    mlirOperationRemoveFromParent(op);
    mlirBlockAppendOwnedOperation(w->body, op);
  }
  nabla_op_erase(end); /* it used values that are elsewhere now */
}

static bool is_used_outside(const nabla_fuse_window *w, MlirValue value) {
  const size_t window = w->plan->windows[w->members[0]];
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    const size_t user =
        nabla_block_index_find(&w->plan->index, mlirOpOperandGetOwner(use));
    if (user == SIZE_MAX || w->plan->windows[user] != window) return true;
  }
  return false;
}

static void find_outputs(nabla_fuse_window *w, size_t at) {
  const nabla_elementwise *e = &w->plan->elementwise[w->members[at]];
  for (intptr_t i = 0; i < e->outputs; i++) {
    const MlirValue value = mlirOperationGetResult(e->op, i);
    if (!is_used_outside(w, value)) continue;
    w->old[w->output_count] = value;
    w->outs[w->output_count] = mlirOperationGetOperand(e->op, e->inputs + i);
    w->out_maps[w->output_count] =
        mlirArrayAttrGetElement(e->maps, e->inputs + i);
    w->yields[w->output_count] = w->made[w->places[at] + (size_t)i];
    w->types[w->output_count++] = mlirValueGetType(value);
  }
}

/* Ends the body, and appends the maps of outs. */
static void add_outputs(nabla_fuse_window *w) {
  const MlirLocation location =
      mlirOperationGetLocation(w->plan->index.ops[w->members[0]]);
  for (size_t i = 0; i < w->output_count; i++) {
    w->maps[w->input_count + i] = w->out_maps[i];
    (void)mlirBlockAddArgument(
        w->body, mlirShapedTypeGetElementType(w->types[i]), location);
  }
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("linalg.yield"), location);
  mlirOperationStateAddOperands(&state, (intptr_t)w->output_count, w->yields);
  mlirBlockAppendOwnedOperation(w->body, mlirOperationCreate(&state));
}

bool nabla_fuse_window_init(nabla_fuse_window *w, const nabla_fuse_plan *plan,
                            const size_t *members, size_t count) {
  *w = (nabla_fuse_window){.plan = plan, .members = members, .count = count};
  w->context = nabla_op_context(plan->index.ops[*members]);
  if (!allocate(w)) return false;
  w->body = mlirBlockCreate(0, NULL, NULL);
  for (size_t i = 0, place = 0; i < count; i++) {
    w->places[i] = place;
    place += (size_t)plan->elementwise[members[i]].outputs;
    take_body(w, i);
  }
  for (size_t i = 0; i < count; i++) find_outputs(w, i);
  add_outputs(w);
  return true;
}

MlirOperation nabla_fuse_window_create(nabla_fuse_window *w,
                                       const MlirValue *operands,
                                       bool with_results) {
  const MlirOperation last = w->plan->index.ops[w->members[w->count - 1]];
  const intptr_t count = (intptr_t)(w->input_count + w->output_count);
  const int32_t sizes[2] = {(int32_t)w->input_count, (int32_t)w->output_count};
  const MlirNamedAttribute attributes[3] = {
      nabla_named(w->context, "indexing_maps",
                  mlirArrayAttrGet(w->context, count, w->maps)),
      nabla_named(
          w->context, "iterator_types",
          mlirOperationGetAttributeByName(last, nabla_ref("iterator_types"))),
      nabla_named(w->context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(w->context, 2, sizes))};
  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, w->body);
  w->body = (MlirBlock){NULL};
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("linalg.generic"), mlirOperationGetLocation(last));
  mlirOperationStateAddOperands(&state, count, operands);
  if (with_results)
    mlirOperationStateAddResults(&state, (intptr_t)w->output_count, w->types);
  mlirOperationStateAddAttributes(&state, 3, attributes);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  return mlirOperationCreate(&state);
}
