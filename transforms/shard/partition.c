/* nabla-partition: the program of one device, the same text for all. First a
 * plan for each operation, while types are those of the whole: how its factors
 * are divided. Then types become local, in place, and exchanges are added
 * where an operation needs a value in another layout than it has. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "transforms/passes.h"
#include "transforms/shard/factors.h"
#include "transforms/shard/reshard.h"
#include "transforms/state/state.h"

#define CATEGORY "nabla-partition"

/* How one operation is divided. */
typedef struct plan {
  MlirOperation op;
  bool is_divided; /* by its factors; else every device computes all of it */
  nabla_factors factors;
  nabla_atom_list lists[NABLA_MAX_FACTORS];
} plan;

typedef struct partition {
  const nabla_grid *shard;
  MlirOperation function;
  MlirBlock body;
  nabla_layout_map map;
  plan *plans;
  size_t count;
} partition;

static MlirAttribute get(MlirOperation op, const char *key) {
  return mlirOperationGetAttributeByName(op, nabla_ref(key));
}

static nabla_division layout_of(partition *p, MlirValue value) {
  const nabla_division *layout = nabla_layout_at(&p->map, value);
  return layout ? *layout : nabla_layout_whole(mlirValueGetType(value));
}

/* ---- layouts from attributes ---- */

static bool read_layouts(partition *p) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(p->body); i++) {
    MlirValue argument = mlirBlockGetArgument(p->body, i);
    nabla_division *layout = nabla_layout_at(&p->map, argument);
    if (!layout) return false;
    *layout = nabla_layout_of_argument(p->shard, p->function, i, layout->type);
    if (nabla_layout_local(p->shard, layout, &local, message)) continue;
    nabla_error_at(p->function,
                   "argument %td: %s; run --nabla-propagate-sharding first", i,
                   message);
    return false;
  }
  MlirOperation op = mlirBlockGetFirstOperation(p->body);
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    MlirAttribute list = get(op, NABLA_SHARDINGS);
    if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)) continue;
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op) &&
                         r < mlirArrayAttrGetNumElements(list);
         r++) {
      nabla_division *layout =
          nabla_layout_at(&p->map, mlirOperationGetResult(op, r));
      if (!layout) return false;
      const nabla_sharding sharding =
          nabla_sharding_read(mlirArrayAttrGetElement(list, r));
      if (!nabla_layout_read(p->shard, &sharding, layout) ||
          !nabla_layout_local(p->shard, layout, &local, message))
        *layout = nabla_layout_whole(layout->type);
    }
  }
  return !p->map.failed;
}

/* ---- plans ---- */

static void remark(MlirOperation op, const char *why) {
  nablaOptimizationRemark(mlirOperationGetLocation(op), true, "NotDivided",
                          CATEGORY, why);
}

/* Factors of packed operands are divided as these are, which cannot be
 * exchanged: `forced` has a bit for each. */
static uint32_t force(partition *p, plan *it) {
  nabla_atom_list lists[NABLA_MAX_FACTORS];
  nabla_factors *f = &it->factors;
  uint32_t forced = 0;
  for (uint32_t a = 0; a < f->array_count; a++) {
    const nabla_factor_array *array = &f->arrays[a];
    const nabla_division layout = layout_of(p, array->value);
    if (array->is_result || !nablaTypeIsAImplicit(layout.type) ||
        !nabla_factors_split(p->shard, f, array, &layout, lists))
      continue;
    for (intptr_t d = 0; d < array->rank; d++)
      for (uint8_t i = 0; i < array->dims[d].count; i++) {
        const uint8_t factor = array->dims[d].at[i];
        if (f->all[factor].kind == NABLA_FACTOR_WHOLE) continue;
        it->lists[factor] = lists[factor];
        forced |= (uint32_t)1 << factor;
      }
  }
  return forced;
}

