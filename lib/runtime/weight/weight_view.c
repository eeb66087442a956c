/* Checks of described weights. */
#include "lib/runtime/weight/weight_view.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/require.h"
#include "lib/runtime/weight/components.h"

/* ---- shapes ---------------------------------------------------------------
 */

static nabla_status fail_large(nabla_diag *diag) {
  return nabla_fail(diag, NABLA_TOO_LARGE,
                    "the weight is larger than any memory");
}

/* Rows and the elements of one. Strides of 8-byte elements fit in 63 bits. */
static nabla_status count_rows(const nabla_weight_desc *weight, uint64_t *out_n,
                               uint64_t *out_k, nabla_diag *diag) {
  uint64_t n = 1, k = 1, all;
  if (weight->rank > NABLA_WEIGHT_MAX_RANK)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a weight of rank %" PRIu32 "; the most is %d",
                      weight->rank, NABLA_WEIGHT_MAX_RANK);
  for (uint32_t i = 1; i < weight->rank; i++)
    if (!nabla_mul_u64(k, weight->shape[i], &k)) return fail_large(diag);
  if (weight->rank) n = weight->shape[0];
  if (n > INT64_MAX / 8 || k > INT64_MAX / 8 || !nabla_mul_u64(n, k, &all) ||
      all > INT64_MAX / 8)
    return fail_large(diag);
  *out_n = n;
  *out_k = k;
  return NABLA_OK;
}

/* A scale for each row spans a row, one for all of them the weight. */
static nabla_status check_span(const nabla_format *format, uint64_t n,
                               uint64_t k, nabla_diag *diag) {
  const int is_row = format->granularity == NABLA_PER_ROW;
  const uint64_t all = n * k, wanted = is_row ? k : all;
  if (format->granularity == NABLA_PER_BLOCK || !all || format->block == wanted)
    return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "a scale is said to span %" PRIu64
                    " elements, and %s has %" PRIu64,
                    format->block, is_row ? "a row" : "the tensor", wanted);
}

static nabla_status list_slots(const nabla_weight_desc *weight, uint64_t n,
                               uint64_t k, nabla_component_slots *out,
                               nabla_diag *diag) {
  NABLA_TRY(nabla_storage_components(&weight->layout, weight->dtype, n * k, out,
                                     diag));
  return weight->layout.kind == NABLA_STORAGE_PLANES
             ? check_span(&weight->layout.format, n, k, diag)
             : NABLA_OK;
}

nabla_status nabla_weight_components(const nabla_weight_desc *weight,
                                     nabla_weight_component *out,
                                     uint32_t *out_count, nabla_diag *diag) {
  NABLA_REQUIRE(weight, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_REQUIRE(out_count, diag);
  nabla_component_slots slots;
  uint64_t n = 0, k = 0;
  NABLA_TRY(count_rows(weight, &n, &k, diag));
  NABLA_TRY(list_slots(weight, n, k, &slots, diag));
  for (uint32_t i = 0; i < slots.count; i++)
    out[i] = (nabla_weight_component){.name = slots.at[i].name,
                                      .dtype = slots.at[i].dtype,
                                      .bytes = slots.at[i].bytes};
  *out_count = slots.count;
  return NABLA_OK;
}

/* ---- components ------------------------------------------------------------
 */

/* Bytes have one dtype under several names; 0 stands for the right one. */
static int is_dtype(nabla_dtype given, nabla_dtype needed) {
  if (given == needed || given == NABLA_DTYPE_BOOL) return 1;
  return nabla_dtype_bits(needed) == 8 &&
         (given == NABLA_DTYPE_U8 || given == NABLA_DTYPE_I8);
}

static nabla_status check_component(const nabla_weight_component *given,
                                    const nabla_component_slot *needed,
                                    nabla_diag *diag) {
  if (given->name && strcmp(given->name, needed->name) != 0)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a component is called '%.40s' in the place of '%s'",
                      given->name, needed->name);
  if ((uint32_t)given->dtype >= NABLA_DTYPE_COUNT ||
      !is_dtype(given->dtype, needed->dtype))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the %s are %s, and the layout needs %s", needed->name,
                      (uint32_t)given->dtype < NABLA_DTYPE_COUNT
                          ? nabla_dtype_name(given->dtype)
                          : "of an unknown dtype",
                      nabla_dtype_name(needed->dtype));
  if (given->bytes < needed->bytes || (needed->bytes && !given->data)) {
    nabla_status status = nabla_fail(
        diag, NABLA_INVALID_ARGUMENT,
        "the %s have %" PRIu64 " bytes, and the shape needs %" PRIu64,
        needed->name, given->data ? given->bytes : 0, needed->bytes);
    nabla_diag_set_next(diag, "give all of them, or the right shape");
    return status;
  }
  if ((uintptr_t)given->data % needed->alignment == 0) return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "the %s are not aligned to %" PRIu32 " bytes", needed->name,
                 needed->alignment);
  nabla_diag_set_next(diag, "copy them to memory that is aligned");
  return status;
}

