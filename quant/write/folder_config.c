/* The config.json of the written model: whether transformers can load the model
 * with bitsandbytes, and with which quantization_config. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "quant/huggingface/folder.h"
#include "quant/plan/hf_survey.h"
#include "quant/plan/plan.h"

typedef nabla_hf_survey survey;

/* ---- the decision ------------------------------------------------------- */

static nabla_status set(nabla_folder *folder, nabla_config_action action,
                        int is_loadable, const char *format, ...)
    NABLA_PRINTF(4, 5);

static nabla_status set(nabla_folder *folder, nabla_config_action action,
                        int is_loadable, const char *format, ...) {
  nabla_config_change *change = &folder->change;
  va_list rest;
  change->action = action;
  change->is_loadable = is_loadable;
  va_start(rest, format);
  (void)vsnprintf(change->reason, sizeof change->reason, format, rest);
  va_end(rest);
  return NABLA_OK;
}

static const char *compute_dtype_of(const nabla_hf_config *config) {
  static const char *const known[] = {"float16", "bfloat16", "float32"};
  const char *const wished[] = {config->quantization.compute_dtype,
                                config->dtype};
  for (size_t w = 0; w < 2; w++)
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      if (!strcmp(wished[w], known[i])) return known[i];
  return "float32";
}

/* Makes the new text of config.json, with or without the member. */
static nabla_status splice(nabla_folder *folder, const nabla_hf_value *value,
                           nabla_diag *diag) {
  return nabla_hf_config_splice(folder->config.data, folder->config.size,
                                &folder->parsed, value, &folder->new_config,
                                diag);
}

/* Splices in the list of modules that stay dense; the names are borrowed. */
static nabla_status splice_list(nabla_folder *folder, nabla_hf_value *value,
                                nabla_diag *diag) {
  const size_t count = folder->skip.size / sizeof(nabla_module);
  const nabla_module *module = (const void *)folder->skip.data;
  void *names = NULL, *lengths = NULL;
  NABLA_TRY(
      nabla_alloc(folder->allocator, count, sizeof(char *), &names, diag));
  nabla_status status =
      nabla_alloc(folder->allocator, count, sizeof(size_t), &lengths, diag);
  for (size_t i = 0; !status && i < count; i++) {
    ((const char **)names)[i] = module[i].name;
    ((size_t *)lengths)[i] = module[i].length;
  }
  value->skip = names;
  value->skip_length = lengths;
  value->skip_count = count;
  if (!status) status = splice(folder, value, diag);
  nabla_free(folder->allocator, names, count, sizeof(char *));
  nabla_free(folder->allocator, lengths, count, sizeof(size_t));
  return status;
}

static nabla_status remove_member(nabla_folder *folder, int is_loadable,
                                  const char *why, nabla_diag *diag) {
  if (!folder->parsed.has_member)
    return set(folder, NABLA_CONFIG_KEEP, is_loadable, "%s", why);
  NABLA_TRY(splice(folder, NULL, diag));
  return set(folder, NABLA_CONFIG_REMOVE, is_loadable, "%s", why);
}

/* Inserts the member, for a model whose packed tensors transformers can all
 * load with bitsandbytes. */
static nabla_status put_member(nabla_folder *folder, const survey *s,
                               nabla_diag *diag) {
  nabla_config_change *change = &folder->change;
  nabla_hf_value value = {
      .type = s->encoding->name,
      .compute_dtype = compute_dtype_of(&folder->parsed),
      .double_quant = s->double_quant,
      .has_skip = 1, /* otherwise transformers uses its own list */
  };
  nabla_diag why = NABLA_DIAG_INIT;
  const nabla_status status = splice_list(folder, &value, &why);
  if (status == NABLA_TOO_LARGE) { /* too long for any reader */
    folder->new_config.size = 0;
    return remove_member(
        folder, 0,
        "the list of dense modules is too long for " NABLA_HF_CONFIG_NAME,
        diag);
  }
  if (status) {
    if (diag) *diag = why;
    return status;
  }
  change->quant_type = value.type;
  change->compute_dtype = value.compute_dtype;
  change->double_quant = value.double_quant;
  change->has_skip = value.has_skip;
  change->skip_count = value.skip_count;
  return set(
      folder,
      folder->parsed.has_member ? NABLA_CONFIG_REPLACE : NABLA_CONFIG_INSERT, 1,
      "bitsandbytes %s, %zu module%s left dense", value.type, value.skip_count,
      value.skip_count == 1 ? "" : "s");
}

