/* See compile_options.h. */
#include "tools/common/compile_options.h"

#include <stdio.h>
#include <string.h>

/* --shard may be repeated: its values are joined by ';'. */
static nabla_status add_shard(tool_compile *compile, const char *argument,
                              nabla_diag *diag) {
  const size_t used = strlen(compile->shards), room = sizeof compile->shards;
  if (used + strlen(argument) + 2 > room)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--shard is given with more than %zu bytes", room);
  (void)snprintf(compile->shards + used, room - used, "%s%s", used ? ";" : "",
                 argument);
  compile->options.shard = compile->shards;
  return NABLA_OK;
}

nabla_status tool_set_compile_option(tool_compile *compile,
                                     const tool_option *option,
                                     const char *argument, nabla_diag *diag) {
  const nabla_compile_option *row = nabla_compile_option_find(option->name);
  if (!row)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "--%s is no compile option",
                      option->name);
  if (!strcmp(row->id, "shard")) return add_shard(compile, argument, diag);
  if (row->kind != NABLA_COMPILE_OPTION_FILES) {
    nabla_compile_option_set(
        row, &compile->options,
        row->kind == NABLA_COMPILE_OPTION_FLAG ? "on" : argument);
    return NABLA_OK;
  }
  const char **files = compile->files[row - nabla_compile_option_rows];
  size_t count = nabla_compile_option_files(row, &compile->options, NULL);
  if (count == TOOL_MAX_FILES)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--%s is given more than %d times", option->name,
                      TOOL_MAX_FILES);
  files[count++] = argument;
  nabla_compile_option_set_files(row, &compile->options, files, count);
  return NABLA_OK;
}

const nabla_compile_option *tool_given_compile_option(
    const tool_compile *compile) {
  for (size_t i = 0; i < NABLA_COMPILE_OPTIONS; i++)
    if (nabla_compile_option_given(&nabla_compile_option_rows[i],
                                   &compile->options))
      return &nabla_compile_option_rows[i];
  return NULL;
}
