/* See saved.h. */
#include "transforms/autodiff/saved.h"

#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/control.h"

/* Sizes and arrays of one value cost less than to keep them. */
static bool is_cheap(MlirOperation op) {
  static const char *const cheap[] = {"nabla.constant", "nabla.full",
                                      "nabla.iota", "nabla.tri"};
  for (size_t i = 0; i < sizeof cheap / sizeof *cheap; i++)
    if (nabla_is(op, cheap[i])) return true;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    MlirType type = nabla_result_type(op, i);
    if (!mlirTypeIsARankedTensor(type) && !nablaTypeIsAImplicit(type))
      return true;
  }
  return false;
}

bool nabla_is_kept(MlirValue value) {
  MlirType type = mlirValueGetType(value);
  if (!mlirTypeIsARankedTensor(type) && !nablaTypeIsAImplicit(type))
    return false;
  return mlirValueIsABlockArgument(value) ||
         !is_cheap(nabla_defining_op(value));
}

static bool is_saved(const nabla_saved *s, MlirOperation op) {
  if (is_cheap(op) || s->save == NABLA_SAVE_NONE) return false;
  return s->save == NABLA_SAVE_ALL || nabla_is(op, "nabla.dot_general") ||
         nabla_is(op, "nabla.conv_general");
}

static void need(nabla_saved *s, MlirValue value);

static MlirWalkResult need_operands(MlirOperation op, void *self) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    need(self, mlirOperationGetOperand(op, i));
  return MlirWalkResultAdvance;
}

/* A value that the pass back uses: it is saved, or its operation runs again,
 * which needs others. */
static void need(nabla_saved *s, MlirValue value) {
  const size_t number = nabla_block_index_definition(&s->index, value);
  if (number == SIZE_MAX || number >= s->mark) return;
  MlirOperation op = s->index.ops[number];
  if (!mlirOperationEqual(nabla_defining_op(value), op)) return; /* inside */
  if (is_saved(s, op)) {
    for (size_t i = 0; i < s->values.count; i++)
      if (mlirValueEqual(s->values.values[i], value)) return;
    nabla_value_list_add(&s->values, value);
    return;
  }
  if (s->needed[number]) return;
  s->needed[number] = true;
  mlirOperationWalk(op, need_operands, s, MlirWalkPreOrder);
}

/* In the order in which the function computes them, whatever order the pass
 * back uses them in. */
static bool comes_before(const nabla_saved *s, MlirValue a, MlirValue b) {
  const size_t x = nabla_block_index_definition(&s->index, a);
  const size_t y = nabla_block_index_definition(&s->index, b);
  return x != y
             ? x < y
             : mlirOpResultGetResultNumber(a) < mlirOpResultGetResultNumber(b);
}

static void sort_saved(nabla_saved *s) {
  MlirValue *list = s->values.values;
  for (size_t i = 1; i < s->values.count; i++)
    for (size_t j = i; j && comes_before(s, list[j], list[j - 1]); j--) {
      const MlirValue other = list[j];
      list[j] = list[j - 1];
      list[j - 1] = other;
    }
}

static bool find_mark(nabla_saved *s) {
  for (s->mark = 0; s->mark < s->index.count; s->mark++)
    if (!mlirAttributeIsNull(mlirOperationGetAttributeByName(
            s->index.ops[s->mark], nabla_ref(NABLA_REVERSE_MARK))))
      return true;
  return false;
}

static bool check_effects(const nabla_saved *s) {
  for (size_t i = 0; i < s->mark; i++) {
    if (!s->needed[i] || !nabla_has_effects(s->d->module, s->index.ops[i]))
      continue;
    nabla_error_at(s->index.ops[i],
                   "has effects, and the backward function would run it again: "
                   "declare its custom calls pure, or use save=all");
    return false;
  }
  return true;
}

bool nabla_saved_find(nabla_saved *s) {
  MlirBlock entry = nabla_region_block(s->function, 0);
  MlirOperation end = nabla_block_end(entry);
  if (!nabla_block_index_init(&s->index, entry) || !find_mark(s)) return false;
  s->needed = calloc(s->mark + 1, sizeof *s->needed);
  if (!s->needed) return false;
  for (size_t i = s->mark + 1; i < s->index.count; i++)
    mlirOperationWalk(s->index.ops[i], need_operands, s, MlirWalkPreOrder);
  for (intptr_t i = s->results; i < mlirOperationGetNumOperands(end); i++)
    need(s, mlirOperationGetOperand(end, i));
  sort_saved(s);
  return check_effects(s) && !s->values.failed;
}

void nabla_saved_deinit(nabla_saved *s) {
  nabla_block_index_deinit(&s->index);
  nabla_value_list_deinit(&s->values);
  free(s->needed);
}
