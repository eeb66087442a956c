/* What formats say of their parts, and the choice of stages. */
#include "quant/codec/codec.h"

#include <string.h>

#include "lib/base/require.h"
#include "quant/codec/kernel.h"

int nabla_encoding_is_int8(const nabla_encoding *encoding) {
  return !strcmp(encoding->name, "int8");
}

int nabla_format_is_llm_int8(const nabla_format *format) {
  return format->granularity == NABLA_PER_ROW && !format->zero_point &&
         format->scale == NABLA_SCALE_F32 &&
         nabla_encoding_is_int8(format->encoding);
}

size_t nabla_scale_width(const nabla_format *format) {
  return nabla_scales_are_f32(format)
             ? sizeof(float)
             : nabla_scale_info_of(format->scale)->bytes;
}

uint64_t nabla_scale_index(const nabla_format *format, uint64_t index) {
  if (!format->segment) return index / format->block;
  const uint64_t per_segment =
      format->segment / format->block + (format->segment % format->block != 0);
  return index / format->segment * per_segment +
         index % format->segment / format->block;
}

nabla_packed nabla_packed_at(const nabla_codec *codec, const nabla_packed *all,
                             size_t index) {
  const nabla_format *format = &codec->format;
  const size_t scale = (size_t)nabla_scale_index(format, index);
  return (nabla_packed){
      .codes = all->codes + nabla_code_bytes(format, index),
      .scales = (uint8_t *)all->scales + scale * nabla_scale_width(format),
      .zero_points = format->zero_point && all->zero_points
                         ? all->zero_points + scale
                         : NULL};
}

static nabla_status refuse_isa(nabla_isa isa, nabla_diag *diag) {
  nabla_status status = nabla_fail(diag, NABLA_UNSUPPORTED,
                                   "this CPU or this build cannot run %s code",
                                   nabla_isa_name(isa));
  nabla_diag_set_next(diag, "leave the instruction set to the program");
  return status;
}

nabla_status nabla_codec_select(const nabla_format *format,
                                const nabla_codec_options *options,
                                nabla_codec *out, nabla_diag *diag) {
  NABLA_REQUIRE(format, diag);
  NABLA_REQUIRE(out, diag);
  const nabla_codec_options none = {.struct_size = sizeof none};
  if (!options) options = &none;
  NABLA_REQUIRE_SIZE(options, "options of a codec", diag);
  nabla_packed_size ignored;
  NABLA_TRY(nabla_format_size(format, 0, &ignored, diag));
  if (!nabla_isa_available(options->isa)) return refuse_isa(options->isa, diag);
  nabla_codec codec = {
      .format = *format,
      .isa = nabla_isa_resolve(options->isa),
      .dtype = options->dtype ? options->dtype : NABLA_DTYPE_F32,
      .search = options->search};
  if (codec.dtype != NABLA_DTYPE_F32 && codec.dtype != NABLA_DTYPE_F16 &&
      codec.dtype != NABLA_DTYPE_BF16)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "values of %s are not encoded",
                      nabla_dtype_name(codec.dtype));
  if (codec.search && format->granularity != NABLA_PER_BLOCK) {
    nabla_status status = nabla_fail(
        diag, NABLA_UNSUPPORTED,
        "the search is for scales of blocks, not of rows or tensors");
    nabla_diag_set_next(diag, "give a block size, or leave the search out");
    return status;
  }
  codec.stages = nabla_stages_find(format->encoding, codec.isa);
  codec.recipe = nabla_recipe_find(format->encoding);
  if (!codec.stages || !codec.recipe)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the encoding is not in the table of encodings");
  while (
      codec.isa > NABLA_ISA_SCALAR && /* what the code stage is for */
      nabla_stages_find(format->encoding, (nabla_isa)(codec.isa - 1))->code ==
          codec.stages->code)
    codec.isa = (nabla_isa)(codec.isa - 1);
  *out = codec;
  return NABLA_OK;
}

void nabla_encoding_table(const nabla_encoding *encoding,
                          float out[NABLA_TABLE_VALUES]) {
  const nabla_recipe *recipe = nabla_recipe_find(encoding);
  for (int i = 0; i < NABLA_TABLE_VALUES; i++)
    out[i] = recipe->value((uint8_t)i);
}

float nabla_absmax(nabla_isa isa, const float *in, size_t count) {
  float most = 0;
  size_t ignored;
  if (count)
    nabla_stages_find(nabla_encodings(&ignored), nabla_isa_resolve(isa))
        ->absmax(in, NABLA_DTYPE_F32, count, count, &most);
  return most;
}
