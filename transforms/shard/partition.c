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
#include "dialect/control.h"
#include "dialect/ops.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/values.h"
#include "transforms/passes.h"
#include "transforms/shard/partitioners.h"
#include "transforms/shard/pieces.h"
#include "transforms/shard/plan.h"
#include "transforms/shard/reshard.h"
#include "transforms/shard/shard_map.h"
#include "transforms/shard/ties.h"
#include "transforms/state/state.h"

typedef enum policy { POLICY_OFF, POLICY_WARN, POLICY_ERROR } policy;

/* What is shared by the functions of a module. */
typedef struct partitioning {
  const nabla_grid *grid;
  policy policy; /* of custom calls that are not divided */
  bool divides_results;
  size_t whole_calls;
  MlirOperation first_whole; /* the first of those, or null */
} partitioning;

typedef struct partition {
  partitioning *all;
  const nabla_grid *shard;
  MlirOperation function;
  MlirBlock body;
  nabla_layout_map map;
  nabla_shard_plan *plans; /* of all operations, outer ones first */
  size_t count, capacity;
  bool failed;  /* out of memory */
  bool refused; /* an error was reported */
} partition;

static MlirAttribute get(MlirOperation op, const char *key) {
  return mlirOperationGetAttributeByName(op, nabla_ref(key));
}

static nabla_division layout_of(partition *p, MlirValue value) {
  return nabla_layout_of(&p->map, value);
}

/* ---- layouts from attributes ---- */

/* The layout of a value by an attribute; whole where that is not legal. */
static bool read_layout(partition *p, MlirValue value,
                        MlirAttribute attribute) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  nabla_division *layout = nabla_layout_at(&p->map, value);
  if (!layout) return false;
  const nabla_sharding sharding = nabla_sharding_read(attribute);
  if (!nabla_layout_read(p->shard, &sharding, layout) ||
      !nabla_layout_local(p->shard, layout, &local, message))
    *layout = nabla_layout_whole(layout->type);
  return true;
}

static bool read_arguments(partition *p) {
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
  return true;
}

/* Arguments of regions, which follow results. */
static void read_tie(void *self, nabla_tie tie) {
  partition *p = self;
  const nabla_division leader = layout_of(p, tie.leader);
  if (!tie.is_argument) return;
  nabla_division *other = nabla_layout_at(&p->map, tie.other);
  if (!other) return;
  const nabla_division follows = nabla_tie_follow(tie, &leader);
  memcpy(other->dims, follows.dims, sizeof other->dims);
}

/* Slices of packed operands are divided as the array is: its components cannot
 * be exchanged into each division that a dense slice can have. */
static void read_packed_slices(partition *p, MlirOperation op) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  const nabla_scan_parts scan = nabla_scan_read(op);
  for (intptr_t i = scan.carries; i < scan.carries + scan.inputs; i++) {
    MlirValue array = mlirOperationGetOperand(op, i);
    MlirValue slice = mlirBlockGetArgument(nabla_region_block(op, 0), i);
    if (!nablaTypeIsAImplicit(mlirValueGetType(array)) ||
        !nabla_layout_takes(mlirValueGetType(slice)))
      continue;
    const nabla_tie tie = {slice, array, 1, false};
    const nabla_division whole = layout_of(p, array);
    const nabla_division leads = nabla_tie_lead(tie, &whole);
    nabla_division *layout = nabla_layout_at(&p->map, slice);
    if (!layout) return;
    memcpy(layout->dims, leads.dims, sizeof layout->dims);
    if (!nabla_layout_local(p->shard, layout, &local, message))
      *layout = nabla_layout_whole(layout->type);
  }
}

static MlirWalkResult read_op(MlirOperation op, void *self) {
  partition *p = self;
  MlirAttribute list = get(op, NABLA_SHARDINGS);
  const intptr_t given =
      mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)
          ? 0
          : mlirArrayAttrGetNumElements(list);
  const intptr_t count = mlirOperationGetNumResults(op);
  const bool scans = nabla_is(op, "nabla.scan");
  const intptr_t carries = scans ? nabla_scan_read(op).carries : 0;
  for (intptr_t r = 0; r < given; r++) {
    MlirAttribute attribute = mlirArrayAttrGetElement(list, r);
    if (!nabla_sharding_is(attribute) || (r >= count && !scans)) continue;
    MlirBlock body = scans ? nabla_region_block(op, 0) : p->body;
    const intptr_t slice = carries + r - count;
    if (r >= count && slice >= mlirBlockGetNumArguments(body)) continue;
    MlirValue value = r < count ? mlirOperationGetResult(op, r)
                                : mlirBlockGetArgument(body, slice);
    if (nabla_layout_takes(mlirValueGetType(value)) &&
        !read_layout(p, value, attribute))
      return MlirWalkResultInterrupt;
  }
  if (nabla_ties_has(op)) nabla_ties_of(op, read_tie, p);
  if (scans) read_packed_slices(p, op);
  return MlirWalkResultAdvance;
}

