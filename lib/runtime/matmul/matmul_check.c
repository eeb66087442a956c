/* What plans are asked for: shapes, sizes, alignments, options. */
#include <inttypes.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/isa.h"
#include "lib/runtime/matmul/matmul_internal.h"

static int is_float(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 || dtype == NABLA_DTYPE_F16 ||
         dtype == NABLA_DTYPE_BF16;
}

/* ---- a weight of a model --------------------------------------------------
 */

static void take_component(const nabla_weight_component *part,
                           nabla_matmul_weight *out) {
  const char *name = part->name;
  if (!strcmp(name, "codes") || !strcmp(name, "values")) {
    out->codes = part->data;
    out->code_bytes = part->bytes;
  } else if (!strcmp(name, "scales") || !strcmp(name, "scales.codes")) {
    out->scales = part->data;
    out->scale_bytes = part->bytes;
  } else if (!strcmp(name, "zero_points")) {
    out->zero_points = part->data;
    out->zero_point_bytes = part->bytes;
  } else if (!strcmp(name, "scales.scales")) {
    out->nested_scales = part->data;
    out->nested_scale_bytes = part->bytes;
  } else if (!strcmp(name, "scales.offset")) {
    out->nested_offset = part->data;
  } else if (!strcmp(name, "scales.map")) {
    out->nested_map = part->data;
  }
}

nabla_status nabla_matmul_weight_of(const nabla_weight *weight,
                                    nabla_matmul_weight *out,
                                    nabla_diag *diag) {
  const nabla_tensor *tensor = &weight->tensor;
  if (tensor->rank != 2 || !tensor->shape) {
    nabla_status status = nabla_fail(
        diag, NABLA_INVALID_ARGUMENT,
        "a product takes a matrix, and this has rank %u", tensor->rank);
    nabla_diag_set_next(diag,
                        "describe it as N x K by "
                        "nabla_matmul_plan_create_from");
    return status;
  }
  if (weight->component_count > NABLA_WEIGHT_MAX_COMPONENTS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a weight has at most %d components",
                      NABLA_WEIGHT_MAX_COMPONENTS);
  *out = (nabla_matmul_weight){.format = tensor->format,
                               .dtype = tensor->dtype,
                               .n = tensor->shape[0],
                               .k = tensor->shape[1]};
  if (tensor->nested) out->nested_block = tensor->nested->how.block;
  for (uint32_t i = 0; i < weight->component_count; i++)
    take_component(&weight->components[i], out);
  return NABLA_OK;
}

/* ---- components ------------------------------------------------------------
 */

static nabla_status check_part(const char *name, const void *data,
                               uint64_t bytes, uint64_t needed,
                               uint64_t alignment, nabla_diag *diag) {
  if (bytes < needed || (needed && !data)) {
    nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                     "the %s have %" PRIu64
                                     " bytes, and the shape needs %" PRIu64,
                                     name, data ? bytes : 0, needed);
    nabla_diag_set_next(diag, "give all of them, or the right shape");
    return status;
  }
  if ((uintptr_t)data % alignment == 0) return NABLA_OK;
  nabla_status status = nabla_fail(
      diag, NABLA_INVALID_ARGUMENT,
      "the %s are not aligned to %" PRIu64 " bytes", name, alignment);
  nabla_diag_set_next(diag,
                      "copy them once to where they are: a model does it");
  return status;
}

static nabla_status check_dense(const nabla_matmul_weight *weight,
                                uint64_t elements, nabla_diag *diag) {
  if (!is_float(weight->dtype))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "there are no products with weights of %s",
                      (uint32_t)weight->dtype < NABLA_DTYPE_COUNT
                          ? nabla_dtype_name(weight->dtype)
                          : "an unknown dtype");
  const uint64_t bytes = nabla_dtype_bits(weight->dtype) / 8;
  return check_part("values", weight->codes, weight->code_bytes,
                    elements * bytes, bytes, diag);
}

static nabla_status check_nested(const nabla_matmul_weight *weight,
                                 uint64_t scales, nabla_dynamic8 *out,
                                 nabla_diag *diag) {
  if (!weight->nested_block || weight->nested_block > UINT32_MAX)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "8-bit scales share an absmax by groups of 1 to 2^32 - "
                      "1, not of %" PRIu64,
                      weight->nested_block);
  if (!weight->nested_offset || !weight->nested_map)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "8-bit scales come with an offset and a map");
  NABLA_TRY(check_part("offset and map of the scales", weight->nested_map,
                       sizeof out->map, sizeof out->map, sizeof(float), diag));
  NABLA_TRY(check_part("offset of the scales", weight->nested_offset,
                       sizeof(float), sizeof(float), sizeof(float), diag));
  out->block = (uint32_t)weight->nested_block;
  out->offset = *weight->nested_offset;
  memcpy(out->map, weight->nested_map, sizeof out->map);
  return check_part("scales of the scales", weight->nested_scales,
                    weight->nested_scale_bytes,
                    nabla_ceil_div_u64(scales, out->block) * sizeof(float),
                    sizeof(float), diag);
}

/* One scale for each row of N x K, or for all of it. */
static nabla_status check_span(const nabla_matmul_weight *weight,
                               uint64_t elements, nabla_diag *diag) {
  const nabla_format *format = &weight->format;
  const uint64_t wanted =
      format->granularity == NABLA_PER_ROW ? weight->k : elements;
  if (format->granularity == NABLA_PER_BLOCK || !elements ||
      format->block == wanted)
    return NABLA_OK;
  return nabla_fail(
      diag, NABLA_INVALID_ARGUMENT,
      "a scale is said to span %" PRIu64 " elements, and %s has %" PRIu64,
      format->block,
      format->granularity == NABLA_PER_ROW ? "a row" : "the tensor", wanted);
}

