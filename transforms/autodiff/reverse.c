/* See reverse.h. */
#include "transforms/autodiff/reverse.h"

#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/ops.h"
#include "transforms/composite/decompositions.h"
#include "transforms/ir/block_index.h"

void nabla_reverse_add(nabla_reverse *r, MlirValue value, MlirValue cotangent) {
  if (mlirValueIsNull(cotangent) || !nabla_value_map_has(r->varied, value))
    return;
  MlirValue sum = nabla_value_map_get(&r->sums, value);
  if (!mlirValueIsNull(sum))
    cotangent = nabla_build_two(&r->b, "add", nabla_diff_widen(&r->b, sum),
                                nabla_diff_widen(&r->b, cotangent));
  nabla_value_map_set(&r->sums, value, cotangent);
}

MlirValue nabla_reverse_sum(nabla_reverse *r, MlirValue value) {
  return nabla_diff_narrow(&r->b, nabla_value_map_get(&r->sums, value), value);
}

MlirValue nabla_reverse_sum_or_zeros(nabla_reverse *r, MlirValue value) {
  MlirValue sum = nabla_reverse_sum(r, value);
  if (!mlirValueIsNull(sum)) return sum;
  return nabla_build_zeros(&r->b, value,
                           nabla_array_element(mlirValueGetType(value)));
}

/* ---- one operation ---- */

static bool run_rule(nabla_reverse *r, MlirOperation op,
                     const MlirValue *cotangents) {
  const intptr_t count = mlirOperationGetNumOperands(op);
  const nabla_diff_row row = nabla_diff_find(op);
  if (!row.vjp) return nabla_diff_refuse(op);
  bool *wanted = calloc((size_t)count + 1, sizeof *wanted);
  MlirValue *out = calloc((size_t)count + 1, sizeof *out);
  bool good = wanted && out;
  for (intptr_t i = 0; good && i < count; i++)
    wanted[i] = nabla_value_map_has(r->varied, mlirOperationGetOperand(op, i));
  const nabla_pullback p = {r->b, op, wanted, cotangents, out};
  good = good && row.vjp(&p);
  for (intptr_t i = 0; good && i < count; i++)
    if (wanted[i]) nabla_reverse_add(r, mlirOperationGetOperand(op, i), out[i]);
  free(wanted);
  free(out);
  return good;
}

static bool run(nabla_reverse *r, MlirOperation op,
                const MlirValue *cotangents) {
  if (nabla_is(op, "nabla.cond")) return nabla_reverse_cond(r, op, cotangents);
  if (nabla_is(op, "nabla.scan")) return nabla_reverse_scan(r, op, cotangents);
  if (nabla_is(op, "nabla.remat"))
    return nabla_reverse_remat(r, op, cotangents);
  if (nabla_is(op, "nabla.while"))
    return nabla_reverse_while(r, op, cotangents);
  if (nabla_is(op, "func.call")) return nabla_reverse_call(r, op, cotangents);
  if (nabla_is(op, "nabla.custom_call"))
    return nabla_reverse_custom_call(r, op, cotangents);
  return run_rule(r, op, cotangents);
}

static bool reverse_op(nabla_reverse *r, MlirOperation op) {
  const intptr_t count = mlirOperationGetNumResults(op);
  bool any = false;
  if (nabla_diff_is_zero(op) || !nabla_varied_uses(r->varied, op)) return true;
  MlirValue *cotangents = calloc((size_t)count + 1, sizeof *cotangents);
  if (!cotangents) return false;
  for (intptr_t i = 0; i < count; i++) {
    cotangents[i] = nabla_reverse_sum(r, mlirOperationGetResult(op, i));
    any = any || !mlirValueIsNull(cotangents[i]);
  }
  const bool good = !any || run(r, op, cotangents);
  free(cotangents);
  return good;
}

bool nabla_reverse_block(nabla_reverse *r, MlirBlock block) {
  nabla_block_index index;
  bool good = nabla_block_index_init(&index, block);
  for (size_t i = index.count; good && i-- > 0;)
    good = reverse_op(r, index.ops[i]);
  nabla_block_index_deinit(&index);
  return good && !r->sums.failed && !r->varied->failed;
}
