/* FP8 E4M3 for AVX-512: the bits of quant/codec/fp8.c. */
#include "quant/x86/codec/fp8_avx512.h"

CODE_STAGES(fp8, avx512, 8, e4m3_unit, no_tables, NO_TABLES, 77, 29)
