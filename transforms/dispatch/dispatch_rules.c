/* rules.def as a table, and the choice among rules; see
 * transforms/dispatch/rules.h. */
#include <mlir-c/Diagnostics.h>
#include <string.h>

#include "dialect/encoding/encoding.h"
#include "transforms/dispatch/rules.h"
#include "transforms/ir/ir.h"

#define RULE(id, op, lhs, rhs, precedence, summary)            \
  nabla_rule_outcome nabla_apply_##id(MlirOperation operation, \
                                      const char **why);
#include "dialect/rules.def"
#undef RULE

static const nabla_dispatch_rule table[] = {
#define RULE(id, op, lhs, rhs, precedence, summary)               \
  {#id,        op,      NABLA_OPERAND_##lhs, NABLA_OPERAND_##rhs, \
   precedence, summary, nabla_apply_##id},
#include "dialect/rules.def"
#undef RULE
};

const nabla_dispatch_rule *nabla_dispatch_rules(size_t *out_count) {
  *out_count = sizeof table / sizeof *table;
  return table;
}

static int says(nabla_operand_kind kind) {
  if (kind == NABLA_OPERAND_LORA) return 3;
  return kind <= NABLA_OPERAND_ANY ? 0 : kind >= NABLA_OPERAND_PACKED ? 2 : 1;
}

int nabla_dispatch_rule_specificity(const nabla_dispatch_rule *rule) {
  return says(rule->lhs) + says(rule->rhs);
}

/* What an operand is; NONE behind the last. */
static nabla_operand_kind kind_of(MlirOperation op, intptr_t index) {
  if (index >= mlirOperationGetNumOperands(op)) return NABLA_OPERAND_NONE;
  MlirType type = nabla_operand_type(op, index);
  if (!nablaTypeIsAImplicit(type)) return NABLA_OPERAND_DENSE;
  switch (nabla_implicit_encoding(type).kind) {
    case NABLA_KIND_SPLAT:
      return NABLA_OPERAND_SPLAT;
    case NABLA_KIND_IDENTITY:
      return NABLA_OPERAND_IDENTITY;
    case NABLA_KIND_LORA:
      return NABLA_OPERAND_LORA;
    case NABLA_KIND_CUSTOM:
      return NABLA_OPERAND_CUSTOM;
    default:
      return NABLA_OPERAND_PACKED;
  }
}

bool nabla_kind_takes(nabla_operand_kind asked, nabla_operand_kind given) {
  if (asked == given) return true;
  if (given == NABLA_OPERAND_NONE) return false;
  if (asked == NABLA_OPERAND_PACKED && given == NABLA_OPERAND_LORA) return true;
  return asked == NABLA_OPERAND_ANY ||
         (asked == NABLA_OPERAND_IMPLICIT && given != NABLA_OPERAND_DENSE);
}

bool nabla_dispatch_rule_matches(const nabla_dispatch_rule *rule,
                                 MlirOperation op) {
  return nabla_is(op, rule->op) &&
         nabla_kind_takes(rule->lhs, kind_of(op, 0)) &&
         nabla_kind_takes(rule->rhs, kind_of(op, 1));
}

int nabla_dispatch_rule_order(const nabla_dispatch_rule *a,
                              const nabla_dispatch_rule *b) {
  int by =
      nabla_dispatch_rule_specificity(a) - nabla_dispatch_rule_specificity(b);
  return by ? by : a->precedence - b->precedence;
}

/* The best rule behind `last` (NULL: of all) in order; `*tie` gets another of
 * the same rank. */
static const nabla_dispatch_rule *next_rule(const nabla_dispatch_rule *rules,
                                            size_t count, MlirOperation op,
                                            const nabla_dispatch_rule *last,
                                            const nabla_dispatch_rule **tie) {
  const nabla_dispatch_rule *best = NULL;
  *tie = NULL;
  for (size_t i = 0; i < count; i++) {
    if (!nabla_dispatch_rule_matches(&rules[i], op) ||
        (last && nabla_dispatch_rule_order(&rules[i], last) >= 0))
      continue;
    int by = best ? nabla_dispatch_rule_order(&rules[i], best) : 1;
    if (by == 0) *tie = &rules[i];
    if (by <= 0) continue;
    best = &rules[i];
    *tie = NULL;
  }
  return best;
}

nabla_rule_outcome nabla_dispatch_rules_choose(
    const nabla_dispatch_choice *among, MlirOperation op,
    const nabla_dispatch_rule **rule, const char **why) {
  const nabla_dispatch_rule *tie;
  *rule = NULL;
  *why = "no rule takes it";
  for (const nabla_dispatch_rule *at = NULL;
       (at = next_rule(among->rules, among->count, op, at, &tie));) {
    *rule = at;
    if (tie) {
      nabla_error_at(op,
                     "is taken by two rules that say equally much, %s and %s: "
                     "give one a higher precedence",
                     at->id, tie->id);
      return NABLA_RULE_FAILED;
    }
    nabla_rule_outcome outcome = among->call(at, op, why, among->self);
    if (outcome != NABLA_RULE_DECLINED) return outcome;
  }
  return NABLA_RULE_DECLINED;
}

static nabla_rule_outcome call(const nabla_dispatch_rule *rule,
                               MlirOperation op, const char **why, void *self) {
  (void)self;
  return rule->apply(op, why);
}

nabla_rule_outcome nabla_dispatch_rules_apply(const nabla_dispatch_rule *rules,
                                              size_t count, MlirOperation op,
                                              const nabla_dispatch_rule **rule,
                                              const char **why) {
  const nabla_dispatch_choice among = {rules, count, call, NULL};
  return nabla_dispatch_rules_choose(&among, op, rule, why);
}
