/* One example after the other: a nabla.scan over the batch, whose body has the
 * operation as it is. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "dialect/ops.h"
#include "dialect/verify/checks.h"
#include "transforms/abi/calls.h"
#include "transforms/autodiff/call_rules.h"
#include "transforms/batching/regions.h"

/* The batched values that an operation uses, each once. */
typedef struct used_values {
  const nabla_batching *s;
  MlirValue keys[NABLA_MAX_OPERANDS];
  intptr_t count;
  bool too_many;
} used_values;

static MlirWalkResult add_used(MlirOperation op, void *self) {
  used_values *used = self;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue key = mlirOperationGetOperand(op, i);
    bool known = !nabla_batch_is(used->s, key);
    for (intptr_t k = 0; k < used->count; k++)
      known = known || mlirValueEqual(used->keys[k], key);
    if (known) continue;
    used->too_many = used->too_many || used->count == NABLA_MAX_OPERANDS;
    if (!used->too_many) used->keys[used->count++] = key;
  }
  return MlirWalkResultAdvance;
}

/* Examples of packed batches are packed where they are whole blocks. */
static MlirType slice_of(MlirType whole) {
  int64_t dims[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(whole);
  if (nablaTypeIsAImplicit(whole)) return nabla_slice_type(whole);
  for (intptr_t i = 1; i < rank; i++) dims[i - 1] = nabla_array_dim(whole, i);
  return mlirRankedTensorTypeGet(rank - 1, dims, nabla_array_element(whole),
                                 mlirAttributeGetNull());
}

static MlirValue as_input(const nabla_batching *s, MlirValue key) {
  MlirValue x = nabla_batch_get(s, key).value;
  nabla_slices slices;
  MlirType type = mlirValueGetType(x);
  if (!nablaTypeIsAImplicit(type)) return x;
  MlirType slice = nabla_slice_type(type);
  bool whole =
      !mlirTypeIsNull(slice) && nabla_slices_find(type, slice, &slices);
  return whole ? x : nabla_batch_materialized(s, x);
}

/* The sizes that a scan needs, each `?` of the slices that it stacks: operands
 * of type index behind the arrays of the op. */
static bool find_sizes(const nabla_batching *s, MlirOperation op,
                       MlirValue *out, intptr_t *out_count) {
  intptr_t wanted = 0, count = mlirOperationGetNumOperands(op), first = count;
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
    MlirType type = nabla_result_type(op, r);
    for (intptr_t i = 0; i < nabla_array_rank(type); i++)
      wanted += nabla_is_dynamic(nabla_array_dim(type, i));
  }
  *out_count = wanted;
  if (wanted == 0) return true;
  while (first > 0 && mlirTypeIsAIndex(nabla_operand_type(op, first - 1)))
    first--;
  if (count - first >= wanted && wanted <= NABLA_MAX_OPERANDS) {
    for (intptr_t i = 0; i < wanted; i++)
      out[i] = nabla_batch_operand(s, op, count - wanted + i);
    return true;
  }
  nabla_error_at(op,
                 "nabla-vmap: is done for one example after the other, and "
                 "sizes of its results are not known before it is done");
  return false;
}

/* The body: `before`, if there is one, and the op on slices, which stand for
 * what they use. */
static bool write_body(nabla_batching *s, MlirOperation before,
                       MlirOperation op, MlirOperation scan,
                       const used_values *used) {
  nabla_batched old[NABLA_MAX_OPERANDS];
  MlirValue results[NABLA_MAX_RESULTS];
  MlirBlock block = nabla_region_block(scan, 0);
  nabla_batch_place place = nabla_batch_begin(s, scan, 0);
  for (intptr_t i = 0; i < used->count; i++) {
    old[i] = nabla_batch_get(s, used->keys[i]);
    nabla_batch_set(s, used->keys[i],
                    (nabla_batched){mlirBlockGetArgument(block, i), false});
  }
  bool good = mlirOperationIsNull(before) || nabla_batch_clone(s, before);
  good = good && nabla_batch_clone(s, op);
  intptr_t count = mlirOperationGetNumResults(op);
  for (intptr_t i = 0; good && i < count; i++)
    results[i] = nabla_batch_materialized(
        s, nabla_batch_get(s, mlirOperationGetResult(op, i)).value);
  good = nabla_batch_end(s, place, "nabla.yield", good ? count : 0, results) &&
         good;
  for (intptr_t i = 0; i < used->count; i++)
    nabla_batch_set(s, used->keys[i], old[i]);
  return good;
}

