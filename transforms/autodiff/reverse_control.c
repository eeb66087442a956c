/* Cotangents through nabla.cond; nabla.while has none in reverse. */
#include "dialect/control.h"
#include "transforms/autodiff/reverse.h"
#include "transforms/ir/build_control.h"

/* One branch in reverse: its operations run again, then the pass over them. */
typedef struct branch {
  nabla_reverse *outer;
  MlirOperation op;
  uint64_t decided; /* what the condition varies along */
  MlirBlock block;
  const MlirValue *cotangents; /* of the results of the cond */
  intptr_t results;
  const nabla_value_list *captured;
  bool failed;
} branch;

static bool pull(branch *br, nabla_reverse *r, MlirOperation before,
                 MlirValue *results) {
  nabla_value_map copies = {0};
  MlirBlock here = mlirOperationGetBlock(before);
  MlirOperation end = nabla_block_end(br->block);
  bool good = nabla_block_copy(br->block, before, &copies);
  good = good && nabla_reverse_visit(r, here);
  if (good) nabla_varied_mark(r->varied, here);
  for (intptr_t i = 0; good && i < br->results; i++)
    nabla_reverse_add_along(
        r, nabla_reverse_atoms(r, mlirOperationGetResult(br->op, i)),
        nabla_copied(&copies, mlirOperationGetOperand(end, i)),
        br->cotangents[i]);
  nabla_value_map_deinit(&copies);
  good = good && nabla_reverse_block(r, here);
  for (size_t i = 0; good && i < br->captured->count; i++)
    results[i] = nabla_reverse_sum_or_zeros(r, br->captured->values[i]);
  return good;
}

static void write_branch(const nabla_builder *b, const MlirValue *arguments,
                         MlirValue *results, void *data) {
  branch *br = data;
  (void)arguments;
  nabla_reverse r = nabla_reverse_inner(br->outer, b);
  r.always |= br->decided;
  br->failed = !pull(br, &r, b->before, results);
  nabla_reverse_deinit(&r);
}

static bool check_branches(const nabla_reverse *r, MlirOperation op,
                           size_t captured) {
  if (nabla_has_effects(r->derived->module, op)) {
    nabla_error_at(
        op,
        "has effects, which its derivative would have twice: declare "
        "its custom calls pure, or move them outside");
    return false;
  }
  if (captured <= NABLA_BUILD_MAX_CARRIES &&
      mlirOperationGetNumRegions(op) <= NABLA_BUILD_MAX_BRANCHES)
    return true;
  nabla_error_at(
      op,
      "has no derivative: it has %d branches that use %d values from "
      "outside; at most %d and %d are supported",
      (int)mlirOperationGetNumRegions(op), (int)captured,
      NABLA_BUILD_MAX_BRANCHES, NABLA_BUILD_MAX_CARRIES);
  return false;
}

bool nabla_reverse_cond(nabla_reverse *r, MlirOperation op,
                        const MlirValue *cotangents) {
  nabla_value_list captured = {0};
  branch branches[NABLA_BUILD_MAX_BRANCHES];
  nabla_built_region regions[NABLA_BUILD_MAX_BRANCHES];
  const intptr_t count = mlirOperationGetNumRegions(op);
  const uint64_t decided =
      nabla_reverse_atoms(r, mlirOperationGetOperand(op, 0));
  nabla_varied_captured(r->varied, op, &captured);
  bool good = !captured.failed && check_branches(r, op, captured.count);
  for (intptr_t i = 0; good && i < count; i++) {
    branches[i] = (branch){.outer = r,
                           .op = op,
                           .decided = decided,
                           .block = nabla_region_block(op, i),
                           .cotangents = cotangents,
                           .results = mlirOperationGetNumResults(op),
                           .captured = &captured};
    regions[i] = (nabla_built_region){write_branch, &branches[i],
                                      (intptr_t)captured.count};
  }
  if (good && captured.count) {
    MlirOperation made =
        nabla_build_cond(&r->b, mlirOperationGetOperand(op, 0), count, regions);
    good = !mlirOperationIsNull(made);
    for (size_t i = 0; good && i < captured.count; i++)
      nabla_reverse_add_along(r, decided, captured.values[i],
                              mlirOperationGetResult(made, (intptr_t)i));
  }
  nabla_value_list_deinit(&captured);
  return good;
}

bool nabla_reverse_while(nabla_reverse *r, MlirOperation op,
                         const MlirValue *cotangents) {
  (void)r, (void)cotangents;
  nabla_error_at(op,
                 "has no derivative in reverse: the number of its steps, and "
                 "so what would have to be kept, is not known. Give it "
                 "max_steps = N, the most steps that it runs, or write a loop "
                 "of a known number of steps as nabla.scan, or use nabla-jvp");
  return false;
}
