/* The choice among dispatch rules: specificity, precedence, declining, ties;
 * that the table of dialect/rules.def has no tie for any operands; and, of
 * every op with every kind of operand, that nabla-dispatch materializes what no
 * rule takes, and nothing else, and says so once for each encoding, with the
 * right counts. An op without a form here fails the test. */
#include <mlir-c/Diagnostics.h>
#include <stdio.h>
#include <string.h>

#include "dialect/dialect.h"
#include "dialect/encoding/encoding.h"
#include "dialect/ops.h"
#include "transforms/dispatch/rules.h"
#include "transforms/fused/fused_spec.h"
#include "transforms/ir/ir.h"
#include "transforms/passes.h"

static char trace[64];    /* ids of the rules that were tried, in order */
static char said[512];    /* the last diagnostic */
static char warned[4096]; /* all warnings, a line each */
static int failures;

static void expect(bool good, const char *what) {
  if (good) return;
  printf("failed: %s (tried '%s', said '%s')\n", what, trace, said);
  failures++;
}

static nabla_rule_outcome tried(const char *id, nabla_rule_outcome outcome,
                                const char **why) {
  size_t used = strlen(trace);
  snprintf(trace + used, sizeof trace - used, "%s", id);
  *why = "it does not want to";
  return outcome;
}
#define RULE_FUNCTION(id, outcome)                                   \
  static nabla_rule_outcome id(MlirOperation op, const char **why) { \
    (void)op;                                                        \
    return tried(#id, outcome, why);                                 \
  }
RULE_FUNCTION(a, NABLA_RULE_DECLINED)
RULE_FUNCTION(b, NABLA_RULE_DECLINED)
RULE_FUNCTION(c, NABLA_RULE_DECLINED)
RULE_FUNCTION(T, NABLA_RULE_REFINED)
RULE_FUNCTION(F, NABLA_RULE_FAILED)

/* A rule for nabla.dot_general. */
#define ROW(f, lhs, rhs, precedence) \
  {#f,                               \
   "nabla.dot_general",              \
   NABLA_OPERAND_##lhs,              \
   NABLA_OPERAND_##rhs,              \
   precedence,                       \
   "",                               \
   f}

static void print_said(MlirStringRef part, void *self) {
  (void)self;
  size_t used = strlen(said);
  snprintf(said + used, sizeof said - used, "%.*s", (int)part.length,
           part.data);
}
static MlirLogicalResult listen(MlirDiagnostic diagnostic, void *self) {
  (void)self;
  said[0] = 0;
  mlirDiagnosticPrint(diagnostic, print_said, NULL);
  if (mlirDiagnosticGetSeverity(diagnostic) == MlirDiagnosticWarning) {
    size_t used = strlen(warned);
    snprintf(warned + used, sizeof warned - used, "%s\n", said);
  }
  return mlirLogicalResultSuccess();
}

typedef struct choice {
  nabla_rule_outcome outcome;
  const nabla_dispatch_rule *rule;
  const char *why;
} choice;

static choice choose(MlirOperation op, const nabla_dispatch_rule *rules,
                     size_t count) {
  choice out;
  trace[0] = said[0] = 0;
  out.outcome =
      nabla_dispatch_rules_apply(rules, count, op, &out.rule, &out.why);
  return out;
}
#define CHOOSE(op, ...)                              \
  const nabla_dispatch_rule rules[] = {__VA_ARGS__}; \
  choice got = choose(op, rules, sizeof rules / sizeof *rules)

static void check_none(MlirOperation op) {
  CHOOSE(op, ROW(a, PACKED, DENSE, 0),
         {"b", "nabla.add", NABLA_OPERAND_ANY, NABLA_OPERAND_ANY, 0, "", b});
  expect(got.outcome == NABLA_RULE_DECLINED && !got.rule && !trace[0] &&
             !strcmp(got.why, "no rule takes it"),
         "no rule matches");
}

static void check_order(MlirOperation op) {
  CHOOSE(op, ROW(a, ANY, PACKED, 0), ROW(b, DENSE, PACKED, 0),
         ROW(c, DENSE, IMPLICIT, -1));
  expect(got.outcome == NABLA_RULE_DECLINED && !strcmp(trace, "bac") &&
             got.rule == &rules[2] && !strcmp(got.why, "it does not want to"),
         "specificity, then precedence; declining makes room for the next");
}

static void check_first_wins(MlirOperation op) {
  CHOOSE(op, ROW(a, ANY, ANY, 9), ROW(b, ANY, ANY, 9), ROW(T, DENSE, ANY, 0));
  expect(got.outcome == NABLA_RULE_REFINED && !strcmp(trace, "T") &&
             got.rule == &rules[2] && !said[0],
         "a tie that nobody gets to is none");
}

static void check_failure(MlirOperation op) {
  CHOOSE(op, ROW(F, DENSE, PACKED, 0), ROW(a, ANY, ANY, 0));
  expect(got.outcome == NABLA_RULE_FAILED && !strcmp(trace, "F"),
         "a rule that fails ends the search");
}

static void check_tie(MlirOperation op) {
  CHOOSE(op, ROW(a, DENSE, IMPLICIT, 0), ROW(b, ANY, PACKED, 0));
  expect(got.outcome == NABLA_RULE_FAILED && !trace[0] &&
             strstr(said,
                    "is taken by two rules that say equally much, a and "
                    "b: give one a higher precedence"),
         "a tie is an error that names both, and none is tried");
}

static void check_late_tie(MlirOperation op) {
  CHOOSE(op, ROW(a, DENSE, PACKED, 0), ROW(b, ANY, ANY, 0),
         ROW(c, ANY, ANY, 0));
  expect(got.outcome == NABLA_RULE_FAILED && !strcmp(trace, "a") &&
             strstr(said, "b and c"),
         "a tie behind a rule that declined");
}

/* ---- targets ---- */

static const char *refuse(const nabla_fused_spec *spec) {
  return spec->n == 128 && spec->features == 0 ? "this target has no kernels"
                                               : NULL;
}

static MlirType type_of(MlirContext context, const char *text) {
  return mlirTypeParseGet(context, mlirStringRefCreateFromCString(text));
}

/* Rules ask the target of the pass whether an operation fuses. */
static void check_targets(MlirContext context, MlirOperation op) {
  const nabla_target none = {.name = "none", .objection = refuse};
  const MlirType x = type_of(context, "tensor<?x256xf32>");
  const MlirType w =
      type_of(context, "!nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>");
  nabla_fused_spec spec;
  const char *why = nabla_fused_spec_of(&none, x, w, 0, &spec);
  expect(why && !strcmp(why, "this target has no kernels"),
         "a target is asked whether an operation fuses");
  expect(!nabla_fused_spec_of(&nabla_target_x86, x, w, 0, &spec) &&
             !nabla_fused_spec_of(&nabla_target_portable, x, w, 0, &spec),
         "CPUs have a kernel of it without any feature");
  const MlirOperation parent = mlirOperationGetParentOperation(op);
  expect(nabla_target_of(op) == nabla_target_find("host"),
         "without a mark the target is this machine's");
  nabla_target_mark(parent, &nabla_target_portable);
  expect(nabla_target_of(op) == &nabla_target_portable, "a mark is seen");
  nabla_target_unmark(parent);
  expect(nabla_target_of(op) == nabla_target_find("host"), "it can be removed");
  expect(nabla_target_of_triple("x86_64-pc-linux-gnu") == &nabla_target_x86 &&
             nabla_target_of_triple("x86_64") == &nabla_target_x86 &&
             nabla_target_of_triple("x86_64h-x") == &nabla_target_portable &&
             nabla_target_of_triple("aarch64-unknown-linux-gnu") ==
                 &nabla_target_portable,
         "targets of triples");
  expect(!nabla_target_find("x8") && !nabla_target_find(""), "unknown names");
  expect(nabla_target_portable.features("avx2,fma,neon") ==
                 nabla_features_parse("neon") &&
             nabla_target_x86.features("avx2") == nabla_features_parse("avx2"),
         "features of the target alone");
}

/* What an operand can be; the text is its type. */
static const struct {
  const char *name, *type;
} kinds[] = {
    {"dense", "tensor<8x64xf32>"},
    {"nf4", "!nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>"},
    {"int8", "!nabla.implicit<8x64xf32, #nabla.int8<block = 64>>"},
    {"rows",
     "!nabla.implicit<8x64xf32, #nabla.int8<block = 0, "
     "blocks = leading>>"},
    {"lora",
     "!nabla.implicit<8x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, "
     "rank = 2>>"},
    {"nested",
     "!nabla.implicit<8x64xf32, #nabla.int4<block = 16, scale = "
     "#nabla.dynamic8<block = 16>, zero_point = true>>"},
    {"one", "!nabla.implicit<8x64xf32, #nabla.splat<1.0 : f32>>"},
    {"two", "!nabla.implicit<8x64xf32, #nabla.splat<2.0 : f32>>"},
    {"identity", "!nabla.implicit<8x64xf32, #nabla.identity>"},
    {"custom",
     "!nabla.implicit<8x64xf32, #nabla.custom<\"c\", {components = "
     "[[\"codes\", i8, affine_map<(n) -> (n)>]], decode = @f}>>"},
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* How an op that has rules is written with operands %0, %1; behind their types
 * comes `tail`. %i is an index, %v a scalar, %p are places, %u updates, %c
 * truths. */
typedef struct op_form {
  const char *op, *form;
  int operands;
  const char *tail;
} op_form;

/* Of operations that ops.def does not describe well enough. */
static const op_form own_forms[] = {
    {"nabla.dot_general", "nabla.dot_general %0, %1 contracting = [1] x [1]", 2,
     ""},
    {"nabla.neg", "nabla.neg %0", 1, ""},
    {"nabla.mul", "nabla.mul %0, %1", 2, ""},
    {"nabla.logsumexp", "nabla.logsumexp %0 dim = 1", 1, ""},
    {"nabla.compare", "nabla.compare lt %0, %1", 2, ""},
    {"nabla.select", "nabla.select %c, %0, %1", 2, ""},
    {"nabla.convert", "nabla.convert %0", 1, " -> tensor<8x64xf16>"},
    {"nabla.reduce", "nabla.reduce sum %0 dims = [1]", 1, ""},
    {"nabla.concatenate", "nabla.concatenate %0, %1 dim = 0", 2, ""},
    {"nabla.concatenate", "nabla.concatenate %0 dim = 0", 1, ""},
    {"nabla.stack", "nabla.stack %0, %1 dim = 0", 2, ""},
    {"nabla.stack", "nabla.stack %0 dim = 0", 1, ""},
    {"nabla.dynamic_slice", "nabla.dynamic_slice %0 at(%i, %i : index, index)",
     1, " -> tensor<8x64xf32>"},
    {"nabla.dynamic_update_slice",
     "nabla.dynamic_update_slice %0, %1 at(%i, %i : index, index)", 2, ""},
    {"nabla.pad", "nabla.pad %0, %v low = [0, 0] high = [0, 0]", 1,
     ", tensor<f32>"},
    {"nabla.flip", "nabla.flip %0 dims = [1]", 1, ""},
    {"nabla.conv_general", "nabla.conv_general %0, %1", 2, ""},
    {"nabla.pool", "nabla.pool max %0 window = [2, 2]", 1, ""},
    {"nabla.gather",
     "nabla.gather %0, %p offset_dims = [1] collapsed_dims = [0] index_map = "
     "[0] vector_dim = 1 sizes = [1, 64]",
     1, ", tensor<3xi32>"},
    {"nabla.scatter",
     "nabla.scatter add %0, %p, %u offset_dims = [1] collapsed_dims = [0] "
     "index_map = [0] vector_dim = 1",
     1, ", tensor<3xi32>, tensor<3x64xf32>"},
    {"nabla.reshape", "nabla.reshape %0", 1, " -> tensor<512xf32>"},
    {"nabla.broadcast_in_dim", "nabla.broadcast_in_dim %0 dims = [0, 1]", 1,
     " -> tensor<8x64xf32>"},
    {"nabla.custom_call", "nabla.custom_call @f(%0, %1)", 2,
     ") -> tensor<2xf32>"},
    {"nabla.custom_call", "nabla.custom_call @f(%0)", 1, ") -> tensor<2xf32>"},
};

/* How operands and attributes of an op are written, by the column INFER. */
static const struct {
  const char *infer, *tail;
  int operands;
} forms_of_infer[] = {
    {"unary", "%0", 1},       {"predicate", "%0", 1},
    {"binary", "%0, %1", 2},  {"along", "%0 dim = 1", 1},
    {"arg", "%0 dim = 1", 1},
};

static const struct {
  const char *op, *infer, *implicit;
} rows_of_ops[] = {
#define OP(id, columns) {.op = #id, columns},
#define INFER(word)     .infer = #word,
#define IMPLICIT(word)  .implicit = #word,
#include "dialect/ops.def"
};

enum { MAX_FORMS = 256 };
static op_form forms[MAX_FORMS];
static char form_texts[MAX_FORMS][2][64];
static size_t form_count;

static void add_form(const char *op, size_t kind) {
  char (*text)[64] = form_texts[form_count];
  (void)snprintf(text[0], sizeof text[0], "nabla.%s", op);
  (void)snprintf(text[1], sizeof text[1], "nabla.%s %s", op,
                 forms_of_infer[kind].tail);
  forms[form_count++] =
      (op_form){text[0], text[1], forms_of_infer[kind].operands, ""};
}

/* All of ops.def that may have an implicit operand which no view takes. */
static void make_forms(void) {
  for (size_t i = 0; i < sizeof own_forms / sizeof *own_forms; i++)
    forms[form_count++] = own_forms[i];
  for (size_t i = 0; i < sizeof rows_of_ops / sizeof *rows_of_ops; i++)
    for (size_t k = 0; k < sizeof forms_of_infer / sizeof *forms_of_infer; k++)
      if (rows_of_ops[i].infer && !strcmp(rows_of_ops[i].implicit, "rules") &&
          !strcmp(rows_of_ops[i].infer, forms_of_infer[k].infer) &&
          form_count < MAX_FORMS)
        add_form(rows_of_ops[i].op, k);
}

/* What is written before the types of %0 and %1. */
static const char *head_of(const char *op) {
  if (!strcmp(op, "nabla.custom_call")) return "(";
  return strcmp(op, "nabla.select") ? "" : "tensor<8x64xi1>, ";
}

static MlirModule parse(MlirContext context, size_t form, size_t lhs,
                        size_t rhs) {
  char text[1024];
  bool two = forms[form].operands == 2;
  snprintf(text, sizeof text,
           "%%0 = ub.poison : %s\n%%1 = ub.poison : %s\n%%2 = %s : %s%s%s%s%s\n"
           "%%i = ub.poison : index\n%%v = ub.poison : tensor<f32>\n"
           "%%p = ub.poison : tensor<3xi32>\n"
           "%%u = ub.poison : tensor<3x64xf32>\n"
           "%%c = ub.poison : tensor<8x64xi1>\n",
           kinds[lhs].type, kinds[rhs].type, forms[form].form,
           head_of(forms[form].op), kinds[lhs].type, two ? ", " : "",
           two ? kinds[rhs].type : "", forms[form].tail);
  return mlirModuleCreateParse(context, nabla_ref(text));
}

static MlirOperation third(MlirModule module) {
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  op = mlirOperationGetNextInBlock(op);
  return mlirOperationGetNextInBlock(op);
}

static bool same_rank(const nabla_dispatch_rule *x,
                      const nabla_dispatch_rule *y) {
  return nabla_dispatch_rule_specificity(x) ==
             nabla_dispatch_rule_specificity(y) &&
         x->precedence == y->precedence;
}

/* No two rules of the table that take these operands are of one rank. */
static void check_pair(MlirContext context, size_t form, size_t lhs, size_t rhs,
                       bool *used) {
  MlirModule module = parse(context, form, lhs, rhs);
  if (mlirModuleIsNull(module)) {
    expect(false, forms[form].form);
    return;
  }
  MlirOperation op = third(module);
  size_t count;
  const nabla_dispatch_rule *rules = nabla_dispatch_rules(&count);
  for (size_t i = 0; i < count; i++) {
    if (!nabla_dispatch_rule_matches(&rules[i], op)) continue;
    used[i] = true;
    for (size_t j = 0; j < i; j++) {
      if (!nabla_dispatch_rule_matches(&rules[j], op) ||
          !same_rank(&rules[i], &rules[j]))
        continue;
      printf("failed: %s of %s and %s: rules %s and %s tie\n", forms[form].op,
             kinds[lhs].name, kinds[rhs].name, rules[i].id, rules[j].id);
      failures++;
    }
  }
  mlirModuleDestroy(module);
}

/* ---- what is materialized ---- */

typedef struct operands {
  intptr_t count;
  MlirType types[2];
} operands;

static bool is_splat(MlirType type) {
  return nablaTypeIsAImplicit(type) &&
         nabla_implicit_encoding(type).kind == NABLA_KIND_SPLAT;
}

/* Whether a rule is asked of such operands; splats that none takes become
 * dense. */
static bool is_ruled(MlirContext context, size_t form, size_t lhs, size_t rhs) {
  MlirModule module = parse(context, form, lhs, rhs);
  size_t count;
  const nabla_dispatch_rule *rules = nabla_dispatch_rules(&count);
  bool any = false;
  for (size_t i = 0; i < count; i++)
    any = any || nabla_dispatch_rule_matches(&rules[i], third(module));
  mlirModuleDestroy(module);
  bool splats =
      strstr(kinds[lhs].type, "#nabla.splat") ||
      (forms[form].operands == 2 && strstr(kinds[rhs].type, "#nabla.splat"));
  if (any || !splats) return any;
  return is_ruled(context, form,
                  strstr(kinds[lhs].type, "#nabla.splat") ? 0 : lhs,
                  strstr(kinds[rhs].type, "#nabla.splat") ? 0 : rhs);
}

/* "'OP' op materializes N operands of ENCODING, M elements: " for each encoding
 * among the operands that are no splats, a line each. */
static void expected_lines(const char *op, const operands *given,
                           nabla_text *out) {
  for (intptr_t i = 0; i < given->count; i++) {
    MlirType type = given->types[i];
    int same = 1;
    if (!nablaTypeIsAImplicit(type) || is_splat(type)) continue;
    if (i == 1 && mlirTypeEqual(type, given->types[0])) continue;
    if (i == 0 && given->count == 2 && mlirTypeEqual(type, given->types[1]))
      same = 2;
    nabla_text_add(out, "'%s' op materializes %d operand%s of ", op, same,
                   same == 1 ? "" : "s");
    if (nabla_implicit_encoding(type).kind == NABLA_KIND_CUSTOM)
      nabla_text_add(out, "#nabla.custom<\"c\">"); /* the rest is long */
    else
      nabla_text_add_attribute(out, nablaImplicitTypeParts(type).encoding);
    nabla_text_add(out, ", %d elements: \n", 512 * same);
  }
}

/* Every line of `want` begins a line of `warned`, in order, and there are no
 * others; `why` (NULL: any) is behind each. */
static bool warnings_are(const char *want, const char *why) {
  const char *got = warned;
  while (*want) {
    size_t length = (size_t)(strchr(want, '\n') - want);
    if (strncmp(got, want, length) != 0) return false;
    if (why && strncmp(got + length, why, strlen(why)) != 0) return false;
    got = strchr(got, '\n') + 1;
    want += length + 1;
  }
  return !*got;
}

/* Where no rule is asked, one warning for each encoding; where one is, none, or
 * the same with the rule's reason. */
static void check_misses(MlirContext context, size_t form, size_t lhs,
                         size_t rhs) {
  MlirModule module = parse(context, form, lhs, rhs);
  if (mlirModuleIsNull(module)) return; /* reported by check_pair */
  MlirOperation op = third(module);
  operands given = {.count = 0};
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirOperation made = nabla_defining_op(mlirOperationGetOperand(op, i));
    MlirType type = nabla_operand_type(op, i);
    if (nablaTypeIsAImplicit(type) && nabla_is(made, "ub.poison") &&
        given.count < 2)
      given.types[given.count++] = type;
  }
  nabla_text want = {0};
  expected_lines(forms[form].op, &given, &want);
  bool ruled = is_ruled(context, form, lhs, rhs) ||
               nabla_op_find(op)->implicit == NABLA_IMPLICIT_views;
  nablaPassValue values[] = {{"warn"}, {""}, {"host"}};
  void *prepared = nabla_prepare_dispatch(context, values);
  warned[0] = 0;
  bool good = mlirLogicalResultIsSuccess(
      nabla_run_dispatch(mlirModuleGetOperation(module), values, prepared));
  nabla_release_dispatch(prepared);
  const char *lines = want.data ? want.data : "";
  if (ruled)
    good = good && (!*warned || warnings_are(lines, NULL));
  else
    good = good && warnings_are(lines, "no rule takes it");
  if (!good) {
    printf("failed: %s of %s and %s says\n%s, not\n%s", forms[form].op,
           kinds[lhs].name, kinds[rhs].name, warned, lines);
    failures++;
  }
  nabla_text_deinit(&want);
  mlirModuleDestroy(module);
}

/* Composites have no form here: without a rule they are decomposed, not
 * materialized (tests/filecheck/dispatch-attention.mlir). */
static bool is_of_composite(const nabla_dispatch_rule *rule,
                            const nabla_op_row *rows, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(rows[i].name, rule->op))
      return rows[i].implicit == NABLA_IMPLICIT_parts;
  return false;
}

