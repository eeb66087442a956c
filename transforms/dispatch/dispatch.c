/* nabla-dispatch: applies the rules to every op with implicit operands. An
 * operand that no rule accepts is materialized (decoded before the op). One
 * diagnostic for each pair of op name and encoding reports how many were. */
#include <mlir-c/Diagnostics.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/encoding/custom_encoding.h"
#include "dialect/ops.h"
#include "dialect/verify/checks.h"
#include "transforms/composite/decompositions.h"
#include "transforms/dispatch/dispatch_work.h"
#include "transforms/dispatch/rules.h"
#include "transforms/dispatch/rules_dense.h"
#include "transforms/ir/target.h"
#include "transforms/passes.h"
#include "transforms/simplify/splats.h"

/* Limits: rules applied to one operation, and passes over the program, each of
 * which dispatches the operations that the pass before created. */
#define MAX_ROUNDS 64
#define MAX_PASSES 32

typedef enum policy { POLICY_OFF, POLICY_WARN, POLICY_ERROR } policy;

static bool read_policy(const char *text, policy *out) {
  static const char *const names[] = {"off", "warn", "error"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(text, names[i])) {
      *out = (policy)i;
      return true;
    }
  return false;
}

/* The materialized operands of one op name and one encoding. */
typedef struct miss {
  char op[64], encoding[96];
  const char *why; /* reason of the first operand */
  MlirLocation location;
  uint64_t count, elements;
  struct miss *next;
} miss;

typedef struct report {
  miss *first, **end;
  bool failed;
  nabla_dispatch_counts counts;
} report;

static _Thread_local nabla_dispatch_counts last_counts;

nabla_dispatch_counts nabla_dispatch_take_counts(void) {
  const nabla_dispatch_counts counts = last_counts;
  last_counts = (nabla_dispatch_counts){0};
  return counts;
}

static void encoding_text(MlirType type, char *out, size_t size) {
  nabla_text text = {0};
  MlirAttribute encoding = nablaImplicitTypeParts(type).encoding, parameters;
  (void)nablaEncodingAttrParts(encoding, &parameters);
  if (nabla_implicit_encoding(type).kind == NABLA_KIND_CUSTOM) {
    nabla_text_add(&text, "#nabla.custom<"); /* only `value`: rest is long */
    nabla_text_add_attribute(&text, nabla_attribute(parameters, "value"));
    nabla_text_add(&text, ">");
  } else {
    nabla_text_add_attribute(&text, encoding);
  }
  snprintf(out, size, "%s", text.data ? text.data : "");
  nabla_text_deinit(&text);
}

static void count_miss(report *r, MlirOperation op, MlirType type,
                       const char *why) {
  miss at = {.why = why, .location = mlirOperationGetLocation(op)};
  MlirStringRef name = nabla_name(op);
  snprintf(at.op, sizeof at.op, "%.*s", (int)name.length, name.data);
  encoding_text(type, at.encoding, sizeof at.encoding);
  miss *m = r->first;
  while (m && (strcmp(m->op, at.op) || strcmp(m->encoding, at.encoding)))
    m = m->next;
  if (!m) {
    m = malloc(sizeof *m);
    if (!m) {
      r->failed = true;
      return;
    }
    *m = at;
    *r->end = m;
    r->end = &m->next;
  }
  uint64_t elements = 1;
  for (intptr_t i = 0; i < nabla_array_rank(type); i++)
    elements *= (uint64_t)nabla_array_dim(type, i);
  m->count++;
  m->elements += elements;
}

static void print_misses(const report *r, policy say) {
  for (const miss *m = r->first; m && say != POLICY_OFF; m = m->next) {
    char text[512];
    snprintf(text, sizeof text,
             "'%s' op %s %llu operand%s of %s, %llu elements: %s", m->op,
             say == POLICY_ERROR ? "would materialize" : "materializes",
             (unsigned long long)m->count, m->count == 1 ? "" : "s",
             m->encoding, (unsigned long long)m->elements, m->why);
    if (say == POLICY_ERROR)
      mlirEmitError(m->location, text);
    else
      nablaEmitWarning(m->location, text);
  }
}

