/* The changes that a plan (function_plan.h) makes. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "nabla/services.h"
#include "transforms/abi/part_ops.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/memory/function_plan.h"
#include "transforms/memory/result_arguments.h"

static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

static bool no_memory(nabla_function_plan *plan) {
  return nabla_function_plan_fail(plan, plan->function, "out of memory");
}

/* ---- allocations and calls ---- */

/* Adds an operand. */
static bool apply_call(nabla_function_plan *plan, MlirOperation op,
                       MlirValue address) {
  const intptr_t count = mlirOperationGetNumOperands(op);
  MlirValue *operands = calloc((size_t)count + 1, sizeof *operands);
  if (!operands) return no_memory(plan);
  for (intptr_t i = 0; i < count; i++)
    operands[i] = mlirOperationGetOperand(op, i);
  operands[count] = address;
  mlirOperationSetOperands(op, count + 1, operands);
  free(operands);
  return true;
}

/* The operation that the part of an item ends before. */
static MlirOperation end_of(const nabla_function_plan *plan,
                            const nabla_plan_item *it) {
  return mlirOperationGetNextInBlock(plan->index.ops[it->last]);
}

static bool apply_item(nabla_function_plan *plan, const nabla_plan_item *it,
                       MlirValue address) {
  if (is_call(it->op)) return apply_call(plan, it->op, address);
  mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(it->op, 0),
                                nabla_part_buffer(it->op, address, it->op));
  return true;
}

static uint64_t flags_of(const nabla_function_plan *plan, MlirOperation op) {
  return is_call(op)           ? NABLA_PART_IS_OF_CALL
         : plan->has_red_zones ? NABLA_PART_HAS_RED_ZONE
                               : 0;
}

static bool apply_fixed(nabla_function_plan *plan, size_t number,
                        MlirValue base) {
  const nabla_plan_item *it = &plan->fixed.items[number];
  const nabla_layout_part *part = &plan->fixed_parts[number];
  const uint64_t flags = flags_of(plan, it->op);
  const uint64_t bytes =
      (flags & NABLA_PART_HAS_RED_ZONE ? part->bytes - NABLA_LAYOUT_ALIGNMENT
                                       : part->bytes) |
      flags;
  MlirValue offset = nabla_part_word(it->op, part->offset);
  MlirValue address =
      nabla_part_begin(it->op, base, offset, nabla_part_word(it->op, bytes));
  MlirOperation end = end_of(plan, it);
  nabla_part_end(end, address, nabla_part_word(end, bytes));
  return apply_item(plan, it, address);
}

static MlirValue with_flags(MlirOperation before, MlirValue room,
                            uint64_t flags) {
  const MlirType type = mlirValueGetType(room);
  const MlirValue operands[] = {room, nabla_part_word(before, flags)};
  nabla_op_spec spec = {"arith.ori", 2, operands, 1, &type, 0, NULL};
  return flags ? mlirOperationGetResult(nabla_op_create(before, &spec), 0)
               : room;
}

static bool apply_open(nabla_function_plan *plan, size_t number,
                       MlirValue base) {
  const nabla_plan_item *it = &plan->open.items[number];
  const nabla_open_words *words = &plan->words[number];
  nabla_part_require(it->op, words->bytes);
  MlirValue bytes = with_flags(it->op, words->room, flags_of(plan, it->op));
  MlirValue address = nabla_part_begin(it->op, base, words->offset, bytes);
  nabla_part_end(end_of(plan, it), address, bytes);
  return apply_item(plan, it, address);
}

/* Last of all: a part may end behind an allocation. */
static void erase_allocations(nabla_plan_list *list) {
  for (size_t i = 0; i < list->count; i++)
    if (!is_call(list->items[i].op)) nabla_op_erase(list->items[i].op);
}

bool nabla_function_plan_apply(nabla_function_plan *plan, MlirValue base) {
  for (size_t i = 0; i < plan->fixed.count; i++)
    if (!apply_fixed(plan, i, base)) return false;
  for (size_t i = 0; i < plan->open.count; i++)
    if (!apply_open(plan, i, base)) return false;
  erase_allocations(&plan->fixed);
  erase_allocations(&plan->open);
  return true;
}

/* ---- sizes ---- */

/* Calls the size function of a call's callee, with the words that `value` gives
 * for its operands. */