/* The longest list that an array gives to each factor. */
static void choose(partition *p, plan *it, uint32_t forced) {
  nabla_atom_list lists[NABLA_MAX_FACTORS];
  nabla_factors *f = &it->factors;
  for (uint32_t a = 0; a < f->array_count; a++) {
    const nabla_division layout = layout_of(p, f->arrays[a].value);
    if (!nabla_factors_split(p->shard, f, &f->arrays[a], &layout, lists))
      continue;
    for (uint32_t i = 0; i < f->count; i++)
      if (f->all[i].kind != NABLA_FACTOR_WHOLE && !(forced >> i & 1) &&
          lists[i].count > it->lists[i].count)
        it->lists[i] = lists[i];
  }
}

/* An atom divides one factor: those of packed operands count first, then
 * contractions. */
static void resolve(plan *it, uint32_t forced) {
  const nabla_factors *f = &it->factors;
  uint64_t used = 0;
  for (int turn = 0; turn < 3; turn++)
    for (uint32_t i = 0; i < f->count; i++) {
      const int own = forced >> i & 1                         ? 0
                      : f->all[i].kind == NABLA_FACTOR_REDUCE ? 1
                                                              : 2;
      if (own != turn) continue;
      uint32_t k = 0;
      while (k < it->lists[i].count && !(used >> it->lists[i].at[k] & 1))
        used |= (uint64_t)1 << it->lists[i].at[k++];
      if (k < it->lists[i].count)
        remark(it->op, "an axis is wanted for two factors: one is not divided");
      it->lists[i].count = k;
    }
}

/* Takes the last atom from the last factor of an array that has one. */
static bool take_atom(plan *it, const nabla_factor_array *array) {
  for (intptr_t d = array->rank; d-- > 0;)
    for (uint8_t i = array->dims[d].count; i-- > 0;) {
      nabla_atom_list *list = &it->lists[array->dims[d].at[i]];
      if (list->count) return list->count--;
    }
  return false;
}

/* A factor behind one that is not wholly divided has no place in a dimension:
 * it is not divided at all. */
static bool drop_hidden(partition *p, plan *it,
                        const nabla_factor_array *array) {
  bool changed = false;
  for (intptr_t d = 0; d < array->rank; d++)
    for (uint8_t i = 1; i < array->dims[d].count; i++) {
      const uint8_t before = array->dims[d].at[i - 1];
      nabla_atom_list *list = &it->lists[array->dims[d].at[i]];
      if (!list->count ||
          nabla_atoms_product(&p->shard->atoms, &it->lists[before]) ==
              it->factors.all[before].size)
        continue;
      list->count = 0;
      changed = true;
    }
  return changed;
}

/* Divides factors less where an array cannot be divided so. */
static void limit(partition *p, plan *it) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  bool changed = true;
  while (changed) {
    changed = false;
    for (uint32_t a = 0; a < it->factors.array_count; a++) {
      const nabla_factor_array *array = &it->factors.arrays[a];
      changed = drop_hidden(p, it, array) || changed;
      nabla_division layout =
          nabla_factors_join(p->shard, &it->factors, array, it->lists);
      layout.type = layout_of(p, array->value).type;
      if (nabla_layout_local(p->shard, &layout, &local, message)) continue;
      if (!take_atom(it, array)) break;
      remark(it->op, message);
      changed = true;
    }
  }
}

static void make_plan(partition *p, plan *it, MlirOperation op) {
  memset(it, 0, sizeof *it);
  it->op = op;
  it->is_divided = nabla_op_factors(op, &it->factors);
  if (!it->is_divided) return;
  const uint32_t forced = force(p, it);
  choose(p, it, forced);
  resolve(it, forced);
  limit(p, it);
}

static bool make_plans(partition *p) {
  MlirOperation op = mlirBlockGetFirstOperation(p->body);
  size_t count = 0;
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    count++;
  p->plans = calloc(count + 1, sizeof *p->plans);
  if (!p->plans) return false;
  op = mlirBlockGetFirstOperation(p->body);
  for (; p->count < count; op = mlirOperationGetNextInBlock(op))
    make_plan(p, &p->plans[p->count++], op);
  return !p->map.failed;
}

/* ---- operands ---- */

