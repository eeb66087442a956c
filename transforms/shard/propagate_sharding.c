/* nabla-propagate-sharding: from annotations of some values to a layout of all,
 * by the factors of operations, forward and backward, until nothing changes.
 * Rounds of user priorities; in each, first the operations that pass all of
 * their factors through, then all. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/verify/checks.h"
#include "transforms/passes.h"
#include "transforms/shard/factors.h"
#include "transforms/state/state.h"

#define CATEGORY "nabla-propagate-sharding"

typedef struct propagation {
  nabla_grid shard;
  MlirOperation function;
  MlirBlock body;
  nabla_layout_map map;
  int round, last_round; /* user priorities */
} propagation;

static MlirAttribute get(MlirOperation op, const char *key) {
  return mlirOperationGetAttributeByName(op, nabla_ref(key));
}

/* ---- annotations ---- */

static void remark(MlirLocation location, const char *format, const char *first,
                   const char *second) {
  char text[2 * NABLA_MESSAGE_SIZE];
  snprintf(text, sizeof text, format, first, second);
  nablaOptimizationRemark(location, true, "NotDivided", CATEGORY, text);
}

/* Takes atoms from the end of dimension `dim` until the array can be divided;
 * whether none had to be taken. */
static bool fit(propagation *p, nabla_division *layout, intptr_t dim,
                char message[NABLA_MESSAGE_SIZE]) {
  MlirType local;
  bool all = true;
  while (layout->dims[dim].count &&
         !nabla_layout_local(&p->shard, layout, &local, message)) {
    layout->dims[dim].count--;
    all = false;
  }
  return all;
}

/* What a sharding asks of a value: dimensions of this round, and which are
 * closed. `is_strict`: what cannot be done is an error. */
static bool ask(propagation *p, MlirLocation location, MlirValue value,
                MlirAttribute attribute, bool is_strict) {
  char message[NABLA_MESSAGE_SIZE] = "";
  const nabla_sharding sharding = nabla_sharding_read(attribute);
  nabla_division *layout = nabla_layout_at(&p->map, value), wanted;
  if (!layout) return false;
  wanted = nabla_layout_whole(layout->type);
  bool good = !strcmp(sharding.mesh, p->shard.mesh.name);
  if (!good)
    snprintf(message, sizeof message, "the module has no mesh @%s",
             sharding.mesh);
  good = good &&
         nabla_sharding_check(&p->shard.mesh, &sharding, wanted.rank, message);
  if (good && sharding.partial.count) {
    snprintf(message, sizeof message,
             "partial values at functions and constraints are not supported");
    good = false;
  }
  if (good && !nabla_layout_read(&p->shard, &sharding, &wanted)) {
    snprintf(message, sizeof message, "a sub-axis is no product of factors");
    good = false;
  }
  for (uint32_t d = 0; good && d < sharding.rank; d++) {
    const int priority =
        sharding.dims[d].priority < 0 ? 0 : sharding.dims[d].priority;
    if (priority > p->last_round) p->last_round = priority;
    if (!sharding.dims[d].is_open) layout->closed |= (uint32_t)1 << d;
    if (priority != p->round) continue;
    layout->dims[d] = wanted.dims[d];
    if (fit(p, layout, (intptr_t)d, message)) continue;
    good = !is_strict;
    if (good)
      remark(location, "is divided as %s: %s",
             nabla_layout_format(&p->shard, layout).data, message);
  }
  if (good) return true;
  char text[NABLA_MESSAGE_SIZE + 32];
  snprintf(text, sizeof text, "sharding: %s", message);
  mlirEmitError(location, text);
  return false;
}

static bool ask_arguments(propagation *p) {
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(p->body); i++) {
    MlirAttribute attribute =
        nabla_state_attribute(p->function, NABLA_ARGUMENTS, i, NABLA_SHARDING);
    if (mlirAttributeIsNull(attribute)) continue;
    if (!nabla_sharding_is(attribute)) {
      nabla_error_at(p->function, "argument %td: nabla.sharding is no sharding",
                     i);
      return false;
    }
    if (!ask(p, mlirOperationGetLocation(p->function),
             mlirBlockGetArgument(p->body, i), attribute, false))
      return false;
  }
  return true;
}

static bool ask_ops(propagation *p) {
  MlirOperation op = mlirBlockGetFirstOperation(p->body);
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (nabla_is(op, "nabla.sharding_constraint") &&
        !ask(p, mlirOperationGetLocation(op), mlirOperationGetResult(op, 0),
             get(op, "sharding"), true))
      return false;
    MlirAttribute list = get(op, NABLA_SHARDINGS);
    if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)) continue;
    for (intptr_t r = 0; r < mlirArrayAttrGetNumElements(list) &&
                         r < mlirOperationGetNumResults(op);
         r++)
      if (nabla_sharding_is(mlirArrayAttrGetElement(list, r)) &&
          !ask(p, mlirOperationGetLocation(op), mlirOperationGetResult(op, r),
               mlirArrayAttrGetElement(list, r), false))
        return false;
  }
  return true;
}

