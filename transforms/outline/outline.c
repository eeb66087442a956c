/* nabla-outline: replaces consecutive copies of the same operations by calls of
 * one private function. A model of 32 equal layers is then compiled like one
 * layer. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "dialect/bridge.h"
#include "transforms/outline/outline_find.h"
#include "transforms/passes.h"
#include "transforms/shard/layout.h"

/* Limits below which the copies compile faster than the calls. */
#define LEAST_OPS    8
#define LEAST_COPIES 3
/* Searches per function; each one scans the rest of the function. */
#define MAX_SEARCHES 64

/* A result or operand of the operations at the same position in each copy. */
typedef struct place {
  size_t op;
  intptr_t index;
} place;

/* A repeated sequence, with inputs and outputs of its function. */
typedef struct outline {
  const nabla_sequence *s;
  nabla_repeat r;
  place *inputs;  /* for each input, an operand with its value in each copy */
  place *outputs; /* results that are used outside of their copy */
  size_t input_count, output_count;
  intptr_t *arguments; /* for each operand of the first copy, the index of the
                        * argument that replaces it, or -1 for a value of the
                        * copy itself */
} outline;

static MlirOperation op_at(const outline *o, size_t copy, size_t op) {
  return o->s->ops[o->r.begin + copy * o->r.length + op];
}

static bool is_inside(const outline *o, size_t copy, size_t index) {
  size_t first = o->r.begin + copy * o->r.length;
  return index != SIZE_MAX && index >= first && index - first < o->r.length;
}

static MlirValue operand_at(const outline *o, size_t copy, place at) {
  return mlirOperationGetOperand(op_at(o, copy, at.op), at.index);
}

/* Returns the argument for an operand. Operands that are equal in every copy
 * share one argument. */
static intptr_t argument_of(outline *o, place at) {
  for (size_t i = 0; i < o->input_count; i++) {
    bool equal = true;
    for (size_t copy = 0; equal && copy < o->r.copies; copy++)
      equal = mlirValueEqual(operand_at(o, copy, at),
                             operand_at(o, copy, o->inputs[i]));
    if (equal) return (intptr_t)i;
  }
  o->inputs[o->input_count] = at;
  return (intptr_t)o->input_count++;
}

static void find_inputs(outline *o) {
  size_t operand = 0;
  for (size_t op = 0; op < o->r.length; op++) {
    MlirOperation first = op_at(o, 0, op);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(first); i++) {
      size_t from =
          nabla_sequence_definition(o->s, mlirOperationGetOperand(first, i));
      o->arguments[operand++] =
          is_inside(o, 0, from) ? -1 : argument_of(o, (place){op, i});
    }
  }
}

/* Returns whether an operation outside of the copy uses a value. */
static bool is_used_outside(const outline *o, size_t copy, MlirValue value) {
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
    if (!is_inside(o, copy,
                   nabla_sequence_find(o->s, mlirOpOperandGetOwner(use))))
      return true;
  return false;
}

static void find_outputs(outline *o) {
  for (size_t op = 0; op < o->r.length; op++)
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op_at(o, 0, op)); i++) {
      bool used = false;
      for (size_t copy = 0; !used && copy < o->r.copies; copy++)
        used = is_used_outside(o, copy,
                               mlirOperationGetResult(op_at(o, copy, op), i));
      if (used) o->outputs[o->output_count++] = (place){op, i};
    }
}

/* Allocates space for one input per operand and one output per result. */
static bool outline_init(outline *o, const nabla_sequence *s, nabla_repeat r) {
  *o = (outline){.s = s, .r = r};
  size_t operands = 0, results = 0;
  for (size_t op = 0; op < r.length; op++) {
    operands += (size_t)mlirOperationGetNumOperands(op_at(o, 0, op));
    results += (size_t)mlirOperationGetNumResults(op_at(o, 0, op));
  }
  o->inputs = calloc(operands + 1, sizeof *o->inputs);
  o->arguments = calloc(operands + 1, sizeof *o->arguments);
  o->outputs = calloc(results + 1, sizeof *o->outputs);
  return o->inputs && o->arguments && o->outputs;
}

