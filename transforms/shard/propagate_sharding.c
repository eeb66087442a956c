/* nabla-propagate-sharding: from annotations of some values to a layout of all,
 * by the factors of operations, forward and backward, until nothing changes.
 * Rounds of user priorities; in each, first the operations that pass all of
 * their factors through, then all. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/control.h"
#include "dialect/verify/verify.h"
#include "transforms/ir/functions.h"
#include "transforms/passes.h"
#include "transforms/shard/annotate.h"
#include "transforms/shard/partitioners.h"
#include "transforms/shard/shard_map.h"
#include "transforms/shard/ties.h"
#include "transforms/state/state.h"

#define CATEGORY "nabla-propagate-sharding"

typedef struct propagation {
  nabla_grid shard;
  nabla_op_list functions; /* with bodies, but for those of one device */
  nabla_layout_map map;
  int round, last_round;  /* user priorities */
  bool divides_results;   /* those of public functions stay divided */
  MlirOperation function; /* whose argument is asked for now; else null */
  intptr_t argument;
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

static int shown(MlirStringRef text) {
  return text.length < NABLA_MESSAGE_SIZE ? (int)text.length
                                          : NABLA_MESSAGE_SIZE;
}

/* Says why a value is divided less than was asked: users see a warning. */
static void say_less(const propagation *p, MlirLocation location,
                     const nabla_division *layout, const char *why) {
  const nabla_layout_text got = nabla_layout_format(&p->shard, layout);
  char text[4 * NABLA_MESSAGE_SIZE];
  char fallback[32];
  remark(location, "is divided as %s: %s", got.data, why);
  if (mlirOperationIsNull(p->function)) return;
  const MlirAttribute option = nabla_state_attribute(
      p->function, NABLA_ARGUMENTS, p->argument, NABLA_SHARD_OPTION);
  if (mlirAttributeIsNull(option) || !mlirAttributeIsAString(option)) return;
  const MlirStringRef asked = mlirStringAttrGetValue(option),
                      name = nabla_argument_name(p->function, p->argument,
                                                 fallback);
  snprintf(text, sizeof text,
           "--shard '%.*s': argument '%.*s' is divided as %s: %s", shown(asked),
           asked.data, shown(name), name.data, got.data, why);
  nablaEmitWarning(location, text);
}

/* The next larger numbers of elements along `dim` that all atoms divide. */
static void add_legal(propagation *p, const nabla_division *asked, intptr_t dim,
                      char message[NABLA_MESSAGE_SIZE]) {
  char why[NABLA_MESSAGE_SIZE];
  MlirType local;
  const int64_t n = nabla_atoms_product(&p->shard.atoms, &asked->dims[dim]);
  const nablaImplicit parts = nablaImplicitTypeParts(asked->type);
  int64_t shape[NABLA_MAX_RANK], size = parts.shape[dim];
  if (parts.storageRank >= 0) return;
  memcpy(shape, parts.shape, (size_t)parts.rank * sizeof *shape);
  for (size = (size + n) / n * n; size < 16 * parts.shape[dim] + 4096 * n;
       size += n) {
    nabla_division other = *asked;
    shape[dim] = size;
    const nablaImplicitType grown = {
        parts.rank, 0, shape, NULL, parts.elementType, parts.encoding};
    if (!nablaHookImplicitVerify(&grown, why)) continue;
    other.type = nablaImplicitTypeGet(mlirTypeGetContext(asked->type), &grown);
    if (!nabla_layout_local(&p->shard, &other, &local, why)) continue;
    const size_t length = strlen(message);
    snprintf(message + length, NABLA_MESSAGE_SIZE - length,
             "; the next size that is: %" PRId64, size);
    return;
  }
}

/* Takes atoms from the end of dimension `dim` until the array can be divided;
 * whether none had to be taken. */
static bool fit(propagation *p, MlirValue value, nabla_division *layout,
                intptr_t dim, char message[NABLA_MESSAGE_SIZE]) {
  MlirType local;
  const nabla_division asked = *layout;
  char why[NABLA_MESSAGE_SIZE];
  bool all = true;
  if (layout->dims[dim].count && !nabla_layout_may_decode(value)) {
    snprintf(message, NABLA_MESSAGE_SIZE,
             "an operation needs its packed scales, which are decoded in "
             "pieces");
    layout->dims[dim].count = 0;
    return false;
  }
  while (layout->dims[dim].count &&
         !nabla_layout_local(&p->shard, layout, &local, why)) {
    if (all) snprintf(message, NABLA_MESSAGE_SIZE, "%s", why);
    layout->dims[dim].count--;
    all = false;
  }
  if (!all && nablaTypeIsAImplicit(asked.type))
    add_legal(p, &asked, dim, message);
  return all;
}

