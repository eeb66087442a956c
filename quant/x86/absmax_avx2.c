/* Largest magnitudes of blocks for AVX2: the bits of quant/stages.c. */
#include "quant/x86/absmax_avx2.h"

ABSMAX_STAGE(avx2)
