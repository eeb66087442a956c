/* The rules of users that are recorded with arrays: adding, and asking. */
#include "lib/array/function/array_rules.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/Diagnostics.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/require.h"
#include "transforms/ir/ir.h"
#include "transforms/user_rules/user_rules.h"

#define MAX_OPERATIONS ((size_t)64)
#define MAX_TEXT       ((size_t)200)

/* A rule as nabla-dispatch asks it: one operation, one order of operands. It is
 * never freed. */
typedef struct added_rule {
  nabla_array_rule rule; /* id and encoding are in `texts`; no operations */
  bool is_swapped;
  char texts[2][200 + 1];
  char version[2 * 200 + 8]; /* with the encoding: of the key of the cache */
} added_rule;

/* The engine in whose scopes rules are recorded; it compiles nothing. */
static nabla_engine *rule_engine;
static nabla_status rule_engine_status;

static void make_engine(void) {
  rule_engine_status = nabla_engine_create(NULL, NULL, &rule_engine, NULL);
}

static nabla_status take_engine(nabla_engine **out, nabla_diag *diag) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_engine);
  *out = rule_engine;
  return rule_engine_status
             ? nabla_fail(diag, rule_engine_status, "no memory for a rule")
             : NABLA_OK;
}

/* ---- asking ---- */

/* Whether an operand has the encoding that the rule asks for. */
static bool has_encoding(const added_rule *added, MlirOperation op) {
  const intptr_t count = mlirOperationGetNumOperands(op);
  if (!added->rule.encoding) return true;
  for (intptr_t i = 0; i < count; i++)
    if (nabla_type_has_encoding(nabla_operand_type(op, i),
                                added->rule.encoding))
      return true;
  return false;
}

/* Whether an operation is the default of this rule. */
static bool is_default_of(MlirOperation op, const char *id) {
  const MlirAttribute list =
      mlirOperationGetAttributeByName(op, nabla_ref(NABLA_RULE_DEFAULT));
  if (mlirAttributeIsNull(list)) return false;
  const intptr_t count = mlirArrayAttrGetNumElements(list);
  for (intptr_t i = 0; i < count; i++)
    if (mlirStringRefEqual(
            mlirStringAttrGetValue(mlirArrayAttrGetElement(list, i)),
            nabla_ref(id)))
      return true;
  return false;
}

/* A compare commutes for equal and unequal alone. */
static bool may_swap(MlirOperation op) {
  if (!nabla_is(op, "nabla.compare")) return true;
  const MlirAttribute kind =
      mlirOperationGetAttributeByName(op, nabla_ref("kind"));
  return !mlirAttributeIsNull(kind) && mlirIntegerAttrGetValueInt(kind) <= 1;
}

static const char *objection(const added_rule *added, MlirOperation op) {
  if (!has_encoding(added, op)) return "no operand has the rule's encoding";
  if (is_default_of(op, added->rule.id)) return "it is the default of a rule";
  if (added->is_swapped && !may_swap(op))
    return "the operands cannot be swapped";
  if (mlirOperationGetNumRegions(op)) return "it has regions";
  return NULL;
}

/* Records and places a rule. Operations of the thread that compiles are not to
 * be recorded in a scope that it may be in. */
static nabla_status apply(nabla_rule_recording *r, MlirRewriterBase rewriter,
                          nabla_array_rule_outcome *outcome, nabla_diag *diag) {
  nabla_engine *engine;
  NABLA_TRY(take_engine(&engine, diag));
  nabla_scope *around = nabla_scope_set_innermost(NULL);
  nabla_status status = nabla_rule_record(r, engine, outcome, diag);
  if (!status && *outcome == NABLA_ARRAY_RULE_TAKES)
    status = nabla_rule_place(r, rewriter, diag);
  nabla_rule_forget(r);
  (void)nabla_scope_set_innermost(around);
  return status;
}

static nabla_rule_outcome ask(nabla_dispatch_call *call) {
  const added_rule *added = call->self;
  nabla_array_rule_outcome outcome = NABLA_ARRAY_RULE_DECLINES;
  nabla_diag diag = NABLA_DIAG_INIT;
  call->why = objection(added, call->op);
  if (call->why) return NABLA_RULE_DECLINED;
  nabla_rule_recording *r = calloc(1, sizeof *r);
  if (!r) return NABLA_RULE_FAILED;
  r->rule = &added->rule;
  r->op = call->op;
  r->call = (nabla_array_rule_call){.struct_size = sizeof r->call,
                                    .self = added->rule.self,
                                    .is_swapped = added->is_swapped,
                                    .why = "a rule declined"};
  call->why = nabla_rule_read(r);
  nabla_status status = NABLA_OK;
  const MlirLocation location = mlirOperationGetLocation(call->op);
  if (!call->why) {
    status = apply(r, call->rewriter, &outcome, &diag);
    call->why = r->call.why;
  }
  nabla_arena_clear(&r->arena);
  free(r);
  if (!status)
    return outcome == NABLA_ARRAY_RULE_TAKES ? NABLA_RULE_APPLIED
                                             : NABLA_RULE_DECLINED;
  char text[sizeof diag.what + 256];
  snprintf(text, sizeof text, "rule '%.100s': %s", added->rule.id, diag.what);
  mlirEmitError(location, text);
  return NABLA_RULE_FAILED;
}

