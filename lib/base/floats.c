/* Scalar conversions between f32 and the narrow floats, in integer arithmetic,
 * so that neither the machine nor its rounding mode changes a bit. */
#include "lib/base/floats.h"

#include "lib/base/bytes.h"

#define F32_INFINITY 0x7f800000u
#define F32_QUIET    0x00400000u

/* Widens the magnitude of a finite number of `mantissa` bits below an exponent
 * with `bias` to the bits of an f32. Always exact. */
static uint32_t widen(uint32_t code, uint32_t mantissa, uint32_t bias) {
  if (code == 0) return 0;
  uint32_t exponent = code >> mantissa;
  uint32_t fraction = code & ((1u << mantissa) - 1);
  const uint32_t shift = 23 - mantissa;
  const uint32_t rebias = 127 - bias;
  if (exponent > 0) return (exponent + rebias) << 23 | fraction << shift;
  /* Subnormal: move its highest bit to where the implicit one stands. */
  const uint32_t up = mantissa - (31u - (uint32_t)__builtin_clz(fraction));
  fraction = fraction << up & ((1u << mantissa) - 1);
  exponent = rebias + 1 - up;
  return exponent << 23 | fraction << shift;
}

/* Rounds a finite f32 magnitude half to even. The result of a value too large
 * continues the number line beyond the largest code, for the caller to cut. */
static uint32_t narrow(uint32_t magnitude, uint32_t mantissa, uint32_t bias) {
  const uint32_t exponent = magnitude >> 23;
  const uint32_t smallest = 128 - bias; /* f32 exponent of its least normal */
  uint32_t shift = 23 - mantissa;
  uint32_t value = magnitude - ((smallest - 1) << 23);
  if (exponent < smallest) {
    shift += smallest - exponent;
    if (shift > 24) return 0; /* less than half of the least subnormal */
    value = (magnitude & 0x007fffffu) | 0x00800000u;
  }
  const uint32_t odd = value >> shift & 1;
  return (value + (1u << (shift - 1)) - 1 + odd) >> shift;
}

float nabla_f16_to_f32(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
  const uint32_t code = half & 0x7fff;
  uint32_t bits = widen(code, 10, 15);
  if (code >= 0x7c00) bits = F32_INFINITY | (code & 0x3ff) << 13;
  if (code > 0x7c00) bits |= F32_QUIET;
  return nabla_f32_of_bits(sign | bits);
}

uint16_t nabla_f32_to_f16(float value) {
  const uint32_t bits = nabla_bits_of_f32(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t code = 0x7c00;
  if (magnitude > F32_INFINITY)
    code = 0x7e00 | (magnitude >> 13 & 0x3ff); /* the payload's high bits */
  else if (magnitude < F32_INFINITY)
    code = narrow(magnitude, 10, 15);
  if (magnitude < F32_INFINITY && code > 0x7c00) code = 0x7c00;
  return (uint16_t)(sign | code);
}

float nabla_bf16_to_f32(uint16_t half) {
  return nabla_f32_of_bits((uint32_t)half << 16);
}

uint16_t nabla_f32_to_bf16(float value) {
  const uint32_t bits = nabla_bits_of_f32(value);
  const uint32_t odd = bits >> 16 & 1;
  const uint32_t rounded = (bits + 0x7fff + odd) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40;
  const int is_nan = (bits & 0x7fffffff) > F32_INFINITY;
  return (uint16_t)(is_nan ? quiet : rounded);
}

float nabla_f8e4m3_to_f32(uint8_t byte) {
  const uint32_t sign = (uint32_t)(byte & 0x80) << 24;
  const uint32_t code = byte & 0x7f;
  const uint32_t bits =
      code == 0x7f ? F32_INFINITY | F32_QUIET : widen(code, 3, 7);
  return nabla_f32_of_bits(sign | bits);
}

uint8_t nabla_f32_to_f8e4m3(float value) {
  const uint32_t bits = nabla_bits_of_f32(value);
  const uint32_t sign = bits >> 24 & 0x80;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t code = 0x7f; /* NaN */
  if (magnitude <= F32_INFINITY) {
    code = magnitude == F32_INFINITY ? 0x7e : narrow(magnitude, 3, 7);
    if (code > 0x7e) code = 0x7e; /* 448 */
  }
  return (uint8_t)(sign | code);
}

float nabla_f8e5m2_to_f32(uint8_t byte) {
  const uint32_t sign = (uint32_t)(byte & 0x80) << 24;
  const uint32_t code = byte & 0x7f;
  uint32_t bits = widen(code, 2, 15);
  if (code >= 0x7c) bits = F32_INFINITY | (code & 3) << 21;
  if (code > 0x7c) bits |= F32_QUIET;
  return nabla_f32_of_bits(sign | bits);
}

uint8_t nabla_f32_to_f8e5m2(float value) {
  const uint32_t bits = nabla_bits_of_f32(value);
  const uint32_t sign = bits >> 24 & 0x80;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t code = 0x7b; /* 57344 */
  if (magnitude > F32_INFINITY)
    code = 0x7e | (magnitude >> 21 & 3);
  else if (magnitude < F32_INFINITY)
    code = narrow(magnitude, 2, 15);
  if (magnitude <= F32_INFINITY && code > 0x7b) code = 0x7b;
  return (uint8_t)(sign | code);
}
