/* See ir.h. */
#include "transforms/ir/ir.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Diagnostics.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/verify/checks.h"

MlirStringRef nabla_ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

MlirStringRef nabla_name(MlirOperation op) {
  return mlirIdentifierStr(mlirOperationGetName(op));
}

bool nabla_is(MlirOperation op, const char *name) {
  if (mlirOperationIsNull(op)) return false;
  MlirStringRef have = nabla_name(op);
  return have.length == strlen(name) && !memcmp(have.data, name, have.length);
}

MlirContext nabla_op_context(MlirOperation op) {
  return mlirOperationGetContext(op);
}

MlirType nabla_operand_type(MlirOperation op, intptr_t index) {
  return mlirValueGetType(mlirOperationGetOperand(op, index));
}

MlirType nabla_result_type(MlirOperation op, intptr_t index) {
  return mlirValueGetType(mlirOperationGetResult(op, index));
}

MlirOperation nabla_defining_op(MlirValue value) {
  if (!mlirValueIsAOpResult(value)) return (MlirOperation){NULL};
  return mlirOpResultGetOwner(value);
}

intptr_t nabla_use_count(MlirValue value) {
  intptr_t count = 0;
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
    count++;
  return count;
}

MlirLogicalResult nabla_error_at(MlirOperation op, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  nabla_op_error_list(mlirOperationGetLocation(op), nabla_name(op), format,
                      arguments);
  va_end(arguments);
  return mlirLogicalResultFailure();
}

typedef struct collector {
  nabla_op_list list;
  bool (*want)(MlirOperation op);
} collector;

static MlirWalkResult collect(MlirOperation op, void *self) {
  collector *c = self;
  if (!c->want(op)) return MlirWalkResultAdvance;
  if (c->list.count == c->list.capacity) {
    size_t capacity = c->list.capacity ? 2 * c->list.capacity : 64;
    MlirOperation *ops = realloc(c->list.ops, capacity * sizeof *ops);
    if (!ops) {
      c->list.failed = 1;
      return MlirWalkResultInterrupt;
    }
    c->list.ops = ops;
    c->list.capacity = capacity;
  }
  c->list.ops[c->list.count++] = op;
  return MlirWalkResultAdvance;
}

nabla_op_list nabla_ops_collect(MlirOperation root,
                                bool (*want)(MlirOperation op)) {
  collector c = {{NULL, 0, 0, 0}, want};
  mlirOperationWalk(root, collect, &c, MlirWalkPostOrder);
  return c.list;
}

MlirLogicalResult nabla_ops_each(MlirOperation root,
                                 bool (*want)(MlirOperation op),
                                 bool (*change)(MlirOperation op, void *self),
                                 void *self) {
  nabla_op_list all = nabla_ops_collect(root, want);
  bool good = !all.failed;
  for (size_t i = 0; good && i < all.count; i++)
    good = change(all.ops[i], self);
  nabla_op_list_deinit(&all);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}

void nabla_op_list_deinit(nabla_op_list *list) {
  free(list->ops);
  *list = (nabla_op_list){NULL, 0, 0, 0};
}

MlirNamedAttribute nabla_named(MlirContext context, const char *key,
                               MlirAttribute value) {
  return mlirNamedAttributeGet(mlirIdentifierGet(context, nabla_ref(key)),
                               value);
}

MlirValue nabla_value_transpose(MlirOperation before, MlirValue value,
                                intptr_t rank, const int64_t *order) {
  bool same = true;
  for (intptr_t i = 0; i < rank; i++) same = same && order[i] == i;
  if (same) return value;
  MlirContext context = nabla_op_context(before);
  MlirNamedAttribute permutation = nabla_named(
      context, "permutation", mlirDenseI64ArrayGet(context, rank, order));
  nabla_op_spec spec = {"nabla.transpose", 1, &value, -1, NULL, 1,
                        &permutation};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

MlirOperation nabla_op_create(MlirOperation before, const nabla_op_spec *spec) {
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref(spec->name), mlirOperationGetLocation(before));
  mlirOperationStateAddOperands(&state, spec->operand_count, spec->operands);
  if (spec->result_count < 0)
    mlirOperationStateEnableResultTypeInference(&state);
  else
    mlirOperationStateAddResults(&state, spec->result_count, spec->results);
  mlirOperationStateAddAttributes(&state, spec->attribute_count,
                                  spec->attributes);
  MlirOperation op = mlirOperationCreate(&state);
  if (!mlirOperationIsNull(op))
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(before), before,
                                        op);
  return op;
}

