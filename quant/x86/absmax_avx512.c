/* Largest magnitudes of blocks for AVX-512: the bits of quant/stages.c. */
#include "quant/x86/absmax_avx512.h"

ABSMAX_STAGE(avx512)