/* `value`, which has its layout of the map, in another one. */
static bool bring(partition *p, MlirOperation op, intptr_t operand,
                  const nabla_division *to) {
  MlirOperation first;
  MlirValue value = mlirOperationGetOperand(op, operand);
  const nabla_division from = layout_of(p, value);
  if (!nabla_layout_takes(from.type)) return true;
  MlirValue made = nabla_reshard(p->shard, op, value, &from, to, &first);
  if (mlirValueIsNull(made)) return false;
  if (!mlirValueEqual(made, value)) mlirOperationSetOperand(op, operand, made);
  return true;
}

typedef struct inside {
  partition *p;
  MlirOperation outer;
  bool failed;
} inside;

/* Operations in regions see whole values. */
static MlirWalkResult bring_inside(MlirOperation op, void *self) {
  inside *in = self;
  if (mlirOperationEqual(op, in->outer)) return MlirWalkResultAdvance;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    const nabla_division from = layout_of(in->p, value);
    if (!nabla_layout_takes(from.type) || nabla_layout_is_whole(&from))
      continue;
    MlirOperation first;
    const nabla_division whole = nabla_layout_whole(from.type);
    MlirValue made =
        nabla_reshard(in->p->shard, in->outer, value, &from, &whole, &first);
    if (mlirValueIsNull(made)) {
      in->failed = true;
      return MlirWalkResultInterrupt;
    }
    mlirOperationSetOperand(op, i, made);
  }
  return MlirWalkResultAdvance;
}

/* Every device computes all of it. */
static bool bring_whole(partition *p, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const nabla_division from = layout_of(p, mlirOperationGetOperand(op, i));
    const nabla_division whole = nabla_layout_whole(from.type);
    if (!bring(p, op, i, &whole)) return false;
  }
  if (!mlirOperationGetNumRegions(op)) return true;
  inside in = {p, op, false};
  mlirOperationWalk(op, bring_inside, &in, MlirWalkPreOrder);
  return !in.failed;
}

static bool bring_divided(partition *p, const plan *it) {
  for (uint32_t a = 0; a < it->factors.array_count; a++) {
    const nabla_factor_array *array = &it->factors.arrays[a];
    if (array->is_result) continue;
    nabla_division to =
        nabla_factors_join(p->shard, &it->factors, array, it->lists);
    MlirValue value = mlirOperationGetOperand(it->op, array->index);
    to.type = layout_of(p, value).type;
    if (!bring(p, it->op, array->index, &to)) return false;
  }
  nabla_factors_adjust(it->op, p->shard, &it->factors, it->lists);
  return true;
}

/* ---- results ---- */

typedef struct result {
  MlirValue value, now;  /* as the operation gives it; as it is brought on */
  nabla_division layout; /* of `now` */
  MlirOperation next, first;
} result;

static void note_first(result *r) {
  if (mlirOperationIsNull(r->first)) r->first = nabla_defining_op(r->now);
}

/* Whether the join may leave each device its own piece, as `to` wants it along
 * a dimension. */
static intptr_t scatters(const result *r, const nabla_division *to,
                         const nabla_atom_list *atoms) {
  for (intptr_t d = 0; d < to->rank; d++) {
    const nabla_atom_list *now = &r->layout.dims[d], *then = &to->dims[d];
    if (then->count != now->count + atoms->count ||
        memcmp(now->at, then->at, now->count) ||
        memcmp(then->at + now->count, atoms->at, atoms->count))
      continue;
    return d;
  }
  return -1;
}

/* Joins what devices have summed of factors that are reduced. */
static bool join(partition *p, const plan *it, result *r,
                 const nabla_division *to) {
  char message[NABLA_MESSAGE_SIZE];
  for (uint32_t i = 0; i < it->factors.count; i++) {
    const nabla_factor *factor = &it->factors.all[i];
    const nabla_atom_list *atoms = &it->lists[i];
    if (factor->kind != NABLA_FACTOR_REDUCE || !atoms->count) continue;
    const intptr_t dim = scatters(r, to, atoms);
    nabla_division after = r->layout;
    MlirType type;
    if (dim >= 0) after.dims[dim] = to->dims[dim];
    if (dim >= 0 && nabla_layout_local(p->shard, &after, &type, message)) {
      r->now = nabla_reshard_scatter(p->shard, r->next, r->now, factor->join,
                                     dim, atoms, type);
      r->layout = after;
    } else {
      r->now =
          nabla_reshard_join(p->shard, r->next, r->now, factor->join, atoms);
    }
    if (mlirValueIsNull(r->now)) return false;
    note_first(r);
  }
  return true;
}

