/* What config.json will say of the written model: whether transformers can
 * load it with bitsandbytes, and with which quantization_config. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/place.h"
#include "lib/base/sort.h"
#include "quant/folder.h"
#include "quant/plan.h"

#define TAIL    ".weight"
#define LM_HEAD "lm_head"

/* What the written model holds. */
typedef struct survey {
  nabla_folder *folder;
  nabla_buffer packed;            /* of nabla_module                        */
  size_t packed_in, packed_newly; /* tensors                                */
  const nabla_encoding *encoding; /* of the first packed tensor             */
  int double_quant;
  int has_packed_head, has_lm_head;
  char objection[200]; /* why transformers cannot load it, or ""       */
} survey;

/* How a packed tensor stands in the output; encoding NULL: it is dense. A
 * packed one that this version cannot read has an encoding of its own. */
static int format_of(const survey *s, size_t index, const nabla_tensor *tensor,
                     nabla_format *out) {
  const nabla_plan *plan = s->folder->plan;
  *out = tensor->format;
  if (tensor->layout != NABLA_LAYOUT_DENSE) return 1;
  if (plan) *out = plan->decisions[index].format;
  return out->encoding != NULL;
}

static void object(survey *s, const nabla_tensor *tensor, const char *why) {
  if (!*s->objection)
    snprintf(s->objection, sizeof s->objection, "'%.100s' %s", tensor->name,
             why);
}

/* The module of "MODULE.weight"; 0 when the name is another. */
static int module_of(const nabla_tensor *tensor, nabla_module *out) {
  const size_t tail = sizeof TAIL - 1;
  if (tensor->rank != 2 || tensor->name_length <= tail) return 0;
  const size_t length = tensor->name_length - tail;
  if (memcmp(tensor->name + length, TAIL, tail) != 0) return 0;
  *out = (nabla_module){tensor->name, length};
  return 1;
}

/* What the last part of the module's name says of it; NULL: nothing. */
static const char *kind_of(const nabla_module *module) {
  const char *dot = memrchr(module->name, '.', module->length);
  const char *part = dot ? dot + 1 : module->name;
  return nabla_keep_reason_of_part(
      part, module->length - (size_t)(part - module->name));
}

static int is_kind(const char *kind, const char *wanted) {
  return kind && !strcmp(kind, wanted);
}

static int is_lm_head(const nabla_module *module) {
  const size_t size = sizeof LM_HEAD - 1;
  return module->length >= size &&
         !memcmp(module->name + module->length - size, LM_HEAD, size);
}

/* Models whose matrices are transformers' Conv1D: stored transposed, which the
 * loader of packed weights does not expect. */
static int is_transposed(const char *model_type) {
  static const char *const types[] = {"gpt2", "openai-gpt", "imagegpt",
                                      "decision_transformer", "clvp"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(model_type, types[i])) return 1;
  return 0;
}

/* Whether "experts.NUMBER." is in the name: transformers 5 loads all experts
 * of a layer as one tensor, which bitsandbytes does not pack. */
static int is_expert(const nabla_module *module) {
  static const char part[] = "experts.";
  const char *end = module->name + module->length;
  const char *at = module->name;
  while ((at = memmem(at, (size_t)(end - at), part, sizeof part - 1))) {
    const int starts = at == module->name || at[-1] == '.';
    at += sizeof part - 1;
    if (starts && at < end && *at >= '0' && *at <= '9') return 1;
  }
  return 0;
}

static nabla_status take_packed(survey *s, const nabla_tensor *tensor,
                                const nabla_format *format, nabla_diag *diag) {
  nabla_module module;
  if (!format->encoding) {
    object(s, tensor, "has an encoding that this version does not know");
    return NABLA_OK;
  }
  if (!s->encoding) s->encoding = format->encoding;
  s->double_quant |= format->scale == NABLA_SCALE_DYNAMIC8;
  if (format->encoding != s->encoding)
    object(s, tensor, "has another encoding than the rest");
  if (!module_of(tensor, &module)) {
    object(s, tensor, "is packed, but no matrix whose name ends in " TAIL);
    return NABLA_OK;
  }
  const char *kind = kind_of(&module);
  if (is_kind(kind, "embedding"))
    object(s, tensor, "is packed, but bitsandbytes leaves embeddings dense");
  if (is_expert(&module))
    object(s, tensor,
           "is packed, but transformers keeps experts in one tensor");
  s->has_packed_head |= is_kind(kind, "output head");
  s->has_lm_head |= is_lm_head(&module);
  return nabla_buffer_append(&s->packed, &module, sizeof module, diag);
}