/* ---- plans ---- */

/* Whether the factors of a custom call read, which are reported if not. */
static bool check_factors(MlirOperation op) {
  char message[NABLA_MESSAGE_SIZE];
  nabla_factors unused;
  MlirAttribute text = get(op, NABLA_FACTORS);
  if (!nabla_is(op, "nabla.custom_call") || mlirAttributeIsNull(text))
    return true;
  const bool is_text = mlirAttributeIsAString(text);
  MlirStringRef s = is_text ? mlirStringAttrGetValue(text) : nabla_ref("");
  if (is_text && nabla_factors_read(s.data, s.length, op, &unused, message))
    return true;
  nabla_error_at(op, NABLA_FACTORS " = '%.*s': %s", (int)s.length, s.data,
                 is_text ? message : "is no text");
  return false;
}

static MlirWalkResult make_plan(MlirOperation op, void *self) {
  partition *p = self;
  if (mlirOperationEqual(op, p->function)) return MlirWalkResultAdvance;
  if (!check_factors(op)) {
    p->refused = true;
    return MlirWalkResultInterrupt;
  }
  if (p->count == p->capacity) {
    const size_t capacity = p->capacity ? 2 * p->capacity : 64;
    nabla_shard_plan *more = realloc(p->plans, capacity * sizeof *more);
    if (!more) {
      p->failed = true;
      return MlirWalkResultInterrupt;
    }
    p->plans = more;
    p->capacity = capacity;
  }
  nabla_shard_plan_make(p->shard, &p->map, op, &p->plans[p->count++]);
  return nabla_is_shard_map(op) ? MlirWalkResultSkip : MlirWalkResultAdvance;
}

/* ---- operands ---- */

/* `value`, which has its layout of the map, in another one. */
static bool bring(partition *p, MlirOperation op, intptr_t operand,
                  const nabla_division *to) {
  MlirOperation first;
  MlirValue value = mlirOperationGetOperand(op, operand);
  const nabla_division from = layout_of(p, value);
  if (!nabla_layout_takes(from.type)) return true;
  MlirValue made = nabla_build_reshard(p->shard, op, value, &from, to, &first);
  if (mlirValueIsNull(made)) return false;
  if (!mlirValueEqual(made, value)) mlirOperationSetOperand(op, operand, made);
  return true;
}

typedef struct inside {
  partition *p;
  MlirOperation outer;
  bool failed;
} inside;

