/* The order of reads and writes of a state or of a donated argument. Each value
 * that it has in a function is replaced by the next one where an operation
 * writes in place: in between it may be read, later it may not, since its
 * memory holds the next value then. */
#include <mlir-c/BuiltinAttributes.h>

#include "transforms/state/state.h"

#define DEPTH_MAX 32 /* of calls and of regions that a state passes through */

/* Operations that write a part of one operand. */
static const struct {
  const char *name;
  intptr_t operand;
} writers[] = {
    {"nabla.dynamic_update_slice", 0},
    {"nabla.scatter", 0},
    {"tensor.insert_slice", 1},
    {"tensor.insert", 1},
};

static MlirBlock body_of(MlirOperation op) {
  MlirRegion region = mlirOperationGetRegion(op, 0);
  return mlirRegionIsNull(region) ? (MlirBlock){NULL}
                                  : mlirRegionGetFirstBlock(region);
}

/* The function that is called; null where it has no body. */
static MlirOperation callee_of(MlirOperation module, MlirOperation call) {
  MlirSymbolTable symbols = mlirSymbolTableCreate(module);
  MlirOperation callee = mlirSymbolTableLookup(
      symbols, mlirFlatSymbolRefAttrGetValue(
                   mlirOperationGetAttributeByName(call, nabla_ref("callee"))));
  mlirSymbolTableDestroy(symbols);
  if (mlirOperationIsNull(callee) || mlirBlockIsNull(body_of(callee)))
    return (MlirOperation){NULL};
  return callee;
}

static bool trace(MlirOperation module, MlirValue value, MlirBlock block,
                  int depth, intptr_t *out);

/* The operand of a call whose memory its result `index` is in, or -1. */
static intptr_t passed_on(MlirOperation module, MlirOperation call,
                          intptr_t index, int depth) {
  MlirOperation callee = callee_of(module, call);
  intptr_t argument = -1;
  if (mlirOperationIsNull(callee)) return -1;
  MlirBlock body = body_of(callee);
  MlirOperation end = mlirBlockGetTerminator(body);
  if (mlirOperationIsNull(end) || !nabla_is(end, "func.return")) return -1;
  return trace(module, mlirOperationGetOperand(end, index), body, depth + 1,
               &argument)
             ? argument
             : -1;
}

/* The operand that `op` writes to where its result `index` is the written
 * array; -1 where that is a new one. */
static intptr_t written_operand(MlirOperation module, MlirOperation op,
                                intptr_t index, int depth) {
  for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
    if (nabla_is(op, writers[i].name)) return writers[i].operand;
  if (depth >= DEPTH_MAX) return -1;
  if (nabla_is(op, "func.call")) return passed_on(module, op, index, depth);
  if (nabla_is(op, "nabla.scan") || nabla_is(op, "nabla.while")) {
    MlirType type = nabla_result_type(op, index);
    if (index < mlirOperationGetNumOperands(op) &&
        mlirTypeEqual(nabla_operand_type(op, index), type))
      return index;
  }
  return -1;
}

/* Follows writes back from `value`; `out` is the argument of `block` at which
 * they begin. */
static bool trace(MlirOperation module, MlirValue value, MlirBlock block,
                  int depth, intptr_t *out) {
  while (!mlirValueIsABlockArgument(value)) {
    MlirOperation op = nabla_defining_op(value);
    const intptr_t operand =
        written_operand(module, op, mlirOpResultGetResultNumber(value), depth);
    if (operand < 0) return false;
    value = mlirOperationGetOperand(op, operand);
  }
  *out = mlirBlockArgumentGetArgNumber(value);
  return mlirBlockEqual(mlirBlockArgumentGetOwner(value), block);
}

/* The operation of `block` that `op` is, or is inside of; null if it is
 * elsewhere. */
static MlirOperation in_block(MlirOperation op, MlirBlock block) {
  while (!mlirOperationIsNull(op) &&
         !mlirBlockEqual(mlirOperationGetBlock(op), block))
    op = mlirOperationGetParentOperation(op);
  return op;
}

static void add_place(MlirStringRef part, void *text) {
  nabla_text_add(text, "%.*s", (int)part.length, part.data);
}

/* An array in errors: "the state", "the donated argument", and its name. */
typedef struct subject {
  const char *noun;
  MlirStringRef name;
} subject;

#define STATE_NOUN "state"

static int shown(MlirStringRef name) {
  return name.length < 100 ? (int)name.length : 100;
}

static bool report(MlirOperation reader, MlirOperation writer,
                   const subject *of) {
  nabla_text place = {0};
  mlirLocationPrint(mlirOperationGetLocation(writer), add_place, &place);
  nabla_error_at(reader,
                 "reads the %s '%.*s' after it was written at %.200s: read "
                 "it before, or read the new value",
                 of->noun, shown(of->name), of->name.data,
                 place.data ? place.data : "");
  nabla_text_deinit(&place);
  return false;
}

