/* Makes a plan: options, one decision per tensor, the layout, the sizes. */
#include "quant/plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "quant/codec/codec.h"
#include "quant/formats/checkpoint_internal.h"
#include "quant/formats/packed.h"
#include "quant/plan/hf_survey.h"

/* Upper bound on the bytes that describe a packed weight, names included. */
#define NABLA_GROWS_BELOW ((uint64_t)64 << 10)

/* Approximate bytes of a tensor's entry in the header, without its name. */
enum { ENTRY_BYTES = 72 };

/* Bytes of the formats of all tensors. */
#define FORMATS_LIMIT ((size_t)UINT32_MAX * sizeof(nabla_format))

static nabla_status take_rules(nabla_plan *plan,
                               const nabla_quantize_options *options,
                               nabla_diag *diag) {
  const char *texts[NABLA_MAX_PATTERNS];
  void *block;
  if (options->rule_count > NABLA_MAX_PATTERNS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%zu rules, at most %u are allowed", options->rule_count,
                      NABLA_MAX_PATTERNS);
  NABLA_TRY(nabla_alloc(plan->allocator, NABLA_MAX_PATTERNS, sizeof *plan->rule,
                        &block, diag));
  plan->rule = block;
  for (size_t i = 0; i < options->rule_count; i++) {
    const nabla_quantize_rule *rule = &options->rules[i];
    NABLA_TRY(
        nabla_settings_check(&rule->settings, rule->encoding, "rule", diag));
    texts[i] = rule->pattern;
    plan->rule[i] = *rule;
    plan->rule[i].pattern = NULL; /* the caller's */
  }
  return nabla_patterns_create(plan->allocator, "rule", texts,
                               options->rule_count, &plan->rules, diag);
}

static nabla_status take_options(nabla_plan *plan,
                                 const nabla_quantize_options *options,
                                 nabla_diag *diag) {
  plan->encoding = options->encoding;
  plan->settings = options->settings;
  plan->importance = options->importance;
  plan->choice = options->layout;
  plan->nonfinite = options->nonfinite;
  plan->isa = options->isa;
  NABLA_TRY(nabla_settings_check(&options->settings, options->encoding, "block",
                                 diag));
  if (!nabla_isa_available(options->isa))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "this CPU or this build cannot run %s code",
                      nabla_isa_name(options->isa));
  NABLA_TRY(nabla_patterns_create(plan->allocator, "only", options->only,
                                  options->only_count, &plan->only, diag));
  NABLA_TRY(nabla_patterns_create(plan->allocator, "skip", options->skip,
                                  options->skip_count, &plan->skip, diag));
  NABLA_TRY(take_rules(plan, options, diag));
  int searches = options->settings.search;
  for (size_t i = 0; i < options->rule_count; i++)
    searches |= options->rules[i].settings.search;
  if (!options->importance || searches) return NABLA_OK;
  nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                   "an importance is given, but no search");
  nabla_diag_set_next(diag, "ask for the search too, or leave it out");
  return status;
}

/* Facts about a plan's tensors that decide on the bitsandbytes layout. */
typedef struct survey {
  const char *objection;
  nabla_tensor tensor; /* the first tensor with this objection */
  int narrow, wide;    /* 4-bit and 8-bit tensors seen  */
  int new_wide;        /* 8-bit tensors among those to be packed */
  int ours;            /* the input already has weights in the Nabla layout */
  size_t packed;
} survey;

static survey look(const nabla_plan *plan) {
  survey s = {0};
  for (size_t i = 0; i < plan->count; i++) {
    const int was_packed = nabla_checkpoint_is_packed(plan->checkpoint, i);
    if (!was_packed && !plan->decisions[i].format) continue;
    const nabla_tensor tensor = nabla_checkpoint_tensor(plan->checkpoint, i);
    const nabla_format *format =
        was_packed ? &tensor.format : nabla_plan_format(plan, i);
    if (was_packed) s.packed++;
    if (tensor.layout == NABLA_LAYOUT_NABLA) s.ours = 1;
    if (!format->encoding) continue;
    if (!was_packed) s.packed++;
    if (format->encoding->bits == 4)
      s.narrow = 1;
    else
      s.wide = 1, s.new_wide |= !was_packed;
    const char *why = was_packed
                          ? NULL
                          : nabla_layout_objection(NABLA_LAYOUT_BITSANDBYTES,
                                                   &tensor, format);
    if (why && !s.objection) s.objection = why, s.tensor = tensor;
  }
  return s;
}