static int is_bitsandbytes(const nabla_hf_config *config) {
  const nabla_hf_quantization *q = &config->quantization;
  return !strcmp(q->method, "bitsandbytes") ||
         (!*q->method && (q->load_in_4bit || q->load_in_8bit));
}

static nabla_status decide_decoded(nabla_folder *folder, const survey *s,
                                   nabla_diag *diag) {
  const nabla_hf_config *config = &folder->parsed;
  if (!config->has_member)
    return set(folder, NABLA_CONFIG_KEEP, 1,
               "it has no " NABLA_HF_CONFIG_MEMBER);
  if (!s->packed_in)
    return set(folder, NABLA_CONFIG_KEEP, 1, "nothing is packed");
  if (!config->is_null && !is_bitsandbytes(config))
    return set(folder, NABLA_CONFIG_KEEP, 1,
               "its method '%s' is of tensors that are copied",
               config->quantization.method);
  return remove_member(folder, 1, "every packed tensor is decoded", diag);
}

static nabla_status decide_quantized(nabla_folder *folder, const survey *s,
                                     nabla_diag *diag) {
  const nabla_hf_config *config = &folder->parsed;
  const nabla_plan_totals totals = nabla_plan_get_totals(folder->plan);
  const int has_method = config->has_member && !config->is_null;
  if (!s->packed_newly && has_method)
    return set(folder, NABLA_CONFIG_KEEP, totals.layout != NABLA_LAYOUT_NABLA,
               "nothing is quantized");
  if (has_method && !is_bitsandbytes(config))
    return set(folder, NABLA_CONFIG_REFUSE, 0,
               "it says that the model is quantized by '%s' already, and "
               "nothing loads two methods",
               config->quantization.method);
  if (totals.layout == NABLA_LAYOUT_DENSE)
    return set(folder, NABLA_CONFIG_KEEP, 1, "nothing is packed");
  if (totals.layout == NABLA_LAYOUT_NABLA) {
    char why[200];
    snprintf(why, sizeof why, "the layout is Nabla's: %.150s",
             totals.layout_reason);
    return remove_member(folder, 0, why, diag);
  }
  if (!*s->objection) return put_member(folder, s, diag);
  folder->change.is_misread = s->encoding && s->encoding->bits == 8;
  return remove_member(folder, 0, s->objection, diag);
}

static nabla_status decide(nabla_folder *folder, survey *s, nabla_diag *diag) {
  int found;
  nabla_status status =
      nabla_hf_folder_config(folder->checkpoint, folder->os, &folder->config,
                             &folder->parsed, &found, diag);
  if (status == NABLA_CORRUPT || status == NABLA_TOO_LARGE)
    nabla_diag_set_next(diag,
                        "repair it, or name the model's index or file, not "
                        "the folder, to write weights alone");
  NABLA_TRY(status);
  if (!found)
    return set(folder, NABLA_CONFIG_NONE, 0,
               "there is no " NABLA_HF_CONFIG_NAME);
  NABLA_TRY(nabla_hf_survey_run(s, diag));
  const nabla_buffer skip = folder->skip; /* frees the old list with `s` */
  folder->skip = s->skip;
  s->skip = skip;
  return folder->plan ? decide_quantized(folder, s, diag)
                      : decide_decoded(folder, s, diag);
}

/* Marks config.json as a file that is edited. */
static void mark(nabla_folder *folder) {
  for (size_t i = 0; i < nabla_folder_count(folder); i++)
    if (!strcmp(nabla_folder_path_at(folder, i), NABLA_HF_CONFIG_NAME))
      ((nabla_folder_row *)(void *)folder->rows.data)[i].action =
          NABLA_FOLDER_EDIT;
}

nabla_status nabla_folder_decide(nabla_folder *folder, nabla_diag *diag) {
  survey s = {.allocator = folder->allocator,
              .checkpoint = folder->checkpoint,
              .plan = folder->plan,
              .config = &folder->parsed};
  nabla_hf_survey_init(&s);
  const nabla_status status = folder->has_config
                                  ? decide(folder, &s, diag)
                                  : set(folder, NABLA_CONFIG_NONE, 0,
                                        "there is no " NABLA_HF_CONFIG_NAME);
  nabla_hf_survey_deinit(&s);
  const nabla_config_action action = folder->change.action;
  if (!status &&
      (action == NABLA_CONFIG_INSERT || action == NABLA_CONFIG_REPLACE ||
       action == NABLA_CONFIG_REMOVE))
    mark(folder);
  return status;
}