static void remark(MlirOperation op, bool missed, const char *rule,
                   const char *text) {
  nablaOptimizationRemark(mlirOperationGetLocation(op), missed, rule,
                          "nabla-dispatch", text);
}

/* Whether the op uses operand `index` without decoding it. A nabla.scan does,
 * except for inputs whose slices are tensors. */
static bool flows(MlirOperation op, intptr_t index) {
  if (nabla_op_find(op)->implicit != NABLA_IMPLICIT_flows) return false;
  if (!nabla_is(op, "nabla.scan")) return true;
  nabla_scan_parts scan = nabla_scan_read(op);
  if (index < scan.carries || index >= scan.carries + scan.inputs) return true;
  MlirBlock body = nabla_region_block(op, 0);
  return nablaTypeIsAImplicit(
      mlirValueGetType(mlirBlockGetArgument(body, index)));
}

static bool refuse(MlirOperation op, MlirType type, const char *why) {
  char encoding[96];
  encoding_text(type, encoding, sizeof encoding);
  nabla_error_at(op,
                 "has an operand of %s, an encoding that is never "
                 "materialized: %s",
                 encoding, why);
  return false;
}

/* What the encoding of an implicit type says of operations that no rule
 * takes. */
static nabla_encoding_fallback fallback_of(MlirType type) {
  return nabla_implicit_encoding(type).kind == NABLA_KIND_CUSTOM
             ? nabla_custom_fallback(nablaImplicitTypeParts(type).encoding)
             : NABLA_FALLBACK_REPORT;
}

/* Decodes each implicit operand by a nabla.materialize before the op, and
 * counts it. */
static bool materialize(MlirOperation op, report *r, const char *why) {
  remark(op, true, "Materialized", why);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    MlirType type = mlirValueGetType(value);
    if (!nablaTypeIsAImplicit(type) || flows(op, i)) continue;
    const nabla_encoding_fallback fallback = fallback_of(type);
    if (fallback == NABLA_FALLBACK_NEVER) return refuse(op, type, why);
    r->counts.materializations++;
    if (fallback == NABLA_FALLBACK_REPORT) count_miss(r, op, type, why);
    nabla_op_spec spec = {"nabla.materialize", 1, &value, -1, NULL, 0, NULL};
    MlirOperation dense = nabla_op_create(op, &spec);
    if (mlirOperationIsNull(dense)) return false;
    mlirOperationSetOperand(op, i, mlirOperationGetResult(dense, 0));
  }
  return true;
}

static bool has_implicit_operand(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nablaTypeIsAImplicit(nabla_operand_type(op, i)) && !flows(op, i))
      return true;
  return false;
}

/* Whether the op has an implicit operand that a rule must replace or that must
 * be materialized. */
static bool needs_dispatch(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  if (!row || !has_implicit_operand(op)) return false;
  return row->implicit == NABLA_IMPLICIT_rules ||
         row->implicit == NABLA_IMPLICIT_flows ||
         row->implicit == NABLA_IMPLICIT_parts ||
         (row->implicit == NABLA_IMPLICIT_views &&
          !nablaTypeIsAImplicit(nabla_result_type(op, 0)));
}

/* Whether the op is a product of tensors, a convolution or attention: rules of
 * the table may take it, those from outside are for implicit operands. */
static bool is_dense_product(MlirOperation op) {
  static const char *const names[] = {"nabla.attention", "nabla.conv_general",
                                      "nabla.dot_general", "nabla.linear"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (nabla_is(op, names[i])) return !has_implicit_operand(op);
  return false;
}

/* Whether rules are tried on the op: it needs dispatch, it has any implicit
 * operand, which a rule from a file or from nabla_add_rule may match, or it is
 * a product of tensors, a convolution or attention. */
static bool may_be_asked(MlirOperation op) {
  if (needs_dispatch(op) || is_dense_product(op)) return true;
  if (!nabla_op_find(op)) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nablaTypeIsAImplicit(nabla_operand_type(op, i))) return true;
  return false;
}

