/* See the header: what needs memory in a function, and when. */
#include "transforms/memory/function_plan.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "transforms/abi/part_ops.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/memory/lifetime.h"

bool nabla_function_plan_fail(nabla_function_plan *plan, MlirOperation op,
                              const char *what) {
  if (!plan->failed) nabla_error_at(op, "nabla-plan-memory: %s", what);
  plan->failed = true;
  return false;
}

static bool no_memory(nabla_function_plan *plan) {
  return nabla_function_plan_fail(plan, plan->function, "out of memory");
}

static bool add(nabla_function_plan *plan, nabla_plan_list *list,
                MlirOperation op, size_t last) {
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity ? 2 * list->capacity : 16;
    nabla_plan_item *items = realloc(list->items, capacity * sizeof *items);
    if (!items) return no_memory(plan);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = (nabla_plan_item){op, last};
  return true;
}

/* ---- where an operation stands ---- */

/* Control flow whose regions run one after the other, and have one block. */
static bool is_control(MlirOperation op) {
  return nabla_is(op, "scf.if") || nabla_is(op, "scf.for") ||
         nabla_is(op, "scf.while") || nabla_is(op, "scf.index_switch");
}

/* Whether the operations around `op` are the function and control flow, loops
 * alone if `unconditional`. */
static bool stands_in_control(const nabla_function_plan *plan, MlirOperation op,
                              bool unconditional) {
  op = mlirOperationGetParentOperation(op);
  for (; !mlirOperationEqual(op, plan->function);
       op = mlirOperationGetParentOperation(op))
    if (!is_control(op) || (unconditional && !nabla_is(op, "scf.for") &&
                            !nabla_is(op, "scf.while")))
      return false;
  return true;
}

/* The operation of the function's block that `op` is, or is inside of. */
static MlirOperation in_entry(const nabla_function_plan *plan,
                              MlirOperation op) {
  for (MlirOperation up = mlirOperationGetParentOperation(op);
       !mlirOperationEqual(up, plan->function);
       up = mlirOperationGetParentOperation(op))
    op = up;
  return op;
}

/* ---- what needs memory ---- */

/* The bytes that the callee of a call wants, a guess if it is of open size. */
static uint64_t bytes_wanted(const nabla_function_plan *plan,
                             MlirOperation call) {
  MlirOperation callee = nabla_call_callee(plan->symbols, call);
  if (mlirOperationIsNull(callee)) return 0;
  MlirAttribute bytes = mlirOperationGetDiscardableAttributeByName(
      callee, nabla_ref(NABLA_PLAN_BYTES));
  return mlirAttributeIsNull(bytes)
             ? 0
             : (uint64_t)mlirIntegerAttrGetValueInt(bytes);
}

/* Computes the bytes of a buffer of static size; false where they overflow. */
static bool static_bytes(MlirType type, uint64_t *out) {
  uint64_t bytes = nabla_part_element(type);
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++)
    if (__builtin_mul_overflow(
            bytes, (uint64_t)mlirShapedTypeGetDimSize(type, i), &bytes))
      return false;
  *out = bytes ? bytes : 1;
  return true;
}

static bool knows_sizes(nabla_function_plan *plan, MlirOperation alloc) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(alloc); i++)
    if (!nabla_entry_knows(&plan->sizes, mlirOperationGetOperand(alloc, i)))
      return false;
  return plan->open.count < NABLA_OPEN_LAYOUT_MAX &&
         stands_in_control(plan, alloc, true);
}

static bool add_allocation(nabla_function_plan *plan, MlirOperation op) {
  const MlirType type = nabla_result_type(op, 0);
  uint64_t bytes = 0;
  size_t last = 0;
  if (nabla_op_has(op, NABLA_PART_MANUAL)) return true;
  const bool is_open = mlirOperationGetNumOperands(op) != 0;
  if (!nabla_part_is_plain(type) || !stands_in_control(plan, op, false) ||
      (!is_open && !static_bytes(type, &bytes)) ||
      !nabla_lifetime_find(&plan->index, op, &last) ||
      (is_open && !knows_sizes(plan, op))) {
    plan->left++;
    return true;
  }
  plan->planned++;
  plan->planned_open += is_open;
  return add(plan, is_open ? &plan->open : &plan->fixed, op, last);
}

static bool knows_sources(nabla_function_plan *plan, MlirOperation call,
                          MlirAttribute sources) {
  for (intptr_t i = 0; i < mlirDenseArrayGetNumElements(sources); i += 2) {
    const MlirValue value = mlirOperationGetOperand(
        call, (intptr_t)mlirDenseI64ArrayGetElement(sources, i));
    const int64_t dim = mlirDenseI64ArrayGetElement(sources, i + 1);
    if (dim < 0 ? !nabla_entry_knows(&plan->sizes, value)
                : !nabla_entry_knows_dim(&plan->sizes, value, dim))
      return false;
  }
  return plan->open.count < NABLA_OPEN_LAYOUT_MAX;
}

static bool add_call(nabla_function_plan *plan, MlirOperation call,
                     size_t number) {
  if (bytes_wanted(plan, call) == 0) return true;
  MlirAttribute sources = mlirOperationGetDiscardableAttributeByName(
      nabla_call_callee(plan->symbols, call), nabla_ref(NABLA_PLAN_SOURCES));
  const bool is_open = !mlirAttributeIsNull(sources);
  const bool is_part = stands_in_control(plan, call, is_open) &&
                       (!is_open || knows_sources(plan, call, sources));
  if (!is_part) plan->left++;
  return add(plan,
             !is_part  ? &plan->apart
             : is_open ? &plan->open
                       : &plan->fixed,
             call, number);
}

