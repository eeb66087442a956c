/* nabla-fuse-large: bounds the loops that elementwise operations are fused
 * into. Windows of neighbours (fuse_plan.h) become one linalg.generic each,
 * with a result for each value that is used outside; upstream's fusion, which
 * has no bound, and whose time grows with the square of the operations, does
 * the rest. A window that it could fuse with the next one gets a second user,
 * which nabla-fuse-large-end removes. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transforms/fusion/fuse_arena.h"
#include "transforms/fusion/fuse_window.h"
#include "transforms/passes.h"

/* The second user: it has effects, so that nothing removes it. */
#define MARK      "bufferization.dealloc_tensor"
#define MARK_NAME "nabla.fused"

/* A second user of what has a single one, which could be fused with it. */
static void mark(MlirOperation made) {
  const MlirContext context = nabla_op_context(made);
  intptr_t uses = 0;
  for (intptr_t i = 0; uses < 2 && i < mlirOperationGetNumResults(made); i++)
    uses += nabla_use_count(mlirOperationGetResult(made, i));
  if (uses != 1) return;
  MlirValue value = mlirOperationGetResult(made, 0);
  MlirNamedAttribute name =
      nabla_named(context, MARK_NAME, mlirUnitAttrGet(context));
  nabla_op_spec spec = {MARK, 1, &value, 0, NULL, 1, &name};
  nabla_op_create(mlirOperationGetNextInBlock(made), &spec);
}

/* Puts the generic of a window in the place of its last member. */
static bool put(nabla_fuse_window *w, MlirOperation last) {
  MlirValue *operands =
      calloc(w->input_count + w->output_count, sizeof *operands);
  if (!operands) return false;
  memcpy(operands, w->inputs, w->input_count * sizeof *operands);
  memcpy(operands + w->input_count, w->outs,
         w->output_count * sizeof *operands);
  const MlirOperation made = nabla_fuse_window_create(w, operands, true);
  free(operands);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(last), last, made);
  for (size_t i = 0; i < w->output_count; i++)
    mlirValueReplaceAllUsesOfWith(w->old[i],
                                  mlirOperationGetResult(made, (intptr_t)i));
  mark(made);
  return true;
}

static bool fuse(const nabla_fuse_plan *plan, const size_t *members,
                 size_t count) {
  nabla_fuse_window w;
  const bool good = nabla_fuse_window_init(&w, plan, members, count) &&
                    put(&w, plan->index.ops[members[count - 1]]);
  nabla_fuse_window_deinit(&w);
  for (size_t i = count; good && i-- > 0;)
    nabla_op_erase(plan->index.ops[members[i]]);
  return good;
}

/* ---- the pass ---- */

static bool fuse_windows(const nabla_fuse_plan *plan) {
  size_t members[NABLA_FUSED_OPS_MAX], count = 0, window = 0;
  bool good = true;
  for (size_t i = 0; good && i <= plan->index.count; i++) {
    const size_t now = i < plan->index.count ? plan->windows[i] : SIZE_MAX;
    if (now == 0) continue;
    if (now != window && count > 0) {
      good = fuse(plan, members, count);
      count = 0;
    }
    window = now;
    if (now != SIZE_MAX) members[count++] = i;
  }
  return good;
}

static bool fuse_block(MlirBlock block) {
  nabla_fuse_plan plan;
  bool good = nabla_fuse_plan_init(&plan, block);
  if (good && nabla_fuse_arena_fits(&plan))
    good = nabla_fuse_arena(&plan);
  else if (good && plan.count > 0)
    good = fuse_windows(&plan);
  nabla_fuse_plan_deinit(&plan);
  return good;
}

/* Has blocks that generics may be in. */
static bool has_blocks(MlirOperation op) {
  return mlirOperationGetNumRegions(op) > 0 && !nabla_is(op, "linalg.generic");
}

static bool fuse_blocks(MlirOperation op, void *self) {
  (void)self;
  bool good = true;
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
    for (MlirBlock block =
             mlirRegionGetFirstBlock(mlirOperationGetRegion(op, r));
         good && !mlirBlockIsNull(block);
         block = mlirBlockGetNextInRegion(block))
      good = fuse_block(block);
  if (!good) nabla_error_at(op, "nabla-fuse-large: out of memory");
  return good;
}

MlirLogicalResult nabla_run_fuse_large(MlirOperation op,
                                       const nablaPassValue *values,
                                       void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(op, has_blocks, fuse_blocks, NULL);
}

static bool is_mark(MlirOperation op) {
  return nabla_is(op, MARK) &&
         !mlirAttributeIsNull(
             mlirOperationGetAttributeByName(op, nabla_ref(MARK_NAME)));
}

static bool erase(MlirOperation op, void *self) {
  (void)self;
  nabla_op_erase(op);
  return true;
}

MlirLogicalResult nabla_run_fuse_large_end(MlirOperation op,
                                           const nablaPassValue *values,
                                           void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(op, is_mark, erase, NULL);
}
