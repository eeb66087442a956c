/* nabla.scan becomes scf.for. The loop is written as text with a placeholder
 * for the body: a cast from the inputs of the body to its results. Then the
 * operations of the body are moved to the placeholder. */
#include "transforms/control/lower_scan.h"

#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "lib/kernels/builder/k.h"

/* Discardable: marks the placeholder. */
#define MARK "nabla.body"

void nabla_scan_type(nabla_scan_text *l, MlirType type) {
  nabla_text_add_type(&l->t.text, type);
}

nabla_ssa nabla_scan_fresh(nabla_scan_text *l) { return ++l->t.emit.last; }

nabla_ssa nabla_scan_argument(intptr_t index) { return (nabla_ssa)index + 1; }

nabla_ssa nabla_scan_dim(nabla_scan_text *l, nabla_ssa value, MlirType type,
                         intptr_t index) {
  nabla_ssa place = nabla_emit_index(&l->t, index), out = nabla_scan_fresh(l);
  nabla_text_add(&l->t.text, "  %%v%u = tensor.dim %%v%u, %%v%u : ", out, value,
                 place);
  nabla_scan_type(l, type);
  nabla_text_add(&l->t.text, "\n");
  return out;
}

void nabla_scan_require_size(nabla_scan_text *l, nabla_ssa size) {
  nabla_ssa least =
      k_op(&l->t.emit, "arith.minsi %%v%u, %%v%u : index", size, l->zero);
  nabla_template_require(&l->t, least, l->zero);
}

/* Sets the length of the scan: a known length if an input has one, else the
 * length of the first input. Checks at run time that all others agree. */
static void find_length(nabla_scan_text *l) {
  l->known = mlirShapedTypeGetDynamicSize();
  for (intptr_t i = 0; i < l->s.inputs && nabla_is_dynamic(l->known); i++)
    l->known = nabla_array_dim(l->inputs[i].whole, 0);
  if (!nabla_is_dynamic(l->known))
    l->length = nabla_emit_index(&l->t, l->known);
  for (intptr_t i = 0; i < l->s.inputs; i++) {
    MlirType type = l->inputs[i].whole;
    if (!nabla_is_dynamic(nabla_array_dim(type, 0))) continue;
    nabla_ssa size =
        nabla_scan_dim(l, nabla_scan_argument(l->s.carries + i), type, 0);
    if (l->length)
      nabla_template_require(&l->t, size, l->length);
    else
      l->length = size;
  }
  if (l->length) return;
  l->length = nabla_scan_argument(l->s.carries);
  nabla_scan_require_size(l, l->length);
}

/* Calls `visit` for each value that the loop carries, with its initial value
 * and the place for its name in the body. */
static void each_carried(nabla_scan_text *l, const char *before,
                         void (*visit)(nabla_scan_text *, nabla_typed,
                                       nabla_typed *)) {
  const char *comma = before;
  for (intptr_t i = 0; i < l->s.carries; i++) {
    nabla_text_add(&l->t.text, "%s", comma);
    visit(l, (nabla_typed){nabla_scan_argument(i), l->carries[i].type},
          &l->carries[i]);
    comma = ", ";
  }
  for (intptr_t o = 0; o < l->s.outputs; o++)
    for (intptr_t i = 0; i < l->outputs[o].count; i++) {
      nabla_scan_stack *s = &l->outputs[o];
      nabla_text_add(&l->t.text, "%s", comma);
      visit(l, s->parts[i], &s->filled[i]);
      comma = ", ";
    }
}

static void start_carry(nabla_scan_text *l, nabla_typed from,
                        nabla_typed *inner) {
  *inner = (nabla_typed){nabla_scan_fresh(l), from.type};
  nabla_text_add(&l->t.text, "%%v%u = %%v%u", inner->value, from.value);
}
static void type_of_carry(nabla_scan_text *l, nabla_typed from,
                          nabla_typed *inner) {
  (void)inner;
  nabla_scan_type(l, from.type);
}
static void name_of_carry(nabla_scan_text *l, nabla_typed from,
                          nabla_typed *inner) {
  (void)from;
  nabla_text_add(&l->t.text, "%%v%u", inner->value);
}

/* Writes the placeholder that stands for the body. */
static bool add_placeholder(nabla_scan_text *l) {
  nabla_text *text = &l->t.text;
  intptr_t count = l->s.carries + l->s.inputs;
  nabla_typed *taken = calloc((size_t)count + 1, sizeof *taken);
  if (!taken) return false;
  for (intptr_t i = 0; i < count; i++)
    taken[i] = i < l->s.carries
                   ? l->carries[i]
                   : nabla_stack_take(l, &l->inputs[i - l->s.carries]);
  nabla_text_add(text, "  ");
  for (intptr_t i = 0; i < l->s.carries + l->s.outputs; i++) {
    l->given[i].value = nabla_scan_fresh(l);
    nabla_text_add(text, "%s%%v%u", i ? ", " : "", l->given[i].value);
  }
  nabla_text_add(text, " = builtin.unrealized_conversion_cast ");
  for (intptr_t i = 0; i < count; i++)
    nabla_text_add(text, "%s%%v%u", i ? ", " : "", taken[i].value);
  for (intptr_t i = 0; i < count; i++) {
    nabla_text_add(text, "%s", i ? ", " : " : ");
    nabla_scan_type(l, taken[i].type);
  }
  for (intptr_t i = 0; i < l->s.carries + l->s.outputs; i++) {
    nabla_text_add(text, "%s", i ? ", " : " to ");
    nabla_scan_type(l, l->given[i].type);
  }
  nabla_text_add(text, " {" MARK "}\n");
  free(taken);
  return true;
}