static nabla_status refuse_layout(const nabla_plan *plan, const survey *s,
                                  const char *why, nabla_diag *diag) {
  nabla_status status =
      nabla_fail(diag, NABLA_UNSUPPORTED,
                 "the bitsandbytes layout cannot hold this: %s", why);
  nabla_diag_set_next(diag,
                      "choose the layout nabla or auto, or keep the tensor");
  return s->objection ? nabla_checkpoint_blame(plan->checkpoint, &s->tensor,
                                               status, diag)
                      : status;
}

/* Writes to `out` why transformers cannot load the folder with bitsandbytes, or
 * "". */
static nabla_status ask_transformers(const nabla_plan *plan, char *out,
                                     size_t size, nabla_diag *diag) {
  nabla_hf_survey found = {.allocator = plan->allocator,
                           .checkpoint = plan->checkpoint,
                           .plan = plan,
                           .config = &plan->config};
  nabla_hf_survey_init(&found);
  const nabla_status status = nabla_hf_survey_run(&found, diag);
  snprintf(out, size, "%.159s", found.packed_newly ? found.objection : "");
  nabla_hf_survey_deinit(&found);
  return status;
}

/* Writes to `out` why the bitsandbytes layout is not the default, or "". It is
 * the default if a reader learns the layout from config.json or, for 4 bits,
 * from the tensors themselves. */
static nabla_status default_objection(const nabla_plan *plan, const survey *s,
                                      char *out, size_t size,
                                      nabla_diag *diag) {
  *out = '\0';
  if (plan->has_config) return ask_transformers(plan, out, size, diag);
  if (s->new_wide)
    snprintf(out, size,
             "no " NABLA_HF_CONFIG_NAME
             " would say that it is "
             "LLM.int8");
  return NABLA_OK;
}

/* Describes why the layout is Nabla's; a long reason is truncated. */
static void explain_layout(nabla_plan_totals *totals, const char *why,
                           const char *tensor) {
  int wrote = snprintf(totals->layout_reason, sizeof totals->layout_reason,
                       "%s%s%.60s%s", why, tensor ? " ('" : "",
                       tensor ? tensor : "", tensor ? "')" : "");
  if (wrote < 0) totals->layout_reason[0] = '\0';
}

/* Chooses the layout. A file labelled bitsandbytes contains only tensors that
 * bitsandbytes loads (F2): one that it cannot load makes the layout of the
 * whole output Nabla's. */
static nabla_status choose_layout(nabla_plan *plan, nabla_diag *diag) {
  nabla_plan_totals *totals = &plan->totals;
  const survey s = look(plan);
  const char *why = s.objection ? s.objection
                    : s.ours    ? "the input has tensors in the Nabla layout"
                    : s.narrow && s.wide
                        ? "bitsandbytes loads 4-bit or 8-bit weights, not both"
                        : NULL;
  if (plan->choice == NABLA_CHOOSE_BITSANDBYTES && why)
    return refuse_layout(plan, &s, why, diag);
  char theirs[160] = "";
  if (plan->choice == NABLA_CHOOSE_AUTO && !why)
    NABLA_TRY(default_objection(plan, &s, theirs, sizeof theirs, diag));
  if (*theirs) why = theirs;
  if (!s.packed) {
    totals->layout = NABLA_LAYOUT_DENSE;
    snprintf(totals->layout_reason, sizeof totals->layout_reason,
             "nothing is packed");
  } else if (plan->choice == NABLA_CHOOSE_NABLA || why) {
    totals->layout = NABLA_LAYOUT_NABLA;
    explain_layout(
        totals, plan->choice == NABLA_CHOOSE_NABLA ? "asked for" : why,
        plan->choice != NABLA_CHOOSE_NABLA && s.objection ? s.tensor.name
                                                          : NULL);
  } else {
    totals->layout = NABLA_LAYOUT_BITSANDBYTES;
    snprintf(totals->layout_reason, sizeof totals->layout_reason,
             plan->choice == NABLA_CHOOSE_AUTO ? "it can hold every tensor"
                                               : "asked for");
  }
  return NABLA_OK;
}

/* Refuses I8 codes at "P.weight" beside a tensor "P.SCB": every reader would
 * take them for LLM.int8 (I1), whatever else describes them. */