/* Whether a value is nothing but returned, which is done whole. */
static bool is_returned_alone(MlirValue value) {
  MlirOpOperand use = mlirValueGetFirstUse(value);
  if (mlirOpOperandIsNull(use)) return false;
  for (; !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
    if (!nabla_is(mlirOpOperandGetOwner(use), "func.return")) return false;
  return true;
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
    if (fit(p, value, layout, (intptr_t)d, message)) continue;
    good = !is_strict || (nabla_layout_packs_scales(layout->type) &&
                          is_returned_alone(value));
    if (good) say_less(p, location, layout, message);
  }
  if (good) return true;
  char text[NABLA_MESSAGE_SIZE + 32];
  snprintf(text, sizeof text, "sharding: %s", message);
  mlirEmitError(location, text);
  return false;
}

static bool ask_ports(propagation *p, MlirOperation function, const char *list,
                      MlirBlock body) {
  const bool takes = !strcmp(list, NABLA_ARGUMENTS);
  MlirOperation end = mlirBlockGetTerminator(body);
  const intptr_t count =
      takes ? mlirBlockGetNumArguments(body) : mlirOperationGetNumOperands(end);
  for (intptr_t i = 0; i < count; i++) {
    MlirAttribute attribute =
        nabla_state_attribute(function, list, i, NABLA_SHARDING);
    if (mlirAttributeIsNull(attribute)) continue;
    if (!nabla_sharding_is(attribute)) {
      nabla_error_at(function, "%s %td: nabla.sharding is no sharding",
                     takes ? "argument" : "result", i);
      return false;
    }
    if (takes) {
      p->function = function;
      p->argument = i;
    }
    const bool good = ask(
        p, mlirOperationGetLocation(function),
        takes ? mlirBlockGetArgument(body, i) : mlirOperationGetOperand(end, i),
        attribute, false);
    p->function = (MlirOperation){NULL};
    if (!good) return false;
  }
  return true;
}

/* What constraints, reshard and shard_map say of their results. */
static bool ask_note(propagation *p, MlirOperation op) {
  MlirLocation location = mlirOperationGetLocation(op);
  if (nabla_is(op, "nabla.sharding_constraint") ||
      nabla_is(op, "nabla.reshard"))
    return ask(p, location, mlirOperationGetResult(op, 0), get(op, "sharding"),
               true);
  if (!nabla_is_shard_map(op)) return true;
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
    if (!ask(p, location, mlirOperationGetResult(op, r),
             mlirArrayAttrGetElement(get(op, "out"), r), true))
      return false;
  return true;
}

static bool ask_op(propagation *p, MlirOperation op) {
  if (!ask_note(p, op) ||
      mlirLogicalResultIsFailure(nabla_verify_shardings(op)))
    return false;
  MlirAttribute list = get(op, NABLA_SHARDINGS);
  if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)) return true;
  const intptr_t results = mlirOperationGetNumResults(op);
  for (intptr_t r = 0; r < mlirArrayAttrGetNumElements(list); r++) {
    MlirValue value =
        r < results
            ? mlirOperationGetResult(op, r)
            : mlirBlockGetArgument(nabla_region_block(op, 0),
                                   nabla_scan_read(op).carries + r - results);
    if (nabla_sharding_is(mlirArrayAttrGetElement(list, r)) &&
        !ask(p, mlirOperationGetLocation(op), value,
             mlirArrayAttrGetElement(list, r), false))
      return false;
  }
  return true;
}

/* Operations of a function, also in regions, until `visit` returns false. */
typedef struct walk {
  propagation *p;
  bool (*visit)(propagation *p, MlirOperation op, bool all);
  bool all, changed;
} walk;

static MlirWalkResult walk_op(MlirOperation op, void *self) {
  walk *w = self;
  w->changed = w->visit(w->p, op, w->all) || w->changed;
  return nabla_is_shard_map(op) ? MlirWalkResultSkip : MlirWalkResultAdvance;
}

static bool walk_all(propagation *p, bool all,
                     bool (*visit)(propagation *p, MlirOperation op,
                                   bool all)) {
  walk w = {p, visit, all, false};
  for (size_t i = 0; i < p->functions.count; i++)
    mlirOperationWalk(p->functions.ops[i], walk_op, &w, MlirWalkPreOrder);
  return w.changed;
}