/* ---- adding ---- */

static bool commutes(const char *op) {
  static const char *const names[] = {"nabla.add", "nabla.mul", "nabla.maximum",
                                      "nabla.minimum", "nabla.compare"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(op, names[i])) return true;
  return false;
}

static bool is_text(const char *text) { return text && *text; }

static nabla_status check_operations(const nabla_array_rule *rule,
                                     nabla_diag *diag) {
  if (rule->operation_count > MAX_OPERATIONS)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "rule '%s': %zu operations; at most %zu", rule->id,
                      rule->operation_count, MAX_OPERATIONS);
  if (!rule->operation_count &&
      (!is_text(rule->encoding) || is_text(rule->lhs) || is_text(rule->rhs)))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "rule '%s' without operations takes whatever no other "
                      "does: it has an encoding and no kinds",
                      rule->id);
  if (rule->operation_count) NABLA_REQUIRE(rule->operations, diag);
  for (size_t i = 0; i < rule->operation_count; i++) {
    NABLA_REQUIRE(rule->operations[i], diag);
    if (rule->commutes && !commutes(rule->operations[i]))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "rule '%s': %.60s does not commute", rule->id,
                        rule->operations[i]);
  }
  return NABLA_OK;
}

static nabla_status check(const nabla_array_rule *rule, nabla_diag *diag) {
  NABLA_REQUIRE(rule, diag);
  NABLA_REQUIRE_SIZE(rule, "a nabla_array_rule", diag);
  if (!is_text(rule->id) || !rule->record)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a rule needs an id and a callback");
  if (strlen(rule->id) > MAX_TEXT ||
      (rule->encoding && strlen(rule->encoding) > MAX_TEXT) ||
      (rule->version && strlen(rule->version) > MAX_TEXT))
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "rule '%.60s...': texts have at most %zu bytes", rule->id,
                      MAX_TEXT);
  return check_operations(rule, diag);
}

/* The description of one order of one operation; false without memory. `id` has
 * space for its name, which nabla_rules_add copies. */
static bool describe(const nabla_array_rule *rule, const char *op,
                     bool is_swapped, char id[320],
                     nabla_rule_description *out) {
  added_rule *added = calloc(1, sizeof *added);
  if (!added) return false;
  added->rule = *rule;
  added->is_swapped = is_swapped;
  added->rule.operations = NULL;
  added->rule.operation_count = 0;
  memcpy(added->texts[0], rule->id, strlen(rule->id) + 1);
  added->rule.id = added->texts[0];
  if (rule->encoding) {
    memcpy(added->texts[1], rule->encoding, strlen(rule->encoding) + 1);
    added->rule.encoding = added->texts[1];
  }
  snprintf(added->version, sizeof added->version, "%s of %s",
           rule->version ? rule->version : "",
           rule->encoding ? rule->encoding : "");
  const bool is_one = rule->operation_count <= 1;
  snprintf(id, 320, "%s%s%s%s", rule->id, is_one ? "" : ":", is_one ? "" : op,
           is_swapped ? ":swapped" : "");
  *out =
      (nabla_rule_description){.struct_size = sizeof *out,
                               .id = id,
                               .op = op,
                               .lhs = is_swapped ? rule->rhs : rule->lhs,
                               .rhs = is_swapped ? rule->lhs : rule->rhs,
                               .precedence = rule->precedence,
                               .summary = rule->summary,
                               .version = rule->version ? added->version : NULL,
                               .apply = ask,
                               .self = added};
  return true;
}

nabla_status nabla_add_array_rule(const nabla_array_rule *rule,
                                  nabla_diag *diag) {
  static const char *const any[] = {NABLA_RULE_ANY_OP};
  nabla_rule_description list[2 * MAX_OPERATIONS];
  size_t count = 0;
  NABLA_TRY(check(rule, diag));
  const bool is_any = !rule->operation_count;
  const char *const *operations = is_any ? any : rule->operations;
  const size_t operation_count = is_any ? 1 : rule->operation_count;
  const char *lhs = rule->lhs ? rule->lhs : "",
             *rhs = rule->rhs ? rule->rhs : "";
  const size_t orders = rule->commutes && strcmp(lhs, rhs) != 0 ? 2 : 1;
  char (*ids)[320] = malloc(orders * operation_count * sizeof *ids);
  bool good = ids != NULL;
  for (size_t i = 0; i < operation_count * orders && good; i++) {
    good = describe(rule, operations[i / orders], i % orders == 1, ids[i],
                    &list[i]);
    if (good) count++;
  }
  const nabla_status status =
      good ? nabla_rules_add(count, list, diag)
           : nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a rule");
  for (size_t i = 0; i < count && status; i++) free(list[i].self);
  free(ids);
  return status;
}