typedef struct dispatching {
  const nabla_rule_set *rules;
  nabla_work work;
  report report;
  bool again; /* a composite was replaced by operations that have rules */
} dispatching;

static nabla_rule_outcome call_rule(const nabla_dispatch_rule *rule,
                                    MlirOperation op, const char **why,
                                    void *self) {
  dispatching *d = self;
  size_t index = (size_t)(rule - d->rules->rules) - d->rules->table_count;
  const nabla_rule_outcome outcome =
      rule->apply
          ? rule->apply(op, why)
          : nabla_work_ask_added(&d->work, &d->rules->added[index], why);
  if (outcome == NABLA_RULE_DECLINED) d->report.counts.declined++;
  if (outcome == NABLA_RULE_APPLIED) d->report.counts.replaced++;
  return outcome;
}

/* Tries the rules from files, in their order; they come before all others. */
static nabla_rule_outcome ask_files(dispatching *d, MlirOperation op) {
  MlirLocation location = mlirOperationGetLocation(op); /* it may be erased */
  for (size_t i = 0; i < d->rules->file_count; i++) {
    const nabla_file_rule *rule = &d->rules->files[i];
    if (!nabla_is(op, rule->op)) continue;
    nabla_rule_outcome outcome = nabla_work_ask_file(&d->work, rule);
    if (outcome == NABLA_RULE_DECLINED) continue;
    if (outcome != NABLA_RULE_FAILED)
      nablaOptimizationRemark(location, false, rule->id, "nabla-dispatch",
                              rule->file);
    return outcome;
  }
  return NABLA_RULE_DECLINED;
}

static nabla_rule_outcome ask_rules(dispatching *d, MlirOperation op,
                                    const char **why) {
  MlirLocation location = mlirOperationGetLocation(op);
  const nabla_dispatch_choice among = {
      d->rules->rules, d->rules->table_count + d->rules->added_count, call_rule,
      d};
  const nabla_dispatch_rule *rule;
  nabla_rule_outcome outcome =
      nabla_dispatch_rules_choose(&among, op, &rule, why);
  if (outcome == NABLA_RULE_APPLIED || outcome == NABLA_RULE_REFINED)
    nablaOptimizationRemark(location, false, rule->id, "nabla-dispatch",
                            rule->summary);
  return outcome;
}

/* The rule for any operation that comes after `last` (NULL: the first) by
 * precedence, then in the order in which they were added; NULL. */
static const nabla_rule_description *next_of_any(
    const nabla_rule_set *set, const nabla_rule_description *last) {
  const nabla_rule_description *best = NULL;
  for (size_t i = 0; i < set->added_count; i++) {
    const nabla_rule_description *rule = &set->added[i];
    if (strcmp(rule->op, NABLA_RULE_ANY_OP) != 0) continue;
    if (last && (rule->precedence > last->precedence ||
                 (rule->precedence == last->precedence && rule <= last)))
      continue;
    if (!best || rule->precedence > best->precedence) best = rule;
  }
  return best;
}

/* Tries the rules for whatever no other takes. A composite is decomposed
 * first. */
static nabla_rule_outcome ask_rules_of_any(dispatching *d, MlirOperation op,
                                           const char **why) {
  const nabla_rule_description *rule = NULL;
  MlirLocation location = mlirOperationGetLocation(op);
  if (nabla_is_composite(op)) return NABLA_RULE_DECLINED;
  while ((rule = next_of_any(d->rules, rule))) {
    const char *own_why = NULL;
    nabla_rule_outcome outcome = nabla_work_ask_added(&d->work, rule, &own_why);
    if (outcome == NABLA_RULE_DECLINED) {
      if (own_why) *why = own_why;
      continue;
    }
    if (outcome == NABLA_RULE_APPLIED) d->report.counts.replaced++;
    if (outcome != NABLA_RULE_FAILED)
      nablaOptimizationRemark(location, false, rule->id, "nabla-dispatch",
                              rule->summary);
    return outcome;
  }
  return NABLA_RULE_DECLINED;
}

