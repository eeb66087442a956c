/* nabla-pages: the generated pages of the documentation.
 *
 *   nabla-pages --passes   docs/PASSES.md, of transforms/passes.def and
 *                          pipelines.def
 *   nabla-pages --options  docs/COMPILE_OPTIONS.md, of
 *                          include/nabla/compile_options.def
 *   nabla-pages --rules    docs/RULES.md, of dialect/rules.def and ops.def,
 *                          transforms/simplify/identities.def and splats.def
 *   nabla-pages --ops      docs/OPS.md, of dialect/ops.def */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/ops.h"
#include "lib/base/compile_options.h"
#include "transforms/dispatch/rules.h"
#include "transforms/pipelines.h"

static const char made_by[] =
    "Made by `nabla-pages %s` from %s;\n"
    "`cmake --build BUILD --target update-docs` writes it again.\n\n";

static const struct {
  const char *id, *flag, *anchor, *summary;
} passes[] = {
#define PASS(id, flag, anchor, summary) {#id, flag, #anchor, summary},
#define OPTION(id, name, initial, description)
#include "transforms/passes.def"
#undef PASS
#undef OPTION
};

static const struct {
  const char *pass, *name, *initial, *description;
} options[] = {
#define PASS(id, flag, anchor, summary)
#define OPTION(id, name, initial, description) \
  {#id, name, initial, description},
#include "transforms/passes.def"
#undef PASS
#undef OPTION
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void print_options(const char *pass) {
  bool any = false;
  for (size_t i = 0; i < COUNT(options); i++) {
    if (strcmp(options[i].pass, pass)) continue;
    if (!any) printf("\n| option | meaning | default |\n|---|---|---|\n");
    any = true;
    printf("| `%s` | %s | `%s` |\n", options[i].name, options[i].description,
           options[i].initial);
  }
}

/* One pass to a line: commas inside of parentheses and braces are no ends. */
static void print_lines(const char *text) {
  int depth = 0;
  for (const char *at = text; *at; at++) {
    depth += (*at == '(' || *at == '{') - (*at == ')' || *at == '}');
    if (depth == 0 && *at == ',')
      printf("`<br>`");
    else
      putchar(*at);
  }
}

static int print_stage(const nabla_stage *stage) {
  nabla_text text = {0};
  if (stage->when == NABLA_STAGE_PLANNED) {
    printf("| %s | no pass: %s |\n", stage->id, stage->passes);
    return 0;
  }
  const char *target = nabla_stage_target(stage);
  nabla_stage here = *stage;
  here.when = NABLA_STAGE_ALWAYS; /* the page is the same on each machine */
  if (nabla_stage_write(&here, nabla_pipeline_defaults, &text, NULL)) return 1;
  printf("| %s%s%s | `", stage->id, target ? ", for target " : "",
         target ? target : "");
  print_lines(text.data);
  printf("` |\n");
  nabla_text_deinit(&text);
  return 0;
}

static int print_pipelines(void) {
  int status = 0;
  printf(
      "\n# Pipelines\n\nA pipeline is a sequence of stages, each of one or "
      "more "
      "passes. The options below are those\nfor the host's CPU, with the "
      "defaults of all compile options; the compiler runs the same\nstages "
      "with the options that it is given.\n");
  for (int id = 0; id < NABLA_PIPELINE_COUNT; id++) {
    const nabla_pipeline pipeline = nabla_pipeline_get((nabla_pipeline_id)id);
    printf("\n## `--%s`\n\n%s.\n\n| stage | passes |\n|---|---|\n",
           pipeline.flag, pipeline.summary);
    for (size_t i = 0; i < pipeline.stage_count; i++)
      status |= print_stage(&pipeline.stages[i]);
  }
  return status;
}

static int print_passes(void) {
  printf("# Passes\n\n");
  printf(made_by, "--passes", "transforms/passes.def and pipelines.def");
  printf(
      "A pass transforms a program. One that runs on any op can be nested in "
      "`func.func(...)`,\nwhere it runs on several functions in parallel. "
      "Options are given in one of two ways:\n\n```\n"
      "nabla-opt --nabla-dispatch=policy=error program.mlir\n"
      "nabla-opt --pass-pipeline='builtin.module(func.func("
      "nabla-dispatch{policy=error}))' program.mlir\n```\n");
  for (size_t i = 0; i < COUNT(passes); i++) {
    bool module = !strcmp(passes[i].anchor, "MODULE");
    printf("\n## `--%s`\n\n%s. Runs on %s.\n", passes[i].flag,
           passes[i].summary, module ? "`builtin.module`" : "any op");
    print_options(passes[i].id);
  }
  return print_pipelines();
}

static int print_compile_options(void) {
  printf("# Compile options\n\n");
  printf(made_by, "--options", "include/nabla/compile_options.def");
  printf(
      "Options of `nabla-compile` and `nabla-run`, and members of "
      "`nabla_compile_options`\n([C_API.md](C_API.md)), where NULL is the "
      "default. The value of each is a part of\nthe object cache's keys.\n\n"
      "| option | member | values | default | meaning |\n"
      "|---|---|---|---|---|\n");
  for (size_t i = 0; i < NABLA_COMPILE_OPTIONS; i++) {
    const nabla_compile_option *row = &nabla_compile_option_rows[i];
    printf("| `--%s%s%s` | `%s` | ", row->flag, row->argument ? " " : "",
           row->argument ? row->argument : "", row->id);
    for (const char *at = row->values; at && *at;) {
      const size_t length = strcspn(at, "|");
      printf("%s`%.*s`", at > row->values ? ", " : "", (int)length, at);
      at += length + (at[length] == '|');
    }
    printf(" | %s%s%s | %s |\n", row->fallback ? "`" : "",
           row->fallback ? row->fallback : "none", row->fallback ? "`" : "",
           row->help);
  }
  return 0;
}

static const char *const kind_names[] = {
    [NABLA_OPERAND_NONE] = "",
    [NABLA_OPERAND_ANY] = "any",
    [NABLA_OPERAND_DENSE] = "dense",
    [NABLA_OPERAND_IMPLICIT] = "implicit",
    [NABLA_OPERAND_PACKED] = "packed",
    [NABLA_OPERAND_SPLAT] = "splat",
    [NABLA_OPERAND_IDENTITY] = "identity",
    [NABLA_OPERAND_LORA] = "lora",
    [NABLA_OPERAND_CUSTOM] = "custom",
};

/* What an operand can be. */
static const nabla_operand_kind kinds[] = {
    NABLA_OPERAND_DENSE, NABLA_OPERAND_PACKED, NABLA_OPERAND_SPLAT,
    NABLA_OPERAND_IDENTITY, NABLA_OPERAND_CUSTOM};

static void print_operands(nabla_operand_kind lhs, nabla_operand_kind rhs) {
  printf("%s%s%s", kind_names[lhs], rhs == NABLA_OPERAND_NONE ? "" : ", ",
         kind_names[rhs]);
}

/* The best rule of `op` for these operands behind `last`, NULL when none. */
static const nabla_dispatch_rule *next_rule(const char *op,
                                            nabla_operand_kind lhs,
                                            nabla_operand_kind rhs,
                                            const nabla_dispatch_rule *last) {
  size_t count;
  const nabla_dispatch_rule *rules = nabla_dispatch_rules(&count), *best = NULL;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(rules[i].op, op) || !nabla_kind_takes(rules[i].lhs, lhs) ||
        !nabla_kind_takes(rules[i].rhs, rhs) ||
        (last && nabla_dispatch_rule_order(&rules[i], last) >= 0))
      continue;
    if (!best || nabla_dispatch_rule_order(&rules[i], best) > 0)
      best = &rules[i];
  }
  return best;
}

