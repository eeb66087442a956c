/* nabla-implicitize: makes arguments of a function implicit, so that a program
 * for dense arrays can be tried with packed ones. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/encoding/encoding.h"
#include "transforms/implicit/implicitize_uses.h"
#include "transforms/passes.h"

#define WHERE "nabla-implicitize: "

typedef struct change {
  MlirOperation function;
  MlirBlock entry;
  MlirAttribute encoding;
} change;

static bool has_name(MlirOperation op, const char *key, const char *name) {
  MlirAttribute value = mlirOperationGetAttributeByName(op, nabla_ref(key));
  return !mlirAttributeIsNull(value) &&
         mlirStringRefEqual(mlirStringAttrGetValue(value), nabla_ref(name));
}

static bool find_function(MlirOperation module, const char *name,
                          MlirOperation *out) {
  for (MlirOperation op =
           mlirBlockGetFirstOperation(nabla_region_block(module, 0));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!nabla_is(op, "func.func") || !has_name(op, "sym_name", name)) continue;
    *out = op;
    if (!mlirBlockIsNull(
            mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0))))
      return true;
    nabla_error_at(op, WHERE "@%s has no body", name);
    return false;
  }
  nabla_error_at(module, WHERE "there is no function @%s", name);
  return false;
}

/* A search for calls of the function, which would now pass arguments of the
 * wrong type. */
typedef struct call_search {
  MlirStringRef name;
  MlirOperation found;
} call_search;

static MlirWalkResult find_call(MlirOperation op, void *self) {
  call_search *search = self;
  if (!nabla_is(op, "func.call")) return MlirWalkResultAdvance;
  MlirAttribute callee =
      mlirOperationGetAttributeByName(op, nabla_ref("callee"));
  if (!mlirStringRefEqual(mlirFlatSymbolRefAttrGetValue(callee), search->name))
    return MlirWalkResultAdvance;
  search->found = op;
  return MlirWalkResultInterrupt;
}

static bool check_calls(MlirOperation module, const char *name) {
  call_search search = {nabla_ref(name), {NULL}};
  mlirOperationWalk(module, find_call, &search, MlirWalkPreOrder);
  if (mlirOperationIsNull(search.found)) return true;
  nabla_error_at(search.found,
                 WHERE
                 "calls @%s with dense arguments: inline it first, or "
                 "change the arguments of the function that calls it",
                 name);
  return false;
}

/* Reads "#nabla.nf4<block = 64>", or the same without "#nabla.". */
static bool read_encoding(MlirOperation module, const char *text,
                          MlirAttribute *out) {
  char full[256];
  const char *prefix = *text == '#' ? "" : "#nabla.";
  int length = snprintf(full, sizeof full, "%s%s", prefix, text);
  bool fits = *text && length > 0 && (size_t)length < sizeof full;
  *out = fits ? mlirAttributeParseGet(nabla_op_context(module), nabla_ref(full))
              : mlirAttributeGetNull();
  if (!mlirAttributeIsNull(*out) && nablaAttributeIsAEncoding(*out) &&
      nabla_encoding_read(*out).kind == NABLA_KIND_PACKED)
    return true;
  nabla_error_at(module,
                 WHERE
                 "'%s' is no encoding that an argument can have; one is "
                 "nf4<block = 64>",
                 text);
  return false;
}

/* Returns the nabla.name of an argument; empty if it has none. */
static MlirStringRef argument_name(MlirOperation function, intptr_t index) {
  MlirAttribute all =
      mlirOperationGetAttributeByName(function, nabla_ref("arg_attrs"));
  MlirStringRef none = {NULL, 0};
  if (mlirAttributeIsNull(all)) return none;
  MlirAttribute name = mlirDictionaryAttrGetElementByName(
      mlirArrayAttrGetElement(all, index), nabla_ref("nabla.name"));
  return mlirAttributeIsNull(name) || !mlirAttributeIsAString(name)
             ? none
             : mlirStringAttrGetValue(name);
}

/* Returns the argument of this name or number; -1 after an error if there is
 * none. */
static intptr_t find_argument(const change *c, MlirStringRef name) {
  intptr_t count = mlirBlockGetNumArguments(c->entry);
  for (intptr_t i = 0; i < count; i++)
    if (name.length > 0 &&
        mlirStringRefEqual(argument_name(c->function, i), name))
      return i;
  intptr_t number = 0;
  bool is_number = name.length > 0 && name.length < 10;
  for (size_t i = 0; is_number && i < name.length; i++) {
    is_number = name.data[i] >= '0' && name.data[i] <= '9';
    number = number * 10 + (name.data[i] - '0');
  }
  if (is_number && number < count) return number;
  nabla_error_at(c->function,
                 WHERE
                 "no argument has the name, or number, '%.*s'; there are "
                 "%d, the first one is 0",
                 (int)name.length, name.data, (int)count);
  return -1;
}

