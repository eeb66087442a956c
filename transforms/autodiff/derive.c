/* See derive.h: copies of functions, prepared for their derivatives. */
#include "transforms/autodiff/derive.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "transforms/autodiff/forward.h"
#include "transforms/autodiff/loops.h"
#include "transforms/autodiff/reverse.h"
#include "transforms/autodiff/shard_map.h"
#include "transforms/composite/decompositions.h"
#include "transforms/dispatch/rules.h"
#include "transforms/ir/build_control.h"
#include "transforms/ir/components.h"
#include "transforms/ir/functions.h"
#include "transforms/state/state.h"

enum { MAX_DEPTH = 64 }; /* of calls: recursion has no derivative */

void nabla_derived_deinit(nabla_derived *d) {
  for (size_t i = 0; i < d->count; i++) free(d->rows[i].mask);
  free(d->rows);
  nabla_value_list_deinit(&d->dead);
  *d = (nabla_derived){0};
}

void nabla_derived_replace(nabla_derived *d, MlirOperation op,
                           const MlirValue *values) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i), values[i]);
  if (mlirOperationGetNumResults(op))
    nabla_value_list_add(&d->dead, mlirOperationGetResult(op, 0));
}

/* ---- the copy ---- */

/* A copy in the making. */
typedef struct copy {
  nabla_derived *d;
  const nabla_derive *how;
  MlirOperation function, end; /* end: the return */
  MlirBlock entry;
  intptr_t arguments, results; /* of the original */
  MlirValue *wrt;              /* the values that `how->wrt` names */
  nabla_value_map varied;
  size_t dead; /* operations that were to be erased before */
} copy;

static bool take_name(const copy *c, char *out, size_t size) {
  MlirStringRef name = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(c->how->function, nabla_ref("sym_name")));
  (void)snprintf(out, size, "%.*s.%s", (int)name.length, name.data,
                 c->how->suffix);
  for (int i = 1;; i++) {
    MlirOperation have = nabla_function_named(c->d->module, nabla_ref(out));
    if (mlirOperationIsNull(have)) return true;
    if (c->how->exact) {
      nabla_error_at(have, "has the name of the derivative that is asked for");
      return false;
    }
    (void)snprintf(out, size, "%.*s.%s_%d", (int)name.length, name.data,
                   c->how->suffix, i);
  }
}

static bool begin(copy *c, nabla_derived *d, const nabla_derive *how) {
  char name[512];
  *c = (copy){.d = d, .how = how, .dead = d->dead.count};
  if (++d->depth > MAX_DEPTH) {
    nabla_error_at(how->function,
                   "cannot be differentiated: calls are nested more than %d "
                   "deep",
                   MAX_DEPTH);
    return false;
  }
  if (!take_name(c, name, sizeof name)) return false;
  MlirContext context = nabla_op_context(how->function);
  c->function = mlirOperationClone(how->function);
  mlirOperationSetAttributeByName(c->function, nabla_ref("sym_name"),
                                  mlirStringAttrGet(context, nabla_ref(name)));
  if (!how->exact)
    mlirOperationSetAttributeByName(
        c->function, nabla_ref("sym_visibility"),
        mlirStringAttrGet(context, nabla_ref("private")));
  mlirBlockInsertOwnedOperationAfter(mlirOperationGetBlock(how->function),
                                     how->function, c->function);
  static const char *const own[] = {NABLA_VJP, NABLA_JVP,
                                    NABLA_STRAIGHT_THROUGH};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    (void)mlirOperationRemoveAttributeByName(c->function, nabla_ref(own[i]));
  c->entry = nabla_region_block(c->function, 0);
  c->end = nabla_block_end(c->entry);
  c->arguments = mlirBlockGetNumArguments(c->entry);
  c->results = mlirOperationGetNumOperands(c->end);
  c->wrt = calloc(how->count + 1, sizeof *c->wrt);
  return c->wrt != NULL;
}

/* Erases what the derivative has left unused. */
static void clean(const copy *c) {
  nabla_value_list *dead = &c->d->dead;
  while (dead->count > c->dead)
    nabla_op_erase(nabla_defining_op(dead->values[--dead->count]));
  if (!c->how->marked) nabla_unused_erase(c->d->module, c->entry);
}