static void outline_deinit(outline *o) {
  free(o->inputs);
  free(o->arguments);
  free(o->outputs);
}

/* ---- the function ---- */

static MlirType type_of_output(const outline *o, size_t i) {
  return nabla_result_type(op_at(o, 0, o->outputs[i].op), o->outputs[i].index);
}

/* Makes a private function of this name and type before `caller`; returns its
 * empty entry block. */
static MlirBlock declare(MlirOperation caller, const char *name,
                         MlirType function) {
  MlirContext context = nabla_op_context(caller);
  MlirLocation location = mlirOperationGetLocation(caller);
  MlirRegion body = mlirRegionCreate();
  MlirBlock entry = mlirBlockCreate(0, NULL, NULL);
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumInputs(function); i++)
    mlirBlockAddArgument(entry, mlirFunctionTypeGetInput(function, i),
                         location);
  mlirRegionAppendOwnedBlock(body, entry);
  MlirNamedAttribute list[3] = {
      nabla_named(context, "sym_name",
                  mlirStringAttrGet(context, nabla_ref(name))),
      nabla_named(context, "function_type", mlirTypeAttrGet(function)),
      nabla_named(context, "sym_visibility",
                  mlirStringAttrGet(context, nabla_ref("private")))};
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("func.func"), location);
  mlirOperationStateAddAttributes(&state, 3, list);
  mlirOperationStateAddOwnedRegions(&state, 1, &body);
  MlirOperation op = mlirOperationCreate(&state);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(caller), caller,
                                      op);
  nabla_arguments_protect(op, 0, mlirFunctionTypeGetNumInputs(function));
  MlirAttribute mesh =
      mlirOperationGetAttributeByName(caller, nabla_ref(NABLA_PARTITIONED));
  if (!mlirAttributeIsNull(mesh)) /* its collectives need it */
    mlirOperationSetAttributeByName(op, nabla_ref(NABLA_PARTITIONED), mesh);
  return entry;
}

/* Clones the operations of the first copy; `made` receives the clones. */
static void fill(const outline *o, MlirBlock entry, MlirOperation *made) {
  size_t operand = 0;
  for (size_t op = 0; op < o->r.length; op++) {
    MlirOperation from = op_at(o, 0, op), to = mlirOperationClone(from);
    mlirBlockAppendOwnedOperation(entry, to);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(from); i++) {
      intptr_t argument = o->arguments[operand++];
      MlirValue value = mlirOperationGetOperand(from, i);
      if (argument >= 0) {
        value = mlirBlockGetArgument(entry, argument);
      } else {
        size_t at = nabla_sequence_definition(o->s, value) - o->r.begin;
        value = mlirOperationGetResult(made[at],
                                       mlirOpResultGetResultNumber(value));
      }
      mlirOperationSetOperand(to, i, value);
    }
    made[op] = to;
  }
}

static void end(const outline *o, MlirBlock entry, const MlirOperation *made,
                MlirValue *values) {
  for (size_t i = 0; i < o->output_count; i++)
    values[i] =
        mlirOperationGetResult(made[o->outputs[i].op], o->outputs[i].index);
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("func.return"), mlirOperationGetLocation(op_at(o, 0, 0)));
  mlirOperationStateAddOperands(&state, (intptr_t)o->output_count, values);
  mlirBlockAppendOwnedOperation(entry, mlirOperationCreate(&state));
}

