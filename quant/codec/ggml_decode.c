/* What a block of a GGUF file decodes to: docs/FORMAT.md (G). Every product and
 * difference is rounded to f32, in the order that ggml has. */
#include "lib/base/floats.h"
#include "quant/codec/ggml.h"

static float half_at(const uint8_t *in, uint32_t at) {
  return nabla_f16_to_f32(nabla_load_le16(in + at));
}

static void add_upper_bits(const nabla_ggml_layout *l, const uint8_t *in,
                           uint32_t first, uint32_t count, int32_t *out) {
  const unsigned mask = (1u << l->bits) - 1;
  if (l->part < count) {
    for (uint32_t i = 0; i < count; i++) {
      const unsigned high = (unsigned)in[nabla_ggml_high_byte(l, first + i)];
      out[i] |=
          (int32_t)((high >> nabla_ggml_high_shift(l, first + i) & mask) << 4);
    }
    return;
  }
  const uint8_t *high = in + nabla_ggml_high_byte(l, first);
  const uint32_t shift = nabla_ggml_high_shift(l, first);
  for (uint32_t i = 0; i < count; i++)
    out[i] |= (int32_t)(((unsigned)high[i] >> shift & mask) << 4);
}

/* Codes that lie in one run of the layout, where it has such; their upper bits
 * do in one part, but where parts are single elements. */
static void codes_at(const nabla_ggml_layout *l, const uint8_t *in,
                     uint32_t first, uint32_t count, int32_t *out) {
  const uint8_t *low = in + nabla_ggml_code_byte(l, first);
  if (!l->run) {
    for (uint32_t i = 0; i < count; i++) out[i] = (int8_t)low[i];
    return;
  }
  const uint32_t shift = nabla_ggml_code_shift(l, first);
  const int32_t bias = l->bias;
  for (uint32_t i = 0; i < count; i++)
    out[i] = (int32_t)((unsigned)low[i] >> shift & 15);
  if (l->bits && l->part) add_upper_bits(l, in, first, count, out);
  if (l->table)
    for (uint32_t i = 0; i < count; i++) out[i] = l->table[out[i]];
  else
    for (uint32_t i = 0; i < count; i++) out[i] -= bias;
}

/* The factor and the minimum, of 6 bits, of part `j`: in 12 bytes are the lower
 * bits of the factors 0-3, then those of the minima 0-3, each below two upper
 * bits of the one four parts on; then nibbles of both for the parts 4-7. */
static void packed6(const uint8_t *in, uint32_t j, float *factor, float *min) {
  unsigned f = in[j % 4], m = in[4 + j % 4];
  if (j < 4) {
    *factor = (float)(f & 63);
    *min = (float)(m & 63);
    return;
  }
  *factor = (float)((in[4 + j] & 15u) | f >> 6 << 4);
  *min = (float)((unsigned)in[4 + j] >> 4 | m >> 6 << 4);
}

/* One factor, and what is added, for `count` elements from `first` on. */
static void decode_part(const nabla_ggml_layout *l, const uint8_t *in,
                        const float by[2], uint32_t first, uint32_t count,
                        float *out) {
  const uint32_t step = l->run && l->run < count ? l->run : count;
  const float factor = by[0], more = by[1];
  for (uint32_t i = first; i < first + count; i += step) {
    int32_t codes[NABLA_GGML_PACKED6_PART];
    codes_at(l, in, i, step, codes);
    float *to = out + i;
    for (uint32_t j = 0; j < step; j++) to[j] = factor * (float)codes[j];
    if (l->min < 0) continue;
    for (uint32_t j = 0; j < step; j++) to[j] += more;
  }
}

void nabla_ggml_decode_block(const nabla_ggml *format, const uint8_t *in,
                             float *out) {
  const nabla_ggml_layout *l = format->layout;
  const float d = l->is_e8m0 ? nabla_f32_of_bits(nabla_ggml_e8m0_bits(in[l->d]))
                             : half_at(in, l->d);
  const float min = l->min < 0 ? 0.0f : half_at(in, (uint32_t)l->min);
  const uint32_t part = l->sub == NABLA_GGML_SUB_NONE ? format->elements
                        : l->sub == NABLA_GGML_SUB_PACKED6
                            ? NABLA_GGML_PACKED6_PART
                            : NABLA_GGML_BYTES_PART;
  for (uint32_t j = 0; j < format->elements / part; j++) {
    float by[2] = {d, min}, factor, less;
    if (l->sub == NABLA_GGML_SUB_PACKED6) {
      packed6(in + l->sub_at, j, &factor, &less);
      by[0] = d * factor;
      by[1] = -(min * less);
    } else if (l->sub == NABLA_GGML_SUB_BYTES) {
      by[0] = d * (float)(int8_t)in[l->sub_at + j];
    }
    decode_part(l, in, by, j * part, part, out);
  }
}
