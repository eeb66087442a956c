/* Decides which tensors are quantized, and gives the reason for each. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "quant/plan/plan.h"

typedef enum keep_how { KEEP_IS, KEEP_HAS, KEEP_ALL } keep_how;

static const struct {
  keep_how how;
  const char *text, *why;
} keeps[] = {
#define KEEP(how, text, why) {KEEP_##how, text, why},
#include "quant/plan/keep.def"
#undef KEEP
};

/* Whether `part`, a piece of a name of `size` bytes, equals `text` (KEEP_IS) or
 * contains it (KEEP_HAS). */
static int part_matches(const char *part, size_t size, keep_how how,
                        const char *text) {
  const size_t length = strlen(text);
  if (how == KEEP_IS) return size == length && !memcmp(part, text, length);
  return memmem(part, size, text, length) != NULL;
}

const char *nabla_keep_reason_of_part(const char *part, size_t size) {
  for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++)
    if (keeps[i].how != KEEP_ALL &&
        part_matches(part, size, keeps[i].how, keeps[i].text))
      return keeps[i].why;
  return NULL;
}

static int row_matches(const nabla_tensor *tensor, size_t row) {
  const char *name = tensor->name, *text = keeps[row].text;
  if (keeps[row].how == KEEP_ALL) {
    const size_t length = strlen(text);
    return !strncmp(name, text, length) && !strcmp(name + length, ".weight");
  }
  while (*name) {
    const size_t size = strcspn(name, ".");
    if (part_matches(name, size, keeps[row].how, text)) return 1;
    name += size + (name[size] == '.');
  }
  return 0;
}

static int kept_by_default(const nabla_tensor *tensor, uint32_t *out_row) {
  for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++) {
    if (!row_matches(tensor, i)) continue;
    *out_row = (uint32_t)i;
    return 1;
  }
  return 0;
}

/* Whether transformers leaves MODULE, the layer of the tensor "MODULE.weight",
 * dense in this architecture, so that it could not unpack the tensor. */
static int kept_by_architecture(const nabla_plan *plan,
                                const nabla_tensor *tensor) {
  static const char tail[] = ".weight";
  const size_t size = sizeof tail - 1;
  return plan->architecture &&
         (tensor->rank != 2 || tensor->name_length <= size ||
          memcmp(tensor->name + tensor->name_length - size, tail, size) != 0 ||
          !nabla_architecture_replaces(plan->architecture, tensor->name,
                                       tensor->name_length - size));
}

static int ends_in_weight(const nabla_tensor *tensor) {
  static const char tail[] = "weight";
  const size_t size = sizeof tail - 1;
  return tensor->name_length >= size &&
         !memcmp(tensor->name + tensor->name_length - size, tail, size);
}

static void keep(nabla_decision *out, nabla_reason reason, size_t detail) {
  *out =
      (nabla_decision){.reason = (uint8_t)reason, .detail = (uint32_t)detail};
}

/* Keeps tensors that no option or rule can quantize. */
static int cannot(const nabla_tensor *tensor, nabla_decision *out) {
  if (!nabla_dtype_is_float(tensor->dtype))
    keep(out, NABLA_REASON_DTYPE, 0);
  else if (tensor->elements == 0)
    keep(out, NABLA_REASON_EMPTY, 0);
  else if (tensor->rank == 0)
    keep(out, NABLA_REASON_RANK, 0);
  else
    return 0;
  return 1;
}

static void by_rule(const nabla_plan *plan, const nabla_tensor *tensor,
                    size_t rule, nabla_decision *out,
                    nabla_format *out_format) {
  const nabla_encoding *encoding = plan->rule[rule].encoding;
  if (encoding && cannot(tensor, out)) return;
  keep(out, NABLA_REASON_RULE, rule);
  if (!encoding) return;
  const nabla_settings settings =
      nabla_settings_of_rule(plan, &plan->rule[rule]);
  *out_format = nabla_settings_format(plan, tensor, encoding, &settings);
  out->search = settings.search != 0;
}

