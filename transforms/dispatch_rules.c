/* rules.def as a table, and the choice among rules; see transforms/rules.h. */
#include <mlir-c/Diagnostics.h>
#include <string.h>

#include "dialect/encoding.h"
#include "transforms/rules.h"
#include "transforms/ir.h"

#define RULE(id, op, lhs, rhs, precedence, summary)          \
  nabla_rule_outcome nabla_apply_##id(MlirOperation operation, \
                                      const char **why);
#include "dialect/rules.def"
#undef RULE

static const nabla_rule table[] = {
#define RULE(id, op, lhs, rhs, precedence, summary)                     \
  {#id,        op,      NABLA_OPERAND_##lhs, NABLA_OPERAND_##rhs,       \
   precedence, summary, nabla_apply_##id},
#include "dialect/rules.def"
#undef RULE
};

const nabla_rule *nabla_rules(size_t *out_count) {
  *out_count = sizeof table / sizeof *table;
  return table;
}

static int says(nabla_operand_kind kind) {
  return kind <= NABLA_OPERAND_ANY ? 0 : kind >= NABLA_OPERAND_PACKED ? 2 : 1;
}

int nabla_rule_specificity(const nabla_rule *rule) {
  return says(rule->lhs) + says(rule->rhs);
}

static bool takes(nabla_operand_kind kind, MlirOperation op, intptr_t index) {
  if (index >= mlirOperationGetNumOperands(op))
    return kind == NABLA_OPERAND_NONE;
  MlirType type = nabla_operand_type(op, index);
  bool implicit = nablaTypeIsAImplicit(type);
  if (kind == NABLA_OPERAND_ANY) return true;
  if (kind == NABLA_OPERAND_DENSE) return !implicit;
  if (kind == NABLA_OPERAND_NONE || !implicit) return false;
  nabla_encoding_kind encoding = nabla_implicit_encoding(type).kind;
  return kind == NABLA_OPERAND_IMPLICIT ||
         (kind == NABLA_OPERAND_PACKED && encoding == NABLA_KIND_PACKED) ||
         (kind == NABLA_OPERAND_SPLAT && encoding == NABLA_KIND_SPLAT);
}

bool nabla_rule_matches(const nabla_rule *rule, MlirOperation op) {
  return nabla_is(op, rule->op) && takes(rule->lhs, op, 0) &&
         takes(rule->rhs, op, 1);
}

/* Does `a` come before `b`? 0 for a tie. */
static int order(const nabla_rule *a, const nabla_rule *b) {
  int by = nabla_rule_specificity(a) - nabla_rule_specificity(b);
  return by ? by : a->precedence - b->precedence;
}

/* The best rule behind `last` (NULL: of all) in order; `*tie` gets another of
 * the same rank. */
static const nabla_rule *next_rule(const nabla_rule *rules, size_t count,
                                   MlirOperation op, const nabla_rule *last,
                                   const nabla_rule **tie) {
  const nabla_rule *best = NULL;
  *tie = NULL;
  for (size_t i = 0; i < count; i++) {
    if (!nabla_rule_matches(&rules[i], op) ||
        (last && order(&rules[i], last) >= 0))
      continue;
    int by = best ? order(&rules[i], best) : 1;
    if (by == 0) *tie = &rules[i];
    if (by <= 0) continue;
    best = &rules[i];
    *tie = NULL;
  }
  return best;
}

nabla_rule_outcome nabla_rules_apply(const nabla_rule *rules, size_t count,
                                     MlirOperation op, const nabla_rule **rule,
                                     const char **why) {
  const nabla_rule *tie;
  *rule = NULL;
  *why = "no rule takes it";
  for (const nabla_rule *at = NULL;
       (at = next_rule(rules, count, op, at, &tie));) {
    *rule = at;
    if (tie) {
      nabla_error_at(op,
                     "is taken by two rules that say equally much, %s and %s: "
                     "give one a higher precedence",
                     at->id, tie->id);
      return NABLA_RULE_FAILED;
    }
    nabla_rule_outcome outcome = at->apply(op, why);
    if (outcome != NABLA_RULE_DECLINED) return outcome;
  }
  return NABLA_RULE_DECLINED;
}