/* Nothing behind `writer` uses `value`, which it overwrites. */
static bool check_uses(MlirValue value, MlirOperation writer,
                       const subject *of) {
  MlirBlock block = mlirOperationGetBlock(writer);
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation reader = mlirOpOperandGetOwner(use);
    MlirOperation at = in_block(reader, block);
    if (!mlirOperationIsNull(at) && !mlirOperationEqual(at, writer) &&
        mlirOperationIsBeforeInBlock(writer, at))
      return report(reader, writer, of);
  }
  return true;
}

/* Only the state's own result and those before the end use the argument. */
static bool check_end(MlirOperation end, MlirValue argument, intptr_t index,
                      const subject *of) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++)
    if (i != index && mlirValueEqual(mlirOperationGetOperand(end, i), argument))
      return report(end, end, of);
  return true;
}

bool nabla_state_check_order(MlirOperation module, MlirOperation function,
                             intptr_t index) {
  MlirBlock body = body_of(function);
  const subject of = {STATE_NOUN,
                      nabla_state_name(function, NABLA_RESULTS, index)};
  if (mlirBlockIsNull(body)) return true;
  MlirOperation end = mlirBlockGetTerminator(body);
  if (!nabla_is(end, "func.return") ||
      !mlirBlockIsNull(mlirBlockGetNextInRegion(body))) {
    nabla_error_at(function,
                   "has states and more than one block: write its "
                   "control flow as nabla.cond, while or scan");
    return false;
  }
  const intptr_t argument = nabla_state_argument(function, of.name);
  MlirValue first = mlirBlockGetArgument(body, argument);
  MlirValue value = mlirOperationGetOperand(end, index);
  intptr_t begin = -1;
  if (mlirValueEqual(value, first)) return true;
  if (!trace(module, value, body, 0, &begin))
    return check_end(end, first, index, &of);
  if (begin != argument) {
    nabla_error_at(end,
                   "writes to another array than the state '%.*s' and "
                   "gives it as that state: begin with the state's own "
                   "argument",
                   shown(of.name), of.name.data);
    return false;
  }
  while (!mlirValueIsABlockArgument(value)) {
    MlirOperation writer = nabla_defining_op(value);
    value = mlirOperationGetOperand(
        writer,
        written_operand(module, writer, mlirOpResultGetResultNumber(value), 0));
    if (!check_uses(value, writer, &of)) return false;
  }
  return true;
}

/* ---- donated arguments ---- */

/* The result of `op` that is in the memory of operand `operand`, which it
 * writes to; -1 if there is none. */
static intptr_t written_result(MlirOperation module, MlirOperation op,
                               intptr_t operand) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (written_operand(module, op, i, 0) == operand) return i;
  return -1;
}

/* The first operation of `block` that writes to `value`, and the value that
 * replaces it; null where there is none. */
static MlirOperation first_writer(MlirOperation module, MlirBlock block,
                                  MlirValue value, MlirValue *out) {
  MlirOperation first = {NULL};
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    if (!mlirBlockEqual(mlirOperationGetBlock(op), block)) continue;
    const intptr_t result =
        written_result(module, op, mlirOpOperandGetOperandNumber(use));
    if (result < 0 || (!mlirOperationIsNull(first) &&
                       mlirOperationIsBeforeInBlock(first, op)))
      continue;
    first = op;
    *out = mlirOperationGetResult(op, result);
  }
  return first;
}

/* The return gives `value` at most once. */
static bool check_once(MlirOperation end, MlirValue value, const subject *of) {
  intptr_t first = -1;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
    if (!mlirValueEqual(mlirOperationGetOperand(end, i), value)) continue;
    if (first < 0) {
      first = i;
      continue;
    }
    nabla_error_at(end,
                   "gives the %s '%.*s' as result #%d and as result #%d: both "
                   "would be in its memory; give it once",
                   of->noun, shown(of->name), of->name.data, (int)first,
                   (int)i);
    return false;
  }
  return true;
}

bool nabla_donated_check_order(MlirOperation module, MlirOperation function,
                               intptr_t index) {
  char fallback[32];
  const subject of = {"donated argument",
                      nabla_argument_name(function, index, fallback)};
  MlirBlock body = body_of(function);
  MlirOperation end = mlirBlockGetTerminator(body);
  MlirValue value = mlirBlockGetArgument(body, index), next = value;
  for (;;) {
    if (!check_once(end, value, &of)) return false;
    MlirOperation writer = first_writer(module, body, value, &next);
    if (mlirOperationIsNull(writer)) return true;
    if (!check_uses(value, writer, &of)) return false;
    value = next;
  }
}
