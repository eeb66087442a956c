/* See options.h. */
#include "lib/compiler/options.h"

#include <string.h>

#include "transforms/ir/target.h"

/* Options of passes stand in braces, between quotes. */
static nabla_status check_text(const nabla_compile_option *row,
                               const char *value, nabla_diag *diag) {
  if (!strcmp(row->id, "shard")) return NABLA_OK; /* of no pass */
  if (!strpbrk(value, "\"'{};\\\n")) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "%s cannot have quotes, braces, ';' or '\\': '%.100s'",
                    row->flag, value);
}

static nabla_status join_files(const nabla_compile_option *row,
                               const nabla_compile_options *options,
                               nabla_text *out, nabla_diag *diag) {
  const char *const *names;
  const size_t count = nabla_compile_option_files(row, options, &names);
  if (count > NABLA_COMPILE_FILES_MAX)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%s: at most %d files can be named", row->flag,
                      NABLA_COMPILE_FILES_MAX);
  for (size_t i = 0; i < count; i++) {
    if (!names[i] || !*names[i])
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "%s: the name of a file is empty", row->flag);
    NABLA_TRY(check_text(row, names[i], diag));
    nabla_text_add(out, "%s%s", i ? ";" : "", names[i]);
  }
  if (out->failed)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for names of files");
  return NABLA_OK;
}

nabla_status nabla_option_values_init(nabla_option_values *out,
                                      const nabla_compile_options *options,
                                      const nabla_machine *machine,
                                      const char *features, nabla_diag *diag) {
  NABLA_TRY(nabla_compile_options_check(options, diag));
  for (size_t i = 0; i < NABLA_COMPILE_OPTIONS; i++) {
    const nabla_compile_option *row = &nabla_compile_option_rows[i];
    nabla_pipeline_value *value = &out->list[i];
    value->name = row->id;
    if (row->kind == NABLA_COMPILE_OPTION_FILES) {
      NABLA_TRY(join_files(row, options, &out->files[i], diag));
      value->value = out->files[i].data ? out->files[i].data : "";
    } else {
      value->value = nabla_compile_option_text(row, options);
      NABLA_TRY(check_text(row, value->value, diag));
    }
  }
  out->list[NABLA_COMPILE_OPTIONS] = (nabla_pipeline_value){
      "target_name", nabla_target_of_triple(machine->triple)->name};
  out->list[NABLA_COMPILE_OPTIONS + 1] =
      (nabla_pipeline_value){"features", features};
  return NABLA_OK;
}

void nabla_option_values_deinit(nabla_option_values *values) {
  for (size_t i = 0; i < NABLA_COMPILE_OPTIONS; i++)
    nabla_text_deinit(&values->files[i]);
}

void nabla_options_describe(const nabla_option_values *values,
                            nabla_text *out) {
  for (size_t i = 0; i < NABLA_COMPILE_OPTIONS; i++)
    nabla_text_add(out, "%s=%s\n", values->list[i].name, values->list[i].value);
}

bool nabla_options_have_files(const nabla_compile_options *options) {
  for (size_t i = 0; i < NABLA_COMPILE_OPTIONS; i++) {
    const nabla_compile_option *row = &nabla_compile_option_rows[i];
    if (row->kind == NABLA_COMPILE_OPTION_FILES &&
        nabla_compile_option_files(row, options, NULL) > 0)
      return true;
  }
  return false;
}
