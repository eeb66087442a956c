/* See pipelines.h. */
#include "transforms/pipelines.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "transforms/ir/target.h"

/* Rows of both kinds, in the order of pipelines.def; a pipeline has no `id`. */
static const nabla_stage rows[] = {
#define PIPELINE(id, flag, summary) {NULL, NULL, NABLA_STAGE_ALWAYS},
#define STAGE(id, passes, when)     {#id, passes, NABLA_STAGE_##when},
#include "transforms/pipelines.def"
#undef PIPELINE
#undef STAGE
};
#define ROWS (sizeof rows / sizeof *rows)

static const struct {
  const char *flag, *summary;
} names[NABLA_PIPELINE_COUNT] = {
#define PIPELINE(id, flag, summary) {flag, summary},
#define STAGE(id, passes, when)
#include "transforms/pipelines.def"
#undef PIPELINE
#undef STAGE
};

const nabla_pipeline_value nabla_pipeline_defaults[] = {
#define NABLA_OPTION_TEXT(id, flag, argument, fallback, help) {#id, fallback},
#define NABLA_OPTION_CHOICE(id, flag, argument, values, fallback, help) \
  {#id, fallback},
#define NABLA_OPTION_FLAG(id, flag, help)                   {#id, "off"},
#define NABLA_OPTION_FILES(id, count, flag, argument, help) {#id, ""},
#include "nabla/compile_options.def"
#undef NABLA_OPTION_TEXT
#undef NABLA_OPTION_CHOICE
#undef NABLA_OPTION_FLAG
#undef NABLA_OPTION_FILES
    {"target_name", "host"}, {"features", "host"}, {NULL, NULL}};

nabla_pipeline nabla_pipeline_get(nabla_pipeline_id id) {
  size_t at = 0, end;
  assert((unsigned)id < NABLA_PIPELINE_COUNT);
  for (int before = 0; before < (int)id; before++)
    for (at++; rows[at].id; at++) continue;
  at++; /* the row of the pipeline */
  for (end = at; end < ROWS && rows[end].id; end++) continue;
  return (nabla_pipeline){names[id].flag, names[id].summary, &rows[at],
                          end - at};
}

static const char *find_value(const nabla_pipeline_value *values,
                              const char *name, size_t length) {
  for (; values->name; values++)
    if (strlen(values->name) == length && !memcmp(values->name, name, length))
      return values->value;
  return NULL;
}

const char *nabla_stage_target(const nabla_stage *stage) {
  switch (stage->when) {
#define TARGET(id, machine, summary) \
  case NABLA_STAGE_##id:             \
    return #id;
#include "transforms/ir/targets.def"
#undef TARGET
    case NABLA_STAGE_ALWAYS:
    case NABLA_STAGE_PLANNED:
      break;
  }
  return NULL;
}

static bool runs(const nabla_stage *stage, const nabla_pipeline_value *values) {
  const char *wanted = nabla_stage_target(stage);
  if (!wanted) return stage->when == NABLA_STAGE_ALWAYS;
  const char *name = find_value(values, "target_name", strlen("target_name"));
  const nabla_target *target = nabla_target_find(name ? name : "host");
  return target && !strcmp(target->name, wanted);
}

nabla_status nabla_stage_write(const nabla_stage *stage,
                               const nabla_pipeline_value *values,
                               nabla_text *out, nabla_diag *diag) {
  if (!runs(stage, values)) return NABLA_OK;
  for (const char *at = stage->passes; *at;) {
    size_t plain = strcspn(at, "$");
    nabla_text_add(out, "%.*s", (int)plain, at);
    at += plain;
    if (!*at) break;
    size_t length = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_");
    const char *value = find_value(values, at + 1, length);
    if (!value)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "stage '%s' takes '%.*s', which has no value",
                        stage->id, (int)length, at + 1);
    nabla_text_add(out, "%s", value);
    at += 1 + length;
  }
  if (out->failed)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a pipeline");
  return NABLA_OK;
}

nabla_status nabla_pipeline_write(nabla_pipeline_id id,
                                  const nabla_pipeline_value *values,
                                  nabla_text *out, nabla_diag *diag) {
  const nabla_pipeline pipeline = nabla_pipeline_get(id);
  const char *comma = "";
  for (size_t i = 0; i < pipeline.stage_count; i++) {
    if (!runs(&pipeline.stages[i], values)) continue;
    nabla_text_add(out, "%s", comma);
    NABLA_TRY(nabla_stage_write(&pipeline.stages[i], values, out, diag));
    comma = ",";
  }
  return NABLA_OK;
}