static nabla_status check_packed(uint64_t elements, nabla_matmul_request *out,
                                 nabla_diag *diag) {
  nabla_matmul_weight *weight = &out->weight;
  nabla_format *format = &weight->format;
  nabla_packed_size size;
  const nabla_codec_options options = {.struct_size = sizeof options,
                                       .isa = out->isa};
  NABLA_TRY(nabla_format_size(format, elements, &size, diag));
  NABLA_TRY(check_span(weight, elements, diag));
  NABLA_TRY(nabla_codec_select(format, &options, &out->codec, diag));
  out->codec.format.segment = 0;
  if (format->segment && format->segment % format->block == 0)
    format->segment = 0;
  NABLA_TRY(check_part("codes", weight->codes, weight->code_bytes,
                       size.code_bytes, 1, diag));
  NABLA_TRY(check_part("scales", weight->scales, weight->scale_bytes,
                       size.scale_bytes,
                       nabla_scale_info_of(format->scale)->bytes, diag));
  if (format->zero_point)
    NABLA_TRY(check_part("zero points", weight->zero_points,
                         weight->zero_point_bytes, size.scales, 1, diag));
  weight->scale_bytes = size.scale_bytes; /* more may have been given */
  if (format->scale != NABLA_SCALE_DYNAMIC8) return NABLA_OK;
  return check_nested(weight, size.scales, &out->nested, diag);
}

/* Rows of whole blocks, as a GGUF file has them; of the weight's other
 * components nothing is left. */
static nabla_status check_blocks(uint64_t elements, nabla_matmul_request *out,
                                 nabla_diag *diag) {
  const nabla_matmul_weight *weight = &out->weight;
  const nabla_ggml *ggml = weight->ggml;
  uint64_t bytes;
  if (weight->format.encoding)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a weight is codes of %s or blocks of %s, not both",
                      weight->format.encoding->name, ggml->name);
  if (weight->k % ggml->elements) {
    nabla_status status = nabla_fail(
        diag, NABLA_INVALID_ARGUMENT,
        "rows of %" PRIu64 " elements are no whole number of blocks of %s",
        weight->k, ggml->name);
    nabla_diag_set_next(diag, "a block has %" PRIu32 " elements of one row",
                        ggml->elements);
    return status;
  }
  NABLA_TRY(nabla_ggml_size(ggml, elements, &bytes, diag));
  NABLA_TRY(
      check_part("blocks", weight->codes, weight->code_bytes, bytes, 1, diag));
  out->weight = (nabla_matmul_weight){.format.block = ggml->elements,
                                      .ggml = ggml,
                                      .n = weight->n,
                                      .k = weight->k,
                                      .codes = weight->codes,
                                      .code_bytes = bytes};
  return NABLA_OK;
}

/* ---- options ---------------------------------------------------------------
 */

static nabla_status check_type(const char *name, nabla_dtype asked,
                               nabla_dtype *out, nabla_diag *diag) {
  *out = asked ? asked : NABLA_DTYPE_F32;
  if (is_float(*out)) return NABLA_OK;
  return nabla_fail(
      diag, NABLA_UNSUPPORTED, "%s is F32, F16 or BF16, not %s", name,
      (uint32_t)asked < NABLA_DTYPE_COUNT ? nabla_dtype_name(asked)
                                          : "an unknown dtype");
}

static nabla_status check_options(const nabla_matmul_options *options,
                                  nabla_matmul_request *out, nabla_diag *diag) {
  if ((uint32_t)options->numerics >= NABLA_NUMERICS_COUNT ||
      (uint32_t)options->layout >= NABLA_WEIGHT_LAYOUT_COUNT ||
      (uint32_t)options->provider >= NABLA_MATMUL_PROVIDER_COUNT)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "there is no such numerics, layout or provider");
  nabla_isa isa;
  NABLA_TRY(nabla_isa_or_environment(options->isa, &isa, diag));
  if (!nabla_isa_available(isa)) {
    nabla_status status = nabla_fail(
        diag, NABLA_UNSUPPORTED, "this CPU or this build cannot run %s code",
        (uint32_t)isa < NABLA_ISA_COUNT ? nabla_isa_name(isa) : "such");
    nabla_diag_set_next(diag, "leave the instruction set to the program");
    return status;
  }
  out->numerics = options->numerics;
  out->layout = options->layout;
  out->isa = isa;
  out->bias = options->bias;
  out->m_max = options->m_max;
  NABLA_TRY(check_type("x", options->x_type, &out->x_type, diag));
  NABLA_TRY(check_type("y", options->y_type, &out->y_type, diag));
  if (!options->bias) return NABLA_OK;
  const uint64_t bytes = nabla_dtype_bits(out->y_type) / 8;
  return check_part("values of the bias", options->bias, options->bias_bytes,
                    out->weight.n * bytes, bytes, diag);
}

nabla_status nabla_matmul_check(const nabla_matmul_weight *weight,
                                const nabla_matmul_options *options,
                                nabla_matmul_request *out, nabla_diag *diag) {
  uint64_t elements, bytes;
  *out = (nabla_matmul_request){.weight = *weight};
  if (!nabla_mul_u64(weight->n, weight->k, &elements) ||
      !nabla_mul_u64(elements, 8, &bytes) || bytes > INT64_MAX ||
      weight->n > INT64_MAX / 8 || weight->k > INT64_MAX / 8)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "a weight of %" PRIu64 " x %" PRIu64
                      " elements is larger than any memory",
                      weight->n, weight->k);
  NABLA_TRY(check_options(options, out, diag));
  if (weight->ggml) return check_blocks(elements, out, diag);
  return weight->format.encoding ? check_packed(elements, out, diag)
                                 : check_dense(weight, elements, diag);
}
