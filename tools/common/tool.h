/* What the tools share beside their options: errors, files, numbers, the end of
 * standard output. */
#ifndef NABLA_TOOLS_COMMON_TOOL_H
#define NABLA_TOOLS_COMMON_TOOL_H

#include <stddef.h>
#include <stdio.h>

#include "nabla/status.h"
#include "tools/common/options.h"

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

/* Reports a command line that is wrong, with the usage line. @return the exit
 * code */
int tool_fail_line(const tool *t, const tool_line *line,
                   const nabla_diag *diag);

/* Prints help or version and ends standard output. @return the exit code */
int tool_finish_about(const tool *t, const tool_line *line);

/* Ends standard output: a failure to write it is an exit code. */
int tool_finish(const tool *t, int exit_code);

#endif