/* Makes a result local, and brings it to the layout that its users expect. */
static bool finish_result(partition *p, const plan *it, intptr_t index) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  MlirValue value = mlirOperationGetResult(it->op, index);
  const nabla_division to = layout_of(p, value);
  if (!nabla_layout_takes(to.type)) return true;
  result r = {.value = value,
              .now = value,
              .layout = nabla_layout_whole(to.type),
              .next = mlirOperationGetNextInBlock(it->op)};
  for (uint32_t a = 0; it->is_divided && a < it->factors.array_count; a++)
    if (it->factors.arrays[a].is_result && it->factors.arrays[a].index == index)
      r.layout = nabla_factors_join(p->shard, &it->factors,
                                    &it->factors.arrays[a], it->lists);
  r.layout.type = to.type;
  if (!nabla_layout_local(p->shard, &r.layout, &local, message)) {
    nabla_error_at(it->op, "%s", message);
    return false;
  }
  const nabla_division natural = r.layout;
  mlirValueSetType(value, local);
  if (it->is_divided && !join(p, it, &r, &to)) return false;
  MlirOperation first;
  r.now = nabla_reshard(p->shard, r.next, r.now, &r.layout, &to, &first);
  if (mlirValueIsNull(r.now)) return false;
  if (mlirOperationIsNull(r.first)) r.first = first;
  if (mlirOperationIsNull(r.first)) return true;
  mlirValueReplaceAllUsesExcept(value, r.now, 1, &r.first);
  nabla_division *entry = nabla_layout_at(&p->map, r.now);
  if (entry) *entry = to;
  entry = nabla_layout_at(&p->map, value);
  if (entry) *entry = natural;
  return !p->map.failed;
}

/* ---- functions ---- */

/* States keep the layout of their argument, other results are whole. */
static bool finish_return(partition *p, MlirOperation end) {
  for (intptr_t r = 0; r < mlirOperationGetNumOperands(end); r++) {
    MlirStringRef name = nabla_state_name(p->function, NABLA_RESULTS, r);
    const intptr_t argument =
        name.data ? nabla_state_argument(p->function, name) : -1;
    const nabla_division from = layout_of(p, mlirOperationGetOperand(end, r));
    const nabla_division to =
        argument < 0 ? nabla_layout_whole(from.type)
                     : layout_of(p, mlirBlockGetArgument(p->body, argument));
    if (!bring(p, end, r, &to)) return false;
  }
  return true;
}

static bool apply(partition *p, const plan *it) {
  MlirOperation op = it->op;
  mlirOperationRemoveAttributeByName(op, nabla_ref(NABLA_SHARDINGS));
  if (nabla_is(op, "func.return")) return finish_return(p, op);
  if (!(it->is_divided ? bring_divided(p, it) : bring_whole(p, op)))
    return false;
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
    if (!finish_result(p, it, r)) return false;
  return true;
}

/* Constraints are met. They go last: plans know values of theirs. */
static void erase_constraints(partition *p) {
  for (size_t i = 0; i < p->count; i++) {
    MlirOperation op = p->plans[i].op;
    if (!nabla_is(op, "nabla.sharding_constraint")) continue;
    MlirValue value = mlirOperationGetOperand(op, 0);
    nabla_op_replace(op, &value);
  }
}

