/* Rules from outside: those that nabla_add_rule gave, and those of files. */
#ifndef NABLA_TRANSFORMS_USER_RULES_USER_RULES_H
#define NABLA_TRANSFORMS_USER_RULES_USER_RULES_H

#include <mlir-c/Rewrite.h>

#include "lib/kernels/builder/text.h"
#include "nabla/mlir.h"
#include "transforms/dispatch/rules.h"

/* What a file of rules may be. */
#define NABLA_RULE_FILE_LIMIT  ((size_t)4 << 20) /* bytes           */
#define NABLA_RULE_FILES_MAX   16                /* files at a time */
#define NABLA_RULE_FILES_RULES 256               /* rules, of all   */
#define NABLA_RULE_FILE_DEPTH  100               /* open brackets   */
#define NABLA_RULES_SEPARATOR  ';'               /* between files   */

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

/* rule_files.c: appends the rules of a file. False after an error that names
 * file and line. */
bool nabla_rule_file_read(MlirContext context, const char *path,
                          nabla_rule_set *to);
void nabla_file_rule_deinit(nabla_file_rule *rule);

/* rule_checks.c: whether an operation of the dialect pdl is one that cannot end
 * the process. False after an error. */
bool nabla_rule_op_check(MlirOperation op);

/* pdl_natives.c: whether the native functions that `op`, of the dialect pdl,
 * applies are ours and used as they are meant; true for other operations. */
bool nabla_rule_natives_check(MlirOperation op);
void nabla_rule_natives_register(MlirPDLPatternModule module);

/* Files that every nabla-dispatch reads beside its own: an option of a tool,
 * given before threads start. False when there are too many. */
bool nabla_rule_files_add(const char *path);

/* What of the added rules belongs into a key of the object cache: their ids and
 * versions. False when one has no version: nothing is to be cached. */
bool nabla_added_rules_describe(nabla_text *out);

/* How many were added up to now; none is ever removed. */
size_t nabla_added_rules_count(void);

#endif