static nabla_status survey_all(survey *s, nabla_diag *diag) {
  nabla_folder *folder = s->folder;
  const nabla_checkpoint *checkpoint = folder->checkpoint;
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint); i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    nabla_format format;
    nabla_module module;
    const int was_packed = tensor.layout != NABLA_LAYOUT_DENSE;
    s->packed_in += (size_t)was_packed;
    if (format_of(s, i, &tensor, &format)) {
      s->packed_newly += (size_t)!was_packed;
      NABLA_TRY(take_packed(s, &tensor, &format, diag));
    } else if (module_of(&tensor, &module)) {
      s->has_lm_head |=
          module.length == sizeof LM_HEAD - 1 && is_lm_head(&module);
      NABLA_TRY(
          nabla_buffer_append(&folder->skip, &module, sizeof module, diag));
    }
  }
  return NABLA_OK;
}

/* ---- the list of modules ------------------------------------------------ */

static size_t modules(const nabla_buffer *buffer) {
  return buffer->size / sizeof(nabla_module);
}

static const nabla_module *module_at(const nabla_buffer *buffer, size_t index) {
  return (const nabla_module *)(const void *)buffer->data + index;
}

/* Compares forwards, or from the last byte on when `context` is not NULL. */
static int compare(const void *a, const void *b, const void *context) {
  const nabla_module *x = a, *y = b;
  const size_t size = x->length < y->length ? x->length : y->length;
  if (!context) {
    const int order = memcmp(x->name, y->name, size);
    if (order) return order;
  }
  for (size_t i = 1; context && i <= size; i++) {
    const unsigned char p = (unsigned char)x->name[x->length - i];
    const unsigned char q = (unsigned char)y->name[y->length - i];
    if (p != q) return p < q ? -1 : 1;
  }
  return x->length == y->length ? 0 : x->length < y->length ? -1 : 1;
}

