/* See outline_find.h. */
#include "transforms/outline/outline_find.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdint.h>
#include <stdlib.h>

#include "transforms/abi/argument_table.h"
#include "transforms/state/state.h"

/* Limit on the comparisons of a search: their number is operations times
 * lengths, so that in a block of more than 16,384 operations only shorter
 * repeats are found. */
#define MAX_WORK ((size_t)1 << 27)

typedef struct nabla_place {
  const void *op;
  size_t index;
} nabla_place;

/* ---- keys ---- */

static MlirAttribute attributes_of(MlirOperation op) {
  MlirNamedAttribute list[32];
  intptr_t count = mlirOperationGetNumAttributes(op);
  if (count > 32) return mlirAttributeGetNull();
  for (intptr_t i = 0; i < count; i++)
    list[i] = mlirOperationGetAttribute(op, i);
  return mlirDictionaryAttrGet(nabla_op_context(op), count, list);
}

static MlirAttribute signature_of(MlirOperation op) {
  MlirType operands[64], results[64];
  intptr_t in = mlirOperationGetNumOperands(op);
  intptr_t out = mlirOperationGetNumResults(op);
  if (in > 64 || out > 64) return mlirAttributeGetNull();
  for (intptr_t i = 0; i < in; i++) operands[i] = nabla_operand_type(op, i);
  for (intptr_t i = 0; i < out; i++) results[i] = nabla_result_type(op, i);
  return mlirTypeAttrGet(
      mlirFunctionTypeGet(nabla_op_context(op), in, operands, out, results));
}

/* Whether an op waits for an exchange, in the memory that was given to its
 * start: a function would take a copy. */
static bool is_wait(MlirOperation op) {
  if (!nabla_is(op, "nabla.custom_call")) return false;
  const MlirAttribute target =
      mlirOperationGetAttributeByName(op, nabla_ref("target"));
  return mlirAttributeIsAString(target) &&
         mlirStringRefEqual(mlirStringAttrGetValue(target),
                            nabla_ref("nabla.wait"));
}

/* Returns the key of an op; ops with regions or successors, and waits, have
 * none. Attributes are unique in MLIR, so that equal keys are one pointer. */
static MlirAttribute key_of(MlirOperation op) {
  if (mlirOperationGetNumRegions(op) || mlirOperationGetNumSuccessors(op) ||
      is_wait(op))
    return mlirAttributeGetNull();
  MlirAttribute parts[3] = {
      mlirStringAttrGet(nabla_op_context(op), nabla_name(op)),
      attributes_of(op), signature_of(op)};
  if (mlirAttributeIsNull(parts[1]) || mlirAttributeIsNull(parts[2]))
    return mlirAttributeGetNull();
  return mlirArrayAttrGet(nabla_op_context(op), 3, parts);
}

/* ---- the sequence ---- */

static int by_op(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)((const nabla_place *)a)->op;
  uintptr_t y = (uintptr_t)((const nabla_place *)b)->op;
  return (x > y) - (x < y);
}

bool nabla_sequence_init(nabla_sequence *s, MlirBlock block) {
  *s = (nabla_sequence){0};
  MlirOperation end = mlirBlockGetTerminator(block);
  size_t count = 0;
  for (MlirOperation op = mlirBlockGetFirstOperation(block);
       !mlirOperationIsNull(op) && !mlirOperationEqual(op, end);
       op = mlirOperationGetNextInBlock(op))
    count++;
  s->ops = calloc(count + 1, sizeof *s->ops);
  s->keys = calloc(count + 1, sizeof *s->keys);
  s->places = calloc(count + 1, sizeof *s->places);
  if (!s->ops || !s->keys || !s->places) return false;
  MlirOperation op = mlirBlockGetFirstOperation(block);
  for (; s->count < count; op = mlirOperationGetNextInBlock(op)) {
    s->places[s->count] = (nabla_place){op.ptr, s->count};
    s->keys[s->count] = key_of(op);
    s->ops[s->count++] = op;
  }
  qsort(s->places, count, sizeof *s->places, by_op);
  return true;
}

void nabla_sequence_deinit(nabla_sequence *s) {
  free(s->ops);
  free(s->keys);
  free(s->places);
  *s = (nabla_sequence){0};
}

size_t nabla_sequence_find(const nabla_sequence *s, MlirOperation op) {
  for (; !mlirOperationIsNull(op) && s->count;
       op = mlirOperationGetParentOperation(op)) {
    nabla_place wanted = {op.ptr, 0};
    const nabla_place *found =
        bsearch(&wanted, s->places, s->count, sizeof wanted, by_op);
    if (found) return found->index;
  }
  return SIZE_MAX;
}

