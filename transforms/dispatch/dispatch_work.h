/* The operations that nabla-dispatch has to look at, among them those that
 * rules from outside build; and the bounds that such rules work within. */
#ifndef NABLA_TRANSFORMS_DISPATCH_DISPATCH_WORK_H
#define NABLA_TRANSFORMS_DISPATCH_DISPATCH_WORK_H

#include "dialect/bridge.h"
#include "transforms/dispatch/rule_set.h"
#include "transforms/ir/ir.h"

/* Rewrites by rules from outside: one behind another, and for each operation
 * that there was. */
#define NABLA_REWRITE_DEPTH 32
#define NABLA_REWRITE_EACH  16
#define NABLA_REWRITE_LEAST 256

typedef struct nabla_work_item {
  MlirOperation op; /* null: erased, or done */
  uint32_t depth;   /* rewrites from outside that led to it */
  const char *by;   /* the rule that built it; NULL: it was in the program */
} nabla_work_item;

typedef struct nabla_work {
  nabla_work_item *items;
  size_t count, capacity, at, initial;
  size_t rewrites; /* by rules from outside */
  /* of the rewrite that is going on */
  size_t built; /* items before it */
  size_t erased;
  bool mismatch; /* a result was replaced by a value of another type */
  bool orphaned; /* an op was erased whose results are used */
  bool failed;   /* out of memory */
} nabla_work;

/* All ops of `root` that `want` wants. */
nabla_work nabla_work_begin(MlirOperation root, bool (*want)(MlirOperation op));
void nabla_work_end(nabla_work *work);

/* The next; null at the end. */
MlirOperation nabla_work_next(nabla_work *work);

/* Asks a rule of a file, or of nabla_add_rule, for the current op. Counts and
 * verifies what it did; FAILED after an error that names the rule. */
nabla_rule_outcome nabla_work_ask_file(nabla_work *work,
                                       const nabla_file_rule *rule);
nabla_rule_outcome nabla_work_ask_added(nabla_work *work,
                                        const nabla_rule_description *rule,
                                        const char **why);

/* Whether the current op was erased. */
bool nabla_work_gone(const nabla_work *work);

#endif