static void set_function_type(partition *p) {
  MlirOperation end = mlirBlockGetTerminator(p->body);
  const intptr_t inputs = mlirBlockGetNumArguments(p->body);
  const intptr_t results = mlirOperationGetNumOperands(end);
  MlirType *types = calloc((size_t)(inputs + results) + 1, sizeof *types);
  if (!types) return;
  for (intptr_t i = 0; i < inputs; i++)
    types[i] = mlirValueGetType(mlirBlockGetArgument(p->body, i));
  for (intptr_t i = 0; i < results; i++)
    types[inputs + i] = nabla_operand_type(end, i);
  mlirOperationSetAttributeByName(
      p->function, nabla_ref("function_type"),
      mlirTypeAttrGet(mlirFunctionTypeGet(nabla_op_context(p->function), inputs,
                                          types, results, types + inputs)));
  free(types);
}

static void set_arguments(partition *p) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(p->body); i++) {
    MlirValue argument = mlirBlockGetArgument(p->body, i);
    const nabla_division layout = layout_of(p, argument);
    if (nabla_layout_takes(layout.type) &&
        nabla_layout_local(p->shard, &layout, &local, message))
      mlirValueSetType(argument, local);
  }
}

static bool refuse_results(MlirOperation function) {
  MlirType type = mlirTypeAttrGetValue(get(function, "function_type"));
  for (intptr_t r = 0; r < mlirFunctionTypeGetNumResults(type); r++) {
    if (mlirAttributeIsNull(
            nabla_state_attribute(function, NABLA_RESULTS, r, NABLA_SHARDING)))
      continue;
    nabla_error_at(function,
                   "result %td has a sharding: results that are no states are "
                   "gathered, and have none",
                   r);
    return false;
  }
  return true;
}

static bool divide(partition *p) {
  if (!read_layouts(p) || !make_plans(p)) return false;
  set_arguments(p);
  for (size_t i = 0; i < p->count; i++)
    if (!apply(p, &p->plans[i])) return false;
  erase_constraints(p);
  set_function_type(p);
  nabla_state_strip(p->function, NABLA_ARGUMENTS, NABLA_SHARDING);
  mlirOperationSetAttributeByName(
      p->function, nabla_ref(NABLA_PARTITIONED),
      mlirFlatSymbolRefAttrGet(nabla_op_context(p->function),
                               nabla_ref(p->shard->mesh.name)));
  return true;
}

static bool is_function(MlirOperation op) {
  return nabla_is(op, "func.func") &&
         mlirAttributeIsNull(get(op, NABLA_PARTITIONED)) &&
         !mlirBlockIsNull(
             mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)));
}

/* Calls pass whole values. */
static bool check_called(MlirOperation function) {
  MlirAttribute seen = get(function, "sym_visibility");
  MlirType type = mlirTypeAttrGetValue(get(function, "function_type"));
  if (mlirAttributeIsNull(seen)) return true;
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumInputs(type); i++) {
    if (mlirAttributeIsNull(nabla_state_attribute(function, NABLA_ARGUMENTS, i,
                                                  NABLA_SHARDING)))
      continue;
    nabla_error_at(function,
                   "is private and has a sharding: functions that are called "
                   "take whole values");
    return false;
  }
  return true;
}

static bool run_function(MlirOperation function, void *self) {
  partition p = {
      .shard = self,
      .function = function,
      .body = mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0))};
  MlirBlock second = mlirBlockGetNextInRegion(p.body);
  if (!mlirBlockIsNull(second)) {
    nabla_error_at(function, "has several blocks: it cannot be divided");
    return false;
  }
  const bool good =
      refuse_results(function) && check_called(function) && divide(&p);
  if (p.map.failed) nabla_error_at(function, "is too large to divide");
  nabla_layout_map_deinit(&p.map);
  free(p.plans);
  return good;
}

MlirLogicalResult nabla_run_partition(MlirOperation op,
                                      const nablaPassValue *values,
                                      void *prepared) {
  (void)values, (void)prepared;
  nabla_grid shard;
  size_t meshes = 0;
  if (!nabla_shard_begin(op, &shard, &meshes))
    return mlirLogicalResultFailure();
  if (!meshes) return mlirLogicalResultSuccess();
  return nabla_ops_each(op, is_function, run_function, &shard);
}
