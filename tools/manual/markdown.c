/* docs/CLI.md: the command line of nabla-quant in Markdown. */
#include "tools/manual/manual.h"
#include "tools/nabla-quant/cli.h"

/* Options of every verb are listed once. */
static int is_common(const tool_option *row) {
  return row->help && tool_is_common(&cli_tool, row);
}

static void markdown_option(const tool_option *row) {
  printf("| `");
  if (row->letter) printf("-%c, ", row->letter);
  printf("--%s%s%s` | ", row->name, row->argument ? " " : "",
         row->argument ? row->argument : "");
  manual_print_escaped(row->help, "*_|<>", '\\');
  if (manual_has_values(row)) {
    printf(" One of `");
    manual_print_values(row, "`, `");
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

void manual_print_markdown(void) {
  tool_exit exits;
  printf(
      "# nabla-quant\n\n"
      "Made by `nabla-manual markdown` from the tables in "
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
      const tool_option *row = &cli_option_rows[k];
      if (!manual_applies(&cli_tool, row, i) || is_common(row)) continue;
      if (!any) printf("\n| option | meaning | default |\n|---|---|---|\n");
      any = 1;
      markdown_option(row);
    }
  }
  printf(
      "\n## Options of every verb\n\n"
      "| option | meaning | default |\n|---|---|---|\n");
  for (size_t k = 0; k < CLI_OPTION_COUNT; k++)
    if (is_common(&cli_option_rows[k])) markdown_option(&cli_option_rows[k]);
  print_choices();
  printf("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
  for (size_t i = 0; (exits = tool_exit_row(&cli_tool, i)).meaning; i++)
    printf("| %d | %s |\n", exits.code, exits.meaning);
  printf(
      "\n## Streams and environment\n\n"
      "Tables and JSON go to standard output; progress, notes and errors "
      "to standard\nerror. With `--json` an error is also the member "
      "`error` of the object on\nstandard output (JSON.md). Control "
      "characters in names from files are shown as\n`\\xNN`. `NO_COLOR`, "
      "set and not empty, turns colours off unless `--color always`.\n");
}
