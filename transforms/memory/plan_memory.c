/* nabla-plan-memory: allocations whose lifetime is known become parts of one
 * block for each public function. An allocation lives from its operation to the
 * last use in its block (lifetime.h). A call of a private function that needs
 * memory of its own takes a part for it, and so does an operation whose regions
 * do. Upstream's deallocation comes later and sees only what is left, which the
 * runtime's arena serves. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "nabla/services.h"
#include "transforms/abi/part_ops.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/memory/layout.h"
#include "transforms/memory/lifetime.h"
#include "transforms/memory/result_arguments.h"
#include "transforms/passes.h"

/* Of a function: the bytes that it needs from its callers; of one that is being
 * planned, 0. */
#define BYTES "nabla.plan_bytes"

#define DEPTH_MAX 1000 /* of regions and of calls */

/* ---- one block ---- */

typedef struct block_plan block_plan;

/* A part, and the operation that it belongs to: an allocation, a call, or an
 * operation with regions. */
typedef struct item {
  MlirOperation op;
  block_plan *inner; /* of the regions: `inner_count` of them */
  size_t inner_count;
  size_t last; /* number of the last operation that uses it */
} item;

struct block_plan {
  MlirBlock block;
  nabla_block_index index;
  item *items;
  nabla_layout_part *parts; /* one for each item */
  size_t count, capacity;
  nabla_layout_size size;
};

typedef struct planner {
  MlirOperation module;
  MlirSymbolTable symbols;
  size_t depth;
  size_t planned, left; /* allocations */
  bool has_red_zones;
  bool failed;
} planner;

static bool fail(planner *p, MlirOperation op, const char *what) {
  if (!p->failed) nabla_error_at(op, "nabla-plan-memory: %s", what);
  p->failed = true;
  return false;
}

static bool add_item(planner *p, block_plan *plan, const item *it,
                     uint64_t bytes, size_t first) {
  if (plan->count == plan->capacity) {
    const size_t capacity = plan->capacity ? 2 * plan->capacity : 16;
    item *items = realloc(plan->items, capacity * sizeof *items);
    if (items) plan->items = items;
    nabla_layout_part *parts =
        items ? realloc(plan->parts, capacity * sizeof *parts) : NULL;
    if (!parts) return fail(p, it->op, "out of memory");
    plan->parts = parts;
    plan->capacity = capacity;
  }
  plan->items[plan->count] = *it;
  plan->parts[plan->count++] =
      (nabla_layout_part){.bytes = bytes, .first = first, .last = it->last};
  return true;
}

static void deinit(block_plan *plan) {
  for (size_t i = 0; i < plan->count; i++) {
    for (size_t k = 0; k < plan->items[i].inner_count; k++)
      deinit(&plan->items[i].inner[k]);
    free(plan->items[i].inner);
  }
  free(plan->items);
  free(plan->parts);
  nabla_block_index_deinit(&plan->index);
}

/* ---- what needs memory ---- */

/* Computes the bytes of a buffer of static size with its elements in order;
 * false for others, and where they overflow. */
static bool static_bytes(MlirType type, uint64_t *out) {
  if (!nabla_part_is_plain(type) || !mlirShapedTypeHasStaticShape(type))
    return false;
  uint64_t bytes = nabla_part_element(type);
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++)
    if (__builtin_mul_overflow(
            bytes, (uint64_t)mlirShapedTypeGetDimSize(type, i), &bytes))
      return false;
  *out = bytes ? bytes : 1;
  return true;
}

static bool plan_block(planner *p, MlirBlock block, block_plan *out);
static bool plan_function(planner *p, MlirOperation function);

static bool add_allocation(planner *p, block_plan *plan, size_t number) {
  MlirOperation op = plan->index.ops[number];
  uint64_t bytes = 0;
  item it = {.op = op};
  if (nabla_op_has(op, NABLA_PART_MANUAL)) return true;
  if (mlirOperationGetNumOperands(op) != 0 ||
      !static_bytes(nabla_result_type(op, 0), &bytes) ||
      !nabla_lifetime_find(&plan->index, plan->block,
                           mlirOperationGetResult(op, 0), &it.last)) {
    p->left++;
    return true;
  }
  p->planned++;
  if (p->has_red_zones) bytes += NABLA_LAYOUT_ALIGNMENT;
  return add_item(p, plan, &it, bytes, number);
}

/* The bytes that a function wants from its callers. */
static uint64_t bytes_wanted(MlirOperation function) {
  MlirAttribute bytes =
      mlirOperationGetDiscardableAttributeByName(function, nabla_ref(BYTES));
  return mlirAttributeIsNull(bytes)
             ? 0
             : (uint64_t)mlirIntegerAttrGetValueInt(bytes);
}

