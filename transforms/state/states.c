/* nabla-states: lets bufferization write to states in place. Arguments that are
 * states become writable, as do arguments of private functions that states are
 * passed to, and the value that replaces a state is stored to the state's
 * memory before the return: no copy is left where it is there already. An old
 * value that something reads behind the first write, as simplification may
 * leave it, is copied at the function's start. Donated arguments become
 * writable, too, but nothing is stored to them. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "transforms/passes.h"
#include "transforms/state/in_place.h"
#include "transforms/state/state.h"

static MlirBlock body_of(MlirOperation op) {
  MlirRegion region = mlirOperationGetRegion(op, 0);
  return mlirRegionIsNull(region) ? (MlirBlock){NULL}
                                  : mlirRegionGetFirstBlock(region);
}

/* ---- where states go ---- */

/* Values that are a state or may be one that was written in place. */
typedef struct values {
  MlirValue *items;
  size_t count, room;
  bool failed;
} values;

static void add(values *all, MlirValue value) {
  for (size_t i = 0; i < all->count; i++)
    if (mlirValueEqual(all->items[i], value)) return;
  if (all->count == all->room) {
    const size_t room = all->room ? 2 * all->room : 64;
    MlirValue *grown = realloc(all->items, room * sizeof *grown);
    all->failed = all->failed || !grown;
    if (!grown) return;
    all->items = grown;
    all->room = room;
  }
  all->items[all->count++] = value;
}

/* What a walk over the uses of states needs. */
typedef struct walk {
  MlirSymbolTable symbols;
  nabla_op_list calls;
  values all;
} walk;

/* The argument of the callee that an operand of a call becomes. */
static void add_argument(walk *w, MlirOperation call, intptr_t operand) {
  MlirOperation callee = mlirSymbolTableLookup(
      w->symbols, mlirFlatSymbolRefAttrGetValue(mlirOperationGetAttributeByName(
                      call, nabla_ref("callee"))));
  if (mlirOperationIsNull(callee) || !nabla_is(callee, "func.func")) return;
  MlirBlock body = body_of(callee);
  if (!mlirBlockIsNull(body)) add(&w->all, mlirBlockGetArgument(body, operand));
}

/* The results of all calls of the function that returns operand `index`. */
static void add_returned(walk *w, MlirOperation end, intptr_t index) {
  MlirAttribute name = mlirOperationGetAttributeByName(
      mlirOperationGetParentOperation(end), nabla_ref("sym_name"));
  for (size_t i = 0; i < w->calls.count; i++)
    if (nabla_state_same(
            mlirFlatSymbolRefAttrGetValue(mlirOperationGetAttributeByName(
                w->calls.ops[i], nabla_ref("callee"))),
            mlirStringAttrGetValue(name)))
      add(&w->all, mlirOperationGetResult(w->calls.ops[i], index));
}

/* What a loop carries: its argument and its result. */
static void add_carried(walk *w, MlirOperation loop, intptr_t index) {
  if (index < 0 || index >= mlirOperationGetNumResults(loop)) return;
  add(&w->all, mlirOperationGetResult(loop, index));
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(loop); r++) {
    MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(loop, r));
    const intptr_t first = nabla_is(loop, "scf.for") ? 1 : 0;
    if (!mlirBlockIsNull(block) &&
        first + index < mlirBlockGetNumArguments(block))
      add(&w->all, mlirBlockGetArgument(block, first + index));
  }
}

static void follow_use(walk *w, MlirOperation op, intptr_t operand) {
  if (nabla_is(op, "func.call"))
    add_argument(w, op, operand);
  else if (nabla_is(op, "func.return"))
    add_returned(w, op, operand);
  else if (nabla_is(op, "scf.for"))
    add_carried(w, op, operand - 3);
  else if (nabla_is(op, "scf.while"))
    add_carried(w, op, operand);
  else if (nabla_is(op, "scf.yield"))
    add_carried(w, mlirOperationGetParentOperation(op), operand);
  else if (nabla_is(op, "tensor.insert_slice") && operand == 1)
    add(&w->all, mlirOperationGetResult(op, 0));
  else if (nabla_is(op, "bufferization.materialize_in_destination") &&
           operand == 1)
    add(&w->all, mlirOperationGetResult(op, 0));
}