/* The dictionary `old` with one more entry. */
static MlirAttribute with_entry(MlirAttribute old, MlirNamedAttribute mine) {
  const intptr_t had = mlirDictionaryAttrGetNumElements(old);
  MlirNamedAttribute *entries = calloc((size_t)had + 1, sizeof *entries);
  if (!entries) return old;
  intptr_t kept = 0;
  for (intptr_t i = 0; i < had; i++) {
    entries[kept] = mlirDictionaryAttrGetElement(old, i);
    kept += !mlirIdentifierEqual(entries[kept].name, mine.name);
  }
  entries[kept++] = mine;
  MlirAttribute made =
      mlirDictionaryAttrGet(mlirAttributeGetContext(old), kept, entries);
  free(entries);
  return made;
}

static MlirType function_type(MlirOperation function) {
  return mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type")));
}

void nabla_ports_set(MlirOperation function, const char *list, const char *key,
                     const MlirAttribute *values) {
  MlirContext context = nabla_op_context(function);
  MlirType type = function_type(function);
  const bool takes = !strcmp(list, "arg_attrs");
  const intptr_t count = takes ? mlirFunctionTypeGetNumInputs(type)
                               : mlirFunctionTypeGetNumResults(type);
  MlirAttribute old =
      mlirOperationGetAttributeByName(function, nabla_ref(list));
  MlirAttribute empty = mlirDictionaryAttrGet(context, 0, NULL);
  MlirAttribute *all = calloc((size_t)count + 1, sizeof *all);
  bool any = takes;
  for (intptr_t i = 0; all && i < count; i++) {
    all[i] = mlirAttributeIsNull(old) ? empty : mlirArrayAttrGetElement(old, i);
    if (mlirAttributeIsNull(values[i])) continue;
    all[i] = with_entry(all[i], nabla_named(context, key, values[i]));
    any = true;
  }
  if (all && any)
    mlirOperationSetAttributeByName(function, nabla_ref(list),
                                    mlirArrayAttrGet(context, count, all));
  free(all);
}

void nabla_arguments_set(MlirOperation function, const char *key,
                         const MlirAttribute *values) {
  nabla_ports_set(function, "arg_attrs", key, values);
}

void nabla_arguments_protect(MlirOperation function, intptr_t first,
                             intptr_t end) {
  MlirType type = function_type(function);
  const intptr_t count = mlirFunctionTypeGetNumInputs(type);
  MlirAttribute *values = calloc((size_t)count + 1, sizeof *values);
  if (!values) return;
  MlirAttribute no = mlirBoolAttrGet(nabla_op_context(function), 0);
  for (intptr_t i = first; i < end && i < count; i++)
    if (mlirTypeIsATensor(mlirFunctionTypeGetInput(type, i))) values[i] = no;
  nabla_arguments_set(function, "bufferization.writable", values);
  free(values);
}

void nabla_op_erase(MlirOperation op) {
  mlirOperationDestroy(op); /* also unlinks it */
}

void nabla_op_replace(MlirOperation op, const MlirValue *values) {
  intptr_t count = mlirOperationGetNumResults(op);
  for (intptr_t i = 0; i < count; i++)
    if (mlirOperationEqual(nabla_defining_op(values[i]), op)) return;
  for (intptr_t i = 0; i < count; i++)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i), values[i]);
  nabla_op_erase(op);
}

static void append(MlirStringRef part, void *text) {
  nabla_text_add(text, "%.*s", (int)part.length, part.data);
}

void nabla_text_add_type(nabla_text *text, MlirType type) {
  mlirTypePrint(type, append, text);
}

void nabla_text_add_attribute(nabla_text *text, MlirAttribute attribute) {
  mlirAttributePrint(attribute, append, text);
}

static MlirOperation module_of(MlirOperation op) {
  while (!nabla_is(op, "builtin.module"))
    op = mlirOperationGetParentOperation(op);
  return op;
}

static MlirBlock body_of(MlirOperation op) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0));
}

static MlirAttribute symbol_of(MlirOperation op) {
  return mlirOperationGetAttributeByName(op, nabla_ref("sym_name"));
}

static bool has_symbol(MlirOperation module, MlirAttribute name) {
  for (MlirOperation op = mlirBlockGetFirstOperation(body_of(module));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    MlirAttribute have = symbol_of(op);
    if (!mlirAttributeIsNull(have) && mlirAttributeEqual(have, name))
      return true;
  }
  return false;
}

bool nabla_module_has(MlirOperation op, const char *symbol) {
  return has_symbol(module_of(op),
                    mlirStringAttrGet(nabla_op_context(op), nabla_ref(symbol)));
}