static MlirOperation finish(copy *c, bool good) {
  c->d->depth--;
  if (good) {
    clean(c);
  } else {
    c->d->dead.count = c->dead;
    c->function = (MlirOperation){NULL};
  }
  nabla_value_map_deinit(&c->varied);
  free(c->wrt);
  return c->function;
}

/* ---- products with a lora, composites ---- */

/* The components of each lora that is an argument, from one nabla.unpack at the
 * beginning. */
static bool unpack_loras(copy *c) {
  MlirOperation first = mlirBlockGetFirstOperation(c->entry);
  for (size_t i = 0; i < c->how->count; i++) {
    const nabla_wrt wrt = c->how->wrt[i];
    MlirValue argument = mlirBlockGetArgument(c->entry, wrt.argument);
    c->wrt[i] = argument;
    if (!wrt.component) continue;
    for (size_t j = 0; j < i; j++)
      if (c->how->wrt[j].argument == wrt.argument)
        c->wrt[i] =
            mlirOperationGetResult(nabla_defining_op(c->wrt[j]), wrt.component);
    if (!mlirValueEqual(c->wrt[i], argument)) continue;
    nabla_op_spec spec = {"nabla.unpack", 1, &argument, -1, NULL, 0, NULL};
    MlirOperation unpack = nabla_op_create(first, &spec);
    if (mlirOperationIsNull(unpack)) return false;
    c->wrt[i] = mlirOperationGetResult(unpack, wrt.component);
  }
  return true;
}

/* The other results of nabla.unpack become those of the first of an array. */
static void join_unpacks(const copy *c) {
  for (size_t i = 0; i < c->how->count; i++) {
    if (!c->how->wrt[i].component) continue;
    MlirOperation own = nabla_defining_op(c->wrt[i]), other = {NULL};
    MlirValue array = mlirOperationGetOperand(own, 0);
    for (MlirOpOperand use = mlirValueGetFirstUse(array);
         !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
      other = mlirOpOperandGetOwner(use);
      if (!nabla_is(other, "nabla.unpack") || mlirOperationEqual(other, own))
        continue;
      for (intptr_t j = 0; j < mlirOperationGetNumResults(other); j++)
        mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(other, j),
                                      mlirOperationGetResult(own, j));
    }
  }
}

static bool is_lora(MlirValue value) {
  MlirType type = mlirValueGetType(value);
  return nablaTypeIsAImplicit(type) &&
         nabla_implicit_encoding(type).kind == NABLA_KIND_LORA;
}

nabla_rule_outcome nabla_apply_dot_lora_lhs(MlirOperation op, const char **why);
nabla_rule_outcome nabla_apply_dot_lora_rhs(MlirOperation op, const char **why);

static bool is_dot(MlirOperation op) {
  return nabla_is(op, "nabla.dot_general");
}

static bool take_apart(MlirOperation op, void *self) {
  const char *why = "";
  (void)self;
  for (intptr_t i = 0; i < 2; i++) {
    if (!is_lora(mlirOperationGetOperand(op, i))) continue;
    const nabla_rule_outcome outcome = i ? nabla_apply_dot_lora_rhs(op, &why)
                                         : nabla_apply_dot_lora_lhs(op, &why);
    if (outcome == NABLA_RULE_DECLINED)
      nabla_error_at(op, "has no derivative by the #nabla.lora: %s", why);
    return outcome == NABLA_RULE_APPLIED;
  }
  return true;
}

typedef struct parts {
  const nabla_value_map *varied;
  const copy *copy;
} parts;

/* A composite of what varies, or of a lora, whose product may vary. */
static bool is_wanted(const nabla_value_map *varied, MlirOperation op) {
  bool wanted = nabla_varied_uses(varied, op);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    wanted = wanted || is_lora(mlirOperationGetOperand(op, i));
  return wanted;
}

/* All are found before the first one is replaced: what takes its place is not
 * in the map. */
static bool decompose(const copy *c, const nabla_value_map *varied) {
  nabla_op_list all = nabla_ops_collect(c->function, nabla_is_composite);
  bool good = !all.failed;
  size_t count = 0;
  for (size_t i = 0; good && i < all.count; i++)
    if (is_wanted(varied, all.ops[i])) all.ops[count++] = all.ops[i];
  for (size_t i = 0; good && i < count; i++) good = nabla_decompose(all.ops[i]);
  nabla_op_list_deinit(&all);
  return good;
}

