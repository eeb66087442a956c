/* Copies of rule functions without arguments that are 0 everywhere: what is
 * computed of them alone, by operations that are linear in them, is 0 too and
 * left out. See calls.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/ops.h"
#include "transforms/autodiff/calls.h"
#include "transforms/autodiff/rules.h"
#include "transforms/ir/block_index.h"
#include "transforms/ir/functions.h"
#include "transforms/simplify/simplify_views.h"

#define KIND "absent"

typedef struct removal {
  nabla_value_map absent;
  MlirBlock entry;
} removal;

static bool is_absent(const removal *r, MlirValue value) {
  return nabla_value_map_has(&r->absent, value);
}

static bool operand_absent(const removal *r, MlirOperation op, intptr_t i) {
  return i < mlirOperationGetNumOperands(op) &&
         is_absent(r, mlirOperationGetOperand(op, i));
}

/* Whether the results are 0 where the operands that are absent are. */
static bool is_zero(const removal *r, MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  if (!row) return nabla_is(op, "tensor.cast") && operand_absent(r, op, 0);
  if (row->diff == NABLA_DIFF_product || nabla_is(op, "nabla.mul"))
    return operand_absent(r, op, 0) || operand_absent(r, op, 1);
  if (nabla_is(op, "nabla.div")) return operand_absent(r, op, 0);
  if (row->diff != NABLA_DIFF_linear) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nabla_diff_has(nabla_operand_type(op, i)) && !operand_absent(r, op, i))
      return false;
  return true;
}

/* x + 0 and x - 0. */
static bool passes(const removal *r, MlirOperation op) {
  const bool sum = nabla_is(op, "nabla.add") && operand_absent(r, op, 0);
  const bool first = (nabla_is(op, "nabla.add") || nabla_is(op, "nabla.sub")) &&
                     operand_absent(r, op, 1);
  if (!sum && !first) return false;
  const nabla_builder b = {op};
  MlirValue kept = nabla_build_cast(
      &b, mlirOperationGetOperand(op, first ? 0 : 1), nabla_result_type(op, 0));
  if (mlirValueIsNull(kept)) return false;
  mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, 0), kept);
  return true;
}

static MlirWalkResult fill(MlirOperation op, void *self) {
  const removal *r = self;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    if (!is_absent(r, value)) continue;
    const nabla_builder b = {mlirBlockGetFirstOperation(r->entry)};
    MlirType type = mlirValueGetType(value);
    nabla_built_shape shape = {.rank = nabla_array_rank(type)};
    for (intptr_t d = 0; d < shape.rank; d++)
      shape.dims[d] = nabla_array_dim(type, d);
    MlirValue zeros =
        nabla_build_full(&b, 0, &shape, nabla_array_element(type));
    if (!mlirValueIsNull(zeros)) mlirOperationSetOperand(op, i, zeros);
  }
  return MlirWalkResultAdvance;
}

static void visit(removal *r, MlirOperation op) {
  bool any = mlirOperationGetNumRegions(op) > 0, is_static = true;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    any = any || operand_absent(r, op, i);
  if (!any) return;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    MlirType type = nabla_result_type(op, i);
    is_static =
        is_static && nabla_diff_has(type) && nabla_array_is_static(type);
  }
  if (is_static && is_zero(r, op)) {
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
      MlirValue result = mlirOperationGetResult(op, i);
      nabla_value_map_set(&r->absent, result, result);
    }
    return;
  }
  if (!passes(r, op)) mlirOperationWalk(op, fill, r, MlirWalkPreOrder);
}

/* ---- the copy ---- */