static MlirNamedAttribute groups_of(MlirOperation op, intptr_t inputs,
                                    intptr_t sizes) {
  const int32_t groups[] = {0, (int32_t)inputs, 0, (int32_t)sizes};
  MlirContext context = nabla_op_context(op);
  return nabla_named(context, "operandSegmentSizes",
                     mlirDenseI32ArrayGet(context, 4, groups));
}

/* What nabla-dispatch makes takes packed arrays alone. */
static bool stays_packed(const nabla_batching *s, MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  if (!row || row->implicit != NABLA_IMPLICIT_takes) return true;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue x = nabla_batch_operand(s, op, i);
    if (!nablaTypeIsAImplicit(nabla_operand_type(op, i)) ||
        nablaTypeIsAImplicit(mlirValueGetType(x)))
      continue;
    nabla_error_at(op,
                   "nabla-vmap: takes packed arrays alone, and examples of its "
                   "operand %d are not whole blocks: run nabla-vmap before "
                   "nabla-dispatch",
                   (int)i);
    return false;
  }
  return true;
}

bool nabla_batch_each(nabla_batching *s, MlirOperation op) {
  return nabla_batch_each_behind(s, (MlirOperation){NULL}, op);
}

bool nabla_batch_each_behind(nabla_batching *s, MlirOperation before,
                             MlirOperation op) {
  MlirValue operands[2 * NABLA_MAX_OPERANDS];
  MlirType slices[NABLA_MAX_OPERANDS], results[NABLA_MAX_RESULTS];
  used_values used = {.s = s};
  intptr_t sizes = 0, count = mlirOperationGetNumResults(op);
  bool alone = mlirOperationIsNull(before);
  nabla_batched old = {{NULL}, false};
  if (!alone) old = nabla_batch_get(s, mlirOperationGetResult(before, 0));
  mlirOperationWalk(alone ? op : before, add_used, &used, MlirWalkPreOrder);
  if (used.too_many || count > NABLA_MAX_RESULTS) {
    nabla_error_at(op, "nabla-vmap: uses more than %d batched values",
                   NABLA_MAX_OPERANDS);
    return false;
  }
  for (intptr_t i = 0; i < used.count; i++) {
    operands[i] = as_input(s, used.keys[i]);
    slices[i] = slice_of(mlirValueGetType(operands[i]));
  }
  if (!stays_packed(s, op) || !find_sizes(s, op, operands + used.count, &sizes))
    return false;
  for (intptr_t i = 0; i < count; i++) {
    results[i] = nabla_batch_type(s, nabla_result_type(op, i));
    if (mlirTypeIsNull(results[i])) return false;
  }
  MlirNamedAttribute groups = groups_of(op, used.count, sizes);
  nabla_batch_copy copy = {.op = op,
                           .operand_count = used.count + sizes,
                           .operands = operands,
                           .result_count = count,
                           .results = results,
                           .change_count = 1,
                           .changes = &groups};
  MlirOperation scan =
      nabla_batch_open(s, "nabla.scan", &copy, 1, &used.count, slices);
  bool good =
      !mlirOperationIsNull(scan) && write_body(s, before, op, scan, &used);
  for (intptr_t i = 0; good && i < count; i++)
    good = nabla_batch_give(s, op, i, mlirOperationGetResult(scan, i));
  if (!alone) nabla_batch_set(s, mlirOperationGetResult(before, 0), old);
  return good;
}

/* ---- custom calls ---- */

/* Called once, with the batch in front of all arrays; that of what has none is
 * of size 1 (`expand`), or repeats (`broadcast`). */
