/* The tools that have pages, and what their tables do not say. */
#include <ctype.h>
#include <string.h>

#include "tools/manual/manual.h"
#include "tools/nabla-quant/cli.h"
#include "tools/nabla-run/tables.h"
#if NABLA_HAS_COMPILER
#include "tools/nabla-compile/tables.h"
#include "tools/nabla-opt/tables.h"
#endif

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static const manual_section quant_sections[] = {
    {"STREAMS",
     "Tables and JSON go to standard output; progress, notes and errors to "
     "standard error. With --json an error is also the member 'error' of the "
     "object on standard output. Control characters in names from files are "
     "shown as \\xNN."},
    {"ENVIRONMENT",
     "NO_COLOR: when set and not empty, no colours, unless --color is "
     "always.\n\nTERM: when it is dumb, no colours either."},
};

static const manual_section run_sections[] = {
    {"ENVIRONMENT",
     "NABLA_CACHE: the folder of compiled objects, or off, where --cache is "
     "not given."},
};

#if NABLA_HAS_COMPILER
static const manual_flag opt_flags[] = {
#define PASS(id, flag, anchor, summary)  {MANUAL_PASS, flag, NULL, summary},
#define OPTION(id, name, fallback, help) {MANUAL_SETTING, name, fallback, help},
#include "transforms/passes.def"
#undef PASS
#undef OPTION
#define PIPELINE(id, flag, summary) {MANUAL_PIPELINE, flag, NULL, summary},
#define STAGE(id, passes, when)
#include "transforms/pipelines.def"
#undef PIPELINE
#undef STAGE
};
#endif

static const manual_page pages[] = {
    {.tool = &cli_tool,
     .description =
         "IN, A and B are a .safetensors file, an index.json, or a folder "
         "that holds model.safetensors.index.json, model.safetensors, or "
         "exactly one .safetensors file. OUT is a .safetensors file (shards "
         "are merged), an index.json in a new folder, or a new folder. "
         "Standard input and output are not accepted: checkpoints need "
         "random access.\n\n"
         "An output appears whole or not at all, also after a signal, a full "
         "disk or a crash. -- ends the options.",
     .sections = quant_sections,
     .section_count = COUNT(quant_sections)},
    {.tool = &run_tool,
     .sections = run_sections,
     .section_count = COUNT(run_sections)},
#if NABLA_HAS_COMPILER
    {.tool = &compile_tool},
    {.tool = &opt_tool,
     .description = "The options of mlir-opt are understood too; --help lists "
                    "them. PROGRAM.mlir may be '-' for standard input.",
     .flags = opt_flags,
     .flag_count = COUNT(opt_flags)},
#endif
};

const manual_page *manual_find(const char *name) {
  for (size_t i = 0; i < COUNT(pages); i++)
    if (!strcmp(pages[i].tool->name, name)) return &pages[i];
  return NULL;
}

int manual_applies(const tool *t, const tool_option *row, size_t verb) {
  return row->help && (!t->verb_count || tool_has_verb(row, verb));
}

int manual_has_values(const tool_option *row) {
  const char *value;
  size_t length;
  return tool_value(row->values, 0, &value, &length);
}

int manual_is_path(const tool_option *row) {
  return row->values && !strcmp(row->values, TOOL_PATH);
}

int manual_is_named_path(const tool_option *row) {
  return !row->values && row->argument && strstr(row->argument, "=FILE");
}

void manual_print_escaped(const char *text, const char *special, char escape) {
  for (; *text; text++) {
    if (strchr(special, *text)) putchar(escape);
    putchar(*text);
  }
}

void manual_print_values(const tool_option *row, const char *separator) {
  char text[1024] = "";
  tool_list_values(row->values, separator, text, sizeof text);
  fputs(text, stdout);
}

void manual_first_sentence(const char *text, char *out, size_t size) {
  size_t length = 0;
  while (text[length] && !(text[length] == '.' &&
                           (!text[length + 1] || text[length + 1] == ' ')))
    length++;
  (void)snprintf(out, size, "%.*s", (int)length, text);
}

void manual_print_identifier(const char *name) {
  for (; *name; name++) putchar(isalnum((unsigned char)*name) ? *name : '_');
}
