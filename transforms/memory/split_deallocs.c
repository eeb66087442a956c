/* nabla-split-deallocs: splits deallocations of many buffers. Upstream's
 * deallocation frees all buffers of a block at once, and compares each with
 * each other and with each buffer that stays alive, when the program runs. That
 * code grows with the square of the number of buffers, and LLVM's schedulers
 * take long for it. Allocations, and results of private functions that are
 * allocations of these functions, are different buffers: each is freed by an
 * operation of its own, or stays alive. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "transforms/ir/functions.h"
#include "transforms/ir/ir.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/ir/values.h"
#include "transforms/passes.h"

/* Of a function whose deallocations were taken apart: for each of its results
 * 0, or 1 + the number of the first result that is in the same allocation of
 * the function. Empty while that is being found out. */
#define MARK "nabla.allocated_results"

/* The longest chain of calls that is followed, a bound of the C stack: the
 * results of a function at its end have an unknown origin. */
#define CALLS_MAX 64

typedef struct scope {
  MlirSymbolTable symbols;
  int calls;   /* functions that are being split, each called by the last */
  bool failed; /* out of memory */
} scope;

/* Where the memory of a buffer comes from. */
typedef enum origin {
  ORIGIN_UNKNOWN,
  ORIGIN_ARGUMENT,   /* of the function: it was there before */
  ORIGIN_ALLOCATION, /* of the function, or of one that it calls */
} origin;

/* A buffer: an operand of a deallocation, or of a return. */
typedef struct buffer {
  intptr_t operand;
  intptr_t group; /* the first of the operands in the same memory */
  origin origin;
  const void *memory; /* of an allocation: the value of which it is a view */
} buffer;

static void split_function(scope *s, MlirOperation function);

static bool is_function(MlirOperation op) {
  return nabla_is(op, "func.func") && nabla_function_has_body(op);
}

static MlirBlock entry_of(MlirOperation function) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
}

/* ---- where buffers come from ---- */

/* The private function that a call calls; null if its body has several blocks,
 * or is in another module. */
static MlirOperation callee_of(scope *s, MlirOperation call) {
  const MlirOperation none = {NULL};
  MlirOperation callee = nabla_call_callee(s->symbols, call);
  if (mlirOperationIsNull(callee) || !is_function(callee) ||
      !nabla_is_private(callee) ||
      !mlirBlockIsNull(mlirBlockGetNextInRegion(entry_of(callee))))
    return none;
  return callee;
}

/* The first result of a call that is in the same allocation as result `number`;
 * -1 if it is in none of the callee. */
static intptr_t first_in_allocation(scope *s, MlirOperation call,
                                    intptr_t number) {
  MlirOperation callee = callee_of(s, call);
  if (mlirOperationIsNull(callee)) return -1;
  split_function(s, callee);
  MlirAttribute mark =
      mlirOperationGetDiscardableAttributeByName(callee, nabla_ref(MARK));
  if (mlirAttributeIsNull(mark) || number >= mlirDenseArrayGetNumElements(mark))
    return -1;
  return mlirDenseI32ArrayGetElement(mark, number) - 1;
}

/* Finds where the memory of operand `operand` of `op` comes from. */
static buffer buffer_of(scope *s, MlirOperation op, intptr_t operand) {
  buffer found = {.operand = operand, .group = operand};
  MlirValue value = mlirOperationGetOperand(op, operand);
  while (!nabla_buffer_root(value, &value) &&
         nabla_is(nabla_defining_op(value), "memref.extract_strided_metadata"))
    value = mlirOperationGetOperand(nabla_defining_op(value), 0);
  if (mlirValueIsABlockArgument(value)) {
    MlirBlock block = mlirBlockArgumentGetOwner(value);
    MlirOperation of = mlirBlockGetParentOperation(block);
    if (nabla_is(of, "func.func") && mlirBlockEqual(block, entry_of(of)))
      found.origin = ORIGIN_ARGUMENT;
    return found;
  }
  MlirOperation root = nabla_defining_op(value);
  if (nabla_is(root, "func.call")) {
    const intptr_t first =
        first_in_allocation(s, root, mlirOpResultGetResultNumber(value));
    if (first < 0) return found;
    value = mlirOperationGetResult(root, first);
  } else if (!nabla_is(root, "memref.alloc") &&
             !nabla_is(root, "bufferization.clone")) {
    return found;
  }
  found.origin = ORIGIN_ALLOCATION;
  found.memory = value.ptr;
  return found;
}

