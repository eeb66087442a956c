/* Largest magnitudes of blocks, and values that have them, for AVX-512: the
 * bits of quant/stages.c. */
#include "quant/x86/absmax_avx512.h"

ABSMAX_STAGES(avx512)