static void follow(walk *w) {
  for (size_t i = 0; i < w->all.count && !w->all.failed; i++)
    for (MlirOpOperand use = mlirValueGetFirstUse(w->all.items[i]);
         !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
      follow_use(w, mlirOpOperandGetOwner(use),
                 mlirOpOperandGetOperandNumber(use));
}

/* ---- writable arguments ---- */

static void allow(MlirOperation function, intptr_t index) {
  const intptr_t count = mlirBlockGetNumArguments(body_of(function));
  MlirAttribute *entries = calloc((size_t)count + 1, sizeof *entries);
  if (!entries) return;
  entries[index] = mlirBoolAttrGet(nabla_op_context(function), 1);
  nabla_arguments_set(function, "bufferization.writable", entries);
  free(entries);
}

/* Makes the arguments of functions among the values writable. */
static void allow_all(const values *all) {
  for (size_t i = 0; i < all->count; i++) {
    MlirValue value = all->items[i];
    if (!mlirValueIsABlockArgument(value)) continue;
    MlirOperation owner =
        mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(value));
    if (nabla_is(owner, "func.func"))
      allow(owner, mlirBlockArgumentGetArgNumber(value));
  }
}

/* ---- old values ---- */

/* Whether a use of a state in `body` is behind `writer`, an operation of
 * `body`. */
static bool is_behind(MlirOpOperand use, MlirBlock body, MlirOperation writer) {
  MlirOperation op = mlirOpOperandGetOwner(use);
  while (!mlirOperationIsNull(op) &&
         !mlirBlockEqual(mlirOperationGetBlock(op), body))
    op = mlirOperationGetParentOperation(op);
  return !mlirOperationIsNull(op) && !mlirOperationEqual(op, writer) &&
         mlirOperationIsBeforeInBlock(writer, op);
}

static bool find_behind(MlirValue state, MlirBlock body, MlirOperation writer,
                        MlirOpOperand *out) {
  for (*out = mlirValueGetFirstUse(state); !mlirOpOperandIsNull(*out);
       *out = mlirOpOperandGetNextUse(*out))
    if (is_behind(*out, body, writer)) return true;
  return false;
}

/* The value of `state` in memory of its own: a loop, since nabla-state-results
 * refuses copies that bufferization inserts. */
static MlirValue copy_of(MlirValue state, MlirBlock body) {
  const MlirType type = mlirValueGetType(state);
  const nabla_op_spec spec = {"tensor.empty", 0, NULL, 1, &type, 0, NULL};
  MlirOperation empty =
      nabla_op_create(mlirBlockGetFirstOperation(body), &spec);
  MlirValue operands[2] = {state, mlirOperationGetResult(empty, 0)};
  const nabla_op_spec cast = {"tensor.cast", 1, operands, 1, &type, 0, NULL};
  MlirOperation place =
      nabla_op_create(mlirOperationGetNextInBlock(empty), &cast);
  nabla_text text = {0};
  nabla_text_add(&text, "func.func @t(%%a: ");
  nabla_text_add_type(&text, type);
  nabla_text_add(&text, ", %%b: ");
  nabla_text_add_type(&text, type);
  nabla_text_add(&text, ") -> ");
  nabla_text_add_type(&text, type);
  nabla_text_add(&text, " {\n  %%c = linalg.copy ins(%%a : ");
  nabla_text_add_type(&text, type);
  nabla_text_add(&text, ") outs(%%b : ");
  nabla_text_add_type(&text, type);
  nabla_text_add(&text, ") -> ");
  nabla_text_add_type(&text, type);
  nabla_text_add(&text, "\n  return %%c : ");
  nabla_text_add_type(&text, type);
  nabla_text_add(&text, "\n}\n");
  const bool done = nabla_template_replace(place, 2, operands, &text);
  nabla_text_deinit(&text);
  if (!done) return (MlirValue){NULL};
  return mlirOperationGetResult(mlirOperationGetNextInBlock(empty), 0);
}

