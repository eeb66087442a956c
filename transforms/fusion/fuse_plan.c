/* See fuse_plan.h. */
#include "transforms/fusion/fuse_plan.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transforms/fusion/fuse_dims.h"

/* Blocks of more elementwise operations are planned as a whole: a loop for each
 * that has several users takes LLVM too long. */
#define ORDINARY_OPS 1024

/* ---- elementwise operations ---- */

MlirAffineMap nabla_elementwise_map(const nabla_elementwise *e,
                                    intptr_t operand) {
  return mlirAffineMapAttrGetValue(mlirArrayAttrGetElement(e->maps, operand));
}

static MlirAttribute attribute_of(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nabla_ref(name));
}

static bool is_all_parallel(MlirOperation op) {
  const MlirAttribute types = attribute_of(op, "iterator_types");
  const MlirAttribute parallel = mlirAttributeParseGet(
      nabla_op_context(op), nabla_ref("#linalg.iterator_type<parallel>"));
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(types); i++)
    if (!mlirAttributeEqual(mlirArrayAttrGetElement(types, i), parallel))
      return false;
  return true;
}

static bool starts_with(MlirStringRef name, const char *prefix) {
  const size_t length = strlen(prefix);
  return name.length > length && !memcmp(name.data, prefix, length);
}

/* Of arith or math, without regions: no effects. */
static bool is_plain(MlirOperation op) {
  const MlirStringRef name = nabla_name(op);
  return mlirOperationGetNumRegions(op) == 0 &&
         (starts_with(name, "arith.") || starts_with(name, "math.") ||
          nabla_is(op, "linalg.index") || nabla_is(op, "linalg.yield"));
}

/* Whether operands are elements, or computed in the body: a scalar from outside
 * may be an operand too. */
static bool takes_own_values(MlirOperation op, MlirBlock body) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const MlirValue value = mlirOperationGetOperand(op, i);
    const MlirBlock from =
        mlirValueIsABlockArgument(value)
            ? mlirBlockArgumentGetOwner(value)
            : mlirOperationGetBlock(mlirOpResultGetOwner(value));
    if (!mlirBlockEqual(from, body)) return false;
  }
  return true;
}

static bool has_plain_body(nabla_elementwise *e) {
  e->weight = 0;
  e->is_closed = true;
  for (MlirOperation op = mlirBlockGetFirstOperation(e->body);
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!is_plain(op)) return false;
    e->is_closed = e->is_closed && takes_own_values(op, e->body);
    e->weight++;
  }
  e->weight--; /* the yield */
  return true;
}

/* Each result is a tensor whose `outs` is not read, in the order of loops. */
static bool has_plain_results(const nabla_elementwise *e) {
  if (mlirOperationGetNumResults(e->op) != e->outputs) return false;
  for (intptr_t i = 0; i < e->outputs; i++) {
    const MlirValue out = mlirBlockGetArgument(e->body, e->inputs + i);
    if (nabla_use_count(out) ||
        !mlirAffineMapIsIdentity(nabla_elementwise_map(e, e->inputs + i)))
      return false;
  }
  return e->outputs > 0;
}

static bool has_buffers(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (mlirTypeIsAMemRef(nabla_operand_type(op, i))) return true;
  return false;
}

bool nabla_elementwise_match(MlirOperation op, nabla_elementwise *out) {
  *out = (nabla_elementwise){0};
  if (!nabla_is(op, "linalg.generic") || has_buffers(op)) return false;
  const MlirAttribute sizes = attribute_of(op, "operandSegmentSizes");
  nabla_elementwise e = {op,
                         mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)),
                         mlirDenseI32ArrayGetElement(sizes, 0),
                         mlirDenseI32ArrayGetElement(sizes, 1),
                         attribute_of(op, "indexing_maps"),
                         0,
                         true};
  if (!is_all_parallel(op) || !has_plain_results(&e) || !has_plain_body(&e))
    return false;
  *out = e;
  return true;
}

/* ---- what upstream's fusion would do ---- */

typedef struct extent {
  size_t ops, weight;
} extent;