static int compare_operands(const buffer *x, const buffer *y) {
  return x->operand < y->operand ? -1 : x->operand > y->operand;
}

static int by_memory(const void *a, const void *b) {
  const buffer *x = a, *y = b;
  const uintptr_t m = (uintptr_t)x->memory, n = (uintptr_t)y->memory;
  return m < n ? -1 : m > n ? 1 : compare_operands(x, y);
}

static int by_group(const void *a, const void *b) {
  const buffer *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return compare_operands(x, y);
}

/* Groups buffers by their memory, in the order of their operands: where values
 * are in the compiler's memory is not seen in the program. */
static void group_buffers(buffer *all, intptr_t count) {
  qsort(all, (size_t)count, sizeof *all, by_memory);
  for (intptr_t i = 1; i < count; i++)
    if (all[i].memory && all[i].memory == all[i - 1].memory)
      all[i].group = all[i - 1].group;
  qsort(all, (size_t)count, sizeof *all, by_group);
}

/* ---- a deallocation ---- */

static bool is_false(MlirValue value) {
  MlirOperation op = nabla_defining_op(value);
  if (mlirOperationIsNull(op) || !nabla_is(op, "arith.constant")) return false;
  MlirAttribute is =
      mlirOperationGetInherentAttributeByName(op, nabla_ref("value"));
  return mlirAttributeIsAInteger(is) && !mlirIntegerAttrGetValueInt(is);
}

