/* Comparisons of dimensions that are made where a function begins, so that a
 * run with inputs that do not fit together ends with an error that says so, not
 * for want of the memory that they would need. */
#include <stdlib.h>

#include "transforms/ir/llvm_ops.h"
#include "transforms/memory/function_plan.h"

#define CHECK                                                    \
  "nabla_require_equal" /* of two words; the third operand: text \
                         */

/* What is compared already: two words and the text. */
typedef struct check_list {
  MlirValue *values; /* three of each */
  size_t count, capacity;
} check_list;

static bool is_check(MlirOperation op) {
  return nabla_is(op, "func.call") &&
         nabla_text_is(
             mlirFlatSymbolRefAttrGetValue(
                 mlirOperationGetAttributeByName(op, nabla_ref("callee"))),
             CHECK);
}

/* Adds a comparison; false if it is there, or out of memory. */
static bool add(check_list *list, const MlirValue *values) {
  for (size_t i = 0; i < list->count; i++)
    if (mlirValueEqual(list->values[3 * i], values[0]) &&
        mlirValueEqual(list->values[3 * i + 1], values[1]) &&
        mlirValueEqual(list->values[3 * i + 2], values[2]))
      return false;
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity ? 2 * list->capacity : 32;
    MlirValue *more = realloc(list->values, 3 * capacity * sizeof *more);
    if (!more) return false;
    list->values = more;
    list->capacity = capacity;
  }
  for (size_t i = 0; i < 3; i++) list->values[3 * list->count + i] = values[i];
  list->count++;
  return true;
}

/* Makes the text of a check available before `plan->at`; false if it is not an
 * address that is there or can be moved. */
static bool bring_text(const nabla_function_plan *plan, MlirOperation check) {
  MlirOperation text = nabla_defining_op(mlirOperationGetOperand(check, 2));
  if (!nabla_is(text, "llvm.mlir.addressof")) return false;
  if (mlirBlockEqual(mlirOperationGetBlock(text),
                     mlirOperationGetBlock(plan->at)) &&
      nabla_block_index_find(&plan->index, text) > plan->sizes.at_number)
    mlirOperationMoveBefore(text, plan->at);
  return true;
}

/* A copy of `check` before `plan->at`, where both sizes are known. */
static void copy_check(nabla_function_plan *plan, MlirOperation check,
                       check_list *list) {
  MlirValue values[3];
  for (intptr_t i = 0; i < 2; i++)
    if (!nabla_entry_knows(&plan->sizes, mlirOperationGetOperand(check, i)))
      return;
  if (!bring_text(plan, check)) return;
  for (intptr_t i = 0; i < 2; i++) {
    values[i] =
        nabla_entry_value(&plan->sizes, mlirOperationGetOperand(check, i));
    if (mlirValueIsNull(values[i])) return;
  }
  values[2] = mlirOperationGetOperand(check, 2);
  if (!add(list, values)) return;
  MlirOperation copy = mlirOperationClone(check);
  mlirOperationSetOperands(copy, 3, values);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(plan->at), plan->at,
                                      copy);
}

void nabla_function_plan_check_early(nabla_function_plan *plan) {
  check_list list = {0};
  MlirOperation last = plan->open.items[plan->open.count - 1].op;
  const size_t end = nabla_block_index_find(&plan->index, last);
  for (MlirOperation op = plan->at; !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    if (nabla_block_index_find(&plan->index, op) > end) break;
    if (is_check(op)) copy_check(plan, op, &list);
  }
  free(list.values);
}
