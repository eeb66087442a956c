/* Rules from outside: those that nabla_add_rule gave, and those of files. */
#ifndef NABLA_TRANSFORMS_USER_RULES_USER_RULES_H
#define NABLA_TRANSFORMS_USER_RULES_USER_RULES_H

#include "lib/kernels/builder/text.h"
#include "nabla/mlir.h"
#include "transforms/dispatch/rule_set.h"

/* What a file of rules may be. */
#define NABLA_RULE_FILE_LIMIT  ((size_t)4 << 20) /* bytes           */
#define NABLA_RULE_FILES_MAX   16                /* files at a time */
#define NABLA_RULE_FILES_RULES 256               /* rules, of all   */
#define NABLA_RULE_FILE_DEPTH  100               /* open brackets   */

/* rule_files.c: appends the rules of a file. False after an error that names
 * file and line. */
bool nabla_rule_file_read(MlirContext context, const char *path,
                          nabla_rule_set *to);
void nabla_file_rule_deinit(nabla_file_rule *rule);

/* rule_rewrites.c: whether an operation of the dialect pdl is one that cannot
 * end the process. False after an error. */
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
