/* The rules that one run of nabla-dispatch asks: built in, and from outside.
 * Functions are defined in transforms/user_rules, and in
 * transforms/dispatch/dispatch.c. */
#ifndef NABLA_TRANSFORMS_DISPATCH_RULE_SET_H
#define NABLA_TRANSFORMS_DISPATCH_RULE_SET_H

#include <mlir-c/Rewrite.h>
#include <stdint.h>

#include "nabla/mlir.h"
#include "transforms/dispatch/rules.h"

#define NABLA_RULES_SEPARATOR ';' /* between names of files */

/* The operation of a rule that is asked for every operation which no other rule
 * takes, before its operands are materialized; kinds are not compared. */
#define NABLA_RULE_ANY_OP "*"

/* An attribute of operations while nabla-dispatch runs: a list of the ids of
 * rules that have taken it already (nabla_default, nabla/array_rule.h). */
#define NABLA_RULE_DEFAULT "nabla.default_of"

/* A pattern of a file. */
typedef struct nabla_file_rule {
  char *id, *op; /* owned */
  char *file;    /* owned */
  int benefit;
  MlirFrozenRewritePatternSet patterns;
} nabla_file_rule;

/* All that one run of nabla-dispatch asks; read-only once it is made. */
typedef struct nabla_rule_set {
  nabla_dispatch_rule *rules; /* the table, then those of nabla_add_rule */
  nabla_rule_description *added;
  size_t table_count, added_count;
  nabla_file_rule *files; /* the highest benefit first, then as they stand */
  size_t file_count;
} nabla_rule_set;

/* `files`: names with NABLA_RULES_SEPARATOR between them, or "". NULL after an
 * error was reported. */
nabla_rule_set *nabla_rule_set_create(MlirContext context, const char *files);
void nabla_rule_set_destroy(nabla_rule_set *set);

/* What runs of nabla-dispatch on this thread counted since the last call. */
typedef struct nabla_dispatch_counts {
  uint64_t materializations; /* operands of operations that no rule took */
  uint64_t replaced;         /* operations, by rules                     */
  uint64_t declined;         /* times that a rule declined               */
  uint64_t fused;            /* fused operations that there are          */
} nabla_dispatch_counts;
nabla_dispatch_counts nabla_dispatch_take_counts(void);

#endif
