/* See plan.h. */
#include "transforms/shard/plan.h"

#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/ops.h"

#define CATEGORY "nabla-partition"

typedef struct plans {
  const nabla_grid *grid;
  nabla_layout_map *map;
  bool is_quiet;
} plans;

static nabla_division layout_of(plans *p, MlirValue value) {
  return nabla_layout_of(p->map, value);
}

void nabla_shard_plan_remark(MlirOperation op, const char *why) {
  nablaOptimizationRemark(mlirOperationGetLocation(op), true, "NotDivided",
                          CATEGORY, why);
}

static void remark(const plans *p, MlirOperation op, const char *why) {
  if (!p->is_quiet) nabla_shard_plan_remark(op, why);
}

/* Factors of packed operands are divided as these are, which cannot be
 * exchanged: `forced` has a bit for each. */
static uint32_t force(plans *p, nabla_shard_plan *it) {
  nabla_atom_list lists[NABLA_MAX_FACTORS];
  nabla_factors *f = &it->factors;
  uint32_t forced = 0;
  for (uint32_t a = 0; a < f->array_count; a++) {
    const nabla_factor_array *array = &f->arrays[a];
    const nabla_division layout = layout_of(p, array->value);
    if (array->is_result || !nablaTypeIsAImplicit(layout.type) ||
        !nabla_factors_split(p->grid, f, array, &layout, lists))
      continue;
    for (intptr_t d = 0; d < array->rank; d++)
      for (uint8_t i = 0; i < array->dims[d].count; i++) {
        const uint8_t factor = array->dims[d].at[i];
        if (!nabla_factor_divides(&f->all[factor])) continue;
        it->lists[factor] = lists[factor];
        forced |= (uint32_t)1 << factor;
      }
  }
  return forced;
}

/* The longest list that an array gives to each factor; of nabla.reshard, which
 * is an exchange, its result. */
static void choose(plans *p, nabla_shard_plan *it, uint32_t forced) {
  nabla_atom_list lists[NABLA_MAX_FACTORS];
  nabla_factors *f = &it->factors;
  const bool is_reshard = nabla_is(it->op, "nabla.reshard");
  for (uint32_t a = 0; a < f->array_count; a++) {
    const nabla_division layout = layout_of(p, f->arrays[a].value);
    if ((is_reshard && !f->arrays[a].is_result) ||
        !nabla_factors_split(p->grid, f, &f->arrays[a], &layout, lists))
      continue;
    for (uint32_t i = 0; i < f->count; i++)
      if (nabla_factor_divides(&f->all[i]) && !(forced >> i & 1) &&
          lists[i].count > it->lists[i].count)
        it->lists[i] = lists[i];
  }
}

/* An atom divides one factor: those of packed operands count first, then
 * contractions. */
static void resolve(const plans *p, nabla_shard_plan *it, uint32_t forced) {
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
        remark(p, it->op,
               "an axis is wanted for two factors: one is not divided");
      it->lists[i].count = k;
    }
}

/* Takes the last atom from the last factor of an array that has one. */
static bool take_atom(nabla_shard_plan *it, const nabla_factor_array *array) {
  for (intptr_t d = array->rank; d-- > 0;)
    for (uint8_t i = array->dims[d].count; i-- > 0;) {
      nabla_atom_list *list = &it->lists[array->dims[d].at[i]];
      if (list->count) return list->count--;
    }
  return false;
}

/* A factor behind one that is not wholly divided has no place in a dimension:
 * it is not divided at all. */
static bool drop_hidden(plans *p, nabla_shard_plan *it,
                        const nabla_factor_array *array) {
  bool changed = false;
  for (intptr_t d = 0; d < array->rank; d++)
    for (uint8_t i = 1; i < array->dims[d].count; i++) {
      const uint8_t before = array->dims[d].at[i - 1];
      nabla_atom_list *list = &it->lists[array->dims[d].at[i]];
      if (!list->count ||
          nabla_atoms_product(&p->grid->atoms, &it->lists[before]) ==
              it->factors.all[before].size)
        continue;
      list->count = 0;
      changed = true;
    }
  return changed;
}

/* Divides factors less that cannot be padded. */
static bool even(plans *p, nabla_shard_plan *it) {
  bool changed = false;
  for (uint32_t i = 0; i < it->factors.count; i++)
    while (it->lists[i].count &&
           !nabla_factor_takes(p->grid, &it->factors, i, &it->lists[i])) {
      it->lists[i].count--;
      changed = true;
    }
  return changed;
}

/* Divides factors less where an array cannot be divided so. */
static void limit(plans *p, nabla_shard_plan *it) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  bool changed = true;
  while (changed) {
    changed = false;
    for (uint32_t a = 0; a < it->factors.array_count; a++) {
      const nabla_factor_array *array = &it->factors.arrays[a];
      changed = drop_hidden(p, it, array) || changed;
      changed = even(p, it) || changed;
      nabla_division layout =
          nabla_factors_join(p->grid, &it->factors, array, it->lists);
      layout.type = layout_of(p, array->value).type;
      if (nabla_layout_local(p->grid, &layout, &local, message)) continue;
      if (!take_atom(it, array)) break;
      remark(p, it->op, message);
      changed = true;
    }
  }
}

/* A remark where an operation has an operand that is divided, and takes all of
 * it. */
static void explain(plans *p, const nabla_shard_plan *it) {
  const char *why = nabla_op_undivided(it->op);
  if (!it->is_divided &&
      (nabla_is(it->op, "nabla.pack") || nabla_is(it->op, "nabla.unpack")))
    why =
        "components of a piece are no pieces of components in every "
        "encoding: divide what is packed, or the packed array";
  for (uint32_t a = 0; a < it->factors.array_count; a++) {
    const nabla_factor_array *array = &it->factors.arrays[a];
    const nabla_division layout = layout_of(p, array->value);
    for (intptr_t d = 0; d < array->rank && !array->is_result; d++)
      if (layout.dims[d].count && array->dims[d].count &&
          it->factors.all[array->dims[d].at[0]].kind == NABLA_FACTOR_MOVED)
        why = "elements move along a dimension that is divided: it is gathered";
  }
  if (why) nabla_shard_plan_remark(it->op, why);
}

static void plan(plans *p, MlirOperation op, nabla_shard_plan *it) {
  memset(it, 0, sizeof *it);
  it->op = op;
  it->is_divided = nabla_op_factors(op, &it->factors);
  if (it->is_divided) {
    const uint32_t forced = force(p, it);
    choose(p, it, forced);
    resolve(p, it, forced);
    limit(p, it);
  }
  if (!p->is_quiet) explain(p, it);
}

void nabla_shard_plan_make(const nabla_grid *grid, nabla_layout_map *map,
                           MlirOperation op, nabla_shard_plan *out) {
  plans p = {grid, map, false};
  plan(&p, op, out);
}

void nabla_shard_plan_try(const nabla_grid *grid, nabla_layout_map *map,
                          MlirOperation op, nabla_shard_plan *out) {
  plans p = {grid, map, true};
  plan(&p, op, out);
}
