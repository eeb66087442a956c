/* nabla-split-deallocs: takes deallocations of many buffers apart. Upstream's
 * deallocation frees all buffers of a block at once, and compares each with
 * each other and with each buffer that stays alive, when the program runs: code
 * that LLVM's schedulers take time for that grows with the square of their
 * number. Allocations, and results of private functions that are allocations of
 * these, are different buffers: each is freed by an operation of its own, or
 * stays alive. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "transforms/ir/functions.h"
#include "transforms/ir/ir.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/passes.h"

/* Of a function whose deallocations were taken apart: for each of its results
 * 0, or 1 + the number of the first result that is in the same allocation of
 * the function. Empty while that is being found out. */
#define MARK "nabla.allocated_results"

typedef struct scope {
  MlirSymbolTable symbols;
  bool failed; /* out of memory */
} scope;

/* Where the memory of a buffer comes from. */
typedef enum origin {
  ORIGIN_UNKNOWN,
  ORIGIN_ARGUMENT,   /* of the function: it was there before */
  ORIGIN_ALLOCATION, /* `value`, of which all others in it are views */
} origin;

typedef struct root {
  origin origin;
  const void *value;
} root;

static void split_function(scope *s, MlirOperation function);

static bool is_function(MlirOperation op) {
  return nabla_is(op, "func.func") &&
         !mlirRegionIsNull(mlirOperationGetRegion(op, 0)) &&
         !mlirBlockIsNull(
             mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)));
}

static MlirBlock entry_of(MlirOperation function) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
}

/* ---- where buffers come from ---- */

static bool is_view(MlirOperation op) {
  static const char *const views[] = {"memref.cast",
                                      "memref.subview",
                                      "memref.collapse_shape",
                                      "memref.expand_shape",
                                      "memref.transpose",
                                      "memref.reinterpret_cast",
                                      "memref.extract_strided_metadata"};
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    if (nabla_is(op, views[i])) return true;
  return false;
}

/* The body of a private function that a call calls; null if it has several
 * blocks, or is not to be seen. */
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

static root root_of(scope *s, MlirValue value) {
  for (;;) {
    if (mlirValueIsABlockArgument(value)) {
      MlirBlock block = mlirBlockArgumentGetOwner(value);
      MlirOperation of = mlirBlockGetParentOperation(block);
      const bool is_of_function =
          nabla_is(of, "func.func") && mlirBlockEqual(block, entry_of(of));
      return (root){is_of_function ? ORIGIN_ARGUMENT : ORIGIN_UNKNOWN, NULL};
    }
    MlirOperation op = nabla_defining_op(value);
    if (nabla_is(op, "memref.alloc") || nabla_is(op, "bufferization.clone"))
      return (root){ORIGIN_ALLOCATION, value.ptr};
    if (nabla_is(op, "func.call")) {
      const intptr_t first =
          first_in_allocation(s, op, mlirOpResultGetResultNumber(value));
      return first < 0 ? (root){ORIGIN_UNKNOWN, NULL}
                       : (root){ORIGIN_ALLOCATION,
                                mlirOperationGetResult(op, first).ptr};
    }
    if (!is_view(op)) return (root){ORIGIN_UNKNOWN, NULL};
    value = mlirOperationGetOperand(op, 0);
  }
}

/* ---- a deallocation ---- */

/* A buffer among the operands of a deallocation, with the number of its
 * operand. */
typedef struct buffer {
  root root;
  intptr_t operand;
} buffer;

static int compare_roots(const void *a, const void *b) {
  const char *x = ((const buffer *)a)->root.value;
  const char *y = ((const buffer *)b)->root.value;
  return x < y ? -1 : x > y;
}

/* By roots, then by operands. */
static int compare(const void *a, const void *b) {
  const intptr_t x = ((const buffer *)a)->operand;
  const intptr_t y = ((const buffer *)b)->operand;
  const int roots = compare_roots(a, b);
  return roots ? roots : x < y ? -1 : x > y;
}

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

/* The operands of a deallocation: buffers, as many conditions, buffers that
 * stay alive, for which it has a result each: whether the caller owns them. */
typedef struct dealloc {
  MlirOperation op;
  intptr_t conditions, kept;
  intptr_t freed;  /* buffers whose condition is not always false */
  intptr_t merged; /* allocations of these */
  buffer *all;     /* those buffers, then those that stay */
} dealloc;

static MlirValue condition_of(const dealloc *d, const buffer *it) {
  return mlirOperationGetOperand(d->op, d->conditions + it->operand);
}

