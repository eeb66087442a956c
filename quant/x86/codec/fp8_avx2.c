/* FP8 E4M3 for AVX2: the bits of quant/codec/fp8.c. */
#include "quant/x86/codec/fp8_avx2.h"

FP8_STAGES(fp8, e4m3)
