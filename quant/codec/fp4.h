/* Inside quant/: the numbers of FP4 that its kernels share.
 *
 * Source: bitsandbytes, csrc/kernels.cu (dQuantizeFP4, dDequantizeFP4Tree). */
#ifndef NABLA_QUANT_CODEC_FP4_H
#define NABLA_QUANT_CODEC_FP4_H

#define NABLA_FP4_ZERO 0 /* the code of 0.0         */
#define NABLA_FP4_SIGN 8 /* this bit: the negatives */

/* The values of codes 0 to 15: 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4 in f32 and
 * their negatives; code 8 is -0. */
static const float nabla_fp4_values[16] = {0.0f,
                                           0x1.555556p-8f,
                                           0x1.555556p-1f,
                                           1.0f,
                                           0x1.555556p-2f,
                                           0.5f,
                                           0x1.555556p-3f,
                                           0.25f,
                                           -0.0f,
                                           -0x1.555556p-8f,
                                           -0x1.555556p-1f,
                                           -1.0f,
                                           -0x1.555556p-2f,
                                           -0.5f,
                                           -0x1.555556p-3f,
                                           -0.25f};

/* Rising bounds between neighbouring magnitudes, as the CUDA kernel spells
 * them; a magnitude equal to one takes the smaller. */
static const float nabla_fp4_thresholds[7] = {
    0.00260417f, 0.0859375f, 0.20833333f, 0.29166667f,
    0.4166667f,  0.583333f,  0.8333333f};

/* The codes of the magnitudes, from the smallest. */
static const unsigned char nabla_fp4_codes[8] = {0, 1, 6, 7, 4, 5, 2, 3};

#endif
