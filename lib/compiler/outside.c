/* See outside.h. */
#include "lib/compiler/outside.h"

#include <stdlib.h>
#include <string.h>

#include "dialect/encoding/custom_encoding.h"
#include "lib/base/compile_options.h"
#include "lib/base/file/file.h"
#include "transforms/abi/calls.h"
#include "transforms/shard/partitioners.h"
#include "transforms/shard/shard_map.h"
#include "transforms/user_rules/user_rules.h"

/* Name, size and bytes. */
static nabla_status describe_file(const char *path, nabla_text *out,
                                  nabla_diag *diag) {
  nabla_file *file;
  NABLA_TRY(nabla_file_open(NULL, NULL, path, &file, diag));
  nabla_buffer text;
  nabla_buffer_init(&text, NULL, "rules", NABLA_RULE_FILE_LIMIT);
  nabla_status status =
      nabla_file_read_all(file, NABLA_RULE_FILE_LIMIT, &text, diag);
  nabla_file_close(file);
  if (!status)
    nabla_text_add(out, "file %zu %.*s\n", text.size, (int)text.size,
                   text.data ? (const char *)text.data : "");
  if (status) nabla_diag_set_file(diag, path);
  nabla_buffer_deinit(&text);
  return status;
}

static nabla_status describe_files(const nabla_compile_option *row,
                                   const nabla_compile_options *options,
                                   nabla_text *out, nabla_diag *diag) {
  if (row->kind != NABLA_COMPILE_OPTION_FILES) return NABLA_OK;
  const char *const *names;
  const size_t count = nabla_compile_option_files(row, options, &names);
  for (size_t i = 0; i < count; i++)
    NABLA_TRY(describe_file(names[i], out, diag));
  return NABLA_OK;
}

static void add_encoding(void *self, const char *name, const char *version) {
  nabla_text_add(self, "encoding %s %s\n", name, version);
}

nabla_status nabla_outside_describe(const nabla_compile_options *options,
                                    nabla_text *out, bool *out_known,
                                    nabla_diag *diag) {
  for (size_t i = 0; i < NABLA_COMPILE_OPTIONS; i++)
    NABLA_TRY(
        describe_files(&nabla_compile_option_rows[i], options, out, diag));
  *out_known = nabla_added_rules_describe(out);
  *out_known = nabla_custom_describe(add_encoding, out) && *out_known;
  *out_known =
      *out_known && !nabla_inspect_is_used() && !nabla_partitioners_are_used();
  nabla_call_handlers_describe(out);
  if (out->failed)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a key");
  return NABLA_OK;
}