/* Operations in regions see whole values of outside. */
static MlirWalkResult bring_inside(MlirOperation op, void *self) {
  inside *in = self;
  if (mlirOperationEqual(op, in->outer)) return MlirWalkResultAdvance;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    const nabla_division from = layout_of(in->p, value);
    if (!nabla_layout_takes(from.type) || nabla_layout_is_whole(&from) ||
        nabla_value_is_inside(value, in->outer))
      continue;
    MlirOperation first;
    const nabla_division whole = nabla_layout_whole(from.type);
    MlirValue made = nabla_build_reshard(in->p->shard, in->outer, value, &from,
                                         &whole, &first);
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

/* Operands as pieces; what else changes in the operation. */
static bool bring_divided(partition *p, const nabla_shard_plan *it,
                          nabla_shard_piece *piece) {
  for (uint32_t a = 0; a < it->factors.array_count; a++) {
    const nabla_factor_array *array = &it->factors.arrays[a];
    if (array->is_result) continue;
    nabla_division to =
        nabla_factors_join(p->shard, &it->factors, array, it->lists);
    MlirValue value = mlirOperationGetOperand(it->op, array->index);
    to.type = layout_of(p, value).type;
    if (!bring(p, it->op, array->index, &to)) return false;
  }
  return nabla_piece_adjust(piece);
}

/* ---- results ---- */

typedef struct result {
  MlirValue value, now;  /* as the operation gives it; as it is brought on */
  nabla_division layout; /* of `now` */
  MlirOperation next;
} result;

/* Joins what devices have summed of factors that are reduced. */
static bool join(partition *p, const nabla_shard_plan *it, result *r,
                 const nabla_division *to) {
  char message[NABLA_MESSAGE_SIZE];
  for (uint32_t i = 0; i < it->factors.count; i++) {
    const nabla_factor *factor = &it->factors.all[i];
    const nabla_atom_list *atoms = &it->lists[i];
    if (factor->kind != NABLA_FACTOR_REDUCE || !atoms->count ||
        factor->join == NABLA_JOIN_OWN)
      continue;
    const int kind = factor->join;
    const intptr_t dim =
        nabla_reshard_scatters(p->shard, &r->layout, to, atoms);
    nabla_division after = r->layout;
    MlirType type;
    if (dim >= 0) after.dims[dim] = to->dims[dim];
    if (dim >= 0 && nabla_layout_local(p->shard, &after, &type, message)) {
      const int64_t n = nabla_atoms_product(&p->shard->atoms, atoms);
      const int64_t size = nabla_array_dim(type, dim);
      if (!nabla_is_dynamic(size))
        r->now = nabla_reshard_resize(r->next, r->now, dim, n * size);
      r->now = nabla_reshard_scatter(p->shard, r->next, r->now, kind, dim,
                                     atoms, type);
      r->layout = after;
    } else {
      r->now = nabla_reshard_join(p->shard, r->next, r->now, kind, atoms);
    }
    if (mlirValueIsNull(r->now)) return false;
  }
  return true;
}

/* Replaces uses of a result, but for those of operations that were made of it,
 * which follow its own. */
static bool replace_uses(partition *p, const nabla_shard_plan *it,
                         const result *r) {
  size_t count = 0, at = 0;
  if (mlirValueEqual(r->value, r->now)) return true;
  const MlirOperation first = mlirOperationGetNextInBlock(it->op);
  for (MlirOperation op = first; !mlirOperationEqual(op, r->next);
       op = mlirOperationGetNextInBlock(op))
    count++;
  MlirOperation *made = malloc((count + 1) * sizeof *made);
  if (!made) {
    p->failed = true;
    return false;
  }
  for (MlirOperation op = first; at < count;
       op = mlirOperationGetNextInBlock(op))
    made[at++] = op;
  mlirValueReplaceAllUsesExcept(r->value, r->now, (intptr_t)count, made);
  free(made);
  return true;
}

/* How an operation gives a result. */
static nabla_division natural_layout(partition *p, const nabla_shard_plan *it,
                                     intptr_t index, const nabla_division *to) {
  nabla_division layout = nabla_layout_whole(to->type);
  MlirOperation called = nabla_called(it->op);
  for (uint32_t a = 0; it->is_divided && a < it->factors.array_count; a++)
    if (it->factors.arrays[a].is_result && it->factors.arrays[a].index == index)
      layout = nabla_factors_join(p->shard, &it->factors,
                                  &it->factors.arrays[a], it->lists);
  if (!mlirOperationIsNull(called))
    layout =
        nabla_layout_of_port(p->shard, called, NABLA_RESULTS, index, to->type);
  if (nabla_is_shard_map(it->op))
    layout = nabla_shard_map_layout(p->shard, it->op, "out", index, to->type);
  if (nabla_ties_has(it->op)) layout = *to;
  if (nabla_is(it->op, "nabla.scan") &&
      index >= nabla_scan_read(it->op).carries && layout.rank)
    layout.dims[0].count = 0;
  layout.type = to->type;
  return layout;
}

/* Whether a sum is joined into pieces where the result is brought to `to`. */
static bool joins_pieces(partition *p, const nabla_shard_plan *it,
                         intptr_t index, const nabla_division *to) {
  const nabla_division natural = natural_layout(p, it, index, to);
  for (uint32_t i = 0; i < it->factors.count; i++)
    if (it->factors.all[i].kind == NABLA_FACTOR_REDUCE && it->lists[i].count &&
        nabla_reshard_scatters(p->shard, &natural, to, &it->lists[i]) >= 0)
      return true;
  return false;
}

/* The layout that users of a result expect: that of a nabla.reshard which alone
 * uses it, so that sums are joined into pieces at once, unless they are by its
 * own layout alone. */
static nabla_division wanted_layout(partition *p, const nabla_shard_plan *it,
                                    intptr_t index, MlirValue value) {
  const nabla_division to = layout_of(p, value);
  MlirOpOperand use = mlirValueGetFirstUse(value);
  if (!it->is_divided || !nabla_layout_takes(to.type) ||
      mlirOpOperandIsNull(use) ||
      !mlirOpOperandIsNull(mlirOpOperandGetNextUse(use)))
    return to;
  MlirOperation user = mlirOpOperandGetOwner(use);
  if (!nabla_is(user, "nabla.reshard") ||
      !mlirBlockEqual(mlirOperationGetBlock(user),
                      mlirOperationGetBlock(it->op)))
    return to;
  const nabla_division asked = layout_of(p, mlirOperationGetResult(user, 0));
  if (joins_pieces(p, it, index, &to) && !joins_pieces(p, it, index, &asked))
    return to;
  nabla_division *layout = nabla_layout_at(&p->map, value);
  if (!layout) return to;
  memcpy(layout->dims, asked.dims, sizeof layout->dims);
  return *layout;
}

/* Makes a result local, and brings it to the layout that its users expect. */
static bool finish_result(partition *p, const nabla_shard_plan *it,
                          const nabla_shard_piece *piece, intptr_t index,
                          MlirOperation next) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  MlirValue value = mlirOperationGetResult(it->op, index);
  const nabla_division to = wanted_layout(p, it, index, value);
  if (!nabla_layout_takes(to.type)) return true;
  result r = {.value = value,
              .now = value,
              .layout = natural_layout(p, it, index, &to),
              .next = next};
  if (!nabla_layout_local(p->shard, &r.layout, &local, message)) {
    nabla_error_at(it->op, "%s", message);
    return false;
  }
  const nabla_division natural = r.layout;
  mlirValueSetType(value, local);
  if (it->is_divided) {
    r.now = nabla_piece_finish(piece, next, index, value);
    if (mlirValueIsNull(r.now) || !join(p, it, &r, &to)) return false;
  }
  MlirOperation first;
  r.now = nabla_build_reshard(p->shard, next, r.now, &r.layout, &to, &first);
  if (mlirValueIsNull(r.now)) return false;
  if (mlirValueEqual(r.now, value)) return true;
  if (!replace_uses(p, it, &r)) return false;
  nabla_division *entry = nabla_layout_at(&p->map, r.now);
  if (entry) *entry = to;
  entry = nabla_layout_at(&p->map, value);
  if (entry) *entry = natural;
  return !p->map.failed;
}