static MlirValue constant(MlirOperation before, bool value) {
  MlirContext context = nabla_op_context(before);
  MlirType type = mlirIntegerTypeGet(context, 1);
  const MlirNamedAttribute attribute =
      nabla_named(context, "value", mlirIntegerAttrGet(type, value));
  const nabla_op_spec spec = {"arith.constant", 0, NULL, 1, &type, 1,
                              &attribute};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

static void free_one(MlirOperation before, MlirValue memory, MlirValue when) {
  const int32_t sizes[] = {1, 1, 0};
  const MlirValue operands[] = {memory, when};
  const MlirNamedAttribute attribute =
      nabla_named(nabla_op_context(before), "operandSegmentSizes",
                  mlirDenseI32ArrayGet(nabla_op_context(before), 3, sizes));
  const nabla_op_spec spec = {
      "bufferization.dealloc", 2, operands, 0, NULL, 1, &attribute};
  nabla_op_create(before, &spec);
}

static MlirValue either(MlirOperation before, MlirValue a, MlirValue b) {
  const MlirValue operands[] = {a, b};
  const MlirType type = mlirValueGetType(a);
  const nabla_op_spec spec = {"arith.ori", 2, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* The operands of a deallocation: buffers to be freed, as many conditions, and
 * buffers that stay alive. Each of the last has a result: whether the function
 * owns it from there on. */
typedef struct dealloc {
  MlirOperation op;
  intptr_t conditions, kept;
  intptr_t count; /* of `all`: buffers to be freed whose condition is not always
                     false, and buffers that stay */
  buffer *all;
} dealloc;

/* Finds the buffers. Returns false if the memory of one is not known, or one to
 * be freed is no allocation. */
static bool find_buffers(scope *s, dealloc *d) {
  for (intptr_t i = 0; i < d->conditions; i++) {
    if (is_false(mlirOperationGetOperand(d->op, d->conditions + i))) continue;
    d->all[d->count] = buffer_of(s, d->op, i);
    if (d->all[d->count++].origin != ORIGIN_ALLOCATION) return false;
  }
  for (intptr_t i = 0; i < d->kept; i++) {
    d->all[d->count] = buffer_of(s, d->op, 2 * d->conditions + i);
    if (d->all[d->count++].origin == ORIGIN_UNKNOWN) return false;
  }
  return true;
}

/* Frees the buffers of a group, unless one stays: it is owned if any was.
 * Returns the number of the next group's first buffer. */
static intptr_t free_group(const dealloc *d, intptr_t first) {
  const intptr_t group = d->all[first].group;
  MlirValue owned = {NULL};
  bool stays = false;
  intptr_t i = first;
  for (; i < d->count && d->all[i].group == group; i++) {
    const intptr_t operand = d->all[i].operand;
    if (operand < d->conditions) {
      MlirValue when = mlirOperationGetOperand(d->op, d->conditions + operand);
      owned = mlirValueIsNull(owned) ? when : either(d->op, owned, when);
      continue;
    }
    if (mlirValueIsNull(owned)) owned = constant(d->op, false);
    stays = true;
    mlirValueReplaceAllUsesOfWith(
        mlirOperationGetResult(d->op, operand - 2 * d->conditions), owned);
  }
  if (!stays) free_one(d->op, mlirOperationGetOperand(d->op, group), owned);
  return i;
}

static void split(scope *s, MlirOperation op) {
  MlirAttribute sizes = mlirOperationGetInherentAttributeByName(
      op, nabla_ref("operandSegmentSizes"));
  dealloc d = {.op = op,
               .conditions = mlirDenseI32ArrayGetElement(sizes, 0),
               .kept = mlirDenseI32ArrayGetElement(sizes, 2)};
  if (d.conditions + d.kept < 2) return;
  d.all = calloc((size_t)(d.conditions + d.kept), sizeof *d.all);
  if (!d.all) s->failed = true;
  if (d.all && find_buffers(s, &d)) {
    group_buffers(d.all, d.count);
    for (intptr_t i = 0; i < d.count;) i = free_group(&d, i);
    nabla_op_erase(op);
  }
  free(d.all);
}

/* ---- functions ---- */

static bool is_dealloc(MlirOperation op) {
  return nabla_is(op, "bufferization.dealloc");
}

/* Writes which results of a function are in which of its allocations. */
static void mark(scope *s, MlirOperation function) {
  MlirOperation end = mlirBlockGetTerminator(entry_of(function));
  const intptr_t count = mlirOperationGetNumOperands(end);
  buffer *all = calloc((size_t)count + 1, sizeof *all);
  int32_t *marks = calloc((size_t)count + 1, sizeof *marks);
  if (!all || !marks) {
    s->failed = true;
  } else {
    for (intptr_t i = 0; i < count; i++)
      all[i] =
          mlirTypeIsAMemRef(mlirValueGetType(mlirOperationGetOperand(end, i)))
              ? buffer_of(s, end, i)
              : (buffer){.operand = i, .group = i};
    group_buffers(all, count);
    for (intptr_t i = 0; i < count; i++)
      if (all[i].origin == ORIGIN_ALLOCATION)
        marks[all[i].operand] = 1 + (int32_t)all[i].group;
    mlirOperationSetDiscardableAttributeByName(
        function, nabla_ref(MARK),
        mlirDenseI32ArrayGet(nabla_op_context(function), count, marks));
  }
  free(all);
  free(marks);
}

static void split_function(scope *s, MlirOperation function) {
  if (nabla_op_has(function, MARK) || s->failed || s->calls == CALLS_MAX)
    return;
  s->calls++;
  mlirOperationSetDiscardableAttributeByName(
      function, nabla_ref(MARK),
      mlirDenseI32ArrayGet(nabla_op_context(function), 0, NULL));
  nabla_op_list deallocs = nabla_ops_collect(function, is_dealloc);
  if (deallocs.failed) s->failed = true;
  for (size_t i = 0; i < deallocs.count && !s->failed; i++)
    split(s, deallocs.ops[i]);
  nabla_op_list_deinit(&deallocs);
  if (!s->failed &&
      mlirBlockIsNull(mlirBlockGetNextInRegion(entry_of(function))))
    mark(s, function);
  s->calls--;
}

static bool start(MlirOperation function, void *self) {
  scope *s = self;
  split_function(s, function);
  return !s->failed;
}

static bool unmark(MlirOperation function, void *self) {
  (void)self;
  mlirOperationRemoveDiscardableAttributeByName(function, nabla_ref(MARK));
  return true;
}

MlirLogicalResult nabla_run_split_deallocs(MlirOperation module,
                                           const nablaPassValue *values,
                                           void *prepared) {
  (void)values, (void)prepared;
  scope s = {.symbols = mlirSymbolTableCreate(module)};
  MlirLogicalResult result = nabla_ops_each(module, is_function, start, &s);
  if (s.failed) nabla_error_at(module, "nabla-split-deallocs: out of memory");
  if (mlirLogicalResultIsSuccess(result))
    result = nabla_ops_each(module, is_function, unmark, NULL);
  mlirSymbolTableDestroy(s.symbols);
  return result;
}
