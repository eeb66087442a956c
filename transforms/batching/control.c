/* Batches of cond and scan; that of while is in control_while.c. */
#include "dialect/control.h"

#include <assert.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/batching/control_while.h"
#include "transforms/batching/regions.h"

enum { MAX = NABLA_MAX_OPERANDS };

static bool fits(MlirOperation op, intptr_t count) {
  if (count <= MAX) return true;
  nabla_error_at(op, "nabla-vmap: has more than %d values", MAX);
  return false;
}

MlirType nabla_batch_as_type(const nabla_batching *s, MlirType type,
                             bool batched) {
  return batched ? nabla_batch_type(s, type) : type;
}

bool nabla_batch_region(nabla_batching *s, MlirBlock from, MlirBlock to,
                        const bool *batched) {
  bool good = true;
  for (intptr_t i = 0; good && i < mlirBlockGetNumArguments(from); i++)
    good = nabla_batch_set(
        s, mlirBlockGetArgument(from, i),
        (nabla_batched){mlirBlockGetArgument(to, i), batched && batched[i]});
  return good && nabla_batch_block(s, from);
}

/* ---- cond ---- */

/* Results that a branch of the cond yields batched. */
static void cond_flow(const nabla_batching *s, MlirOperation op, bool *out) {
  bool one[MAX];
  intptr_t count = mlirOperationGetNumResults(op);
  for (intptr_t i = 0; i < count; i++) out[i] = false;
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
    nabla_batch_flow(s, nabla_region_block(op, r), NULL, one);
    for (intptr_t i = 0; i < count; i++) out[i] = out[i] || one[i];
  }
}

/* All examples take the same branch; also nabla.remat. */
static bool cond_of_all(nabla_batching *s, MlirOperation op) {
  bool batched[MAX];
  MlirType types[MAX];
  MlirValue values[MAX], selector = {NULL};
  const intptr_t operands = mlirOperationGetNumOperands(op);
  intptr_t none[NABLA_BATCH_MAX_REGIONS] = {0};
  intptr_t count = mlirOperationGetNumResults(op);
  intptr_t regions = mlirOperationGetNumRegions(op);
  if (operands) selector = nabla_batch_operand(s, op, 0);
  cond_flow(s, op, batched);
  for (intptr_t i = 0; i < count; i++)
    types[i] = nabla_batch_as_type(s, nabla_result_type(op, i), batched[i]);
  nabla_batch_copy copy = {.op = op,
                           .operand_count = operands,
                           .operands = &selector,
                           .result_count = count,
                           .results = types};
  MlirOperation made = nabla_batch_open(
      s, operands ? "nabla.cond" : "nabla.remat", &copy, regions, none, NULL);
  bool good = !mlirOperationIsNull(made);
  for (intptr_t r = 0; good && r < regions; r++) {
    MlirBlock from = nabla_region_block(op, r);
    nabla_batch_place place = nabla_batch_begin(s, made, r);
    good = nabla_batch_region(s, from, nabla_region_block(made, r), NULL);
    MlirOperation end = nabla_block_end(from);
    for (intptr_t i = 0; good && i < count; i++)
      values[i] =
          nabla_batch_as(s, mlirOperationGetOperand(end, i), batched[i]);
    good = nabla_batch_end(s, place, "nabla.yield", good ? count : 0, values) &&
           good;
  }
  for (intptr_t i = 0; good && i < count; i++)
    good = nabla_batch_set(
        s, mlirOperationGetResult(op, i),
        (nabla_batched){mlirOperationGetResult(made, i), batched[i]});
  return good;
}

MlirValue nabla_batch_choose(const nabla_batching *s, MlirValue condition,
                             MlirValue yes, MlirValue no) {
  const int64_t first = 0;
  if (mlirValueIsNull(yes) || mlirValueIsNull(no)) return yes;
  nabla_built_shape shape = nabla_build_shape_of(&s->b, yes);
  condition = nabla_build_broadcast(&s->b, condition, &first, &shape);
  return nabla_build_select(&s->b, condition, yes, no);
}

/* Which examples take branch `branch`, of which there are `count`: the last
 * one is for all other numbers. */
static MlirValue takes(const nabla_batching *s, MlirOperation op,
                       intptr_t branch) {
  enum { EQUAL = 0 };
  MlirValue selector = nabla_batch_operand(s, op, 0);
  MlirType element = nabla_array_element(mlirValueGetType(selector));
  if (mlirIntegerTypeGetWidth(element) == 1) return selector;
  nabla_built_shape shape = nabla_build_shape_of(&s->b, selector);
  return nabla_build_compare(
      &s->b, EQUAL, selector,
      nabla_build_full_integer(&s->b, branch, &shape, element));
}