/* Replaces splat operands that no rule accepted by constants, which later
 * passes can optimize. Returns 1 if there were any, 0 if not, -1 after an
 * error. */
static int take_splats(MlirOperation op, MlirLocation location) {
  nabla_implicit_use use = nabla_op_find(op)->implicit;
  if (use != NABLA_IMPLICIT_rules && use != NABLA_IMPLICIT_views) return 0;
  int count = nabla_splats_to_constants(op);
  if (count > 0)
    nablaOptimizationRemark(location, false, "splat", "nabla-dispatch",
                            "a splat is a constant");
  return count > 0 ? 1 : count;
}

/* Handles an op that no rule accepted: decomposes a composite into operations
 * that have rules, materializes the implicit operands of any other op. */
static bool fall_back(dispatching *d, MlirOperation op, const char *why) {
  if (nabla_is_composite(op)) {
    d->again = true; /* a product of tensors may be among its parts */
    return nabla_decompose(op);
  }
  if (nabla_op_find(op)->implicit == NABLA_IMPLICIT_views)
    why = "the result is a tensor";
  if (nabla_op_find(op)->implicit == NABLA_IMPLICIT_flows)
    why = "its slices are tensors";
  return materialize(op, &d->report, why);
}

/* Asks the table alone; an op that no rule takes stays as it is. A large linear
 * is decomposed here, so that its product is asked for in the next pass. */
static bool dispatch_dense(dispatching *d, MlirOperation op) {
  const char *why;
  size_t count;
  const nabla_dispatch_rule *table = nabla_dispatch_rules(&count), *rule;
  MlirLocation location = mlirOperationGetLocation(op);
  if (nabla_is(op, "nabla.linear")) {
    if (!nabla_linear_pays(op)) return true;
    d->again = true;
    return nabla_decompose(op);
  }
  nabla_rule_outcome outcome =
      nabla_dispatch_rules_apply(table, count, op, &rule, &why);
  if (outcome == NABLA_RULE_DECLINED)
    remark(op, true, nabla_is_composite(op) ? "Decomposed" : "Loops", why);
  if (outcome != NABLA_RULE_APPLIED) return outcome != NABLA_RULE_FAILED;
  nablaOptimizationRemark(location, false, rule->id, "nabla-dispatch",
                          rule->summary);
  return true;
}

static bool dispatch(dispatching *d, MlirOperation op) {
  const char *why = "";
  MlirLocation location = mlirOperationGetLocation(op); /* op may be erased */
  if (is_dense_product(op)) return dispatch_dense(d, op);
  /* This ends: each refinement by a built-in rule removes one kind of implicit
   * operand, and refinements by other rules are limited in number. */
  for (int round = 0; round < MAX_ROUNDS && may_be_asked(op); round++) {
    nabla_rule_outcome outcome = ask_files(d, op);
    if (outcome == NABLA_RULE_DECLINED) outcome = ask_rules(d, op, &why);
    if (outcome == NABLA_RULE_FAILED) return false;
    if (outcome == NABLA_RULE_APPLIED) return true;
    if (outcome == NABLA_RULE_REFINED) continue;
    if (!needs_dispatch(op)) return true;
    int taken = take_splats(op, location);
    if (taken < 0) return false;
    if (taken) continue;
    outcome = ask_rules_of_any(d, op, &why);
    if (outcome == NABLA_RULE_FAILED) return false;
    if (outcome == NABLA_RULE_APPLIED) return true;
    if (outcome == NABLA_RULE_DECLINED) return fall_back(d, op, why);
  }
  return true;
}

