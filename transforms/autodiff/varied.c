/* See varied.h. */
#include "transforms/autodiff/varied.h"

#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/ops.h"
#include "transforms/autodiff/rules.h"
#include "transforms/ir/block_index.h"
#include "transforms/ir/values.h"

void nabla_varied_add(nabla_value_map *varied, MlirValue value) {
  if (nabla_diff_has(mlirValueGetType(value)))
    nabla_value_map_set(varied, value, value);
}

static bool has(const nabla_value_map *varied, MlirValue value) {
  return nabla_value_map_has(varied, value);
}

typedef struct search {
  const nabla_value_map *varied;
  bool found;
} search;

static MlirWalkResult look(MlirOperation op, void *self) {
  search *s = self;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    s->found = s->found || has(s->varied, mlirOperationGetOperand(op, i));
  return s->found ? MlirWalkResultInterrupt : MlirWalkResultAdvance;
}

bool nabla_varied_uses(const nabla_value_map *varied, MlirOperation op) {
  search s = {varied, false};
  if (mlirOperationGetNumRegions(op))
    mlirOperationWalk(op, look, &s, MlirWalkPreOrder);
  else
    (void)look(op, &s);
  return s.found;
}

/* ---- control flow ---- */

static void add_all(nabla_value_map *varied, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    nabla_varied_add(varied, mlirOperationGetResult(op, i));
}

/* `to` depends on what `from` does. */
static void pass(nabla_value_map *varied, MlirValue from, MlirValue to) {
  if (has(varied, from)) nabla_varied_add(varied, to);
}

static void mark_cond(nabla_value_map *varied, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
    MlirBlock block = nabla_region_block(op, i);
    nabla_varied_mark(varied, block);
    MlirOperation end = nabla_block_end(block);
    for (intptr_t j = 0; j < mlirOperationGetNumResults(op); j++)
      pass(varied, mlirOperationGetOperand(end, j),
           mlirOperationGetResult(op, j));
  }
}

/* Until no more carries depend on what varies. */
static void mark_scan(nabla_value_map *varied, MlirOperation op) {
  const nabla_scan_parts scan = nabla_scan_read(op);
  MlirBlock body = nabla_region_block(op, 0);
  MlirOperation end = nabla_block_end(body);
  for (intptr_t i = 0; i < scan.carries + scan.inputs; i++)
    pass(varied, mlirOperationGetOperand(op, i), mlirBlockGetArgument(body, i));
  for (size_t before = 0; before != varied->count && !varied->failed;) {
    before = varied->count;
    nabla_varied_mark(varied, body);
    for (intptr_t i = 0; i < scan.carries; i++)
      pass(varied, mlirOperationGetOperand(end, i),
           mlirBlockGetArgument(body, i));
  }
  for (intptr_t i = 0; i < scan.carries; i++)
    pass(varied, mlirBlockGetArgument(body, i), mlirOperationGetResult(op, i));
  for (intptr_t i = scan.carries; i < mlirOperationGetNumResults(op); i++)
    pass(varied, mlirOperationGetOperand(end, i),
         mlirOperationGetResult(op, i));
}

static void mark_while(nabla_value_map *varied, MlirOperation op) {
  MlirBlock test = nabla_region_block(op, 0), body = nabla_region_block(op, 1);
  MlirOperation test_end = nabla_block_end(test);
  MlirOperation body_end = nabla_block_end(body);
  const intptr_t count = mlirOperationGetNumOperands(op);
  for (intptr_t i = 0; i < count; i++)
    pass(varied, mlirOperationGetOperand(op, i), mlirBlockGetArgument(test, i));
  for (size_t before = 0; before != varied->count && !varied->failed;) {
    before = varied->count;
    nabla_varied_mark(varied, test);
    for (intptr_t i = 0; i < count; i++) {
      MlirValue passed = mlirOperationGetOperand(test_end, i + 1);
      pass(varied, passed, mlirBlockGetArgument(body, i));
      pass(varied, passed, mlirOperationGetResult(op, i));
    }
    nabla_varied_mark(varied, body);
    for (intptr_t i = 0; i < count; i++)
      pass(varied, mlirOperationGetOperand(body_end, i),
           mlirBlockGetArgument(test, i));
  }
}

