/* FP8 E5M2 for AVX-512: the bits of quant/codec/fp8_e5m2.c. */
#include "quant/x86/codec/fp8_avx512.h"

CODE_STAGES(fp8_e5m2, avx512, 8, e5m2_unit, no_tables, NO_TABLES, 77, 29)
