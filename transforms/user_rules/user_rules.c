/* nabla_add_rule, and the set of rules that one run of nabla-dispatch tries:
 * rules of the table, rules added from C, rules of files. */
#include "transforms/user_rules/user_rules.h"

#include <mlir-c/BuiltinAttributes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/encoding/encoding.h"
#include "dialect/ops.h"
#include "lib/base/edit_distance.h"
#include "lib/base/require.h"

#define MAX_ADDED 1024 /* rules of nabla_add_rule */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nabla_rule_description added[MAX_ADDED]; /* under `lock`; texts owned */
static size_t added_count;
static const char *tool_files[NABLA_RULE_FILES_MAX];
static size_t tool_file_count;

static const struct {
  const char *name;
  nabla_operand_kind kind;
} kinds[] = {
    {"", NABLA_OPERAND_NONE},
    {"any", NABLA_OPERAND_ANY},
    {"dense", NABLA_OPERAND_DENSE},
    {"implicit", NABLA_OPERAND_IMPLICIT},
    {"packed", NABLA_OPERAND_PACKED},
    {"splat", NABLA_OPERAND_SPLAT},
    {"identity", NABLA_OPERAND_IDENTITY},
    {"lora", NABLA_OPERAND_LORA},
    {"custom", NABLA_OPERAND_CUSTOM},
};

static bool kind_named(const char *name, nabla_operand_kind *out) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(name ? name : "", kinds[i].name)) {
      *out = kinds[i].kind;
      return true;
    }
  return false;
}

/* ---- adding ---- */

static nabla_status check_op(const nabla_rule_description *rule,
                             nabla_diag *diag) {
  size_t count;
  if (!strcmp(rule->op, NABLA_RULE_ANY_OP)) return NABLA_OK;
  const nabla_op_row *rows = nabla_op_rows(&count);
  nabla_nearest near = nabla_nearest_begin(rule->op, strlen(rule->op));
  for (size_t i = 0; i < count; i++) {
    if (!strcmp(rows[i].name, rule->op)) return NABLA_OK;
    nabla_nearest_offer(&near, rows[i].name, strlen(rows[i].name));
  }
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "rule '%.60s': '%.60s' is no operation of the dialect",
                 rule->id, rule->op);
  nabla_nearest_say(&near, diag, "docs/OPS.md lists them");
  return status;
}

static nabla_status check_kind(const nabla_rule_description *rule,
                               const char *side, const char *name,
                               nabla_diag *diag) {
  nabla_operand_kind kind;
  if (kind_named(name, &kind)) return NABLA_OK;
  nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                   "rule '%.60s': %s '%.40s' is no kind of "
                                   "operand",
                                   rule->id, side, name);
  nabla_diag_set_next(diag,
                      "legal are any, dense, implicit, packed, splat, custom, "
                      "and \"\" where there is no operand");
  return status;
}

static nabla_status check(const nabla_rule_description *rule,
                          nabla_diag *diag) {
  NABLA_REQUIRE_SIZE(rule, "a nabla_rule_description", diag);
  if (!rule->id || !*rule->id || !rule->op || !rule->apply)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a rule needs an id, an op and a function");
  NABLA_TRY(check_op(rule, diag));
  NABLA_TRY(check_kind(rule, "lhs", rule->lhs, diag));
  return check_kind(rule, "rhs", rule->rhs, diag);
}

static bool is_taken(const char *id) {
  size_t count;
  const nabla_dispatch_rule *rules = nabla_dispatch_rules(&count);
  for (size_t i = 0; i < count; i++)
    if (!strcmp(rules[i].id, id)) return true;
  for (size_t i = 0; i < added_count; i++)
    if (!strcmp(added[i].id, id)) return true;
  return false;
}

/* Copies the texts of `rule`; false when out of memory. */
static bool copy(const nabla_rule_description *rule,
                 nabla_rule_description *out) {
  const char *texts[] = {rule->id,
                         rule->op,
                         rule->lhs ? rule->lhs : "",
                         rule->rhs ? rule->rhs : "",
                         rule->summary ? rule->summary : rule->id,
                         rule->version};
  char *copies[6] = {NULL};
  bool good = true;
  for (int i = 0; i < 6 && good; i++)
    good = !texts[i] || (copies[i] = strdup(texts[i]));
  for (int i = 0; i < 6 && !good; i++) free(copies[i]);
  *out = *rule;
  out->id = copies[0], out->op = copies[1], out->lhs = copies[2];
  out->rhs = copies[3], out->summary = copies[4], out->version = copies[5];
  return good;
}

/* Adds one rule; the lock is held. */
static nabla_status add(const nabla_rule_description *rule, nabla_diag *diag) {
  if (is_taken(rule->id))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "there is a rule '%.60s' already", rule->id);
  if (added_count == MAX_ADDED)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "there are %d added rules already", MAX_ADDED);
  if (!copy(rule, &added[added_count]))
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a rule");
  added_count++;
  return NABLA_OK;
}

/* Takes away the rule that was added last; the lock is held. */
static void remove_last(void) {
  const nabla_rule_description *rule = &added[--added_count];
  const char *texts[] = {rule->id,  rule->op,      rule->lhs,
                         rule->rhs, rule->summary, rule->version};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    free((void *)(uintptr_t)texts[i]);
}

