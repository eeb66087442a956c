/* Dispatch rules as a table, and the choice among them. */
#ifndef NABLA_TRANSFORMS_DISPATCH_RULES_H
#define NABLA_TRANSFORMS_DISPATCH_RULES_H

#include <mlir-c/IR.h>
#include <stdbool.h>
#include <stddef.h>

#include "nabla/mlir.h"

/* What is asked of an operand. The value is how much a rule says by it. */
typedef enum nabla_operand_kind {
  NABLA_OPERAND_NONE,
  NABLA_OPERAND_ANY,
  NABLA_OPERAND_DENSE,
  NABLA_OPERAND_IMPLICIT,
  NABLA_OPERAND_PACKED,
  NABLA_OPERAND_SPLAT,
  NABLA_OPERAND_IDENTITY,
  NABLA_OPERAND_LORA, /* also PACKED */
  NABLA_OPERAND_CUSTOM,
} nabla_operand_kind;

typedef struct nabla_dispatch_rule {
  const char *id, *op;
  nabla_operand_kind lhs, rhs;
  int precedence;
  const char *summary;
  /* `why` gets static text when it declines. NULL: one from outside. */
  nabla_rule_outcome (*apply)(MlirOperation op, const char **why);
} nabla_dispatch_rule;

const nabla_dispatch_rule *nabla_dispatch_rules(size_t *out_count);

/* How much a rule says of its operands: the sum of 0 for ANY, 1 for DENSE and
 * IMPLICIT, 2 for PACKED, SPLAT and IDENTITY, 3 for LORA. */
int nabla_dispatch_rule_specificity(const nabla_dispatch_rule *rule);

/* > 0 when `a` is asked before `b`, 0 for a tie. */
int nabla_dispatch_rule_order(const nabla_dispatch_rule *a,
                              const nabla_dispatch_rule *b);

/* Whether a rule that asks for `asked` takes an operand that is `given`: NONE,
 * DENSE, PACKED, SPLAT, IDENTITY or LORA. */
bool nabla_kind_takes(nabla_operand_kind asked, nabla_operand_kind given);

/* Whether `rule` takes `op`'s operands. */
bool nabla_dispatch_rule_matches(const nabla_dispatch_rule *rule,
                                 MlirOperation op);

/* Applies the best rule that takes `op`: specificity, then precedence; those
 * that decline make room for the next. Two equal ones are reported as an error
 * that names both. `*rule` is the last that was tried, NULL when there was
 * none. */
nabla_rule_outcome nabla_dispatch_rules_apply(const nabla_dispatch_rule *rules,
                                              size_t count, MlirOperation op,
                                              const nabla_dispatch_rule **rule,
                                              const char **why);

/* The same where `call` calls a rule, with `self`. */
typedef nabla_rule_outcome nabla_dispatch_rule_caller(
    const nabla_dispatch_rule *rule, MlirOperation op, const char **why,
    void *self);
typedef struct nabla_dispatch_choice {
  const nabla_dispatch_rule *rules;
  size_t count;
  nabla_dispatch_rule_caller *call;
  void *self;
} nabla_dispatch_choice;
nabla_rule_outcome nabla_dispatch_rules_choose(
    const nabla_dispatch_choice *among, MlirOperation op,
    const nabla_dispatch_rule **rule, const char **why);

#endif
