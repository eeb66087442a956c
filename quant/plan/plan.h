/* Inside quant/: what a plan holds. Functions are defined in importance.c,
 * nonfinite.c and settings.c too. */
#ifndef NABLA_QUANT_PLAN_PLAN_H
#define NABLA_QUANT_PLAN_PLAN_H

#include "lib/base/memory.h"
#include "nabla/quantize.h"
#include "quant/huggingface/hf_config.h"
#include "quant/plan/patterns.h"
#include "quant/tiles/tensor_reader.h"

/* Reasons of a decision; the text is made on demand. */
typedef enum nabla_reason {
  NABLA_REASON_DEFAULT,
  NABLA_REASON_RULE,
  NABLA_REASON_PACKED,
  NABLA_REASON_SKIP,
  NABLA_REASON_ONLY,
  NABLA_REASON_NONE,
  NABLA_REASON_DTYPE,
  NABLA_REASON_EMPTY,
  NABLA_REASON_RANK,
  NABLA_REASON_NAME,
  NABLA_REASON_KEEP,
  NABLA_REASON_NONFINITE,
  NABLA_REASON_ARCHITECTURE,
  NABLA_REASON_GROWS,
} nabla_reason;

/* One logical tensor; small, since a file may hold two million. */
typedef struct nabla_decision {
  uint64_t bytes_out;
  union {
    uint64_t importance; /* tensor of plan->importance, or SIZE_MAX */
    uint64_t index;      /* NABLA_REASON_NONFINITE: index of the first such
                          * value */
  };
  uint32_t format; /* index in plan->formats, from 1; 0: kept dense */
  uint32_t detail; /* rule, pattern or row of keep.def */
  uint8_t reason;  /* nabla_reason */
  uint8_t search;
} nabla_decision;

struct nabla_plan {
  const nabla_allocator *allocator;
  const nabla_checkpoint *checkpoint;
  nabla_patterns *only, *skip, *rules;
  nabla_quantize_rule *rule; /* NABLA_MAX_PATTERNS elements; the patterns are
                              * elsewhere */
  const nabla_encoding *encoding;
  nabla_settings settings;
  const nabla_checkpoint *importance; /* may be NULL */
  nabla_layout_choice choice;
  int has_config; /* the output is a folder with a config.json    */
  nabla_hf_config config;
  /* If set, tensors that transformers cannot unpack are kept dense by default.
   */
  const nabla_architecture *architecture;
  nabla_nonfinite_policy nonfinite;
  nabla_isa isa;
  nabla_decision *decisions; /* one per logical tensor */
  size_t count;
  nabla_buffer formats; /* nabla_format; no two neighbours are equal */
  nabla_plan_totals totals;
};

/* Returns the format that a tensor gets; with encoding NULL it is kept dense.
 */
static inline const nabla_format *nabla_plan_format(const nabla_plan *plan,
                                                    size_t tensor) {
  static const nabla_format kept = {0};
  const nabla_format *formats =
      (const nabla_format *)(const void *)plan->formats.data;
  const uint32_t format = plan->decisions[tensor].format;
  return format ? &formats[format - 1] : &kept;
}

/* Checks that `encoding` supports `settings` at all. */
NABLA_MUST_USE nabla_status nabla_settings_check(const nabla_settings *settings,
                                                 const nabla_encoding *encoding,
                                                 const char *what,
                                                 nabla_diag *diag);

/* Combines the settings of a rule with those of the options. */
nabla_settings nabla_settings_of_rule(const nabla_plan *plan,
                                      const nabla_quantize_rule *rule);

/* Makes the format of a tensor that is not empty and has at least one
 * dimension. */
nabla_format nabla_settings_format(const nabla_plan *plan,
                                   const nabla_tensor *tensor,
                                   const nabla_encoding *encoding,
                                   const nabla_settings *settings);

/* Decides about one tensor by its name, dtype and shape. *out_format is the
 * format if the tensor is to be packed, else its encoding is NULL; out->format
 * stays 0. */
NABLA_MUST_USE nabla_status nabla_plan_decide(const nabla_plan *plan,
                                              const nabla_tensor *tensor,
                                              nabla_decision *out,
                                              nabla_format *out_format,
                                              nabla_diag *diag);

/* Reads the search weights of the `count` values of a tile into a part of
 * scratch->raw that codes do not use; *out is NULL if all weights are equal. */
NABLA_MUST_USE nabla_status nabla_importance_read(
    const nabla_plan *plan, uint64_t tensor, uint64_t first, uint64_t count,
    nabla_scratch *scratch, const float **out, nabla_diag *diag);

/* Returns the reason of the first row of keep.def that matches one part of a
 * tensor's name, or NULL. */
const char *nabla_keep_reason_of_part(const char *part, size_t size);

/* Writes the reason of a decision as one clause. */
void nabla_decision_explain(const nabla_plan *plan, const nabla_tensor *tensor,
                            const nabla_decision *decision, char *out,
                            size_t size);

/* Changes decisions about tensors that contain NaN or infinity to "kept". */
NABLA_MUST_USE nabla_status nabla_plan_keep_nonfinite(
    nabla_plan *plan, const nabla_environment *environment, nabla_diag *diag);

#endif
