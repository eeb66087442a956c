/* Options of arguments, and of operations that are divided in one way; lists of
 * options: see options.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>
#include <string.h>

#include "transforms/cost/cost_count.h"
#include "transforms/shard/shard_map.h"
#include "transforms/shard/solve/options.h"
#include "transforms/shard/solve/room.h"
#include "transforms/shard/ties.h"
#include "transforms/state/state.h"

enum { MOST_TRIED = 1 << 16 }; /* ways to divide an operation or argument */

/* ---- lists ---- */

nabla_shard_option *nabla_option_add(nabla_option_lists *lists,
                                     nabla_shard_options *to) {
  void *all = nabla_room(to->all, to->count, &to->capacity, sizeof *to->all);
  if (!all) return lists->failed = true, NULL;
  to->all = all;
  nabla_shard_option *o = &to->all[to->count];
  memset(o, 0, sizeof *o);
  o->operands = calloc((size_t)to->operand_count + 1, sizeof *o->operands);
  o->results = calloc((size_t)to->result_count + 1, sizeof *o->results);
  to->count++;
  if (o->operands && o->results) return o;
  return lists->failed = true, NULL;
}

nabla_shard_options *nabla_options_find(nabla_option_lists *lists,
                                        const void **key, size_t key_count) {
  for (size_t i = 0; i < lists->count; i++)
    if (lists->all[i]->key_count == key_count &&
        !memcmp(lists->all[i]->key, key, key_count * sizeof *key)) {
      free((void *)key);
      return lists->all[i];
    }
  void *room = nabla_room((void *)lists->all, lists->count, &lists->capacity,
                          sizeof *lists->all);
  if (room) lists->all = room;
  nabla_shard_options *made = room ? calloc(1, sizeof *made) : NULL;
  if (!made) {
    free((void *)key);
    lists->failed = true;
    return NULL;
  }
  made->key = key;
  made->key_count = key_count;
  return lists->all[lists->count++] = made;
}

void nabla_option_lists_deinit(nabla_option_lists *lists) {
  for (size_t i = 0; i < lists->count; i++) {
    nabla_shard_options *at = lists->all[i];
    for (uint32_t k = 0; k < at->count; k++) {
      free(at->all[k].operands);
      free(at->all[k].results);
    }
    free(at->all);
    free((void *)at->key);
    free(at);
  }
  free((void *)lists->all);
  nabla_layout_map_deinit(&lists->map);
}

uint64_t nabla_piece_bytes(const nabla_grid *grid,
                           const nabla_division *layout) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local = layout->type;
  if (nabla_layout_takes(local) &&
      !nabla_layout_local(grid, layout, &local, message))
    local = layout->type;
  return nabla_cost_array_bytes(local, 1);
}

/* ---- annotations, axes ---- */

bool nabla_option_keeps(const nabla_grid *grid, MlirAttribute sharding,
                        const nabla_division *layout) {
  if (!nabla_sharding_is(sharding)) return true;
  const nabla_sharding asked = nabla_sharding_read(sharding);
  nabla_division wanted = nabla_layout_whole(layout->type);
  if (!nabla_layout_read(grid, &asked, &wanted)) return false;
  for (uint32_t d = 0; d < asked.rank; d++) {
    const nabla_atom_list *a = &wanted.dims[d], *b = &layout->dims[d];
    if (a->count > b->count || memcmp(a->at, b->at, a->count) ||
        (a->count < b->count && !asked.dims[d].is_open))
      return false;
  }
  return true;
}

bool nabla_option_is_all(MlirAttribute annotation) {
  if (!nabla_sharding_is(annotation)) return false;
  const nabla_sharding sharding = nabla_sharding_read(annotation);
  for (uint32_t d = 0; d < sharding.rank; d++)
    if (sharding.dims[d].is_open) return false;
  return true;
}

static void give_axis(const nabla_grid *grid, uint32_t axis,
                      nabla_atom_list *list) {
  for (uint32_t i = 0; i < grid->atoms.count; i++)
    if (grid->atoms.axis[i] == axis) list->at[list->count++] = (uint8_t)i;
}

typedef struct assignment {
  const nabla_grid *grid;
  uint32_t slots;
  const int64_t *sizes; /* 0: takes no axis */
  nabla_options_visit *visit;
  void *self;
  uint32_t at[NABLA_MESH_MAX_AXES]; /* slot + 1; 0: none */
} assignment;

