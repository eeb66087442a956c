/* FP8 E5M2 for AVX2: the bits of quant/codec/fp8_e5m2.c. */
#include "quant/x86/codec/fp8_avx2.h"

FP8_STAGES(fp8_e5m2, e5m2)
