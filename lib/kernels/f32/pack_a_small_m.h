/* Packing of x for gemm_small_m.c: f32 in tiles of 16 elements of `height`
 * rows, consecutive along k, in the order of nabla_small_m_order; zeros beyond
 * K; rows beyond the last are the last row. */
#ifndef NABLA_KERNELS_F32_PACK_A_SMALL_M_H
#define NABLA_KERNELS_F32_PACK_A_SMALL_M_H

#include "lib/kernels/builder/emit.h"

/* How many elements of the workspace `height` rows take. */
nabla_ssa nabla_emit_pack_a_small_m_size(nabla_emitter *e, unsigned height);

/* The code of `prepare`: packs rows of x to the workspace. */
void nabla_emit_pack_a_small_m(nabla_emitter *e, unsigned height);

#endif