static bool is_elementwise(const nabla_fuse_plan *p, size_t i) {
  return !mlirOperationIsNull(p->elementwise[i].op);
}

/* The group that all users of an operation are in, or SIZE_MAX: a producer is
 * fused into its only consumer, which may be fused already. */
static size_t group_of_users(const nabla_fuse_plan *p, const size_t *groups,
                             MlirOperation op) {
  size_t group = SIZE_MAX;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    for (MlirOpOperand use =
             mlirValueGetFirstUse(mlirOperationGetResult(op, i));
         !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
      const MlirOperation user = mlirOpOperandGetOwner(use);
      if (!nabla_is(user, "linalg.generic")) return SIZE_MAX;
      const size_t number = nabla_block_index_find(&p->index, user);
      if (number == SIZE_MAX ||
          !mlirOperationEqual(p->index.ops[number], user) ||
          (group != SIZE_MAX && group != groups[number]))
        return SIZE_MAX;
      group = groups[number];
    }
  return group;
}

/* Users first. */
static void find_groups(const nabla_fuse_plan *p, size_t *groups, extent *all) {
  for (size_t i = p->index.count; i-- > 0;) {
    groups[i] = i;
    if (!is_elementwise(p, i)) continue;
    const size_t group = group_of_users(p, groups, p->index.ops[i]);
    if (group != SIZE_MAX) groups[i] = group;
    all[groups[i]].ops++;
    all[groups[i]].weight += p->elementwise[i].weight;
  }
}

/* ---- windows ---- */

/* The window that grows. */
typedef struct window {
  size_t first, ops, weight;
  MlirType shape; /* of the first result */
} window;

static bool has_same_shape(MlirType a, MlirType b) {
  const intptr_t rank = mlirShapedTypeGetRank(a);
  if (rank != mlirShapedTypeGetRank(b)) return false;
  for (intptr_t i = 0; i < rank; i++)
    if (mlirShapedTypeGetDimSize(a, i) != mlirShapedTypeGetDimSize(b, i))
      return false;
  return true;
}

static size_t window_of(const nabla_fuse_plan *p, MlirValue value) {
  const size_t number = nabla_block_index_definition(&p->index, value);
  return number == SIZE_MAX ? 0 : p->windows[number];
}

/* An operation of the window has this operand, and reads it alike. */
static bool is_read_alike(const nabla_fuse_plan *p, const window *w, size_t end,
                          MlirValue value) {
  for (size_t i = w->first; i < end; i++) {
    if (p->windows[i] != p->count) continue;
    const nabla_elementwise *e = &p->elementwise[i];
    for (intptr_t k = 0; k < e->inputs; k++)
      if (mlirValueEqual(mlirOperationGetOperand(e->op, k), value) &&
          mlirAffineMapIsIdentity(nabla_elementwise_map(e, k)))
        return true;
  }
  return false;
}

/* Operands of the window are read in the order of its loops; sizes that are
 * not known are equal, because an operand is shared. */
static bool flows_into(const nabla_fuse_plan *p, const window *w, size_t i) {
  const nabla_elementwise *e = &p->elementwise[i];
  bool linked = mlirShapedTypeHasStaticShape(w->shape);
  for (intptr_t k = 0; k < e->inputs; k++) {
    const MlirValue value = mlirOperationGetOperand(e->op, k);
    const bool identity = mlirAffineMapIsIdentity(nabla_elementwise_map(e, k));
    const bool inside = window_of(p, value) == p->count;
    if (inside && !identity) return false;
    linked = linked || inside || (identity && is_read_alike(p, w, i, value));
  }
  return linked;
}

static bool fits(const nabla_fuse_plan *p, const window *w, size_t i) {
  return w->ops > 0 && w->ops < NABLA_FUSED_OPS_MAX &&
         w->weight + p->elementwise[i].weight <= NABLA_FUSED_BODY_MAX &&
         has_same_shape(w->shape, nabla_result_type(p->index.ops[i], 0)) &&
         flows_into(p, w, i);
}

static void add(nabla_fuse_plan *p, window *w, size_t i) {
  if (!fits(p, w, i)) {
    p->count++;
    *w = (window){i, 0, 0, nabla_result_type(p->index.ops[i], 0)};
  }
  p->windows[i] = p->count;
  w->ops++;
  w->weight += p->elementwise[i].weight;
}