static bool give(const assignment *a) {
  nabla_atom_list lists[NABLA_MAX_FACTORS];
  memset(lists, 0, sizeof lists);
  for (uint32_t axis = 0; axis < a->grid->mesh.count; axis++)
    if (a->at[axis]) give_axis(a->grid, axis, &lists[a->at[axis] - 1]);
  return a->visit(a->self, lists);
}

/* The next way; false behind the last. */
static bool turn(assignment *a) {
  for (uint32_t axis = 0; axis < a->grid->mesh.count; axis++) {
    do a->at[axis]++;
    while (a->at[axis] <= a->slots && !a->sizes[a->at[axis] - 1]);
    if (a->at[axis] <= a->slots) return true;
    a->at[axis] = 0;
  }
  return false;
}

/* Gives axes to a slot while they divide it, then to the ones behind it. */
static void fill(assignment *a, uint32_t first, uint32_t end, uint32_t slot,
                 int64_t *left) {
  for (uint32_t axis = first; axis < end; axis++) {
    const int64_t size = a->grid->mesh.sizes[axis];
    for (uint32_t k = 0; k < a->slots && !a->at[axis]; k++) {
      const uint32_t at = (slot + k) % a->slots;
      if (!left[at] || left[at] % size) continue;
      left[at] /= size;
      a->at[axis] = at + 1;
    }
  }
}

/* The first `count` axes in slot x, others in slot y, and where that is full.
 */
static bool give_split(assignment *a, uint32_t count, uint32_t x, uint32_t y) {
  int64_t left[NABLA_MAX_FACTORS];
  memset(a->at, 0, sizeof a->at);
  memcpy(left, a->sizes, a->slots * sizeof *left);
  fill(a, 0, count, x, left);
  fill(a, count, a->grid->mesh.count, y, left);
  return give(a);
}

/* Nothing; all axes, or one, in a slot; all axes in two slots. */
static bool give_first(assignment *a) {
  const uint32_t axes = a->grid->mesh.count;
  bool more = give(a);
  for (uint32_t x = 0; more && x < a->slots; x++)
    more = !a->sizes[x] || give_split(a, axes, x, 0);
  for (uint32_t axis = 0; axis < axes; axis++)
    for (uint32_t x = 0; more && x < a->slots; x++) {
      memset(a->at, 0, sizeof a->at);
      a->at[axis] = x + 1;
      more = !a->sizes[x] || give(a);
    }
  for (uint32_t count = 1; count < axes; count++)
    for (uint32_t x = 0; x < a->slots; x++)
      for (uint32_t y = 0; more && y < a->slots; y++)
        more = x == y || !a->sizes[x] || !a->sizes[y] ||
               give_split(a, count, x, y);
  memset(a->at, 0, sizeof a->at);
  return more;
}

bool nabla_options_assign(const nabla_grid *grid, uint32_t slots,
                          const int64_t *sizes, nabla_options_visit *visit,
                          void *self) {
  assignment a = {grid, slots, sizes, visit, self, {0}};
  uint64_t ways = 1, open = 1;
  for (uint32_t i = 0; i < slots; i++) open += sizes[i] > 0;
  for (uint32_t axis = 0; axis < grid->mesh.count; axis++)
    ways = nabla_cost_times(ways, open);
  if (ways > NABLA_MOST_OPTIONS && !give_first(&a)) return false;
  for (uint32_t tried = 0; tried < MOST_TRIED; tried++) {
    if (!give(&a)) return false;
    if (!turn(&a)) return true;
  }
  return false;
}

static bool has_result(const nabla_shard_options *list,
                       const nabla_division *layout) {
  for (uint32_t i = 0; i < list->count; i++)
    if (nabla_layout_equal(&list->all[i].results[0], layout)) return true;
  return false;
}

/* The size of a dimension that is divided; 0. */
static int64_t divided_size(MlirType type, intptr_t dim) {
  const int64_t size = nabla_array_dim(type, dim);
  return nabla_is_dynamic(size) || size < 2 ? 0 : size;
}

/* ---- arguments ---- */

typedef struct argument {
  nabla_option_lists *lists;
  nabla_shard_options *out;
  MlirAttribute sharding; /* what was annotated */
  nabla_division whole;
} argument;