/* Each example takes its own branch: all are run, and select chooses. */
static bool cond_by_select(nabla_batching *s, MlirOperation op) {
  MlirValue chosen[MAX];
  intptr_t count = mlirOperationGetNumResults(op);
  bool good = true;
  for (intptr_t r = mlirOperationGetNumRegions(op); good && r-- > 0;) {
    MlirBlock from = nabla_region_block(op, r);
    bool last = r + 1 == mlirOperationGetNumRegions(op);
    good = nabla_batch_block(s, from);
    MlirOperation end = nabla_block_end(from);
    for (intptr_t i = 0; good && i < count; i++) {
      MlirValue value =
          nabla_batch_as(s, mlirOperationGetOperand(end, i), true);
      chosen[i] =
          last ? value
               : nabla_batch_choose(s, takes(s, op, r), value, chosen[i]);
      good = !mlirValueIsNull(chosen[i]);
    }
  }
  for (intptr_t i = 0; good && i < count; i++)
    good = nabla_batch_give(s, op, i, chosen[i]);
  return good;
}

static bool batch_cond(nabla_batching *s, MlirOperation op) {
  MlirOperation culprit;
  if (!nabla_batch_is(s, mlirOperationGetOperand(op, 0)))
    return cond_of_all(s, op);
  nabla_batch_harm harm = nabla_batch_harm_of(s, op, &culprit);
  if (harm == NABLA_BATCH_CAN_FAIL) return nabla_batch_each(s, op);
  if (harm == NABLA_BATCH_HARMLESS) return cond_by_select(s, op);
  nabla_error_at(culprit,
                 "nabla-vmap: has effects, and stands in a cond whose choice "
                 "differs by example: all branches would be run");
  return false;
}

/* ---- scan ---- */

/* What is batched: carries of which one step makes a batch are from the
 * beginning on. */
typedef struct scan_batch {
  nabla_scan_parts scan;
  MlirBlock body;
  bool arguments[2 * MAX], results[2 * MAX]; /* of the body */
} scan_batch;

static void scan_flow(const nabla_batching *s, scan_batch *b) {
  const nabla_scan_parts *scan = &b->scan;
  for (intptr_t i = 0; i < scan->carries + scan->inputs; i++)
    b->arguments[i] = nabla_batch_is(s, mlirOperationGetOperand(scan->op, i));
  for (bool changes = true; changes;) {
    changes = false;
    nabla_batch_flow(s, b->body, b->arguments, b->results);
    for (intptr_t i = 0; i < scan->carries; i++) {
      changes = changes || (b->results[i] && !b->arguments[i]);
      b->arguments[i] = b->arguments[i] || b->results[i];
    }
  }
  for (intptr_t i = 0; i < scan->carries; i++) b->results[i] = b->arguments[i];
}

/* The input with its steps in front, the batch behind. */
static MlirValue scan_input(const nabla_batching *s, const scan_batch *b,
                            intptr_t index) {
  assert(index >= 0);
  MlirValue source = mlirOperationGetOperand(b->scan.op, index);
  if (b->arguments[index])
    return nabla_batch_move(s, nabla_batch_dense(s, source), 1, 0);
  return nabla_batch_get(s, source).value;
}

/* Appends the sizes of `?` in the slices of stacked outputs. */
static intptr_t scan_sizes(const nabla_batching *s, const scan_batch *b,
                           MlirValue *out) {
  const nabla_scan_parts *scan = &b->scan;
  intptr_t next = scan->carries + scan->inputs + scan->lengths, count = 0;
  for (intptr_t i = scan->carries; i < scan->carries + scan->outputs; i++) {
    MlirType type = nabla_result_type(scan->op, i);
    if (b->results[i] && nabla_is_dynamic(s->size)) out[count++] = s->count;
    for (intptr_t d = 1; d < nabla_array_rank(type); d++)
      if (nabla_is_dynamic(nabla_array_dim(type, d)))
        out[count++] = nabla_batch_operand(s, scan->op, next++);
  }
  return count;
}

