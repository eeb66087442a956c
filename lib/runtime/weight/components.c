/* Components by layout, and their comparison with those that a description
 * has. */
#include "lib/runtime/weight/components.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/checked.h"
#include "nabla/dynamic8.h"

static nabla_component_slot slot(const char *name, nabla_dtype dtype,
                                 uint64_t count) {
  const uint32_t bytes = nabla_dtype_bits(dtype) / 8;
  return (nabla_component_slot){.name = name,
                                .dtype = dtype,
                                .rank = 1,
                                .alignment = bytes,
                                .count = count,
                                .bytes = count * bytes};
}

static nabla_status add_values(nabla_dtype dtype, uint64_t elements,
                               nabla_component_slots *out, nabla_diag *diag) {
  uint64_t bits;
  if ((uint32_t)dtype >= NABLA_DTYPE_COUNT)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a weight of an unknown dtype");
  const uint32_t width = nabla_dtype_bits(dtype);
  if (!nabla_mul_u64(elements, width, &bits))
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%" PRIu64 " values are too many for %s", elements,
                      nabla_dtype_name(dtype));
  out->at[0] = (nabla_component_slot){.name = "values",
                                      .dtype = dtype,
                                      .rank = 1,
                                      .alignment = width < 8 ? 1 : width / 8,
                                      .count = elements,
                                      .bytes = nabla_ceil_div_u64(bits, 8)};
  out->count = 1;
  return NABLA_OK;
}

/* Scales in 8 bits with the components that decode them (FORMAT.md, N6). */
static nabla_status add_nested(uint32_t group, uint64_t scales,
                               nabla_component_slots *out, nabla_diag *diag) {
  if (!group)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "8-bit scales share an absmax by groups of 1 to 2^32 - "
                      "1, not of 0: nested_block says how many");
  nabla_component_slot *at = out->at + out->count;
  at[0] = slot("scales.codes", NABLA_DTYPE_U8, scales);
  at[1] =
      slot("scales.scales", NABLA_DTYPE_F32, nabla_ceil_div_u64(scales, group));
  at[2] = slot("scales.offset", NABLA_DTYPE_F32, 1);
  at[2].rank = 0;
  at[3] = slot("scales.map", NABLA_DTYPE_F32, NABLA_DYNAMIC8_CODES);
  out->count += 4;
  return NABLA_OK;
}

static nabla_status add_planes(const nabla_storage *layout, uint64_t elements,
                               nabla_component_slots *out, nabla_diag *diag) {
  const nabla_format *format = &layout->format;
  nabla_packed_size size;
  if (!format->encoding)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a weight of codes and scales has no encoding");
  NABLA_TRY(nabla_format_size(format, elements, &size, diag));
  const nabla_dtype codes =
      format->encoding->bits == 8 ? NABLA_DTYPE_I8 : NABLA_DTYPE_U8;
  out->at[0] = slot("codes", codes, size.code_bytes);
  out->count = 1;
  if (format->scale == NABLA_SCALE_DYNAMIC8)
    NABLA_TRY(add_nested(layout->nested_block, size.scales, out, diag));
  else
    out->at[out->count++] =
        slot("scales", nabla_scale_info_of(format->scale)->dtype, size.scales);
  if (format->zero_point)
    out->at[out->count++] = slot("zero_points", NABLA_DTYPE_U8, size.scales);
  return NABLA_OK;
}

static nabla_status add_blocks(const nabla_storage *layout, uint64_t elements,
                               nabla_component_slots *out, nabla_diag *diag) {
  uint64_t bytes;
  if (!layout->ggml)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a weight of blocks has no block format");
  NABLA_TRY(nabla_ggml_size(layout->ggml, elements, &bytes, diag));
  out->at[0] = slot("blocks", NABLA_DTYPE_U8, bytes);
  out->count = 1;
  return NABLA_OK;
}

/* Members that another kind of layout has. */
static nabla_status check_kind(const nabla_storage *layout, nabla_diag *diag) {
  const nabla_encoding *encoding = layout->format.encoding;
  const nabla_ggml *ggml = layout->ggml;
  if (encoding && ggml)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a weight is codes of %s or blocks of %s, not both",
                      encoding->name, ggml->name);
  const int is_wrong = layout->kind == NABLA_STORAGE_PLANES ? ggml != NULL
                       : layout->kind == NABLA_STORAGE_BLOCKS
                           ? encoding != NULL
                           : encoding || ggml;
  if (!is_wrong && (uint32_t)layout->kind < NABLA_STORAGE_COUNT)
    return NABLA_OK;
  nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                   "the kind of the layout does not go with %s",
                                   encoding ? encoding->name
                                   : ggml   ? ggml->name
                                            : "any");
  nabla_diag_set_next(diag,
                      "kind is NABLA_STORAGE_PLANES with an encoding, "
                      "NABLA_STORAGE_BLOCKS with a block format");
  return status;
}

nabla_status nabla_storage_components(const nabla_storage *layout,
                                      nabla_dtype dtype, uint64_t elements,
                                      nabla_component_slots *out,
                                      nabla_diag *diag) {
  NABLA_TRY(check_kind(layout, diag));
  switch (layout->kind) {
    case NABLA_STORAGE_PLANES:
      return add_planes(layout, elements, out, diag);
    case NABLA_STORAGE_BLOCKS:
      return add_blocks(layout, elements, out, diag);
    default:
      return add_values(dtype, elements, out, diag);
  }
}

int nabla_storage_equal(const nabla_storage *a, const nabla_storage *b) {
  if (a->kind != b->kind) return 0;
  if (a->kind == NABLA_STORAGE_BLOCKS) return a->ggml == b->ggml;
  if (a->kind != NABLA_STORAGE_PLANES) return 1;
  return nabla_format_equal(&a->format, &b->format) &&
         (a->format.scale != NABLA_SCALE_DYNAMIC8 ||
          a->nested_block == b->nested_block);
}