/* False where no more are wanted. */
static bool add_layout(argument *a, const nabla_division *layout) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  if (!nabla_layout_local(a->lists->grid, layout, &local, message) ||
      !nabla_option_keeps(a->lists->grid, a->sharding, layout) ||
      has_result(a->out, layout))
    return true;
  nabla_shard_option *o = a->out->count < NABLA_MOST_OPTIONS
                              ? nabla_option_add(a->lists, a->out)
                              : NULL;
  if (!o) return false;
  o->results[0] = *layout;
  o->held = nabla_cost_array_bytes(local, 1);
  return true;
}

static bool try_layout(void *self, const nabla_atom_list *lists) {
  argument *a = self;
  nabla_division layout = a->whole;
  memcpy(layout.dims, lists, (size_t)layout.rank * sizeof *lists);
  return add_layout(a, &layout);
}

const nabla_shard_options *nabla_options_of_argument(nabla_option_lists *lists,
                                                     MlirOperation function,
                                                     intptr_t index) {
  MlirValue value = mlirBlockGetArgument(nabla_function_body(function), index);
  MlirType type = mlirValueGetType(value);
  const bool divides = nabla_layout_may_decode(value);
  const void **key = calloc(3, sizeof *key);
  argument a = {.lists = lists,
                .sharding = nabla_state_attribute(function, NABLA_ARGUMENTS,
                                                  index, NABLA_SHARDING),
                .whole = nabla_layout_whole(type)};
  if (!key) return lists->failed = true, NULL;
  key[0] = divides ? "argument" : "argument with packed scales";
  key[1] = type.ptr;
  key[2] = a.sharding.ptr;
  a.out = nabla_options_find(lists, key, 3);
  if (!a.out || a.out->count) return a.out;
  a.out->result_count = 1;
  if (divides && nabla_layout_takes(type)) {
    int64_t sizes[NABLA_MAX_RANK];
    nabla_division asked = a.whole;
    for (intptr_t d = 0; d < a.whole.rank; d++)
      sizes[d] = divided_size(type, d);
    if (nabla_sharding_is(a.sharding)) {
      const nabla_sharding sharding = nabla_sharding_read(a.sharding);
      if (nabla_layout_read(lists->grid, &sharding, &asked))
        (void)add_layout(&a, &asked);
    }
    if (!a.out->count || !nabla_option_is_all(a.sharding))
      a.out->is_cut = !nabla_options_assign(lists->grid, (uint32_t)a.whole.rank,
                                            sizes, try_layout, &a);
  }
  if (!a.out->count) { /* an annotation that cannot be met, a number */
    a.sharding = mlirAttributeGetNull();
    (void)add_layout(&a, &a.whole);
  }
  return lists->failed ? NULL : a.out;
}

/* ---- ports of scans ---- */

typedef struct port {
  nabla_option_lists *lists;
  nabla_shard_options *out;
  MlirAttribute sharding; /* of the result, as it was annotated */
  nabla_port_kind kind;
  MlirType one, all; /* of a round, of all rounds */
} port;

/* The layout of all slices, from that of one. */
static nabla_division stacked(const nabla_division *one, MlirType type) {
  nabla_division all = nabla_layout_whole(type);
  for (intptr_t d = 0; d < one->rank; d++) all.dims[d + 1] = one->dims[d];
  return all;
}

static bool try_port(void *self, const nabla_atom_list *lists) {
  port *p = self;
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  nabla_division one = nabla_layout_whole(p->one);
  memcpy(one.dims, lists, (size_t)one.rank * sizeof *lists);
  const nabla_division all =
      p->kind == NABLA_PORT_CARRY ? one : stacked(&one, p->all);
  if (!nabla_layout_local(p->lists->grid, &one, &local, message) ||
      !nabla_layout_local(p->lists->grid, &all, &local, message) ||
      (p->kind != NABLA_PORT_SLICE &&
       !nabla_option_keeps(p->lists->grid, p->sharding, &all)) ||
      has_result(p->out, p->kind == NABLA_PORT_OUTPUT ? &all : &one))
    return true;
  nabla_shard_option *o = p->out->count < NABLA_MOST_OPTIONS
                              ? nabla_option_add(p->lists, p->out)
                              : NULL;
  if (!o) return false;
  o->operands[0] = p->kind == NABLA_PORT_SLICE ? all : one;
  if (p->kind == NABLA_PORT_CARRY) o->operands[1] = one;
  o->results[0] = p->kind == NABLA_PORT_OUTPUT ? all : one;
  return true;
}