/* ---- regions, calls ---- */

/* The layout of operand `index` of the end of a region. */
static nabla_division ended_layout(partition *p, MlirOperation end,
                                   intptr_t index, MlirType type) {
  MlirOperation op = mlirOperationGetParentOperation(end);
  const intptr_t at = index - nabla_is(end, "nabla.condition");
  nabla_division layout = nabla_layout_whole(type);
  if (at < 0) return layout;
  const nabla_division leader = layout_of(p, mlirOperationGetResult(op, at));
  if (!nabla_is(op, "nabla.scan") || at < nabla_scan_read(op).carries) {
    memcpy(layout.dims, leader.dims, sizeof layout.dims);
    return layout;
  }
  const nabla_tie tie = {mlirOperationGetResult(op, at),
                         mlirOperationGetOperand(end, index), -1, false};
  const nabla_division follows = nabla_tie_follow(tie, &leader);
  memcpy(layout.dims, follows.dims, sizeof layout.dims);
  return layout;
}

static bool bring_ended(partition *p, MlirOperation end) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
    MlirValue value = mlirOperationGetOperand(end, i);
    const nabla_division from = layout_of(p, value);
    if (!nabla_layout_takes(from.type)) continue;
    const nabla_division to = ended_layout(p, end, i, from.type);
    if (!bring(p, end, i, &to)) return false;
  }
  return true;
}