/* Dispatches every operation that the program has now. */
static bool dispatch_pass(dispatching *d, MlirOperation root) {
  d->work = nabla_work_begin(root, may_be_asked);
  bool good = !d->work.failed;
  for (MlirOperation at;
       good && !mlirOperationIsNull(at = nabla_work_next(&d->work));)
    good = dispatch(d, at);
  /* Operations built by rules from files or from nabla_add_rule were verified
   * one by one; this checks the whole program: definitions precede uses. */
  if (good && d->work.rewrites) good = mlirOperationVerify(root);
  nabla_work_end(&d->work);
  return good;
}

/* Repeats passes until no op needs dispatch: built-in rules and decompositions
 * create ops that need it too. */
static bool dispatch_all(dispatching *d, MlirOperation root) {
  for (int pass = 0; pass < MAX_PASSES; pass++) {
    d->again = false;
    if (!dispatch_pass(d, root)) return false;
    nabla_op_list left = nabla_ops_collect(root, needs_dispatch);
    bool done = left.count == 0 && !left.failed && !d->again;
    bool failed = left.failed;
    nabla_op_list_deinit(&left);
    if (done || failed) return !failed;
  }
  nabla_error_at(root,
                 "has rules that make each other's operations without end: "
                 "nabla-dispatch gave up");
  return false;
}

void *nabla_prepare_dispatch(MlirContext context,
                             const nablaPassValue *values) {
  return nabla_rule_set_create(context, values[1].string);
}

void nabla_release_dispatch(void *prepared) {
  nabla_rule_set_destroy(prepared);
}

static bool is_default(MlirOperation op) {
  return !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(op, nabla_ref(NABLA_RULE_DEFAULT)));
}

static bool forget_default(MlirOperation op, void *self) {
  (void)self;
  mlirOperationRemoveAttributeByName(op, nabla_ref(NABLA_RULE_DEFAULT));
  return true;
}

static bool is_fused(MlirOperation op) {
  MlirStringRef name = nabla_name(op);
  static const char prefix[] = "nabla.fused_";
  return name.length >= sizeof prefix - 1 &&
         !memcmp(name.data, prefix, sizeof prefix - 1);
}

/* Takes the marks of rules away, and counts what there is now. */
static bool finish(report *r, MlirOperation root) {
  nabla_op_list fused = nabla_ops_collect(root, is_fused);
  const bool failed = fused.failed;
  r->counts.fused = fused.count;
  nabla_op_list_deinit(&fused);
  if (failed) return false;
  last_counts.materializations += r->counts.materializations;
  last_counts.replaced += r->counts.replaced;
  last_counts.declined += r->counts.declined;
  last_counts.fused += r->counts.fused;
  return mlirLogicalResultIsSuccess(
      nabla_ops_each(root, is_default, forget_default, NULL));
}

static bool is_stop(MlirOperation op) {
  return nabla_is(op, "nabla.stop_gradient");
}

/* Derivatives have been made. */
static bool remove_stop(MlirOperation op, void *self) {
  (void)self;
  MlirValue operand = mlirOperationGetOperand(op, 0);
  nabla_op_replace(op, &operand);
  return true;
}

MlirLogicalResult nabla_run_dispatch(MlirOperation op,
                                     const nablaPassValue *values,
                                     void *prepared) {
  policy say;
  if (!read_policy(values[0].string, &say))
    return nabla_error_at(op,
                          "nabla-dispatch: policy '%s' is none of off, "
                          "warn, error",
                          values[0].string);
  const nabla_target *target = nabla_target_read(op, values[2].string);
  if (!target) return mlirLogicalResultFailure();
  dispatching d = {.rules = prepared};
  report *r = &d.report;
  r->end = &r->first;
  nabla_target_mark(op, target); /* rules get an op, not the target */
  bool good = mlirLogicalResultIsSuccess(
                  nabla_ops_each(op, is_stop, remove_stop, NULL)) &&
              dispatch_all(&d, op);
  nabla_target_unmark(op);
  print_misses(r, say);
  good =
      finish(r, op) && good && !r->failed && !(say == POLICY_ERROR && r->first);
  while (r->first) {
    miss *next = r->first->next;
    free(r->first);
    r->first = next;
  }
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