typedef struct search {
  const nabla_fuse_plan *plan;
  bool found;
} search;

static MlirWalkResult uses_window(MlirOperation op, void *self) {
  search *s = self;
  for (intptr_t i = 0; !s->found && i < mlirOperationGetNumOperands(op); i++)
    s->found =
        window_of(s->plan, mlirOperationGetOperand(op, i)) == s->plan->count;
  return s->found ? MlirWalkResultInterrupt : MlirWalkResultAdvance;
}

/* Windows of the operations that `chosen` has; another one that needs a result
 * of the window ends it. */
static void find_windows(nabla_fuse_plan *p, const bool *chosen) {
  window w = {0};
  for (size_t i = 0; i < p->index.count; i++) {
    if (chosen[i]) {
      add(p, &w, i);
    } else if (w.ops > 0 && !mlirOperationIsNull(p->index.ops[i])) {
      search s = {p, false};
      mlirOperationWalk(p->index.ops[i], uses_window, &s, MlirWalkPreOrder);
      if (s.found) w.ops = 0;
    }
  }
}

/* All of a large block; else those whose group is beyond the limits. */
static void choose(const nabla_fuse_plan *p, size_t elementwise,
                   const size_t *groups, const extent *all, bool *chosen) {
  for (size_t i = 0; i < p->index.count; i++) {
    const extent *g = &all[groups[i]];
    chosen[i] = is_elementwise(p, i) &&
                (elementwise > ORDINARY_OPS || g->ops > NABLA_FUSED_OPS_MAX ||
                 g->weight > NABLA_FUSED_BODY_MAX);
  }
}

static bool is_used(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (!mlirOpOperandIsNull(
            mlirValueGetFirstUse(mlirOperationGetResult(op, i))))
      return true;
  return false;
}

/* Users first: what only they used is erased with them. */
static void erase_unused(nabla_fuse_plan *p) {
  for (size_t i = p->index.count; i-- > 0;) {
    if (!is_elementwise(p, i) || is_used(p->index.ops[i])) continue;
    nabla_op_erase(p->index.ops[i]);
    p->index.ops[i] = p->elementwise[i].op = (MlirOperation){NULL};
  }
}

static bool plan_windows(nabla_fuse_plan *p, size_t elementwise) {
  size_t *groups = calloc(p->index.count + 1, sizeof *groups);
  extent *all = calloc(p->index.count + 1, sizeof *all);
  bool *chosen = calloc(p->index.count + 1, sizeof *chosen);
  const bool good = groups && all && chosen;
  if (good) {
    nabla_fuse_dims(p);
    erase_unused(p);
    find_groups(p, groups, all);
    choose(p, elementwise, groups, all, chosen);
    find_windows(p, chosen);
  }
  free(groups);
  free(all);
  free(chosen);
  return good;
}

bool nabla_fuse_plan_init(nabla_fuse_plan *plan, MlirBlock block) {
  *plan = (nabla_fuse_plan){0};
  if (!nabla_block_index_init(&plan->index, block)) return false;
  const size_t count = plan->index.count + 1;
  plan->elementwise = calloc(count, sizeof *plan->elementwise);
  plan->windows = calloc(count, sizeof *plan->windows);
  if (!plan->elementwise || !plan->windows) return false;
  size_t elementwise = 0, weight = 0;
  for (size_t i = 0; i < plan->index.count; i++)
    if (nabla_elementwise_match(plan->index.ops[i], &plan->elementwise[i])) {
      elementwise++;
      weight += plan->elementwise[i].weight;
    }
  if (elementwise <= NABLA_FUSED_OPS_MAX && weight <= NABLA_FUSED_BODY_MAX)
    return true;
  return plan_windows(plan, elementwise);
}

void nabla_fuse_plan_deinit(nabla_fuse_plan *plan) {
  nabla_block_index_deinit(&plan->index);
  free(plan->elementwise);
  free(plan->windows);
  *plan = (nabla_fuse_plan){0};
}
