/* nabla-plan-memory: allocations whose lifetime is known become parts of one
 * block for each public function. An allocation lives from its operation to the
 * last use in its block (lifetime.h). Parts of static size have an offset;
 * those whose sizes are known where the function begins (entry_sizes.h) get one
 * there. A call of a private function that needs memory of its own takes a part
 * for it. Upstream's deallocation comes later and sees only what is left, which
 * the runtime's arena serves. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/bridge.h"
#include "transforms/abi/part_ops.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/memory/donated_results.h"
#include "transforms/memory/function_plan.h"
#include "transforms/memory/result_arguments.h"
#include "transforms/passes.h"

#define DEPTH_MAX 1000 /* of calls */

typedef struct planner {
  MlirOperation module;
  MlirSymbolTable symbols;
  size_t depth;
  bool has_red_zones;
} planner;

static bool plan_function(planner *p, MlirOperation function);

static bool fail(MlirOperation op, const char *what) {
  nabla_error_at(op, "nabla-plan-memory: %s", what);
  return false;
}

static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

/* Plans the functions that `function` calls, and allocates their results. */
static bool plan_callees(planner *p, MlirOperation function) {
  nabla_op_list calls = nabla_ops_collect(function, is_call);
  bool good = !calls.failed || fail(function, "out of memory");
  for (size_t i = 0; good && i < calls.count; i++) {
    MlirOperation callee = nabla_call_callee(p->symbols, calls.ops[i]);
    if (!mlirOperationIsNull(callee) && nabla_function_has_body(callee))
      good = plan_function(p, callee) &&
             nabla_result_arguments_pass(calls.ops[i], callee);
  }
  nabla_op_list_deinit(&calls);
  return good;
}

static void set_bytes(MlirOperation function, uint64_t bytes) {
  mlirOperationSetDiscardableAttributeByName(
      function, nabla_ref(NABLA_PLAN_BYTES),
      mlirIntegerAttrGet(mlirIntegerTypeGet(nabla_op_context(function), 64),
                         (int64_t)bytes));
}

/* Gives a function a part of its caller's memory. */
static bool take_part(nabla_function_plan *plan) {
  MlirOperation function = plan->function;
  set_bytes(function, plan->size.bytes);
  if (plan->open.count && (!nabla_function_plan_add_sizes(plan) ||
                           mlirValueIsNull(nabla_function_plan_size(plan))))
    return false;
  return nabla_function_plan_apply(
      plan,
      nabla_function_add_argument(
          function, mlirLLVMPointerTypeGet(nabla_op_context(function), 0)));
}

/* Gives a function a block. */
static bool take_block(nabla_function_plan *plan) {
  MlirOperation end = mlirBlockGetTerminator(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(plan->function, 0)));
  MlirValue block;
  if (plan->open.count) {
    nabla_function_plan_check_early(plan);
    MlirValue size = nabla_function_plan_size(plan);
    if (mlirValueIsNull(size)) return false;
    block = nabla_part_open_block(plan->at, size);
  } else {
    block = nabla_part_block(plan->at, plan->size.bytes);
  }
  nabla_part_release(end, block);
  return nabla_function_plan_apply(plan, nabla_part_address(plan->at, block));
}

static void remark(const nabla_function_plan *plan) {
  char text[200], open[64] = "";
  if (plan->planned + plan->left == 0) return;
  if (plan->planned_open)
    (void)snprintf(open, sizeof open, ", %zu of sizes known at entry",
                   plan->planned_open);
  (void)snprintf(text, sizeof text,
                 "%zu arrays in a block of %llu bytes, of which %llu are in "
                 "use at the peak%s; %zu are allocated one by one",
                 plan->planned, (unsigned long long)plan->size.bytes,
                 (unsigned long long)plan->size.peak, open, plan->left);
  nablaOptimizationRemark(mlirOperationGetLocation(plan->function),
                          plan->left > 0, "PlanMemory", "nabla.memory", text);
}

static bool plan_block(planner *p, MlirOperation function) {
  nabla_function_plan plan = {.function = function,
                              .symbols = p->symbols,
                              .is_private = nabla_is_private(function),
                              .has_red_zones = p->has_red_zones};
  bool good = nabla_function_plan_make(&plan);
  if (good) {
    remark(&plan);
    if (nabla_function_plan_needs(&plan) || plan.apart.count)
      nabla_part_declare(p->module);
    if (nabla_function_plan_needs(&plan))
      good = plan.is_private ? take_part(&plan) : take_block(&plan);
    good = good && nabla_function_plan_apply_apart(&plan);
  }
  nabla_function_plan_deinit(&plan);
  return good;
}

static bool plan_function(planner *p, MlirOperation function) {
  if (nabla_op_has(function, NABLA_PLAN_BYTES)) return true;
  set_bytes(function, 0);
  if (p->depth == DEPTH_MAX) return fail(function, "too many nested calls");
  p->depth++;
  bool good = plan_callees(p, function);
  p->depth--;
  MlirBlock entry =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  if (!good) return false;
  if (!mlirBlockIsNull(mlirBlockGetNextInRegion(entry))) return true;
  good = nabla_is_private(function)
             ? nabla_result_arguments_make(function)
             : nabla_states_store_directly(p->symbols, function);
  return good && plan_block(p, function);
}

static bool is_function(MlirOperation op) {
  return nabla_is(op, "func.func") && nabla_function_has_body(op);
}

static void unmark(MlirOperation function) {
  static const char *const names[] = {NABLA_PLAN_BYTES, NABLA_PLAN_SIZES,
                                      NABLA_PLAN_SOURCES};
  nabla_result_arguments_finish(function);
  for (int i = 0; i < 3; i++)
    mlirOperationRemoveDiscardableAttributeByName(function,
                                                  nabla_ref(names[i]));
}

MlirLogicalResult nabla_run_plan_memory(MlirOperation module,
                                        const nablaPassValue *values,
                                        void *prepared) {
  (void)prepared;
  nabla_op_list functions = nabla_ops_collect(module, is_function);
  bool good = !functions.failed;
  if (good && functions.count) {
    planner p = {.module = module,
                 .symbols = mlirSymbolTableCreate(module),
                 .has_red_zones = !strcmp(values[0].string, "on")};
    for (size_t i = 0; good && i < functions.count; i++)
      good = plan_function(&p, functions.ops[i]);
    for (size_t i = 0; i < functions.count; i++) unmark(functions.ops[i]);
    mlirSymbolTableDestroy(p.symbols);
  }
  nabla_op_list_deinit(&functions);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