/* The types of the results: a stacked batch has the steps in front. */
static MlirType scan_result(const nabla_batching *s, const scan_batch *b,
                            intptr_t index) {
  int64_t dims[NABLA_MAX_RANK + 1];
  MlirType type = nabla_result_type(b->scan.op, index);
  MlirType whole = nabla_batch_as_type(s, type, b->results[index]);
  if (index < b->scan.carries || !b->results[index] || mlirTypeIsNull(whole))
    return whole;
  for (intptr_t i = 0; i < nabla_array_rank(whole); i++)
    dims[i] = nabla_array_dim(whole, i);
  dims[1] = dims[0];
  dims[0] = nabla_array_dim(type, 0);
  return mlirRankedTensorTypeGet(nabla_array_rank(whole), dims,
                                 nabla_array_element(whole),
                                 mlirAttributeGetNull());
}

static bool write_scan(nabla_batching *s, const scan_batch *b,
                       MlirOperation made) {
  MlirValue values[2 * MAX];
  nabla_batch_place place = nabla_batch_begin(s, made, 0);
  bool good =
      nabla_batch_region(s, b->body, nabla_region_block(made, 0), b->arguments);
  MlirOperation end = nabla_block_end(b->body);
  intptr_t count = mlirOperationGetNumOperands(end);
  for (intptr_t i = 0; good && i < count; i++)
    values[i] =
        nabla_batch_as(s, mlirOperationGetOperand(end, i), b->results[i]);
  return nabla_batch_end(s, place, "nabla.yield", good ? count : 0, values) &&
         good;
}

static bool give_scan(nabla_batching *s, const scan_batch *b,
                      MlirOperation made) {
  bool good = true;
  for (intptr_t i = 0; good && i < mlirOperationGetNumResults(made); i++) {
    MlirValue value = mlirOperationGetResult(made, i);
    if (i >= b->scan.carries && b->results[i])
      value = nabla_batch_move(s, value, 1, 0);
    good = nabla_batch_set(s, mlirOperationGetResult(b->scan.op, i),
                           (nabla_batched){value, b->results[i]});
  }
  return good;
}

static bool make_scan(nabla_batching *s, scan_batch *b) {
  const nabla_scan_parts *scan = &b->scan;
  MlirValue operands[4 * MAX];
  MlirType arguments[2 * MAX], results[2 * MAX];
  intptr_t count = 0, inner = scan->carries + scan->inputs;
  for (intptr_t i = 0; i < scan->carries; i++)
    operands[count++] = nabla_batch_as(s, mlirOperationGetOperand(scan->op, i),
                                       b->arguments[i]);
  for (intptr_t i = scan->carries; i < inner; i++)
    operands[count++] = scan_input(s, b, i);
  for (intptr_t i = 0; i < scan->lengths; i++)
    operands[count++] = nabla_batch_operand(s, scan->op, inner + i);
  for (intptr_t i = 0; i < inner; i++)
    arguments[i] = nabla_batch_as_type(
        s, mlirValueGetType(mlirBlockGetArgument(b->body, i)), b->arguments[i]);
  intptr_t sizes = scan_sizes(s, b, operands + count);
  for (intptr_t i = 0; i < scan->carries + scan->outputs; i++)
    results[i] = scan_result(s, b, i);
  MlirContext context = nabla_op_context(scan->op);
  const int32_t groups[] = {(int32_t)scan->carries, (int32_t)scan->inputs,
                            (int32_t)scan->lengths, (int32_t)sizes};
  MlirNamedAttribute list[] = {
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, 4, groups)),
      nabla_named(context, "reverse", mlirUnitAttrGet(context))};
  nabla_batch_copy copy = {.op = scan->op,
                           .operand_count = count + sizes,
                           .operands = operands,
                           .result_count = scan->carries + scan->outputs,
                           .results = results,
                           .change_count = scan->reverse ? 2 : 1,
                           .changes = list};
  MlirOperation made =
      nabla_batch_open(s, "nabla.scan", &copy, 1, &inner, arguments);
  return !mlirOperationIsNull(made) && write_scan(s, b, made) &&
         give_scan(s, b, made);
}

static bool batch_scan(nabla_batching *s, MlirOperation op) {
  scan_batch b = {.scan = nabla_scan_read(op),
                  .body = nabla_region_block(op, 0)};
  scan_flow(s, &b);
  return make_scan(s, &b);
}

bool nabla_batch_control(nabla_batching *s, MlirOperation op) {
  if (!fits(op, mlirOperationGetNumOperands(op)) ||
      !fits(op, mlirOperationGetNumResults(op)) ||
      !fits(op, mlirOperationGetNumRegions(op)))
    return false;
  if (nabla_is(op, "nabla.cond")) return batch_cond(s, op);
  if (nabla_is(op, "nabla.scan")) return batch_scan(s, op);
  if (nabla_is(op, "nabla.remat")) return cond_of_all(s, op);
  return nabla_batch_while(s, op);
}
