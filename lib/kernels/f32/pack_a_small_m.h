/* x in the form that panels are multiplied with: f32 in tiles of 16 elements of
 * `height` rows, one behind the other along k, in the order of panels; zeros
 * beyond K; rows beyond the last are the last again. */
#ifndef NABLA_KERNELS_F32_PACK_A_SMALL_M_H
#define NABLA_KERNELS_F32_PACK_A_SMALL_M_H

#include "lib/kernels/builder/emit.h"

/* How many elements of the workspace `height` rows take. */
nabla_ssa nabla_emit_pack_a_small_m_size(nabla_emitter *e, unsigned height);

/* Writes rows of x to the workspace: all that `prepare` does. */
void nabla_emit_pack_a_small_m(nabla_emitter *e, unsigned height);

#endif