/* Whether an operation asks for what cannot be done. */
static bool fails(propagation *p, MlirOperation op, bool all) {
  (void)all;
  return !ask_op(p, op);
}

static bool ask_all(propagation *p) {
  for (size_t i = 0; i < p->functions.count; i++) {
    MlirOperation function = p->functions.ops[i];
    MlirBlock body = nabla_function_body(function);
    if (!ask_ports(p, function, NABLA_ARGUMENTS, body) ||
        !ask_ports(p, function, NABLA_RESULTS, body))
      return false;
  }
  return !walk_all(p, false, fails);
}

/* ---- steps ---- */

static bool is_prefix(const nabla_atom_list *a, const nabla_atom_list *b) {
  return a->count <= b->count && !memcmp(a->at, b->at, a->count);
}

/* A packed array that several operations read keeps what the user gave: not
 * every division of it can be exchanged for another. */
static bool may_change(MlirValue value) {
  return !nablaTypeIsAImplicit(mlirValueGetType(value)) ||
         nabla_use_count(value) == 1;
}

/* Finds how dimensions of a packed value are those of its operation's first
 * operand: of a transpose, a lora and its base. */
static bool dims_of_operand(MlirOperation op, MlirValue value, intptr_t rank,
                            int64_t order[NABLA_MAX_RANK]) {
  if (mlirOperationIsNull(op)) return false;
  if (nabla_is(op, "nabla.transpose"))
    return nabla_op_integers(op, "permutation", order) == rank;
  for (intptr_t d = 0; d < rank; d++) order[d] = d;
  return (nabla_is(op, "nabla.pack") &&
          nabla_layout_is_lora(mlirValueGetType(value))) ||
         (nabla_is(op, "nabla.unpack") &&
          nabla_layout_is_lora(nabla_operand_type(op, 0)));
}

/* Whether a packed value is the transpose of one that is divided so, or a lora
 * or the base of one. */
static bool follows_operand(propagation *p, MlirValue value,
                            const nabla_division *more) {
  int64_t order[NABLA_MAX_RANK];
  MlirOperation op = nabla_defining_op(value);
  if (!dims_of_operand(op, value, more->rank, order)) return false;
  const nabla_division of =
      nabla_layout_of(&p->map, mlirOperationGetOperand(op, 0));
  if (of.rank != more->rank) return false;
  for (intptr_t d = 0; d < more->rank; d++)
    if (!is_prefix(&more->dims[d], &of.dims[order[d]])) return false;
  return true;
}

/* Gives a value more atoms, dimension by dimension, where that is legal. */
static bool offer(propagation *p, MlirValue value, const nabla_division *more) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  const bool moves = may_change(value) || follows_operand(p, value, more);
  nabla_division *layout = nabla_layout_at(&p->map, value);
  bool changed = false;
  if (!layout || !moves || !nabla_layout_may_decode(value)) return false;
  for (intptr_t d = 0; d < layout->rank; d++) {
    nabla_atom_list wanted = more->dims[d];
    if (layout->closed >> d & 1 || !is_prefix(&layout->dims[d], &wanted))
      continue;
    nabla_division with = *layout;
    with.dims[d].count = 0;
    const uint64_t used = nabla_layout_used(&with);
    for (uint32_t i = 0; i < wanted.count; i++)
      if (used >> wanted.at[i] & 1) wanted.count = i;
    for (with.dims[d] = wanted; with.dims[d].count > layout->dims[d].count;
         with.dims[d].count--) {
      if (!nabla_layout_local(&p->shard, &with, &local, message)) continue;
      layout->dims[d] = with.dims[d];
      changed = true;
    }
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
      if (nabla_factor_divides(&f.all[i]) && lists[i].count > best[i].count)
        best[i] = lists[i];
  }
  resolve(&f, best);
  for (uint32_t i = 0; i < f.count; i++)
    while (!nabla_factor_takes(&p->shard, &f, i, &best[i])) best[i].count--;
  bool changed = false;
  for (uint32_t a = 0; a < f.array_count; a++) {
    const nabla_division more =
        nabla_factors_join(&p->shard, &f, &f.arrays[a], best);
    changed = offer(p, f.arrays[a].value, &more) || changed;
  }
  return changed;
}

/* ---- ties ---- */

static nabla_division layout_of(propagation *p, MlirValue value) {
  const nabla_division *layout = nabla_layout_at(&p->map, value);
  return layout ? *layout : nabla_layout_whole(mlirValueGetType(value));
}

