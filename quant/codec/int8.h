/* Inside quant/: the numbers of INT8 that its kernels share. */
#ifndef NABLA_QUANT_CODEC_INT8_H
#define NABLA_QUANT_CODEC_INT8_H

/* 1/127 in f32, with which LLM.int8 decodes: bitsandbytes,
 * backends/default/ops.py (int8_vectorwise_dequant). */
#define NABLA_INT8_STEP 7.874015718698502e-3f

/* FLT_MAX/127 in f32: a row with this absmax and more is not encoded by
 * LLM.int8, since 127 times it is infinite. */
#define NABLA_LLM_INT8_LIMIT 0x1.020408p+121f

/* The scale of absmax FLT_MAX: the f32 below FLT_MAX/127, since 127 times the
 * rounded quotient is infinite. No other absmax is rounded up so far. */
#define NABLA_INT8_SCALE_MAX 0x1.020406p+121f

#endif