static MlirValue call_sizes(nabla_function_plan *plan, MlirOperation call,
                            MlirOperation before,
                            MlirValue (*value)(void *self, MlirValue operand,
                                               int64_t dim),
                            void *self) {
  MlirOperation callee = nabla_call_callee(plan->symbols, call);
  MlirAttribute sources = mlirOperationGetDiscardableAttributeByName(
      callee, nabla_ref(NABLA_PLAN_SOURCES));
  const intptr_t count = mlirDenseArrayGetNumElements(sources) / 2;
  MlirValue *words = calloc((size_t)count + 1, sizeof *words);
  bool good = words != NULL;
  for (intptr_t i = 0; good && i < count; i++) {
    words[i] =
        value(self,
              mlirOperationGetOperand(
                  call, (intptr_t)mlirDenseI64ArrayGetElement(sources, 2 * i)),
              mlirDenseI64ArrayGetElement(sources, 2 * i + 1));
    good = !mlirValueIsNull(words[i]);
  }
  MlirValue size = {NULL};
  if (good) {
    const MlirType type = mlirIntegerTypeGet(nabla_op_context(call), 64);
    MlirNamedAttribute name =
        nabla_named(nabla_op_context(call), "callee",
                    mlirOperationGetDiscardableAttributeByName(
                        callee, nabla_ref(NABLA_PLAN_SIZES)));
    nabla_op_spec spec = {"func.call", count, words, 1, &type, 1, &name};
    size = mlirOperationGetResult(nabla_op_create(before, &spec), 0);
  }
  free(words);
  return size;
}

static MlirValue known_word(void *self, MlirValue operand, int64_t dim) {
  nabla_entry_sizes *sizes = self;
  return dim < 0 ? nabla_entry_value(sizes, operand)
                 : nabla_entry_dim(sizes, operand, dim);
}

/* The bytes of an allocation, computed before `sizes->at`. */
static MlirValue allocation_bytes(nabla_entry_sizes *sizes,
                                  MlirOperation alloc) {
  MlirValue dims[64];
  const intptr_t count = mlirOperationGetNumOperands(alloc);
  if (count > 64) return (MlirValue){NULL};
  for (intptr_t i = 0; i < count; i++) {
    dims[i] = nabla_entry_value(sizes, mlirOperationGetOperand(alloc, i));
    if (mlirValueIsNull(dims[i])) return dims[i];
  }
  return nabla_open_bytes(sizes->at, nabla_result_type(alloc, 0), dims);
}

/* Computes all that is not known at compile time before `sizes->at`. */
static MlirValue compute(nabla_function_plan *plan, nabla_entry_sizes *sizes,
                         nabla_open_words *words) {
  for (size_t i = 0; i < plan->open.count; i++) {
    MlirOperation op = plan->open.items[i].op;
    words[i].bytes = is_call(op)
                         ? call_sizes(plan, op, sizes->at, known_word, sizes)
                         : allocation_bytes(sizes, op);
    if (mlirValueIsNull(words[i].bytes)) {
      (void)no_memory(plan);
      return words[i].bytes;
    }
  }
  return nabla_open_parts_place(
      sizes->at, plan->open_parts, words, plan->open.count, plan->order,
      plan->size.bytes, plan->has_red_zones ? NABLA_LAYOUT_ALIGNMENT : 0);
}

MlirValue nabla_function_plan_size(nabla_function_plan *plan) {
  return compute(plan, &plan->sizes, plan->words);
}

/* ---- size functions ---- */

/* A size function while it is made: the words that it takes. */
typedef struct size_function {
  nabla_function_plan *plan;
  MlirOperation op;
  int64_t *sources; /* pairs */
  size_t count, capacity;
} size_function;

/* Gives the argument for a source, which is added if need be. */
static MlirValue size_source(void *self, nabla_size_source from) {
  size_function *f = self;
  MlirBlock entry = mlirRegionGetFirstBlock(mlirOperationGetRegion(f->op, 0));
  for (size_t i = 0; i < f->count; i++)
    if (f->sources[2 * i] == from.argument && f->sources[2 * i + 1] == from.dim)
      return mlirBlockGetArgument(entry, (intptr_t)i);
  if (f->count == f->capacity) {
    const size_t capacity = f->capacity ? 2 * f->capacity : 8;
    int64_t *sources = realloc(f->sources, 2 * capacity * sizeof *sources);
    if (!sources) return (MlirValue){NULL};
    f->sources = sources;
    f->capacity = capacity;
  }
  f->sources[2 * f->count] = from.argument;
  f->sources[2 * f->count++ + 1] = from.dim;
  MlirBlock block =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(f->plan->function, 0));
  MlirType type = from.dim < 0 ? mlirValueGetType(mlirBlockGetArgument(
                                     block, (intptr_t)from.argument))
                               : mlirIndexTypeGet(nabla_op_context(f->op));
  return nabla_function_add_argument(f->op, type);
}