typedef struct tying {
  propagation *p;
  bool changed;
} tying;

static void tie_values(void *self, nabla_tie tie) {
  tying *t = self;
  const nabla_division leader = layout_of(t->p, tie.leader);
  const nabla_division follows = nabla_tie_follow(tie, &leader);
  t->changed = offer(t->p, tie.other, &follows) || t->changed;
  const nabla_division other = layout_of(t->p, tie.other);
  const nabla_division leads = nabla_tie_lead(tie, &other);
  t->changed = offer(t->p, tie.leader, &leads) || t->changed;
}

/* A state and the value that replaces it have one layout. */
static bool tie_states(propagation *p, MlirOperation function,
                       MlirOperation end) {
  tying t = {p, false};
  for (intptr_t r = 0; r < mlirOperationGetNumOperands(end); r++) {
    MlirStringRef name = nabla_state_name(function, NABLA_RESULTS, r);
    const intptr_t i = name.data ? nabla_state_argument(function, name) : -1;
    if (i >= 0)
      tie_values(&t, (nabla_tie){
                         mlirBlockGetArgument(nabla_function_body(function), i),
                         mlirOperationGetOperand(end, r), 0, false});
  }
  return t.changed;
}

/* Arguments and results of a call and of the function. */
static bool tie_call(propagation *p, MlirOperation call) {
  tying t = {p, false};
  MlirOperation function = nabla_called(call);
  if (mlirOperationIsNull(function) || mlirOperationIsNull(call)) return false;
  MlirBlock body = nabla_function_body(function);
  if (!mlirBlockIsNull(mlirBlockGetNextInRegion(body)) ||
      !mlirAttributeIsNull(get(function, NABLA_PARTITIONED)))
    return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(call); i++)
    if (nabla_layout_takes(nabla_operand_type(call, i)))
      tie_values(&t, (nabla_tie){mlirBlockGetArgument(body, i),
                                 mlirOperationGetOperand(call, i), 0, false});
  MlirOperation end = mlirBlockGetTerminator(body);
  for (intptr_t i = 0;
       nabla_is_private(function) && i < mlirOperationGetNumResults(call); i++)
    if (nabla_layout_takes(nabla_result_type(call, i)))
      tie_values(&t, (nabla_tie){mlirOperationGetOperand(end, i),
                                 mlirOperationGetResult(call, i), 0, false});
  return t.changed;
}

/* The operands of a shard_map as it wants them. */
static bool step_shard_map(propagation *p, MlirOperation op) {
  bool changed = false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const nabla_division wanted = nabla_shard_map_layout(
        &p->shard, op, "in", i, nabla_operand_type(op, i));
    changed = offer(p, mlirOperationGetOperand(op, i), &wanted) || changed;
  }
  return changed;
}

static bool offer_from(propagation *p, MlirValue to, MlirValue from) {
  const nabla_division more = layout_of(p, from);
  return offer(p, to, &more);
}

/* In the directions that are allowed. */
static bool step_barrier(propagation *p, MlirOperation op) {
  enum { FORWARD = 1, BACKWARD = 2 };
  const int64_t allowed = nabla_op_integer(op, "allowed", 0);
  MlirValue x = mlirOperationGetOperand(op, 0);
  MlirValue y = mlirOperationGetResult(op, 0);
  bool changed = allowed & FORWARD && offer_from(p, y, x);
  if (allowed & BACKWARD) changed = offer_from(p, x, y) || changed;
  return changed;
}

/* Of one group are this and the first before it of the same number. */
static bool step_group(propagation *p, MlirOperation op) {
  MlirValue own = mlirOperationGetOperand(op, 0);
  MlirOperation first = mlirBlockGetFirstOperation(mlirOperationGetBlock(op));
  for (; !mlirOperationEqual(first, op);
       first = mlirOperationGetNextInBlock(first)) {
    if (!nabla_is(first, "nabla.sharding_group") ||
        nabla_op_integer(first, "group", 0) != nabla_op_integer(op, "group", 0))
      continue;
    MlirValue other = mlirOperationGetOperand(first, 0);
    const bool changed = offer_from(p, own, other);
    return offer_from(p, other, own) || changed;
  }
  return false;
}

static bool any_divided(const nabla_division *layouts, intptr_t count) {
  for (intptr_t i = 0; i < count; i++)
    if (!nabla_layout_is_whole(&layouts[i])) return true;
  return false;
}