static MlirOperation clone(nabla_derived *d, MlirOperation rule) {
  char name[512];
  MlirStringRef own = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(rule, nabla_ref("sym_name")));
  int number = 0;
  do {
    (void)snprintf(name, sizeof name, "%.*s." KIND "_%d", (int)own.length,
                   own.data, number++);
  } while (
      !mlirOperationIsNull(nabla_function_named(d->module, nabla_ref(name))));
  MlirOperation out = mlirOperationClone(rule);
  MlirContext context = nabla_op_context(rule);
  mlirOperationSetAttributeByName(out, nabla_ref("sym_name"),
                                  mlirStringAttrGet(context, nabla_ref(name)));
  mlirOperationSetAttributeByName(
      out, nabla_ref("sym_visibility"),
      mlirStringAttrGet(context, nabla_ref("private")));
  (void)mlirOperationRemoveAttributeByName(out, nabla_ref("arg_attrs"));
  (void)mlirOperationRemoveAttributeByName(out, nabla_ref("res_attrs"));
  mlirBlockInsertOwnedOperationAfter(mlirOperationGetBlock(rule), rule, out);
  return out;
}

/* The values that are returned: without those that are absent. */
static bool shorten(const removal *r, MlirOperation function, bool *gives) {
  MlirOperation end = nabla_block_end(r->entry);
  const intptr_t count = mlirOperationGetNumOperands(end);
  MlirValue *kept = calloc((size_t)count + 1, sizeof *kept);
  intptr_t left = 0;
  if (!kept) return false;
  for (intptr_t i = 0; i < count; i++) {
    kept[left] = mlirOperationGetOperand(end, i);
    gives[i] = !is_absent(r, kept[left]);
    left += gives[i];
  }
  mlirOperationSetOperands(end, left, kept);
  free(kept);
  (void)function;
  return true;
}

static bool remove_absent(nabla_derived *d, MlirOperation function,
                          const bool *given, bool *gives) {
  removal r = {.entry = nabla_region_block(function, 0)};
  nabla_block_index index;
  bool good = nabla_block_index_init(&index, r.entry);
  const intptr_t count = mlirBlockGetNumArguments(r.entry);
  for (intptr_t i = 0; i < count; i++) {
    MlirValue argument = mlirBlockGetArgument(r.entry, i);
    if (!given[i]) nabla_value_map_set(&r.absent, argument, argument);
  }
  for (size_t i = 0; good && i < index.count; i++) visit(&r, index.ops[i]);
  good = good && !r.absent.failed && shorten(&r, function, gives);
  nabla_block_index_deinit(&index);
  if (good) nabla_unused_erase(d->module, r.entry);
  for (intptr_t i = count; good && i-- > 0;) {
    good = given[i] || mlirOpOperandIsNull(mlirValueGetFirstUse(
                           mlirBlockGetArgument(r.entry, i)));
    if (good && !given[i]) mlirBlockEraseArgument(r.entry, (unsigned)i);
  }
  nabla_value_map_deinit(&r.absent);
  return good && nabla_function_update_type(function);
}

bool nabla_rule_may_lack(MlirType type) {
  return !nablaTypeIsAImplicit(type) && nabla_diff_has(type) &&
         nabla_array_is_static(type);
}

MlirOperation nabla_rule_absent(nabla_derived *d, MlirOperation rule,
                                const bool *given, bool *gives) {
  MlirType type = nabla_callee_type(rule);
  const size_t in = (size_t)mlirFunctionTypeGetNumInputs(type);
  const size_t out = (size_t)mlirFunctionTypeGetNumResults(type);
  bool all = true;
  for (size_t i = 0; i < in; i++) all = all && given[i];
  for (size_t i = 0; i < out; i++) gives[i] = true;
  MlirBlock entry = mlirRegionGetFirstBlock(mlirOperationGetRegion(rule, 0));
  if (all || mlirBlockIsNull(entry)) return rule;
  for (size_t i = 0; i < d->count; i++) {
    const struct nabla_derived_row *row = &d->rows[i];
    if (!mlirOperationEqual(row->function, rule) || strcmp(row->kind, KIND) ||
        memcmp(row->mask, given, in) != 0)
      continue;
    memcpy(gives, row->mask + in, out);
    return row->made;
  }
  MlirOperation made = clone(d, rule);
  if (remove_absent(d, made, given, gives) &&
      nabla_derived_add(d, rule, KIND, made, in, given, out, gives))
    return made;
  nabla_error_at(rule, "cannot be made without arguments that are 0");
  return (MlirOperation){NULL};
}