static nabla_status check_readable(const nabla_plan *plan,
                                   const nabla_tensor *tensor,
                                   const nabla_format *format,
                                   nabla_diag *diag) {
  const size_t tail = strlen(NABLA_SUFFIX_WEIGHT);
  char name[NABLA_TENSOR_FILE_MAX_NAME + sizeof NABLA_SUFFIX_SCB];
  nabla_part part;
  if (plan->totals.layout != NABLA_LAYOUT_NABLA ||
      !nabla_encoding_is_int8(format->encoding) || tensor->name_length < tail)
    return NABLA_OK;
  const size_t stem = tensor->name_length - tail;
  memcpy(name, tensor->name, stem);
  memcpy(name + stem, NABLA_SUFFIX_SCB, sizeof NABLA_SUFFIX_SCB);
  if ((stem && name[stem - 1] != '.') ||
      memcmp(tensor->name + stem, NABLA_SUFFIX_WEIGHT, tail) ||
      !nabla_checkpoint_find_entry(plan->checkpoint, tensor->data.shard, name,
                                   stem + strlen(NABLA_SUFFIX_SCB), &part))
    return NABLA_OK;
  nabla_status status = nabla_fail(
      diag, NABLA_UNSUPPORTED,
      "readers would take '%.100s' for its scales as LLM.int8", name);
  nabla_diag_set_next(diag, "keep it, or choose another encoding for it");
  return status;
}

/* Refuses a component whose name an existing tensor has. */
static nabla_status check_names(const nabla_plan *plan,
                                const nabla_tensor *tensor,
                                const nabla_components *parts,
                                nabla_diag *diag) {
  for (size_t i = 0; i < parts->count; i++) {
    char name[NABLA_TENSOR_FILE_MAX_NAME + 64];
    nabla_part there;
    const nabla_component *part = &parts->item[i];
    const size_t tail = strlen(part->suffix);
    memcpy(name, tensor->name, part->stem);
    memcpy(name + part->stem, part->suffix, tail + 1);
    if (part->kind == NABLA_COMPONENT_CODES ||
        !nabla_checkpoint_find_entry(plan->checkpoint, tensor->data.shard, name,
                                     part->stem + tail, &there))
      continue;
    nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED,
                   "the model has a tensor '%.100s' already, which is what a "
                   "companion would be called",
                   name);
    nabla_diag_set_next(diag, "keep the tensor, or choose another layout");
    return status;
  }
  return NABLA_OK;
}

/* Finds the importance of a weight that is searched, and checks its dtype and
 * shape. */
static nabla_status find_importance(const nabla_plan *plan,
                                    const nabla_tensor *tensor,
                                    nabla_decision *decision,
                                    nabla_diag *diag) {
  decision->importance = SIZE_MAX;
  if (!plan->importance || !decision->search) return NABLA_OK;
  const size_t index = nabla_checkpoint_find(plan->importance, tensor->name,
                                             tensor->name_length);
  if (index == SIZE_MAX) return NABLA_OK;
  const nabla_tensor found = nabla_checkpoint_tensor(plan->importance, index);
  const uint64_t columns = tensor->shape[tensor->rank - 1];
  decision->importance = index;
  if (found.layout == NABLA_LAYOUT_DENSE && found.dtype == NABLA_DTYPE_F32 &&
      found.rank == 1 && found.elements == columns)
    return NABLA_OK;
  nabla_status status = nabla_fail(
      diag, NABLA_INVALID_ARGUMENT,
      "an importance of %s, rank %" PRIu32 " and %" PRIu64
      " elements; the weight needs F32, rank 1 and %" PRIu64,
      nabla_dtype_name(found.dtype), found.rank, found.elements, columns);
  nabla_diag_set_next(diag, "make one number per column of the weight");
  return nabla_checkpoint_blame(plan->importance, &found, status, diag);
}

static nabla_status measure(const nabla_plan *plan, const nabla_tensor *tensor,
                            nabla_decision *decision, nabla_diag *diag) {
  nabla_components parts;
  const nabla_format *format =
      nabla_plan_format(plan, (size_t)(decision - plan->decisions));
  NABLA_TRY(check_readable(plan, tensor, format, diag));
  NABLA_TRY(
      nabla_components_of(tensor, format, plan->totals.layout, &parts, diag));
  NABLA_TRY(check_names(plan, tensor, &parts, diag));
  decision->bytes_out = 0;
  for (size_t i = 0; i < parts.count; i++)
    if (!nabla_add_u64(decision->bytes_out, parts.item[i].bytes,
                       &decision->bytes_out))
      return nabla_fail(diag, NABLA_TOO_LARGE, "its packed size overflows");
  return NABLA_OK;
}

/* Returns the bytes of a weight in the file, with all tensors that describe it.
 */
