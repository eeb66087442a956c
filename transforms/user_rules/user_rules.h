/* Rules that are not built in: those added by nabla_add_rule, and those of
 * files. */
#ifndef NABLA_TRANSFORMS_USER_RULES_USER_RULES_H
#define NABLA_TRANSFORMS_USER_RULES_USER_RULES_H

#include "lib/kernels/builder/text.h"
#include "nabla/mlir.h"
#include "transforms/dispatch/rule_set.h"

/* Limits on files of rules. */
#define NABLA_RULE_FILE_LIMIT  ((size_t)4 << 20) /* bytes           */
#define NABLA_RULE_FILES_MAX   16                /* files per run */
#define NABLA_RULE_FILES_RULES 256               /* rules in all files */
#define NABLA_RULE_FILE_DEPTH  100               /* open brackets   */

/* rule_files.c: appends the rules of a file. Returns false after an error that
 * names file and line. */
bool nabla_rule_file_read(MlirContext context, const char *path,
                          nabla_rule_set *to);
void nabla_file_rule_deinit(nabla_file_rule *rule);

/* rule_rewrites.c: returns whether MLIR can run an operation of the dialect pdl
 * without ending the process. False after an error. */
bool nabla_rule_op_check(MlirOperation op);

/* rule_bindings.c: returns whether every value that the pattern of `rewrite`, a
 * pdl.rewrite, uses is bound. False after an error. */
bool nabla_rule_bindings_check(MlirOperation rewrite);

/* pdl_natives.c: returns whether the native functions that `op`, of the dialect
 * pdl, applies exist and have the right arguments; true for operations that
 * apply none. */
bool nabla_rule_natives_check(MlirOperation op);
void nabla_rule_natives_register(MlirPDLPatternModule module);

/* Adds files that every nabla-dispatch reads besides its own: an option of a
 * tool, set before threads start. Returns false if there are too many. */
bool nabla_rule_files_add(const char *path);

/* Writes the part of an object's cache key for the added rules: all but their
 * functions, for which a version stands. Returns false if one has no version;
 * then nothing may be cached. */
bool nabla_added_rules_describe(nabla_text *out);

/* Adds all rules of a list, or none: as nabla_add_rule. */
NABLA_MUST_USE nabla_status nabla_rules_add(size_t count,
                                            const nabla_rule_description *rules,
                                            nabla_diag *diag);

/* Returns the number of rules added so far; rules are never removed. */
size_t nabla_added_rules_count(void);

#endif