static MlirValue either(MlirOperation before, MlirValue a, MlirValue b) {
  const MlirValue operands[] = {a, b};
  const MlirType type = mlirValueGetType(a);
  const nabla_op_spec spec = {"arith.ori", 2, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* Merges buffers of the same allocation: whether any of them is owned. Returns
 * for each that is left its condition; null if out of memory. */
static MlirValue *merge(dealloc *d) {
  MlirValue *conditions = calloc((size_t)d->freed + 1, sizeof *conditions);
  intptr_t count = 0;
  for (intptr_t i = 0; conditions && i < d->freed; i++) {
    MlirValue when = condition_of(d, &d->all[i]);
    if (count && d->all[count - 1].root.value == d->all[i].root.value) {
      conditions[count - 1] = either(d->op, conditions[count - 1], when);
      continue;
    }
    d->all[count] = d->all[i];
    conditions[count++] = when;
  }
  d->merged = count;
  return conditions;
}

/* Frees what does not stay alive. Of several buffers of one allocation that
 * stay, one is owned: it alone is freed later. */
static bool replace(dealloc *d) {
  const buffer *kept = d->all + d->freed;
  MlirValue *conditions = merge(d);
  if (!conditions) return false;
  for (intptr_t k = 0; k < d->kept; k++) {
    buffer *same = kept[k].root.value
                       ? bsearch(&kept[k], d->all, (size_t)d->merged,
                                 sizeof *kept, compare_roots)
                       : NULL;
    mlirValueReplaceAllUsesOfWith(
        mlirOperationGetResult(d->op, kept[k].operand - 2 * d->conditions),
        same ? conditions[same - d->all] : constant(d->op, false));
    if (same) same->root.origin = ORIGIN_UNKNOWN; /* it stays */
  }
  for (intptr_t i = 0; i < d->merged; i++)
    if (d->all[i].root.origin == ORIGIN_ALLOCATION)
      free_one(d->op, mlirOperationGetOperand(d->op, d->all[i].operand),
               conditions[i]);
  free(conditions);
  nabla_op_erase(d->op);
  return true;
}

/* The buffers that may be freed, all of them allocations, and those that stay.
 * Returns false if one has a root that is not known. */
static bool find_buffers(scope *s, dealloc *d) {
  intptr_t count = 0;
  for (intptr_t i = 0; i < d->conditions; i++) {
    if (is_false(mlirOperationGetOperand(d->op, d->conditions + i))) continue;
    const root found = root_of(s, mlirOperationGetOperand(d->op, i));
    if (found.origin != ORIGIN_ALLOCATION) return false;
    d->all[count++] = (buffer){found, i};
  }
  d->freed = count;
  for (intptr_t i = 0; i < d->kept; i++) {
    const intptr_t operand = 2 * d->conditions + i;
    const root found = root_of(s, mlirOperationGetOperand(d->op, operand));
    if (found.origin == ORIGIN_UNKNOWN) return false;
    d->all[count++] = (buffer){found, operand};
  }
  qsort(d->all, (size_t)d->freed, sizeof *d->all, compare);
  qsort(d->all + d->freed, (size_t)d->kept, sizeof *d->all, compare);
  return true;
}

static void split(scope *s, MlirOperation op) {
  MlirAttribute sizes = mlirOperationGetInherentAttributeByName(
      op, nabla_ref("operandSegmentSizes"));
  dealloc d = {.op = op,
               .conditions = mlirDenseI32ArrayGetElement(sizes, 0),
               .kept = mlirDenseI32ArrayGetElement(sizes, 2)};
  if (d.conditions + d.kept < 2) return;
  d.all = calloc((size_t)(d.conditions + d.kept), sizeof *d.all);
  if (!d.all || (find_buffers(s, &d) && !replace(&d))) s->failed = true;
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
  if (!all || !marks) s->failed = true;
  for (intptr_t i = 0; !s->failed && i < count; i++) {
    MlirValue value = mlirOperationGetOperand(end, i);
    all[i].operand = i;
    if (mlirTypeIsAMemRef(mlirValueGetType(value)))
      all[i].root = root_of(s, value);
  }
  if (!s->failed) {
    qsort(all, (size_t)count, sizeof *all, compare);
    for (intptr_t i = 0, first = 0; i < count; i++) {
      if (all[i].root.value != all[first].root.value) first = i;
      if (all[i].root.origin == ORIGIN_ALLOCATION)
        marks[all[i].operand] = 1 + (int32_t)all[first].operand;
    }
    mlirOperationSetDiscardableAttributeByName(
        function, nabla_ref(MARK),
        mlirDenseI32ArrayGet(nabla_op_context(function), count, marks));
  }
  free(all);
  free(marks);
}

static void split_function(scope *s, MlirOperation function) {
  if (nabla_op_has(function, MARK) || s->failed) return;
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