/* The layout of operand `index` of a cond, while or scan, or of a call. */
static nabla_division operand_layout(partition *p, MlirOperation op,
                                     intptr_t index, MlirType type) {
  nabla_division layout = nabla_layout_whole(type);
  MlirOperation called = nabla_called(op);
  if (!mlirOperationIsNull(called))
    return nabla_layout_of_port(p->shard, called, NABLA_ARGUMENTS, index, type);
  if (nabla_is(op, "nabla.cond")) return layout;
  if (nabla_is(op, "nabla.barrier") &&
      index >= mlirOperationGetNumResults(op)) /* what is waited for */
    return layout_of(p, mlirOperationGetOperand(op, index));
  const nabla_scan_parts scan =
      nabla_is(op, "nabla.scan")
          ? nabla_scan_read(op)
          : (nabla_scan_parts){.carries = mlirOperationGetNumResults(op)};
  if (index < scan.carries) {
    const nabla_division leader =
        layout_of(p, mlirOperationGetResult(op, index));
    memcpy(layout.dims, leader.dims, sizeof layout.dims);
  } else if (index < scan.carries + scan.inputs) {
    MlirValue slice = mlirBlockGetArgument(nabla_region_block(op, 0), index);
    const nabla_division leader = layout_of(p, slice);
    const nabla_tie tie = {slice, mlirOperationGetOperand(op, index), 1, false};
    const nabla_division follows = nabla_tie_follow(tie, &leader);
    memcpy(layout.dims, follows.dims, sizeof layout.dims);
  }
  return layout;
}

static bool bring_operands(partition *p, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const nabla_division from = layout_of(p, mlirOperationGetOperand(op, i));
    if (!nabla_layout_takes(from.type)) continue;
    const nabla_division to = operand_layout(p, op, i, from.type);
    if (!bring(p, op, i, &to)) return false;
  }
  return true;
}

static void set_block(partition *p, MlirBlock block) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
    MlirValue argument = mlirBlockGetArgument(block, i);
    const nabla_division layout = layout_of(p, argument);
    if (nabla_layout_takes(layout.type) &&
        nabla_layout_local(p->shard, &layout, &local, message))
      mlirValueSetType(argument, local);
  }
}

/* Whether a value is a constant index. */
static bool is_index(MlirValue value, int64_t *out) {
  MlirOperation op = nabla_defining_op(value);
  if (mlirOperationIsNull(op) || !nabla_is(op, "arith.constant")) return false;
  MlirAttribute number = get(op, "value");
  if (!mlirAttributeIsAInteger(number)) return false;
  *out = mlirIntegerAttrGetValueInt(number);
  return true;
}

/* A size of a value that is divided: of the whole. */
static bool bring_dim(partition *p, MlirOperation op) {
  int64_t dim;
  MlirValue value = mlirOperationGetOperand(op, 0);
  const nabla_division layout = layout_of(p, value);
  const nabla_builder b = {mlirOperationGetNextInBlock(op)};
  if (!is_index(mlirOperationGetOperand(op, 1), &dim) ||
      !nabla_layout_takes(layout.type) || dim < 0 || dim >= layout.rank) {
    const nabla_division whole = nabla_layout_whole(layout.type);
    return bring(p, op, 0, &whole);
  }
  const int64_t n = nabla_atoms_product(&p->shard->atoms, &layout.dims[dim]);
  if (n == 1) return true;
  MlirValue size = mlirOperationGetResult(op, 0), whole;
  const int64_t known = nabla_array_dim(layout.type, dim);
  result r = {.value = size, .next = b.before};
  const nabla_shard_plan it = {.op = op};
  whole = nabla_is_dynamic(known)
              ? nabla_build_arith(&b, "muli", size, nabla_build_index(&b, n))
              : nabla_build_index(&b, known);
  r.now = whole;
  return !mlirValueIsNull(whole) && replace_uses(p, &it, &r);
}

/* ---- functions ---- */

/* The layout of a result of the function: states keep that of their argument,
 * others are whole, but for what was asked. */
static nabla_division returned_layout(partition *p, intptr_t index,
                                      MlirType type) {
  MlirStringRef name = nabla_state_name(p->function, NABLA_RESULTS, index);
  const intptr_t argument =
      name.data ? nabla_state_argument(p->function, name) : -1;
  if (argument >= 0)
    return layout_of(p, mlirBlockGetArgument(p->body, argument));
  return nabla_layout_of_port(p->shard, p->function, NABLA_RESULTS, index,
                              type);
}

static bool finish_return(partition *p, MlirOperation end) {
  for (intptr_t r = 0; r < mlirOperationGetNumOperands(end); r++) {
    const nabla_division from = layout_of(p, mlirOperationGetOperand(end, r));
    const nabla_division to = returned_layout(p, r, from.type);
    if (!bring(p, end, r, &to)) return false;
  }
  return true;
}

