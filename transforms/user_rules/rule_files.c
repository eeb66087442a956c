/* Files of rules (.pdl.mlir): read within bounds, parsed, checked before MLIR
 * compiles them, which would end the process over some mistakes and do
 * anything over others. One set of patterns for each rule: then it is known
 * which one was applied. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Diagnostics.h>
#include <mlir-c/Pass.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/ops.h"
#include "lib/base/file/file.h"
#include "lib/base/memory.h"
#include "lib/base/nesting.h"
#include "transforms/ir/ir.h"
#include "transforms/ir/named_parse.h"
#include "transforms/user_rules/user_rules.h"

void nabla_file_rule_deinit(nabla_file_rule *rule) {
  if (rule->patterns.ptr) mlirFrozenRewritePatternSetDestroy(rule->patterns);
  free(rule->id);
  free(rule->op);
  free(rule->file);
}

static bool fail_at(MlirContext context, const char *path, unsigned line,
                    const char *what) {
  mlirEmitError(mlirLocationFileLineColGet(context, nabla_ref(path), line, 1),
                what);
  return false;
}

/* ---- reading ---- */

/* Appends the text of a file of rules to `out`. */
static nabla_status read_file(const char *path, nabla_buffer *out,
                              nabla_diag *diag) {
  nabla_file *file;
  NABLA_TRY(nabla_file_open(NULL, NULL, path, &file, diag));
  const nabla_status status =
      nabla_file_read_all(file, NABLA_RULE_FILE_LIMIT, out, diag);
  nabla_file_close(file);
  return status;
}

/* MLIR's parser goes as deep as brackets do, and stops at a NUL. */
static bool check_text(MlirContext context, const char *path, const char *text,
                       size_t size) {
  unsigned line = 1;
  int depth = 0;
  for (size_t i = 0; i < size; i++) {
    if (!text[i]) return fail_at(context, path, line, "has a NUL byte");
    line += text[i] == '\n';
    depth += strchr("([{<", text[i]) != NULL;
    depth -= strchr(")]}>", text[i]) != NULL && depth > 0;
    if (depth > NABLA_RULE_FILE_DEPTH)
      return fail_at(context, path, line, "has brackets 100 deep");
  }
  return true;
}

/* ---- checking ---- */

typedef struct checking {
  bool good;
  MlirOperation rewrite; /* pdl.rewrite of the pattern */
} checking;

static void object(checking *c, MlirOperation op, const char *what) {
  if (c->good) nabla_error_at(op, "%s", what);
  c->good = false;
}

/* The text of an attribute of `op`; empty when there is none. */
static MlirStringRef text_of(MlirOperation op, const char *key) {
  MlirAttribute value = mlirOperationGetAttributeByName(op, nabla_ref(key));
  if (mlirAttributeIsNull(value) || !mlirAttributeIsAString(value))
    return nabla_ref("");
  return mlirStringAttrGetValue(value);
}

/* Names operations that exist: MLIR takes any name. */
static void check_name(checking *c, MlirOperation op) {
  char name[128];
  MlirStringRef text = text_of(op, "opName");
  if (!text.length || !c->good) return;
  snprintf(name, sizeof name, "%.*s",
           (int)(text.length < 100 ? text.length : 100), text.data);
  if (mlirContextIsRegisteredOperation(nabla_op_context(op), nabla_ref(name)))
    return;
  nabla_error_at(op, "there is no operation '%s'", name);
  c->good = false;
}

static MlirWalkResult check_op(MlirOperation op, void *self) {
  checking *c = self;
  if (nabla_is(op, "pdl.operation")) check_name(c, op);
  if (nabla_is(op, "pdl.rewrite")) {
    c->rewrite = op;
    if (text_of(op, "name").length)
      object(c, op, "names a rewrite of its own: write its body as a block");
    else if (mlirOperationGetNumOperands(op) == 0)
      object(c, op,
             "names no operation that is replaced: pdl.rewrite %root { ... }");
  }
  if (c->good && !nabla_rule_op_check(op)) c->good = false;
  return c->good ? MlirWalkResultAdvance : MlirWalkResultInterrupt;
}

/* Fills id, op and benefit of a pattern. */
static bool check_pattern(MlirOperation pattern, nabla_file_rule *out) {
  checking c = {.good = true};
  mlirOperationWalk(pattern, check_op, &c, MlirWalkPreOrder);
  if (c.good && mlirOperationIsNull(c.rewrite))
    object(&c, pattern, "has no pdl.rewrite");
  if (!c.good || !nabla_rule_bindings_check(c.rewrite)) return false;
  MlirOperation root = nabla_defining_op(mlirOperationGetOperand(c.rewrite, 0));
  MlirStringRef op =
      mlirOperationIsNull(root) ? nabla_ref("") : text_of(root, "opName");
  MlirStringRef id = text_of(pattern, "sym_name");
  if (op.length < 7 || memcmp(op.data, "nabla.", 6)) {
    nabla_error_at(pattern,
                   "replaces '%.*s': rules are for operations of the dialect, "
                   "pdl.operation \"nabla.NAME\"",
                   (int)(op.length < 60 ? op.length : 60), op.data);
    return false;
  }
  if (!id.length) {
    nabla_error_at(pattern, "has no name: pdl.pattern @name : benefit(1)");
    return false;
  }
  MlirAttribute benefit =
      mlirOperationGetAttributeByName(pattern, nabla_ref("benefit"));
  out->benefit = (int)mlirIntegerAttrGetValueInt(benefit);
  out->id = strndup(id.data, id.length);
  out->op = strndup(op.data, op.length);
  return out->id && out->op;
}