static intptr_t carried_count(const nabla_scan_text *l) {
  intptr_t count = l->s.carries;
  for (intptr_t i = 0; i < l->s.outputs; i++) count += l->outputs[i].count;
  return count;
}

/* Writes the scf.for; `results` receives its results. Returns false if out of
 * memory. */
static bool add_loop(nabla_scan_text *l, nabla_ssa *results) {
  nabla_text *text = &l->t.text;
  intptr_t count = carried_count(l);
  nabla_text_add(text, "  ");
  for (intptr_t i = 0; i < count; i++) {
    results[i] = nabla_scan_fresh(l);
    nabla_text_add(text, "%s%%v%u", i ? ", " : "", results[i]);
  }
  nabla_ssa step = nabla_scan_fresh(l);
  nabla_text_add(text, " = scf.for %%v%u = %%v%u to %%v%u step %%v%u", step,
                 l->zero, l->length, l->one);
  each_carried(l, " iter_args(", start_carry);
  nabla_text_add(text, ") -> (");
  each_carried(l, "", type_of_carry);
  nabla_text_add(text, ") {\n");
  l->at = step;
  if (l->s.reverse) {
    nabla_ssa last =
        k_op(&l->t.emit, "arith.subi %%v%u, %%v%u : index", l->length, l->one);
    l->at = k_op(&l->t.emit, "arith.subi %%v%u, %%v%u : index", last, step);
  }
  if (!add_placeholder(l)) return false;
  for (intptr_t i = 0; i < l->s.carries; i++) l->carries[i] = l->given[i];
  for (intptr_t i = 0; i < l->s.outputs; i++)
    nabla_stack_put(l, &l->outputs[i], l->given[l->s.carries + i]);
  nabla_text_add(text, "  scf.yield ");
  each_carried(l, "", name_of_carry);
  each_carried(l, " : ", type_of_carry);
  nabla_text_add(text, "\n  }\n");
  return true;
}

/* Writes the code after the loop, which assembles the outputs and returns all
 * results. */
static void add_return(nabla_scan_text *l, const nabla_ssa *results) {
  nabla_text *text = &l->t.text;
  MlirOperation op = l->s.op;
  const nabla_ssa *at = results + l->s.carries;
  for (intptr_t o = 0; o < l->s.outputs; o++) {
    nabla_scan_stack *s = &l->outputs[o];
    for (intptr_t i = 0; i < s->count; i++) s->parts[i].value = *at++;
    if (s->implicit)
      s->parts[0].value = nabla_stack_pack(l, s->parts, s->whole);
  }
  nabla_text_add(text, "  return ");
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    nabla_text_add(text, "%s%%v%u", i ? ", " : "",
                   i < l->s.carries
                       ? results[i]
                       : l->outputs[i - l->s.carries].parts[0].value);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    nabla_text_add(text, "%s", i ? ", " : " : ");
    nabla_scan_type(l, nabla_result_type(op, i));
  }
  nabla_text_add(text, "\n}\n");
  nabla_template_add_where(&l->t);
}

static void add_signature(nabla_scan_text *l) {
  nabla_text *text = &l->t.text;
  MlirOperation op = l->s.op;
  nabla_text_add(text, "func.func @t(");
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    nabla_text_add(text, "%s%%v%u: ", i ? ", " : "", nabla_scan_fresh(l));
    nabla_scan_type(l, nabla_operand_type(op, i));
  }
  nabla_text_add(text, ") -> (");
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    nabla_text_add(text, "%s", i ? ", " : "");
    nabla_scan_type(l, nabla_result_type(op, i));
  }
  nabla_text_add(text, ") {\n");
}

/* Sets the types of the values that are carried, sliced and filled. */
static void describe_all(nabla_scan_text *l) {
  MlirOperation op = l->s.op;
  MlirBlock body = nabla_region_block(op, 0);
  MlirOperation end = nabla_block_end(body);
  const intptr_t first = l->s.carries;
  for (intptr_t i = 0; i < l->s.carries + l->s.outputs; i++)
    l->given[i].type = nabla_operand_type(end, i);
  for (intptr_t i = 0; i < l->s.carries; i++)
    l->carries[i].type = nabla_operand_type(end, i);
  for (intptr_t i = 0; i < l->s.inputs; i++)
    nabla_stack_describe(
        &l->inputs[i], nabla_operand_type(op, first + i),
        mlirValueGetType(mlirBlockGetArgument(body, first + i)));
  nabla_scan_stack *output = l->outputs;
  for (intptr_t i = 0; i < l->s.outputs; i++)
    nabla_stack_describe(output++, nabla_result_type(op, first + i),
                         nabla_operand_type(end, first + i));
}