/* A custom call without factors is done whole by every device. */
static bool count_call(partition *p, const nabla_shard_plan *it) {
  if (!nabla_is(it->op, "nabla.custom_call") || it->is_divided) return true;
  if (p->all->policy == POLICY_ERROR) {
    nabla_error_at(it->op,
                   "would be done whole by every device: give it the "
                   "attribute " NABLA_FACTORS ", such as \"..., m -> ..., m\"");
    return false;
  }
  if (!p->all->whole_calls++) p->all->first_whole = it->op;
  return true;
}

static bool is_late(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  return row && row->shard == NABLA_SHARD_late;
}

/* Operands as a shard_map wants them; values from outside are whole. */
static bool bring_shard_map(partition *p, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const nabla_division to = nabla_shard_map_layout(
        p->shard, op, "in", i,
        layout_of(p, mlirOperationGetOperand(op, i)).type);
    if (!bring(p, op, i, &to)) return false;
  }
  inside in = {p, op, false};
  mlirOperationWalk(op, bring_inside, &in, MlirWalkPreOrder);
  return !in.failed;
}

/* Operations without results that only describe shardings. */
static bool is_note(partition *p, MlirOperation op) {
  if (nabla_is(op, "nabla.sharding_group")) return true;
  if (!nabla_is(op, "nabla.inspect_sharding")) return false;
  const nabla_division layout = layout_of(p, mlirOperationGetOperand(op, 0));
  nabla_inspect(p->shard, op, &layout);
  return true;
}

/* Brings the operands of an operation where they are expected. */
static bool bring_all(partition *p, const nabla_shard_plan *it,
                      nabla_shard_piece *piece) {
  MlirOperation op = it->op;
  if (nabla_is_shard_map(op)) return bring_shard_map(p, op);
  if (it->is_divided) return bring_divided(p, it, piece);
  if (nabla_is(op, "tensor.dim")) return bring_dim(p, op);
  if (nabla_ties_ends(op)) return bring_ended(p, op);
  if (!mlirOperationIsNull(nabla_called(op))) return bring_operands(p, op);
  if (!nabla_ties_has(op)) return bring_whole(p, op);
  if (!bring_operands(p, op)) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++)
    set_block(p, nabla_region_block(op, i));
  return true;
}

static bool apply(partition *p, const nabla_shard_plan *it) {
  MlirOperation op = it->op;
  nabla_shard_piece piece = {
      .grid = p->shard, .op = op, .factors = &it->factors, .lists = it->lists};
  mlirOperationRemoveAttributeByName(op, nabla_ref(NABLA_SHARDINGS));
  if (is_late(op)) {
    nabla_error_at(op, "is made by nabla-dispatch, after programs are divided");
    return false;
  }
  if (nabla_is(op, "func.return")) return finish_return(p, op);
  if (is_note(p, op)) return true;
  MlirOperation next = mlirOperationGetNextInBlock(op);
  if (!count_call(p, it) || !bring_all(p, it, &piece)) return false;
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
    if (!finish_result(p, it, &piece, r, next)) return false;
  return true;
}

/* Shardings are met, and regions of shard_map are local. They go last: plans
 * know values of theirs. */
static bool drop_note(MlirOperation op, void *self) {
  (void)self;
  nabla_sharding_note_drop(op);
  return true;
}

static bool inline_shard_map(MlirOperation op, void *self) {
  (void)self;
  nabla_shard_map_inline(op);
  return true;
}

static bool finish_notes(partition *p) {
  return mlirLogicalResultIsSuccess(nabla_ops_each(
             p->function, nabla_is_sharding_note, drop_note, NULL)) &&
         mlirLogicalResultIsSuccess(nabla_ops_each(
             p->function, nabla_is_shard_map, inline_shard_map, NULL));
}

static bool check_shard_map(MlirOperation op, void *self) {
  const partition *p = self;
  return nabla_shard_map_check(p->shard, op);
}

/* Results of functions that callers outside see are gathered, unless the option
 * `results` leaves them divided. */
static bool refuse_results(MlirOperation function) {
  MlirType type = mlirTypeAttrGetValue(get(function, "function_type"));
  for (intptr_t r = 0; r < mlirFunctionTypeGetNumResults(type); r++) {
    if (nabla_is_private(function) ||
        nabla_state_name(function, NABLA_RESULTS, r).data ||
        mlirAttributeIsNull(
            nabla_state_attribute(function, NABLA_RESULTS, r, NABLA_SHARDING)))
      continue;
    nabla_error_at(function,
                   "result %td has a sharding: results that are no states are "
                   "gathered, and have none, without results=divided",
                   r);
    return false;
  }
  return true;
}

