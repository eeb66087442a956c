/* Largest magnitudes of blocks, and values that have them, for AVX2: the bits
 * of quant/codec/stages.c. */
#include "quant/x86/encode/absmax_avx2.h"

ABSMAX_STAGES(avx2)