nabla_status nabla_plan_decide(const nabla_plan *plan,
                               const nabla_tensor *tensor, nabla_decision *out,
                               nabla_format *out_format, nabla_diag *diag) {
  size_t match;
  uint32_t row = 0;
  *out_format = (nabla_format){0};
  if (tensor->layout != NABLA_LAYOUT_DENSE) {
    keep(out, NABLA_REASON_PACKED, 0);
    return NABLA_OK;
  }
  NABLA_TRY(nabla_patterns_match(plan->skip, tensor->name, &match, diag));
  if (match != SIZE_MAX) {
    keep(out, NABLA_REASON_SKIP, match);
    return NABLA_OK;
  }
  NABLA_TRY(nabla_patterns_match(plan->only, tensor->name, &match, diag));
  if (match == SIZE_MAX && nabla_patterns_count(plan->only)) {
    keep(out, NABLA_REASON_ONLY, 0);
    return NABLA_OK;
  }
  NABLA_TRY(nabla_patterns_match(plan->rules, tensor->name, &match, diag));
  if (match != SIZE_MAX)
    by_rule(plan, tensor, match, out, out_format);
  else if (!plan->encoding)
    keep(out, NABLA_REASON_NONE, 0);
  else if (cannot(tensor, out))
    return NABLA_OK;
  else if (tensor->rank < 2)
    keep(out, NABLA_REASON_RANK, 0);
  else if (!ends_in_weight(tensor))
    keep(out, NABLA_REASON_NAME, 0);
  else if (kept_by_default(tensor, &row))
    keep(out, NABLA_REASON_KEEP, row);
  else if (kept_by_architecture(plan, tensor))
    keep(out, NABLA_REASON_ARCHITECTURE, 0);
  else {
    keep(out, NABLA_REASON_DEFAULT, 0);
    *out_format =
        nabla_settings_format(plan, tensor, plan->encoding, &plan->settings);
    out->search = plan->settings.search != 0;
  }
  return NABLA_OK;
}

static void explain_rule(const nabla_plan *plan, const nabla_decision *decision,
                         char *out, size_t size) {
  snprintf(out, size, "rule %u '%.80s'", decision->detail + 1,
           nabla_patterns_text(plan->rules, decision->detail));
}

/* Copies a fixed text. snprintf takes many times as long, and a model may have
 * millions of tensors. */
static void say(const char *text, char *out, size_t size) {
  size_t length = strlen(text);
  if (length >= size) length = size - 1;
  memcpy(out, text, length);
  out[length] = '\0';
}

void nabla_decision_explain(const nabla_plan *plan, const nabla_tensor *tensor,
                            const nabla_decision *decision, char *out,
                            size_t size) {
  const uint32_t detail = decision->detail;
  switch ((nabla_reason)decision->reason) {
    case NABLA_REASON_DEFAULT:
      say("default", out, size);
      return;
    case NABLA_REASON_RULE:
      explain_rule(plan, decision, out, size);
      return;
    case NABLA_REASON_PACKED:
      snprintf(out, size, "already packed (%s)",
               tensor->format.encoding ? tensor->format.encoding->name
                                       : "unknown encoding");
      return;
    case NABLA_REASON_SKIP:
      snprintf(out, size, "skipped by '%.80s'",
               nabla_patterns_text(plan->skip, detail));
      return;
    case NABLA_REASON_ONLY:
      say("not among those asked for", out, size);
      return;
    case NABLA_REASON_NONE:
      say("no encoding asked for", out, size);
      return;
    case NABLA_REASON_DTYPE:
      snprintf(out, size, "%s is not a type that is quantized",
               nabla_dtype_name(tensor->dtype));
      return;
    case NABLA_REASON_EMPTY:
      say("no elements", out, size);
      return;
    case NABLA_REASON_RANK:
      snprintf(out, size, "rank %" PRIu32 ", not a matrix", tensor->rank);
      return;
    case NABLA_REASON_NAME:
      say("name does not end in weight", out, size);
      return;
    case NABLA_REASON_KEEP:
      say(keeps[detail].why, out, size);
      return;
    case NABLA_REASON_ARCHITECTURE:
      snprintf(out, size, "dense in %.60s", plan->config.class_name);
      return;
    case NABLA_REASON_GROWS:
      say("would be larger when packed", out, size);
      return;
    case NABLA_REASON_NONFINITE:
      snprintf(out, size, "NaN, infinite or too large at index %" PRIu64,
               decision->index);
      return;
  }
}