static void print_case(const char *op, nabla_operand_kind lhs,
                       nabla_operand_kind rhs) {
  printf("| `%s` | ", op);
  print_operands(lhs, rhs);
  printf(" | ");
  const nabla_dispatch_rule *rule = NULL;
  while ((rule = next_rule(op, lhs, rhs, rule)))
    printf("`%s`, else ", rule->id);
  bool splat = lhs == NABLA_OPERAND_SPLAT || rhs == NABLA_OPERAND_SPLAT;
  printf(splat ? "the splat becomes a constant |\n" : "materialized |\n");
}

static bool is_binary(const char *op) {
  size_t count;
  const nabla_dispatch_rule *rules = nabla_dispatch_rules(&count);
  for (size_t i = 0; i < count; i++)
    if (!strcmp(rules[i].op, op) && rules[i].rhs != NABLA_OPERAND_NONE)
      return true;
  return false;
}

/* Lora is packed to most rules; lines for the others. */
static void print_lora_cases(const char *op) {
  size_t count;
  const nabla_dispatch_rule *rules = nabla_dispatch_rules(&count);
  for (size_t i = 0; i < count; i++)
    if (!strcmp(rules[i].op, op) && (rules[i].lhs == NABLA_OPERAND_LORA ||
                                     rules[i].rhs == NABLA_OPERAND_LORA))
      print_case(op, rules[i].lhs, rules[i].rhs);
}

/* A line for each combination with an implicit operand. */
static void print_cases(const char *op) {
  for (size_t l = 0; l < COUNT(kinds); l++) {
    if (!is_binary(op)) {
      if (l > 0) print_case(op, kinds[l], NABLA_OPERAND_NONE);
      continue;
    }
    for (size_t r = 0; r < COUNT(kinds); r++)
      if (l > 0 || r > 0) print_case(op, kinds[l], kinds[r]);
  }
  print_lora_cases(op);
}