static void check_table(MlirContext context) {
  bool used[256] = {false};
  size_t count, ops;
  const nabla_dispatch_rule *rules = nabla_dispatch_rules(&count);
  const nabla_op_row *rows = nabla_op_rows(&ops);
  expect(count <= sizeof used, "the table of rules fits this test");
  for (size_t form = 0; form < form_count; form++)
    for (size_t lhs = 0; lhs < KINDS; lhs++)
      for (size_t rhs = 0; rhs < (forms[form].operands == 2 ? KINDS : 1);
           rhs++) {
        check_pair(context, form, lhs, rhs, used);
        check_misses(context, form, lhs, rhs);
      }
  for (size_t i = 0; i < count; i++)
    expect(used[i] || is_of_composite(&rules[i], rows, ops), rules[i].id);
  for (size_t i = 0; i < ops; i++) {
    bool has_form = rows[i].implicit != NABLA_IMPLICIT_rules;
    for (size_t form = 0; form < form_count; form++)
      has_form |= !strcmp(forms[form].op, rows[i].name);
    expect(has_form, rows[i].name);
  }
}

int main(void) {
  make_forms();
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
  MlirContext context =
      mlirContextCreateWithRegistry(registry, /*threading=*/false);
  mlirContextAttachDiagnosticHandler(context, listen, NULL, NULL);
  mlirContextLoadAllAvailableDialects(context);
  MlirModule module = parse(context, 0, 0, 1); /* dense . nf4 */
  if (mlirModuleIsNull(module)) {
    printf("failed: a program that does not parse: %s\n", said);
    return 1;
  }
  MlirOperation op = third(module);
  check_none(op);
  check_order(op);
  check_first_wins(op);
  check_failure(op);
  check_tie(op);
  check_late_tie(op);
  check_targets(context, op);
  mlirModuleDestroy(module);
  check_table(context);
  mlirContextDestroy(context);
  mlirDialectRegistryDestroy(registry);
  return failures != 0;
}
