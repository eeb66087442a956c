/* See outside.h. */
#include "lib/compiler/outside.h"

#include <stdlib.h>
#include <string.h>

#include "dialect/encoding/custom_encoding.h"
#include "lib/base/file.h"
#include "transforms/abi/calls.h"
#include "transforms/user_rules/user_rules.h"

nabla_status nabla_outside_rules(const nabla_compile_options *options,
                                 nabla_text *out, nabla_diag *diag) {
  if (options->rule_count == 0) return NABLA_OK;
  if (options->rule_count > NABLA_RULE_FILES_MAX)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "at most %d files of rules",
                      NABLA_RULE_FILES_MAX);
  for (size_t i = 0; i < options->rule_count; i++) {
    const char *path = options->rules[i];
    if (!*path || strpbrk(path, "\"'{};\\\n"))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "the name of a file of rules cannot be empty or have "
                        "quotes, braces, ';' or '\\': '%.100s'",
                        path);
    nabla_text_add(out, "%s%s", i ? ";" : "", path);
  }
  return NABLA_OK;
}

/* Name, size and bytes. */
static nabla_status describe_file(const char *path, nabla_text *out,
                                  nabla_diag *diag) {
  nabla_file *file;
  NABLA_TRY(nabla_file_open(NULL, NULL, path, &file, diag));
  uint64_t size = nabla_file_size(file);
  nabla_status status = NABLA_OK;
  char *text = NULL;
  if (size > NABLA_RULE_FILE_LIMIT)
    status = nabla_fail(diag, NABLA_TOO_LARGE, "has more than %zu bytes",
                        NABLA_RULE_FILE_LIMIT);
  else if (!(text = malloc((size_t)size + 1)))
    status = nabla_fail(diag, NABLA_NO_MEMORY, "no memory for rules");
  if (!status) status = nabla_file_read(file, 0, text, (size_t)size, diag);
  nabla_file_close(file);
  if (!status)
    nabla_text_add(out, "file %llu %.*s\n", (unsigned long long)size, (int)size,
                   text);
  if (status) nabla_diag_set_file(diag, path);
  free(text);
  return status;
}

static void add_encoding(void *self, const char *name, const char *version) {
  nabla_text_add(self, "encoding %s %s\n", name, version);
}

nabla_status nabla_outside_describe(const nabla_compile_options *options,
                                    nabla_text *out, bool *out_known,
                                    nabla_diag *diag) {
  for (size_t i = 0; i < options->rule_count; i++)
    NABLA_TRY(describe_file(options->rules[i], out, diag));
  *out_known = nabla_added_rules_describe(out);
  *out_known = nabla_custom_describe(add_encoding, out) && *out_known;
  nabla_call_handlers_describe(out);
  if (out->failed)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a key");
  return NABLA_OK;
}
