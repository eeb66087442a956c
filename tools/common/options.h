/* Options and verbs of a tool, as tables: the parser, --help as text and as
 * JSON, man pages and shell completion read the same rows. */
#ifndef NABLA_TOOLS_COMMON_OPTIONS_H
#define NABLA_TOOLS_COMMON_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/json/json.h"
#include "nabla/status.h"

#define TOOL_MAX_OPTIONS 40

/* Values of an option whose argument is the name of a file or folder. */
#define TOOL_PATH "*"
/* Verbs of an option that all verbs have, or of a tool without verbs. */
#define TOOL_ALL UINT32_MAX

/* A row of options.def. Each tool's rows have these columns:
 * OPTION(id, name, letter, argument, values, verbs, group, default, help) */
typedef struct tool_option {
  const char *name;
  char letter;          /* or 0                                               */
  const char *argument; /* its name in the usage text; NULL: takes none       */
  const char *values;   /* "a|b": what the argument may be, upper and lower
                           case alike; TOOL_PATH; NULL: any text              */
  uint32_t verbs;       /* bits 1 << index of tool.verbs; TOOL_ALL            */
  const char *group;    /* of the help, "output": the heading is "output
                           options:"                                          */
  const char *fallback; /* the default as shown in the help, or NULL          */
  const char *help;     /* a sentence; NULL hides the option (tests use it)   */
} tool_option;

/* The initializer of a row. */
#define TOOL_OPTION(id, name, letter, argument, values, verbs, group, \
                    fallback, help)                                   \
  {name, letter, argument, values, verbs, group, fallback, help},

/* A row of verbs.def. */
typedef struct tool_verb {
  const char *name, *operands; /* operands as in the usage line, or "" */
  size_t min, max;             /* operands; min > max: any number from min */
  const char *summary, *description;
} tool_verb;

/* A verb of former versions. */
typedef struct tool_moved {
  const char *name, *next; /* next: the instruction that its error ends with */
} tool_moved;

typedef struct tool {
  const char *name;
  const char *operands; /* as in the usage line                              */
  const char *summary, *examples;
  const char *operand_help; /* of a tool with verbs: what operands are; NULL  */
  const char *failed;       /* what exit code 1 means; NULL: as in exits.def,
                               and signals are exit codes                     */
  const tool_verb *verbs;
  size_t verb_count; /* 0: a tool without verbs                              */
  const tool_moved *moved;
  size_t moved_count;
  const tool_option *options;
  size_t option_count; /* the last two are help and version                  */
  /* Sets option `index`. Of `values` it gets one that is listed, spelled as
   * there. */
  nabla_status (*set)(void *self, size_t index, char *argument,
                      nabla_diag *diag);
  void *self;
} tool;

/* How a command line was understood. */
typedef struct tool_line {
  size_t verb;    /* verb_count: none                                        */
  uint64_t given; /* bit 1 << index of each option                           */
  char **operands;
  size_t operand_count;
  enum { TOOL_ABOUT_NOTHING, TOOL_ABOUT_HELP, TOOL_ABOUT_VERSION } about;
  int json; /* --json stands somewhere, also on a line that is wrong         */
} tool_line;

/* ---- options.c ---- */

/* Reads verb, options and operands. Words behind --help and --version are not
 * read. `*out` says how far the line was understood when it is wrong. */
NABLA_MUST_USE nabla_status tool_parse(const tool *t, int argc, char **argv,
                                       tool_line *out, nabla_diag *diag);

/* Reads the options out of a command line that another parser reads as well:
 * takes --NAME, --NAME=ARGUMENT and --NAME ARGUMENT of the table out of argv,
 * up to "--", and sets them; everything else stays. */
NABLA_MUST_USE nabla_status tool_take(const tool *t, int *argc, char **argv,
                                      nabla_diag *diag);

/* Prints help or version, as JSON with --json. */
NABLA_MUST_USE nabla_status tool_print_about(const tool *t,
                                             const tool_line *line,
                                             nabla_diag *diag);

static inline int tool_has_verb(const tool_option *row, size_t verb) {
  return (row->verbs >> verb & 1u) != 0;
}

/* Whether every verb has the option. */
int tool_is_common(const tool *t, const tool_option *row);

/* ---- values.c ---- */

/* Value `index` of a list "a|b": sets begin and length. @return 0 past the
 * last, and for NULL and TOOL_PATH */
int tool_value(const char *values, size_t index, const char **out,
               size_t *length);

/* Finds an argument in a list, upper and lower case alike; "unknown" begins the
 * error: "--layout: unknown value". */
NABLA_MUST_USE nabla_status tool_find_value(const char *unknown,
                                            const char *values,
                                            const char *argument, size_t *out,
                                            nabla_diag *diag);

/* Appends the values of a list, `separator` between them. */
void tool_list_values(const char *values, const char *separator, char *out,
                      size_t size);

/* ---- help.c ---- */

/* One line; verb_count: of the tool. */
void tool_print_usage(const tool *t, size_t verb, FILE *out);
void tool_print_help(const tool *t, size_t verb, FILE *out);
/* The same as members of an object that is open. */
void tool_json_help(const tool *t, size_t verb, nabla_json_out *json);

/* The options of a verb by groups, each with its heading. */
void tool_print_options(const tool *t, size_t verb, FILE *out);

/* ---- exits.c ---- */

enum {
#define EXIT(id, code, meaning) TOOL_EXIT_##id = code,
#define STATUS(status, id)
#include "tools/common/exits.def"
#undef EXIT
#undef STATUS
  TOOL_EXIT_FAILED = TOOL_EXIT_DIFFERENT,
};

typedef struct tool_exit {
  int code;
  const char *meaning; /* NULL past the last */
} tool_exit;

/* Row `index` of the exit codes of a tool. */
tool_exit tool_exit_row(const tool *t, size_t index);
int tool_exit_of_status(nabla_status status);

#endif