/* ---- compiling ---- */

/* Whether MLIR can compile the patterns; in the process that freezes a set, not
 * to be able to is the end. */
static bool compiles(MlirContext context, MlirModule module) {
  MlirModule copy = mlirModuleFromOperation(
      mlirOperationClone(mlirModuleGetOperation(module)));
  MlirPassManager manager = mlirPassManagerCreate(context);
  nabla_text ignored = {0};
  bool good = mlirLogicalResultIsSuccess(mlirParsePassPipeline(
                  mlirPassManagerGetAsOpPassManager(manager),
                  nabla_ref("builtin.module(convert-pdl-to-pdl-interp)"), NULL,
                  &ignored)) &&
              mlirLogicalResultIsSuccess(mlirPassManagerRunOnOp(
                  manager, mlirModuleGetOperation(copy)));
  mlirPassManagerDestroy(manager);
  mlirModuleDestroy(copy);
  return good;
}

static bool freeze(MlirContext context, MlirOperation pattern,
                   nabla_file_rule *out) {
  MlirModule module = mlirModuleCreateEmpty(mlirOperationGetLocation(pattern));
  mlirBlockAppendOwnedOperation(mlirModuleGetBody(module),
                                mlirOperationClone(pattern));
  if (!compiles(context, module)) {
    nabla_error_at(pattern, "is not a pattern that can be compiled");
    mlirModuleDestroy(module);
    return false;
  }
  MlirPDLPatternModule patterns = mlirPDLPatternModuleFromModule(module);
  nabla_rule_natives_register(patterns);
  MlirRewritePatternSet set =
      mlirRewritePatternSetFromPDLPatternModule(patterns);
  out->patterns = mlirFreezeRewritePattern(set);
  mlirRewritePatternSetDestroy(set);
  mlirPDLPatternModuleDestroy(patterns);
  return true;
}

static bool is_known(const nabla_rule_set *set, const char *id) {
  for (size_t i = 0; i < set->table_count + set->added_count; i++)
    if (!strcmp(set->rules[i].id, id)) return true;
  for (size_t i = 0; i < set->file_count; i++)
    if (!strcmp(set->files[i].id, id)) return true;
  return false;
}

static bool add_pattern(MlirContext context, const char *path,
                        MlirOperation pattern, nabla_rule_set *to) {
  if (!nabla_is(pattern, "pdl.pattern")) {
    nabla_error_at(pattern, "stands among rules: only pdl.pattern may");
    return false;
  }
  if (to->file_count == NABLA_RULE_FILES_RULES) {
    nabla_error_at(pattern, "is one rule too many: %d are read",
                   NABLA_RULE_FILES_RULES);
    return false;
  }
  nabla_file_rule rule = {.file = strdup(path)};
  bool good = rule.file && check_pattern(pattern, &rule);
  if (good && is_known(to, rule.id)) {
    nabla_error_at(pattern, "there is a rule '%s' already: rename it", rule.id);
    good = false;
  }
  good = good && freeze(context, pattern, &rule);
  nabla_file_rule *grown = NULL;
  if (good)
    grown = realloc(to->files, (to->file_count + 1) * sizeof *to->files);
  if (!grown) {
    nabla_file_rule_deinit(&rule);
    return false;
  }
  to->files = grown;
  to->files[to->file_count++] = rule;
  return true;
}

static bool add_all(MlirContext context, const char *path, MlirModule module,
                    nabla_rule_set *to) {
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  if (mlirOperationIsNull(op))
    return fail_at(context, path, 1, "has no rules: pdl.pattern @name ...");
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (!add_pattern(context, path, op, to)) return false;
  return true;
}

/* Parses the text, which ends with a NUL beyond `size`; null after errors. */
static MlirModule parse(MlirContext context, const char *path, const char *text,
                        size_t size) {
  nabla_diag diag = NABLA_DIAG_INIT;
  MlirModule module = {NULL};
  if (!check_text(context, path, text, size)) return module;
  if (nabla_nesting_check(text, size, &diag)) {
    fail_at(context, path, 1, diag.what);
    return module;
  }
  mlirContextGetOrLoadDialect(context, nabla_ref("pdl"));
  mlirContextGetOrLoadDialect(context, nabla_ref("pdl_interp"));
  module = nabla_parse_named(context, path, text, size);
  if (mlirModuleIsNull(module))
    fail_at(context, path, 1, "the rules do not parse or verify");
  return module;
}

bool nabla_rule_file_read(MlirContext context, const char *path,
                          nabla_rule_set *to) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_buffer text;
  nabla_buffer_init(&text, NULL, "rules", NABLA_RULE_FILE_LIMIT + 1);
  if (read_file(path, &text, &diag) ||
      nabla_buffer_append(&text, "", 1, &diag)) {
    char said[300];
    snprintf(said, sizeof said, "rules cannot be read: %s", diag.what);
    nabla_buffer_deinit(&text);
    return fail_at(context, path, 1, said);
  }
  MlirModule module =
      parse(context, path, (const char *)text.data, text.size - 1);
  const bool good =
      !mlirModuleIsNull(module) && add_all(context, path, module, to);
  if (!mlirModuleIsNull(module)) mlirModuleDestroy(module);
  nabla_buffer_deinit(&text);
  return good;
}