/* ---- partitioners of custom calls ---- */

static bool is_partitioned_call(MlirOperation op) {
  const nabla_partitioner *by = nabla_partitioner_of(op);
  return by && !by->batch_dims;
}

/* Whether an axis of the mesh divides none of the arrays of a call: all devices
 * along it do the same. */
static bool repeats(const partition *p, const nabla_divided_call *call) {
  uint64_t used = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(call->op); i++)
    used |= nabla_layout_used(&call->operands[i]);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(call->op); i++)
    used |= nabla_layout_used(&call->results[i]);
  for (uint32_t i = 0; i < p->shard->atoms.count; i++)
    if (p->shard->atoms.size[i] > 1 && !(used >> i & 1)) return true;
  return false;
}

static bool check_effects(const partition *p, const nabla_divided_call *call) {
  if (!mlirAttributeIsNull(get(call->op, "pure")) ||
      call->partitioner->functions.may_replicate_side_effects ||
      !repeats(p, call))
    return true;
  nabla_error_at(call->op,
                 "has effects, which several devices would repeat: the "
                 "partitioner of '%.60s' sets no may_replicate_side_effects",
                 call->partitioner->target);
  return false;
}

/* Without `partition`: the call itself, of the pieces that `infer` and
 * `propagate` go together with; whole where they refuse. */
static void agree(nabla_divided_call *call) {
  const nabla_call_partitioner *by = &call->partitioner->functions;
  const intptr_t operands = mlirOperationGetNumOperands(call->op);
  const intptr_t results = mlirOperationGetNumResults(call->op);
  bool good = true;
  for (intptr_t i = 0; by->infer && i < results; i++)
    call->results[i] = nabla_layout_whole(call->results[i].type);
  if (by->infer) good = nabla_partitioner_run(call, by->infer, false);
  for (intptr_t i = 0; (by->propagate || !good) && i < operands; i++)
    call->operands[i] = nabla_layout_whole(call->operands[i].type);
  if (good && by->propagate)
    good = nabla_partitioner_run(call, by->propagate, false);
  for (intptr_t i = 0; !good && i < operands; i++)
    call->operands[i] = nabla_layout_whole(call->operands[i].type);
  for (intptr_t i = 0; !good && i < results; i++)
    call->results[i] = nabla_layout_whole(call->results[i].type);
}

/* Arrays that would be padded are taken whole. */
static void make_even(const partition *p, size_t count,
                      nabla_division *layouts) {
  for (size_t i = 0; i < count; i++)
    if (!nabla_layout_is_even(p->shard, &layouts[i]))
      layouts[i] = nabla_layout_whole(layouts[i].type);
}

static bool replace_call(const partition *p, nabla_divided_call *call) {
  const nabla_call_partitioner *by = &call->partitioner->functions;
  make_even(p, (size_t)mlirOperationGetNumOperands(call->op), call->operands);
  make_even(p, (size_t)mlirOperationGetNumResults(call->op), call->results);
  if (!by->partition) agree(call);
  return (!by->partition || nabla_partitioner_run(call, by->partition, true)) &&
         check_effects(p, call) && nabla_divided_call_replace(call);
}

typedef struct call_list {
  partition *p;
  nabla_divided_call *first, **end;
} call_list;

static bool add_call(MlirOperation op, void *self) {
  call_list *list = self;
  partition *p = list->p;
  nabla_divided_call *call = calloc(1, sizeof *call);
  if (!call) {
    p->failed = true;
    return false;
  }
  call->grid = p->shard;
  call->partitioner = nabla_partitioner_of(op);
  call->op = op;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    call->operands[i] = layout_of(p, mlirOperationGetOperand(op, i));
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    call->results[i] = layout_of(p, mlirOperationGetResult(op, i));
  *list->end = call;
  list->end = &call->next;
  return true;
}

/* Custom calls become regions of one device, once the layouts of all of their
 * arrays are read. Layouts are read anew after. */
static bool replace_calls(partition *p) {
  call_list list = {.p = p, .end = &list.first};
  if (!nabla_partitioners_are_used()) return true;
  if (!read_arguments(p)) return false;
  mlirOperationWalk(p->function, read_op, p, MlirWalkPreOrder);
  bool good = !p->map.failed &&
              mlirLogicalResultIsSuccess(nabla_ops_each(
                  p->function, is_partitioned_call, add_call, &list)) &&
              !p->map.failed;
  for (nabla_divided_call *next, *call = list.first; call; call = next) {
    next = call->next;
    good = good && replace_call(p, call);
    nabla_text_deinit(&call->program);
    free(call);
  }
  const bool failed = p->map.failed;
  nabla_layout_map_deinit(&p->map);
  p->map = (nabla_layout_map){.failed = failed};
  return good;
}

