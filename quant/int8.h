/* Inside quant/: the numbers of INT8 that its kernels share. */
#ifndef NABLA_QUANT_INT8_H
#define NABLA_QUANT_INT8_H

#include <float.h>

/* 1/127 in f32, with which LLM.int8 decodes: bitsandbytes,
 * backends/default/ops.py (int8_vectorwise_dequant). */
#define NABLA_INT8_STEP 7.874015718698502e-3f

/* From this magnitude up 127/absmax is finite: 2^-120, in f32 bits. (The exact
 * bound is near 2^-121; fast paths leave what is below to the scalar code.) */
#define NABLA_INT8_EASY 0x03800000u

/* The scale of a block: absmax/127, which for the largest float alone is
 * rounded up so far that 127 times it is infinite. That block gets the next
 * smaller scale, so that every finite block decodes to finite values. */
static inline float nabla_int8_scale(float absmax) {
  return absmax == FLT_MAX ? 0x1.020406p+121f : absmax / 127.0f;
}

#endif