static nabla_status check_components(const nabla_weight_desc *weight,
                                     const nabla_component_slots *slots,
                                     nabla_diag *diag) {
  if (weight->component_count != slots->count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a weight with %" PRIu32
                      " components; its layout has %" PRIu32,
                      weight->component_count, slots->count);
  for (uint32_t i = 0; i < slots->count; i++)
    NABLA_TRY(check_component(&weight->components[i], &slots->at[i], diag));
  return NABLA_OK;
}

nabla_status nabla_weight_check(const nabla_weight_desc *weight,
                                nabla_diag *diag) {
  NABLA_REQUIRE(weight, diag);
  nabla_component_slots slots;
  uint64_t n = 0, k = 0;
  NABLA_TRY(count_rows(weight, &n, &k, diag));
  NABLA_TRY(list_slots(weight, n, k, &slots, diag));
  return check_components(weight, &slots, diag);
}

/* ---- views ------------------------------------------------------------------
 */

static void take_nested(const nabla_weight_component *parts,
                        nabla_weight_view *out) {
  out->nested_scales = parts[0].data;
  out->nested_offset = parts[1].data;
  out->nested_map = parts[2].data;
  out->nested.block = out->layout.nested_block;
  out->nested.offset = *out->nested_offset;
  memcpy(out->nested.map, out->nested_map, sizeof out->nested.map);
}

static nabla_status take_planes(const nabla_weight_desc *weight,
                                const nabla_component_slots *slots,
                                nabla_isa isa, nabla_weight_view *out,
                                nabla_diag *diag) {
  nabla_format *format = &out->layout.format;
  const nabla_codec_options options = {.struct_size = sizeof options,
                                       .isa = isa};
  NABLA_TRY(nabla_codec_select(format, &options, &out->codec, diag));
  out->codec.format.segment = 0;
  if (format->segment && format->segment % format->block == 0)
    format->segment = 0;
  const nabla_weight_component *parts = weight->components;
  out->scales = parts[1].data;
  out->scale_bytes = slots->at[1].bytes; /* more may have been given */
  if (format->scale == NABLA_SCALE_DYNAMIC8)
    take_nested(parts + 2, out);
  else
    out->layout.nested_block = 0;
  if (format->zero_point && slots->count > 0 &&
      slots->count <= sizeof weight->components / sizeof *weight->components)
    out->zero_points = parts[slots->count - 1].data;
  return NABLA_OK;
}

nabla_status nabla_weight_view_of(const nabla_weight_desc *weight,
                                  nabla_isa isa, nabla_weight_view *out,
                                  nabla_diag *diag) {
  nabla_component_slots slots;
  nabla_weight_view view = {.dtype = weight->dtype};
  NABLA_TRY(count_rows(weight, &view.n, &view.k, diag));
  NABLA_TRY(list_slots(weight, view.n, view.k, &slots, diag));
  NABLA_TRY(check_components(weight, &slots, diag));
  view.layout.kind = weight->layout.kind;
  view.codes = weight->components[0].data;
  if (view.layout.kind == NABLA_STORAGE_PLANES) {
    view.layout = weight->layout;
    NABLA_TRY(take_planes(weight, &slots, isa, &view, diag));
  } else if (view.layout.kind == NABLA_STORAGE_BLOCKS) {
    view.layout.ggml = weight->layout.ggml;
    view.layout.format.block = view.layout.ggml->elements;
  }
  *out = view;
  return NABLA_OK;
}
