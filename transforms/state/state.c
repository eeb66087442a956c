/* See state.h: attributes of states, and the checks that need no order. */
#include "transforms/state/state.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/verify/checks.h"

#define SHOWN 100 /* bytes of a name in an error */

static int shown(MlirStringRef name) {
  return name.length < SHOWN ? (int)name.length : SHOWN;
}

/* ---- attributes ---- */

static MlirAttribute attribute(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nabla_ref(name));
}

static MlirType function_type(MlirOperation function) {
  return mlirTypeAttrGetValue(attribute(function, "function_type"));
}

MlirAttribute nabla_state_attribute(MlirOperation function, const char *list,
                                    intptr_t index, const char *key) {
  MlirAttribute all = attribute(function, list);
  if (mlirAttributeIsNull(all) || index >= mlirArrayAttrGetNumElements(all))
    return mlirAttributeGetNull();
  return mlirDictionaryAttrGetElementByName(mlirArrayAttrGetElement(all, index),
                                            nabla_ref(key));
}

MlirStringRef nabla_state_name(MlirOperation function, const char *list,
                               intptr_t index) {
  MlirAttribute name =
      nabla_state_attribute(function, list, index, NABLA_STATE);
  if (mlirAttributeIsNull(name) || !mlirAttributeIsAString(name))
    return mlirStringRefCreate(NULL, 0);
  return mlirStringAttrGetValue(name);
}

MlirStringRef nabla_argument_name(MlirOperation function, intptr_t index,
                                  char fallback[32]) {
  MlirAttribute name =
      nabla_state_attribute(function, NABLA_ARGUMENTS, index, "nabla.name");
  if (!mlirAttributeIsNull(name) && mlirAttributeIsAString(name))
    return mlirStringAttrGetValue(name);
  (void)snprintf(fallback, 32, "arg%d", (int)index);
  return nabla_ref(fallback);
}

bool nabla_state_same(MlirStringRef a, MlirStringRef b) {
  return a.length == b.length && !memcmp(a.data, b.data, a.length);
}

static intptr_t count_of(MlirOperation function, const char *list) {
  MlirType type = function_type(function);
  return strcmp(list, NABLA_ARGUMENTS) ? mlirFunctionTypeGetNumResults(type)
                                       : mlirFunctionTypeGetNumInputs(type);
}

static MlirType type_at(MlirOperation function, const char *list,
                        intptr_t index) {
  MlirType type = function_type(function);
  return strcmp(list, NABLA_ARGUMENTS) ? mlirFunctionTypeGetResult(type, index)
                                       : mlirFunctionTypeGetInput(type, index);
}

bool nabla_state_has(MlirOperation function) {
  for (intptr_t i = 0; i < count_of(function, NABLA_ARGUMENTS); i++)
    if (nabla_state_name(function, NABLA_ARGUMENTS, i).data) return true;
  return false;
}

static intptr_t find(MlirOperation function, const char *list,
                     MlirStringRef name) {
  for (intptr_t i = 0; i < count_of(function, list); i++) {
    MlirStringRef at = nabla_state_name(function, list, i);
    if (at.data && nabla_state_same(at, name)) return i;
  }
  return -1;
}

intptr_t nabla_state_argument(MlirOperation function, MlirStringRef name) {
  return find(function, NABLA_ARGUMENTS, name);
}

/* The dictionary without the entry `key`. */
static MlirAttribute without(MlirAttribute one, MlirIdentifier key) {
  const intptr_t had = mlirDictionaryAttrGetNumElements(one);
  MlirNamedAttribute *kept = calloc((size_t)had + 1, sizeof *kept);
  if (!kept) return one;
  intptr_t count = 0;
  for (intptr_t i = 0; i < had; i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(one, i);
    if (!mlirIdentifierEqual(entry.name, key)) kept[count++] = entry;
  }
  MlirAttribute made =
      mlirDictionaryAttrGet(mlirAttributeGetContext(one), count, kept);
  free(kept);
  return made;
}

