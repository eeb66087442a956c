/* A derivative in two functions: forward, which saves, and backward. Both are
 * copies of the function that does all: one without the operations of the pass
 * back, one in which saved values are arguments. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "dialect/ops.h"
#include "transforms/autodiff/rules.h"
#include "transforms/autodiff/saved.h"
#include "transforms/ir/functions.h"
#include "transforms/state/state.h"

typedef struct split {
  nabla_derived *d;
  MlirOperation original, joint;
  intptr_t arguments; /* of the original */
  nabla_saved s;
} split;

/* ---- names ---- */

static MlirAttribute entry(MlirOperation function, const char *list,
                           intptr_t index) {
  return mlirArrayAttrGetElement(
      mlirOperationGetAttributeByName(function, nabla_ref(list)), index);
}

/* {nabla.name = "saved.3.tanh"}: its number and operation. */
static MlirAttribute saved_name(const split *s, size_t i) {
  char text[96];
  MlirContext context = nabla_op_context(s->joint);
  MlirStringRef op = nabla_name(nabla_defining_op(s->s.values.values[i]));
  const size_t skip = nabla_op_find(nabla_defining_op(s->s.values.values[i]))
                          ? sizeof "nabla." - 1
                          : 0;
  (void)snprintf(text, sizeof text, "saved.%d.%.*s", (int)i,
                 (int)(op.length - skip), op.data + skip);
  MlirNamedAttribute name = nabla_named(
      context, "nabla.name", mlirStringAttrGet(context, nabla_ref(text)));
  return mlirDictionaryAttrGet(context, 1, &name);
}

/* A copy of the joint function, and its operations by the same numbers. */
typedef struct half {
  MlirOperation function, end;
  MlirBlock entry;
  nabla_block_index index;
  nabla_value_list values; /* what it returns */
  MlirAttribute *in, *out; /* attributes of arguments, of results */
  intptr_t in_count, out_count;
} half;

static bool half_init(half *h, const split *s, const char *suffix) {
  char name[512];
  MlirStringRef own = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(s->original, nabla_ref("sym_name")));
  *h = (half){0};
  (void)snprintf(name, sizeof name, "%.*s.%s", (int)own.length, own.data,
                 suffix);
  MlirOperation have = nabla_function_named(s->d->module, nabla_ref(name));
  if (!mlirOperationIsNull(have)) {
    nabla_error_at(have, "has the name of the derivative that is asked for");
    return false;
  }
  h->function = mlirOperationClone(s->joint);
  mlirOperationSetAttributeByName(
      h->function, nabla_ref("sym_name"),
      mlirStringAttrGet(nabla_op_context(s->joint), nabla_ref(name)));
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(s->joint), s->joint,
                                      h->function);
  h->entry = nabla_region_block(h->function, 0);
  h->end = nabla_block_end(h->entry);
  const size_t most = (size_t)mlirBlockGetNumArguments(h->entry) +
                      (size_t)mlirOperationGetNumOperands(h->end) +
                      s->s.values.count + 1;
  h->in = calloc(most, sizeof *h->in);
  h->out = calloc(most, sizeof *h->out);
  return nabla_block_index_init(&h->index, h->entry) && h->in && h->out;
}

/* The value of the copy for a saved value of the joint function. */
static MlirValue in_half(const half *h, const split *s, MlirValue value) {
  const size_t number = nabla_block_index_definition(&s->s.index, value);
  return mlirOperationGetResult(h->index.ops[number],
                                mlirOpResultGetResultNumber(value));
}

static bool half_finish(half *h, bool good) {
  MlirContext context = nabla_op_context(h->end);
  if (good) {
    mlirOperationSetOperands(h->end, (intptr_t)h->values.count,
                             h->values.values);
    mlirOperationSetAttributeByName(
        h->function, nabla_ref(NABLA_ARGUMENTS),
        mlirArrayAttrGet(context, h->in_count, h->in));
    mlirOperationSetAttributeByName(
        h->function, nabla_ref(NABLA_RESULTS),
        mlirArrayAttrGet(context, h->out_count, h->out));
  }
  nabla_value_list_deinit(&h->values);
  free(h->in);
  free(h->out);
  return good;
}

