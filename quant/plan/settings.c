/* The settings that an encoding allows, and the format that a tensor gets. */
#include <inttypes.h>
#include <string.h>

#include "quant/plan/plan.h"

enum { DEFAULT_BLOCK = 64 };

static nabla_status refuse(const nabla_encoding *encoding, const char *what,
                           const char *next, nabla_diag *diag) {
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s %s", encoding->name, what);
  nabla_diag_set_next(diag, "%s", next);
  return status;
}

static nabla_status check_block(uint64_t block, const char *what,
                                nabla_diag *diag) {
  if (block <= NABLA_BLOCK_TENSOR ||
      (block >= NABLA_BLOCK_MIN && block <= NABLA_BLOCK_MAX &&
       (block & (block - 1)) == 0))
    return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "%s: %" PRIu64 " is no block size", what, block);
  nabla_diag_set_next(diag, "use a power of two from %u to %u", NABLA_BLOCK_MIN,
                      NABLA_BLOCK_MAX);
  return status;
}

static nabla_status check_mx(const nabla_settings *settings,
                             const nabla_encoding *encoding, nabla_diag *diag) {
  if (settings->block && settings->block != NABLA_BLOCK_MX)
    return refuse(encoding, "has blocks of 32 by itself",
                  "leave the block size out", diag);
  if (settings->has_scale && settings->scale != NABLA_SCALE_E8M0)
    return refuse(encoding, "has scales of powers of two (e8m0) by itself",
                  "leave the scale type out", diag);
  return NABLA_OK;
}

static nabla_status check_span(const nabla_settings *settings,
                               const nabla_encoding *encoding,
                               nabla_diag *diag) {
  if (settings->block != NABLA_BLOCK_ROW &&
      settings->block != NABLA_BLOCK_TENSOR)
    return NABLA_OK;
  const int is_row = settings->block == NABLA_BLOCK_ROW;
  if (!(is_row ? encoding->has_rows : encoding->has_tensor))
    return refuse(encoding,
                  is_row ? "has no form with one scale per row"
                         : "has no form with one scale per tensor",
                  "use blocks", diag);
  if (settings->zero_point || settings->leading)
    return refuse(encoding,
                  "has zero points and leading blocks with blocks only",
                  "use a block size", diag);
  if (settings->search)
    return refuse(encoding, "is searched by blocks only", "use a block size",
                  diag);
  return NABLA_OK;
}

nabla_status nabla_settings_check(const nabla_settings *settings,
                                  const nabla_encoding *encoding,
                                  const char *what, nabla_diag *diag) {
  NABLA_TRY(check_block(settings->block, what, diag));
  if (settings->has_scale && !nabla_scale_info_of(settings->scale))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s: unknown scale type %d",
                      what, (int)settings->scale);
  if (!encoding) return NABLA_OK;
  if (settings->zero_point && !encoding->has_zero_point)
    return refuse(encoding, "has no zero points",
                  "leave them out, or use int4 or int8", diag);
  if (encoding->is_mx) NABLA_TRY(check_mx(settings, encoding, diag));
  if (!encoding->is_mx && settings->has_scale &&
      settings->scale == NABLA_SCALE_E8M0)
    return refuse(encoding, "has no scales of type e8m0",
                  "use f32, f16, bf16 or dynamic8", diag);
  return check_span(settings, encoding, diag);
}

nabla_settings nabla_settings_of_rule(const nabla_plan *plan,
                                      const nabla_quantize_rule *rule) {
  const nabla_encoding *encoding = rule->encoding;
  const nabla_settings *all = &plan->settings;
  nabla_settings out = rule->settings;
  const int fits = all->block == NABLA_BLOCK_ROW      ? encoding->has_rows
                   : all->block == NABLA_BLOCK_TENSOR ? encoding->has_tensor
                                                      : !encoding->is_mx;
  if (!out.block && fits) out.block = all->block;
  if (!out.has_scale && !encoding->is_mx && all->scale != NABLA_SCALE_E8M0) {
    out.has_scale = all->has_scale;
    out.scale = all->scale;
  }
  const int is_blocks =
      out.block != NABLA_BLOCK_ROW && out.block != NABLA_BLOCK_TENSOR;
  if (!is_blocks) return out;
  out.zero_point |= all->zero_point && encoding->has_zero_point;
  out.leading |= all->leading;
  out.search |= all->search;
  return out;
}

/* Returns whether int8 means LLM.int8, with one scale per row: if the tensor
 * has rows, no block size is given, and neither the Nabla layout nor a setting
 * that LLM.int8 lacks is requested. */
static int means_rows(const nabla_plan *plan, const nabla_tensor *tensor,
                      const nabla_encoding *encoding,
                      const nabla_settings *settings) {
  const int is_plain =
      !settings->zero_point && !settings->leading && !settings->search &&
      (!settings->has_scale || settings->scale == NABLA_SCALE_F32);
  return !settings->block && is_plain && !strcmp(encoding->name, "int8") &&
         tensor->rank >= 2 && plan->choice != NABLA_CHOOSE_NABLA;
}

nabla_format nabla_settings_format(const nabla_plan *plan,
                                   const nabla_tensor *tensor,
                                   const nabla_encoding *encoding,
                                   const nabla_settings *settings) {
  nabla_format format = {
      .encoding = encoding,
      .granularity = NABLA_PER_BLOCK,
      .block = settings->block ? settings->block : DEFAULT_BLOCK,
      .scale = settings->has_scale ? settings->scale : NABLA_SCALE_F32,
      .zero_point = settings->zero_point != 0};
  const uint64_t row = tensor->elements / tensor->shape[0];
  if (settings->block == NABLA_BLOCK_ROW ||
      means_rows(plan, tensor, encoding, settings)) {
    format.granularity = NABLA_PER_ROW;
    format.block = row;
  } else if (settings->block == NABLA_BLOCK_TENSOR) {
    format.granularity = NABLA_PER_TENSOR;
    format.block = tensor->elements;
  }
  if (encoding->is_mx) {
    format.block = NABLA_BLOCK_MX;
    format.scale = NABLA_SCALE_E8M0;
  }
  /* a row of whole blocks needs no segment */
  if (settings->leading && tensor->rank >= 3 && row % format.block)
    format.segment = row;
  return format;
}