nabla_status nabla_rules_add(size_t count, const nabla_rule_description *rules,
                             nabla_diag *diag) {
  nabla_status status = NABLA_OK;
  size_t done = 0;
  for (size_t i = 0; i < count; i++) NABLA_TRY(check(&rules[i], diag));
  pthread_mutex_lock(&lock);
  while (!status && done < count) {
    status = add(&rules[done], diag);
    if (!status) done++;
  }
  while (status && done--) remove_last();
  pthread_mutex_unlock(&lock);
  return status;
}

nabla_status nabla_add_rule(const nabla_rule_description *rule,
                            nabla_diag *diag) {
  NABLA_REQUIRE(rule, diag);
  return nabla_rules_add(1, rule, diag);
}

bool nabla_rule_files_add(const char *path) {
  if (tool_file_count == NABLA_RULE_FILES_MAX) return false;
  tool_files[tool_file_count++] = path;
  return true;
}

bool nabla_added_rules_describe(nabla_text *out) {
  bool good = true;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < added_count; i++) {
    good = good && added[i].version;
    nabla_text_add(out, "rule %s %d %s (%s, %s) %s\n", added[i].id,
                   added[i].precedence, added[i].op, added[i].lhs, added[i].rhs,
                   added[i].version ? added[i].version : "");
  }
  pthread_mutex_unlock(&lock);
  return good;
}

size_t nabla_added_rules_count(void) {
  pthread_mutex_lock(&lock);
  const size_t count = added_count;
  pthread_mutex_unlock(&lock);
  return count;
}

/* ---- a set ---- */

/* Makes a set of the rules of the table and of those added so far. */
static bool take_rules(nabla_rule_set *set) {
  const nabla_dispatch_rule *table = nabla_dispatch_rules(&set->table_count);
  pthread_mutex_lock(&lock);
  set->added_count = added_count;
  set->rules = calloc(set->table_count + added_count, sizeof *set->rules);
  set->added = calloc(added_count + 1, sizeof *set->added);
  bool good = set->rules && set->added;
  if (good) memcpy(set->added, added, added_count * sizeof *added);
  pthread_mutex_unlock(&lock);
  if (!good) return false;
  memcpy(set->rules, table, set->table_count * sizeof *table);
  for (size_t i = 0; i < set->added_count; i++) {
    const nabla_rule_description *from = &set->added[i];
    nabla_dispatch_rule *to = &set->rules[set->table_count + i];
    *to = (nabla_dispatch_rule){.id = from->id,
                                .op = from->op,
                                .precedence = from->precedence,
                                .summary = from->summary};
    (void)kind_named(from->lhs, &to->lhs);
    (void)kind_named(from->rhs, &to->rhs);
  }
  return true;
}

/* Sorts by benefit; rules of equal benefit keep their order. */
static void sort_files(nabla_rule_set *set) {
  for (size_t i = 1; i < set->file_count; i++)
    for (size_t k = i;
         k > 0 && set->files[k].benefit > set->files[k - 1].benefit; k--) {
      nabla_file_rule swap = set->files[k];
      set->files[k] = set->files[k - 1];
      set->files[k - 1] = swap;
    }
}

static bool read_list(MlirContext context, const char *files,
                      nabla_rule_set *set) {
  while (*files) {
    const char *end = strchr(files, NABLA_RULES_SEPARATOR);
    size_t length = end ? (size_t)(end - files) : strlen(files);
    char *path = strndup(files, length);
    bool good = path && nabla_rule_file_read(context, path, set);
    free(path);
    if (!good) return false;
    files += length + (end != NULL);
  }
  return true;
}

nabla_rule_set *nabla_rule_set_create(MlirContext context, const char *files) {
  nabla_rule_set *set = calloc(1, sizeof *set);
  if (!set) return NULL;
  bool good = take_rules(set) && read_list(context, files, set);
  for (size_t i = 0; good && i < tool_file_count; i++)
    good = nabla_rule_file_read(context, tool_files[i], set);
  if (good) {
    sort_files(set);
    return set;
  }
  nabla_rule_set_destroy(set);
  return NULL;
}

void nabla_rule_set_destroy(nabla_rule_set *set) {
  if (!set) return;
  for (size_t i = 0; i < set->file_count; i++)
    nabla_file_rule_deinit(&set->files[i]);
  free(set->files);
  free(set->rules);
  free(set->added);
  free(set);
}

/* ---- helpers for rules ---- */

bool nabla_type_is_implicit(MlirType type) {
  return nablaTypeIsAImplicit(type);
}

MlirAttribute nabla_type_encoding(MlirType type) {
  return nablaTypeIsAImplicit(type) ? nablaImplicitTypeParts(type).encoding
                                    : mlirAttributeGetNull();
}

MlirType nabla_type_dense(MlirType type) { return nabla_dense_type(type); }

bool nabla_type_has_encoding(MlirType type, const char *name) {
  if (!nablaTypeIsAImplicit(type)) return false;
  return nabla_encoding_is_named(nablaImplicitTypeParts(type).encoding, name);
}