static void mark(copy *c, nabla_value_map *varied) {
  for (size_t i = 0; i < c->how->count; i++)
    nabla_varied_add(varied, c->wrt[i]);
  nabla_varied_mark(varied, c->entry);
}

static bool is_remat(MlirOperation op) { return nabla_is(op, "nabla.remat"); }

/* A tangent is computed beside its value: nothing runs again. */
static bool open_remat(MlirOperation op, void *self) {
  (void)self;
  return nabla_remat_open(op);
}

/* A loop that varies, as reverse mode can go back through it. */
static bool change_loop(MlirOperation op, void *self) {
  const parts *p = self;
  if (!nabla_varied_uses(p->varied, op)) return true;
  if (nabla_is(op, "nabla.while") &&
      nabla_has_effects(p->copy->d->module, op)) {
    nabla_error_at(op,
                   "has effects, which its derivative would have twice: "
                   "declare its custom calls pure, or move them outside");
    return false;
  }
  return nabla_loop_prepare(op);
}

static bool each(const copy *c, bool (*want)(MlirOperation),
                 bool (*change)(MlirOperation, void *), void *self) {
  return mlirLogicalResultIsSuccess(
      nabla_ops_each(c->function, want, change, self));
}

/* Marks again, with loops that took the place of others. */
static bool remark(copy *c, nabla_value_map *varied) {
  mark(c, varied);
  return !varied->failed;
}

/* What is derived consists of operations with rules. */
static bool prepare(copy *c, bool reverse) {
  bool loras = false;
  nabla_value_map before = {0};
  if (!unpack_loras(c)) return false;
  for (size_t i = 0; i < c->how->count; i++) {
    loras = loras || c->how->wrt[i].component;
    if (c->how->wrt[i].component) /* the array depends on its components */
      nabla_varied_add(&before,
                       mlirBlockGetArgument(c->entry, c->how->wrt[i].argument));
  }
  mark(c, &before);
  parts p = {&before, c};
  bool good = (reverse ? each(c, nabla_loop_wants, change_loop, &p)
                       : each(c, is_remat, open_remat, NULL)) &&
              remark(c, &before) && decompose(c, &before) &&
              each(c, is_dot, take_apart, NULL);
  nabla_value_map_deinit(&before);
  if (!good) return false;
  if (loras) join_unpacks(c);
  mark(c, &c->varied);
  return !c->varied.failed;
}

/* ---- types and names ---- */

static MlirAttribute dictionary(MlirOperation function, const char *list,
                                intptr_t index) {
  MlirAttribute all =
      mlirOperationGetAttributeByName(function, nabla_ref(list));
  if (mlirAttributeIsNull(all))
    return mlirDictionaryAttrGet(nabla_op_context(function), 0, NULL);
  return mlirArrayAttrGetElement(all, index);
}

/* {nabla.name = "NAME.WHAT"} where argument or result `index` has a name. */
static MlirAttribute named(MlirOperation function, const char *list,
                           intptr_t index, const char *what) {
  char text[512];
  MlirContext context = nabla_op_context(function);
  MlirAttribute name = mlirDictionaryAttrGetElementByName(
      dictionary(function, list, index), nabla_ref("nabla.name"));
  if (mlirAttributeIsNull(name) || !mlirAttributeIsAString(name))
    return mlirDictionaryAttrGet(context, 0, NULL);
  MlirStringRef own = mlirStringAttrGetValue(name);
  (void)snprintf(text, sizeof text, "%.*s.%s", (int)own.length, own.data, what);
  MlirNamedAttribute entry = nabla_named(
      context, "nabla.name", mlirStringAttrGet(context, nabla_ref(text)));
  return mlirDictionaryAttrGet(context, 1, &entry);
}

/* Attributes of arguments, or results: those of the original, then added ones.
 */
typedef struct attributes {
  MlirAttribute *list;
  intptr_t count;
} attributes;