/* An empty function with a name that the module does not have yet. */
static MlirOperation make_function(nabla_function_plan *plan) {
  MlirOperation op = mlirOperationCreateParse(
      nabla_op_context(plan->function),
      nabla_ref("func.func private @nabla_plan_sizes() -> i64 {\n"
                "  %0 = arith.constant 0 : i64\n  return %0 : i64\n}"),
      nabla_ref("plan-memory"));
  if (mlirOperationIsNull(op)) return op;
  (void)mlirSymbolTableInsert(plan->symbols, op);
  return op;
}

static uint64_t guess(const nabla_function_plan *plan) {
  uint64_t bytes = plan->size.bytes;
  for (size_t i = 0; i < plan->open.count; i++)
    if (bytes < NABLA_LAYOUT_MAX) bytes += plan->open_parts[i].likely;
  return bytes < NABLA_LAYOUT_MAX ? bytes : NABLA_LAYOUT_MAX;
}

static void mark(nabla_function_plan *plan, const size_function *f) {
  MlirContext context = nabla_op_context(plan->function);
  mlirOperationSetDiscardableAttributeByName(
      plan->function, nabla_ref(NABLA_PLAN_BYTES),
      mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64),
                         (int64_t)guess(plan)));
  mlirOperationSetDiscardableAttributeByName(
      plan->function, nabla_ref(NABLA_PLAN_SIZES),
      mlirFlatSymbolRefAttrGet(context, nabla_symbol_name(f->op)));
  mlirOperationSetDiscardableAttributeByName(
      plan->function, nabla_ref(NABLA_PLAN_SOURCES),
      mlirDenseI64ArrayGet(context, (intptr_t)(2 * f->count), f->sources));
}

bool nabla_function_plan_add_sizes(nabla_function_plan *plan) {
  size_function f = {.plan = plan, .op = make_function(plan)};
  nabla_open_words *words = calloc(plan->open.count + 1, sizeof *words);
  if (mlirOperationIsNull(f.op) || !words) {
    free(words);
    return no_memory(plan);
  }
  MlirOperation end = mlirBlockGetTerminator(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(f.op, 0)));
  nabla_entry_sizes sizes = {
      .function = plan->function, .at = end, .source = size_source, .self = &f};
  MlirValue total = compute(plan, &sizes, words);
  if (!mlirValueIsNull(total)) {
    mlirOperationSetOperand(end, 0, total);
    mark(plan, &f);
  }
  nabla_entry_sizes_deinit(&sizes);
  free(f.sources);
  free(words);
  return !plan->failed;
}

/* ---- blocks for a call ---- */

/* A word of an operand, computed before the call `self`. */
static MlirValue call_word(void *self, MlirValue operand, int64_t dim) {
  const MlirOperation *call = self;
  if (dim < 0) return operand;
  const MlirType index = mlirIndexTypeGet(nabla_op_context(*call));
  MlirNamedAttribute value = nabla_named(nabla_op_context(*call), "value",
                                         mlirIntegerAttrGet(index, dim));
  nabla_op_spec number = {"arith.constant", 0, NULL, 1, &index, 1, &value};
  const MlirValue operands[] = {
      operand, mlirOperationGetResult(nabla_op_create(*call, &number), 0)};
  nabla_op_spec spec = {"memref.dim", 2, operands, 1, &index, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(*call, &spec), 0);
}

static bool apply_apart(nabla_function_plan *plan, MlirOperation call) {
  MlirOperation callee = nabla_call_callee(plan->symbols, call);
  MlirValue block;
  if (nabla_op_has(callee, NABLA_PLAN_SIZES)) {
    MlirValue size = call_sizes(plan, call, call, call_word, &call);
    if (mlirValueIsNull(size)) return no_memory(plan);
    block = nabla_part_open_block(call, size);
  } else {
    block =
        nabla_part_block(call, (uint64_t)mlirIntegerAttrGetValueInt(
                                   mlirOperationGetDiscardableAttributeByName(
                                       callee, nabla_ref(NABLA_PLAN_BYTES))));
  }
  nabla_part_release(mlirOperationGetNextInBlock(call), block);
  return apply_call(plan, call, nabla_part_address(call, block));
}

bool nabla_function_plan_apply_apart(nabla_function_plan *plan) {
  for (size_t i = 0; i < plan->apart.count; i++)
    if (!apply_apart(plan, plan->apart.items[i].op)) return false;
  return true;
}
