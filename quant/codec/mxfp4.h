/* Inside quant/: the numbers of MXFP4 that its kernels share.
 *
 * Source: OCP Microscaling Formats (MX) Specification 1.0, 5.3.3: E2M1. */
#ifndef NABLA_QUANT_CODEC_MXFP4_H
#define NABLA_QUANT_CODEC_MXFP4_H

#define NABLA_MXFP4_SIGN 8 /* this bit: the negatives */

/* The values of codes 0 to 15; code 8 is -0. */
static const float nabla_mxfp4_values[16] = {
    0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/* Midpoints of neighbouring magnitudes. A magnitude equal to one takes the
 * even code: the lower below those with an even index, else the upper. */
static const float nabla_mxfp4_midpoints[7] = {0.25f, 0.75f, 1.25f, 1.75f,
                                               2.5f,  3.5f,  5.0f};

#endif
