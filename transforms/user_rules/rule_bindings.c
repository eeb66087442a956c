/* Checks that each value of a rule is bound when it is read: that it is a part
 * of a matched operation or a constant. MLIR reads other values from a position
 * that does not exist. */
#include <stdlib.h>

#include "transforms/ir/ir.h"
#include "transforms/user_rules/user_rules.h"

/* An operation of the pattern's block; `is_bound`: its results have values. */
typedef struct part {
  const void *op;
  bool is_bound;
} part;

typedef struct bindings {
  MlirOperation *order; /* of the block */
  part *parts;          /* the same in the order of addresses */
  size_t count;
  bool good;
} bindings;

static int by_address(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const part *)a)->op;
  const uintptr_t y = (uintptr_t)((const part *)b)->op;
  return (x > y) - (x < y);
}

/* Returns NULL for operations of the rewrite. */
static part *find(const bindings *b, MlirOperation op) {
  const part key = {.op = op.ptr};
  return bsearch(&key, b->parts, b->count, sizeof key, by_address);
}

/* Lists the operations of the block; false when out of memory. */
static bool list_parts(MlirBlock block, bindings *out) {
  MlirOperation first = mlirBlockGetFirstOperation(block), op;
  for (op = first; !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    out->count++;
  out->order = calloc(out->count + 1, sizeof *out->order);
  out->parts = calloc(out->count + 1, sizeof *out->parts);
  if (!out->order || !out->parts) return false;
  op = first;
  for (size_t at = 0; at < out->count; at++) {
    out->order[at] = op;
    out->parts[at].op = op.ptr;
    op = mlirOperationGetNextInBlock(op);
  }
  qsort(out->parts, out->count, sizeof *out->parts, by_address);
  return true;
}

/* Binds the operations that are matched and what they consist of, which stands
 * before them. MLIR has checked that they are connected. */
static void bind(bindings *b) {
  for (size_t at = b->count; at-- > 0;) {
    const MlirOperation op = b->order[at];
    part *whole = find(b, op);
    if (nabla_is(op, "pdl.operation")) whole->is_bound = true;
    if (!whole->is_bound) continue;
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
      part *piece = find(b, nabla_defining_op(mlirOperationGetOperand(op, i)));
      if (piece) piece->is_bound = true;
    }
  }
}

/* Whether an operation of the pattern gives a value by itself. */
static bool is_constant(MlirOperation op) {
  static const char *const keys[] = {"constantType", "constantTypes", "value"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!mlirAttributeIsNull(
            mlirOperationGetAttributeByName(op, nabla_ref(keys[i]))))
      return true;
  return nabla_is(op, "pdl.apply_native_constraint");
}

static MlirWalkResult check_use(MlirOperation op, void *self) {
  bindings *b = self;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirOperation from = nabla_defining_op(mlirOperationGetOperand(op, i));
    const part *found = mlirOperationIsNull(from) ? NULL : find(b, from);
    if (!found || found->is_bound || is_constant(from)) continue;
    nabla_error_at(from,
                   "is used but has no value when the rule is applied: no "
                   "operation of the pattern names it as an operand, an "
                   "attribute or a type of its results, -> (%%t : !pdl.type)");
    b->good = false;
    return MlirWalkResultInterrupt;
  }
  return MlirWalkResultAdvance;
}

bool nabla_rule_bindings_check(MlirOperation rewrite) {
  bindings b = {.good = true};
  b.good = list_parts(mlirOperationGetBlock(rewrite), &b);
  if (b.good) bind(&b);
  for (size_t at = 0; b.good && at < b.count; at++)
    if (nabla_is(b.order[at], "pdl.rewrite") ||
        nabla_is(b.order[at], "pdl.apply_native_constraint"))
      mlirOperationWalk(b.order[at], check_use, &b, MlirWalkPreOrder);
  free(b.order);
  free(b.parts);
  return b.good;
}