void nabla_state_strip(MlirOperation function, const char *list,
                       const char *key) {
  MlirContext context = nabla_op_context(function);
  MlirAttribute old = attribute(function, list);
  if (mlirAttributeIsNull(old)) return;
  const intptr_t count = mlirArrayAttrGetNumElements(old);
  MlirAttribute *all = calloc((size_t)count + 1, sizeof *all);
  if (!all) return;
  for (intptr_t i = 0; i < count; i++)
    all[i] = without(mlirArrayAttrGetElement(old, i),
                     mlirIdentifierGet(context, nabla_ref(key)));
  mlirOperationSetAttributeByName(function, nabla_ref(list),
                                  mlirArrayAttrGet(context, count, all));
  free(all);
}

/* ---- one state ---- */

/* "argument #1", "result #0" */
static const char *noun(const char *list) {
  return strcmp(list, NABLA_ARGUMENTS) ? "result" : "argument";
}

static bool check_text(MlirOperation function, const char *list,
                       intptr_t index) {
  return nabla_name_check(
      function, nabla_state_attribute(function, list, index, NABLA_STATE),
      NABLA_STATE, noun(list), index, "cache");
}

static bool check_type(MlirOperation function, const char *list, intptr_t index,
                       MlirStringRef name) {
  MlirType type = type_at(function, list, index);
  if (mlirTypeIsARankedTensor(type) && mlirShapedTypeHasStaticShape(type))
    return true;
  nabla_text text = {0};
  nabla_text_add_type(&text, type);
  nabla_error_at(function,
                 "has the state '%.*s' of type %.100s, %s #%d: a state is a "
                 "dense tensor whose sizes are known; give it the largest size",
                 shown(name), name.data, text.data ? text.data : "", noun(list),
                 (int)index);
  nabla_text_deinit(&text);
  return false;
}

static bool check_once(MlirOperation function, const char *list, intptr_t index,
                       MlirStringRef name) {
  const intptr_t first = find(function, list, name);
  if (first == index) return true;
  nabla_error_at(function,
                 "has two %ss for the state '%.*s', #%d and #%d: give each "
                 "state a name of its own",
                 noun(list), shown(name), name.data, (int)first, (int)index);
  return false;
}

/* Checks the attribute of one argument or result. */
static bool check_one(MlirOperation function, const char *list,
                      intptr_t index) {
  if (!check_text(function, list, index)) return false;
  MlirStringRef name = nabla_state_name(function, list, index);
  return !name.data || (check_type(function, list, index, name) &&
                        check_once(function, list, index, name));
}

/* The result has an argument of its type. */
static bool check_pair(MlirOperation function, intptr_t result) {
  MlirStringRef name = nabla_state_name(function, NABLA_RESULTS, result);
  if (!name.data) return true;
  const intptr_t argument = nabla_state_argument(function, name);
  if (argument < 0) {
    nabla_error_at(function,
                   "has result #%d for the state '%.*s', which no argument is: "
                   "add {nabla.state = \"%.*s\"} to the argument that it "
                   "replaces",
                   (int)result, shown(name), name.data, shown(name), name.data);
    return false;
  }
  MlirType from = type_at(function, NABLA_ARGUMENTS, argument);
  MlirType to = type_at(function, NABLA_RESULTS, result);
  if (mlirTypeEqual(from, to)) return true;
  nabla_text one = {0}, other = {0};
  nabla_text_add_type(&one, from);
  nabla_text_add_type(&other, to);
  nabla_error_at(function,
                 "has the state '%.*s' as argument #%d of type %.80s and as "
                 "result #%d of type %.80s: both are the same",
                 shown(name), name.data, (int)argument,
                 one.data ? one.data : "", (int)result,
                 other.data ? other.data : "");
  nabla_text_deinit(&one);
  nabla_text_deinit(&other);
  return false;
}

/* ---- a function ---- */

