/* The survey of a planned model; see hf_survey.h. */
#include "quant/plan/hf_survey.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/file/os_call.h"
#include "lib/base/file/output_temporary.h"
#include "lib/base/sort.h"
#include "quant/plan/plan.h"

#define TAIL ".weight"

typedef nabla_hf_survey survey;

/* Sets the format of a packed tensor in the output; returns 0 if the tensor is
 * dense there, 1 also for a packed tensor that this version cannot read. */
static int format_of(const survey *s, size_t index, const nabla_tensor *tensor,
                     nabla_format *out) {
  const nabla_plan *plan = s->plan;
  *out = tensor->format;
  if (tensor->layout != NABLA_LAYOUT_DENSE) return 1;
  if (plan) *out = *nabla_plan_format(plan, index);
  return out->encoding != NULL;
}

static void object(survey *s, const nabla_tensor *tensor, const char *why) {
  if (!*s->objection)
    snprintf(s->objection, sizeof s->objection, "'%.100s' %s", tensor->name,
             why);
}

/* Finds MODULE in "MODULE.weight"; returns 0 for any other name. */
static int module_of(const nabla_tensor *tensor, nabla_module *out) {
  const size_t tail = sizeof TAIL - 1;
  if (tensor->rank != 2 || tensor->name_length <= tail) return 0;
  const size_t length = tensor->name_length - tail;
  if (memcmp(tensor->name + length, TAIL, tail) != 0) return 0;
  *out = (nabla_module){tensor->name, length};
  return 1;
}

/* Returns the reason of keep.def for the last part of the module's name, or
 * NULL. */
static const char *kind_of(const nabla_module *module) {
  const char *dot = memrchr(module->name, '.', module->length);
  const char *part = dot ? dot + 1 : module->name;
  return nabla_keep_reason_of_part(
      part, module->length - (size_t)(part - module->name));
}

static int is_kind(const char *kind, const char *wanted) {
  return kind && !strcmp(kind, wanted);
}

/* Returns why transformers does not unpack the packed module, or NULL if it
 * does. */
static const char *objection_to(const survey *s, const nabla_module *module,
                                const char *kind) {
  const nabla_architecture *row = s->config->architecture;
  if (is_kind(kind, "embedding"))
    return "is packed, but bitsandbytes leaves embeddings dense";
  if (nabla_architecture_replaces(row, module->name, module->length))
    return NULL;
  if (!nabla_architecture_keeps(row, module->name, module->length))
    return "is packed, but transformers does not replace that layer";
  return s->config->is_untied
             ? NULL
             : "is packed, but config.json does not say that it is not tied";
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
  const char *kind = kind_of(&module), *why = NULL;
  if (s->config->architecture) why = objection_to(s, &module, kind);
  if (why) object(s, tensor, why);
  return nabla_buffer_append(&s->packed, &module, sizeof module, diag);
}

static nabla_status survey_all(survey *s, nabla_diag *diag) {
  const nabla_checkpoint *checkpoint = s->checkpoint;
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
      NABLA_TRY(nabla_buffer_append(&s->skip, &module, sizeof module, diag));
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

/* Returns the module that follows `one` in the sorted list `all`, NULL if there
 * is none. */
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

/* Checks the list of modules. transformers (quantizers_utils.py,
 * should_convert_module) skips every module whose name begins or ends with one
 * on the list: with "m.gate" on it, some versions would also skip a packed
 * "m.gate_proj". */
static nabla_status check_list(survey *s, int reversed, nabla_diag *diag) {
  const void *order = reversed ? s : NULL;
  NABLA_TRY(nabla_sort(s->allocator, s->packed.data, modules(&s->packed),
                       sizeof(nabla_module), compare, order, diag));
  for (size_t i = 0; i < modules(&s->skip); i++) {
    const nabla_module *kept = module_at(&s->skip, i);
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

static int has_module(const nabla_buffer *list, const nabla_module *module) {
  for (size_t i = 0; i < modules(list); i++)
    if (!compare(module_at(list, i), module, NULL)) return 1;
  return 0;
}

/* Completes the list. A list turns off the default, which keeps layers dense
 * that share the embedding's weight and have no tensor of their own, so that
 * these must be on the list. */
static nabla_status finish_list(survey *s, nabla_diag *diag) {
  const char *at = s->config->architecture->kept;
  nabla_module kept;
  while ((kept.length = nabla_architecture_word(&at, &kept.name)))
    if (!has_module(&s->skip, &kept) && !has_module(&s->packed, &kept))
      NABLA_TRY(nabla_buffer_append(&s->skip, &kept, sizeof kept, diag));
  NABLA_TRY(nabla_sort(s->allocator, s->skip.data, modules(&s->skip),
                       sizeof(nabla_module), compare, NULL, diag));
  if (!*s->objection) NABLA_TRY(check_list(s, 0, diag));
  return *s->objection ? NABLA_OK : check_list(s, 1, diag);
}

/* Checks that config.json can hold the list, by an upper bound of its size. */
static void check_size(survey *s) {
  size_t size = s->config->size;
  for (size_t i = 0; i < modules(&s->skip); i++)
    size += 2 * module_at(&s->skip, i)->length + 32;
  if (size > NABLA_HF_CONFIG_MAX - 4096 && !*s->objection)
    snprintf(s->objection, sizeof s->objection,
             "the list of dense modules is too long for " NABLA_HF_CONFIG_NAME);
}

static void check_class(survey *s) {
  const nabla_hf_config *config = s->config;
  if (config->architecture || *s->objection) return;
  if (*config->class_name)
    snprintf(s->objection, sizeof s->objection,
             "%.60s is no class that was loaded with packed weights",
             config->class_name);
  else
    snprintf(s->objection, sizeof s->objection,
             NABLA_HF_CONFIG_NAME " does not name the model's class");
}

void nabla_hf_survey_init(survey *s) {
  nabla_buffer_init(&s->packed, s->allocator, "list of modules", SIZE_MAX / 2);
  nabla_buffer_init(&s->skip, s->allocator, "list of modules", SIZE_MAX / 2);
}

void nabla_hf_survey_deinit(survey *s) {
  nabla_buffer_deinit(&s->packed);
  nabla_buffer_deinit(&s->skip);
}

nabla_status nabla_hf_survey_run(survey *s, nabla_diag *diag) {
  NABLA_TRY(survey_all(s, diag));
  if (!s->plan) return NABLA_OK;
  check_class(s);
  if (s->config->architecture && !*s->objection)
    NABLA_TRY(finish_list(s, diag));
  check_size(s);
  return NABLA_OK;
}

nabla_status nabla_hf_folder_config(const nabla_checkpoint *checkpoint,
                                    const nabla_os *os, nabla_buffer *text,
                                    nabla_hf_config *out, int *out_found,
                                    nabla_diag *diag) {
  const char *folder = nabla_checkpoint_borrow_path(checkpoint);
  char path[NABLA_PATH_SIZE];
  nabla_os_info info;
  int error;
  *out_found = 0;
  NABLA_OS_RETRY(error, os->path_info(os->self, folder, 1, &info));
  if (error < 0)
    return nabla_os_fail(os, NULL, folder, "look at it", error, diag);
  if (!info.is_folder || !nabla_place_join(path, folder, NABLA_HF_CONFIG_NAME))
    return NABLA_OK;
  NABLA_OS_RETRY(error, os->path_info(os->self, path, 1, &info));
  if (error == -ENOENT || (error >= 0 && !info.is_file)) return NABLA_OK;
  *out_found = 1;
  return nabla_hf_config_load(os, path, text, out, diag);
}
