/* Inside quant/: pieces of encoding that the tile runner, the dialect and
 * the formats need. Functions are defined in bounds.c, decode.c and encode.c
 * too. */
#ifndef NABLA_QUANT_CODEC_CODEC_H
#define NABLA_QUANT_CODEC_CODEC_H

#include "nabla/encoding.h"

/* Values of a 4-bit code. */
#define NABLA_TABLE_VALUES 16

/* What the codes 0 to 15 of a 4-bit encoding decode to with scale 1. */
void nabla_encoding_table(const nabla_encoding *encoding,
                          float out[NABLA_TABLE_VALUES]);

/* int8 alone decodes by conversion; the codes of all others are looked up. */
int nabla_encoding_is_int8(const nabla_encoding *encoding);

/* Says whether the format is LLM.int8, which stores absmax (FORMAT.md, N5). */
int nabla_format_is_llm_int8(const nabla_format *format);

/* What codes, and zero points, are in the Nabla layout (N4). */
static inline nabla_dtype nabla_code_dtype(const nabla_encoding *encoding) {
  return nabla_encoding_is_int8(encoding) ? NABLA_DTYPE_I8 : NABLA_DTYPE_U8;
}

/* Bytes of the codes of `count` values; the last may be shared by none. */
static inline uint64_t nabla_code_bytes(const nabla_format *format,
                                        uint64_t count) {
  const uint64_t per_byte = 8 / format->encoding->bits;
  return count / per_byte + (count % per_byte != 0);
}

/* Values of a block, row, or segment of blocks: where codes and scales of a
 * span may begin anew. */
static inline uint64_t nabla_format_unit(const nabla_format *format) {
  return format->segment ? format->segment : format->block;
}

/* Which scale the block that holds value `index` has. */
uint64_t nabla_scale_index(const nabla_format *format, uint64_t index);

/* How many scales the `count` values from `first` on have a part in. */
static inline uint64_t nabla_scale_span(const nabla_format *format,
                                        uint64_t first, uint64_t count) {
  return count ? nabla_scale_index(format, first + count - 1) + 1 -
                     nabla_scale_index(format, first)
               : 0;
}

/* Bytes of a value on the dense side. */
static inline size_t nabla_value_width(const nabla_codec *codec) {
  return nabla_dtype_bits(codec->dtype) / 8;
}

/* The components of what follows the first `index` values. */
nabla_packed nabla_packed_at(const nabla_codec *codec, const nabla_packed *all,
                             size_t index);

/* Says whether scales are f32 on their way in and out: those of dynamic8 are
 * made from f32, and back, elsewhere. */
static inline int nabla_scales_are_f32(const nabla_format *format) {
  return format->scale == NABLA_SCALE_F32 ||
         format->scale == NABLA_SCALE_DYNAMIC8;
}

/* Bytes of one scale as nabla_encode gives it: 4 for DYNAMIC8. */
size_t nabla_scale_width(const nabla_format *format);

/* Widens `count` little-endian scales of a file to f32; e = 255 (E5) to NaN.
 * `in` may be `out` for F32. Not for DYNAMIC8. */
void nabla_scales_widen(nabla_scale_type type, const void *in, size_t count,
                        float *out);

/* What the largest finite code multiplies its scale by, before LLM.int8
 * divides. */
float nabla_format_largest(const nabla_format *format);

/* Says whether `size` bytes of codes with scales up to `most` surely decode to
 * values that are finite in `dtype`, so that nobody need look at each. */
int nabla_codes_stay_within(const nabla_format *format, const uint8_t *codes,
                            size_t size, float most, nabla_dtype dtype);

/* Largest |x| by the bits without sign, so that NaN counts as larger than
 * infinity and wins; 0 for count 0. */
float nabla_absmax(nabla_isa isa, const float *in, size_t count);

/* Encodes part of a row (or tensor) whose absmax is already known.
 * @param scale  room for one scale; NULL when another part stores it
 * @return 0 when the scale is not finite or cannot be decoded */
int nabla_encode_part(const nabla_codec *codec, const void *in, size_t count,
                      float absmax, uint8_t *codes, void *scale);

#endif
