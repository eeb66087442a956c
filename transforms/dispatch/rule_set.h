/* The rules that one run of nabla-dispatch asks: built in, and from outside.
 * transforms/user_rules defines the functions. */
#ifndef NABLA_TRANSFORMS_DISPATCH_RULE_SET_H
#define NABLA_TRANSFORMS_DISPATCH_RULE_SET_H

#include <mlir-c/Rewrite.h>

#include "nabla/mlir.h"
#include "transforms/dispatch/rules.h"

#define NABLA_RULES_SEPARATOR ';' /* between names of files */

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

#endif
