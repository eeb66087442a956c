/* MXFP8 with E5M2 elements for AVX-512: the bits of quant/codec/mxfp8_e5m2.c.
 */
#include "quant/x86/codec/mxfp8_avx512.h"

CODE_STAGES(mxfp8_e5m2, avx512, 8, e5m2_unit, no_tables, NO_TABLES, 77, 29)

static const uint16_t first[8] = {0x0000, 0x3780, 0x3800, 0x3840,
                                  0x3880, 0x38a0, 0x38c0, 0x38e0};
static const uint16_t last[8] = {0x4700, 0x4720, 0x4740, 0x4760,
                                 0x7f80, 0x7fe0, 0x7fc0, 0x7fe0};

DECODE_MX_STAGE(mxfp8_e5m2, 2, 15, first, last, UINT32_C(15) << 28)
