/* Largest magnitudes of blocks, and values that have them, for AVX2: the bits
 * of quant/stages.c. */
#include "quant/x86/absmax_avx2.h"

ABSMAX_STAGES(avx2)
