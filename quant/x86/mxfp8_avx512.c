/* MXFP8 with E4M3 elements for AVX-512: the bits of quant/mxfp8.c. */
#include "quant/x86/fp8_avx512.h"

CODE_STAGES(mxfp8, avx512, 8, e4m3_unit, no_tables, NO_TABLES, 77, 29)
