/* What the command lines of nabla-compile and nabla-run share: options from a
 * table, --help made of it, errors, exit codes. */
#ifndef NABLA_TOOLS_COMMON_TOOL_H
#define NABLA_TOOLS_COMMON_TOOL_H

#include <stddef.h>
#include <stdio.h>

#include "nabla/status.h"

#define TOOL_MAX_OPTIONS 32

/* Rows of options.def. */
typedef struct tool_option {
  const char *name;
  char letter;          /* or 0 */
  const char *argument; /* its name in the usage text; NULL: takes none */
  const char *values;   /* "a|b": what the argument may be; NULL: anything */
  const char *fallback; /* as shown in the help, or NULL */
  const char *help;
} tool_option;

typedef struct tool {
  const char *name, *operands, *summary, *examples;
  const char *failed; /* what exit code 1 means */
  const tool_option *options;
  size_t option_count; /* the last two are help and version */
  /* Sets option `index`. Of `values` it gets one that is legal. */
  nabla_status (*set)(void *self, size_t index, char *argument,
                      nabla_diag *diag);
  void *self;
} tool;

/* How a command line was understood. */
typedef struct tool_line {
  char **operands;
  int operand_count;
  int done; /* help or version was printed: exit with 0 */
} tool_line;

enum {
#define EXIT(id, code, meaning) TOOL_EXIT_##id = code,
#define STATUS(status, id)
#include "tools/nabla-quant/exits.def"
#undef EXIT
#undef STATUS
  TOOL_EXIT_FAILED = TOOL_EXIT_DIFFERENT,
};

int tool_exit_of_status(nabla_status status);

/* Reads options and operands; prints help or version where asked to. */
NABLA_MUST_USE nabla_status tool_parse(const tool *t, int argc, char **argv,
                                       tool_line *out, nabla_diag *diag);
void tool_print_help(const tool *t, FILE *out);
/* The same as one JSON object. */
NABLA_MUST_USE nabla_status tool_json_help(const tool *t, FILE *out,
                                           nabla_diag *diag);
void tool_print_usage(const tool *t, FILE *out);

/* "TOOL: TEXT" on standard error, control bytes escaped. */
void tool_say(const tool *t, const char *text);
void tool_error(const tool *t, const nabla_diag *diag);
/* The same without the tool's name, as a listener of a compiler's. */
void tool_diagnostic(void *unused, const char *text);

/* Digits only, between the bounds. `option` is named by an error. */
NABLA_MUST_USE nabla_status tool_number(const char *option,
                                        const char *argument, uint64_t least,
                                        uint64_t most, uint64_t *out,
                                        nabla_diag *diag);

/* Reads a file, or standard input for "-"; a NUL that *out_size does not count
 * follows. free(). */
NABLA_MUST_USE nabla_status tool_read(const char *path, char **out,
                                      size_t *out_size, nabla_diag *diag);

/* Whether a path ends with `suffix` behind a name. */
int tool_has_suffix(const char *path, const char *suffix);
/* Whether two paths are one file: writing one replaces the other. */
int tool_same_file(const char *a, const char *b);
/* Refuses '-' as the name of a file for a result. */
NABLA_MUST_USE nabla_status tool_check_output(const char *output,
                                              nabla_diag *diag);
/* The error of an output that is an input. */
NABLA_MUST_USE nabla_status tool_fail_input(const char *output,
                                            nabla_diag *diag);

/* Ends standard output: a failure to write it is an exit code. */
int tool_finish(const tool *t, int exit_code);

#endif