static MlirAttribute annotated(MlirOperation scan, MlirValue result) {
  MlirAttribute list =
      mlirOperationGetAttributeByName(scan, nabla_ref(NABLA_SHARDINGS));
  if (mlirValueIsNull(result) || mlirAttributeIsNull(list) ||
      !mlirAttributeIsAArray(list))
    return mlirAttributeGetNull();
  return mlirArrayAttrGetElement(list, mlirOpResultGetResultNumber(result));
}

const nabla_shard_options *nabla_options_of_port(nabla_option_lists *lists,
                                                 MlirOperation scan,
                                                 intptr_t index) {
  int64_t sizes[NABLA_MAX_RANK];
  const nabla_shard_port at = nabla_shard_port_of(scan, index);
  MlirValue one = mlirValueIsNull(at.inside) ? at.ended : at.inside;
  MlirValue all = mlirValueIsNull(at.result) ? at.given : at.result;
  port p = {.lists = lists,
            .kind = at.kind,
            .sharding = annotated(scan, at.result),
            .one = mlirValueGetType(one),
            .all = mlirValueGetType(all)};
  const void **key = calloc(5, sizeof *key);
  if (!key) return lists->failed = true, NULL;
  key[0] = "port";
  key[1] = p.one.ptr;
  key[2] = p.all.ptr;
  key[3] = p.sharding.ptr;
  key[4] = (const void *)(uintptr_t)(1 + at.kind);
  p.out = nabla_options_find(lists, key, 5);
  if (!p.out || p.out->count) return p.out;
  p.out->operand_count = at.kind == NABLA_PORT_CARRY ? 2 : 1;
  p.out->result_count = 1;
  const intptr_t rank = nabla_array_rank(p.one);
  for (intptr_t d = 0; d < rank; d++) sizes[d] = divided_size(p.one, d);
  p.out->is_cut =
      !nabla_options_assign(lists->grid, (uint32_t)rank, sizes, try_port, &p);
  if (!p.out->count) { /* an annotation that cannot be met */
    const nabla_atom_list whole[NABLA_MAX_RANK] = {{0}};
    p.sharding = mlirAttributeGetNull();
    (void)try_port(&p, whole);
  }
  return lists->failed || !p.out->count ? NULL : p.out;
}

/* ---- one way ---- */

bool nabla_options_are_given(MlirOperation op) {
  return nabla_is_shard_map(op) || nabla_is(op, "func.return") ||
         nabla_is(op, "func.call");
}

static nabla_division given_layout(const nabla_grid *grid, MlirOperation op,
                                   bool takes, intptr_t index, MlirType type) {
  if (nabla_is_shard_map(op))
    return nabla_shard_map_layout(grid, op, takes ? "in" : "out", index, type);
  MlirOperation function = nabla_is(op, "func.return")
                               ? mlirOperationGetParentOperation(op)
                               : nabla_called(op);
  if (mlirOperationIsNull(function)) return nabla_layout_whole(type);
  const bool is_argument = takes && nabla_is(op, "func.call");
  return nabla_layout_of_port(grid, function,
                              is_argument ? NABLA_ARGUMENTS : NABLA_RESULTS,
                              index, type);
}

void nabla_options_give(nabla_option_lists *lists, MlirOperation op,
                        nabla_shard_options *out) {
  nabla_shard_option *o = nabla_option_add(lists, out);
  if (!o) return;
  for (intptr_t i = 0; i < out->operand_count; i++) {
    MlirType type = nabla_operand_type(op, i);
    o->operands[i] = nabla_layout_takes(type)
                         ? given_layout(lists->grid, op, true, i, type)
                         : nabla_layout_whole(type);
    o->operands[i].type = type;
  }
  for (intptr_t r = 0; r < out->result_count; r++) {
    MlirType type = nabla_result_type(op, r);
    o->results[r] = nabla_layout_takes(type)
                        ? given_layout(lists->grid, op, false, r, type)
                        : nabla_layout_whole(type);
    o->results[r].type = type;
  }
}
