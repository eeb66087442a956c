/* Parts of encoding that the tile runner, the dialect and the formats use,
 * inside quant/. Functions are defined in bounds.c, decode.c and encode.c too.
 */
#ifndef NABLA_QUANT_CODEC_CODEC_H
#define NABLA_QUANT_CODEC_CODEC_H

#include "nabla/encoding.h"

/* Number of values of a 4-bit code. */
#define NABLA_TABLE_VALUES 16

/* Writes the values of the codes 0 to 15 of a 4-bit encoding with scale 1. */
void nabla_encoding_table(const nabla_encoding *encoding,
                          float out[NABLA_TABLE_VALUES]);

/* Returns whether the encoding is int8, the only one decoded by conversion; the
 * codes of all others are looked up in a table. */
int nabla_encoding_is_int8(const nabla_encoding *encoding);

/* Returns whether the format is LLM.int8, which stores absmax (FORMAT.md, N5).
 */
int nabla_format_is_llm_int8(const nabla_format *format);

/* Returns the dtype of codes and zero points in the Nabla layout (N4). */
static inline nabla_dtype nabla_code_dtype(const nabla_encoding *encoding) {
  return nabla_encoding_is_int8(encoding) ? NABLA_DTYPE_I8 : NABLA_DTYPE_U8;
}

/* Returns the bytes of the codes of `count` values; the last byte may be partly
 * unused. */
static inline uint64_t nabla_code_bytes(const nabla_format *format,
                                        uint64_t count) {
  const uint64_t per_byte = 8 / format->encoding->bits;
  return count / per_byte + (count % per_byte != 0);
}

/* Returns the values of a block, row, or segment of blocks. A part of a tensor
 * that is encoded alone begins at a multiple of this number. */
static inline uint64_t nabla_format_unit(const nabla_format *format) {
  return format->segment ? format->segment : format->block;
}

/* Returns the index of the scale of value `index`. */
uint64_t nabla_scale_index(const nabla_format *format, uint64_t index);

/* Returns how many scales apply to the `count` values from `first` on. */
static inline uint64_t nabla_scale_span(const nabla_format *format,
                                        uint64_t first, uint64_t count) {
  return count ? nabla_scale_index(format, first + count - 1) + 1 -
                     nabla_scale_index(format, first)
               : 0;
}

/* Returns the bytes of a decoded value. */
static inline size_t nabla_value_width(const nabla_codec *codec) {
  return nabla_dtype_bits(codec->dtype) / 8;
}

/* Returns the components of the values from `index` on. */
nabla_packed nabla_packed_at(const nabla_codec *codec, const nabla_packed *all,
                             size_t index);

/* Returns whether nabla_encode writes, and nabla_decode reads, scales in f32.
 * This includes dynamic8, whose scales are converted elsewhere. */
static inline int nabla_scales_are_f32(const nabla_format *format) {
  return format->scale == NABLA_SCALE_F32 ||
         format->scale == NABLA_SCALE_DYNAMIC8;
}

/* Returns the bytes of one scale as nabla_encode writes it: 4 for DYNAMIC8. */
size_t nabla_scale_width(const nabla_format *format);

/* Widens `count` little-endian scales of a file to f32; the byte e = 255 (E5)
 * becomes NaN. `in` may be `out` for F32. Not for DYNAMIC8. */
void nabla_scales_widen(nabla_scale_type type, const void *in, size_t count,
                        float *out);

/* Returns the factor by which the largest finite code multiplies its scale,
 * before the division of LLM.int8. */
float nabla_format_largest(const nabla_format *format);

/* Returns 1 if `size` bytes of codes with scales up to `most` are certain to
 * decode to finite values of `dtype`, so that the values need no check. */
int nabla_codes_stay_within(const nabla_format *format, const uint8_t *codes,
                            size_t size, float most, nabla_dtype dtype);

/* Returns the largest |x|, compared by the bits without the sign: NaN counts as
 * larger than infinity. 0 if count is 0. */
float nabla_absmax(nabla_isa isa, const float *in, size_t count);

/* Encodes part of a row (or tensor) whose absmax is already known.
 * @param scale  receives one scale; NULL if another part stores it
 * @return 0 if the scale is not finite or cannot be decoded */
int nabla_encode_part(const nabla_codec *codec, const void *in, size_t count,
                      float absmax, uint8_t *codes, void *scale);

#endif