static bool divide(partition *p) {
  if (!replace_calls(p)) return false;
  if (mlirLogicalResultIsFailure(nabla_ops_each(p->function, nabla_is_shard_map,
                                                check_shard_map, p)) ||
      !read_arguments(p))
    return false;
  mlirOperationWalk(p->function, read_op, p, MlirWalkPreOrder);
  if (p->map.failed) return false;
  mlirOperationWalk(p->function, make_plan, p, MlirWalkPreOrder);
  if (p->failed || p->refused) return false;
  set_block(p, p->body);
  for (size_t i = 0; i < p->count; i++)
    if (!apply(p, &p->plans[i])) return false;
  return finish_notes(p) && nabla_function_update_type(p->function);
}

static bool is_function(MlirOperation op) {
  return nabla_is(op, "func.func") &&
         mlirAttributeIsNull(get(op, NABLA_PARTITIONED)) &&
         !mlirBlockIsNull(nabla_function_body(op));
}

static bool run_function(MlirOperation function, void *self) {
  partitioning *all = self;
  partition p = {.all = all,
                 .shard = all->grid,
                 .function = function,
                 .body = nabla_function_body(function)};
  MlirBlock second = mlirBlockGetNextInRegion(p.body);
  if (!mlirBlockIsNull(second)) {
    nabla_error_at(function, "has several blocks: it cannot be divided");
    return false;
  }
  const bool good =
      (all->divides_results || refuse_results(function)) && divide(&p);
  if (p.map.failed || p.failed)
    nabla_error_at(function, "is too large to divide");
  nabla_layout_map_deinit(&p.map);
  free(p.plans);
  return good;
}

/* Calls have read shardings of functions until here. */
static bool mark(MlirOperation function, void *self) {
  const partitioning *all = self;
  nabla_state_strip(function, NABLA_ARGUMENTS, NABLA_SHARDING);
  nabla_state_strip(function, NABLA_RESULTS, NABLA_SHARDING);
  mlirOperationSetAttributeByName(
      function, nabla_ref(NABLA_PARTITIONED),
      mlirFlatSymbolRefAttrGet(nabla_op_context(function),
                               nabla_ref(all->grid->mesh.name)));
  return true;
}

static void warn(const partitioning *all) {
  char text[160];
  if (!all->whole_calls || all->policy == POLICY_OFF) return;
  snprintf(text, sizeof text,
           "%zu custom call%s done whole by every device: nabla.factors says "
           "how a call is divided",
           all->whole_calls, all->whole_calls == 1 ? " is" : "s are");
  nablaEmitWarning(mlirOperationGetLocation(all->first_whole), text);
}

static bool has_factors(MlirOperation op) {
  return nabla_is(op, "nabla.custom_call") &&
         !mlirAttributeIsNull(get(op, NABLA_FACTORS));
}

static bool drop_factors(MlirOperation op, void *self) {
  (void)self;
  mlirOperationRemoveAttributeByName(op, nabla_ref(NABLA_FACTORS));
  mlirOperationRemoveAttributeByName(op, nabla_ref(NABLA_REDUCTION));
  return true;
}

MlirLogicalResult nabla_run_partition(MlirOperation op,
                                      const nablaPassValue *values,
                                      void *prepared) {
  static const char *const policies[] = {"off", "warn", "error"};
  (void)prepared;
  nabla_grid shard;
  size_t meshes = 0;
  partitioning all = {.grid = &shard, .policy = POLICY_WARN};
  for (int i = 0; i < 3; i++)
    if (!strcmp(values[0].string, policies[i])) all.policy = (policy)i;
  all.divides_results = !strcmp(values[1].string, "divided");
  if (!nabla_shard_begin(op, &shard, &meshes))
    return mlirLogicalResultFailure();
  if (!meshes) return nabla_ops_each(op, has_factors, drop_factors, NULL);
  if (mlirLogicalResultIsFailure(
          nabla_ops_each(op, is_function, run_function, &all)))
    return mlirLogicalResultFailure();
  warn(&all);
  return nabla_ops_each(op, is_function, mark, &all);
}
