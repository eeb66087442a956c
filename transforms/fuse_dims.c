/* See fuse_dims.h. */
#include "transforms/fuse_dims.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdint.h>

#include "dialect/checks.h"

#define REMEMBERED 16 /* comparisons */

static bool constant_of(MlirValue value, int64_t *out) {
  const MlirOperation op = nabla_defining_op(value);
  if (!nabla_is(op, "arith.constant")) return false;
  const MlirAttribute number =
      mlirOperationGetAttributeByName(op, nabla_ref("value"));
  if (!mlirAttributeIsAInteger(number)) return false;
  *out = mlirIntegerAttrGetValueInt(number);
  return true;
}

/* The operand of tensor.empty that is the size of dimension `dim`. */
static bool find_size(MlirOperation empty, int64_t dim, MlirValue *out) {
  const MlirType type = nabla_result_type(empty, 0);
  if (dim < 0 || dim >= mlirShapedTypeGetRank(type) ||
      !mlirShapedTypeIsDynamicDim(type, dim))
    return false;
  intptr_t operand = 0;
  for (int64_t i = 0; i < dim; i++)
    operand += mlirShapedTypeIsDynamicDim(type, i);
  *out = mlirOperationGetOperand(empty, operand);
  return true;
}

static bool resolve(const nabla_fuse_plan *p, MlirOperation dim) {
  const MlirValue source = mlirOperationGetOperand(dim, 0);
  const size_t number = nabla_block_index_definition(&p->index, source);
  if (number == SIZE_MAX || mlirOperationIsNull(p->elementwise[number].op))
    return false;
  const nabla_elementwise *e = &p->elementwise[number];
  const MlirOperation empty = nabla_defining_op(mlirOperationGetOperand(
      e->op, e->inputs + mlirOpResultGetResultNumber(source)));
  int64_t which;
  MlirValue size;
  if (!nabla_is(empty, "tensor.empty") ||
      !constant_of(mlirOperationGetOperand(dim, 1), &which) ||
      !find_size(empty, which, &size))
    return false;
  nabla_op_replace(dim, &size);
  return true;
}

/* A size as it was before it was cast; equal ones are one value. */
static MlirValue size_of(MlirValue value) {
  const MlirOperation op = nabla_defining_op(value);
  if (!nabla_is(op, "arith.index_cast")) return value;
  const MlirValue from = mlirOperationGetOperand(op, 0);
  return from;
}

static bool is_comparison(MlirOperation op) {
  if (!nabla_is(op, "func.call")) return false;
  const MlirAttribute callee =
      mlirOperationGetAttributeByName(op, nabla_ref("callee"));
  return mlirAttributeIsAFlatSymbolRef(callee) &&
         nabla_text_equals(mlirFlatSymbolRefAttrGetValue(callee),
                           "nabla_require_equal");
}

/* The pairs that were compared last. */
typedef struct comparisons {
  MlirValue a[REMEMBERED], b[REMEMBERED];
  size_t count;
} comparisons;

static bool is_known(comparisons *c, MlirOperation op) {
  const MlirValue a = size_of(mlirOperationGetOperand(op, 0));
  const MlirValue b = size_of(mlirOperationGetOperand(op, 1));
  if (mlirValueEqual(a, b)) return true;
  for (size_t i = 0; i < REMEMBERED && i < c->count; i++)
    if (mlirValueEqual(c->a[i], a) && mlirValueEqual(c->b[i], b)) return true;
  c->a[c->count % REMEMBERED] = a;
  c->b[c->count++ % REMEMBERED] = b;
  return false;
}

void nabla_fuse_dims(nabla_fuse_plan *plan) {
  comparisons known = {.count = 0};
  for (size_t i = 0; i < plan->index.count; i++) {
    const MlirOperation op = plan->index.ops[i];
    bool gone = false;
    if (nabla_is(op, "tensor.dim")) {
      gone = resolve(plan, op);
    } else if (is_comparison(op) && is_known(&known, op)) {
      nabla_op_erase(op);
      gone = true;
    }
    if (gone) plan->index.ops[i] = (MlirOperation){NULL};
  }
}