/* ---- the two functions ---- */

static bool make_forward(const split *s) {
  half h;
  bool good = half_init(&h, s, "forward");
  for (intptr_t i = 0; good && i < s->arguments; i++)
    h.in[h.in_count++] = entry(s->joint, NABLA_ARGUMENTS, i);
  for (intptr_t i = 0; good && i < s->s.results; i++) {
    nabla_value_list_add(&h.values, mlirOperationGetOperand(h.end, i));
    h.out[h.out_count++] = entry(s->joint, NABLA_RESULTS, i);
  }
  for (size_t i = 0; good && i < s->s.values.count; i++) {
    nabla_value_list_add(&h.values, in_half(&h, s, s->s.values.values[i]));
    h.out[h.out_count++] = saved_name(s, i);
  }
  good = good && !h.values.failed;
  if (good) {
    good = half_finish(&h, true);
    for (size_t i = h.index.count; i-- > s->s.mark;)
      nabla_op_erase(h.index.ops[i]);
    for (intptr_t i = mlirBlockGetNumArguments(h.entry); i-- > s->arguments;)
      mlirBlockEraseArgument(h.entry, (unsigned)i);
    nabla_unused_erase(s->d->module, h.entry);
    good = good && nabla_function_update_type(h.function);
  } else if (h.entry.ptr) {
    (void)half_finish(&h, false);
  }
  nabla_block_index_deinit(&h.index);
  return good;
}

static void replace_saved(const split *s, half *h) {
  for (size_t i = 0; i < s->s.values.count; i++) {
    MlirValue value = in_half(h, s, s->s.values.values[i]);
    MlirValue argument = mlirBlockInsertArgument(
        h->entry, s->arguments + (intptr_t)i, mlirValueGetType(value),
        mlirOperationGetLocation(h->function));
    mlirValueReplaceAllUsesOfWith(value, argument);
    h->in[h->in_count++] = saved_name(s, i);
  }
}

static bool make_backward(const split *s) {
  half h;
  bool good = half_init(&h, s, "backward");
  const intptr_t all =
      mlirBlockGetNumArguments(nabla_region_block(s->joint, 0));
  for (intptr_t i = 0; good && i < s->arguments; i++)
    h.in[h.in_count++] = entry(s->joint, NABLA_ARGUMENTS, i);
  if (good) replace_saved(s, &h);
  for (intptr_t i = s->arguments; good && i < all; i++)
    h.in[h.in_count++] = entry(s->joint, NABLA_ARGUMENTS, i);
  for (intptr_t i = s->s.results;
       good && i < mlirOperationGetNumOperands(h.end); i++) {
    nabla_value_list_add(&h.values, mlirOperationGetOperand(h.end, i));
    h.out[h.out_count++] = entry(s->joint, NABLA_RESULTS, i);
  }
  good = good && !h.values.failed;
  if (good) {
    good = half_finish(&h, true);
    for (size_t i = s->s.mark + 1; i-- > 0;)
      if (i == s->s.mark || !s->s.needed[i]) nabla_op_erase(h.index.ops[i]);
    nabla_unused_erase(s->d->module, h.entry);
    good = good && nabla_function_update_type(h.function);
  } else if (h.entry.ptr) {
    (void)half_finish(&h, false);
  }
  nabla_block_index_deinit(&h.index);
  return good;
}

bool nabla_derive_split(nabla_derived *d, const nabla_derive *how,
                        nabla_save save) {
  MlirBlock entry = nabla_region_block(how->function, 0);
  split s = {.d = d,
             .original = how->function,
             .arguments = mlirBlockGetNumArguments(entry),
             .joint = nabla_derive_vjp(d, how)};
  if (mlirOperationIsNull(s.joint)) return false;
  s.s = (nabla_saved){
      .d = d,
      .function = s.joint,
      .save = save,
      .results = mlirOperationGetNumOperands(nabla_block_end(entry))};
  const bool good =
      nabla_saved_find(&s.s) && make_forward(&s) && make_backward(&s);
  nabla_saved_deinit(&s.s);
  if (good) nabla_op_erase(s.joint);
  return good;
}