static bool attributes_init(attributes *a, intptr_t most) {
  *a = (attributes){calloc((size_t)most + 1, sizeof *a->list), 0};
  return a->list != NULL;
}

static void set_attributes(MlirOperation function, const char *key,
                           attributes *a) {
  mlirOperationSetAttributeByName(
      function, nabla_ref(key),
      mlirArrayAttrGet(nabla_op_context(function), a->count, a->list));
  free(a->list);
}

/* Values that the function returns, with their attributes. */
typedef struct outputs {
  nabla_value_list values;
  attributes attributes;
} outputs;

static void give(outputs *o, MlirValue value, MlirAttribute attribute) {
  nabla_value_list_add(&o->values, value);
  o->attributes.list[o->attributes.count++] = attribute;
}

static bool give_results(const copy *c, outputs *o) {
  if (!attributes_init(&o->attributes,
                       2 * c->results + (intptr_t)c->how->count))
    return false;
  for (intptr_t i = 0; i < c->results && !c->how->only; i++)
    give(o, mlirOperationGetOperand(c->end, i),
         dictionary(c->how->function, NABLA_RESULTS, i));
  return true;
}

/* Makes them what the function returns if all went well; frees the lists. */
static bool set_outputs(const copy *c, outputs *o, attributes *arguments,
                        bool good) {
  good = good && !o->values.failed;
  for (size_t i = 0; i < o->values.count; i++)
    good = good && !mlirValueIsNull(o->values.values[i]);
  if (good) {
    mlirOperationSetOperands(c->end, (intptr_t)o->values.count,
                             o->values.values);
    good = nabla_function_update_type(c->function);
    set_attributes(c->function, NABLA_RESULTS, &o->attributes);
    set_attributes(c->function, NABLA_ARGUMENTS, arguments);
  } else {
    free(o->attributes.list);
    free(arguments->list);
  }
  nabla_value_list_deinit(&o->values);
  return good;
}

static bool arguments_init(const copy *c, attributes *a, intptr_t more) {
  if (!attributes_init(a, c->arguments + more)) return false;
  for (intptr_t i = 0; i < c->arguments; i++)
    a->list[a->count++] = dictionary(c->how->function, NABLA_ARGUMENTS, i);
  return true;
}

static MlirValue add_argument(const copy *c, MlirValue like) {
  return mlirBlockAddArgument(c->entry,
                              nabla_dense_type(mlirValueGetType(like)),
                              mlirOperationGetLocation(c->function));
}

static const char *component_name(int component) {
  return component == 1 ? "a.gradient" : "b.gradient";
}

/* ---- reverse mode ---- */

static bool is_given(const copy *c, intptr_t result) {
  MlirValue value = mlirOperationGetOperand(c->end, result);
  if (!nabla_diff_has(mlirValueGetType(value))) return false;
  return !c->how->results || c->how->results[result];
}

/* Behind it stand the operations of the pass back. */
static void mark_end(const copy *c) {
  const nabla_builder b = {c->end};
  MlirContext context = nabla_op_context(c->function);
  mlirOperationSetAttributeByName(nabla_defining_op(nabla_build_index(&b, 0)),
                                  nabla_ref(NABLA_REVERSE_MARK),
                                  mlirUnitAttrGet(context));
}

/* The gradient through a call of nabla.check_finite, which says what it is of.
 */
static MlirValue checked(const copy *c, MlirValue gradient, nabla_wrt wrt) {
  char text[512], fallback[32];
  MlirValue operands[NABLA_MAX_RANK + 1] = {gradient};
  if (mlirValueIsNull(gradient) || !c->how->finite) return gradient;
  const nabla_builder b = {c->end};
  MlirContext context = nabla_op_context(c->end);
  const nabla_built_shape shape = nabla_build_shape_of(&b, gradient);
  intptr_t count = 1;
  for (intptr_t i = 0; i < shape.rank; i++)
    if (nabla_is_dynamic(shape.dims[i])) operands[count++] = shape.sizes[i];
  MlirStringRef name =
      nabla_argument_name(c->how->function, wrt.argument, fallback);
  MlirStringRef function = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(c->how->function, nabla_ref("sym_name")));
  (void)snprintf(text, sizeof text, "the gradient of @%.*s to '%.*s%s'",
                 (int)function.length, function.data, (int)name.length,
                 name.data,
                 !wrt.component       ? ""
                 : wrt.component == 1 ? ".a"
                                      : ".b");
  const MlirNamedAttribute list[] = {
      nabla_named(context, "target",
                  mlirStringAttrGet(context, nabla_ref("nabla.check_finite"))),
      nabla_named(context, "label",
                  mlirStringAttrGet(context, nabla_ref(text)))};
  MlirType type = mlirValueGetType(gradient);
  nabla_op_spec spec = {
      "nabla.custom_call", count, operands, 1, &type, 2, list};
  return nabla_build_op(&b, &spec);
}