static MlirOperation callee_of(const planner *p, MlirOperation call) {
  return mlirSymbolTableLookup(
      p->symbols, mlirFlatSymbolRefAttrGetValue(mlirOperationGetAttributeByName(
                      call, nabla_ref("callee"))));
}

static bool add_call(planner *p, block_plan *plan, size_t number) {
  const item it = {.op = plan->index.ops[number], .last = number};
  const uint64_t bytes = bytes_wanted(callee_of(p, it.op));
  return bytes == 0 || add_item(p, plan, &it, bytes, number);
}

static bool add_regions(planner *p, block_plan *plan, size_t number) {
  item it = {.op = plan->index.ops[number], .last = number};
  const intptr_t regions = mlirOperationGetNumRegions(it.op);
  uint64_t most = 0;
  it.inner = calloc((size_t)regions, sizeof *it.inner);
  if (!it.inner) return fail(p, it.op, "out of memory");
  bool good = true;
  for (intptr_t r = 0; good && r < regions; r++) {
    MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(it.op, r));
    if (mlirBlockIsNull(block)) continue;
    good = plan_block(p, block, &it.inner[it.inner_count++]);
    if (it.inner[it.inner_count - 1].size.bytes > most)
      most = it.inner[it.inner_count - 1].size.bytes;
  }
  if (good && most > 0) return add_item(p, plan, &it, most, number);
  for (size_t i = 0; i < it.inner_count; i++) deinit(&it.inner[i]);
  free(it.inner);
  return good;
}

/* Control flow whose regions run one after the other, and have one block. */
static bool is_control(MlirOperation op) {
  return nabla_is(op, "scf.if") || nabla_is(op, "scf.for") ||
         nabla_is(op, "scf.while") || nabla_is(op, "scf.index_switch");
}

static bool plan_block(planner *p, MlirBlock block, block_plan *out) {
  *out = (block_plan){.block = block};
  MlirOperation at = mlirBlockGetTerminator(block);
  if (p->depth == DEPTH_MAX) return fail(p, at, "too many nested regions");
  if (!nabla_block_index_init(&out->index, block))
    return fail(p, at, "out of memory");
  p->depth++;
  bool good = true;
  for (size_t i = 0; good && i < out->index.count; i++) {
    const MlirOperation op = out->index.ops[i];
    if (nabla_is(op, "memref.alloc"))
      good = add_allocation(p, out, i);
    else if (nabla_is(op, "func.call"))
      good = add_call(p, out, i);
    else if (is_control(op))
      good = add_regions(p, out, i);
  }
  p->depth--;
  if (!good) return false;
  const nabla_layout_result result =
      nabla_layout_place(out->parts, out->count, &out->size);
  if (result == NABLA_LAYOUT_NO_MEMORY) return fail(p, at, "out of memory");
  if (result == NABLA_LAYOUT_TOO_LARGE)
    return fail(p, at,
                "arrays of the function need more than 2^46 bytes at one time");
  return true;
}

/* ---- changes ---- */

static void apply_allocation(MlirOperation op, MlirValue address) {
  mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, 0),
                                nabla_part_buffer(op, address, op));
  nabla_op_erase(op);
}

/* Adds an operand. */
static bool apply_call(MlirOperation op, MlirValue address) {
  const intptr_t count = mlirOperationGetNumOperands(op);
  MlirValue *operands = calloc((size_t)count + 1, sizeof *operands);
  if (!operands) return false;
  for (intptr_t i = 0; i < count; i++)
    operands[i] = mlirOperationGetOperand(op, i);
  operands[count] = address;
  mlirOperationSetOperands(op, count + 1, operands);
  free(operands);
  return true;
}

static void apply(planner *p, const block_plan *plan, MlirValue base,
                  uint64_t offset) {
  for (size_t i = 0; i < plan->count; i++) {
    const item *it = &plan->items[i];
    const nabla_layout_part *part = &plan->parts[i];
    for (size_t k = 0; k < it->inner_count; k++)
      apply(p, &it->inner[k], base, offset + part->offset);
    if (it->inner_count) continue;
    MlirOperation after = it->last + 1 < plan->index.count
                              ? plan->index.ops[it->last + 1]
                              : mlirBlockGetTerminator(plan->block);
    const bool takes_part = nabla_is(it->op, "func.call");
    const uint64_t bytes =
        takes_part ? part->bytes | NABLA_PART_IS_OF_CALL
        : p->has_red_zones
            ? (part->bytes - NABLA_LAYOUT_ALIGNMENT) | NABLA_PART_HAS_RED_ZONE
            : part->bytes;
    MlirValue address =
        nabla_part_begin(it->op, base, offset + part->offset, bytes);
    nabla_part_end(after, address, bytes);
    if (!takes_part)
      apply_allocation(it->op, address);
    else if (!apply_call(it->op, address))
      (void)fail(p, it->op, "out of memory");
  }
}