static bool refuse(const change *c, MlirStringRef name, const char *why) {
  nabla_error_at(c->function, WHERE "argument '%.*s': %s", (int)name.length,
                 name.data, why);
  return false;
}

/* Makes the implicit type of an argument, or reports why there is none. */
static bool implicit_type(const change *c, MlirStringRef name, MlirType from,
                          MlirType *out) {
  char message[NABLA_MESSAGE_SIZE];
  int64_t shape[NABLA_MAX_RANK];
  if (nablaTypeIsAImplicit(from)) return refuse(c, name, "is implicit already");
  if (!mlirTypeIsARankedTensor(from)) return refuse(c, name, "is no tensor");
  nablaImplicitType stored = {.rank = nabla_array_rank(from),
                              .shape = shape,
                              .elementType = nabla_array_element(from),
                              .encoding = c->encoding};
  if (stored.rank > NABLA_MAX_RANK)
    return refuse(c, name, "has too many dimensions");
  for (intptr_t i = 0; i < stored.rank; i++) {
    shape[i] = nabla_array_dim(from, i);
    if (nabla_is_dynamic(shape[i]))
      return refuse(c, name,
                    "has a size that is not known: only a static shape is "
                    "packed");
  }
  if (!nablaHookImplicitVerify(&stored, message))
    return refuse(c, name, message);
  *out = nablaImplicitTypeGet(nabla_op_context(c->function), &stored);
  return true;
}

/* Changes the function's type to that of its arguments. */
static void update_type(const change *c) {
  MlirType types[1024];
  MlirAttribute old =
      mlirOperationGetAttributeByName(c->function, nabla_ref("function_type"));
  MlirType type = mlirTypeAttrGetValue(old);
  intptr_t in = mlirFunctionTypeGetNumInputs(type);
  intptr_t out = mlirFunctionTypeGetNumResults(type);
  MlirType *all = types;
  if (in + out > 1024) all = calloc((size_t)(in + out), sizeof *all);
  for (intptr_t i = 0; all && i < in; i++)
    all[i] = mlirValueGetType(mlirBlockGetArgument(c->entry, i));
  for (intptr_t i = 0; all && i < out; i++)
    all[in + i] = mlirFunctionTypeGetResult(type, i);
  if (all)
    mlirOperationSetAttributeByName(
        c->function, nabla_ref("function_type"),
        mlirTypeAttrGet(mlirFunctionTypeGet(nabla_op_context(c->function), in,
                                            all, out, all + in)));
  if (all != types) free(all);
}

static bool change_argument(const change *c, MlirStringRef name) {
  intptr_t index = find_argument(c, name);
  MlirType type;
  if (index < 0) return false;
  MlirValue argument = mlirBlockGetArgument(c->entry, index);
  if (!implicit_type(c, name, mlirValueGetType(argument), &type)) return false;
  mlirValueSetType(argument, type);
  update_type(c);
  nabla_op_spec spec = {"nabla.materialize", 1, &argument, -1, NULL, 0, NULL};
  MlirOperation dense =
      nabla_op_create(mlirBlockGetFirstOperation(c->entry), &spec);
  mlirValueReplaceAllUsesExcept(argument, mlirOperationGetResult(dense, 0), 1,
                                &dense);
  return nabla_implicitize_uses(dense);
}

/* Names are separated by commas. */
static bool change_all(const change *c, const char *names) {
  for (const char *at = names;;) {
    size_t length = strcspn(at, ",");
    if (!change_argument(c, mlirStringRefCreate(at, length))) return false;
    if (!at[length]) return true;
    at += length + 1;
  }
}

MlirLogicalResult nabla_run_implicitize(MlirOperation module,
                                        const nablaPassValue *values,
                                        void *prepared) {
  (void)prepared;
  change c = {.function = {NULL}};
  const char *function = values[0].string, *names = values[1].string;
  bool good = find_function(module, function, &c.function) &&
              check_calls(module, function) &&
              read_encoding(module, values[2].string, &c.encoding);
  if (!good) return mlirLogicalResultFailure();
  c.entry = mlirRegionGetFirstBlock(mlirOperationGetRegion(c.function, 0));
  return change_all(&c, names) ? mlirLogicalResultSuccess()
                               : mlirLogicalResultFailure();
}
