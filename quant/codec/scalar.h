/* Inside quant/: the loops of the scalar stages. quant/codec/<id>.c brings
 * `code_of` and `value_of`, and makes its two stages with NABLA_SCALAR_STAGES.
 */
#ifndef NABLA_QUANT_CODEC_SCALAR_H
#define NABLA_QUANT_CODEC_SCALAR_H

#include <math.h>

#include "lib/base/floats.h"
#include "quant/codec/kernel.h"

static inline float nabla_load_value(const void *in, nabla_dtype dtype,
                                     size_t i) {
  if (dtype == NABLA_DTYPE_F32) {
    float value;
    memcpy(&value, (const uint8_t *)in + 4 * i, sizeof value);
    return value;
  }
  uint16_t half;
  memcpy(&half, (const uint8_t *)in + 2 * i, sizeof half);
  return dtype == NABLA_DTYPE_F16 ? nabla_f16_to_f32(half)
                                  : nabla_bf16_to_f32(half);
}

static inline void nabla_store_value(float value, nabla_dtype dtype, void *out,
                                     size_t i) {
  if (dtype == NABLA_DTYPE_F32) {
    memcpy((uint8_t *)out + 4 * i, &value, sizeof value);
    return;
  }
  const uint16_t half = dtype == NABLA_DTYPE_F16 ? nabla_f32_to_f16(value)
                                                 : nabla_f32_to_bf16(value);
  memcpy((uint8_t *)out + 2 * i, &half, sizeof half);
}

/* The scaled value (E2). */
static inline float nabla_scaled(float x, const nabla_scaler *s) {
  return isnan(s->factor) ? x / s->divisor * s->times : x * s->factor;
}

static inline float nabla_clamp(float x, float low, float high) {
  return x < low ? low : x > high ? high : x;
}

/* Rounds half to even, a zero point added (E3, E4); NaN gives `low`. */
static inline int nabla_round_code(float scaled, const nabla_scaler *s, int low,
                                   int high) {
  float q = rintf(scaled);
  if (s->has_zero) q += s->zero;
  if (!(q > (float)low)) return low;
  return q < (float)high ? (int)q : high;
}

static inline nabla_scaler nabla_scaler_of(const nabla_blocks *blocks,
                                           size_t b) {
  return (nabla_scaler){.scale = blocks->scales[b],
                        .zero = blocks->zeros ? blocks->zeros[b] : 0.0f,
                        .factor = blocks->factors[b],
                        .divisor = blocks->divisors[b],
                        .times = blocks->times,
                        .has_zero = blocks->zeros != NULL};
}

/* Puts code `i` into its byte; the first code of a byte clears it. */
static inline void nabla_put_code(uint8_t *codes, size_t i, unsigned bits,
                                  int high_first, uint8_t code) {
  const size_t per_byte = 8 / bits;
  const unsigned place = (unsigned)(i % per_byte);
  const unsigned shift = high_first ? 8 - bits - place * bits : place * bits;
  uint8_t *byte = &codes[i / per_byte];
  if (place == 0) *byte = 0;
  *byte = (uint8_t)(*byte | (unsigned)code << shift);
}

static inline uint8_t nabla_get_code(const uint8_t *codes, size_t i,
                                     unsigned bits, int high_first) {
  const size_t per_byte = 8 / bits;
  const unsigned place = (unsigned)(i % per_byte);
  const unsigned shift = high_first ? 8 - bits - place * bits : place * bits;
  return (uint8_t)((unsigned)codes[i / per_byte] >> shift & ((1u << bits) - 1));
}

/* How the codes of an encoding lie in bytes, and what they mean. */
typedef struct nabla_scalar_form {
  unsigned bits;
  int high_first;
  uint8_t (*code)(float, const nabla_scaler *);
  float (*value)(uint8_t);
} nabla_scalar_form;

static inline void nabla_scalar_code(const nabla_scalar_form *form,
                                     const nabla_blocks *blocks, const void *in,
                                     nabla_dtype dtype, size_t count,
                                     size_t block, uint8_t *codes) {
  const unsigned bits = form->bits;
  nabla_scaler s = {0};
  for (size_t i = 0; i < count; i++) {
    if (i % block == 0) s = nabla_scaler_of(blocks, i / block);
    nabla_put_code(codes, i, bits, form->high_first,
                   form->code(nabla_load_value(in, dtype, i), &s));
  }
  for (size_t i = count; i % (8 / bits); i++)
    nabla_put_code(codes, i, bits, form->high_first, form->code(0.0f, &s));
}

static inline void nabla_scalar_decode(const nabla_scalar_form *form,
                                       const nabla_blocks *blocks,
                                       const uint8_t *codes, size_t count,
                                       size_t block, nabla_dtype dtype,
                                       void *out) {
  for (size_t i = 0; i < count; i++) {
    const size_t b = i / block;
    float x =
        form->value(nabla_get_code(codes, i, form->bits, form->high_first));
    if (blocks->zeros) x -= blocks->zeros[b];
    x *= blocks->scales[b];
    if (blocks->after != 1.0f) x *= blocks->after;
    nabla_store_value(x, dtype, out, i);
  }
}

/* Defines nabla_<id>_code_scalar and nabla_<id>_decode_scalar. */
#define NABLA_SCALAR_STAGES(id, bits, high_first)                              \
  static const nabla_scalar_form id##_form = {bits, high_first, code_of,       \
                                              value_of};                       \
  void nabla_##id##_code_scalar(const nabla_blocks *blocks, const void *in,    \
                                nabla_dtype dtype, size_t count, size_t block, \
                                uint8_t *codes) {                              \
    nabla_scalar_code(&id##_form, blocks, in, dtype, count, block, codes);     \
  }                                                                            \
  void nabla_##id##_decode_scalar(                                             \
      const nabla_blocks *blocks, const uint8_t *codes, size_t count,          \
      size_t block, nabla_dtype dtype, void *out, int stream) {                \
    (void)stream;                                                              \
    nabla_scalar_decode(&id##_form, blocks, codes, count, block, dtype, out);  \
  }

#endif