/* ---- steps ---- */

static bool is_prefix(const nabla_atom_list *a, const nabla_atom_list *b) {
  return a->count <= b->count && !memcmp(a->at, b->at, a->count);
}

/* A packed array that several operations read keeps what the user gave: it
 * cannot be exchanged. */
static bool may_change(MlirValue value) {
  return !nablaTypeIsAImplicit(mlirValueGetType(value)) ||
         nabla_use_count(value) == 1;
}

/* Gives a value more atoms, dimension by dimension, where that is legal. */
static bool offer(propagation *p, MlirValue value, const nabla_division *more) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  nabla_division *layout = nabla_layout_at(&p->map, value);
  bool changed = false;
  if (!layout || !may_change(value)) return false;
  for (intptr_t d = 0; d < layout->rank; d++) {
    const nabla_atom_list *wanted = &more->dims[d];
    if (layout->closed >> d & 1 || wanted->count <= layout->dims[d].count ||
        !is_prefix(&layout->dims[d], wanted))
      continue;
    nabla_division with = *layout;
    with.dims[d].count = 0;
    const uint64_t used = nabla_layout_used(&with);
    with.dims[d] = *wanted;
    bool free = true;
    for (uint32_t i = 0; i < wanted->count; i++)
      free = free && !(used >> wanted->at[i] & 1);
    if (!free || !nabla_layout_local(&p->shard, &with, &local, message))
      continue;
    layout->dims[d] = *wanted;
    changed = true;
  }
  return changed;
}

static bool passes_all(const nabla_factors *f) {
  for (uint32_t i = 0; i < f->count; i++)
    if (f->all[i].kind != NABLA_FACTOR_PASS) return false;
  return true;
}

/* An atom divides one factor: contractions count before others. */
static void resolve(const nabla_factors *f, nabla_atom_list *lists) {
  uint64_t used = 0;
  for (int reduced = 1; reduced >= 0; reduced--)
    for (uint32_t i = 0; i < f->count; i++) {
      if ((f->all[i].kind == NABLA_FACTOR_REDUCE) != reduced) continue;
      uint32_t k = 0;
      while (k < lists[i].count && !(used >> lists[i].at[k] & 1))
        used |= (uint64_t)1 << lists[i].at[k++];
      lists[i].count = k;
    }
}

static bool step(propagation *p, MlirOperation op, bool all) {
  nabla_factors f;
  nabla_atom_list best[NABLA_MAX_FACTORS], lists[NABLA_MAX_FACTORS];
  if (!nabla_op_factors(op, &f) || (!all && !passes_all(&f))) return false;
  memset(best, 0, sizeof best);
  for (uint32_t a = 0; a < f.array_count; a++) {
    const nabla_division *layout = nabla_layout_at(&p->map, f.arrays[a].value);
    if (!layout ||
        !nabla_factors_split(&p->shard, &f, &f.arrays[a], layout, lists))
      continue;
    for (uint32_t i = 0; i < f.count; i++)
      if (f.all[i].kind != NABLA_FACTOR_WHOLE && lists[i].count > best[i].count)
        best[i] = lists[i];
  }
  resolve(&f, best);
  bool changed = false;
  for (uint32_t a = 0; a < f.array_count; a++) {
    const nabla_division more =
        nabla_factors_join(&p->shard, &f, &f.arrays[a], best);
    changed = offer(p, f.arrays[a].value, &more) || changed;
  }
  return changed;
}

/* A state and the value that replaces it have one layout. */
static bool tie_states(propagation *p, MlirOperation end) {
  bool changed = false;
  for (intptr_t r = 0; r < mlirOperationGetNumOperands(end); r++) {
    MlirStringRef name = nabla_state_name(p->function, NABLA_RESULTS, r);
    const intptr_t i = name.data ? nabla_state_argument(p->function, name) : -1;
    if (i < 0) continue;
    MlirValue argument = mlirBlockGetArgument(p->body, i);
    MlirValue value = mlirOperationGetOperand(end, r);
    const nabla_division *one = nabla_layout_at(&p->map, argument);
    const nabla_division from =
        one ? *one : nabla_layout_whole((MlirType){NULL});
    changed = offer(p, value, &from) || changed;
    const nabla_division *other = nabla_layout_at(&p->map, value);
    const nabla_division back =
        other ? *other : nabla_layout_whole((MlirType){NULL});
    changed = offer(p, argument, &back) || changed;
  }
  return changed;
}

static bool sweep(propagation *p, bool all) {
  bool changed = false;
  MlirOperation op = mlirBlockGetFirstOperation(p->body);
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    changed = step(p, op, all) || changed;
  return tie_states(p, mlirBlockGetTerminator(p->body)) || changed;
}

