/* Inside quant/: whether transformers, told so by config.json, can load a
 * planned model with bitsandbytes; else why not. */
#ifndef NABLA_QUANT_PLAN_HF_SURVEY_H
#define NABLA_QUANT_PLAN_HF_SURVEY_H

#include "nabla/quantize.h"
#include "quant/huggingface/architecture.h"
#include "quant/huggingface/hf_config.h"

typedef struct nabla_hf_survey {
  const nabla_allocator *allocator;
  const nabla_checkpoint *checkpoint;
  const nabla_plan *plan; /* NULL: everything is decoded */
  const nabla_hf_config *config;

  /* Filled by nabla_hf_survey_run: */
  nabla_buffer packed, skip;      /* of nabla_module, sorted; skip: dense  */
  size_t packed_in, packed_newly; /* tensors                               */
  const nabla_encoding *encoding; /* of the first packed tensor            */
  int double_quant;
  char objection[200]; /* why transformers cannot load it, or "" */
} nabla_hf_survey;

void nabla_hf_survey_init(nabla_hf_survey *survey);
void nabla_hf_survey_deinit(nabla_hf_survey *survey);

/* Counts what is packed; with a plan also says whether transformers loads that
 * and which modules it has to leave dense. */
NABLA_MUST_USE nabla_status nabla_hf_survey_run(nabla_hf_survey *survey,
                                                nabla_diag *diag);

/* Loads config.json of the folder that `checkpoint` was opened from into
 * `text`, an initialised buffer, and *out. *out_found is 0 for a file, an index
 * and a folder without one. */
NABLA_MUST_USE nabla_status nabla_hf_folder_config(
    const nabla_checkpoint *checkpoint, const nabla_os *os, nabla_buffer *text,
    nabla_hf_config *out, int *out_found, nabla_diag *diag);

#endif