static bool pull(copy *c) {
  nabla_reverse r = {.b = {c->end}, .varied = &c->varied, .derived = c->d};
  attributes arguments = {0};
  outputs o = {0};
  bool good = arguments_init(c, &arguments, c->results) && give_results(c, &o);
  for (intptr_t i = 0; good && i < c->results; i++) {
    if (!is_given(c, i)) continue;
    MlirValue value = mlirOperationGetOperand(c->end, i);
    nabla_reverse_add(&r, value, add_argument(c, value));
    arguments.list[arguments.count++] =
        nabla_divide_as(c->how->function, NABLA_RESULTS, i,
                        named(c->how->function, NABLA_RESULTS, i, "cotangent"));
  }
  if (good && c->how->marked) mark_end(c);
  good = good && nabla_reverse_block(&r, c->entry);
  /* operations may have been replaced */
  for (intptr_t i = 0; good && i < c->results && !c->how->only; i++)
    o.values.values[i] = mlirOperationGetOperand(c->end, i);
  for (size_t i = 0; good && i < c->how->count; i++) {
    const nabla_wrt wrt = c->how->wrt[i];
    MlirValue gradient = nabla_reverse_sum_or_zeros(&r, c->wrt[i]);
    if (!wrt.component)
      nabla_gradient_divide(c->how->function, wrt.argument, gradient);
    give(&o, checked(c, gradient, wrt),
         named(c->how->function, NABLA_ARGUMENTS, wrt.argument,
               wrt.component ? component_name(wrt.component) : "gradient"));
  }
  good = set_outputs(c, &o, &arguments, good);
  nabla_value_map_deinit(&r.sums);
  return good;
}

MlirOperation nabla_derive_vjp(nabla_derived *d, const nabla_derive *how) {
  copy c;
  return finish(&c, begin(&c, d, how) && prepare(&c, true) && pull(&c));
}

/* ---- forward mode ---- */

static bool push(copy *c) {
  nabla_forward f = {.varied = &c->varied, .derived = c->d};
  attributes arguments = {0};
  outputs o = {0};
  bool good = arguments_init(c, &arguments, (intptr_t)c->how->count);
  for (size_t i = 0; good && i < c->how->count; i++) {
    const nabla_wrt wrt = c->how->wrt[i];
    nabla_value_map_set(&f.tangents, c->wrt[i], add_argument(c, c->wrt[i]));
    arguments.list[arguments.count++] =
        named(c->how->function, NABLA_ARGUMENTS, wrt.argument,
              !wrt.component       ? "tangent"
              : wrt.component == 1 ? "a.tangent"
                                   : "b.tangent");
    if (!wrt.component)
      arguments.list[arguments.count - 1] =
          nabla_divide_as(c->how->function, NABLA_ARGUMENTS, wrt.argument,
                          arguments.list[arguments.count - 1]);
  }
  good = good && nabla_forward_block(&f, c->entry) && give_results(c, &o);
  nabla_builder b = {c->end};
  for (intptr_t i = 0; good && i < c->results; i++)
    if (is_given(c, i))
      give(&o,
           nabla_forward_or_zeros(&f, &b, mlirOperationGetOperand(c->end, i)),
           named(c->how->function, NABLA_RESULTS, i, "tangent"));
  good = set_outputs(c, &o, &arguments, good);
  nabla_value_map_deinit(&f.tangents);
  return good;
}

MlirOperation nabla_derive_jvp(nabla_derived *d, const nabla_derive *how) {
  copy c;
  return finish(&c, begin(&c, d, how) && prepare(&c, false) && push(&c));
}
