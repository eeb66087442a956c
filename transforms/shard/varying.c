/* See varying.h: an abstract interpretation of the region, loops to a fixed
 * point. */
#include "transforms/shard/varying.h"

#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"

/* ---- the map: open addressing ---- */

static size_t slot_of(const nabla_varying *map, const void *key) {
  size_t at = ((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u;
  at = (at >> 20) & (map->capacity - 1);
  while (map->keys[at] && map->keys[at] != key)
    at = (at + 1) & (map->capacity - 1);
  return at;
}

void nabla_varying_deinit(nabla_varying *map) {
  free(map->keys);
  free(map->atoms);
  *map = (nabla_varying){0};
}

static bool grow(nabla_varying *map) {
  nabla_varying larger = {.capacity = map->capacity ? 2 * map->capacity : 64};
  larger.keys = calloc(larger.capacity, sizeof *larger.keys);
  larger.atoms = calloc(larger.capacity, sizeof *larger.atoms);
  if (!larger.keys || !larger.atoms) {
    nabla_varying_deinit(&larger);
    map->failed = true;
    return false;
  }
  for (size_t i = 0; i < map->capacity; i++) {
    if (!map->keys[i]) continue;
    const size_t at = slot_of(&larger, map->keys[i]);
    larger.keys[at] = map->keys[i];
    larger.atoms[at] = map->atoms[i];
    larger.count++;
  }
  nabla_varying_deinit(map);
  *map = larger;
  return true;
}

void nabla_varying_set(nabla_varying *map, MlirValue value, uint64_t atoms) {
  if (2 * (map->count + 1) > map->capacity && !grow(map)) return;
  const size_t at = slot_of(map, value.ptr);
  map->count += !map->keys[at];
  map->keys[at] = value.ptr;
  map->atoms[at] = atoms;
}

uint64_t nabla_varying_at(const nabla_varying *map, MlirValue value) {
  if (!map->capacity) return 0;
  const size_t at = slot_of(map, value.ptr);
  return map->keys[at] ? map->atoms[at] : 0;
}

/* ---- operations without regions ---- */

/* How a collective changes what its operand varies along. */
typedef enum effect { NONE, EQUAL, VARYING } effect;

static effect effect_of(MlirOperation op) {
  static const struct {
    const char *name;
    effect effect;
  } rows[] = {{"nabla.all_reduce", EQUAL},   {"nabla.all_gather", EQUAL},
              {"nabla.broadcast", EQUAL},    {"nabla.all_slice", VARYING},
              {"nabla.axis_index", VARYING}, {"nabla.reduce_scatter", VARYING},
              {"nabla.all_to_all", VARYING}, {"nabla.permute", VARYING}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (nabla_is(op, rows[i].name)) return rows[i].effect;
  return NONE;
}

bool nabla_is_collective(MlirOperation op) { return effect_of(op) != NONE; }

bool nabla_is_exchanging_call(MlirOperation op) {
  nabla_axis_list axes;
  MlirAttribute list = mlirOperationGetAttributeByName(op, nabla_ref("axes"));
  return nabla_is(op, "nabla.custom_call") && !mlirAttributeIsNull(list) &&
         nabla_axes_read(list, &axes);
}

bool nabla_collective_atoms(const nabla_grid *shard, MlirOperation op,
                            nabla_atom_list *out) {
  nabla_axis_list axes;
  return nabla_axes_read(mlirOperationGetAttributeByName(op, nabla_ref("axes")),
                         &axes) &&
         nabla_atoms_list(&shard->atoms, &shard->mesh, &axes, out);
}

static uint64_t bits_of(const nabla_atom_list *list) {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < list->count; i++) bits |= (uint64_t)1 << list->at[i];
  return bits;
}

uint64_t nabla_varying_of(const nabla_grid *shard, const nabla_varying *varying,
                          MlirOperation op) {
  nabla_atom_list list = {0};
  uint64_t atoms = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    atoms |= nabla_varying_at(varying, mlirOperationGetOperand(op, i));
  effect how = effect_of(op);
  if (nabla_is_exchanging_call(op)) {
    if (mlirAttributeIsNull(
            mlirOperationGetAttributeByName(op, nabla_ref(NABLA_EQUAL))))
      return atoms;
    how = EQUAL;
  }
  if (how != NONE && !nabla_collective_atoms(shard, op, &list)) return atoms;
  if (how == EQUAL) return atoms & ~bits_of(&list);
  return atoms | bits_of(&list);
}

/* ---- regions ---- */

typedef struct finder {
  const nabla_grid *shard;
  nabla_varying *map;
  bool changed, failed;
} finder;

static void join(finder *f, MlirValue value, uint64_t atoms) {
  const uint64_t old = nabla_varying_at(f->map, value);
  if ((old | atoms) == old) return;
  nabla_varying_set(f->map, value, old | atoms);
  f->changed = true;
}

typedef struct search {
  const nabla_grid *shard;
  uint64_t atoms; /* that the condition varies along */
  MlirOperation found;
} search;

/* An exchange between devices that decide differently: others have one
 * condition. */
static MlirWalkResult find_collective(MlirOperation op, void *self) {
  search *s = self;
  nabla_atom_list list;
  if ((!nabla_is_collective(op) && !nabla_is_exchanging_call(op)) ||
      nabla_is(op, "nabla.axis_index") || nabla_is(op, "nabla.all_slice") ||
      (nabla_collective_atoms(s->shard, op, &list) &&
       !(bits_of(&list) & s->atoms)))
    return MlirWalkResultAdvance;
  s->found = op;
  return MlirWalkResultInterrupt;
}

/* Devices that decide differently would wait for each other. */
static void decide(finder *f, MlirOperation op, uint64_t atoms) {
  search s = {f->shard, atoms, {NULL}};
  if (atoms) mlirOperationWalk(op, find_collective, &s, MlirWalkPreOrder);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    join(f, mlirOperationGetResult(op, i), atoms);
  if (mlirOperationIsNull(s.found) || f->failed) return;
  f->failed = true;
  nabla_error_at(s.found,
                 "stands under a condition that varies between devices, which "
                 "would wait for each other: exchange the values outside");
}

static void visit_block(finder *f, MlirBlock block);

/* Values that a terminator hands on: to results, and to the arguments of a
 * loop.
 */
static void visit_end(finder *f, MlirOperation op, MlirBlock block,
                      intptr_t carries) {
  MlirOperation end = nabla_block_end(block);
  const intptr_t first = nabla_is(end, "nabla.condition") ? 1 : 0;
  if (first)
    decide(f, op, nabla_varying_at(f->map, mlirOperationGetOperand(end, 0)));
  for (intptr_t i = first; i < mlirOperationGetNumOperands(end); i++) {
    const uint64_t atoms =
        nabla_varying_at(f->map, mlirOperationGetOperand(end, i));
    if (i - first < mlirOperationGetNumResults(op))
      join(f, mlirOperationGetResult(op, i - first), atoms);
    for (intptr_t r = 0;
         i - first < carries && r < mlirOperationGetNumRegions(op); r++) {
      MlirValue carry =
          mlirBlockGetArgument(nabla_region_block(op, r), i - first);
      join(f, carry, atoms);
      /* a loop of no steps returns what it begins with */
      if (i - first < mlirOperationGetNumResults(op))
        join(f, mlirOperationGetResult(op, i - first),
             nabla_varying_at(f->map, carry));
    }
  }
}

static void visit_regions(finder *f, MlirOperation op) {
  const bool decides = nabla_is(op, "nabla.cond");
  const bool loops = !decides && !nabla_is(op, "nabla.remat");
  const intptr_t carries = nabla_is(op, "nabla.scan")
                               ? nabla_scan_read(op).carries
                           : loops ? mlirOperationGetNumOperands(op)
                                   : 0;
  if (decides)
    decide(f, op, nabla_varying_at(f->map, mlirOperationGetOperand(op, 0)));
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
    MlirBlock block = nabla_region_block(op, r);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
      join(f, mlirBlockGetArgument(block, i),
           nabla_varying_at(f->map, mlirOperationGetOperand(op, i)));
    visit_block(f, block);
    visit_end(f, op, block, carries);
  }
}

/* Each result is an operand. */
static void visit_barrier(finder *f, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    join(f, mlirOperationGetResult(op, i),
         nabla_varying_at(f->map, mlirOperationGetOperand(op, i)));
}

static void visit_block(finder *f, MlirBlock block) {
  MlirOperation op = mlirBlockGetFirstOperation(block);
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (mlirOperationGetNumRegions(op)) {
      visit_regions(f, op);
      continue;
    }
    if (nabla_is(op, "nabla.barrier")) {
      visit_barrier(f, op);
      continue;
    }
    const uint64_t atoms = nabla_varying_of(f->shard, f->map, op);
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
      join(f, mlirOperationGetResult(op, i), atoms);
  }
}

