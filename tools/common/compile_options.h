/* The compile options of a command line. */
#ifndef NABLA_TOOLS_COMMON_COMPILE_OPTIONS_H
#define NABLA_TOOLS_COMMON_COMPILE_OPTIONS_H

#include "lib/base/compile_options.h"
#include "tools/common/tool.h"

#define TOOL_MAX_FILES 16 /* of an option */

/* Zero-initialised but for options.struct_size. */
typedef struct tool_compile {
  nabla_compile_options options;
  const char *files[NABLA_COMPILE_OPTIONS][TOOL_MAX_FILES];
  char shards[8192]; /* of --shard, joined */
} tool_compile;

/* Sets an option of nabla/compile_options.def; `argument` is borrowed. */
NABLA_MUST_USE nabla_status tool_set_compile_option(tool_compile *compile,
                                                    const tool_option *option,
                                                    const char *argument,
                                                    nabla_diag *diag);

/* The first compile option that was given, or NULL. */
const nabla_compile_option *tool_given_compile_option(
    const tool_compile *compile);

#endif
