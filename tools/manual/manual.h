/* Pages of the tools: the man page and the completions of one tool, each from
 * the rows of its tables. */
#ifndef NABLA_TOOLS_MANUAL_H
#define NABLA_TOOLS_MANUAL_H

#include <stdio.h>

#include "tools/common/options.h"

/* An option that is no row of the tool's: a pass or a pipeline of nabla-opt, or
 * a setting of the pass before it. */
typedef struct manual_flag {
  enum { MANUAL_PASS, MANUAL_SETTING, MANUAL_PIPELINE } kind;
  const char *name, *fallback, *help; /* fallback: of settings */
} manual_flag;

/* A section of a man page behind the options. */
typedef struct manual_section {
  const char *heading;
  const char *text; /* paragraphs, an empty line between them */
} manual_section;

typedef struct manual_page {
  const tool *tool;
  const char *description; /* paragraphs behind the tool's summary, or NULL */
  const manual_section *sections;
  size_t section_count;
  const manual_flag *flags;
  size_t flag_count;
} manual_page;

/* The page of a tool of this build, NULL for another name. */
const manual_page *manual_find(const char *name);

/* Each prints to standard output. */
void manual_print_man(const manual_page *page);
void manual_print_bash(const manual_page *page);
void manual_print_zsh(const manual_page *page);
void manual_print_fish(const manual_page *page);
/* docs/CLI.md: nabla-quant's. */
void manual_print_markdown(void);

/* ---- rows ---- */

/* Whether help shows the option of a verb, or of a tool without verbs. */
int manual_applies(const tool *t, const tool_option *row, size_t verb);
int manual_has_values(const tool_option *row);
/* Whether the argument is a file, or one behind "NAME=". */
int manual_is_path(const tool_option *row);
int manual_is_named_path(const tool_option *row);

/* Text with `escape` before every character of `special`. */
void manual_print_escaped(const char *text, const char *special, char escape);
/* The values of an option, `separator` between them. */
void manual_print_values(const tool_option *row, const char *separator);
/* Writes the first sentence of a text, without its full stop. */
void manual_first_sentence(const char *text, char *out, size_t size);
/* Prints the name as a part of an identifier of a shell. */
void manual_print_identifier(const char *name);

#endif
