/* See call_rules.h: the list of rules, and the checks of what they give. */
#include "transforms/autodiff/call_rules.h"

#include <mlir-c/BuiltinAttributes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/base/require.h"

#define MAX_TARGETS 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nabla_call_rules added[MAX_TARGETS]; /* under `lock`; texts owned */
static size_t added_count;

/* ---- adding ---- */

static bool is_batch_word(const char *word) {
  static const char *const words[] = {"scan", "expand", "broadcast"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i], word)) return true;
  return false;
}

static nabla_status check(const nabla_call_rules *rules, nabla_diag *diag) {
  NABLA_REQUIRE_SIZE(rules, "a nabla_call_rules", diag);
  if (!rules->target || !*rules->target)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "rules of custom calls need a target");
  if (rules->forward && !rules->vjp)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "rules of '%.60s': forward without vjp", rules->target);
  if (rules->batch_word && !is_batch_word(rules->batch_word))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "rules of '%.60s': batch_word '%.40s' is none of scan, "
                      "expand, broadcast",
                      rules->target, rules->batch_word);
  return NABLA_OK;
}

static bool is_taken(const char *target) {
  for (size_t i = 0; i < added_count; i++)
    if (!strcmp(added[i].target, target)) return true;
  return false;
}

static bool copy(const nabla_call_rules *rules, nabla_call_rules *out) {
  *out = *rules;
  char *target = strdup(rules->target);
  char *word = rules->batch_word ? strdup(rules->batch_word) : NULL;
  if (!target || (rules->batch_word && !word)) {
    free(target);
    free(word);
    return false;
  }
  out->target = target;
  out->batch_word = word;
  return true;
}

nabla_status nabla_add_call_rules(const nabla_call_rules *rules,
                                  nabla_diag *diag) {
  NABLA_REQUIRE(rules, diag);
  NABLA_TRY(check(rules, diag));
  nabla_status status = NABLA_OK;
  pthread_mutex_lock(&lock);
  if (is_taken(rules->target))
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "the target '%.60s' has rules already", rules->target);
  else if (added_count == MAX_TARGETS)
    status = nabla_fail(diag, NABLA_TOO_LARGE,
                        "rules for %d targets were added already", MAX_TARGETS);
  else if (!copy(rules, &added[added_count]))
    status = nabla_fail(diag, NABLA_NO_MEMORY, "no memory for rules");
  else
    added_count++;
  pthread_mutex_unlock(&lock);
  return status;
}

const nabla_call_rules *nabla_call_rules_find(MlirOperation op) {
  const nabla_call_rules *out = NULL;
  if (!nabla_is(op, "nabla.custom_call")) return NULL;
  MlirAttribute target =
      mlirOperationGetAttributeByName(op, nabla_ref("target"));
  MlirStringRef name = mlirStringAttrGetValue(target);
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < added_count && !out; i++)
    if (nabla_text_equals(name, added[i].target)) out = &added[i];
  pthread_mutex_unlock(&lock);
  return out;
}

/* ---- using ---- */

static bool wrong(const nabla_call_rule *rule, const char *format,
                  const char *more) {
  char text[200];
  (void)snprintf(text, sizeof text, format, more);
  nabla_error_at(rule->op, "the rule %s of custom calls of '%s' %s", rule->name,
                 rule->rules->target, text);
  return false;
}

bool nabla_call_rule_run(nabla_call_rule *rule, MlirOperation before) {
  rule->frame.struct_size = sizeof rule->frame;
  rule->frame.self = rule->rules->self;
  rule->frame.op = rule->op;
  rule->frame.before = before;
  rule->frame.operand_count = (size_t)mlirOperationGetNumOperands(rule->op);
  rule->frame.result_count = (size_t)mlirOperationGetNumResults(rule->op);
  return rule->apply(&rule->frame) || wrong(rule, "failed%s", "");
}

bool nabla_call_rule_gives(const nabla_call_rule *rule, size_t index,
                           const char *noun, MlirType like, bool may_lack) {
  char where[64];
  MlirValue value = rule->frame.out[index];
  (void)snprintf(where, sizeof where, "%s #%zu", noun, index);
  if (mlirValueIsNull(value))
    return may_lack || wrong(rule, "gives no %s", where);
  MlirType want = nabla_dense_type(like), have = mlirValueGetType(value);
  if (mlirTypeEqual(have, want)) return true;
  nabla_text text = {0};
  nabla_text_add(&text, "gives %s ", noun);
  nabla_text_add(&text, "#%zu as ", index);
  nabla_text_add_type(&text, have);
  nabla_text_add(&text, ", not ");
  nabla_text_add_type(&text, want);
  wrong(rule, "%s", text.data ? text.data : "gives another type");
  nabla_text_deinit(&text);
  return false;
}

/* ---- values that were not saved ---- */

typedef struct closed {
  const nabla_call_rule *rule;
  MlirOperation first, before;
  bool good;
} closed;

static bool in_list(size_t count, const MlirValue *list, MlirValue value) {
  for (size_t i = 0; i < count; i++)
    if (mlirValueEqual(list[i], value)) return true;
  return false;
}

/* Whether a value was made behind `first`, or in a region of what was. */
static bool is_own(const closed *c, MlirValue value) {
  MlirBlock block = mlirOperationGetBlock(c->before);
  MlirOperation at =
      mlirValueIsABlockArgument(value)
          ? mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(value))
          : nabla_defining_op(value);
  while (!mlirOperationIsNull(at) &&
         !mlirBlockEqual(mlirOperationGetBlock(at), block))
    at = mlirOperationGetParentOperation(at);
  if (mlirOperationIsNull(at)) return false;
  MlirOperation own = mlirOperationIsNull(c->first)
                          ? mlirBlockGetFirstOperation(block)
                          : mlirOperationGetNextInBlock(c->first);
  for (; !mlirOperationEqual(own, c->before);
       own = mlirOperationGetNextInBlock(own))
    if (mlirOperationEqual(own, at)) return true;
  return false;
}

static MlirWalkResult visit(MlirOperation op, void *self) {
  closed *c = self;
  const nabla_call_rule_frame *f = &c->rule->frame;
  for (intptr_t i = 0; c->good && i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    c->good = in_list(f->saved_count, f->saved, value) ||
              in_list(f->result_count, f->given, value) || is_own(c, value);
  }
  return c->good ? MlirWalkResultAdvance : MlirWalkResultInterrupt;
}

bool nabla_call_rule_is_closed(const nabla_call_rule *rule, MlirOperation first,
                               MlirOperation before) {
  closed c = {rule, first, before, true};
  MlirOperation op =
      mlirOperationIsNull(first)
          ? mlirBlockGetFirstOperation(mlirOperationGetBlock(before))
          : mlirOperationGetNextInBlock(first);
  for (; c.good && !mlirOperationEqual(op, before);
       op = mlirOperationGetNextInBlock(op))
    mlirOperationWalk(op, visit, &c, MlirWalkPreOrder);
  const nabla_call_rule_frame *f = &rule->frame;
  for (size_t i = 0; c.good && i < f->out_count; i++)
    c.good = mlirValueIsNull(f->out[i]) ||
             in_list(f->saved_count, f->saved, f->out[i]) ||
             in_list(f->result_count, f->given, f->out[i]) ||
             is_own(&c, f->out[i]);
  return c.good || wrong(rule, "uses a value that forward did not save%s", "");
}