/* Replaces a copy by a call. */
static void call(const outline *o, size_t copy, const char *name,
                 MlirType function, MlirValue *values, MlirType *types) {
  MlirContext context = nabla_op_context(op_at(o, copy, 0));
  for (size_t i = 0; i < o->input_count; i++)
    values[i] = operand_at(o, copy, o->inputs[i]);
  for (size_t i = 0; i < o->output_count; i++)
    types[i] = mlirFunctionTypeGetResult(function, (intptr_t)i);
  MlirNamedAttribute callee = nabla_named(
      context, "callee", mlirFlatSymbolRefAttrGet(context, nabla_ref(name)));
  nabla_op_spec spec = {"func.call", (intptr_t)o->input_count,
                        values,      (intptr_t)o->output_count,
                        types,       1,
                        &callee};
  MlirOperation made = nabla_op_create(op_at(o, copy, o->r.length - 1), &spec);
  for (size_t i = 0; i < o->output_count; i++)
    mlirValueReplaceAllUsesOfWith(
        mlirOperationGetResult(op_at(o, copy, o->outputs[i].op),
                               o->outputs[i].index),
        mlirOperationGetResult(made, (intptr_t)i));
  for (size_t op = o->r.length; op-- > 0;) nabla_op_erase(op_at(o, copy, op));
}

static void name_for(MlirOperation function, char *out, size_t size) {
  for (unsigned i = 0;; i++) {
    (void)snprintf(out, size, "outlined_%u", i);
    if (!nabla_module_has(function, out)) return;
  }
}

static void emit(const outline *o, MlirOperation function, MlirValue *values,
                 MlirType *types, MlirOperation *made) {
  char name[32], text[96];
  name_for(function, name, sizeof name);
  for (size_t i = 0; i < o->input_count; i++)
    types[i] = mlirValueGetType(operand_at(o, 0, o->inputs[i]));
  for (size_t i = 0; i < o->output_count; i++)
    types[o->input_count + i] = type_of_output(o, i);
  MlirType type = mlirFunctionTypeGet(
      nabla_op_context(function), (intptr_t)o->input_count, types,
      (intptr_t)o->output_count, types + o->input_count);
  (void)snprintf(text, sizeof text, "%zu times %zu operations", o->r.copies,
                 o->r.length);
  nablaOptimizationRemark(mlirOperationGetLocation(op_at(o, 0, 0)), false,
                          "Outlined", "nabla-outline", text);
  MlirBlock entry = declare(function, name, type);
  fill(o, entry, made);
  end(o, entry, made, values);
  for (size_t copy = 0; copy < o->r.copies; copy++)
    call(o, copy, name, type, values, types);
}

static bool outline_repeat(MlirOperation function, const nabla_sequence *s,
                           nabla_repeat r) {
  outline o;
  bool good = outline_init(&o, s, r);
  if (good) {
    find_inputs(&o);
    find_outputs(&o);
  }
  size_t most = o.input_count + o.output_count + 1;
  MlirValue *values = calloc(most, sizeof *values);
  MlirType *types = calloc(most, sizeof *types);
  MlirOperation *made = calloc(r.length, sizeof *made);
  good = good && values && types && made;
  if (good) emit(&o, function, values, types, made);
  free(values);
  free(types);
  free(made);
  outline_deinit(&o);
  return good;
}

/* ---- the pass ---- */

static bool is_body(MlirOperation op) {
  return nabla_is(op, "func.func") && !mlirBlockIsNull(mlirRegionGetFirstBlock(
                                          mlirOperationGetRegion(op, 0)));
}

/* Outlines one repeated sequence after the other; each time fewer operations
 * remain. */
static bool outline_all(MlirOperation function, void *self) {
  (void)self;
  MlirBlock block =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  bool good = true, more = true;
  for (int search = 0; good && more && search < MAX_SEARCHES; search++) {
    nabla_sequence s;
    nabla_repeat r;
    good = nabla_sequence_init(&s, block);
    more = good && nabla_repeat_find(&s, LEAST_OPS, LEAST_COPIES, &r);
    if (more) good = outline_repeat(function, &s, r);
    nabla_sequence_deinit(&s);
  }
  if (!good) nabla_error_at(function, "nabla-outline: out of memory");
  return good;
}

MlirLogicalResult nabla_run_outline(MlirOperation module,
                                    const nablaPassValue *values,
                                    void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(module, is_body, outline_all, NULL);
}