static bool check_list(MlirOperation function, const char *list) {
  for (intptr_t i = 0; i < count_of(function, list); i++)
    if (!check_one(function, list, i)) return false;
  return true;
}

static bool is_private(MlirOperation function) {
  MlirAttribute seen = attribute(function, "sym_visibility");
  return !mlirAttributeIsNull(seen) &&
         nabla_state_same(mlirStringAttrGetValue(seen), nabla_ref("private"));
}

static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

/* Nothing in the module calls the function: a session gives it its states. */
static bool check_no_calls(MlirOperation module, MlirOperation function) {
  nabla_op_list calls = nabla_ops_collect(module, is_call);
  MlirStringRef name = mlirStringAttrGetValue(attribute(function, "sym_name"));
  bool good = !calls.failed;
  for (size_t i = 0; good && i < calls.count; i++) {
    good = !nabla_state_same(
        mlirFlatSymbolRefAttrGetValue(attribute(calls.ops[i], "callee")), name);
    if (!good)
      nabla_error_at(calls.ops[i],
                     "calls '%.*s', which has states: move what both do to a "
                     "private function, which takes the array as an argument "
                     "and gives it as a result",
                     shown(name), name.data);
  }
  nabla_op_list_deinit(&calls);
  return good;
}

bool nabla_state_check(MlirOperation module, MlirOperation function) {
  if (!check_list(function, NABLA_ARGUMENTS) ||
      !check_list(function, NABLA_RESULTS))
    return false;
  const intptr_t results = count_of(function, NABLA_RESULTS);
  for (intptr_t i = 0; i < results; i++)
    if (!check_pair(function, i)) return false;
  if (!nabla_state_has(function)) return true;
  if (is_private(function)) {
    nabla_error_at(function,
                   "is private and has states: only public functions have "
                   "them; their values are passed on as arguments and results");
    return false;
  }
  if (!check_no_calls(module, function)) return false;
  for (intptr_t i = 0; i < results; i++)
    if (nabla_state_name(function, NABLA_RESULTS, i).data &&
        !nabla_state_check_order(module, function, i))
      return false;
  return true;
}

/* ---- several functions ---- */

static void report_shared(MlirOperation first, MlirOperation second,
                          MlirStringRef name, MlirType one, MlirType other) {
  nabla_text texts[2] = {{0}, {0}};
  nabla_text_add_type(&texts[0], one);
  nabla_text_add_type(&texts[1], other);
  MlirStringRef who = mlirStringAttrGetValue(attribute(first, "sym_name"));
  nabla_error_at(second,
                 "has the state '%.*s' of type %.80s; in '%.*s' it is %.80s: "
                 "functions share a state by its name",
                 shown(name), name.data, texts[1].data ? texts[1].data : "",
                 shown(who), who.data, texts[0].data ? texts[0].data : "");
  nabla_text_deinit(&texts[0]);
  nabla_text_deinit(&texts[1]);
}

/* Checks the states of one function against the functions before it. */
static bool check_against(const nabla_op_list *functions, size_t second) {
  MlirOperation function = functions->ops[second];
  for (intptr_t i = 0; i < count_of(function, NABLA_ARGUMENTS); i++) {
    MlirStringRef name = nabla_state_name(function, NABLA_ARGUMENTS, i);
    for (size_t f = 0; name.data && f < second; f++) {
      const intptr_t at = nabla_state_argument(functions->ops[f], name);
      if (at < 0) continue;
      MlirType one = type_at(functions->ops[f], NABLA_ARGUMENTS, at);
      MlirType other = type_at(function, NABLA_ARGUMENTS, i);
      if (mlirTypeEqual(one, other)) break;
      report_shared(functions->ops[f], function, name, one, other);
      return false;
    }
  }
  return true;
}

bool nabla_state_check_shared(const nabla_op_list *functions) {
  for (size_t i = 1; i < functions->count; i++)
    if (!check_against(functions, i)) return false;
  return true;
}
