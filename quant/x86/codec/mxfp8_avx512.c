/* MXFP8 with E4M3 elements for AVX-512: the bits of quant/codec/mxfp8.c. */
#include "quant/x86/codec/mxfp8_avx512.h"

CODE_STAGES(mxfp8, avx512, 8, e4m3_unit, no_tables, NO_TABLES, 77, 29)

static const uint16_t first[8] = {0x0000, 0x3b00, 0x3b80, 0x3bc0,
                                  0x3c00, 0x3c20, 0x3c40, 0x3c60};
static const uint16_t last[8] = {0x4380, 0x4390, 0x43a0, 0x43b0,
                                 0x43c0, 0x43d0, 0x43e0, 0x7fc0};

DECODE_MX_STAGE(mxfp8, 3, 7, first, last, UINT32_C(1) << 31)
