/* Encoding blocks of GGUF files as ggml's reference does (quantize_row_*_ref):
 * in f32, from the factor before it is rounded to f16, by its reciprocal. */
#include <math.h>

#include "lib/base/floats.h"
#include "quant/codec/ggml.h"

/* The value of the largest magnitude, the first of equals. */
static float largest(const nabla_ggml *format, const float *in) {
  float best = 0.0f;
  for (uint32_t i = 0; i < format->elements; i++)
    if (fabsf(in[i]) > fabsf(best)) best = in[i];
  return best;
}

static int put_half(uint8_t *out, uint32_t at, float value) {
  const uint16_t half = nabla_f32_to_f16(value);
  out[at] = (uint8_t)half;
  out[at + 1] = (uint8_t)(half >> 8);
  return (half & 0x7fff) < 0x7c00;
}

/* What values are multiplied with. A factor too small for a finite reciprocal
 * is 0 as f16: any code will do. */
static float reciprocal(float d) {
  const float by = 1.0f / d;
  return isfinite(by) ? by : 0.0f;
}

/* Puts a code where its bits belong, which are zero. */
static void put_code(const nabla_ggml_layout *l, uint32_t i, unsigned code,
                     uint8_t *out) {
  uint8_t *low = &out[nabla_ggml_code_byte(l, i)];
  *low = (uint8_t)(*low | (code & 15) << nabla_ggml_code_shift(l, i));
  if (!l->bits) return;
  uint8_t *high = &out[nabla_ggml_high_byte(l, i)];
  *high = (uint8_t)(*high | code >> 4 << nabla_ggml_high_shift(l, i));
}

/* trunc(x * by + half), not above `most`; x is shifted by what is added. */
static unsigned code_of(float x, float by, float half, unsigned most) {
  const float q = x * by + half;
  return q >= (float)most ? most : q > 0.0f ? (unsigned)q : 0;
}

/* A factor and integers around zero: the value of the largest magnitude has the
 * least code. */
static int encode_centred(const nabla_ggml *format, const float *in,
                          uint8_t *out) {
  const nabla_ggml_layout *l = format->layout;
  const float d = largest(format, in) / (float)-l->bias;
  const float by = reciprocal(d);
  for (uint32_t i = 0; i < format->elements; i++)
    put_code(
        l, i,
        code_of(in[i], by, (float)l->bias + 0.5f, 2 * (unsigned)l->bias - 1),
        out);
  return put_half(out, l->d, d);
}

static int encode_with_minimum(const nabla_ggml *format, const float *in,
                               uint8_t *out) {
  const nabla_ggml_layout *l = format->layout;
  float low = in[0], high = in[0];
  for (uint32_t i = 1; i < format->elements; i++) {
    if (in[i] < low) low = in[i];
    if (in[i] > high) high = in[i];
  }
  const float d = (high - low) / 15.0f, by = reciprocal(d);
  for (uint32_t i = 0; i < format->elements; i++)
    put_code(l, i, code_of(in[i] - low, by, 0.5f, 15), out);
  return put_half(out, l->d, d) & put_half(out, (uint32_t)l->min, low);
}

static int encode_bytes(const nabla_ggml *format, const float *in,
                        uint8_t *out) {
  const nabla_ggml_layout *l = format->layout;
  const float d = fabsf(largest(format, in)) / 127.0f, by = reciprocal(d);
  for (uint32_t i = 0; i < format->elements; i++)
    out[nabla_ggml_code_byte(l, i)] = (uint8_t)(int8_t)roundf(in[i] * by);
  return put_half(out, l->d, d);
}

/* The exponent byte for a largest magnitude. */
static uint8_t exponent_of(float magnitude) {
  if (magnitude == 0.0f) return 0;
  const float e = floorf((float)log2((double)magnitude)) - 2 + 127;
  return e > 0.0f ? (uint8_t)e : 0;
}

/* The nearest value of the table, the first of equals. */
static int encode_e2m1(const nabla_ggml *format, const float *in,
                       uint8_t *out) {
  const nabla_ggml_layout *l = format->layout;
  const uint8_t e = exponent_of(fabsf(largest(format, in)));
  const float d = nabla_f32_of_bits(nabla_ggml_e8m0_bits(e));
  out[l->d] = e;
  for (uint32_t i = 0; i < format->elements; i++) {
    unsigned best = 0;
    float least = fabsf(d * (float)l->table[0] - in[i]);
    for (unsigned code = 1; code < NABLA_GGML_TABLE_VALUES; code++) {
      const float error = fabsf(d * (float)l->table[code] - in[i]);
      if (error < least) least = error, best = code;
    }
    put_code(l, i, best, out);
  }
  return 1;
}

int nabla_ggml_encode_block(const nabla_ggml *format, const float *in,
                            uint8_t *out) {
  const nabla_ggml_layout *l = format->layout;
  memset(out, 0, format->bytes);
  if (l->is_e8m0) return encode_e2m1(format, in, out);
  if (!l->run) return encode_bytes(format, in, out);
  return l->min < 0 ? encode_centred(format, in, out)
                    : encode_with_minimum(format, in, out);
}
