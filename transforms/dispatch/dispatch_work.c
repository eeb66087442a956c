/* See dispatch_work.h. */
#include "transforms/dispatch/dispatch_work.h"

#include <mlir-c/Diagnostics.h>
#include <stdio.h>
#include <stdlib.h>

#include "dialect/infer/infer.h"

static void push(nabla_work *w, MlirOperation op, uint32_t depth,
                 const char *by) {
  if (w->count == w->capacity) {
    size_t capacity = w->capacity ? 2 * w->capacity : 64;
    nabla_work_item *items = realloc(w->items, capacity * sizeof *w->items);
    if (!items) {
      w->failed = true;
      return;
    }
    w->items = items;
    w->capacity = capacity;
  }
  w->items[w->count++] = (nabla_work_item){op, depth, by};
}

nabla_work nabla_work_begin(MlirOperation root,
                            bool (*want)(MlirOperation op)) {
  nabla_work w = {0};
  nabla_op_list all = nabla_ops_collect(root, want);
  w.failed = all.failed;
  for (size_t i = 0; i < all.count; i++) push(&w, all.ops[i], 0, NULL);
  nabla_op_list_deinit(&all);
  w.initial = w.count;
  return w;
}

void nabla_work_end(nabla_work *w) { free(w->items); }

MlirOperation nabla_work_next(nabla_work *w) {
  while (w->at < w->count) {
    MlirOperation op = w->items[w->at++].op;
    if (!mlirOperationIsNull(op)) return op;
  }
  return (MlirOperation){NULL};
}

static nabla_work_item *current(nabla_work *w) { return &w->items[w->at - 1]; }

bool nabla_work_gone(const nabla_work *w) {
  return mlirOperationIsNull(w->items[w->at - 1].op);
}

/* ---- what a rewriter tells ---- */

static void inserted(void *self, MlirOperation op) {
  nabla_work *w = self;
  const nabla_work_item from = *current(w);
  push(w, op, from.depth + 1, from.by);
}

/* Users of an op that is erased get a value that stands for nothing: what is
 * left stays valid until the rule is reported. */
static void keep_users(nabla_work *w, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    MlirValue value = mlirOperationGetResult(op, i);
    if (nabla_use_count(value) == 0) continue;
    w->orphaned = true;
    MlirType type = mlirValueGetType(value);
    nabla_op_spec spec = {
        "builtin.unrealized_conversion_cast", 0, NULL, 1, &type, 0, NULL};
    mlirValueReplaceAllUsesOfWith(
        value, mlirOperationGetResult(nabla_op_create(op, &spec), 0));
  }
}

static void erased(void *self, MlirOperation op) {
  nabla_work *w = self;
  w->erased++;
  keep_users(w, op);
  for (size_t i = w->at - 1; i < w->count; i++)
    if (mlirOperationEqual(w->items[i].op, op))
      w->items[i].op = (MlirOperation){NULL};
}

static void replaced(void *self, MlirOperation op, bool same) {
  nabla_work *w = self;
  (void)op;
  w->mismatch |= !same;
}

static nablaWatch watch_begin(nabla_work *w) {
  w->built = w->count;
  w->erased = 0;
  w->mismatch = w->orphaned = false;
  return (nablaWatch){w, inserted, erased, replaced};
}

/* ---- judging ---- */

typedef struct source {
  const char *id, *file; /* file NULL: nabla_add_rule */
  MlirLocation location; /* of the op that it was asked for */
} source;

static nabla_rule_outcome complain(const source *from, const char *what) {
  char text[600];
  snprintf(text, sizeof text, "rule '%.100s'%s%.200s: %s", from->id,
           from->file ? " of " : "", from->file ? from->file : "", what);
  mlirEmitError(from->location, text);
  return NABLA_RULE_FAILED;
}

static bool is_beyond(const nabla_work *w, uint32_t depth) {
  return depth > NABLA_REWRITE_DEPTH ||
         w->rewrites > w->initial * NABLA_REWRITE_EACH + NABLA_REWRITE_LEAST;
}

/* Everything that a rule may not have done. */
static nabla_rule_outcome judge(nabla_work *w, const source *from,
                                nabla_rule_outcome outcome) {
  bool changed = w->count > w->built || w->erased;
  if (w->failed) return complain(from, "out of memory");
  if (w->orphaned)
    return complain(from,
                    "erased an operation whose results are used: replace it "
                    "(mlirRewriterBaseReplaceOpWithValues)");
  if (outcome == NABLA_RULE_FAILED) return complain(from, "failed");
  if (outcome == NABLA_RULE_DECLINED && changed)
    return complain(from, "changed the program and then gave up");
  if (outcome == NABLA_RULE_DECLINED) return outcome;
  if (w->mismatch)
    return complain(from, "replaces a result by a value of another type");
  for (size_t i = w->built; i < w->count; i++)
    if (!mlirOperationIsNull(w->items[i].op) &&
        !mlirOperationVerify(w->items[i].op))
      return complain(from, "built an operation that is not valid");
  w->rewrites++;
  nabla_work_item *item = current(w);
  uint32_t depth = item->depth + 1;
  if (is_beyond(w, depth)) {
    char what[300];
    snprintf(what, sizeof what,
             "does not come to an end: what it builds is rewritten again%s"
             "%.100s%s, %zu rewrites in all",
             item->by ? " (here after rule '" : "", item->by ? item->by : "",
             item->by ? "')" : "", w->rewrites);
    return complain(from, what);
  }
  for (size_t i = w->built; i < w->count; i++) w->items[i].by = from->id;
  item->depth = depth;
  item->by = from->id;
  return nabla_work_gone(w) ? NABLA_RULE_APPLIED : NABLA_RULE_REFINED;
}

nabla_rule_outcome nabla_work_ask_file(nabla_work *w,
                                       const nabla_file_rule *rule) {
  MlirOperation op = current(w)->op;
  const source from = {rule->id, rule->file, mlirOperationGetLocation(op)};
  const nablaWatch watch = watch_begin(w);
  nabla_infer_guard();
  bool did = nablaRewritePattern(op, &watch, rule->patterns);
  if (nabla_infer_unguard()) return complain(&from, "failed while it built");
  return judge(w, &from, did ? NABLA_RULE_APPLIED : NABLA_RULE_DECLINED);
}

typedef struct asking {
  const nabla_rule_description *rule;
  nabla_dispatch_call call;
  nabla_rule_outcome outcome;
} asking;

static void ask(MlirRewriterBase rewriter, void *self) {
  asking *a = self;
  a->call.rewriter = rewriter;
  a->outcome = a->rule->apply(&a->call);
}

nabla_rule_outcome nabla_work_ask_added(nabla_work *w,
                                        const nabla_rule_description *rule,
                                        const char **why) {
  MlirOperation op = current(w)->op;
  const source from = {rule->id, NULL, mlirOperationGetLocation(op)};
  const nablaWatch watch = watch_begin(w);
  asking a = {.rule = rule,
              .call = {.struct_size = sizeof a.call,
                       .self = rule->self,
                       .op = op,
                       .why = "a rule declined"}};
  nablaRewrite(op, &watch, ask, &a);
  if (a.call.why) *why = a.call.why;
  return judge(w, &from, a.outcome);
}