/* ---- functions ---- */

static MlirRegion body_of(MlirOperation function) {
  return mlirOperationGetRegion(function, 0);
}

static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

/* Plans the functions that `function` calls, and allocates their results. */
static bool plan_callees(planner *p, MlirOperation function) {
  nabla_op_list calls = nabla_ops_collect(function, is_call);
  bool good = !calls.failed || fail(p, function, "out of memory");
  for (size_t i = 0; good && i < calls.count; i++) {
    MlirOperation callee = callee_of(p, calls.ops[i]);
    if (!mlirOperationIsNull(callee) && nabla_function_has_body(callee))
      good = plan_function(p, callee) &&
             nabla_result_arguments_pass(calls.ops[i], callee);
  }
  nabla_op_list_deinit(&calls);
  return good;
}

static bool is_private(MlirOperation function) {
  MlirAttribute visibility =
      mlirOperationGetAttributeByName(function, nabla_ref("sym_visibility"));
  return !mlirAttributeIsNull(visibility) &&
         nabla_text_is(mlirStringAttrGetValue(visibility), "private");
}

static void set_bytes(MlirOperation function, uint64_t bytes) {
  mlirOperationSetDiscardableAttributeByName(
      function, nabla_ref(BYTES),
      mlirIntegerAttrGet(mlirIntegerTypeGet(nabla_op_context(function), 64),
                         (int64_t)bytes));
}

/* Gives a function its memory: a part of its caller's, or a block. */
static void give_memory(planner *p, MlirOperation function,
                        const block_plan *plan) {
  const uint64_t bytes = plan->size.bytes;
  nabla_part_declare(p->module);
  if (is_private(function)) {
    MlirType pointer = mlirLLVMPointerTypeGet(nabla_op_context(function), 0);
    set_bytes(function, bytes);
    apply(p, plan, nabla_function_add_argument(function, pointer), 0);
    return;
  }
  MlirOperation first = mlirBlockGetFirstOperation(plan->block);
  MlirValue block = nabla_part_block(first, bytes);
  apply(p, plan, nabla_part_address(first, block), 0);
  nabla_part_release(mlirBlockGetTerminator(plan->block), block);
}

static void remark(const planner *p, MlirOperation function,
                   const nabla_layout_size *size) {
  char text[160];
  if (p->planned + p->left == 0) return;
  (void)snprintf(text, sizeof text,
                 "%zu arrays in a block of %llu bytes, of which %llu are in "
                 "use at the peak; %zu are allocated one by one",
                 p->planned, (unsigned long long)size->bytes,
                 (unsigned long long)size->peak, p->left);
  nablaOptimizationRemark(mlirOperationGetLocation(function), p->left > 0,
                          "PlanMemory", "nabla.memory", text);
}

static bool plan_function(planner *p, MlirOperation function) {
  if (nabla_op_has(function, BYTES)) return true;
  set_bytes(function, 0);
  if (p->depth == DEPTH_MAX) return fail(p, function, "too many nested calls");
  p->depth++;
  bool good = plan_callees(p, function);
  p->depth--;
  MlirBlock entry = mlirRegionGetFirstBlock(body_of(function));
  if (!good) return false;
  if (!mlirBlockIsNull(mlirBlockGetNextInRegion(entry))) return true;
  if (is_private(function)) good = nabla_result_arguments_make(function);
  block_plan plan = {0};
  planner own = *p;
  own.planned = own.left = 0;
  if (good) good = plan_block(&own, entry, &plan);
  p->failed = p->failed || own.failed;
  if (good) remark(&own, function, &plan.size);
  if (good && plan.size.bytes) give_memory(p, function, &plan);
  deinit(&plan);
  return good && !p->failed;
}

static bool is_function(MlirOperation op) {
  return nabla_is(op, "func.func") && nabla_function_has_body(op);
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
    for (size_t i = 0; i < functions.count; i++) {
      nabla_result_arguments_finish(functions.ops[i]);
      mlirOperationRemoveDiscardableAttributeByName(functions.ops[i],
                                                    nabla_ref(BYTES));
    }
    mlirSymbolTableDestroy(p.symbols);
  }
  nabla_op_list_deinit(&functions);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
