/* See compile_options.h. */
#include "lib/base/compile_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET(member) offsetof(nabla_compile_options, member)

const nabla_compile_option nabla_compile_option_rows[NABLA_COMPILE_OPTIONS] = {
#define NABLA_OPTION_TEXT(id, flag, argument, fallback, help) \
  {NABLA_COMPILE_OPTION_TEXT,                                 \
   #id,                                                       \
   flag,                                                      \
   argument,                                                  \
   NULL,                                                      \
   fallback,                                                  \
   help,                                                      \
   OFFSET(id),                                                \
   0},
#define NABLA_OPTION_CHOICE(id, flag, argument, values, fallback, help) \
  {NABLA_COMPILE_OPTION_CHOICE,                                         \
   #id,                                                                 \
   flag,                                                                \
   argument,                                                            \
   values,                                                              \
   fallback,                                                            \
   help,                                                                \
   OFFSET(id),                                                          \
   0},
#define NABLA_OPTION_FLAG(id, flag, help) \
  {NABLA_COMPILE_OPTION_FLAG,             \
   #id,                                   \
   flag,                                  \
   NULL,                                  \
   "off|on",                              \
   "off",                                 \
   help,                                  \
   OFFSET(id),                            \
   0},
#define NABLA_OPTION_FILES(id, count, flag, argument, help) \
  {NABLA_COMPILE_OPTION_FILES,                              \
   #id,                                                     \
   flag,                                                    \
   argument,                                                \
   NULL,                                                    \
   NULL,                                                    \
   help,                                                    \
   OFFSET(id),                                              \
   OFFSET(count)},
#include "nabla/compile_options.def"
#undef NABLA_OPTION_TEXT
#undef NABLA_OPTION_CHOICE
#undef NABLA_OPTION_FLAG
#undef NABLA_OPTION_FILES
};

const nabla_compile_option *nabla_compile_option_find(const char *flag) {
  for (size_t i = 0; i < NABLA_COMPILE_OPTIONS; i++)
    if (!strcmp(nabla_compile_option_rows[i].flag, flag))
      return &nabla_compile_option_rows[i];
  return NULL;
}

/* NULL where it is not set. */
static const char *policy_of_environment(void) {
  const char *value = getenv("NABLA_POLICY");
  return value && *value ? value : NULL;
}

const char *nabla_compile_option_text(const nabla_compile_option *row,
                                      const nabla_compile_options *options) {
  const char *value;
  memcpy(&value, (const char *)options + row->member, sizeof value);
  if (!value && row == &nabla_compile_option_rows[NABLA_COMPILE_OPTION_policy])
    value = policy_of_environment();
  return value ? value : row->fallback;
}

size_t nabla_compile_option_files(const nabla_compile_option *row,
                                  const nabla_compile_options *options,
                                  const char *const **out) {
  size_t count;
  memcpy(&count, (const char *)options + row->count, sizeof count);
  if (out) memcpy(out, (const char *)options + row->member, sizeof *out);
  return count;
}

bool nabla_compile_option_given(const nabla_compile_option *row,
                                const nabla_compile_options *options) {
  const char *value;
  if (row->kind == NABLA_COMPILE_OPTION_FILES)
    return nabla_compile_option_files(row, options, NULL) > 0;
  memcpy(&value, (const char *)options + row->member, sizeof value);
  return value != NULL;
}

void nabla_compile_option_set(const nabla_compile_option *row,
                              nabla_compile_options *options,
                              const char *value) {
  memcpy((char *)options + row->member, &value, sizeof value);
}

void nabla_compile_option_set_files(const nabla_compile_option *row,
                                    nabla_compile_options *options,
                                    const char *const *names, size_t count) {
  memcpy((char *)options + row->member, &names, sizeof names);
  memcpy((char *)options + row->count, &count, sizeof count);
}

static bool is_value(const char *values, const char *value) {
  for (const char *at = values; *at;) {
    const size_t length = strcspn(at, "|");
    if (strlen(value) == length && !memcmp(at, value, length)) return true;
    at += length + (at[length] == '|');
  }
  return false;
}

static nabla_status fail_value(const nabla_compile_option *row,
                               const char *value, nabla_diag *diag) {
  char list[120] = "";
  size_t used = 0;
  for (const char *at = row->values; *at && used + 3 < sizeof list; at++) {
    list[used++] = *at == '|' ? ',' : *at;
    if (*at == '|') list[used++] = ' ';
  }
  const char *origin =
      value == policy_of_environment() ? " in NABLA_POLICY" : "";
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown %s '%.100s'%s",
                 row->flag, value, origin);
  nabla_diag_set_next(diag, "legal are %s", list);
  return status;
}

nabla_status nabla_compile_options_check(const nabla_compile_options *options,
                                         nabla_diag *diag) {
  for (size_t i = 0; i < NABLA_COMPILE_OPTIONS; i++) {
    const nabla_compile_option *row = &nabla_compile_option_rows[i];
    if (!row->values) continue;
    const char *value = nabla_compile_option_text(row, options);
    if (!is_value(row->values, value)) return fail_value(row, value, diag);
  }
  return NABLA_OK;
}