static nabla_status packed_bytes(const nabla_plan *plan,
                                 const nabla_tensor *tensor,
                                 const nabla_format *format, uint64_t *out,
                                 nabla_diag *diag) {
  nabla_components parts;
  *out = 0;
  NABLA_TRY(
      nabla_components_of(tensor, format, plan->totals.layout, &parts, diag));
  for (size_t i = 0; i < parts.count; i++) {
    const nabla_component *part = &parts.item[i];
    const uint64_t entry =
        part->stem + strlen(part->suffix) + (uint64_t)ENTRY_BYTES;
    if (!nabla_add_u64(*out, part->bytes, out) ||
        !nabla_add_u64(*out, entry, out))
      return nabla_fail(diag, NABLA_TOO_LARGE, "its packed size overflows");
  }
  return NABLA_OK;
}

/* Keeps small tensors that packing would make larger, unless a rule names
 * them. @param out_kept  how many there were */
static nabla_status keep_growing(nabla_plan *plan, size_t *out_kept,
                                 nabla_diag *diag) {
  *out_kept = 0;
  for (size_t i = 0; i < plan->count; i++) {
    nabla_decision *decision = &plan->decisions[i];
    if (!decision->format || decision->reason != NABLA_REASON_DEFAULT) continue;
    const nabla_tensor tensor = nabla_checkpoint_tensor(plan->checkpoint, i);
    uint64_t bytes;
    if (tensor.stored_bytes > NABLA_GROWS_BELOW) continue;
    nabla_status status =
        packed_bytes(plan, &tensor, nabla_plan_format(plan, i), &bytes, diag);
    if (status)
      return nabla_checkpoint_blame(plan->checkpoint, &tensor, status, diag);
    if (bytes <= tensor.stored_bytes + tensor.name_length + ENTRY_BYTES)
      continue;
    *decision = (nabla_decision){.reason = NABLA_REASON_GROWS};
    ++*out_kept;
  }
  return NABLA_OK;
}

static nabla_status count_bytes(nabla_plan *plan, nabla_diag *diag) {
  nabla_plan_totals *totals = &plan->totals;
  totals->tensors = plan->count;
  for (size_t i = 0; i < plan->count; i++) {
    nabla_decision *decision = &plan->decisions[i];
    const nabla_tensor tensor = nabla_checkpoint_tensor(plan->checkpoint, i);
    decision->bytes_out = tensor.stored_bytes;
    if (decision->format) {
      decision->importance = SIZE_MAX;
      NABLA_TRY(find_importance(plan, &tensor, decision, diag));
      nabla_status status = measure(plan, &tensor, decision, diag);
      if (status)
        return nabla_checkpoint_blame(plan->checkpoint, &tensor, status, diag);
      totals->quantized++;
      totals->searched += decision->search != 0;
      totals->weighted += decision->importance != SIZE_MAX;
    }
    if (!nabla_add_u64(totals->bytes_in, tensor.stored_bytes,
                       &totals->bytes_in) ||
        !nabla_add_u64(totals->bytes_out, decision->bytes_out,
                       &totals->bytes_out))
      return nabla_fail(diag, NABLA_TOO_LARGE, "the model's size overflows");
  }
  return NABLA_OK;
}

/* Stores the format of a decision; most are equal to the one before. */
static nabla_status set_format(nabla_plan *plan, nabla_decision *decision,
                               const nabla_format *format, nabla_diag *diag) {
  const size_t count = plan->formats.size / sizeof *format;
  const nabla_format *formats =
      (const nabla_format *)(const void *)plan->formats.data;
  if (!format->encoding) return NABLA_OK;
  if (!count || !nabla_format_equal(&formats[count - 1], format)) {
    NABLA_TRY(
        nabla_buffer_append(&plan->formats, format, sizeof *format, diag));
    decision->format = (uint32_t)count + 1; /* limited by FORMATS_LIMIT */
  } else {
    decision->format = (uint32_t)count;
  }
  return NABLA_OK;
}

static nabla_status decide_once(nabla_plan *plan,
                                const nabla_environment *environment,
                                nabla_diag *diag) {
  plan->formats.size = 0;
  for (size_t i = 0; i < plan->count; i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(plan->checkpoint, i);
    nabla_format format;
    NABLA_TRY(
        nabla_plan_decide(plan, &tensor, &plan->decisions[i], &format, diag));
    NABLA_TRY(set_format(plan, &plan->decisions[i], &format, diag));
  }
  if (plan->nonfinite == NABLA_NONFINITE_KEEP)
    NABLA_TRY(nabla_plan_keep_nonfinite(plan, environment, diag));
  size_t kept;
  NABLA_TRY(choose_layout(plan, diag));
  NABLA_TRY(keep_growing(plan, &kept, diag));
  return kept ? choose_layout(plan, diag) : NABLA_OK; /* again, without them */
}

/* Plans first with those tensors kept dense that transformers cannot unpack. If
 * the layout is Nabla's nonetheless, plans again without this; the layout and
 * its reason stay those found first. */