static bool write_text(nabla_scan_text *l) {
  add_signature(l);
  l->zero = nabla_emit_index(&l->t, 0);
  l->one = nabla_emit_index(&l->t, 1);
  find_length(l);
  intptr_t size = l->s.carries + l->s.inputs + l->s.lengths;
  for (intptr_t i = 0; i < l->s.inputs; i++) nabla_stack_open_input(l, i);
  for (intptr_t i = 0; i < l->s.outputs; i++)
    nabla_stack_open_output(l, i, &size);
  nabla_ssa *results = calloc((size_t)carried_count(l) + 1, sizeof *results);
  bool good = results && add_loop(l, results);
  if (good) add_return(l, results);
  free(results);
  return good;
}

/* ---- the body ---- */

static bool is_placeholder(MlirOperation op) {
  return nabla_is(op, "builtin.unrealized_conversion_cast") &&
         !mlirAttributeIsNull(
             mlirOperationGetAttributeByName(op, nabla_ref(MARK)));
}

/* Finds the placeholder. Marked operations that were in the program before are
 * in `before`. */
static bool find_placeholder(MlirOperation around, const nabla_op_list *before,
                             MlirOperation *out) {
  nabla_op_list found = nabla_ops_collect(around, is_placeholder);
  bool good =
      !found.failed && !before->failed && found.count == before->count + 1;
  size_t at = 0; /* both lists are in program order */
  while (good && at < before->count &&
         mlirOperationEqual(found.ops[at], before->ops[at]))
    at++;
  if (good) *out = found.ops[at];
  nabla_op_list_deinit(&found);
  return good;
}

/* Moves the operations of `body` to the placeholder and erases it. */
static bool fill_in(MlirOperation around, const nabla_op_list *before,
                    MlirBlock body) {
  MlirOperation at;
  bool good = find_placeholder(around, before, &at);
  if (good) {
    MlirOperation end = nabla_block_end(body), next;
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
      mlirValueReplaceAllUsesOfWith(mlirBlockGetArgument(body, i),
                                    mlirOperationGetOperand(at, i));
    for (MlirOperation op = mlirBlockGetFirstOperation(body);
         !mlirOperationEqual(op, end); op = next) {
      next = mlirOperationGetNextInBlock(op);
      mlirOperationMoveBefore(op, at);
    }
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++)
      mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(at, i),
                                    mlirOperationGetOperand(end, i));
    nabla_op_erase(at);
  }
  return good;
}

/* Replaces the scan by the loop. */
static bool replace(nabla_scan_text *l) {
  MlirOperation op = l->s.op, around = mlirOperationGetParentOperation(op);
  intptr_t count = mlirOperationGetNumOperands(op);
  MlirValue *operands = calloc((size_t)count + 1, sizeof *operands);
  if (!operands) return false;
  for (intptr_t i = 0; i < count; i++)
    operands[i] = mlirOperationGetOperand(op, i);
  MlirRegion kept = mlirRegionCreate();
  mlirRegionTakeBody(kept, mlirOperationGetRegion(op, 0));
  nabla_op_list before = nabla_ops_collect(around, is_placeholder);
  bool good = nabla_template_replace(op, count, operands, &l->t.text);
  if (good)
    good = fill_in(around, &before, mlirRegionGetFirstBlock(kept));
  else
    mlirRegionTakeBody(mlirOperationGetRegion(op, 0), kept);
  nabla_op_list_deinit(&before);
  mlirRegionDestroy(kept);
  free(operands);
  return good;
}

bool nabla_lower_scan(MlirOperation op) {
  nabla_scan_text l = {.t = {.op = op}, .s = nabla_scan_read(op)};
  l.t.emit.text = &l.t.text;
  l.t.emit.spec = &l.t.spec;
  size_t given = (size_t)(l.s.carries + l.s.outputs);
  l.inputs = calloc((size_t)l.s.inputs + 1, sizeof *l.inputs);
  l.outputs = calloc((size_t)l.s.outputs + 1, sizeof *l.outputs);
  l.carries = calloc((size_t)l.s.carries + 1, sizeof *l.carries);
  l.given = calloc(given + 1, sizeof *l.given);
  bool good = l.inputs && l.outputs && l.carries && l.given;
  if (good) describe_all(&l);
  good = good && write_text(&l) && replace(&l);
  free(l.inputs);
  free(l.outputs);
  free(l.carries);
  free(l.given);
  nabla_template_deinit(&l.t);
  return good;
}
