/* Scalar conversions of single floats. Narrowing rounds half to even and keeps
 * NaN a NaN (quiet, sign kept). */
#ifndef NABLA_BASE_FLOATS_H
#define NABLA_BASE_FLOATS_H

#include <stdint.h>

float nabla_f16_to_f32(uint16_t half);
uint16_t nabla_f32_to_f16(float value); /* overflow gives infinity */
float nabla_bf16_to_f32(uint16_t half);
uint16_t nabla_f32_to_bf16(float value); /* overflow gives infinity */

/* OCP 8-bit floating point (OFP8) 1.0: E4M3 has no infinity and one NaN per
 * sign (0x7f, 0xff), largest 448; E5M2 is IEEE-like, largest 57344. Narrowing
 * saturates: finite overflow and infinity give the largest value of the sign
 * (E4M3 NaN stays NaN; E5M2 infinity stays infinity only in widening). */
float nabla_f8e4m3_to_f32(uint8_t byte);
uint8_t nabla_f32_to_f8e4m3(float value);
float nabla_f8e5m2_to_f32(uint8_t byte);
uint8_t nabla_f32_to_f8e5m2(float value);

#endif
