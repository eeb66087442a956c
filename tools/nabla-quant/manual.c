/* nabla-quant-manual: prints the man page's source, docs/CLI.md, and the
 * completion for bash, from the tables of nabla-quant. */
#include <string.h>

#include "nabla/version.h"
#include "tools/nabla-quant/cli.h"

static int applies(size_t option, size_t verb) {
  const tool_option *row = &cli_option_rows[option];
  return row->help && tool_has_verb(row, verb);
}

/* Options of every verb are listed once. */
static int is_common(size_t option) {
  const tool_option *row = &cli_option_rows[option];
  return row->help && tool_is_common(&cli_tool, row);
}

/* Text with a backslash before every character of `special`. */
static void print_escaped(const char *text, const char *special) {
  for (; *text; text++) {
    if (strchr(special, *text)) putchar('\\');
    putchar(*text);
  }
}

static void print_values(const tool_option *row, const char *separator) {
  char text[1024] = "";
  tool_list_values(row->values, separator, text, sizeof text);
  fputs(text, stdout);
}

static int has_values(const tool_option *row) {
  const char *value;
  size_t length;
  return tool_value(row->values, 0, &value, &length);
}

/* ---- scdoc ---- */

#define SCDOC "\\*_`<>#"

static void scdoc_option(const tool_option *row) {
  if (row->letter) printf("*-%c*, ", row->letter);
  printf("*--%s*", row->name);
  if (row->argument) {
    printf(" _");
    print_escaped(row->argument, SCDOC);
    putchar('_');
  }
  printf("\n\t");
  print_escaped(row->help, SCDOC);
  if (has_values(row)) {
    printf(" One of ");
    print_values(row, ", ");
    putchar('.');
  }
  if (row->fallback) printf(" Default: %s.", row->fallback);
  printf("\n\n");
}

static void scdoc_verbs(void) {
  printf("# VERBS\n\n");
  for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
    const tool_verb *verb = &cli_verbs[i];
    printf("## %s\n\n*nabla-quant %s*%s%s [options]\n\n", verb->name,
           verb->name, *verb->operands ? " " : "", verb->operands);
    printf("%s ", verb->summary);
    print_escaped(verb->description, SCDOC);
    printf("\n\n");
    for (size_t k = 0; k < CLI_OPTION_COUNT; k++)
      if (applies(k, i) && !is_common(k)) scdoc_option(&cli_option_rows[k]);
  }
  printf("# OPTIONS OF EVERY VERB\n\n");
  for (size_t k = 0; k < CLI_OPTION_COUNT; k++)
    if (is_common(k)) scdoc_option(&cli_option_rows[k]);
}

static void scdoc_exits(void) {
  tool_exit row;
  printf("# EXIT STATUS\n\n");
  for (size_t i = 0; (row = tool_exit_row(&cli_tool, i)).meaning; i++)
    printf("*%d*\n\t%s\n\n", row.code, row.meaning);
}

static void print_scdoc(void) {
  printf("nabla-quant(1) \"nabla-quant " NABLA_VERSION
         "\" \"User commands\"\n\n"
         "# NAME\n\nnabla-quant - quantize checkpoints and look at them\n\n"
         "# SYNOPSIS\n\n");
  for (size_t i = 0; i < CLI_VERB_COUNT; i++)
    printf("*nabla-quant %s*%s%s [options]%s\n", cli_verbs[i].name,
           *cli_verbs[i].operands ? " " : "", cli_verbs[i].operands,
           i + 1 < CLI_VERB_COUNT ? "++" : "");
  printf(
      "\n# DESCRIPTION\n\n"
      "_IN_, _A_ and _B_ are a .safetensors file, an index.json, or a "
      "folder that holds model.safetensors.index.json, model.safetensors, "
      "or exactly one .safetensors file. _OUT_ is a .safetensors file "
      "(shards are merged), an index.json in a new folder, or a new "
      "folder. Standard input and output are not accepted: checkpoints "
      "need random access.\n\n"
      "An output appears whole or not at all, also after a signal, a full "
      "disk or a crash. *--* ends the options.\n\n");
  scdoc_verbs();
  scdoc_exits();
  printf(
      "# STREAMS\n\n"
      "Tables and JSON go to standard output; progress, notes and errors "
      "to standard error. With *--json* an error is also the member "
      "_error_ of the object on standard output. Control characters in "
      "names from files are shown as \\\\xNN.\n\n"
      "# ENVIRONMENT\n\n"
      "*NO\\_COLOR*\n\tWhen set and not empty, no colours, unless "
      "*--color* always.\n\n"
      "*TERM*\n\tWhen it is dumb, no colours either.\n\n"
      "# EXAMPLES\n\n"
      "See what would happen, then do it:\n\n"
      "\tnabla-quant plan model.safetensors++\n"
      "nabla-quant quantize model.safetensors -o model-nf4.safetensors\n\n"
      "Feed-forward weights to int8, the rest to nf4 with blocks of 128:\n\n"
      "\tnabla-quant quantize in/ -o out/ --block 128 --rule 'mlp=int8'\n\n"
      "What it cost, as a script sees it:\n\n"
      "\tnabla-quant diff --tolerance 0.1 -q a.safetensors b.safetensors\n\n"
      "# SEE ALSO\n\nThe pages CLI.md, JSON.md and FORMAT.md, installed in "
      "share/doc/nabla/docs.\n");
}

/* ---- Markdown ---- */