static void print_ops(void) {
  size_t count;
  const nabla_op_row *rows = nabla_op_rows(&count);
  printf(
      "## Implicit operands by operation\n\n"
      "| operation | operands | becomes |\n|---|---|---|\n");
  for (size_t i = 0; i < count; i++) switch (rows[i].implicit) {
      case NABLA_IMPLICIT_none:
        printf("| `%s` | dense | has no implicit operand |\n", rows[i].name);
        break;
      case NABLA_IMPLICIT_takes:
        printf("| `%s` | implicit | taken without change |\n", rows[i].name);
        break;
      case NABLA_IMPLICIT_flows:
        printf("| `%s` | implicit | stays implicit through its regions |\n",
               rows[i].name);
        break;
      case NABLA_IMPLICIT_views:
        printf(
            "| `%s` | implicit | a view; with a tensor as result "
            "materialized |\n",
            rows[i].name);
        break;
      case NABLA_IMPLICIT_rules:
        print_cases(rows[i].name);
        break;
      case NABLA_IMPLICIT_parts:
        printf(
            "| `%s` | implicit | decomposed; the rules apply to the parts |\n",
            rows[i].name);
        break;
    }
}

/* Rows of identities.def. */
static const struct {
  const char *op, *where, *value, *types, *gives, *says;
} identities[] = {
#define IDENTITY(id, op, where, value, types, gives, says) \
  {op, #where, #value, #types, #gives, says},
#include "transforms/simplify/identities.def"
#undef IDENTITY
};

/* Names of the ops of splats.def, and of those that have a row twice, for
 * floats and for integers, once. */
static const char *const folded[] = {
#define FLOAT1(op, value)   #op,
#define FLOAT2(op, value)   #op,
#define INTEGER1(op, value) #op,
#define INTEGER2(op, value) #op,
#define SPLAT(op, function) #op,
#include "transforms/simplify/splats.def"
#undef FLOAT1
#undef FLOAT2
#undef INTEGER1
#undef INTEGER2
#undef SPLAT
};

/* An operand that is written as its number, or as words in capitals. */
static void print_operand(const char *text) {
  bool number = *text >= '0' && *text <= '9';
  if (number) printf("operand ");
  for (const char *at = text; *at; at++)
    putchar(*at == '_' ? ' ' : *at >= 'A' && *at <= 'Z' ? *at + 32 : *at);
}

static void print_folds(void) {
  printf(
      "\n## Folds of constants\n\nA splat without a rule becomes a constant. "
      "`nabla-simplify` folds only identities that are\nexact for every value "
      "of the other operand. Not among them: x + 0 (x may be -0), x . 0\n(x "
      "may be negative or not finite), and products of arrays with zeros.\n\n"
      "| operation | constant operand | value | type | result | identity |\n"
      "|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < COUNT(identities); i++) {
    printf("| `%s` | ", identities[i].op);
    print_operand(identities[i].where);
    printf(" | ");
    print_operand(identities[i].value);
    printf(" | %s | ", identities[i].types);
    print_operand(identities[i].gives);
    printf(" | %s |\n", identities[i].says);
  }
  printf(
      "\nIf all operands are constants of one value, the result is folded "
      "where it is exact, for");
  for (size_t i = 0; i < COUNT(folded); i++) {
    bool seen = false;
    for (size_t j = 0; j < i; j++) seen = seen || !strcmp(folded[i], folded[j]);
    if (!seen) printf("%s\n`%s`", i ? "," : "", folded[i]);
  }
  printf(
      ".\nA sum is folded where every partial sum is exact, in any order.\n");
}

/* The letters of operands of pdl_natives.def as words. */
static void print_letters(const char *letters) {
  for (; *letters; letters++)
    printf("%s%s",
           *letters == 't'   ? "type"
           : *letters == 'v' ? "value"
                             : "attribute",
           letters[1] ? ", " : "");
}

/* What rules of files may apply. */
static void print_natives(void) {
  static const struct {
    const char *name, *operands, *result, *what;
  } natives[] = {
#define CONSTRAINT(id, operands, what) {"nabla." #id, operands, "", what},
#define REWRITE(id, operands, result, what) \
  {"nabla." #id, operands, result, what},
#include "transforms/user_rules/pdl_natives.def"
#undef CONSTRAINT
#undef REWRITE
  };
  printf(
      "\n## Native functions of rules of files\n\n[EXTENDING.md](EXTENDING.md) "
      "shows such a file.\n\n| constraint or rewrite | operands | result | "
      "meaning "
      "|\n|---|---|---|---|\n");
  for (size_t i = 0; i < COUNT(natives); i++) {
    printf("| `%s` | ", natives[i].name);
    print_letters(natives[i].operands);
    printf(" | ");
    print_letters(*natives[i].result ? natives[i].result : "");
    printf("%s | %s |\n", *natives[i].result ? "" : "holds or not",
           natives[i].what);
  }
}

static int print_rules(void) {
  printf("# Rules\n\n");
  printf(
      made_by, "--rules",
      "dialect/rules.def and ops.def, transforms/simplify/identities.def and "
      "splats.def");
  printf(
      "`nabla-dispatch` applies the first rule that matches, in this order: "
      "rules that\nspecify more of the operands first, then those of higher "
      "precedence. A rule may\ndecline. When a rule replaces an operand of an "
      "operation, the rules are applied to\nthat operation again. Operands "
      "without a rule are materialized, which is reported\nonce for each pair "
      "of operation and encoding, with a count.\n\n");
  print_ops();
  size_t count;
  const nabla_dispatch_rule *rules = nabla_dispatch_rules(&count);
  printf(
      "\n## The rules\n\n| rule | operation | operands | precedence | effect "
      "|\n|---|---|---|---|---|\n");
  for (size_t i = 0; i < count; i++) {
    printf("| `%s` | `%s` | ", rules[i].id, rules[i].op);
    print_operands(rules[i].lhs, rules[i].rhs);
    printf(" | %d | %s |\n", rules[i].precedence, rules[i].summary);
  }
  print_folds();
  print_natives();
  return 0;
}

/* Words of ops.def that passes to come read. */
static const struct {
  const char *op, *diff, *batch, *shard;
} words[] = {
#define OP(id, columns) {.op = #id, columns},
#define DIFF(word)      .diff = #word,
#define DIFF_BY(name)   .diff = "own",
#define BATCH(word)     .batch = #word,
#define BATCH_BY(name)  .batch = "by " #name,
#define SHARD(word)     .shard = #word,
#define SHARD_BY(name)  .shard = "by " #name,
#include "dialect/ops.def"
};

static const char *or_dash(const char *word) { return word ? word : "-"; }

/* Reasons of the word `none` of SHARD. */
static void print_undivided(void) {
  printf(
      "\n## Operations that are not divided\n\nEach device computes all of "
      "these.\n\n| operation | why |\n|---|---|\n");
#define UNDIVIDED(op, why) printf("| `nabla.%s` | %s |\n", #op, why);
#include "transforms/shard/undivided.def"
#undef UNDIVIDED
}

/* Types, cost and words of every operation. */
static int print_operations(void) {
  size_t count;
  const nabla_op_row *rows = nabla_op_rows(&count);
  printf("# Operations\n\n");
  printf(made_by, "--ops", "dialect/ops.def");
  printf(
      "[DIALECT.md](DIALECT.md) has syntax and meaning. The columns:\n\n"
      "* *types*: element types of the first operand, or of the result if "
      "there "
      "is no operand;\n"
      "* *operations* and *bytes*: the cost that `nabla-opt --nabla-cost` "
      "counts (symbols below);\n"
      "* *derivative*, *batch*, *shard*: words of dialect/ops.def for "
      "differentiating an operation\n  ([GRADIENTS.md](GRADIENTS.md)), "
      "batching it ([BATCHING.md](BATCHING.md)) and dividing it between "
      "devices\n  ([SHARDING.md](SHARDING.md)); `-`: not decided.\n\n"
      "| symbol | meaning |\n|---|---|\n"
      "| n | elements of the result |\n| m | elements of the first operand |\n"
      "| k | elements that are contracted into one element of the result (in "
      "attention: positions that a query attends to) |\n"
      "| r | rows of the first operand |\n"
      "| in, out | bytes of all operands, of all results; packed ones count "
      "with their packed size |\n"
      "| part | bytes of the elements of the first operand that the result "
      "contains |\n\n"
      "| operation | types | operations | bytes | derivative | batch | shard "
      "|\n|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < count; i++)
    printf("| `nabla.%s` | %s | %s | %s | %s | %s | %s |\n", words[i].op,
           nabla_type_class_types(rows[i].types),
           nabla_cost_operations(rows[i].cost), nabla_cost_bytes(rows[i].cost),
           or_dash(words[i].diff), or_dash(words[i].batch),
           or_dash(words[i].shard));
  print_undivided();
  return 0;
}

int main(int argc, char **argv) {
  int status = 2;
  if (argc == 2 && !strcmp(argv[1], "--passes")) status = print_passes();
  if (argc == 2 && !strcmp(argv[1], "--options"))
    status = print_compile_options();
  if (argc == 2 && !strcmp(argv[1], "--rules")) status = print_rules();
  if (argc == 2 && !strcmp(argv[1], "--ops")) status = print_operations();
  if (status == 2)
    fprintf(stderr,
            "usage: nabla-pages --passes | --options | --rules | --ops\n");
  if (fflush(stdout)) return 1;
  return status;
}