/* A custom call by its partitioner, forward and backward. */
static bool step_partitioner(propagation *p, MlirOperation op,
                             const nabla_partitioner *by) {
  const intptr_t operands = mlirOperationGetNumOperands(op);
  const intptr_t results = mlirOperationGetNumResults(op);
  nabla_divided_call *call = malloc(sizeof *call);
  bool changed = false;
  for (int forward = 1; call && forward >= 0; forward--) {
    *call =
        (nabla_divided_call){.grid = &p->shard, .partitioner = by, .op = op};
    for (intptr_t i = 0; i < operands; i++)
      call->operands[i] = layout_of(p, mlirOperationGetOperand(op, i));
    for (intptr_t i = 0; i < results; i++)
      call->results[i] = layout_of(p, mlirOperationGetResult(op, i));
    int (*function)(const nabla_partition_call *) =
        forward ? by->functions.infer : by->functions.propagate;
    if (function &&
        any_divided(forward ? call->operands : call->results,
                    forward ? operands : results) &&
        nabla_partitioner_run(call, function, false)) {
      for (intptr_t i = 0; forward && i < results; i++)
        changed = offer(p, mlirOperationGetResult(op, i), &call->results[i]) ||
                  changed;
      for (intptr_t i = 0; !forward && i < operands; i++)
        changed =
            offer(p, mlirOperationGetOperand(op, i), &call->operands[i]) ||
            changed;
    }
    nabla_text_deinit(&call->program);
  }
  free(call);
  return changed;
}

static bool visit(propagation *p, MlirOperation op, bool all) {
  tying t = {p, false};
  const nabla_partitioner *by = nabla_partitioner_of(op);
  if (by && !by->batch_dims) return step_partitioner(p, op, by);
  if (nabla_is_shard_map(op)) return step_shard_map(p, op);
  if (nabla_is(op, "nabla.reshard")) return false;
  if (nabla_is(op, "nabla.propagation_barrier")) return step_barrier(p, op);
  if (nabla_is(op, "nabla.sharding_group")) return step_group(p, op);
  if (nabla_is(op, "func.call")) return tie_call(p, op);
  if (nabla_is(op, "func.return"))
    return tie_states(p, mlirOperationGetParentOperation(op), op);
  if (!nabla_ties_has(op)) return step(p, op, all);
  nabla_ties_of(op, tie_values, &t);
  return t.changed;
}

static bool propagate(propagation *p) {
  for (p->round = 0; p->round <= p->last_round; p->round++) {
    if (!ask_all(p)) return false;
    do {
      while (walk_all(p, false, visit) && !p->map.failed) continue;
    } while (walk_all(p, true, visit) && !p->map.failed);
  }
  return !p->map.failed;
}

/* ---- writing ---- */

/* Whether a result that callers outside see may stay divided: all devices have
 * pieces of one size, of a dense array. */
static bool may_stay(const propagation *p, MlirOperation function,
                     intptr_t index, const nabla_division *layout) {
  if (!p->divides_results || !mlirTypeIsARankedTensor(layout->type) ||
      nabla_state_name(function, NABLA_RESULTS, index).data)
    return false;
  for (intptr_t d = 0; d < layout->rank; d++)
    if (nabla_array_dim(layout->type, d) <= 0) return false;
  return nabla_layout_is_even(&p->shard, layout);
}

static void write_ports(propagation *p, MlirOperation function,
                        const char *list) {
  MlirBlock body = nabla_function_body(function);
  MlirOperation end = mlirBlockGetTerminator(body);
  const bool takes = !strcmp(list, NABLA_ARGUMENTS);
  const intptr_t count =
      takes ? mlirBlockGetNumArguments(body) : mlirOperationGetNumOperands(end);
  MlirAttribute *values = calloc((size_t)count + 1, sizeof *values);
  if (!values) {
    p->map.failed = true;
    return;
  }
  for (intptr_t i = 0; i < count; i++) {
    MlirValue value =
        takes ? mlirBlockGetArgument(body, i) : mlirOperationGetOperand(end, i);
    const nabla_division layout = layout_of(p, value);
    const bool was = !mlirAttributeIsNull(
        nabla_state_attribute(function, list, i, NABLA_SHARDING));
    const bool writes = takes || was || nabla_is_private(function) ||
                        may_stay(p, function, i, &layout);
    if (writes && nabla_layout_takes(mlirValueGetType(value)) &&
        !nabla_layout_is_whole(&layout))
      values[i] = nabla_layout_attribute(&p->shard, nabla_op_context(function),
                                         &layout);
  }
  nabla_state_strip(function, list, NABLA_SHARDING);
  nabla_ports_set(function, list, NABLA_SHARDING, values);
  free(values);
}