static bool needs_memory(const nabla_function_plan *plan, MlirOperation op) {
  return nabla_is(op, "memref.alloc")
             ? !nabla_op_has(op, NABLA_PART_MANUAL)
             : nabla_is(op, "func.call") && bytes_wanted(plan, op) > 0;
}

/* ---- sizes of arguments ---- */

static MlirValue own_source(void *self, nabla_size_source from) {
  const nabla_function_plan *plan = self;
  const MlirValue argument = mlirBlockGetArgument(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(plan->function, 0)),
      (intptr_t)from.argument);
  if (from.dim < 0) return argument;
  const MlirType index = mlirIndexTypeGet(nabla_op_context(plan->function));
  MlirNamedAttribute value =
      nabla_named(nabla_op_context(plan->function), "value",
                  mlirIntegerAttrGet(index, from.dim));
  nabla_op_spec number = {"arith.constant", 0, NULL, 1, &index, 1, &value};
  const MlirValue operands[] = {
      argument, mlirOperationGetResult(nabla_op_create(plan->at, &number), 0)};
  nabla_op_spec dim = {"memref.dim", 2, operands, 1, &index, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(plan->at, &dim), 0);
}

static void begin_sizes(nabla_function_plan *plan) {
  plan->sizes = (nabla_entry_sizes){.function = plan->function,
                                    .at = plan->at,
                                    .source = own_source,
                                    .self = plan};
  if (plan->is_private) return;
  plan->sizes.index = &plan->index;
  plan->sizes.at_number = nabla_block_index_find(&plan->index, plan->at);
}

/* ---- parts ---- */

static uint64_t bytes_of(const nabla_function_plan *plan, MlirOperation op) {
  uint64_t bytes = 0;
  if (nabla_is(op, "func.call")) return bytes_wanted(plan, op);
  (void)static_bytes(nabla_result_type(op, 0), &bytes);
  return plan->has_red_zones ? bytes + NABLA_LAYOUT_ALIGNMENT : bytes;
}

static bool make_parts(nabla_function_plan *plan) {
  plan->fixed_parts = calloc(plan->fixed.count + 1, sizeof *plan->fixed_parts);
  plan->open_parts = calloc(plan->open.count + 1, sizeof *plan->open_parts);
  plan->words = calloc(plan->open.count + 1, sizeof *plan->words);
  plan->order = calloc(plan->open.count + 1, sizeof *plan->order);
  if (!plan->fixed_parts || !plan->open_parts || !plan->words || !plan->order)
    return no_memory(plan);
  for (size_t i = 0; i < plan->fixed.count; i++) {
    const nabla_plan_item *it = &plan->fixed.items[i];
    plan->fixed_parts[i] = (nabla_layout_part){
        .bytes = bytes_of(plan, it->op),
        .first = nabla_block_index_find(&plan->index, it->op),
        .last = it->last};
  }
  for (size_t i = 0; i < plan->open.count; i++) {
    const nabla_plan_item *it = &plan->open.items[i];
    plan->open_parts[i] = (nabla_open_part){
        .likely = nabla_is(it->op, "func.call")
                      ? bytes_wanted(plan, it->op)
                      : nabla_open_guess(nabla_result_type(it->op, 0)),
        .first = nabla_block_index_find(&plan->index, it->op),
        .last = it->last};
  }
  return true;
}

static bool place(nabla_function_plan *plan) {
  const nabla_layout_result result =
      nabla_layout_place(plan->fixed_parts, plan->fixed.count, &plan->size);
  if (result == NABLA_LAYOUT_NO_MEMORY) return no_memory(plan);
  if (result == NABLA_LAYOUT_TOO_LARGE)
    return nabla_function_plan_fail(
        plan,
        mlirBlockGetTerminator(
            mlirRegionGetFirstBlock(mlirOperationGetRegion(plan->function, 0))),
        "arrays of the function need more than 2^46 bytes at one time");
  return nabla_open_layout_make(plan->open_parts, plan->open.count,
                                plan->fixed_parts, plan->fixed.count,
                                plan->order) ||
         no_memory(plan);
}

bool nabla_function_plan_make(nabla_function_plan *plan) {
  if (!nabla_block_index_init_inside(&plan->index, plan->function))
    return no_memory(plan);
  size_t first = 0;
  while (first < plan->index.count &&
         !needs_memory(plan, plan->index.ops[first]))
    first++;
  if (first == plan->index.count) return true;
  plan->at = in_entry(plan, plan->index.ops[first]);
  begin_sizes(plan);
  for (size_t i = first; i < plan->index.count; i++) {
    const MlirOperation op = plan->index.ops[i];
    if (nabla_is(op, "memref.alloc") ? !add_allocation(plan, op)
        : nabla_is(op, "func.call")  ? !add_call(plan, op, i)
                                     : false)
      return false;
  }
  return make_parts(plan) && place(plan);
}

bool nabla_function_plan_needs(const nabla_function_plan *plan) {
  return plan->size.bytes > 0 || plan->open.count > 0;
}

void nabla_function_plan_deinit(nabla_function_plan *plan) {
  if (plan->open_parts)
    nabla_open_layout_deinit(plan->open_parts, plan->open.count);
  nabla_entry_sizes_deinit(&plan->sizes);
  nabla_block_index_deinit(&plan->index);
  free(plan->fixed.items);
  free(plan->open.items);
  free(plan->apart.items);
  free(plan->fixed_parts);
  free(plan->open_parts);
  free(plan->words);
  free(plan->order);
}