static bool propagate(propagation *p) {
  for (p->round = 0; p->round <= p->last_round; p->round++) {
    if (!ask_arguments(p) || !ask_ops(p)) return false;
    do {
      while (sweep(p, false) && !p->map.failed) continue;
    } while (sweep(p, true) && !p->map.failed);
  }
  return !p->map.failed;
}

/* ---- writing ---- */

static void write_arguments(propagation *p) {
  const intptr_t count = mlirBlockGetNumArguments(p->body);
  MlirAttribute *values = calloc((size_t)count + 1, sizeof *values);
  if (!values) return;
  nabla_state_strip(p->function, NABLA_ARGUMENTS, NABLA_SHARDING);
  for (intptr_t i = 0; i < count; i++) {
    const nabla_division *layout =
        nabla_layout_at(&p->map, mlirBlockGetArgument(p->body, i));
    if (layout && !nabla_layout_is_whole(layout))
      values[i] = nabla_layout_attribute(&p->shard,
                                         nabla_op_context(p->function), layout);
  }
  nabla_arguments_set(p->function, NABLA_SHARDING, values);
  free(values);
}

static void write_op(propagation *p, MlirOperation op) {
  MlirAttribute list[NABLA_MAX_RESULTS];
  const intptr_t count = mlirOperationGetNumResults(op);
  bool whole = true;
  mlirOperationRemoveAttributeByName(op, nabla_ref(NABLA_SHARDINGS));
  if (count > NABLA_MAX_RESULTS) return;
  for (intptr_t r = 0; r < count; r++) {
    const nabla_division *layout =
        nabla_layout_at(&p->map, mlirOperationGetResult(op, r));
    if (!layout) return;
    whole = whole && nabla_layout_is_whole(layout);
    list[r] = nabla_layout_attribute(&p->shard, nabla_op_context(op), layout);
  }
  if (!whole)
    mlirOperationSetAttributeByName(
        op, nabla_ref(NABLA_SHARDINGS),
        mlirArrayAttrGet(nabla_op_context(op), count, list));
}

static bool is_function(MlirOperation op) {
  return nabla_is(op, "func.func") && !mlirBlockIsNull(mlirRegionGetFirstBlock(
                                          mlirOperationGetRegion(op, 0)));
}

static bool run_function(MlirOperation function, void *self) {
  const nabla_grid *shard = self;
  propagation p = {
      .shard = *shard,
      .function = function,
      .body = mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0))};
  bool good = true;
  if (mlirAttributeIsNull(get(function, NABLA_PARTITIONED))) {
    good = propagate(&p);
    if (good) write_arguments(&p);
    MlirOperation op = mlirBlockGetFirstOperation(p.body);
    for (; good && !mlirOperationIsNull(op);
         op = mlirOperationGetNextInBlock(op))
      write_op(&p, op);
  }
  if (p.map.failed) nabla_error_at(function, "is too large to divide");
  nabla_layout_map_deinit(&p.map);
  return good;
}

/* ---- without a mesh ---- */

static bool is_constraint(MlirOperation op) {
  return nabla_is(op, "nabla.sharding_constraint");
}

static bool drop_constraint(MlirOperation op, void *self) {
  (void)self;
  nablaOptimizationRemark(mlirOperationGetLocation(op), true, "NoMesh",
                          CATEGORY, "a sharding is dropped: there is no mesh");
  MlirValue value = mlirOperationGetOperand(op, 0);
  nabla_op_replace(op, &value);
  return true;
}

static bool drop_function(MlirOperation op, void *self) {
  (void)self;
  MlirType type = mlirTypeAttrGetValue(get(op, "function_type"));
  bool any = false;
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumInputs(type); i++)
    any = any || !mlirAttributeIsNull(nabla_state_attribute(op, NABLA_ARGUMENTS,
                                                            i, NABLA_SHARDING));
  if (!any) return true;
  nablaOptimizationRemark(mlirOperationGetLocation(op), true, "NoMesh",
                          CATEGORY, "shardings are dropped: there is no mesh");
  nabla_state_strip(op, NABLA_ARGUMENTS, NABLA_SHARDING);
  return true;
}

MlirLogicalResult nabla_run_propagate_sharding(MlirOperation op,
                                               const nablaPassValue *values,
                                               void *prepared) {
  (void)values, (void)prepared;
  nabla_grid shard;
  size_t meshes = 0;
  if (!nabla_shard_begin(op, &shard, &meshes))
    return mlirLogicalResultFailure();
  if (meshes) return nabla_ops_each(op, is_function, run_function, &shard);
  if (mlirLogicalResultIsFailure(
          nabla_ops_each(op, is_constraint, drop_constraint, NULL)))
    return mlirLogicalResultFailure();
  return nabla_ops_each(op, is_function, drop_function, NULL);
}