/* Layouts of results, then of the slices that a scan gives to its body. */
static bool write_op(propagation *p, MlirOperation op, bool all) {
  const intptr_t count = mlirOperationGetNumResults(op);
  intptr_t written = 0;
  bool whole = true;
  (void)all;
  mlirOperationRemoveAttributeByName(op, nabla_ref(NABLA_SHARDINGS));
  if (count > NABLA_MAX_RESULTS || nabla_is(op, "func.func")) return false;
  const bool scans = nabla_is(op, "nabla.scan");
  const nabla_scan_parts scan =
      scans ? nabla_scan_read(op) : (nabla_scan_parts){.inputs = 0};
  MlirAttribute *list =
      malloc((size_t)(count + scan.inputs + 1) * sizeof *list);
  if (!list) {
    p->map.failed = true;
    return false;
  }
  for (intptr_t r = 0; r < count + scan.inputs; r++) {
    MlirValue value = r < count
                          ? mlirOperationGetResult(op, r)
                          : mlirBlockGetArgument(nabla_region_block(op, 0),
                                                 scan.carries + r - count);
    const nabla_division layout = layout_of(p, value);
    whole = whole && nabla_layout_is_whole(&layout);
    list[written++] =
        nabla_layout_attribute(&p->shard, nabla_op_context(op), &layout);
  }
  if (!whole)
    mlirOperationSetAttributeByName(
        op, nabla_ref(NABLA_SHARDINGS),
        mlirArrayAttrGet(nabla_op_context(op), written, list));
  free(list);
  return false;
}

/* A function that is to be divided. */
static bool is_function(MlirOperation op) {
  if (!nabla_is(op, "func.func")) return false;
  MlirBlock body = nabla_function_body(op);
  return !mlirBlockIsNull(body) &&
         mlirBlockIsNull(mlirBlockGetNextInRegion(body)) &&
         mlirAttributeIsNull(get(op, NABLA_PARTITIONED));
}

static bool run(MlirOperation module, const nabla_grid *shard,
                bool divides_results) {
  propagation p = {.shard = *shard,
                   .divides_results = divides_results,
                   .functions = nabla_ops_collect(module, is_function)};
  bool good = !p.functions.failed && propagate(&p);
  for (size_t i = 0; good && i < p.functions.count; i++) {
    nabla_state_strip(p.functions.ops[i], NABLA_ARGUMENTS, NABLA_SHARD_OPTION);
    write_ports(&p, p.functions.ops[i], NABLA_ARGUMENTS);
    write_ports(&p, p.functions.ops[i], NABLA_RESULTS);
  }
  if (good) (void)walk_all(&p, true, write_op);
  good = good && !p.map.failed;
  if (p.map.failed) nabla_error_at(module, "is too large to divide");
  nabla_op_list_deinit(&p.functions);
  nabla_layout_map_deinit(&p.map);
  return good;
}

/* ---- without a mesh ---- */

static bool drop_note(MlirOperation op, void *self) {
  (void)self;
  nablaOptimizationRemark(mlirOperationGetLocation(op), true, "NoMesh",
                          CATEGORY, "a sharding is dropped: there is no mesh");
  const nabla_division whole = nabla_layout_whole(nabla_operand_type(op, 0));
  if (nabla_is(op, "nabla.inspect_sharding")) nabla_inspect(NULL, op, &whole);
  nabla_sharding_note_drop(op);
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
  nabla_state_strip(op, NABLA_ARGUMENTS, NABLA_SHARD_OPTION);
  return true;
}

MlirLogicalResult nabla_run_propagate_sharding(MlirOperation op,
                                               const nablaPassValue *values,
                                               void *prepared) {
  (void)prepared;
  const bool divides_results = !strcmp(values[0].string, "divided");
  nabla_grid shard;
  size_t meshes = 0;
  if (!nabla_shard_begin(op, &shard, &meshes))
    return mlirLogicalResultFailure();
  if (meshes)
    return run(op, &shard, divides_results) ? mlirLogicalResultSuccess()
                                            : mlirLogicalResultFailure();
  if (mlirLogicalResultIsFailure(
          nabla_ops_each(op, nabla_is_sharding_note, drop_note, NULL)))
    return mlirLogicalResultFailure();
  return nabla_ops_each(op, is_function, drop_function, NULL);
}
