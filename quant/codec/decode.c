/* Widens what is stored with the codes, and decodes. */
#include <math.h>
#include <string.h>

#include "lib/base/floats.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"
#include "quant/codec/kernel.h"

/* Scales and zero points that are widened at a time. */
enum { WIDENED = 1024 };

typedef struct widened {
  float scales[WIDENED], zeros[WIDENED];
} widened;

static float widen_e8m0(uint8_t e) {
  if (e == 255) return NAN;
  return nabla_f32_of_bits(e ? (uint32_t)e << 23 : NABLA_F32_NORMAL / 2);
}

void nabla_scales_widen(nabla_scale_type type, const void *in, size_t count,
                        float *out) {
  const uint8_t *bytes = in;
  if (type == NABLA_SCALE_F16)
    nabla_to_f32(NABLA_DTYPE_F16, in, count, out);
  else if (type == NABLA_SCALE_BF16)
    nabla_to_f32(NABLA_DTYPE_BF16, in, count, out);
  else if (type == NABLA_SCALE_E8M0)
    for (size_t i = 0; i < count; i++) out[i] = widen_e8m0(bytes[i]);
  else
    for (size_t i = 0; i < count; i++)
      out[i] = nabla_f32_of_bits(nabla_load_le32(bytes + 4 * i));
}

static void widen(const nabla_codec *codec, const nabla_packed *in,
                  size_t count, widened *out) {
  if (nabla_scales_are_f32(&codec->format))
    memcpy(out->scales, in->scales, count * sizeof(float));
  else
    nabla_scales_widen(codec->format.scale, in->scales, count, out->scales);
  if (!codec->format.zero_point) return;
  const int is_signed = codec->format.encoding->bits == 8;
  for (size_t i = 0; i < count; i++)
    out->zeros[i] =
        is_signed ? (float)(int8_t)in->zero_points[i]
                  : (float)in->zero_points[i] - (float)codec->recipe->bias;
}

static void decode_span(const nabla_codec *codec, const nabla_packed *in,
                        size_t count, uint8_t *out, int stream) {
  const nabla_format *format = &codec->format;
  const size_t block = (size_t)format->block;
  const int direct = nabla_scales_are_f32(format) && !format->zero_point;
  const int regular = block >= NABLA_BLOCK_MIN && block <= NABLA_BLOCK_MAX &&
                      (block & (block - 1)) == 0;
  const size_t some = regular ? WIDENED : 1; /* blocks at a time */
  const size_t step = direct && regular ? count : some * block;
  nabla_blocks blocks = {
      .after = nabla_format_is_llm_int8(format) ? NABLA_INT8_STEP : 1.0f};
  widened wide;
  for (size_t at = 0; at < count; at += step) {
    const size_t size = count - at < step ? count - at : step;
    const nabla_packed part = nabla_packed_at(codec, in, at);
    blocks.scales = direct ? part.scales : wide.scales;
    if (!direct) widen(codec, &part, size / block + (size % block != 0), &wide);
    if (format->zero_point) blocks.zeros = wide.zeros;
    codec->stages->decode(&blocks, part.codes, size, regular ? block : size,
                          codec->dtype, out + at * nabla_value_width(codec),
                          stream);
  }
}

void nabla_decode(const nabla_codec *codec, const nabla_packed *in,
                  size_t count, void *out) {
  const size_t segment =
      codec->format.segment ? (size_t)codec->format.segment : count;
  const int stream = count >= NABLA_STREAM_BYTES / nabla_value_width(codec);
  nabla_codec flat = *codec;
  flat.format.segment = 0;
  for (size_t at = 0; at < count; at += segment) {
    const nabla_packed part = nabla_packed_at(codec, in, at);
    const size_t size = count - at < segment ? count - at : segment;
    decode_span(&flat, &part, size,
                (uint8_t *)out + at * nabla_value_width(codec), stream);
  }
}
