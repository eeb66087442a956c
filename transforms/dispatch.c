/* nabla-dispatch: applies the rules to every op that has implicit operands,
 * then materializes what no rule took, and says so: one line for each pair of
 * op and encoding, with a count. */
#include <mlir-c/Diagnostics.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/ops.h"
#include "transforms/decompositions.h"
#include "transforms/ir.h"
#include "transforms/passes.h"
#include "transforms/rules.h"
#include "transforms/splats.h"

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

/* Materialized operands of one encoding at one kind of op. */
typedef struct miss {
  char op[64], encoding[96];
  const char *why; /* of the first */
  MlirLocation location;
  uint64_t count, elements;
  struct miss *next;
} miss;

typedef struct report {
  miss *first, **end;
  bool failed;
} report;

static void encoding_text(MlirType type, char *out, size_t size) {
  nabla_text text = {0};
  nabla_text_add_attribute(&text, nablaImplicitTypeParts(type).encoding);
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

/* Is operand `index` one that the op takes as it is? Of a scan's, all but the
 * inputs whose slices are tensors. */
static bool flows(MlirOperation op, intptr_t index) {
  if (nabla_op_find(op)->implicit != NABLA_IMPLICIT_flows) return false;
  if (!nabla_is(op, "nabla.scan")) return true;
  nabla_scan scan = nabla_scan_read(op);
  if (index < scan.carries || index >= scan.carries + scan.inputs) return true;
  MlirBlock body = nabla_region_block(op, 0);
  return nablaTypeIsAImplicit(
      mlirValueGetType(mlirBlockGetArgument(body, index)));
}

/* A nabla.materialize in front of each implicit operand. */
static bool materialize(MlirOperation op, report *r, const char *why) {
  remark(op, true, "Materialized", why);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    MlirType type = mlirValueGetType(value);
    if (!nablaTypeIsAImplicit(type) || flows(op, i)) continue;
    count_miss(r, op, type, why);
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

/* Ops whose implicit operands something has to be done about. */
static bool needs_dispatch(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  if (!row || !has_implicit_operand(op)) return false;
  return row->implicit == NABLA_IMPLICIT_rules ||
         row->implicit == NABLA_IMPLICIT_flows ||
         (row->implicit == NABLA_IMPLICIT_views &&
          !nablaTypeIsAImplicit(nabla_result_type(op, 0)));
}

/* Splats that no rule took become constants, which the passes behind know: 1 if
 * there were some, 0 if not, -1 after an error. */
static int take_splats(MlirOperation op, MlirLocation location) {
  nabla_implicit_use use = nabla_op_find(op)->implicit;
  if (use != NABLA_IMPLICIT_rules && use != NABLA_IMPLICIT_views) return 0;
  int count = nabla_splats_to_constants(op);
  if (count > 0)
    nablaOptimizationRemark(location, false, "splat", "nabla-dispatch",
                            "a splat is a constant");
  return count > 0 ? 1 : count;
}

static bool dispatch(MlirOperation op, report *r) {
  size_t count;
  const nabla_rule *rules = nabla_rules(&count), *rule;
  const char *why = "";
  MlirLocation location = mlirOperationGetLocation(op); /* it may be erased */
  /* each refinement leaves one kind of implicit operand less */
  for (int round = 0; round < 4 && needs_dispatch(op); round++) {
    nabla_rule_outcome outcome =
        nabla_rules_apply(rules, count, op, &rule, &why);
    if (outcome == NABLA_RULE_FAILED) return false;
    if (outcome == NABLA_RULE_DECLINED) {
      int taken = take_splats(op, location);
      if (taken < 0) return false;
      if (taken > 0) continue;
      if (nabla_op_find(op)->implicit == NABLA_IMPLICIT_views)
        why = "the result is a tensor";
      if (nabla_op_find(op)->implicit == NABLA_IMPLICIT_flows)
        why = "its slices are tensors";
      return materialize(op, r, why);
    }
    nablaOptimizationRemark(location, false, rule->id, "nabla-dispatch",
                            rule->summary);
    if (outcome == NABLA_RULE_APPLIED) return true;
  }
  return true;
}

static bool is_composite(MlirOperation op) {
  return nabla_is_composite(op) && has_implicit_operand(op);
}

/* A composite that no rule takes whole becomes its parts, which have rules. */
static bool dispatch_composite(MlirOperation op, void *self) {
  (void)self;
  size_t count;
  const nabla_rule *rules = nabla_rules(&count), *rule;
  const char *why;
  MlirLocation location = mlirOperationGetLocation(op);
  nabla_rule_outcome outcome = nabla_rules_apply(rules, count, op, &rule, &why);
  if (outcome == NABLA_RULE_DECLINED) return nabla_decompose(op);
  if (outcome == NABLA_RULE_FAILED) return false;
  if (outcome != NABLA_RULE_APPLIED) return nabla_decompose(op);
  nablaOptimizationRemark(location, false, rule->id, "nabla-dispatch",
                          rule->summary);
  return true;
}

/* A rule may make ops that want dispatch themselves: so many times over. */
#define MAX_ROUNDS 32

static bool dispatch_all(MlirOperation root, report *r) {
  bool good = true;
  for (int round = 0; good && round < MAX_ROUNDS; round++) {
    nabla_op_list all = nabla_ops_collect(root, needs_dispatch);
    size_t count = all.count;
    good = !all.failed;
    for (size_t i = 0; good && i < count; i++) good = dispatch(all.ops[i], r);
    nabla_op_list_deinit(&all);
    if (count == 0) return good;
  }
  if (good)
    nabla_error_at(root,
                   "has rules that make each other's operations without "
                   "end: nabla-dispatch gave up");
  return false;
}

MlirLogicalResult nabla_run_dispatch(MlirOperation op,
                                     const nablaPassValue *values,
                                     void *prepared) {
  (void)prepared;
  policy say;
  if (!read_policy(values[0].string, &say))
    return nabla_error_at(op,
                          "nabla-dispatch: policy '%s' is none of off, "
                          "warn, error",
                          values[0].string);
  if (mlirLogicalResultIsFailure(
          nabla_ops_each(op, is_composite, dispatch_composite, NULL)))
    return mlirLogicalResultFailure();
  report r = {NULL, &r.first, false};
  bool good = dispatch_all(op, &r);
  print_misses(&r, say);
  good = good && !r.failed && !(say == POLICY_ERROR && r.first);
  while (r.first) {
    miss *next = r.first->next;
    free(r.first);
    r.first = next;
  }
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
