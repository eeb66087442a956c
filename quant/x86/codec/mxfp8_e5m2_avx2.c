/* MXFP8 with E5M2 elements for AVX2: the bits of quant/codec/mxfp8_e5m2.c. */
#include "quant/x86/codec/fp8_avx2.h"

FP8_STAGES(mxfp8_e5m2, e5m2)