static void markdown_option(const tool_option *row) {
  printf("| `");
  if (row->letter) printf("-%c, ", row->letter);
  printf("--%s%s%s` | ", row->name, row->argument ? " " : "",
         row->argument ? row->argument : "");
  print_escaped(row->help, "*_|<>");
  if (has_values(row)) {
    printf(" One of `");
    print_values(row, "`, `");
    printf("`.");
  }
  printf(" | %s |\n", row->fallback ? row->fallback : "");
}

static void print_choices(void) {
  printf(
      "\n## Which encoding?\n\nError is the relative RMSE on normal values, "
      "which `plan` shows for the settings at hand; perplexity is that of "
      "stories260K, whose dense weights have 3.662 "
      "([how](BENCHMARKS.md#which-encoding)).\n\n"
      "| settings | bits a weight | error | perplexity |\n"
      "|---|---|---|---|\n");
#define CHOICE(settings, bits, error, perplexity) \
  printf("| `%s` | %s | %s | %s |\n", settings, bits, error, perplexity);
#include "tools/nabla-quant/choices.def"
#undef CHOICE
}

static void print_markdown(void) {
  tool_exit row;
  printf(
      "# nabla-quant\n\n"
      "Made by `nabla-quant-manual --markdown` from the tables in "
      "tools/nabla-quant;\n`cmake --build BUILD --target update-docs` "
      "writes it again.\n\n"
      "`IN` is a `.safetensors` file, an `index.json`, or a folder with "
      "one of these; `OUT` too.\n`-` is refused: checkpoints need random "
      "access. `--` ends the options.\n");
  for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
    const tool_verb *verb = &cli_verbs[i];
    int any = 0;
    printf("\n## %s\n\n```\nnabla-quant %s%s%s [options]\n```\n\n%s\n%s\n",
           verb->name, verb->name, *verb->operands ? " " : "", verb->operands,
           verb->summary, verb->description);
    for (size_t k = 0; k < CLI_OPTION_COUNT; k++) {
      if (!applies(k, i) || is_common(k)) continue;
      if (!any) printf("\n| option | meaning | default |\n|---|---|---|\n");
      any = 1;
      markdown_option(&cli_option_rows[k]);
    }
  }
  printf(
      "\n## Options of every verb\n\n"
      "| option | meaning | default |\n|---|---|---|\n");
  for (size_t k = 0; k < CLI_OPTION_COUNT; k++)
    if (is_common(k)) markdown_option(&cli_option_rows[k]);
  print_choices();
  printf("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
  for (size_t i = 0; (row = tool_exit_row(&cli_tool, i)).meaning; i++)
    printf("| %d | %s |\n", row.code, row.meaning);
  printf(
      "\n## Streams and environment\n\n"
      "Tables and JSON go to standard output; progress, notes and errors "
      "to standard\nerror. With `--json` an error is also the member "
      "`error` of the object on\nstandard output (JSON.md). Control "
      "characters in names from files are shown as\n`\\xNN`. `NO_COLOR`, "
      "set and not empty, turns colours off unless `--color always`.\n");
}

/* ---- bash ---- */

/* The branch of the case statement for the argument of one option. */
static void bash_values(const tool_option *row) {
  if (!row->help || !row->argument) return;
  if (!row->values) return;
  printf("    --%s", row->name);
  if (row->letter) printf("|-%c", row->letter);
  if (!has_values(row)) { /* a path */
    printf(") COMPREPLY=($(compgen -f -- \"$word\")); return;;\n");
    return;
  }
  printf(") COMPREPLY=($(compgen -W \"");
  print_values(row, " ");
  printf("\" -- \"$word\")); return;;\n");
}

static void print_bash(void) {
  printf(
      "# bash completion for nabla-quant, made by nabla-quant-manual\n"
      "_nabla_quant() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} "
      "before=${COMP_WORDS[COMP_CWORD-1]} options=\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"");
  for (size_t i = 0; i < CLI_VERB_COUNT; i++) printf("%s ", cli_verbs[i].name);
  printf(
      "help --help --version\" -- \"$word\"))\n    return\n  fi\n"
      "  case $before in\n");
  for (size_t i = 0; i < CLI_OPTION_COUNT; i++)
    bash_values(&cli_option_rows[i]);
  printf("  esac\n  case ${COMP_WORDS[1]} in\n");
  for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
    printf("    %s) options=\"", cli_verbs[i].name);
    for (size_t k = 0; k < CLI_OPTION_COUNT; k++)
      if (applies(k, i)) printf("--%s ", cli_option_rows[k].name);
    printf("\";;\n");
  }
  printf(
      "  esac\n"
      "  case $word in\n"
      "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\"));;\n"
      "    *) COMPREPLY=($(compgen -f -- \"$word\"));;\n"
      "  esac\n}\n"
      "complete -o filenames -F _nabla_quant nabla-quant\n");
}

int main(int argc, char **argv) {
  const char *wanted = argc == 2 ? argv[1] : "";
  if (!strcmp(wanted, "--scdoc")) {
    print_scdoc();
  } else if (!strcmp(wanted, "--markdown")) {
    print_markdown();
  } else if (!strcmp(wanted, "--bash-completion")) {
    print_bash();
  } else {
    fputs(
        "usage: nabla-quant-manual --scdoc | --markdown | "
        "--bash-completion\n",
        stderr);
    return TOOL_EXIT_USAGE;
  }
  return fflush(stdout) || ferror(stdout) ? TOOL_EXIT_IO : TOOL_EXIT_OK;
}