static void mark_shard_map(nabla_value_map *varied, MlirOperation op) {
  MlirBlock body = nabla_region_block(op, 0);
  MlirOperation end = nabla_block_end(body);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    pass(varied, mlirOperationGetOperand(op, i), mlirBlockGetArgument(body, i));
  nabla_varied_mark(varied, body);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    pass(varied, mlirOperationGetOperand(end, i),
         mlirOperationGetResult(op, i));
}

void nabla_varied_mark(nabla_value_map *varied, MlirBlock block) {
  for (MlirOperation op = mlirBlockGetFirstOperation(block);
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (nabla_diff_is_zero(op) || !nabla_varied_uses(varied, op)) continue;
    if (nabla_is(op, "nabla.cond") || nabla_is(op, "nabla.remat"))
      mark_cond(varied, op);
    else if (nabla_is(op, "nabla.barrier"))
      for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
        pass(varied, mlirOperationGetOperand(op, i),
             mlirOperationGetResult(op, i));
    else if (nabla_is(op, "nabla.shard_map"))
      mark_shard_map(varied, op);
    else if (nabla_is(op, "nabla.scan"))
      mark_scan(varied, op);
    else if (nabla_is(op, "nabla.while"))
      mark_while(varied, op);
    else
      add_all(varied, op);
  }
}

/* ---- lists ---- */

void nabla_value_list_add(nabla_value_list *list, MlirValue value) {
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity ? 2 * list->capacity : 16;
    MlirValue *values = realloc(list->values, capacity * sizeof *values);
    if (!values) {
      list->failed = true;
      return;
    }
    list->values = values;
    list->capacity = capacity;
  }
  list->values[list->count++] = value;
}

void nabla_value_list_deinit(nabla_value_list *list) {
  free(list->values);
  *list = (nabla_value_list){0};
}

typedef struct capture {
  const nabla_value_map *varied;
  MlirOperation op;
  nabla_value_map seen;
  nabla_value_list *out;
} capture;

static MlirWalkResult add_captured(MlirOperation op, void *self) {
  capture *c = self;
  if (mlirOperationEqual(op, c->op)) return MlirWalkResultAdvance;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    if ((c->varied && !has(c->varied, value)) || has(&c->seen, value) ||
        nabla_value_is_inside(value, c->op))
      continue;
    nabla_value_map_set(&c->seen, value, value);
    nabla_value_list_add(c->out, value);
  }
  return MlirWalkResultAdvance;
}

void nabla_varied_captured(const nabla_value_map *varied, MlirOperation op,
                           nabla_value_list *out) {
  capture c = {varied, op, {0}, out};
  mlirOperationWalk(op, add_captured, &c, MlirWalkPreOrder);
  if (c.seen.failed) out->failed = true;
  nabla_value_map_deinit(&c.seen);
}

/* ---- copies ---- */

MlirValue nabla_copied(const nabla_value_map *map, MlirValue value) {
  MlirValue copy = nabla_value_map_get(map, value);
  return mlirValueIsNull(copy) ? value : copy;
}

static MlirWalkResult rename_operands(MlirOperation op, void *map) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue copy = nabla_value_map_get(map, mlirOperationGetOperand(op, i));
    if (!mlirValueIsNull(copy)) mlirOperationSetOperand(op, i, copy);
  }
  return MlirWalkResultAdvance;
}

