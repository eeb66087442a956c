/* See fuse_dims.h. */
#include "transforms/fusion/fuse_dims.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"

#define REMEMBERED 16 /* comparisons */

/* A size as it was before it was cast; equal ones are one value. */
static MlirValue size_of(MlirValue value) {
  const MlirOperation op = nabla_defining_op(value);
  if (!nabla_is(op, "arith.index_cast")) return value;
  return mlirOperationGetOperand(op, 0);
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
    if (!is_comparison(op) || !is_known(&known, op)) continue;
    nabla_op_erase(op);
    plan->index.ops[i] = (MlirOperation){NULL};
  }
}