size_t nabla_sequence_definition(const nabla_sequence *s, MlirValue value) {
  MlirOperation op = nabla_defining_op(value);
  return mlirOperationIsNull(op) ? SIZE_MAX : nabla_sequence_find(s, op);
}

/* ---- repeats ---- */

static bool same(const nabla_sequence *s, size_t a, size_t b) {
  return !mlirAttributeIsNull(s->keys[a]) && s->keys[a].ptr == s->keys[b].ptr;
}

/* Returns whether an op takes a part of a dense array. A call would copy that
 * array, perhaps a weight of gigabytes. */
static bool is_part(MlirOperation op) {
  return nabla_is(op, "nabla.slice") || nabla_is(op, "nabla.split") ||
         nabla_is(op, "nabla.dynamic_slice") ||
         nabla_is(op, "tensor.extract_slice");
}

/* Returns whether the operands of ops a and b, in two copies, come from the
 * same place in their copies, or from outside. */
static bool flows_alike(const nabla_sequence *s, const nabla_repeat *r,
                        size_t copy, size_t op) {
  size_t first = r->begin, other = r->begin + copy * r->length;
  MlirOperation a = s->ops[first + op], b = s->ops[other + op];
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(a); i++) {
    MlirValue x = mlirOperationGetOperand(a, i);
    MlirValue y = mlirOperationGetOperand(b, i);
    size_t from = nabla_sequence_definition(s, x);
    size_t to = nabla_sequence_definition(s, y);
    bool inside = from != SIZE_MAX && from >= first && from - first < r->length;
    bool too = to != SIZE_MAX && to >= other && to - other < r->length;
    if (inside != too) return false;
    if (inside &&
        (from - first != to - other ||
         mlirOpResultGetResultNumber(x) != mlirOpResultGetResultNumber(y)))
      return false;
    if (!inside && ((from != SIZE_MAX && is_part(s->ops[from])) ||
                    (to != SIZE_MAX && is_part(s->ops[to]))))
      return false;
  }
  return true;
}

/* Removes copies from the first one on whose data flow is different. */
static void check_flow(const nabla_sequence *s, nabla_repeat *r) {
  for (size_t copy = 0; copy < r->copies; copy++)
    for (size_t op = 0; op < r->length; op++)
      if (!flows_alike(s, r, copy, op)) {
        r->copies = copy;
        return;
      }
}

/* Whether a value is an argument that is written in place. */
static bool is_state(MlirValue value) {
  if (!mlirValueIsABlockArgument(value)) return false;
  MlirOperation function =
      mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(value));
  const intptr_t index = mlirBlockArgumentGetArgNumber(value);
  return nabla_is(function, "func.func") &&
         (nabla_state_name(function, NABLA_ARGUMENTS, index).data ||
          nabla_donated_is(function, index));
}

/* Whether a function of a copy may be made: one of calls alone, such as eight
 * of 32 layers, may take so many values that they need a table, through which
 * states cannot be written, or return so many that LLVM's schedulers take
 * longer for the unpacking of them than for the calls. */
static bool is_possible(const nabla_sequence *s, const nabla_repeat *r) {
  intptr_t taken = 0, given = 0;
  bool has_state = false;
  for (size_t at = r->begin; at < r->begin + r->length; at++) {
    MlirOperation op = s->ops[at];
    if (!nabla_is(op, "func.call")) return true;
    given += mlirOperationGetNumResults(op);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
      const MlirValue operand = mlirOperationGetOperand(op, i);
      const size_t from = nabla_sequence_definition(s, operand);
      taken += from == SIZE_MAX || from < r->begin;
      has_state = has_state || is_state(operand);
    }
  }
  return given <= NABLA_TENSOR_ARGUMENTS_MAX &&
         (!has_state || taken <= NABLA_TENSOR_ARGUMENTS_MAX);
}

static size_t spared(const nabla_repeat *r) {
  return r->copies ? (r->copies - 1) * r->length : 0;
}

bool nabla_repeat_find(const nabla_sequence *s, size_t least, size_t copies,
                       nabla_repeat *out) {
  *out = (nabla_repeat){0, 0, 0};
  const size_t longest = MAX_WORK / (s->count + 1);
  for (size_t length = least; length * copies <= s->count && length <= longest;
       length++) {
    size_t run = 0; /* number of ops that equal the op `length` later */
    for (size_t i = 0; i + length <= s->count; i++) {
      bool more = i + length < s->count && same(s, i, i + length);
      if (more) {
        run++;
        continue;
      }
      nabla_repeat r = {i - run, length, run / length + 1};
      run = 0;
      if (r.copies < copies || spared(&r) <= spared(out) || !is_possible(s, &r))
        continue;
      check_flow(s, &r);
      if (r.copies >= copies && spared(&r) > spared(out)) *out = r;
    }
  }
  return out->copies > 0;
}