/* Lets all that reads `state` behind its first write read a copy. The program's
 * text has no such reads, which nabla-manifest refuses; those of `x - 0` become
 * reads of x when they are simplified. */
static bool keep_old(const nabla_in_place *p, MlirOperation end,
                     intptr_t result, MlirValue state) {
  MlirBlock body = mlirOperationGetBlock(end);
  MlirOperation writer =
      nabla_in_place_writer(p, mlirOperationGetOperand(end, result), state);
  MlirOpOperand use;
  if (mlirOperationIsNull(writer) || !find_behind(state, body, writer, &use))
    return true;
  MlirValue copy = copy_of(state, body);
  if (mlirValueIsNull(copy)) return false;
  do {
    mlirOperationSetOperand(mlirOpOperandGetOwner(use),
                            mlirOpOperandGetOperandNumber(use), copy);
  } while (find_behind(state, body, writer, &use));
  return true;
}

/* ---- results ---- */

/* Puts each result that may be in the memory of a donated argument there on all
 * ways through the function; a result is in one argument's memory. */
static void keep_in_donated(const nabla_in_place *p, MlirOperation function) {
  MlirBlock body = body_of(function);
  MlirOperation end = mlirBlockGetTerminator(body);
  for (intptr_t a = 0; a < mlirBlockGetNumArguments(body); a++) {
    MlirValue to = mlirBlockGetArgument(body, a);
    if (!nabla_donated_is(function, a)) continue;
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
      if (!nabla_in_place_is(p, mlirOperationGetOperand(end, i), to)) continue;
      nabla_in_place_settle(p, end, i, to);
      break;
    }
  }
}

/* The values that replace states are put into their arguments' memory. */
static bool store_results(const nabla_in_place *p, MlirOperation function) {
  MlirBlock body = body_of(function);
  MlirOperation end = mlirBlockGetTerminator(body);
  bool good = true;
  for (intptr_t i = 0; good && i < mlirOperationGetNumOperands(end); i++) {
    MlirStringRef name = nabla_state_name(function, NABLA_RESULTS, i);
    if (!name.data) continue;
    MlirValue state =
        mlirBlockGetArgument(body, nabla_state_argument(function, name));
    nabla_in_place_settle(p, end, i, state);
    good = keep_old(p, end, i, state);
  }
  return good;
}

static bool is_stateful(MlirOperation op) {
  return nabla_is(op, "func.func") && !mlirBlockIsNull(body_of(op)) &&
         (nabla_state_has(op) || nabla_donated_has(op));
}

static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

static void add_states(walk *w, MlirOperation function) {
  MlirBlock body = body_of(function);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
    if (nabla_state_name(function, NABLA_ARGUMENTS, i).data ||
        nabla_donated_is(function, i))
      add(&w->all, mlirBlockGetArgument(body, i));
}

MlirLogicalResult nabla_run_states(MlirOperation module,
                                   const nablaPassValue *pass_values,
                                   void *prepared) {
  (void)pass_values, (void)prepared;
  nabla_op_list functions = nabla_ops_collect(module, is_stateful);
  bool good = !functions.failed;
  if (good && functions.count) {
    walk w = {
        mlirSymbolTableCreate(module), nabla_ops_collect(module, is_call), {0}};
    for (size_t i = 0; i < functions.count; i++)
      add_states(&w, functions.ops[i]);
    follow(&w);
    good = !w.all.failed && !w.calls.failed;
    if (good) allow_all(&w.all);
    const nabla_in_place p = {w.symbols};
    for (size_t i = 0; good && i < functions.count; i++) {
      good = store_results(&p, functions.ops[i]);
      if (good) keep_in_donated(&p, functions.ops[i]);
    }
    free(w.all.items);
    nabla_op_list_deinit(&w.calls);
    mlirSymbolTableDestroy(w.symbols);
  }
  nabla_op_list_deinit(&functions);
  return good ? mlirLogicalResultSuccess()
              : nabla_error_at(module, "nabla-states: out of memory");
}
