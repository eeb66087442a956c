/* MXFP8 with E4M3 elements for AVX2: the bits of quant/codec/mxfp8.c. */
#include "quant/x86/codec/fp8_avx2.h"

FP8_STAGES(mxfp8, e4m3)