bool nabla_block_copy(MlirBlock block, MlirOperation before,
                      nabla_value_map *map) {
  MlirOperation end = nabla_block_end(block);
  for (MlirOperation op = mlirBlockGetFirstOperation(block);
       !mlirOperationEqual(op, end); op = mlirOperationGetNextInBlock(op)) {
    MlirOperation copy = mlirOperationClone(op);
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(before), before,
                                        copy);
    mlirOperationWalk(copy, rename_operands, map, MlirWalkPreOrder);
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
      nabla_value_map_set(map, mlirOperationGetResult(op, i),
                          mlirOperationGetResult(copy, i));
  }
  return !map->failed;
}

/* ---- functions and effects ---- */

MlirOperation nabla_function_named(MlirOperation module, MlirStringRef name) {
  for (MlirOperation at =
           mlirBlockGetFirstOperation(nabla_region_block(module, 0));
       !mlirOperationIsNull(at); at = mlirOperationGetNextInBlock(at)) {
    if (!nabla_is(at, "func.func")) continue;
    MlirAttribute have =
        mlirOperationGetAttributeByName(at, nabla_ref("sym_name"));
    if (mlirStringRefEqual(mlirStringAttrGetValue(have), name)) return at;
  }
  return (MlirOperation){NULL};
}

MlirOperation nabla_callee(MlirOperation module, MlirOperation call) {
  MlirAttribute callee =
      mlirOperationGetAttributeByName(call, nabla_ref("callee"));
  return nabla_function_named(module, mlirFlatSymbolRefAttrGetValue(callee));
}

enum { MAX_CALLS = 64 }; /* depth of calls that effects are searched in */

typedef struct effects {
  MlirOperation module;
  int depth;
  bool found;
} effects;

static MlirWalkResult find_effects(MlirOperation op, void *self) {
  effects *e = self;
  if (nabla_is(op, "nabla.custom_call") &&
      mlirAttributeIsNull(
          mlirOperationGetAttributeByName(op, nabla_ref("pure"))))
    e->found = true;
  if (nabla_is(op, "func.call")) {
    MlirOperation callee = nabla_callee(e->module, op);
    effects inner = {e->module, e->depth + 1, false};
    if (mlirOperationIsNull(callee) || inner.depth > MAX_CALLS ||
        mlirBlockIsNull(
            mlirRegionGetFirstBlock(mlirOperationGetRegion(callee, 0))))
      inner.found = true;
    else
      mlirOperationWalk(callee, find_effects, &inner, MlirWalkPreOrder);
    e->found = e->found || inner.found;
  }
  return e->found ? MlirWalkResultInterrupt : MlirWalkResultAdvance;
}

bool nabla_has_effects(MlirOperation module, MlirOperation op) {
  effects e = {module, 0, false};
  mlirOperationWalk(op, find_effects, &e, MlirWalkPreOrder);
  return e.found;
}

static bool is_used(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (!mlirOpOperandIsNull(
            mlirValueGetFirstUse(mlirOperationGetResult(op, i))))
      return true;
  return false;
}

/* Operations that may be erased: those of the dialect, calls, and what computes
 * sizes; others may write memory. */
static bool may_erase(MlirOperation op) {
  MlirStringRef name = nabla_name(op);
  const bool notes = !mlirOperationGetNumResults(op); /* of shardings */
  return (nabla_op_find(op) && !notes) || nabla_is(op, "func.call") ||
         nabla_is(op, "tensor.dim") || nabla_is(op, "tensor.cast") ||
         (name.length > 6 && !memcmp(name.data, "arith.", 6));
}

void nabla_unused_erase(MlirOperation module, MlirBlock block) {
  nabla_block_index index;
  bool good = nabla_block_index_init(&index, block);
  for (size_t i = index.count; good && i-- > 0;) {
    MlirOperation op = index.ops[i];
    if (!is_used(op) && may_erase(op) && !nabla_has_effects(module, op)) {
      nabla_op_erase(op);
      continue;
    }
    for (intptr_t j = 0; j < mlirOperationGetNumRegions(op); j++)
      if (!mlirBlockIsNull(nabla_region_block(op, j)))
        nabla_unused_erase(module, nabla_region_block(op, j));
  }
  nabla_block_index_deinit(&index);
}