/* The first module of the sorted `all` behind `one`; NULL: there is none. */
static const nabla_module *next_after(const nabla_buffer *all,
                                      const nabla_module *one, int reversed) {
  size_t low = 0, high = modules(all);
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (compare(module_at(all, middle), one, reversed ? all : NULL) <= 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low < modules(all) ? module_at(all, low) : NULL;
}

/* transformers (quantizers_utils.py, should_convert_module) leaves out every
 * module whose name begins or ends with one that is listed: listing "m.gate"
 * would also leave out a packed "m.gate_proj". */
static nabla_status check_list(survey *s, int reversed, nabla_diag *diag) {
  nabla_folder *folder = s->folder;
  const void *order = reversed ? s : NULL;
  NABLA_TRY(nabla_sort(folder->allocator, s->packed.data, modules(&s->packed),
                       sizeof(nabla_module), compare, order, diag));
  for (size_t i = 0; i < modules(&folder->skip); i++) {
    const nabla_module *kept = module_at(&folder->skip, i);
    const nabla_module *packed = next_after(&s->packed, kept, reversed);
    if (!packed || packed->length < kept->length) continue;
    const char *end = packed->name + packed->length - kept->length;
    if (memcmp(reversed ? end : packed->name, kept->name, kept->length) != 0)
      continue;
    snprintf(s->objection, sizeof s->objection,
             "leaving '%.*s' dense would leave '%.*s' dense too",
             kept->length < 70 ? (int)kept->length : 70, kept->name,
             packed->length < 70 ? (int)packed->length : 70, packed->name);
    return NABLA_OK;
  }
  return NABLA_OK;
}

/* A list turns off the default, which keeps an output head dense that shares
 * the embedding's weight and has no tensor of its own, or has one of another
 * name ("language_model.lm_head"): it is named then. */
static nabla_status finish_list(survey *s, nabla_diag *diag) {
  static const nabla_module head = {LM_HEAD, sizeof LM_HEAD - 1};
  nabla_buffer *skip = &s->folder->skip;
  if (modules(skip) && !s->has_lm_head)
    NABLA_TRY(nabla_buffer_append(skip, &head, sizeof head, diag));
  NABLA_TRY(nabla_sort(s->folder->allocator, skip->data, modules(skip),
                       sizeof(nabla_module), compare, NULL, diag));
  if (!*s->objection) NABLA_TRY(check_list(s, 0, diag));
  return *s->objection ? NABLA_OK : check_list(s, 1, diag);
}

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

/* The new text of config.json, with the member or without it. */
static nabla_status splice(nabla_folder *folder, const nabla_hf_value *value,
                           nabla_diag *diag) {
  return nabla_hf_config_splice(folder->config.data, folder->config.size,
                                &folder->parsed, value, &folder->new_config,
                                diag);
}

/* Borrowed names as the splice wants them. */
static nabla_status splice_list(nabla_folder *folder, nabla_hf_value *value,
                                nabla_diag *diag) {
  const size_t count = modules(&folder->skip);
  void *names = NULL, *lengths = NULL;
  NABLA_TRY(
      nabla_alloc(folder->allocator, count, sizeof(char *), &names, diag));
  nabla_status status =
      nabla_alloc(folder->allocator, count, sizeof(size_t), &lengths, diag);
  for (size_t i = 0; !status && i < count; i++) {
    ((const char **)names)[i] = module_at(&folder->skip, i)->name;
    ((size_t *)lengths)[i] = module_at(&folder->skip, i)->length;
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

/* Everything packed is what transformers can load with bitsandbytes. */
static nabla_status put_member(const survey *s, nabla_diag *diag) {
  nabla_folder *folder = s->folder;
  nabla_config_change *change = &folder->change;
  nabla_hf_value value = {
      .type = s->encoding->name,
      .compute_dtype = compute_dtype_of(&folder->parsed),
      .double_quant = s->double_quant,
      .has_skip = modules(&folder->skip) > 0 || s->has_packed_head,
  };
  nabla_diag why = NABLA_DIAG_INIT;
  const nabla_status status = splice_list(folder, &value, &why);
  if (status == NABLA_TOO_LARGE) { /* nobody can hold it, nor do we read it */
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

static nabla_status decide_decoded(const survey *s, nabla_diag *diag) {
  nabla_folder *folder = s->folder;
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

static nabla_status decide_quantized(survey *s, nabla_diag *diag) {
  nabla_folder *folder = s->folder;
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
  if (is_transposed(config->model_type))
    snprintf(s->objection, sizeof s->objection,
             "it stores the matrices of a '%s' transposed", config->model_type);
  if (!*s->objection) NABLA_TRY(finish_list(s, diag));
  if (*s->objection) return remove_member(folder, 0, s->objection, diag);
  return put_member(s, diag);
}

static nabla_status decide(survey *s, nabla_diag *diag) {
  nabla_folder *folder = s->folder;
  char path[NABLA_PATH_SIZE];
  if (!folder->has_config)
    return set(folder, NABLA_CONFIG_NONE, 0,
               "there is no " NABLA_HF_CONFIG_NAME);
  if (!nabla_place_join(path, nabla_checkpoint_borrow_path(folder->checkpoint),
                        NABLA_HF_CONFIG_NAME))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the path is too long");
  nabla_status status = nabla_hf_config_load(folder->os, path, &folder->config,
                                             &folder->parsed, diag);
  if (status == NABLA_CORRUPT || status == NABLA_TOO_LARGE)
    nabla_diag_set_next(diag,
                        "repair it, or name the model's index or file, not "
                        "the folder, to write weights alone");
  NABLA_TRY(status);
  NABLA_TRY(survey_all(s, diag));
  return folder->plan ? decide_quantized(s, diag) : decide_decoded(s, diag);
}

/* The row of config.json is to be edited. */
static void mark(nabla_folder *folder) {
  for (size_t i = 0; i < nabla_folder_count(folder); i++)
    if (!strcmp(nabla_folder_path_at(folder, i), NABLA_HF_CONFIG_NAME))
      ((nabla_folder_row *)(void *)folder->rows.data)[i].action =
          NABLA_FOLDER_EDIT;
}

nabla_status nabla_folder_decide(nabla_folder *folder, nabla_diag *diag) {
  survey s = {.folder = folder};
  nabla_buffer_init(&s.packed, folder->allocator, "list of modules",
                    SIZE_MAX / 2);
  nabla_status status = decide(&s, diag);
  nabla_buffer_deinit(&s.packed);
  const nabla_config_action action = folder->change.action;
  if (!status &&
      (action == NABLA_CONFIG_INSERT || action == NABLA_CONFIG_REPLACE ||
       action == NABLA_CONFIG_REMOVE))
    mark(folder);
  return status;
}