static bool call_once(nabla_batching *s, MlirOperation op, bool repeats) {
  MlirValue operands[2 * NABLA_MAX_OPERANDS];
  MlirType results[NABLA_MAX_RESULTS];
  intptr_t count = mlirOperationGetNumOperands(op), arrays = 0, next = 0;
  intptr_t result_count = mlirOperationGetNumResults(op);
  for (; arrays < count && !mlirTypeIsAIndex(nabla_operand_type(op, arrays));
       arrays++) {
    MlirValue x = mlirOperationGetOperand(op, arrays);
    if (repeats || nabla_batch_is(s, x)) {
      operands[arrays] = nabla_batch_dense(s, x);
      continue;
    }
    nabla_built_shape shape = {0}, one = nabla_build_shape_of(
                                       &s->b, nabla_batch_get(s, x).value);
    nabla_build_shape_add_size(&shape, 1);
    for (intptr_t i = 0; i < one.rank && shape.rank < NABLA_MAX_RANK; i++)
      nabla_build_shape_add(&shape, &one, i);
    operands[arrays] = nabla_build_reshape(
        &s->b, nabla_batch_materialized(s, nabla_batch_get(s, x).value),
        &shape);
  }
  count = arrays;
  for (intptr_t r = 0; r < result_count; r++) {
    MlirType type = nabla_result_type(op, r);
    results[r] = nabla_batch_type(s, type);
    if (mlirTypeIsNull(results[r])) return false;
    if (nabla_is_dynamic(s->size)) operands[count++] = s->count;
    for (intptr_t i = 0; i < nabla_array_rank(type); i++)
      if (nabla_is_dynamic(nabla_array_dim(type, i)))
        operands[count++] = nabla_batch_operand(s, op, arrays + next++);
  }
  nabla_batch_copy copy = {.op = op,
                           .operand_count = count,
                           .operands = operands,
                           .result_count = result_count,
                           .results = results};
  MlirOperation made = nabla_batch_copied(s, &copy);
  bool good = !mlirOperationIsNull(made);
  for (intptr_t i = 0; good && i < result_count; i++)
    good = nabla_batch_give(s, op, i, mlirOperationGetResult(made, i));
  return good;
}

/* The results as the rule says: with the batch in front. */
static bool by_rule(nabla_batching *s, MlirOperation op,
                    const nabla_call_rules *rules) {
  MlirValue operands[NABLA_MAX_OPERANDS], out[NABLA_MAX_RESULTS] = {{NULL}};
  bool batched[NABLA_MAX_OPERANDS];
  nabla_call_rule rule = {
      .rules = rules,
      .op = op,
      .name = "batch",
      .apply = rules->batch,
      .frame = {.operands = operands, .batched = batched, .out = out}};
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    operands[i] = nabla_batch_operand(s, op, i);
    batched[i] = nabla_batch_is(s, mlirOperationGetOperand(op, i));
  }
  bool good = nabla_call_rule_run(&rule, s->b.before);
  for (intptr_t i = 0; good && i < mlirOperationGetNumResults(op); i++) {
    MlirType type = nabla_batch_type(s, nabla_result_type(op, i));
    good = !mlirTypeIsNull(type) &&
           nabla_call_rule_gives(&rule, (size_t)i, "result", type, false) &&
           nabla_batch_give(s, op, i, out[i]);
  }
  return good;
}

bool nabla_batch_custom_call(nabla_batching *s, MlirOperation op) {
  MlirAttribute how =
      mlirOperationGetAttributeByName(op, nabla_ref(NABLA_CALL_BATCH));
  const nabla_call_rules *rules = nabla_call_rules_find(op);
  MlirStringRef word = nabla_ref("scan");
  if (!mlirAttributeIsNull(how))
    word = mlirAttributeIsAString(how) ? mlirStringAttrGetValue(how)
                                       : nabla_ref("");
  else if (rules && rules->batch)
    return by_rule(s, op, rules);
  else if (rules && rules->batch_word)
    word = nabla_ref(rules->batch_word);
  if (nabla_text_equals(word, "scan")) return nabla_batch_each(s, op);
  if (nabla_text_equals(word, "expand")) return call_once(s, op, false);
  if (nabla_text_equals(word, "broadcast")) return call_once(s, op, true);
  nabla_error_at(op,
                 "nabla-vmap: nabla.batch is \"scan\" (one example after the "
                 "other, the default), \"expand\" (called once, with size 1 "
                 "where an array has no batch) or \"broadcast\" (repeated "
                 "there)");
  return false;
}