uint64_t nabla_sharding_atoms(const nabla_grid *grid, MlirAttribute attribute) {
  const nabla_sharding sharding = nabla_sharding_read(attribute);
  nabla_atom_list list;
  uint64_t atoms = 0;
  for (uint32_t d = 0; d < sharding.rank; d++)
    if (nabla_atoms_list(&grid->atoms, &grid->mesh, &sharding.dims[d].axes,
                         &list))
      atoms |= bits_of(&list);
  return atoms;
}

void nabla_varying_divide(const nabla_grid *grid, MlirBlock block,
                          const MlirAttribute *in, nabla_varying *varying) {
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
    nabla_varying_set(varying, mlirBlockGetArgument(block, i),
                      nabla_sharding_atoms(grid, in[i]));
}

bool nabla_varying_visit(const nabla_grid *grid, MlirBlock block,
                         nabla_varying *varying) {
  finder f = {grid, varying, true, false};
  while (f.changed && !f.failed && !varying->failed) {
    f.changed = false;
    visit_block(&f, block);
  }
  return !f.failed && !varying->failed;
}

bool nabla_varying_find(const nabla_grid *grid, MlirOperation shard_map,
                        nabla_varying *out) {
  MlirBlock body = nabla_region_block(shard_map, 0);
  MlirAttribute in =
      mlirOperationGetAttributeByName(shard_map, nabla_ref("in"));
  *out = (nabla_varying){0};
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
    nabla_varying_set(
        out, mlirBlockGetArgument(body, i),
        nabla_sharding_atoms(grid, mlirArrayAttrGetElement(in, i)));
  return nabla_varying_visit(grid, body, out);
}
