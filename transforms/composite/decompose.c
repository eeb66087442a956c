/* nabla-decompose: composites become what they are made of, by the table in
 * decompositions.def. nabla-dispatch does the same with one that has implicit
 * operands, when no rule takes it whole. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/bridge.h"
#include "dialect/ops.h"
#include "transforms/composite/decompositions.h"
#include "transforms/lower/list.h"
#include "transforms/passes.h"

static const struct {
  const char *op, *what;
  MlirValue (*parts)(const nabla_builder *b, MlirOperation op);
} table[] = {
#define PARTS(id, what) {"nabla." #id, what, nabla_parts_##id},
#include "transforms/composite/decompositions.def"
#undef PARTS
};

bool nabla_is_composite(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  return row && row->implicit == NABLA_IMPLICIT_parts;
}

MlirType nabla_parts_work(MlirType element) {
  bool is_half = mlirTypeIsAF16(element) || mlirTypeIsABF16(element);
  return is_half ? mlirF32TypeGet(mlirTypeGetContext(element)) : element;
}

double nabla_parts_float(MlirOperation op, const char *key, double missing) {
  MlirAttribute value = mlirOperationGetAttributeByName(op, nabla_ref(key));
  return mlirAttributeIsNull(value) ? missing
                                    : mlirFloatAttrGetValueDouble(value);
}

int64_t nabla_parts_integer(MlirOperation op, const char *key,
                            int64_t missing) {
  MlirAttribute value = mlirOperationGetAttributeByName(op, nabla_ref(key));
  return mlirAttributeIsNull(value) ? missing
                                    : mlirIntegerAttrGetValueInt(value);
}

/* An op of dead code may be its own operand, which nothing can be made of. */
static bool is_own_operand(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (mlirOperationEqual(nabla_defining_op(mlirOperationGetOperand(op, i)),
                           op))
      return true;
  return false;
}

/* Shapes that operands agree in may say more than the op's result did. */
static MlirValue as_result(const nabla_builder *b, MlirOperation op,
                           MlirValue value) {
  MlirType type = nabla_result_type(op, 0);
  if (mlirValueIsNull(value) || mlirTypeEqual(mlirValueGetType(value), type))
    return value;
  nabla_op_spec spec = {"tensor.cast", 1, &value, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(b->before, &spec), 0);
}

bool nabla_decompose(MlirOperation op) {
  if (is_own_operand(op)) {
    nabla_error_at(op, "is an operand of itself");
    return false;
  }
  nabla_builder b = {op};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (!nabla_is(op, table[i].op)) continue;
    MlirValue value = as_result(&b, op, table[i].parts(&b, op));
    if (mlirValueIsNull(value)) return false;
    nablaOptimizationRemark(mlirOperationGetLocation(op), false, "Decomposed",
                            "nabla-decompose", table[i].what);
    nabla_op_replace(op, &value);
    return true;
  }
  nabla_error_at(op, "has no row in transforms/composite/decompositions.def");
  return false;
}

bool nabla_lower_composite(nabla_template *t) {
  nabla_error_at(t->op,
                 "has no lowering to linalg: run --nabla-decompose first");
  return false;
}

static bool decompose(MlirOperation op, void *self) {
  (void)self;
  return nabla_decompose(op);
}

MlirLogicalResult nabla_run_decompose(MlirOperation op,
                                      const nablaPassValue *values,
                                      void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(op, nabla_is_composite, decompose, NULL);
}
