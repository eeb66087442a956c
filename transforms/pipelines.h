/* Pipelines by name, made of the stages of pipelines.def: text, so that a tool
 * shows exactly what the compiler runs. */
#ifndef NABLA_TRANSFORMS_PIPELINES_H
#define NABLA_TRANSFORMS_PIPELINES_H

#include <stddef.h>

#include "lib/kernels/builder/text.h"
#include "nabla/status.h"

typedef enum nabla_stage_when {
  NABLA_STAGE_ALWAYS,
  NABLA_STAGE_PLANNED,                                 /* no pass runs there */
#define TARGET(id, machine, summary) NABLA_STAGE_##id, /* for that target */
#include "transforms/ir/targets.def"
#undef TARGET
} nabla_stage_when;

typedef struct nabla_stage {
  const char *id, *passes;
  nabla_stage_when when;
} nabla_stage;

typedef struct nabla_pipeline {
  const char *flag, *summary;
  const nabla_stage *stages;
  size_t stage_count;
} nabla_pipeline;

typedef enum nabla_pipeline_id {
#define PIPELINE(id, flag, summary) NABLA_PIPELINE_##id,
#define STAGE(id, passes, when)
#include "transforms/pipelines.def"
#undef PIPELINE
#undef STAGE
  NABLA_PIPELINE_COUNT
} nabla_pipeline_id;

/* The pipeline `id`, which is below NABLA_PIPELINE_COUNT. */
nabla_pipeline nabla_pipeline_get(nabla_pipeline_id id);

/* A value that stages take as $NAME. */
typedef struct nabla_pipeline_value {
  const char *name, *value;
} nabla_pipeline_value;

/* The values of `nabla-opt --FLAG`: of the host's CPU, and defaults. A row
 * without a name ends it. */
extern const nabla_pipeline_value nabla_pipeline_defaults[];

/* The target whose stage it is, or NULL. */
const char *nabla_stage_target(const nabla_stage *stage);

/* Appends the passes of one stage, nothing of a planned one or of one for
 * another target than the value "target_name" says ("host" is this machine's).
 * @param values  a row without a name ends it
 * @return NABLA_INVALID_ARGUMENT  the stage takes a value that is not there
 *         NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status
nabla_stage_write(const nabla_stage *stage, const nabla_pipeline_value *values,
                  nabla_text *out, nabla_diag *diag);

/* Appends the passes of all stages, to be put into builtin.module(...). */
NABLA_MUST_USE nabla_status
nabla_pipeline_write(nabla_pipeline_id id, const nabla_pipeline_value *values,
                     nabla_text *out, nabla_diag *diag);

#endif
