/* Largest magnitudes of blocks, and values that have them, for AVX-512: the
 * bits of quant/codec/stages.c. */
#include "quant/x86/encode/absmax_avx512.h"

ABSMAX_STAGES(avx512)