static MlirWalkResult set_location(MlirOperation op, void *location) {
  mlirOperationSetLocation(op, *(MlirLocation *)location);
  return MlirWalkResultAdvance;
}

/* Moves every symbol of `from` but `skip` that `module` lacks; errors in them
 * are those of what is at `location`. */
static void move_symbols(MlirOperation from, MlirOperation module,
                         MlirOperation skip, MlirLocation location) {
  MlirBlock to = body_of(module);
  MlirOperation next;
  for (MlirOperation op = mlirBlockGetFirstOperation(body_of(from));
       !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    MlirAttribute name = symbol_of(op);
    if (mlirOperationEqual(op, skip) || mlirAttributeIsNull(name) ||
        has_symbol(module, name))
      continue;
    mlirOperationRemoveFromParent(op);
    mlirBlockInsertOwnedOperation(to, 0, op);
    mlirOperationWalk(op, set_location, &location, MlirWalkPreOrder);
  }
}

static MlirModule parse(MlirOperation at, const char *text) {
  MlirModule module =
      mlirModuleCreateParse(nabla_op_context(at), nabla_ref(text ? text : ""));
  if (mlirModuleIsNull(module))
    nabla_error_at(at,
                   "has a lowering that does not parse; please report this "
                   "with the program");
  return module;
}

bool nabla_module_add(MlirOperation at, const nabla_text *text) {
  if (text->failed) {
    nabla_error_at(at, "has a lowering that is too large");
    return false;
  }
  MlirModule parsed = parse(at, text->data);
  if (mlirModuleIsNull(parsed)) return false;
  move_symbols(mlirModuleGetOperation(parsed), module_of(at),
               (MlirOperation){NULL}, mlirOperationGetLocation(at));
  mlirModuleDestroy(parsed);
  return true;
}

/* Moves the body of `block` before `op`; returns its terminator. */
static MlirOperation move_body(MlirBlock block, MlirOperation op) {
  MlirLocation location = mlirOperationGetLocation(op);
  MlirOperation terminator = mlirBlockGetTerminator(block), next;
  for (MlirOperation inner = mlirBlockGetFirstOperation(block);
       !mlirOperationEqual(inner, terminator); inner = next) {
    next = mlirOperationGetNextInBlock(inner);
    mlirOperationMoveBefore(inner, op);
    mlirOperationWalk(inner, set_location, &location, MlirWalkPreOrder);
  }
  return terminator;
}

bool nabla_template_replace(MlirOperation op, intptr_t count,
                            const MlirValue *operands, const nabla_text *text) {
  if (text->failed) {
    nabla_error_at(op, "has a lowering that is too large");
    return false;
  }
  for (intptr_t i = 0; i < count; i++) {
    if (!mlirOperationEqual(nabla_defining_op(operands[i]), op)) continue;
    nabla_error_at(op, "is an operand of itself"); /* in dead code only */
    return false;
  }
  MlirModule parsed = parse(op, text->data);
  if (mlirModuleIsNull(parsed)) return false;
  MlirOperation from = mlirModuleGetOperation(parsed);
  MlirOperation function = mlirBlockGetFirstOperation(body_of(from));
  MlirAttribute t = mlirStringAttrGet(nabla_op_context(op), nabla_ref("t"));
  while (!mlirAttributeEqual(symbol_of(function), t))
    function = mlirOperationGetNextInBlock(function);
  MlirBlock block = body_of(function);
  for (intptr_t i = 0; i < count; i++)
    mlirValueReplaceAllUsesOfWith(mlirBlockGetArgument(block, i), operands[i]);
  MlirOperation terminator = move_body(block, op);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i),
                                  mlirOperationGetOperand(terminator, i));
  move_symbols(from, module_of(op), function, mlirOperationGetLocation(op));
  nabla_op_erase(op);
  mlirModuleDestroy(parsed);
  return true;
}

bool nabla_name_check(MlirOperation function, MlirAttribute name,
                      const char *key, const char *noun, intptr_t index,
                      const char *example) {
  if (mlirAttributeIsNull(name)) return true;
  if (mlirAttributeIsAString(name) && mlirStringAttrGetValue(name).length > 0)
    return true;
  nabla_text text = {0};
  nabla_text_add_attribute(&text, name);
  nabla_error_at(function,
                 "has %.100s as %s of %s #%d: it is a string that is not "
                 "empty, as in {%s = \"%s\"}",
                 text.data ? text.data : "", key, noun, (int)index, key,
                 example);
  nabla_text_deinit(&text);
  return false;
}
