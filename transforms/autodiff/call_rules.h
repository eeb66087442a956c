/* Rules of custom calls that a program has added (nabla/mlir.h). */
#ifndef NABLA_TRANSFORMS_AUTODIFF_CALL_RULES_H
#define NABLA_TRANSFORMS_AUTODIFF_CALL_RULES_H

#include "nabla/mlir.h"
#include "transforms/ir/build_moves.h"

enum { NABLA_CALL_SAVED_MAX = 64 };

/* The rules for the target of a nabla.custom_call; NULL: none. They live as
 * long as the process. */
const nabla_call_rules *nabla_call_rules_find(MlirOperation op);

/* One use of a rule. */
typedef struct nabla_call_rule {
  const nabla_call_rules *rules;
  MlirOperation op;
  const char *name; /* "vjp" */
  bool (*apply)(nabla_call_rule_frame *frame);
  nabla_call_rule_frame frame;
} nabla_call_rule;

/* Runs a rule, which inserts before `before`. False after an error: the rule's
 * own, or one that names the target. */
bool nabla_call_rule_run(nabla_call_rule *rule, MlirOperation before);

/* Whether all that the operations between `first`, which is not one of them,
 * and `before` use was made by them or is in one of the lists. Reports what is
 * not.
 */
bool nabla_call_rule_is_closed(const nabla_call_rule *rule, MlirOperation first,
                               MlirOperation before);

/* Whether output `index` of a rule has the type of `like`, dense; a null one if
 * `may_lack`. Reports it if not. */
bool nabla_call_rule_gives(const nabla_call_rule *rule, size_t index,
                           const char *noun, MlirType like, bool may_lack);

#endif