static nabla_status decide_all(nabla_plan *plan,
                               const nabla_environment *environment,
                               nabla_diag *diag) {
  void *block;
  plan->count = nabla_checkpoint_count(plan->checkpoint);
  NABLA_TRY(nabla_alloc(plan->allocator, plan->count, sizeof *plan->decisions,
                        &block, diag));
  plan->decisions = block;
  if (plan->has_config && plan->choice != NABLA_CHOOSE_NABLA)
    plan->architecture = plan->config.architecture;
  NABLA_TRY(decide_once(plan, environment, diag));
  if (plan->architecture && plan->totals.layout == NABLA_LAYOUT_NABLA) {
    const nabla_plan_totals first = plan->totals;
    plan->architecture = NULL;
    NABLA_TRY(decide_once(plan, environment, diag));
    plan->totals = first;
  }
  return count_bytes(plan, diag);
}

/* config.json is read from the place where the output will have it, too. */
static nabla_status read_config(nabla_plan *plan,
                                const nabla_quantize_options *options,
                                const nabla_environment *environment,
                                nabla_diag *diag) {
  const nabla_os *os =
      environment && environment->os ? environment->os : nabla_os_default();
  nabla_buffer text;
  if (options->weights_alone) return NABLA_OK;
  nabla_buffer_init(&text, plan->allocator, NABLA_HF_CONFIG_NAME,
                    NABLA_HF_CONFIG_MAX);
  nabla_status status = nabla_hf_folder_config(
      plan->checkpoint, os, &text, &plan->config, &plan->has_config, diag);
  nabla_buffer_deinit(&text);
  if (status == NABLA_CORRUPT || status == NABLA_TOO_LARGE)
    nabla_diag_set_next(diag,
                        "repair it, or name the model's index or file, not "
                        "the folder, to write weights alone");
  return status;
}

nabla_status nabla_plan_create(const nabla_checkpoint *checkpoint,
                               const nabla_quantize_options *options,
                               const nabla_environment *environment,
                               nabla_plan **out, nabla_diag *diag) {
  NABLA_REQUIRE(checkpoint, diag);
  NABLA_REQUIRE(options, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_REQUIRE_SIZE(options, "options for quantizing", diag);
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  void *block;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_plan), &block, diag));
  nabla_plan *plan = block;
  plan->allocator = allocator;
  plan->checkpoint = checkpoint;
  nabla_buffer_init(&plan->formats, allocator, "formats of tensors",
                    FORMATS_LIMIT);
  nabla_status status = take_options(plan, options, diag);
  if (!status) status = read_config(plan, options, environment, diag);
  if (!status) status = decide_all(plan, environment, diag);
  if (status) {
    nabla_plan_destroy(plan);
    return status;
  }
  *out = plan;
  return NABLA_OK;
}

void nabla_plan_destroy(nabla_plan *plan) {
  if (!plan) return;
  const nabla_allocator *allocator = plan->allocator;
  nabla_patterns_destroy(plan->only);
  nabla_patterns_destroy(plan->skip);
  nabla_patterns_destroy(plan->rules);
  nabla_free(allocator, plan->rule, NABLA_MAX_PATTERNS, sizeof *plan->rule);
  nabla_free(allocator, plan->decisions, plan->count, sizeof *plan->decisions);
  nabla_buffer_deinit(&plan->formats);
  nabla_free(allocator, plan, 1, sizeof *plan);
}

size_t nabla_plan_count(const nabla_plan *plan) { return plan->count; }

nabla_plan_row nabla_plan_get(const nabla_plan *plan, size_t row) {
  const nabla_decision *decision = &plan->decisions[row];
  const nabla_tensor tensor = nabla_checkpoint_tensor(plan->checkpoint, row);
  nabla_plan_row out = {
      .tensor = row,
      .quantized = decision->format != 0,
      .format = *nabla_plan_format(plan, row),
      .search = decision->search,
      .has_importance = decision->format && decision->search &&
                        decision->importance != SIZE_MAX,
      .bytes_in = tensor.stored_bytes,
      .bytes_out = decision->bytes_out,
      .rule =
          decision->reason == NABLA_REASON_RULE ? decision->detail : SIZE_MAX,
  };
  if (tensor.elements)
    out.bits_per_weight =
        (double)decision->bytes_out * 8 / (double)tensor.elements;
  nabla_decision_explain(plan, &tensor, decision, out.reason,
                         sizeof out.reason);
  return out;
}

nabla_plan_totals nabla_plan_get_totals(const nabla_plan *plan) {
  return plan->totals;
}
