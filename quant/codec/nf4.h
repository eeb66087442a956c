/* Inside quant/: the numbers of NF4 that its kernels share.
 *
 * Source: bitsandbytes, functional.py (get_4bit_type, "nf4"), after appendix E
 * of Dettmers et al., "QLoRA", 2023; exact, as hexadecimal f32. */
#ifndef NABLA_QUANT_CODEC_NF4_H
#define NABLA_QUANT_CODEC_NF4_H

#define NABLA_NF4_ZERO 7 /* the code of 0.0 */

/* The values of codes 0 to 15. */
static const float nabla_nf4_values[16] = {
    -0x1p+0f,        -0x1.647362p-1f, -0x1.0cd66p-1f,  -0x1.94654p-2f,
    -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0.0f,
    0x1.45f5fep-4f,  0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,
    0x1.c3497p-2f,   0x1.200f56p-1f,  0x1.722766p-1f,  0x1p+0f};

/* The midpoints of neighbours, rounded to f32. The literals in bitsandbytes'
 * CUDA kernel differ from four of them by 1 ulp; its CPU backend does not. */
static const float nabla_nf4_thresholds[15] = {
    -0x1.b239bp-1f,  -0x1.38a4ep-1f,  -0x1.d709p-2f,   -0x1.5bd4ecp-2f,
    -0x1.e079d8p-3f, -0x1.1a7178p-3f, -0x1.74f0e2p-5f, 0x1.45f5fep-5f,
    0x1.ec90c4p-4f,  0x1.a0cfcp-3f,   0x1.2b05a8p-2f,  0x1.8ea7f2p-2f,
    0x1.00da08p-1f,  0x1.491b5ep-1f,  0x1.b913b4p-1f};

#endif
